#!/usr/bin/env bash
# scripts/sanitize.sh address|thread [TEST FILTER]: the tests of the engine and the persistence crate, with the
# standard library built anew under the sanitizer, so that its locks and atomics are seen too.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:?address or thread}
shift
case $kind in address | thread) ;; *) echo "unknown sanitizer: $kind" >&2; exit 2 ;; esac
host=$(rustc -vV | sed -n 's/^host: //p')
rustup component add rust-src >/dev/null 2>&1 || { echo "needs the standard library's source: rustup component add rust-src" >&2; exit 1; }
# Sanitizers and the rebuilt library are unstable; the pinned toolchain takes them with this variable.
export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=$kind" CARGO_TARGET_DIR=target/sanitize-$kind
# Unoptimised code takes minutes where optimised takes seconds; overflow and debug checks stay on.
export CARGO_PROFILE_TEST_OPT_LEVEL=2
export TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}" ASAN_OPTIONS="detect_leaks=0 ${ASAN_OPTIONS:-}"
exec cargo test --locked -Zbuild-std --target "$host" -p sexton-persistence -p sexton-engine --lib -- "$@"
