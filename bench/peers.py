#!/usr/bin/env python3
"""Measures attune beside its peers, on the same tensors, in one process, call by call in turn.

    peers.py --library build/libattune.so [--csv FILE] [options]

Forward and backward: batch x length = 16384 tokens, hidden size 2048. Small: forward of one prompt of a few heads, or
of a chunk of its rows. Decode: one row. The lists of both are in cells.py. attune's result is checked against float64
before a cell is timed; times are medians by events (JAX's by the host's clock, over several calls at once). A ratio
above 1: attune is faster. --beside shows what a change or a choice gains, as that of the Hopper forward to go by sum:

    export NVCC_APPEND_FLAGS=-DATTUNE_SM90_BY_MAXIMUM
    scripts/build build-maximum -Dtests=false -Dimages=sm90_forward
    peers.py --library build/libattune.so --beside build-maximum/libattune.so --peers none --data normal,x8,rising.3

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import csv
import functools
import itertools
import statistics
import sys
import time

import attune
import torch
from cells import (DATA, DECODES, DTYPES, LENGTHS, NORM_LIMIT, SMALL_HEADS, SMALL_SHAPES, Inputs, decode_cell, error_of,
                   length_cell, small_cell)
from contenders import PEERS, Attune, Unavailable

TURNS_MIN, TURNS_MAX = 3, 50
DELAY_CYCLES = 20_000_000  # some 10 ms, in which the host queues work ahead of the card
SHORT_DELAY_CYCLES = 200_000
HOST_CLOCK_CALLS = 5
COLUMNS = ["what", "dtype", "mask", "head_dim", "page_size", "batch", "rows", "keys", "heads_q", "heads_kv", "data",
           "contender", "kernel", "seconds", "rate", "unit", "turns", "error"]

# ---- Timing ----


def estimate(contenders):
    """Seconds of one turn of all, after each has been warmed up."""
    for contender in contenders:
        contender.run(0)
    synchronize(contenders)
    began = time.perf_counter()
    for contender in contenders:
        contender.run(1)
    synchronize(contenders)
    return time.perf_counter() - began


def synchronize(contenders):
    torch.cuda.synchronize()
    for contender in contenders:
        if contender.by_host_clock:
            contender.wait()


def time_by_events(contender, number, queue_is_empty):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if queue_is_empty:
        torch.cuda._sleep(SHORT_DELAY_CYCLES)
    start.record()
    contender.run(number)
    end.record()
    return start, end


def time_by_host_clock(contender, number):
    torch.cuda.synchronize()
    began = time.perf_counter()
    for call in range(HOST_CLOCK_CALLS):
        contender.run(number + call)
    contender.wait()
    return (time.perf_counter() - began) / HOST_CLOCK_CALLS


def measure(contenders, seconds):
    """Median seconds of each contender, in turn."""
    turns = max(TURNS_MIN, min(TURNS_MAX, int(seconds / estimate(contenders))))
    times = [[] for _ in contenders]
    any_waits = any(contender.by_host_clock for contender in contenders)
    torch.cuda._sleep(DELAY_CYCLES)
    # Each takes the inputs that follow: those of the one before it would be in the cache.
    for number in range(turns * len(contenders)):
        contender, taken = contenders[number % len(contenders)], times[number % len(contenders)]
        taken.append(time_by_host_clock(contender, number) if contender.by_host_clock
                     else time_by_events(contender, number, any_waits))
    torch.cuda.synchronize()
    seconds_of = [[each if isinstance(each, float) else each[0].elapsed_time(each[1]) * 1e-3 for each in taken]
                  for taken in times]
    return [statistics.median(each) for each in seconds_of], turns


# ---- One cell ----


class Outcome:
    """Of a cell: seconds by contender, and why others are missing."""

    def __init__(self, cell, data):
        self.cell = cell
        self.data = data
        self.seconds = {}
        self.kernels = {}
        self.missing = {}
        self.error = None
        self.turns = 0

    def is_right(self):
        return self.error is None or self.error <= NORM_LIMIT[self.cell.dtype]

    def ratio(self):
        """attune's speed over that of the fastest peer."""
        peers = [seconds for name, seconds in self.seconds.items() if name != "attune"]
        return min(peers) / self.seconds["attune"] if peers and "attune" in self.seconds else None


def gather(outcome, makers, inputs):
    contenders = []
    for name, (dtypes, make) in makers.items():
        if outcome.cell.dtype not in dtypes:
            continue
        try:
            contenders.append(make(outcome.cell, inputs))
            outcome.kernels[contenders[-1].name] = contenders[-1].kernel
        except Unavailable as reason:
            outcome.missing[name] = str(reason)
    return contenders


def run_cell(cell, data, makers, seconds, seed):
    outcome = Outcome(cell, data)
    inputs = Inputs(cell, seed, data)
    contenders = gather(outcome, makers, inputs)
    if contenders and contenders[0].name == "attune":
        outcome.error = error_of(cell, inputs, contenders[0].results())
    if contenders and outcome.is_right():
        medians, outcome.turns = measure(contenders, seconds)
        outcome.seconds = dict(zip([contender.name for contender in contenders], medians))
    for contender in contenders:
        contender.close()
    return outcome


# ---- Tables ----


def describe(cell):
    if cell.what == "decode":
        return f"B {cell.batch} Hq {cell.heads_q} Hkv {cell.heads_kv} kv {cell.keys}"
    if cell.what == "small":
        return f"H {cell.heads_q} {cell.rows}" + (f" x {cell.keys}" if cell.keys != cell.rows else "")
    return str(cell.rows)


def print_table(title, outcomes):
    names = []
    for outcome in outcomes:
        names += [name for name in outcome.seconds if name not in names]
    head = [title, *names, "ratio", "error", "kernel"]
    rows = []
    for outcome in outcomes:
        rates = [f"{outcome.cell.rate(outcome.seconds[name]):.1f}" if name in outcome.seconds else "-" for name in names]
        ratio = "-" if outcome.ratio() is None else f"{outcome.ratio():.2f}"
        error = "-" if outcome.error is None else f"{outcome.error:.1e}" + ("" if outcome.is_right() else " WRONG")
        rows.append([describe(outcome.cell), *rates, ratio, error, outcome.kernels.get("attune", "-")])
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(text.ljust(width) if column in (0, len(head) - 1) else text.rjust(width)
                        for column, (text, width) in enumerate(zip(row, widths))).rstrip())
    for name, reason in {item for outcome in outcomes for item in outcome.missing.items()}:
        print(f"  without {name}: {reason}")
    print(flush=True)


def write_csv(path, outcomes):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for outcome in outcomes:
            cell = outcome.cell
            unit = "GB/s" if cell.what == "decode" else "TFLOP/s"
            for name, seconds in outcome.seconds.items():
                writer.writerow([cell.what, cell.dtype, cell.mask(), cell.head_dim, cell.page_size, cell.batch,
                                 cell.rows, cell.keys, cell.heads_q, cell.heads_kv, outcome.data, name,
                                 outcome.kernels[name], f"{seconds:.9f}", f"{cell.rate(seconds):.2f}", unit, outcome.turns,
                                 outcome.error if name == "attune" and outcome.error is not None else ""])


# ---- The command ----


def cells_of(args, what, dtype, head_dim, mask):
    causal = mask == "causal"
    if what == "small":
        return [small_cell(dtype, causal, head_dim, heads, rows, keys, args.group)
                for heads in SMALL_HEADS for rows, keys in SMALL_SHAPES]
    return [length_cell(what, dtype, causal, head_dim, length, args.group) for length in args.lengths]


def tables(args):
    """Titles, and their cells."""
    for what in args.passes:
        for dtype in args.dtypes:
            if what == "decode":
                for head_dim, page_size in itertools.product(args.dims, args.pages):
                    pages = f" pages of {page_size}" if page_size else ""
                    yield (f"decode {dtype} d {head_dim}{pages}, GB/s",
                           [decode_cell(dtype, head_dim, page_size, *decode) for decode in DECODES])
                continue
            for head_dim in args.dims:
                for mask in args.masks:
                    yield f"{what} {dtype} d {head_dim} {mask}, TFLOP/s", cells_of(args, what, dtype, head_dim, mask)


def parse_args():
    def words(text):
        return text.split(",")

    def numbers(text):
        return [int(word) for word in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libattune.so")
    parser.add_argument("--passes", type=words, default=["forward", "decode"], help="of forward, small, backward, decode")
    parser.add_argument("--dtypes", type=words, default=["bf16"], help=f"of {', '.join(DTYPES)}")
    parser.add_argument("--dims", type=numbers, default=[64, 128, 256], help="head sizes")
    parser.add_argument("--pages", type=numbers, default=[0], help="sizes of decode's pages, 0 for none")
    parser.add_argument("--lengths", type=numbers, default=LENGTHS)
    parser.add_argument("--group", type=int, default=1, help="query heads of a kv head, in forward")
    parser.add_argument("--data", type=words, default=["normal"], help=f"of {', '.join(DATA)}")
    parser.add_argument("--masks", type=words, default=["full", "causal"])
    parser.add_argument("--peers", type=words, default=list(PEERS), help=f"of {', '.join(PEERS)}, or none")
    parser.add_argument("--beside", help="libattune.so of another build, for a peer")
    parser.add_argument("--kernel", help="attune's kernel row; default the one that it chooses")
    parser.add_argument("--seconds", type=float, default=0.5, help="to measure a cell for")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no cell is begun")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--csv", help="where to write every figure")
    args = parser.parse_args()
    if args.group > 1 and "backward" in args.passes:
        parser.error("--group: the check of backward is without groups")
    return args


def main():
    args = parse_args()
    began = time.perf_counter()
    devices = {name: attune.Library(path).open("cuda:0") for name, path in
               (("attune", args.library), ("beside", args.beside)) if path}
    makers = {name: (DTYPES, functools.partial(Attune, name, device, args.kernel)) for name, device in devices.items()}
    makers |= {name: PEERS[name] for name in args.peers if name != "none"}
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"seed {args.seed}\n")
    every = []
    left_out = 0
    for (title, cells), data in itertools.product(tables(args), args.data):
        outcomes = []
        for cell in cells:
            if time.perf_counter() - began > args.budget:
                left_out += 1
                continue
            outcomes.append(run_cell(cell, data, makers, args.seconds, args.seed))
            torch.cuda.empty_cache()
        if outcomes:
            print_table(title if data == "normal" else f"{title}, {data}", outcomes)
        every += outcomes
    for device in devices.values():
        device.close()
    if args.csv:
        write_csv(args.csv, every)
    wrong = sum(not outcome.is_right() for outcome in every)
    print(f"{len(every)} cells, {wrong} wrong" + (f", {left_out} not begun: out of time" if left_out else ""))
    sys.exit(1 if wrong or not every else 0)


if __name__ == "__main__":
    # Not the default stream: its handle is NULL, which attune takes for its own default.
    with torch.cuda.stream(torch.cuda.Stream()):
        main()
