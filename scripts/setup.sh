#!/usr/bin/env bash
# Prepares a Debian machine with a Rust toolchain.
#
#   scripts/setup.sh run     what building and running the server needs
#   scripts/setup.sh test    that, and what the tests and comparison runs need
#   scripts/setup.sh studies that, and what the studies use where they find it: block devices with a timing model,
#                            RocksDB's db_bench, persistent memory
#
# Missing Debian packages are installed when run as root, otherwise named in one line. Nothing that is
# installed here is left running.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-test}

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

missing=()
need() { # need PROGRAM-OR-FILE PACKAGE...
    local what=$1
    shift
    if [[ $what == /* ]]; then
        compgen -G "$what" >/dev/null || missing+=("$@")
    else
        command -v "$what" >/dev/null || missing+=("$@")
    fi
}

# rustup puts cargo here without touching the PATH of a shell that is already open.
[[ -d $HOME/.cargo/bin ]] && PATH=$PATH:$HOME/.cargo/bin
command -v cargo >/dev/null || fail "no Rust toolchain: install one from https://rustup.rs"

need cc gcc libc6-dev
need make make # jemalloc's own build
if [[ $purpose != run ]]; then
    need /usr/bin/redis-server redis-server
    need /usr/bin/redis-cli redis-tools
    need '/usr/lib/*/libjemalloc.so.2' libjemalloc2
    need '/usr/lib/*/libpmem.so.1' libpmem1
    need strace strace
    need tclsh tcl
    need '/usr/lib/tcltk/*/tcltls*/tcltls.so' tcl-tls
    need openssl openssl
    need python3 python3
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
    if [[ $purpose == studies ]]; then
        need nbdkit nbdkit
        need /usr/include/nbdkit-plugin.h nbdkit-plugin-dev
        need nbdfuse libnbd-bin
        need fusermount3 fuse3
        need mkfs.ext4 e2fsprogs
        need db_bench rocksdb-tools
        need '/usr/lib/*/libpmem.so.1' libpmem1
    fi
    command -v node >/dev/null && command -v npm >/dev/null || missing+=(nodejs npm)
fi

if ((${#missing[@]})); then
    if [[ $(id -u) -ne 0 ]]; then
        fail "missing Debian packages, please run: sudo apt-get install ${missing[*]}"
    fi
    say "installing ${missing[*]}"
    # Debian starts a service it installs; 101 from policy-rc.d forbids it for the time being.
    policy=/usr/sbin/policy-rc.d
    if [[ ! -e $policy ]]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
        trap 'rm -f "$policy"' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
[[ $purpose != run ]] || exit 0

if ! cmp -s tests/requirements.txt .venv/requirements.txt; then
    say "Python packages into .venv"
    python3 -m venv .venv
    .venv/bin/pip install -q --disable-pip-version-check -r tests/requirements.txt
    cp tests/requirements.txt .venv/requirements.txt
fi

clients=tests/e2e/node_client
if ! cmp -s "$clients/package-lock.json" "$clients/node_modules/package-lock.json"; then
    say "Node client into $clients/node_modules"
    (cd "$clients" && npm ci --silent --no-audit --no-fund 2>/dev/null || npm install --silent --no-audit --no-fund)
    cp "$clients/package-lock.json" "$clients/node_modules/package-lock.json"
fi
