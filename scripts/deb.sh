#!/usr/bin/env bash
# scripts/deb.sh: builds the Debian package into target/debian. The tool cargo-deb is installed where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v cargo-deb >/dev/null || cargo install --locked --version '^3' cargo-deb
cargo build --release --locked --bin sexton-server --bin sexton-check
mkdir -p target/packaging
for program in sexton-server sexton-check; do
    strip --strip-debug -o target/packaging/$program target/release/$program
done
target/release/sexton-check --man >target/packaging/sexton-check.1
target/release/sexton-check --completion bash >target/packaging/sexton-check.bash
version=$(cargo metadata --no-deps --format-version 1 | python3 -c 'import json, sys
print(next(p["version"] for p in json.load(sys.stdin)["packages"] if p["name"] == "sexton"))')
# Debian wants a changelog of its own form; CHANGELOG.md has what changed.
date=$(git log -1 --format=%cD 2>/dev/null || date -R)
printf 'sexton (%s-1) unstable; urgency=medium\n\n  * See CHANGELOG.md of version %s.\n\n -- The Sexton authors <maintainers@sexton.example>  %s\n' \
    "$version" "$version" "$date" >target/packaging/changelog.Debian
cargo deb --no-build --locked -p sexton
ls -l target/debian/*.deb
if command -v lintian >/dev/null; then lintian --fail-on error target/debian/sexton_"$version"*.deb; fi
