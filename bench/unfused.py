#!/usr/bin/env python3
"""A table of attention fused and unfused, in one build.

    unfused.py [--build build] [--lengths 1024,2048,4096] [--threads 1,2] [--heads 4] [--head-dim 64] [--turns 7]

Unfused is a matrix product, a softmax and a matrix product over whole matrices, from the very products that the portable
kernel uses (bench/unfused). Each of its products stands beside OpenBLAS's on the same matrices, in the same turn. OpenBLAS
is held to the instruction set that the build is for: x86-64 as compilers take it has SSE2 and registers of 128 bits
without fused multiply-add, so its cores without AVX take part, and the fastest counts for each product.

The table: milliseconds of both (medians of turns), how many times faster fused is, the memory that each takes besides
q, k, v and o, GFLOP/s of the two products, and OpenBLAS's. Exit status 1: two results differ by more than 1e-5.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

# Cores of OpenBLAS with registers of 128 bits. Opteron's has instructions that other makers' processors lack.
CORES = ["Prescott", "Core2", "Penryn", "Nehalem", "Barcelona", "Atom"]


def numbers(text):
    return [int(word) for word in text.split(",")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--lengths", type=numbers, default=[1024, 2048, 4096])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--cores", default=",".join(CORES), help="of OpenBLAS; of another build's instruction set")
    return parser.parse_args()


def measure(options, mask, threads, length, core, turns):
    words = [options.build / "bench/attune-unfused", mask, threads, options.heads, options.head_dim, length, turns]
    variables = {"ATTUNE_NUM_THREADS": str(threads), "OPENBLAS_CORETYPE": core}
    result = subprocess.run([str(word) for word in words], env=os.environ | variables, stdout=subprocess.PIPE, text=True)
    if result.returncode < 0:
        print(f"{core}: not on this processor", file=sys.stderr)
        return None
    if result.returncode > 0:
        sys.exit(result.stdout.strip() or 1)
    return json.loads(result.stdout)


def fastest_cores(options, threads):
    """Of each product, the core of OpenBLAS that is fastest at the middle length."""
    length = options.lengths[len(options.lengths) // 2]
    rates = [measure(options, "full", threads, length, core, 3) for core in options.cores.split(",")]
    rates = [rate for rate in rates if rate and "blas_core" in rate]
    if not rates:
        print("libopenblas.so.0 is not there: the products stand alone", file=sys.stderr)
        return {}
    return {product: max(rates, key=lambda rate: rate[f"blas_{product}_gflops"])["blas_core"]
            for product in ("scores", "values")}


def megabytes(count):
    return f"{count / 1e6:.1f}"


def print_row(options, mask, threads, length, cores):
    blas = {core: measure(options, mask, threads, length, core, options.turns)
            for core in sorted(set(cores.values()) or {"Core2"})}
    row = next(iter(blas.values()))
    cells = [f"{row['fused_seconds'] * 1e3:.1f}", f"{row['unfused_seconds'] * 1e3:.1f}",
             f"{row['unfused_seconds'] / row['fused_seconds']:.2f}",
             f"{megabytes(row['fused_bytes'])} / {megabytes(row['unfused_bytes'])}"]
    for product in ("scores", "values"):
        ours = blas[cores[product]] if cores else row
        peer = f" / {ours[f'blas_{product}_gflops']:.1f} {cores[product]}" if cores else ""
        cells.append(f"{ours[f'{product}_gflops']:.1f}{peer}")
    print(f"| {threads} | {mask} | {length} | " + " | ".join(cells) + " |", flush=True)


def main():
    options = arguments()
    print(f"{options.heads} heads of {options.head_dim}, f32, medians of {options.turns}\n")
    print("| threads | mask | length | fused ms | unfused ms | times | MB beside tensors, fused / unfused |"
          " Q K^T GFLOP/s, ours / OpenBLAS | P V, ours / OpenBLAS |")
    print("| --- " * 9 + "|")
    for threads in options.threads:
        cores = fastest_cores(options, threads)
        for mask in ("causal", "full"):
            for length in options.lengths:
                print_row(options, mask, threads, length, cores)


main()
