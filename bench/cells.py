"""What is measured: problems, their inputs, what they cost, and whether a result is right.

SPDX-License-Identifier: Apache-2.0
"""
import dataclasses
import math

import torch

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}
# docs/semantics.md, "Accuracy": ||X - G|| / ||G|| on normal inputs.
NORM_LIMIT = {"f32": 1.5e-6, "f16": 4.5e-4, "bf16": 3.5e-3, "e4m3": 4e-2}

TOKENS = 16384  # batch x length
HIDDEN = 2048  # heads x head_dim
LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]

# One prompt, or a chunk of it, on its way into a cache: heads, and rows by keys.
SMALL_HEADS = [8, 16, 32]
SMALL_SHAPES = [(512, 512), (1024, 1024), (2048, 2048), (4096, 4096), (8192, 8192),
                (128, 8192), (512, 8192), (128, 65536), (512, 65536)]

# batch, heads_q, heads_kv, keys
DECODES = [(1, 32, 8, 8192), (1, 32, 8, 65536), (8, 32, 8, 8192), (32, 32, 8, 8192), (128, 32, 8, 4096),
           (1, 64, 8, 131072), (64, 32, 1, 8192)]

# Inputs that a cache could hold are drawn this often, and taken in turn.
CACHE_BYTES = 256 << 20
SETS_MAX = 16


@dataclasses.dataclass(frozen=True)
class Cell:
    what: str  # forward, small, backward, decode
    dtype: str
    causal: bool
    batch: int
    rows: int
    keys: int
    heads_q: int
    heads_kv: int
    head_dim: int
    page_size: int = 0  # of attune's keys and values, whose peers have them without pages; 0: no pages

    def o_dtype(self):
        return torch.bfloat16 if self.dtype == "e4m3" else DTYPES[self.dtype]

    def mask(self):
        return "causal" if self.causal else "full"

    def flops(self):
        unseen = self.rows / 2 if self.causal else 0  # keys of a row, on average
        forward = 4 * self.batch * self.heads_q * self.rows * (self.keys - unseen) * self.head_dim
        return forward * (2.5 if self.what == "backward" else 1.0)

    def kv_bytes(self):
        return 2 * self.batch * self.keys * self.heads_kv * self.head_dim * DTYPES[self.dtype].itemsize

    def rate(self, seconds):
        """What the table shows: TFLOP/s, of decode GB/s of keys and values."""
        return self.kv_bytes() / seconds / 1e9 if self.what == "decode" else self.flops() / seconds / 1e12


def length_cell(what, dtype, causal, head_dim, length, group=1):
    """group: query heads of a kv head."""
    heads = HIDDEN // head_dim
    return Cell(what, dtype, causal, TOKENS // length, length, length, heads, heads // group, head_dim)


def small_cell(dtype, causal, head_dim, heads, rows, keys, group=1):
    return Cell("small", dtype, causal, 1, rows, keys, heads, heads // group, head_dim)


def decode_cell(dtype, head_dim, page_size, batch, heads_q, heads_kv, keys):
    return Cell("decode", dtype, False, batch, 1, keys, heads_q, heads_kv, head_dim, page_size)


# ---- Inputs ----


def multiplied(factor):
    """Large logits."""
    def change(cell, q, k):
        q.mul_(factor)
    return change


def with_levels(levels_of):
    """Scores of key j are about levels_of(keys)[j]."""
    def change(cell, q, k):
        q[..., 0] = 1
        k[..., 0] = levels_of(cell.keys).view(1, -1, 1) * math.sqrt(cell.head_dim)
    return change


def rising(octaves):
    """By some octaves a key, towards the first one."""
    return with_levels(lambda keys: torch.arange(keys, device="cuda") * (-octaves * math.log(2)))


def jumping(height):
    """Every 128 keys another level."""
    def levels_of(keys):
        levels = torch.rand(-(-keys // 128), device="cuda") * (height * math.log(2))
        return levels.repeat_interleave(128)[:keys]
    return with_levels(levels_of)


# Changes to normal values that make an online softmax do more or less work.
DATA = {"normal": multiplied(1.0), "x8": multiplied(8.0), "x30": multiplied(30.0), "rising.05": rising(0.05),
        "rising.3": rising(0.3), "rising1": rising(1.0), "jumping60": jumping(60.0), "jumping300": jumping(300.0)}


class Inputs:
    """Sets of q, k, v, BSHD, drawn anew for each cell."""

    def __init__(self, cell, seed, data="normal"):
        torch.manual_seed(seed)
        generator = torch.Generator("cuda").manual_seed(seed)
        q_shape = (cell.batch, cell.rows, cell.heads_q, cell.head_dim)
        kv_shape = (cell.batch, cell.keys, cell.heads_kv, cell.head_dim)

        def draw(shape):
            return torch.randn(shape, generator=generator, device="cuda").to(DTYPES[cell.dtype])

        count = min(SETS_MAX, math.ceil(CACHE_BYTES / cell.kv_bytes()))
        self.sets = [(draw(q_shape), draw(kv_shape), draw(kv_shape)) for _ in range(count)]
        for q, k, _ in self.sets:
            DATA[data](cell, q, k)
        self.dout = draw(q_shape).to(cell.o_dtype()) if cell.what == "backward" else None

# ---- Whether it is right ----


class Error:
    """||X - G|| / ||G||, added up over parts; NaN if any element of an output is not finite."""

    def __init__(self, outputs):
        self.difference = 0.0 if all(torch.isfinite(each).all() for each in outputs) else math.nan
        self.total = 0.0

    def add(self, result, expected):
        self.difference += (result.double() - expected).square().sum().item()
        self.total += expected.square().sum().item()

    def value(self):
        return math.sqrt(self.difference / self.total)


def weights_of(cell, q, k, rows):
    """Softmax in float64 of some rows of one head."""
    score = q.double() @ k.double().T / math.sqrt(cell.head_dim)
    if cell.causal:
        past = torch.arange(cell.keys, device="cuda") > rows[:, None] + cell.keys - cell.rows
        score.masked_fill_(past, -math.inf)
    return torch.softmax(score, 1)


def heads_checked(cell):
    """The first and the last head, with its kv head, of the first and the last batch."""
    for b in sorted({0, cell.batch - 1}):
        for h in sorted({0, cell.heads_q - 1}):
            yield b, h, h // (cell.heads_q // cell.heads_kv)


def forward_error(cell, inputs, o):
    q, k, v = inputs.sets[0]
    error = Error([o])
    rows = torch.unique(torch.linspace(0, cell.rows - 1, 64, device="cuda").long())
    for b, h, kv_head in heads_checked(cell):
        expected = weights_of(cell, q[b, rows, h], k[b, :, kv_head], rows) @ v[b, :, kv_head].double()
        error.add(o[b, rows, h], expected)
    return error.value()


def backward_error(cell, inputs, dq, dk, dv):
    """The largest of the three. Without groups of heads."""
    q, k, v = inputs.sets[0]
    errors = [Error([each]) for each in (dq, dk, dv)]
    rows = torch.arange(cell.rows, device="cuda")
    for b, h, _ in heads_checked(cell):
        q_h, k_h, v_h, dout = (each[b, :, h].double() for each in (q, k, v, inputs.dout))
        p = weights_of(cell, q_h, k_h, rows)
        dp = dout @ v_h.T
        ds = p * (dp - (p * dp).sum(1, keepdim=True)) / math.sqrt(cell.head_dim)
        for error, result, expected in zip(errors, (dq, dk, dv), (ds @ k_h, ds.T @ q_h, p.T @ dout)):
            error.add(result[b, :, h], expected)
    return max(error.value() for error in errors)


def error_of(cell, inputs, outputs):
    return (backward_error if cell.what == "backward" else forward_error)(cell, inputs, *outputs)
