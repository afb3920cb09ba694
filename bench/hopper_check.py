"""Holds the sm90 forward rows to docs/semantics.md on the device: python3 bench/hopper_check.py cuda_rows.so DTYPE PART
PART: d64, d96, d128, d192_128, d192, d256 (the rows of that size), other (head sizes between them), streams.

Every case is computed in float64 by torch from the same rounded inputs; the limit of each element is that of "Accuracy".
All tensors lie in memory that is otherwise NaN, and outputs in memory that must not change.

SPDX-License-Identifier: Apache-2.0
"""
import itertools
import math
import os
import sys
import time
import zlib

import torch

from cuda_rows import BOTTOM_RIGHT, DIAGONAL, OPEN, TOP_LEFT, Options, Rows

DEVICE = "cuda"
U = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
SMALLEST = {torch.float32: 2.0**-126, torch.float16: 2.0**-14, torch.bfloat16: 2.0**-126}
PATIENCE = 20  # seconds that a launch may take before it is taken for hung
GUARD = 64  # elements before and after a tensor
CANARY = 8192.0  # what outputs hold before; every dtype has it


# ---- Tensors ----

def strided(shape, dtype, layout, fill):
    """(whole buffer, view) of axes (b, s, h, d), or (s, h, d) for packed sequences."""
    *outer, d = shape
    order = list(range(len(outer)))
    if layout == "bhsd" and len(outer) == 3:
        order = [0, 2, 1]
    pad = 8 if layout == "padded" else 0
    base = [outer[i] for i in order] + [d + pad]
    count = math.prod(base)
    buffer = torch.full((count + 2 * GUARD,), fill, dtype=dtype, device=DEVICE)
    view = buffer[GUARD:GUARD + count].view(base)[..., :d]
    return buffer, view.permute([order.index(i) for i in range(len(outer))] + [len(outer)])


def normal(shape, dtype, layout, multiple=1.0):
    buffer, view = strided(shape, dtype, layout, math.nan)
    view.copy_(torch.randn(shape, device=DEVICE) * multiple)
    return view


# ---- The reference ----

def visible(rows, keys, options):
    shift = keys - rows if options.align == BOTTOM_RIGHT else options.diagonal
    distance = torch.arange(keys, device=DEVICE)[None, :] - torch.arange(rows, device=DEVICE)[:, None] - shift
    seen = torch.ones((rows, keys), dtype=torch.bool, device=DEVICE)
    if options.left >= 0:
        seen &= distance >= -options.left
    if options.right >= 0:
        seen &= distance <= options.right
    return seen


def reference(q, k, v, sink, options):
    """o, lse and the two quantities of the limit, A and sigma, of one sequence, in float64. q: (rows, heads, d)."""
    group = q.shape[1] // k.shape[1]
    q = q.double().transpose(0, 1)
    k, v = (x.double().transpose(0, 1).repeat_interleave(group, 0) for x in (k, v))
    seen = visible(q.shape[1], k.shape[1], options)
    raw = options.scale * (q @ k.transpose(1, 2))
    sigma = (abs(options.scale) * (q.abs() @ k.abs().transpose(1, 2))).masked_fill(~seen, 0)
    sigma = sigma.amax(-1) if k.shape[1] else sigma.sum(-1)
    score = options.softcap * torch.tanh(raw / options.softcap) if options.softcap > 0 else raw
    score = score.masked_fill(~seen, -math.inf)
    if sink is not None:
        score = torch.cat([score, sink.double()[:, None, None].expand(-1, q.shape[1], 1)], -1)
    if score.shape[-1] == 0:
        score = torch.full((*score.shape[:-1], 1), -math.inf, dtype=torch.float64, device=DEVICE)
    m = score.amax(-1, keepdim=True)
    p = torch.exp(score - torch.where(m == -math.inf, 0, m))
    total = p.sum(-1, keepdim=True)
    p = (p / torch.where(total == 0, 1, total))[..., :k.shape[1]]
    lse = torch.where(total == 0, -math.inf, m + total.log())[..., 0]
    return (p @ v).transpose(0, 1), lse, (p @ v.abs()).transpose(0, 1), sigma


def worst(o, lse, expected, p_dtype):
    """The largest error as a part of its limit; inf where NaN, infinity or emptiness differ."""
    g, g_lse, a, sigma = expected
    sigma = torch.nan_to_num(sigma, posinf=0.0).T[..., None]
    limit = (U[o.dtype] * g.abs() + (1.5 * U[p_dtype] + 6 * 2.0**-24 * (8 + 2 * sigma)) * a +
             max(SMALLEST[o.dtype] * U[o.dtype], 2.0**-126))
    x = o.double()
    same = (x == g) | (x.isnan() & g.isnan())
    ratio = torch.where(same, 0.0, (x - g).abs() / limit)
    ratio = torch.nan_to_num(ratio, nan=math.inf, posinf=math.inf).amax().item() if ratio.numel() else 0.0
    if lse is not None and lse.numel():
        y = lse.double()
        same = (y == g_lse) | (y.isnan() & g_lse.isnan())
        part = torch.where(same, 0.0, (y - g_lse).abs() / (1e-3 * (g_lse.abs() / 1000).clamp(min=1)))
        ratio = max(ratio, torch.nan_to_num(part, nan=math.inf, posinf=math.inf).amax().item())
    return ratio


def finish():
    """Waits for the stream, or raises TimeoutError."""
    event = torch.cuda.Event()
    event.record()
    start = time.time()
    while not event.query():
        if time.time() - start > PATIENCE:
            raise TimeoutError


# ---- A case ----

class Case:
    def __init__(self, d, dv=None, *, b=2, hq=2, hkv=2, sq=300, sk=300, dtype=torch.bfloat16, left=OPEN, right=OPEN,
                 align=BOTTOM_RIGHT, diagonal=0, scale=None, softcap=0.0, sink=None, lse=True, f32=False,
                 layout="bshd", lengths_q=None, lengths_k=None, used_q=None, used_k=None, page=0, multiple=1.0,
                 broadcast=False, edit=None, row=None, o_is_q=False):
        self.names = [name for name in locals() if name not in ("self", "dtype", "edit")]
        self.__dict__.update(locals())
        self.dv = dv or d
        self.b = len(lengths_q or lengths_k or used_q or used_k or [0] * b)

    def __str__(self):
        usual = Case.__init__.__kwdefaults__
        told = {name: getattr(self, name) for name in self.names if getattr(self, name) != usual.get(name)}
        return f"{str(self.dtype)[6:]} {told}" + (f" {self.edit.__name__}" if self.edit else "")

    # -- making --

    def make(self):
        torch.manual_seed(zlib.crc32(str(self).encode()))
        self.packed_q, self.packed_k = self.lengths_q is not None, self.lengths_k is not None
        rows = [sum(self.lengths_q)] if self.packed_q else [self.b, self.sq]
        keys = [sum(self.lengths_k)] if self.packed_k else [self.b, self.sk]
        make = lambda where, h, d, m=1.0: normal((*where, h, d), self.dtype, self.layout, m)
        self.q, k, v = make(rows, self.hq, self.d, self.multiple), make(keys, self.hkv, self.d), make(keys, self.hkv, self.dv)
        if self.broadcast:
            k, v = (x[:, :, :1].expand(-1, -1, self.hkv, -1) for x in (k, v))
        if self.edit:
            self.edit(self, self.q, k, v)
        self.k, self.v = k, v
        o_dtype = torch.float32 if self.f32 else self.dtype
        self.o_buffer, self.o = strided((*rows, self.hq, self.dv), o_dtype, self.layout, CANARY)
        lse_shape = [self.hq, *rows] if self.packed_q else [self.b, self.hq, self.sq]
        self.lse_tensor = torch.full(lse_shape, CANARY, device=DEVICE)
        self.tensors = {"q": self.q, "k": k, "v": v, "o": self.q if self.o_is_q else self.o}
        if self.lse:
            self.tensors["lse"] = self.lse_tensor
        if self.sink is not None:
            self.tensors["sink"] = torch.tensor(self.sink, device=DEVICE).expand(self.hq).contiguous()
        self.add_lengths()
        if self.page:
            self.to_pages()

    def add_lengths(self):
        for name, lengths in (("cu_q", self.lengths_q), ("cu_k", self.lengths_k)):
            if lengths is not None:
                self.tensors[name] = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32, device=DEVICE)
        for name, lengths in (("used_q", self.used_q), ("used_k", self.used_k)):
            if lengths is not None:
                self.tensors[name] = torch.tensor(lengths, dtype=torch.int32, device=DEVICE)

    def to_pages(self):
        """K and V go to shuffled pages of one pool; whatever is no key of a sequence is NaN, other entries are wild."""
        columns = -(-self.sk // self.page)
        used = self.used_k or [self.sk] * self.b
        pages = torch.randperm(self.b * columns + 3)[:self.b * columns].view(self.b, columns).to(torch.int32)
        pools = [normal((self.b * columns + 3, self.page, self.hkv, x), self.dtype, self.layout) for x in (self.d, self.dv)]
        table = torch.full((self.b, columns), 2**30, dtype=torch.int32)
        for pool in pools:
            pool.fill_(math.nan)
        for b in range(self.b):
            for column in range(-(-used[b] // self.page)):
                begin, end = column * self.page, min(used[b], (column + 1) * self.page)
                table[b, column] = pages[b, column]
                for pool, source in zip(pools, (self.k, self.v)):
                    pool[pages[b, column], :end - begin] = source[b, begin:end]
        self.tensors.update(k=pools[0], v=pools[1], table=table.to(DEVICE))
        self.sk_capacity = columns * self.page

    def options(self):
        return Options(batch=self.b, rows=max(self.lengths_q) if self.packed_q else self.sq,
                       keys=self.sk_capacity if self.page else max(self.lengths_k) if self.packed_k else self.sk,
                       heads_q=self.hq, heads_kv=self.hkv, head_dim=self.d, head_dim_v=self.dv, page_size=self.page,
                       align=self.align, diagonal=self.diagonal, left=self.left, right=self.right,
                       softcap=self.softcap, scale=self.d**-0.5 if self.scale is None else self.scale)

    # -- checking --

    def sequences(self):
        """(rows of the sequence, its keys), as slices of axis b and s."""
        starts_q, starts_k = ([0, *itertools.accumulate(x or [])] for x in (self.lengths_q, self.lengths_k))
        for b in range(self.b):
            rows = self.lengths_q[b] if self.packed_q else self.sq
            keys = self.lengths_k[b] if self.packed_k else self.sk
            rows = self.used_q[b] if self.used_q else rows
            keys = self.used_k[b] if self.used_k else keys
            yield b, starts_q[b] if self.packed_q else 0, rows, starts_k[b] if self.packed_k else 0, keys

    def check(self, q):
        """The worst element of all sequences, and whether anything else was written."""
        options, ratio = self.options(), 0.0
        o = self.tensors["o"].clone()
        owned = torch.zeros(self.o.shape, dtype=torch.bool, device=DEVICE)
        lse_owned = torch.zeros(self.lse_tensor.shape, dtype=torch.bool, device=DEVICE)
        for b, row, rows, key, keys in self.sequences():
            at = lambda x, packed, begin, count: (x if packed else x[b])[begin:begin + count]
            lse = (self.lse_tensor if self.packed_q else self.lse_tensor[b])[:, row:row + rows]
            expected = reference(at(q, self.packed_q, row, rows), at(self.k, self.packed_k, key, keys),
                                 at(self.v, self.packed_k, key, keys), self.tensors.get("sink"), options)
            ratio = max(ratio, worst(at(o, self.packed_q, row, rows), lse if self.lse else None, expected, self.dtype))
            at(owned, self.packed_q, row, rows)[:] = True
            (lse_owned if self.packed_q else lse_owned[b])[:, row:row + rows] = self.lse
        if not self.o_is_q:
            self.o[owned] = CANARY
            if not (self.o_buffer == CANARY).all():
                return math.inf
        return ratio if (self.lse_tensor[~lse_owned] == CANARY).all() else math.inf

    def run(self, rows):
        """(row, worst error as a part of its limit, bits repeat)."""
        self.make()
        plan = rows.plan(self.options(), self.tensors, self.row)
        q = self.q.clone()
        results = []
        for _ in range(1 if self.o_is_q else 3):
            plan.workspace.fill_(255)
            self.o_buffer.fill_(CANARY)
            self.lse_tensor.fill_(CANARY)
            plan.run()
            finish()
            results.append((self.tensors["o"].clone(), self.lse_tensor.clone()))
        repeats = all(torch.equal(o.view(torch.uint8), results[0][0].view(torch.uint8)) and
                      torch.equal(l.view(torch.uint8), results[0][1].view(torch.uint8)) for o, l in results)
        ratio = self.check(q)
        plan.close()
        return plan.row, ratio, repeats


# ---- Edits ----

def nan_row(case, q, k, v):
    q[0, 5, 0, 1] = math.nan


def plus_infinity(case, q, k, v):
    q[0, 7, 0] = 0
    q[0, 7, 0, 0] = 1
    k[0, 9, 0, 0] = math.inf
    q[..., 0].abs_()


def minus_infinity(case, q, k, v):
    q[..., 0] = q[..., 0].abs() + 1
    k[:, ::3, :, 0] = -math.inf


def all_minus_infinity(case, q, k, v):
    q[..., 0] = q[..., 0].abs() + 1
    k[0, ..., 0] = -math.inf


def rising(case, q, k, v):
    """Scores rise by some octaves a key towards the first one, so that the reference moves all the time."""
    q.fill_(0)
    k.fill_(0)
    q[..., 0] = 1
    k[..., 0] = -torch.arange(k.shape[1], device=DEVICE)[None, :, None] * (0.3 * math.sqrt(case.d))


def jumping(case, q, k, v):
    """Scores of every 64 keys are about another level, some of them further apart than any weight reaches."""
    torch.manual_seed(2)
    levels = torch.tensor([-300.0, -100, -60, -25, -9, 0, 5, 40])[torch.randint(8, (-(-k.shape[1] // 64),))]
    levels = levels.repeat_interleave(64)[:k.shape[1]].to(DEVICE)
    q[..., 0] = 1
    k[..., 0] = levels[None, :, None] * math.sqrt(case.d)


def tiny_heavy_values(case, q, k, v):
    """Every row's heaviest keys have values close to 0, so that the light keys show."""
    q[..., 0] = 1
    k[:, ::50, :, 0] += 17 * math.sqrt(case.d)
    v[:, ::50] *= 2.0**-20


def outliers(case, q, k, v):
    for x in (q, k, v):
        x.mul_(torch.where(torch.rand(x.shape, device=DEVICE) < 1e-3, 10, 1))


# ---- Cases ----

HEAD_DIMS = {"d64": (64, 64), "d96": (96, 96), "d128": (128, 128), "d192_128": (192, 128), "d192": (192, 192),
             "d256": (256, 256)}
OTHER_HEAD_DIMS = [(8, 8), (40, 24), (72, 88), (80, 80), (104, 120), (136, 136), (192, 64), (200, 248), (64, 128)]


def plain_cases(d, dv):
    """What the full and causal rows take. Lengths around the ends of tiles."""
    yield Case(d, dv, sq=128, sk=128)
    yield Case(d, dv, b=2, hq=4, hkv=2, sq=333, sk=517)
    yield Case(d, dv, b=3, hq=6, hkv=1, sq=400, sk=65, layout="bhsd")
    yield Case(d, dv, b=1, hq=4, sq=77, hkv=4, sk=2049, layout="padded")
    yield Case(d, dv, b=5, hq=16, hkv=4, sq=1300, sk=1100)
    yield Case(d, dv, b=1, sq=513, sk=1)
    yield Case(d, dv, sq=600, sk=727, multiple=8.0)
    yield Case(d, dv, sq=640, sk=640, multiple=30.0)
    yield Case(d, dv, sq=512, sk=512, scale=-0.3)
    yield Case(d, dv, sq=300, sk=300, scale=0.0)
    yield Case(d, dv, sq=300, sk=200, sink=1.5)
    yield Case(d, dv, sq=300, sk=200, sink=60.0)
    yield Case(d, dv, sq=300, sk=200, sink=-math.inf, lse=False)
    yield Case(d, dv, hq=8, hkv=4, sq=300, sk=400, broadcast=True)
    for edit in (nan_row, plus_infinity, minus_infinity, all_minus_infinity, outliers):
        yield Case(d, dv, sq=260, sk=390, edit=edit)
    for edit in (rising, jumping, tiny_heavy_values):
        yield Case(d, dv, sq=260, sk=2000, edit=edit)
    if d == dv:
        yield Case(d, dv, sq=700, sk=700, o_is_q=True)


def causal_cases(d, dv):
    for case in plain_cases(d, dv):
        case.right = 0
        yield case
    for sq, sk in ((700, 300), (700, 699), (256, 447), (1, 300), (2500, 3100)):
        yield Case(d, dv, hq=3, hkv=3, sq=sq, sk=sk, right=0)
    yield Case(d, dv, sq=500, sk=700, right=0, align=TOP_LEFT)
    for diagonal in (-1000, -100, 77, 5000, 2**60, -2**60):
        yield Case(d, dv, sq=400, sk=500, right=0, align=DIAGONAL, diagonal=diagonal)


def general_cases(d, dv):
    for left, right in ((64, 0), (0, 0), (200, 100), (-1, 50), (300, -1), (1000, 1000), (5, 3)):
        yield Case(d, dv, sq=700, sk=900, left=left, right=right)
    for left, right in ((64, 0), (1000, 0), (300, -1), (5, 3), (500, 500)):  # work-groups go from tile to tile
        for sq, sk in ((700, 900), (2048, 2048)):
            yield Case(d, dv, b=3, hq=24, hkv=24, sq=sq, sk=sk, left=left, right=right)
    yield Case(d, dv, sq=900, sk=300, left=30, right=20)
    yield Case(d, dv, sq=400, sk=400, left=20, right=10, align=DIAGONAL, diagonal=600)
    yield Case(d, dv, sq=3000, sk=3000, left=256, right=0, hq=4, hkv=2)
    q, k = [100, 1, 0, 700, 193, 64, 300], [300, 1, 50, 700, 0, 129, 1000]
    for right in (OPEN, 0):
        yield Case(d, dv, lengths_q=q, lengths_k=k, right=right)
        yield Case(d, dv, lengths_q=q, lengths_k=k, right=right, hq=4, hkv=1, sink=0.5)
        yield Case(d, dv, lengths_q=q * 12, lengths_k=k * 12, right=right)
    yield Case(d, dv, lengths_q=q, lengths_k=k, left=100, right=30, layout="padded")
    yield Case(d, dv, lengths_q=q * 8, lengths_k=k * 8, left=100, right=30, hq=16, hkv=16)
    yield Case(d, dv, lengths_q=q, used_q=[50, 1, 0, 600, 190, 0, 256], lengths_k=k, used_k=[250, 0, 50, 65, 0, 1, 999],
               right=0)
    yield Case(d, dv, sq=400, sk=500, used_q=[0, 1, 399, 400], used_k=[500, 450, 3, 0], right=0, edit=nan_tails)
    yield Case(d, dv, sq=400, sk=500, used_k=[500, 450, 3, 0], edit=nan_tails)
    for page in (64, 16, 256, 1, 48, 100):
        yield Case(d, dv, sq=200, sk=600, used_k=[600, 333, 1, 0], page=page, right=0)
    for page in (64, 16, 256, 3):  # more entries than a warp looks up at once
        yield Case(d, dv, sq=200, sk=9000, used_k=[9000, 5333], page=page)
    yield Case(d, dv, sq=600, sk=600, used_k=[600, 517], page=16, left=70, right=0, hq=4, hkv=2)
    yield Case(d, dv, lengths_q=[3, 1, 40], sk=900, used_k=[900, 123, 64], page=64, right=0, hq=8, hkv=2)
    yield Case(d, dv, sq=300, sk=400, f32=True)
    yield Case(d, dv, sq=300, sk=400, f32=True, right=0, layout="bhsd")
    for hq, sq in ((8, 1), (8, 5), (5, 3), (7, 40), (16, 16)):  # heads packed into a tile
        yield Case(d, dv, hq=hq, hkv=1, sq=sq, sk=777, right=0, b=3)
        yield Case(d, dv, hq=2 * hq, hkv=2, sq=sq, sk=777, left=100, right=10, sink=0.3)


def softcap_cases(d, dv):
    for softcap, multiple in ((30.0, 1.0), (5.0, 1.0), (5.0, 2.0), (5.0, 8.0), (15.0, 3.0), (1000.0, 30.0)):
        yield Case(d, dv, sq=400, sk=500, softcap=softcap, multiple=multiple, right=0)
    yield Case(d, dv, sq=400, sk=500, softcap=20.0, scale=-0.5)
    yield Case(d, dv, sq=400, sk=900, softcap=2.0)
    yield Case(d, dv, sq=400, sk=900, softcap=50.0, multiple=4.0, left=300, right=100)
    yield Case(d, dv, sq=400, sk=900, softcap=50.0, edit=outliers)
    q, k = [100, 1, 0, 700, 193, 64, 300], [300, 1, 50, 700, 0, 129, 1000]
    yield Case(d, dv, b=3, hq=24, hkv=24, sq=2048, sk=2048, left=500, right=500, softcap=30.0)
    yield Case(d, dv, lengths_q=q * 8, lengths_k=k * 8, right=0, hq=16, hkv=4, softcap=30.0)
    yield Case(d, dv, sq=600, sk=600, used_k=[600, 517], page=16, left=70, right=0, hq=4, hkv=2, softcap=30.0)
    yield Case(d, dv, sq=300, sk=400, f32=True, softcap=30.0)
    yield Case(d, dv, hq=8, hkv=1, sq=5, sk=777, right=0, b=3, softcap=30.0)


def nan_tails(case, q, k, v):
    for b, used in enumerate(case.used_k):
        k[b, used:] = math.nan
        v[b, used:] = math.nan
    for b, used in enumerate(case.used_q or []):
        q[b, used:] = math.nan


def cases_of_part(part, dtype):
    if part == "other":
        for d, dv in OTHER_HEAD_DIMS:
            yield Case(d, dv, sq=500, sk=333)
            yield Case(d, dv, sq=500, sk=333, right=0, layout="padded")
            yield Case(d, dv, lengths_q=[70, 300], lengths_k=[130, 260], right=0)
            yield Case(d, dv, sq=100, sk=333, f32=True)
        return
    d, dv = HEAD_DIMS[part]
    kinds = [("_full", plain_cases(d, dv)), ("_causal", causal_cases(d, dv)), ("", causal_cases(d, dv)),
             ("", general_cases(d, dv)), ("_softcap", softcap_cases(d, dv))]
    if part == "d64":
        kinds += [("_full_short", (case for case in plain_cases(d, dv) if case.sq <= 1024)),
                  ("_causal_short", (case for case in causal_cases(d, dv) if case.sq <= 2048)),
                  ("_short", (case for case in general_cases(d, dv) if case.sk <= 1280))]
    for kind, cases in kinds:
        for case in cases:
            case.row = f"sm90_forward_{'f16' if dtype == torch.float16 else 'bf16'}_{part}{kind}"
            yield case


# ---- Launches side by side, and graphs ----

def side_by_side(rows, dtype):
    """Causal launches, whose tiles come from a counter, on four streams at once; then in a graph, with new inputs."""
    cases = [Case(128, sq=1500, sk=1500, b=2, hq=8, hkv=8, right=0, dtype=dtype, multiple=1.0 + i) for i in range(4)]
    plans = []
    for case in cases:
        case.make()
        plans.append(rows.plan(case.options(), case.tensors))
        plans[-1].run()
    torch.cuda.synchronize()
    alone = [case.o.clone() for case in cases]
    torch.cuda.synchronize()  # before other streams write
    streams = [torch.cuda.Stream() for _ in cases]
    for _ in range(10):
        for case, plan, stream in zip(cases, plans, streams):
            with torch.cuda.stream(stream):
                case.o.fill_(CANARY)
                plan.workspace.fill_(255)
                plan.run()
    torch.cuda.synchronize()
    good = all(torch.equal(case.o, o) for case, o in zip(cases, alone))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=streams[0]):
        plans[0].run()
    cases[0].q.copy_(cases[1].q)
    cases[0].k.copy_(cases[1].k)
    cases[0].v.copy_(cases[1].v)
    plans[0].workspace.fill_(255)
    torch.cuda.synchronize()
    graph.replay()
    torch.cuda.synchronize()
    return good, torch.equal(cases[0].o, alone[1])


def check_cases(rows, dtype, part):
    """Prints failures; returns (cases, failures, {row: largest error as a part of its limit})."""
    count, failures, largest = 0, 0, {}
    for case in cases_of_part(part, dtype):
        case.dtype = dtype
        count += 1
        try:
            row, ratio, repeats = case.run(rows)
        except RuntimeError as error: # a refusal, or the device is lost, and then so are the other cases
            print(f"FAIL {case}: {error}", flush=True)
            failures += 1
            continue
        except TimeoutError:
            print(f"FAIL {case}: hangs, and the rest of this part is not run", flush=True)
            os._exit(1)
        good = ratio <= 1 and repeats
        largest[row] = max(largest.get(row, 0), ratio if good else 0)
        if not good:
            failures += 1
            print(f"FAIL {row} {case}: {ratio:.3g} of the limit{'' if repeats else ', bits differ'}", flush=True)
    return count, failures, largest


def main():
    rows = Rows(sys.argv[1])
    name, part = sys.argv[2:4]
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[name]
    start = time.time()
    with torch.cuda.stream(torch.cuda.Stream()):
        if part == "streams":
            together, graph = side_by_side(rows, dtype)
            print(f"{name} streams: four launches at once {'agree' if together else 'FAIL'}, "
                  f"a graph with new inputs {'agrees' if graph else 'FAIL'}")
            sys.exit(not (together and graph))
        count, failures, largest = check_cases(rows, dtype, part)
    print(f"{name} {part}: {count - failures} of {count} pass in {time.time() - start:.0f} s, errors up to " +
          ", ".join(f"{value:.2f} ({row.split('_', 2)[2]})" for row, value in largest.items()))
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
