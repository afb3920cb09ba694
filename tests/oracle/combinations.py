# SPDX-License-Identifier: Apache-2.0
"""Random requests: any options together that the contract allows together, from one seed."""

import numpy as np

from command import Request
from formats import round_to
from semantics import Problem

SIZES = (1, 2, 3, 5, 8, 12, 16, 20, 33, 40)


def draw_request(seed):
    rng = np.random.default_rng(seed)
    kind = rng.choice(["dense", "packed", "paged", "append"], p=[0.55, 0.25, 0.1, 0.1])
    request = SHAPES[kind](rng)
    add_score(rng, request.p)
    add_visibility(rng, request.p)
    add_numbers(rng, request)
    if kind in ("dense", "packed") and chance(rng, 0.7):
        add_backward(rng, request)
    if chance(rng, 0.3):
        request.outputs += ("probs",)
    return request


def chance(rng, probability):
    return rng.random() < probability


def amplitude(rng, values):
    """Normal values; or a few outliers; or large ones."""
    style = rng.choice(["normal", "outliers", "large"], p=[0.7, 0.15, 0.15])
    if style == "outliers":
        return np.where(rng.random(values.shape) < 0.02, values * 10, values)
    return values * 10 if style == "large" else values


def normal(rng, *shape):
    return round_to(amplitude(rng, rng.normal(size=shape)), "f32")


def lengths(rng):
    return int(rng.choice([rng.integers(0, 5), rng.integers(1, 13), rng.integers(13, 50)]))


# ---------------------------------------------------------------------------------------------
# Shapes: dense, packed, paged, appended


def sizes(rng):
    heads_kv = int(rng.integers(1, 4))
    D = int(rng.choice(SIZES))
    Dv = D if chance(rng, 0.5) else int(rng.choice(SIZES))
    return int(rng.integers(1, 4)), heads_kv * int(rng.integers(1, 4)), heads_kv, D, Dv


def dense(rng):
    B, Hq, Hkv, D, Dv = sizes(rng)
    Sq, Sk = lengths(rng), lengths(rng)
    p = Problem(normal(rng, B, Sq, Hq, D), normal(rng, B, Sk, Hkv, D), normal(rng, B, Sk, Hkv, Dv))
    if chance(rng, 0.25):
        p.seqused_q = rng.integers(0, Sq + 1, B)
    if chance(rng, 0.25):
        p.seqused_k = rng.integers(0, Sk + 1, B)
    return Request(p, layout=str(rng.choice(["bshd", "bhsd"])))


def packed(rng):
    """cu_seqlens for q, for k or for both; sometimes rows past the last, and larger maxima."""
    B, Hq, Hkv, D, Dv = sizes(rng)
    p = Problem(None, None, None)
    which = rng.choice(["q", "k", "both"], p=[0.2, 0.2, 0.6])
    if which == "k":
        p.q = normal(rng, B, lengths(rng), Hq, D)
    else:
        p.cu_seqlens_q, p.max_seqlen_q, total = pack(rng, B)
        p.q = normal(rng, total, Hq, D)
        if chance(rng, 0.25):
            p.seqused_q = rng.integers(0, np.diff(p.cu_seqlens_q) + 1)
    if which == "q":
        Sk = lengths(rng)
        p.k, p.v = normal(rng, B, Sk, Hkv, D), normal(rng, B, Sk, Hkv, Dv)
    else:
        p.cu_seqlens_k, p.max_seqlen_k, total = pack(rng, B)
        p.k, p.v = normal(rng, total, Hkv, D), normal(rng, total, Hkv, Dv)
        if chance(rng, 0.25):
            p.seqused_k = rng.integers(0, np.diff(p.cu_seqlens_k) + 1)
    return Request(p)


def pack(rng, B):
    each = np.array([lengths(rng) for _ in range(B)])
    cu_seqlens = np.concatenate([[0], np.cumsum(each)])
    spare = int(rng.integers(0, 4)) if chance(rng, 0.3) else 0
    return cu_seqlens, int(each.max()) + spare, int(cu_seqlens[-1]) + spare


def paged(rng):
    B, Hq, Hkv, D, Dv = sizes(rng)
    Sq, page_size, columns = lengths(rng), int(rng.choice([1, 2, 3, 16, 19])), rng.integers(1, 5)
    pages = int(B * columns + rng.integers(0, 3))
    p = Problem(normal(rng, B, Sq, Hq, D), None, None, page_size=page_size)
    p.k = normal(rng, pages, page_size, Hkv, D)
    p.v = normal(rng, pages, page_size, Hkv, Dv)
    p.block_table = rng.permutation(pages)[: B * columns].reshape(B, columns)
    p.seqused_k = rng.integers(0, columns * page_size + 1, B)
    if chance(rng, 0.3):
        p.cu_seqlens_q, p.max_seqlen_q, total = pack(rng, B)
        p.q = normal(rng, total, Hq, D)
    return Request(p)


def appended(rng):
    """A dense or a paged cache; rotary for half of them."""
    request = dense(rng) if chance(rng, 0.5) else paged(rng)
    p = request.p
    if p.q.ndim == 3:
        p.cu_seqlens_q = p.max_seqlen_q = None
        p.q = normal(rng, p.block_table.shape[0], lengths(rng), *p.q.shape[1:])
    B, D, Dv = p.batch, p.q.shape[-1], p.v.shape[-1]
    count = int(rng.integers(1, min(4, max(p.longest_k, 1)) + 1))
    if p.longest_k < count:
        p.k = normal(rng, B, count, p.heads_kv, D)
        p.v = normal(rng, B, count, p.heads_kv, Dv)
    p.seqused_k = rng.integers(0, p.longest_k - count + 1, B)
    request.knew = round_to(normal(rng, B, count, p.heads_kv, D), "bf16")
    request.vnew = round_to(normal(rng, B, count, p.heads_kv, Dv), "bf16")
    request.outputs += ("k_out", "v_out")
    if chance(rng, 0.5) and D > 1:
        positions = p.longest_k + max(count, p.q.shape[1])
        angles = rng.normal(size=(positions, int(rng.integers(1, D // 2 + 1)))) * 3
        request.cos, request.sin = round_to(np.cos(angles), "f32"), round_to(np.sin(angles), "f32")
        request.interleaved = chance(rng, 0.5)
    return request


SHAPES = {"dense": dense, "packed": packed, "paged": paged, "append": appended}


# ---------------------------------------------------------------------------------------------
# Options


def broadcast(rng, shape):
    """A shape that broadcasts to this one."""
    return tuple(1 if chance(rng, 0.4) else n for n in shape)


def add_score(rng, p):
    if chance(rng, 0.3):
        p.scale = float(rng.choice([0.0, -0.4, 1.0, rng.normal()]))
    if chance(rng, 0.3):
        p.softcap = float(rng.choice([0.5, 1.0, 30.0]))
    if chance(rng, 0.3):
        p.bias = normal(rng, *broadcast(rng, p.score_shape))
    if chance(rng, 0.3):
        shape = (p.batch, p.heads_q) if chance(rng, 0.5) else (p.heads_q,)
        p.alibi = round_to(rng.random(shape), "f32")
    if chance(rng, 0.3):
        p.sink = normal(rng, p.heads_q)
        p.sink[rng.random(p.heads_q) < 0.2] = -np.inf
    if chance(rng, 0.3):
        p.dropout = float(rng.choice([0.1, 0.5, 0.9]))
        p.seed, p.offset = int(rng.integers(0, 2**64, dtype=np.uint64)), int(rng.integers(2**32))


def add_visibility(rng, p):
    Sq, Sk = p.score_shape[2:]
    p.causal = chance(rng, 0.35)
    if chance(rng, 0.3):
        p.align = "top-left"
    elif chance(rng, 0.3):
        p.diagonal = int(rng.integers(-Sq - 1, Sk + 2))
    if chance(rng, 0.3):
        p.window = tuple(int(side) for side in rng.integers(-1, 8, 2))
    if chance(rng, 0.25):
        p.mask = rng.random(broadcast(rng, p.score_shape)) < 0.7
    if chance(rng, 0.25):
        p.leftpad_k = rng.integers(0, Sk // 2 + 1, p.batch)
    if chance(rng, 0.25):
        p.block_sparse = draw_blocks(rng, p)


def draw_blocks(rng, p):
    """A CSR list, shared or per head, its rows one after the other in one col_idx."""
    block_q, block_k = (int(n) for n in rng.integers(1, 17, 2))
    blocks_q, blocks_k = -(-p.longest_q // block_q), -(-p.longest_k // block_k)
    heads = p.heads_q if chance(rng, 0.5) else 1
    row_ptr, col_idx = np.zeros((heads, blocks_q + 1), np.int64), []
    for h in range(heads):
        row_ptr[h, 0] = len(col_idx)
        for row in range(blocks_q):
            col_idx += np.flatnonzero(rng.random(blocks_k) < 0.6).tolist()
            row_ptr[h, row + 1] = len(col_idx)
    return row_ptr[0] if heads == 1 else row_ptr, np.array(col_idx, np.int64), block_q, block_k


def add_numbers(rng, request):
    """Dtypes, how the files are written, and requests that change no result."""
    request.dtype = str(rng.choice(["f32", "f16", "bf16", "e4m3"], p=[0.4, 0.2, 0.2, 0.2]))
    if request.dtype == "e4m3":
        for name, longest in (("q", "q"), ("k", "k"), ("v", "k")):
            if chance(rng, 0.6):
                descale = draw_descale(rng, request.p, getattr(request.p, f"longest_{longest}"))
                setattr(request.p, f"descale_{name}", descale)
    if chance(rng, 0.3):
        request.out_dtype = "f32" if request.dtype != "e4m3" or chance(rng, 0.5) else "f16"
    request.floats = str(rng.choice(["<f4", "<f2"], p=[0.8, 0.2]))
    request.integers = str(rng.choice(["<i4", "<i8"]))
    request.masks = str(rng.choice(["u1", "?"]))
    request.order = str(rng.choice(["C", "F"]))
    more = [["--splits", "3"], ["--tile", "32x64"], ["--deterministic"], ["--check"]]
    request.words = tuple(word for words in more if chance(rng, 0.15) for word in words)


def draw_descale(rng, p, longest):
    shape = [(1,), (p.batch, p.heads_kv), (p.batch, p.heads_kv, -(-longest // 128))]
    return round_to(0.25 + rng.random(shape[rng.integers(3)]), "f32")


def add_backward(rng, request):
    p = request.p
    request.do = normal(rng, *p.q.shape[:-1], p.v.shape[-1])
    request.outputs += ("dq", "dk", "dv")
    if chance(rng, 0.6):
        packed_q = p.cu_seqlens_q is not None
        shape = (p.heads_q, len(p.q)) if packed_q else (p.batch, p.heads_q, p.longest_q)
        request.dlse = normal(rng, *shape)
    if p.bias is not None:
        request.outputs += ("dbias",)
    if p.sink is not None:
        request.outputs += ("dsink",)
