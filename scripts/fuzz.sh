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
command -v c++ >/dev/null || { echo "libFuzzer needs a C++ compiler: apt-get install g++" >&2; exit 1; }
# What cargo-fuzz would set. The server's allocator and the address sanitizer exclude each other, so there is none. The
# coverage pass is unstable; the pinned toolchain takes it with RUSTC_BOOTSTRAP.
flags=(
    --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions
)
host=$(rustc -vV | sed -n 's/^host: //p')
# With a named target the flags are not those of build scripts, which lack the fuzzer's hooks.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="${flags[*]}" cargo build --locked --quiet --release --manifest-path fuzz/Cargo.toml \
    --target "$host" --target-dir fuzz/target
# As many at once as there are cores; what each says is shown when it ends.
run() {
    local target=$1 said status=0
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    said=$(mktemp)
    "fuzz/target/$host/release/$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -artifact_prefix="fuzz/artifacts/$target/" \
        -max_total_time="$seconds" -max_len=65536 -print_final_stats=1 >"$said" 2>&1 || status=$?
    printf '=== %s\n' "$target"
    cat "$said"
    rm -f "$said"
    return "$status"
}
export -f run
export host seconds
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I TARGET bash -c 'run TARGET'
