"""Small problems on the card, and the definition of attention in float64.

SPDX-License-Identifier: Apache-2.0
"""
import math

import torch

# docs/semantics.md, "Accuracy", for normal inputs; by dtype of the output.
NORM_LIMIT = {torch.float32: 1.5e-6, torch.float16: 4.5e-4, torch.bfloat16: 3.5e-3}


class Problem:
    """q, k, v, and outputs full of NaN; BSHD."""

    def __init__(self, batch=2, rows=70, keys=130, heads_q=4, heads_kv=2, head_dim=64, dtype=torch.bfloat16, seed=0,
                 device="cuda"):
        self.generator = torch.Generator(device).manual_seed(seed)
        self.q = self._draw(batch, rows, heads_q, head_dim, dtype=dtype)
        self.k = self._draw(batch, keys, heads_kv, head_dim, dtype=dtype)
        self.v = self._draw(batch, keys, heads_kv, head_dim, dtype=dtype)
        self.o = torch.full_like(self.q, math.nan)
        self.lse = torch.full((batch, heads_q, rows), math.nan, dtype=torch.float32, device=device)

    def _draw(self, *shape, dtype):
        return torch.randn(shape, generator=self.generator, device=self.generator.device).to(dtype)

    def redraw(self):
        """Other values at the same addresses."""
        for each in (self.q, self.k, self.v):
            each.copy_(self._draw(*each.shape, dtype=each.dtype))

    def tensors(self):
        return {"q": self.q, "k": self.k, "v": self.v, "o": self.o, "lse": self.lse}


def reference(q, k, v, causal=False, lengths=None):
    """o and lse in float64; lengths: seqused_k."""
    q, k, v = (each.double().transpose(1, 2) for each in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    batch, rows, keys = q.shape[0], q.shape[2], k.shape[2]
    lengths = torch.full((batch,), keys) if lengths is None else lengths
    lengths = lengths.to(q.device).view(batch, 1, 1, 1)
    i = torch.arange(rows, device=q.device).view(1, 1, rows, 1)
    j = torch.arange(keys, device=q.device).view(1, 1, 1, keys)
    visible = j < lengths
    if causal:
        visible = visible & (j <= i + lengths - rows)
    score = (q @ k.transpose(2, 3) / math.sqrt(q.shape[3])).masked_fill(~visible, -math.inf)
    lse = torch.logsumexp(score, 3)
    o = torch.softmax(score, 3).nan_to_num(0.0) @ v
    return o.transpose(1, 2), lse


def assert_right(problem, **options):
    """The problem's o and lse against the definition, from its q, k and v as they are now."""
    o, lse = reference(problem.q, problem.k, problem.v, **options)
    error = (problem.o.double() - o).norm() / o.norm()
    assert error <= NORM_LIMIT[problem.o.dtype]
    assert torch.allclose(problem.lse.double(), lse, rtol=1e-3, atol=1e-3)
