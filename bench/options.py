#!/usr/bin/env python3
"""What options cost on a GPU: attune with each of them beside the plain problem, in one process, call by call in turn.

    options.py --library build/libattune.so [--passes forward,backward] [options]

16384 tokens, hidden size 2048, as in peers.py; packed sequences of 1 to 4096 are twice as many. Figures are rates on the
pairs that are visible, as parts of the plain problem's, which is in TFLOP/s; medians by events.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import math
import sys
import time

import attune
import torch
from cells import DTYPES, HIDDEN, TOKENS
from contenders import Contender, Unavailable
from peers import measure

PACKED_LENGTH_MAX = 4096
WINDOW = 1024
REASON_MAX = 150  # letters

# ---- Problems ----


class Problem:
    """Arguments of attention without gradients, and how many pairs of a head are visible."""

    def __init__(self, pairs, **fields):
        self.pairs = pairs
        self.fields = fields


def draw(dtype, *shape):
    return torch.randn(shape, device="cuda").to(DTYPES[dtype])


def visible_pairs(length, causal):
    return length * (length + 1) // 2 if causal else length * length


def plain(args, length, head_dim, causal, **options):
    shape = (TOKENS // length, length, HIDDEN // head_dim, head_dim)
    q, k, v = (draw(args.dtype, *shape) for _ in range(3))
    return Problem(shape[0] * visible_pairs(length, causal), q=q, k=k, v=v, causal=causal, **options)


def window(args, length, head_dim, causal):
    """WINDOW keys to the left where it is causal, else half as many to either side."""
    left, right = (WINDOW, 0) if causal else (WINDOW // 2, WINDOW // 2)
    i = torch.arange(length)
    seen = int(((i + right).clamp(max=length - 1) - (i - left).clamp(min=0) + 1).sum())
    problem = plain(args, length, head_dim, False, window=(left, right))
    return Problem(TOKENS // length * seen, **problem.fields)


def packed(args, length, head_dim, causal):
    del length
    lengths = []
    while sum(lengths) < 2 * TOKENS:
        lengths.append(int(torch.randint(1, PACKED_LENGTH_MAX + 1, ())))
    q, k, v = (draw(args.dtype, sum(lengths), HIDDEN // head_dim, head_dim) for _ in range(3))
    borders = torch.tensor([0, *lengths]).cumsum(0).to("cuda", torch.int32)
    return Problem(sum(visible_pairs(each, causal) for each in lengths), q=q, k=k, v=v, causal=causal,
                   cu_seqlens_q=borders, cu_seqlens_k=borders, max_seqlen_q=max(lengths), max_seqlen_k=max(lengths))


def paged(page_size):
    def make(args, length, head_dim, causal):
        problem = plain(args, length, head_dim, causal, page_size=page_size)
        batch, columns = TOKENS // length, length // page_size
        order = torch.randperm(batch * columns, device="cuda").to(torch.int32)
        for name in "kv":
            problem.fields[name] = problem.fields[name].view(-1, page_size, *problem.fields[name].shape[2:])
        lengths = torch.full((batch,), length, device="cuda", dtype=torch.int32)
        return Problem(problem.pairs, **problem.fields, block_table=order.view(batch, columns), seqused_k=lengths)
    return make


def with_fields(**options):
    return lambda args, length, head_dim, causal: plain(args, length, head_dim, causal, **options)


def of_length(other):
    return lambda args, length, head_dim, causal: plain(args, other, head_dim, causal)


# What a table has besides the plain problem. plain 2048: what packed sequences are to be compared with.
OPTIONS = {
    "softcap 50": with_fields(softcap=50.0),
    "softcap 5": with_fields(softcap=5.0),
    "window": window,
    "packed": packed,
    "plain 2048": of_length(2048),
    "pages of 64": paged(64),
    "pages of 16": paged(16),
    "deterministic": with_fields(deterministic=True),
}
ONLY_FORWARD = {"pages of 64", "pages of 16"}
ONLY_BACKWARD = {"deterministic"}

# ---- Measuring ----


class Option(Contender):
    """A plan for a problem, and what it needs."""

    def __init__(self, name, device, what, problem):
        self.name = name
        self.pairs = problem.pairs
        fields = problem.fields
        q = fields["q"]
        packed_rows = q.dim() == 3
        lse_shape = (q.shape[1], q.shape[0]) if packed_rows else (q.shape[0], q.shape[2], q.shape[1])
        fields |= {"o": torch.full_like(q, math.nan), "lse": torch.empty(lse_shape, device="cuda")}
        self.stream = device.wrap_stream(torch.cuda.current_stream().cuda_stream)
        try:
            if what == "backward":
                device.forward(self.stream, **fields | {"kernel": None, "deterministic": False})
                fields |= {"dout": torch.randn_like(q)} | {"d" + x: torch.empty_like(fields[x]) for x in "qkv"}
            self.plan = device.plan(attune.BACKWARD if what == "backward" else attune.FORWARD, **fields)
        except attune.Error as error:
            self.stream.close()
            raise Unavailable(str(error)) from None
        self.fields = fields  # the plan's args have addresses only
        self.kernel = self.plan.kernel()
        self.workspace = torch.empty(self.plan.workspace_bytes + 1, dtype=torch.uint8, device="cuda")

    def run(self, turn):
        self.plan.run(self.stream, self.workspace.data_ptr())

    def close(self):
        torch.cuda.synchronize()
        self.plan.close()
        self.stream.close()


def gather(device, args, what, head_dim, causal):
    """Contenders, the plain one first, and why others are missing."""
    left_out = ONLY_BACKWARD if what == "forward" else ONLY_FORWARD
    makers = {"plain": with_fields()} | {name: make for name, make in OPTIONS.items() if name not in left_out}
    makers |= {kernel: with_fields(kernel=kernel) for kernel in args.kernels if what in kernel}
    contenders, missing = [], {}
    for name, make in makers.items():
        try:
            contenders.append(Option(name, device, what, make(args, args.length, head_dim, causal)))
        except Unavailable as reason:
            missing[name] = str(reason)
    return contenders, missing


def print_table(device, args, what, head_dim, causal):
    contenders, missing = gather(device, args, what, head_dim, causal)
    print(f"{what} {args.dtype} d {head_dim} {'causal' if causal else 'full'}, {args.length}")
    if contenders and contenders[0].name == "plain":
        seconds, turns = measure(contenders, args.seconds)
        flops = 4 * HIDDEN * (2.5 if what == "backward" else 1)
        rates = [flops * each.pairs / time_of / 1e12 for each, time_of in zip(contenders, seconds)]
        width = max(len(each.name) for each in contenders)
        for each, rate in zip(contenders, rates):
            figure = f"{rate:.0f} TFLOP/s" if each is contenders[0] else f"{rate / rates[0]:.2f}"
            print(f"  {each.name:{width}}  {figure:12} {each.kernel}")
        print(f"  medians of {turns} turns")
    for name, reason in missing.items():
        print(f"  without {name}: {reason[:REASON_MAX]}")
    print(flush=True)
    for each in contenders:
        each.close()
    torch.cuda.empty_cache()
    return "plain" not in missing


def parse_args():
    def words(text):
        return text.split(",")

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libattune.so")
    parser.add_argument("--passes", type=words, default=["forward"], help="of forward, backward")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--dims", type=lambda text: [int(word) for word in text.split(",")], default=[64, 128, 256],
                        help="head sizes")
    parser.add_argument("--masks", type=words, default=["full", "causal"])
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--kernels", type=words, default=[], help="rows that compute the plain problem, too")
    parser.add_argument("--seconds", type=float, default=1.0, help="to measure a table for")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    device = attune.Library(args.library).open("cuda:0")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, seed {args.seed}\n")
    measured = [print_table(device, args, what, head_dim, mask == "causal")
                for what in args.passes for head_dim in args.dims for mask in args.masks]
    device.close()
    sys.exit(0 if all(measured) else 1)


if __name__ == "__main__":
    # Not the default stream: its handle is NULL, which attune takes for its own default.
    with torch.cuda.stream(torch.cuda.Stream()):
        main()
