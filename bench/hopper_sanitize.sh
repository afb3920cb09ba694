#!/bin/sh
# Runs every sm90 forward row under memcheck, racecheck and initcheck: bench/hopper_sanitize.sh cuda_rows.so FOLDER [SECONDS]
# SPDX-License-Identifier: Apache-2.0
set -eu
library=$1
folder=$2
limit=${3:-120}
directory=$(dirname "$0")
sanitizer=${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer
export PYTORCH_NO_CUDA_MEMORY_CACHING=1
for tool in memcheck racecheck initcheck; do
    timeout "$limit" "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
        python3 "$directory/hopper_sanitize.py" "$library" >"$folder/$tool.txt" 2>&1 ||
        echo "$tool FAILED ($?)" >>"$folder/$tool.txt" &
done
wait
for tool in memcheck racecheck initcheck; do
    echo "$tool: $(tail -n 2 "$folder/$tool.txt" | tr '\n' ' ' | cut -c 1-200)"
    grep -m 3 -A 6 -E 'Error:|hazard|Invalid|Uninitialized' "$folder/$tool.txt" | cut -c 1-160 || true
done
