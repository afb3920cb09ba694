"""Times and repeats attune's deterministic backward beside the default one on a Hopper GPU:

    hopper_backward.py LIBRARY [LENGTH ...]

Protocol P1 (batch x length = 16,384 tokens, heads = 2,048 / D), bf16, call by call in turn, medians by events. Then 50
runs on each of two streams at once, whose gradients must be the same bits; those of the default one may differ in dq.
bench/peers.py --passes backward has cuDNN beside it.

SPDX-License-Identifier: Apache-2.0
"""
import statistics
import sys

import attune
import torch
from cells import Inputs, length_cell

ROUNDS, REPEATS = 9, 50


class Backward:
    """A plan over a cell's inputs, with gradients, a workspace and a stream of its own."""

    def __init__(self, device, inputs, causal, deterministic):
        torch.cuda.synchronize()  # what draws the inputs is on another stream
        q, k, v = inputs.sets[0]
        self.native = torch.cuda.Stream()
        self.stream = device.wrap_stream(self.native.cuda_stream)
        self.outputs = [torch.empty_like(x) for x in (q, k, v)]
        o, lse = torch.empty_like(q), torch.empty((q.shape[0], q.shape[2], q.shape[1]), device="cuda")
        device.forward(self.stream, q=q, k=k, v=v, o=o, lse=lse, causal=causal)
        self.kept = {"q": q, "k": k, "v": v, "o": o, "lse": lse, "dout": inputs.dout, "causal": causal,
                     "deterministic": deterministic} | dict(zip(("dq", "dk", "dv"), self.outputs))
        self.plan = device.plan(attune.BACKWARD, **self.kept)
        self.workspace = torch.empty(self.plan.workspace_bytes, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()

    def run(self):
        self.plan.run(self.stream, self.workspace.data_ptr())

    def time(self):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(self.native)
        self.run()
        end.record(self.native)
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def close(self):
        torch.cuda.synchronize()
        self.plan.close()
        self.stream.close()


def time_cell(device, cell):
    inputs = Inputs(cell, 1)
    plain, ordered = (Backward(device, inputs, cell.causal, deterministic) for deterministic in (False, True))
    times = ([], [])
    for _ in range(ROUNDS):
        times[0].append(plain.time())
        times[1].append(ordered.time())
    rates = [cell.flops() / statistics.median(each[1:]) / 1e12 for each in times]
    apart = max((a.float() - b.float()).norm().item() / b.float().norm().item()
                for a, b in zip(ordered.outputs, plain.outputs))
    print(f"d {cell.head_dim} {'causal' if cell.causal else 'full  '} {cell.rows:6} {rates[0]:5.0f} {rates[1]:5.0f} "
          f"{rates[1] / rates[0]:.3f}  {'apart ' + format(apart, '.1e') if not apart < 1e-2 else ''}", flush=True)
    plain.close()
    ordered.close()
    return apart < 1e-2


def repeat_cell(device, cell):
    """Whether all runs of both streams give the same bits."""
    inputs = Inputs(cell, 2)
    both = [Backward(device, inputs, cell.causal, True) for _ in range(2)]
    first, differences = None, 0
    for _ in range(REPEATS):
        for each in both:
            each.run()
        torch.cuda.synchronize()
        for each in both:
            if first is None:
                first = [x.clone() for x in each.outputs]
            differences += any(not torch.equal(a, b) for a, b in zip(first, each.outputs))
    print(f"d {cell.head_dim} {'causal' if cell.causal else 'full'} {cell.rows}: {differences} of {2 * REPEATS} runs "
          "differ from the first", flush=True)
    for each in both:
        each.close()
    return differences == 0


def main():
    lengths = [int(x) for x in sys.argv[2:]] or [2048, 8192]
    device = attune.Library(sys.argv[1]).open("cuda:0")
    print("TFLOP/s: default, deterministic, ratio")
    cells = [length_cell("backward", "bf16", causal, d, n) for d in (64, 128, 256) for causal in (False, True)
             for n in lengths]
    fine = all([time_cell(device, cell) for cell in cells])
    fine = all([repeat_cell(device, length_cell("backward", "bf16", causal, d, 2048))
                for d in (64, 128, 256) for causal in (False, True)]) and fine
    device.close()
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
