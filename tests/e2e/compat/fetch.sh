#!/usr/bin/env bash
# Unpacks the tests of redis-server 7.0.15 from Debian's source package into DIR: fetch.sh DIR
#
# The machine's own package sources say where the source package lies. Nothing outside DIR changes, and no root is
# needed. A directory that has the tests already is left as it is. Whatever goes wrong is said, and the exit code is 1.
set -euo pipefail
directory=${1:?usage: fetch.sh DIR}
version=7.0.15

fail() { printf 'compat: cannot get the tests of redis-server %s: %s\n' "$version" "$*" >&2; exit 1; }

[[ -f $directory/tests/test_helper.tcl && -f $directory/complete ]] && exit 0
command -v apt-get >/dev/null || fail "apt-get is missing, they come with Debian's source package"
shopt -s nullglob
lists=(/etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources)
# The archive's address: the first that ends in /debian, in either format of source lists.
archive=$(sed -e '/^[[:space:]]*#/d' "${lists[@]}" 2>/dev/null | grep -oE '[a-z]+://[^] ]+/debian/?([[:space:]]|$)' | head -n 1 | tr -d '[:space:]' || true)
[[ -n $archive ]] || fail "no Debian archive among the machine's package sources"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[[ -f $keyring ]] || fail "$keyring is missing"

mkdir -p "$directory"
directory=$(cd "$directory" && pwd)
scratch=$(mktemp -d "$directory/fetch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/lists/partial" "$scratch/archives/partial"
printf 'deb-src [signed-by=%s] %s bookworm main\n' "$keyring" "$archive" >"$scratch/sources.list"
apt() {
    apt-get -qq -o Dir::Etc::SourceList="$scratch/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State="$scratch" -o Dir::State::Lists="$scratch/lists" -o Dir::Cache="$scratch" \
        -o APT::Sandbox::User= -o Acquire::Retries=3 "$@"
}
apt update >"$scratch/log" 2>&1 || fail "apt-get update: $(tail -n 3 "$scratch/log")"
(cd "$scratch" && apt source --download-only redis) >"$scratch/log" 2>&1 || fail "apt-get source: $(tail -n 3 "$scratch/log")"
tarball=$scratch/redis_$version.orig.tar.gz
[[ -f $tarball ]] || fail "the archive has another version: $(cd "$scratch" && echo redis_*)"
tar -xzf "$tarball" -C "$directory" --strip-components=1 --wildcards --no-wildcards-match-slash '*/tests' '*/redis.conf' '*/sentinel.conf' '*/COPYING' \
    || fail "$tarball cannot be unpacked"
[[ -f $directory/tests/test_helper.tcl ]] || fail "the source package has no tests"
touch "$directory/complete"
