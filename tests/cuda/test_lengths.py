"""Lengths past the capacity, which ATTUNE_CHECK=1 would find: they are cut to it, and nothing else is read or written.

SPDX-License-Identifier: Apache-2.0
"""
import math

import pytest
import torch
from problem import Problem

GUARD = 1 << 16  # elements before and after


def guarded(like):
    """A tensor full of NaN, and what lies around it."""
    around = torch.full((like.numel() + 2 * GUARD,), math.nan, dtype=like.dtype, device=like.device)
    return around[GUARD:-GUARD].view(like.shape), around


def lengths(*each):
    return torch.tensor(each, dtype=torch.int32, device="cuda")


class Run:
    """A forward and a deterministic backward, of one row of the table each."""

    def __init__(self, device, problem, rows, seqused_q, seqused_k):
        used = {"seqused_q": seqused_q, "seqused_k": seqused_k}
        inputs = {"q": problem.q, "k": problem.k, "v": problem.v, "dout": problem.q}
        shapes = {"o": problem.o, "lse": problem.lse, "dq": problem.q, "dk": problem.k, "dv": problem.v}
        self.made = {name: guarded(like) for name, like in shapes.items()}
        made = {name: each for name, (each, _) in self.made.items()}
        torch.cuda.synchronize()
        forward = inputs | used | {name: made[name] for name in ("o", "lse")}
        device.forward(kernel=rows[0], **{name: each for name, each in forward.items() if name != "dout"})
        device.backward(kernel=rows[1], deterministic=True, **inputs, **used, **made)
        device.synchronize()

    def assert_same(self, other):
        for (_, mine), (_, others) in zip(self.made.values(), other.made.values()):
            assert torch.equal(mine.nan_to_num(7.0), others.nan_to_num(7.0))


@pytest.mark.parametrize("head_dim", [64, 96, 128, 192, 256])
@pytest.mark.parametrize("kind", ["sm90", "sm80"])
def test_lengths_past_the_capacity(device, kind, head_dim):
    rows = [f"{kind}_forward_bf16", f"{kind}_backward_bf16"]
    if kind == "sm90":
        rows = [f"{rows[0]}_d{head_dim}", f"{rows[1]}_d{head_dim}_general"]
    problem = Problem(batch=3, rows=200, keys=300, head_dim=head_dim)
    true = Run(device, problem, rows, lengths(200, 200, 200), lengths(300, 300, 300))
    lying = Run(device, problem, rows, lengths(203, 5000, 200), lengths(301, 300, 9000))
    lying.assert_same(true)
