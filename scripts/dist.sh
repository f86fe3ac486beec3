#!/usr/bin/env bash
# scripts/dist.sh [TARGET ...]: a tarball with its SHA-256 and its SBOM for each target, into target/dist. Without arguments for this
# machine's and, where a cross compiler is installed (gcc-aarch64-linux-gnu, rustup target), for aarch64; that one is tried
# under qemu-user where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
arm=aarch64-unknown-linux-gnu
host=$(rustc -vV | sed -n 's/^host: //p')
targets=("$@")
if ((${#targets[@]} == 0)); then
    targets=("$host")
    if [[ $host != "$arm" ]] && command -v aarch64-linux-gnu-gcc >/dev/null && rustup target list --installed | grep -qx "$arm"; then
        targets+=("$arm")
    else
        echo "no cross compiler for $arm: this machine's tarball alone" >&2
    fi
fi
version=$(python3 -c 'import tomllib; print(tomllib.load(open("Cargo.toml", "rb"))["workspace"]["package"]["version"])')
mkdir -p target/dist
try() { # try NAME RUNNER...: starts, writes, stops, reads again
    local name=$1 work port=${PORT:-24791} server i
    shift
    work=$(mktemp -d)
    for want in none hello; do
        "$@" target/dist/"$name"/sexton-server --port "$port" --dir "$work" >"$work.log" 2>&1 &
        server=$!
        for ((i = 0; i < 600; i++)); do
            [[ $(redis-cli -p "$port" PING 2>&1) == PONG ]] && break
            sleep 0.1
        done
        [[ $want == none || $(redis-cli -p "$port" GET greeting) == "$want" ]] || { tail "$work.log"; echo "$name: GET failed" >&2; return 1; }
        redis-cli -e -p "$port" SET greeting hello >/dev/null
        kill "$server"
        wait "$server" || { tail "$work.log"; echo "$name: SIGTERM: code $?" >&2; return 1; }
    done
    "$@" target/dist/"$name"/sexton-check --quiet "$work" | grep -qx 'nothing is wrong'
    rm -rf "$work" "$work.log"
    echo "ok: $name writes, stops, starts and reads; sexton-check finds nothing wrong"
}
for target in "${targets[@]}"; do
    name=sexton-$version-${target%%-*}-linux
    cargo build --release --locked --target "$target" --bin sexton-server --bin sexton-check
    rm -rf "target/dist/$name"
    mkdir -p "target/dist/$name"
    cp config/sexton.conf LICENSE README.md CHANGELOG.md packaging/sexton.service packaging/sexton-server.1 "target/dist/$name/"
    strip=strip
    [[ $target == "$arm" && $host != "$arm" ]] && strip=aarch64-linux-gnu-strip
    # The names of functions stay, for the stack in the report of a crash.
    for program in sexton-server sexton-check; do
        "$strip" --strip-debug -o "target/dist/$name/$program" "target/$target/release/$program"
    done
    runner=()
    [[ $target == "$host" ]] || runner=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
    if ((${#runner[@]} == 0)) || command -v "${runner[0]}" >/dev/null; then
        "${runner[@]}" "target/dist/$name/sexton-check" --man >"target/dist/$name/sexton-check.1"
        try "$name" "${runner[@]}"
    fi
    python3 scripts/sbom.py "$target" >"target/dist/$name.cdx.json"
    tar -C target/dist --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct 2>/dev/null || date +%s)" \
        -czf "target/dist/$name.tar.gz" "$name"
    (cd target/dist && sha256sum "$name.tar.gz" "$name.cdx.json" >"$name.sha256")
    rm -rf "target/dist/$name"
done
ls -l target/dist
