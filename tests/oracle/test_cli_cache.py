# SPDX-License-Identifier: Apache-2.0
"""Packed sequences, pages, append and the scales of e4m3, through `attune run`."""

import numpy as np
import pytest

from command import Request, judge
from draws import dense, normal
from formats import round_to
from semantics import Problem

INT_MAX = 2**31 - 1


@pytest.mark.parametrize("packed", ["q", "k", "both"])
@pytest.mark.parametrize("spare", [0, 3])
def test_variable_length(packed, spare, tmp_path):
    """Empty sequences, rows past the last one, and maxima larger than any length."""
    request = dense(B=3, Sq=4, Sk=5, causal=True, bias=normal(30, 1, 4, 4 + spare, 5 + spare))
    p = request.p
    if packed != "k":
        p.q, p.cu_seqlens_q = round_to(normal(31, 8 + spare, 4, 6), "f32"), np.array([0, 4, 4, 8])
        request.do = round_to(normal(32, 8 + spare, 4, 5), "f32")
        request.dlse = round_to(normal(33, 4, 8 + spare), "f32")
        p.max_seqlen_q = 4 + spare
    if packed != "q":
        p.k, p.v = (round_to(normal(34, 9 + spare, 2, d), "f32") for d in (6, 5))
        p.cu_seqlens_k, p.max_seqlen_k = np.array([0, 5, 7, 9]), 5 + spare
    shape = (1, 4, p.longest_q, p.longest_k)
    p.bias = p.bias[:, :, : shape[2], : shape[3]]
    request.outputs += ("probs",)
    judge(request, tmp_path)


def test_variable_length_with_seqused(tmp_path):
    p = Problem(*(round_to(normal(n, 9, 2, 6), "f32") for n in (35, 36, 37)), causal=True)
    p.cu_seqlens_q = p.cu_seqlens_k = np.array([0, 5, 9])
    p.max_seqlen_q = p.max_seqlen_k = 5
    p.seqused_q, p.seqused_k, p.leftpad_k = np.array([5, 2]), np.array([3, 4]), np.array([1, 0])
    do = round_to(normal(38, 9, 2, 6), "f32")
    judge(Request(p, do=do, outputs=("o", "lse", "dq", "dk", "dv")), tmp_path)


def pages(page_size, number=40, **options):
    """An entry of 7 keys and one of 4, in shuffled pages; the pages' tails and the rest are NaN."""
    rng, columns = np.random.default_rng(number), -(-9 // page_size)
    used = np.array([7, 4])
    request = dense(number, backward=False, Sk=9, seqused_k=used, page_size=page_size, **options)
    p = request.p
    p.block_table = rng.permutation(2 * columns + 1)[: 2 * columns].reshape(2, columns)
    for name in ("k", "v"):
        rows = getattr(p, name)
        pool = np.full((2 * columns + 1, page_size) + rows.shape[2:], np.nan)
        for b in range(2):
            for j in range(used[b]):
                pool[p.block_table[b, j // page_size], j % page_size] = rows[b, j]
        setattr(p, name, pool)
    return request


@pytest.mark.parametrize("page_size", [1, 2, 3, 16])
def test_pages(page_size, tmp_path):
    judge(pages(page_size, causal=True, leftpad_k=np.array([0, 2])), tmp_path)


def test_pages_with_packed_rows(tmp_path):
    request = pages(2, causal=True)
    p = request.p
    p.q, p.cu_seqlens_q, p.max_seqlen_q = p.q.reshape(-1, 4, 6), np.array([0, 3, 10]), 7
    judge(request, tmp_path)


def test_pages_that_no_row_sees_are_not_read(tmp_path):
    request = pages(1, Sq=1, window=(1, 0), leftpad_k=np.array([0, 3]))
    p = request.p
    p.block_table[0, :5], p.block_table[0, 7:] = INT_MAX, -1
    p.block_table[1, :3], p.block_table[1, 4:] = -7, INT_MAX
    judge(request, tmp_path)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "e4m3"])
@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("turn", [None, "interleaved", "halves"])
def test_append(dtype, paged, turn, tmp_path):
    if paged:
        request = pages(2, dtype=dtype, causal=True, Sq=2)
    else:
        request = dense(41, False, dtype=dtype, causal=True, Sq=2, Sk=9)
        request.p.seqused_k = np.array([7, 4])
    request.knew = round_to(normal(42, 2, 2, 2, 6), "bf16")
    request.vnew = round_to(normal(43, 2, 2, 2, 5), "bf16")
    if turn is not None:
        angles = normal(44, 9, 2)  # the last two of six elements stay
        request.cos, request.sin = round_to(np.cos(angles), "f32"), round_to(np.sin(angles), "f32")
        request.interleaved = turn == "interleaved"
    request.outputs += ("k_out", "v_out")
    judge(request, tmp_path)


def test_append_to_an_empty_cache(tmp_path):
    request = dense(45, False, Sk=3, causal=True)
    request.knew, request.vnew = request.p.k[:, ::-1], request.p.v[:, ::-1]
    request.outputs += ("k_out", "v_out")
    judge(request, tmp_path)


def test_append_saturates(tmp_path):
    request = dense(46, False, dtype="e4m3", Sk=4, seqused_k=np.array([1, 2]))
    request.p.descale_k, request.p.descale_v = np.array([0.125]), np.array([[0.5, 2], [4, 2.0**-9]])
    request.knew = round_to(normal(47, 2, 2, 2, 6) * 100, "bf16")
    request.vnew = round_to(normal(48, 2, 2, 2, 5), "bf16")
    request.outputs += ("k_out", "v_out")
    outputs = judge(request, tmp_path)
    assert np.abs(outputs["k_out"]).max() == 448 and np.abs(outputs["v_out"]).max() == 448


# ---------------------------------------------------------------------------------------------
# e4m3 scales and the largest head sizes

DESCALE = {
    "one": (1,),
    "per_head": (2, 2),
    "per_block": (2, 2, 2),
}


@pytest.mark.parametrize("tensor", ["q", "k", "v"])
@pytest.mark.parametrize("shape", DESCALE)
def test_descale(tensor, shape, tmp_path):
    request = dense(50, Sq=130, Sk=140, Hq=2, D=4, Dv=3, dtype="e4m3")
    values = round_to(0.5 + np.abs(normal(51, *DESCALE[shape])), "f32")
    setattr(request.p, f"descale_{tensor}", values)
    judge(request, tmp_path)


def test_descale_of_zero(tmp_path):
    request = dense(52, dtype="e4m3")
    request.p.descale_k, request.p.descale_v = np.zeros(1), np.array([[1.0, 0.0], [0.0, 2.0]])
    judge(request, tmp_path)


def test_descale_blocks_of_pages(tmp_path):
    request = pages(32, dtype="e4m3")
    request.p.block_table = np.tile(request.p.block_table, (1, 5))[:, :5]  # 160 positions
    request.p.descale_k = round_to(0.5 + np.abs(normal(53, 2, 2, 2)), "f32")
    judge(request, tmp_path)


def test_head_size_of_latent_attention(tmp_path):
    judge(dense(54, False, B=1, Sq=16, Sk=9, Hq=2, Hkv=1, D=576, Dv=512), tmp_path)
