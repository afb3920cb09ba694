#!/bin/sh
# Builds, checks, times and sanitizes the sm90 forward rows on a machine with a Hopper GPU, nvcc, gcc and torch:
# bench/hopper_check.sh FOLDER [SECONDS for the timing [PART of bench/hopper_bench.py ...]]
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."

folder=${1:-build-hopper}
seconds=${2:-300}
shift "$(($# < 2 ? $# : 2))"
mkdir -p "$folder"
start=$(date +%s)
bench/cuda_rows_build.sh "$folder/rows" sm_90a
bench/cuda_rows_build.sh "$folder/by_maximum" sm_90a "$(nproc)" '_d(64|128)_(full|causal)(_short)?,' \
    -DATTUNE_SM90_BY_MAXIMUM
echo "built in $(($(date +%s) - start)) s"
library=$folder/rows/cuda_rows.so
export BY_MAXIMUM="$folder/by_maximum/cuda_rows.so"

# Each part in a process of its own, since a kernel that hangs or faults takes its process with it.
for dtype in bf16 f16; do
    for part in d64 d96 d128 d192_128 d192 d256 other streams; do
        timeout 100 python3 bench/hopper_check.py "$library" $dtype $part >"$folder/check-$dtype-$part.txt" 2>&1 ||
            echo "$dtype $part FAILED ($?)" >>"$folder/check-$dtype-$part.txt" &
    done
    wait
done
echo "checked after $(($(date +%s) - start)) s"
for file in "$folder"/check-*.txt; do
    grep FAIL "$file" | head -4 | cut -c 1-300 || true
done
for file in "$folder"/check-*.txt; do
    tail -n 1 "$file" | cut -c 1-200
done

timeout "$seconds" python3 bench/hopper_bench.py "$library" "$folder/bench.csv" "$@" >"$folder/bench.txt" 2>&1 ||
    echo "the timing FAILED ($?)" >>"$folder/bench.txt"
cat "$folder/bench.txt"
echo "timed after $(($(date +%s) - start)) s"

bench/hopper_sanitize.sh "$library" "$folder"
echo "sanitized after $(($(date +%s) - start)) s"
