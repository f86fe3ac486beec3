#!/usr/bin/env bash
# scripts/fuzz.sh [SECONDS] [TARGET...]: coverage-guided fuzzing, SECONDS for each target (default 600).
# Found inputs are below fuzz/corpus, crashing ones below fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
shift || true
targets=("$@")
((${#targets[@]})) || targets=(scanner config rdb aof pmem)
export PATH="$PATH:$HOME/.cargo/bin"
# libFuzzer's hooks are an unstable compiler flag; the pinned toolchain takes it with this variable.
export RUSTC_BOOTSTRAP=1
command -v cargo-fuzz >/dev/null || cargo install --quiet cargo-fuzz
command -v c++ >/dev/null || { echo "libFuzzer needs a C++ compiler: apt-get install g++" >&2; exit 1; }
failed=0
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target"
    # The server's allocator and the address sanitizer exclude each other.
    cargo fuzz run --sanitizer none "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time="$seconds" -max_len=65536 -print_final_stats=1 || failed=1
done
exit $failed
