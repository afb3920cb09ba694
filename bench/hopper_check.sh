#!/bin/sh
# Builds, checks and times the sm90 forward rows on a machine with a Hopper GPU, nvcc, gcc and torch:
# bench/hopper_check.sh [FOLDER for the build and the results]
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."

folder=${1:-build-hopper}
mkdir -p "$folder"
start=$(date +%s)
bench/cuda_rows_build.sh "$folder/rows" sm_90a
echo "built in $(($(date +%s) - start)) s"

# Each part in a process of its own, since a kernel that hangs or faults takes its process with it.
library=$folder/rows/cuda_rows.so
for dtype in bf16 f16; do
    for part in d64 d96 d128 d192_128 d192 d256 other streams; do
        timeout 200 python3 bench/hopper_check.py "$library" $dtype $part >"$folder/check-$dtype-$part.txt" 2>&1 ||
            echo "$dtype $part FAILED ($?)" >>"$folder/check-$dtype-$part.txt" &
    done
    wait
done
echo "checked after $(($(date +%s) - start)) s"

timeout 200 python3 bench/hopper_bench.py "$library" "$folder/bench.csv" >"$folder/bench.txt" 2>&1 ||
    echo "the timing FAILED" >>"$folder/bench.txt"
echo "timed after $(($(date +%s) - start)) s"
for file in "$folder"/check-*.txt; do
    grep FAIL "$file" | head -4 | cut -c 1-300 || true
done
for file in "$folder"/check-*.txt; do
    tail -n 1 "$file" | cut -c 1-200
done
cat "$folder/bench.txt"
