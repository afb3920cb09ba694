# SPDX-License-Identifier: Apache-2.0
"""Pages, append with rotary, and the scales of e4m3 caches, by hand and against the dense form."""

import dataclasses

import numpy as np
import pytest

import kvcache
from draws import draw, normal
from semantics import Problem, forward


def paged(p, page_size, seed):
    """The same problem with its keys in shuffled pages; positions past seqused_k hold NaN."""
    columns = -(-p.k.shape[1] // page_size)
    order = np.random.default_rng(seed).permutation(p.batch * columns + 2)
    table = order[: p.batch * columns].reshape(p.batch, columns)
    pools = []
    for stored in (p.k, p.v):
        pool = np.full((len(order), page_size) + stored.shape[2:], np.nan)
        for b in range(p.batch):
            for j in range(int(p.seqused_k[b])):
                pool[table[b, j // page_size], j % page_size] = stored[b, j]
        pools.append(pool)
    return dataclasses.replace(p, k=pools[0], v=pools[1], block_table=table, page_size=page_size)


@pytest.mark.parametrize("page_size", [1, 2, 3, 16])
def test_pages_hold_the_same_keys(page_size):  # B075
    p, _, _ = draw(32, seqused_k=np.array([7, 4]), leftpad_k=np.array([0, 2]), causal=True)
    state, other = forward(p), forward(paged(p, page_size, 33))
    np.testing.assert_array_equal(state.o, other.o)
    np.testing.assert_array_equal(state.lse, other.lse)


def test_pages_that_no_row_sees_are_not_read():
    p, _, _ = draw(34, Sq=1, Sk=9, seqused_k=np.array([9, 5]), leftpad_k=np.array([0, 2]))
    p.window = (3, 0)
    whole, other = forward(p), paged(p, 2, 35)
    other.block_table[0, :2] = other.block_table[1, :1] = other.block_table[1, 3:] = 10**9
    np.testing.assert_array_equal(whole.o, forward(other).o)


@pytest.mark.parametrize("interleaved", [True, False])
def test_rotary_by_complex_numbers(interleaved):
    rows, angles = normal(36, 3, 2, 7), normal(37, 8, 3)
    turned = kvcache.rotary(rows, np.cos(angles), np.sin(angles), 4, interleaved)
    real = slice(0, 6, 2) if interleaved else slice(0, 3)
    imaginary = slice(1, 6, 2) if interleaved else slice(3, 6)
    before = rows[..., real] + 1j * rows[..., imaginary]
    after = turned[..., real] + 1j * turned[..., imaginary]
    np.testing.assert_allclose(after, before * np.exp(1j * angles[4:7])[:, None, :], atol=1e-15)
    np.testing.assert_array_equal(turned[..., 6], rows[..., 6])


def test_append_by_hand():
    p = Problem(np.ones((2, 1, 1, 2)), np.zeros((2, 4, 1, 2)), np.zeros((2, 4, 1, 1)))
    p.seqused_k = np.array([2, 0])
    p.descale_k, p.descale_v = np.array([2.0]), np.array([[0.5], [0.001]])
    knew, vnew = np.full((2, 1, 1, 2), 9.0), np.full((2, 1, 1, 1), 3.0)
    q, k, v, used = kvcache.append(p, knew, vnew, "e4m3")
    np.testing.assert_array_equal(used, [3, 1])
    np.testing.assert_array_equal(k[0, :, 0, 0], [0, 0, 4.5, 0])
    np.testing.assert_array_equal(k[1, :, 0, 0], [4.5, 0, 0, 0])
    np.testing.assert_array_equal(v[0, :, 0, 0], [0, 0, 6, 0])
    np.testing.assert_array_equal(v[1, :, 0, 0], [448, 0, 0, 0])  # 3000 saturates
    np.testing.assert_array_equal(q, p.q)


def test_append_to_pages():
    p, _, _ = draw(38, Sk=7, seqused_k=np.array([3, 0]))
    knew, vnew = normal(39, 2, 4, 2, 6), normal(40, 2, 4, 2, 5)
    angles = normal(41, 8, 2)
    rotation = dict(cos=np.cos(angles), sin=np.sin(angles))
    dense = kvcache.append(p, knew, vnew, "f32", **rotation)
    pages = kvcache.append(paged(p, 3, 42), knew, vnew, "f32", **rotation)
    states = []
    for base, (q, k, v, used) in ((p, dense), (paged(p, 3, 42), pages)):
        states.append(forward(dataclasses.replace(base, q=q, k=k, v=v, seqused_k=used)).o)
    np.testing.assert_array_equal(*states)


def test_descale_blocks_of_positions():  # B102
    p, _, _ = draw(43, Sk=300, B=2, Hq=2, Hkv=2, seqused_k=np.array([300, 129]))
    p.descale_k, p.descale_v = normal(44, 2, 2, 3), normal(45, 2, 2, 3)
    at = np.arange(300) // 128
    per_k, per_v = (np.moveaxis(x[:, :, at], 1, 2)[..., None] for x in (p.descale_k, p.descale_v))
    other = Problem(p.q, p.k * per_k, p.v * per_v, seqused_k=p.seqused_k)
    np.testing.assert_array_equal(forward(p).o, forward(other).o)
    zero = dataclasses.replace(p, descale_v=np.zeros(1))
    assert not forward(zero).o.any()
