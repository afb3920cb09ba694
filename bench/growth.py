#!/usr/bin/env python3
"""How time and memory grow with the length, and what a sliding window saves, by `attune run --memory`.

    growth.py [--command build/attune] [--backend cpu] [--lengths 2048,4096,8192,16384] [--window 4096] [--turns 3]

Forward and backward of one head, full, f32. Time is held to c * length^2: the c of the middle of all deviations, as
ratios; memory to a straight line through the first and last length. Above the tensors: the most that the process held
at once, less the tensors that it had to hold. Then forward alone, causal, with and without the window, in turn. Of
turns the fastest counts: other processes only ever take time.
Exit status 1: a deviation above 10%, 100 MB or more above the tensors, or the window less than 7 times faster.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import subprocess
import sys
import tempfile

import numpy as np

TIME_DEVIATION_MAX = 0.1
ABOVE_TENSORS_MAX = 100e6
WINDOW_GAIN_MIN = 7


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", default="build/attune")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--lengths", type=lambda text: [int(word) for word in text.split(",")],
                        default=[2048, 4096, 8192, 16384])
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--window", type=int, default=4096)
    parser.add_argument("--window-length", type=int, default=65536, help="0: no window is measured")
    parser.add_argument("--turns", type=int, default=3)
    return parser.parse_args()


def save(folder, names, length, head_dim):
    generator = np.random.default_rng(length)
    for name in names:
        np.save(f"{folder}/{name}.npy", generator.standard_normal((1, length, 1, head_dim), dtype=np.float32))


# A process starts with the peak of the one that forked it: a small one, not this one.
SMALL_PARENT = ["sh", "-c", '"$@"; exit $?', "sh"]


def run(options, folder, *words):
    files = [word for name in "qkv" for word in (f"--{name}", f"{folder}/{name}.npy")]
    line = [options.command, "run", "--backend", options.backend, "--memory", "--json", *files, *words]
    result = subprocess.run([*SMALL_PARENT, *line], stdout=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit(f"{line}: exit status {result.returncode}")
    return json.loads(result.stdout)


def outputs(folder, names):
    return [word for name in names for word in ("-o" if name == "o" else f"--{name}", f"{folder}/{name}_out.npy")]


# ---- Growth ----


def measure(options, folder, length):
    """Of one length: seconds of each pass, and the report of memory, of the turn with the least time."""
    save(folder, ["q", "k", "v", "do"], length, options.head_dim)
    words = ["--do", f"{folder}/do.npy", *outputs(folder, ["o", "lse", "dq", "dk", "dv"])]
    turns = [run(options, folder, *words, "--repeat", "1") for _ in range(options.turns)]
    seconds = [min(turn["passes"][n]["fastest_seconds"] for turn in turns) for n in range(2)]
    return {"length": length, "seconds": seconds, "memory": turns[0]["memory"]}


def deviations(points):
    """Of each point's time from c * length^2, c in the middle, as ratios."""
    rates = [sum(point["seconds"]) / point["length"] ** 2 for point in points]
    middle = (min(rates) * max(rates)) ** 0.5
    return [rate / middle - 1 for rate in rates]


def off_the_line(points, name):
    """Of each point's memory from the line through the ends, as ratios."""
    first, last = points[0], points[-1]
    slope = (last["memory"][name] - first["memory"][name]) / (last["length"] - first["length"])
    return [point["memory"][name] / (first["memory"][name] + slope * (point["length"] - first["length"])) - 1
            for point in points]


def print_growth(points):
    print("| length | forward ms | backward ms | off c * length^2 | tensors MB | workspace MB | peak MB | off a line |"
          " process above tensors MB |")
    print("| --- " * 9 + "|")
    for point, off, line in zip(points, deviations(points), off_the_line(points, "peak_bytes")):
        memory = point["memory"]
        print(f"| {point['length']} | {point['seconds'][0] * 1e3:.1f} | {point['seconds'][1] * 1e3:.1f} | {off:+.1%} |"
              f" {memory['tensor_bytes'] / 1e6:.2f} | {memory['workspace_bytes'] / 1e6:.2f} |"
              f" {memory['peak_bytes'] / 1e6:.2f} | {line:+.1%} |"
              f" {(memory['process_peak_bytes'] - memory['tensor_bytes']) / 1e6:.1f} |", flush=True)
    is_quadratic = max(map(abs, deviations(points))) <= TIME_DEVIATION_MAX
    is_linear = max(map(abs, off_the_line(points, "peak_bytes"))) <= TIME_DEVIATION_MAX
    above = max(point["memory"]["process_peak_bytes"] - point["memory"]["tensor_bytes"] for point in points)
    return is_quadratic and is_linear and above < ABOVE_TENSORS_MAX


# ---- A window ----


def window(options, folder):
    save(folder, ["q", "k", "v"], options.window_length, options.head_dim)
    words = ["--causal", *outputs(folder, ["o"]), "--repeat", "1"]
    times = {"dense": [], "window": []}
    for _ in range(options.turns):
        times["dense"].append(run(options, folder, *words))
        times["window"].append(run(options, folder, *words, "--window", f"{options.window},0"))
    dense, windowed = (min(turn["passes"][0]["fastest_seconds"] for turn in turns) for turns in times.values())
    length = options.window_length
    pairs = length * (length + 1) / 2
    seen = pairs - (length - options.window) * (length - options.window - 1) / 2
    print(f"\ncausal, {length} tokens: dense {dense:.2f} s, window of {options.window} {windowed:.2f} s:"
          f" {dense / windowed:.2f} times faster with {pairs / seen:.2f} times less work")
    return dense / windowed >= WINDOW_GAIN_MIN


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        is_right = print_growth([measure(options, folder, length) for length in options.lengths])
        if options.window_length:
            is_right = window(options, folder) and is_right
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
