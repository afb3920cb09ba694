# SPDX-License-Identifier: Apache-2.0
"""Every gradient of the oracle against central differences of its own forward."""

import dataclasses

import numpy as np
import pytest

from draws import coin, draw, normal
from semantics import Problem, backward, forward

DENSE = {
    "plain": {},
    "scale": dict(scale=-0.7),
    "scale_zero": dict(scale=0.0),
    "softcap": dict(softcap=1.5, causal=True),
    "bias": dict(bias=normal(1, 2, 4, 5, 7)),
    "bias_broadcast": dict(bias=normal(2, 1, 4, 1, 7), softcap=2.0),
    "bias_rank_2": dict(bias=normal(3, 5, 7)),
    "alibi": dict(alibi=normal(4, 4) ** 2, causal=True, align="top-left"),
    "alibi_per_batch": dict(alibi=normal(5, 2, 4) ** 2, diagonal=1),
    "sink": dict(sink=normal(6, 4), window=(1, 0)),
    "sink_some_rows_empty": dict(sink=np.array([0.3, -np.inf, 2, -1]), causal=True, diagonal=-2),
    "mask": dict(mask=coin(7, 2, 1, 5, 7)),
    "window": dict(window=(2, 1)),
    "top_left": dict(causal=True, align="top-left"),
    "dropout": dict(dropout=0.3, seed=2**63 + 5, offset=9, origin=(1, 2, 3, 5), heads_total=9),
    "dropout_all": dict(
        dropout=0.4,
        seed=3,
        softcap=3.0,
        sink=normal(8, 4),
        bias=normal(9, 1, 1, 5, 7),
        window=(3, 2),
    ),
    "seqused": dict(seqused_q=np.array([3, 5]), seqused_k=np.array([7, 4]), causal=True),
    "leftpad": dict(leftpad_k=np.array([2, 0]), seqused_k=np.array([6, 7]), causal=True),
    "block_sparse": dict(
        block_sparse=(np.array([0, 2, 3, 3]), np.array([0, 2, 1]), 2, 3), sink=normal(10, 4)
    ),
    "block_sparse_per_head": dict(
        block_sparse=(
            np.array([[0, 1, 2], [2, 4, 4], [4, 5, 7], [7, 8, 9]]),
            np.array([0, 1, 0, 1, 1, 0, 1, 0, 1]),
            3,
            4,
        )
    ),
    "descale": dict(
        descale_q=np.array([[2.0, 0.5], [1.0, 3.0]]),
        descale_k=normal(11, 2, 2, 1),
        descale_v=np.array([1.5]),
    ),
}


def loss(p, do, dlse):
    state = forward(p)
    finite = np.isfinite(state.lse)
    return (state.o * do).sum() + (state.lse * dlse)[finite].sum()


def check_gradients(p, do, dlse, seed, stored=("q", "k", "v")):
    """Each gradient against the slope of the loss along random directions."""
    rng = np.random.default_rng(seed)
    state = forward(p)
    grad = backward(p, state.o, state.lse, do, dlse)
    names = stored + tuple(n for n in ("bias", "sink") if getattr(p, n) is not None)
    for name in names:
        at, analytic = getattr(p, name), getattr(grad, "d" + name)
        assert analytic.shape == at.shape
        for _ in range(3):
            toward = rng.normal(size=at.shape)
            step = 1e-5 * toward
            slope = loss(dataclasses.replace(p, **{name: at + step}), do, dlse)
            slope -= loss(dataclasses.replace(p, **{name: at - step}), do, dlse)
            slope /= 2e-5
            size = np.abs(analytic * toward).sum() + 1e-3
            assert abs(slope - (analytic * toward).sum()) <= 1e-7 * size, name


@pytest.mark.parametrize("name", DENSE)
def test_gradients_dense(name):
    p, do, dlse = draw(20, **DENSE[name])
    if name == "descale":
        check_gradients_of_values(p, do, dlse)
    else:
        check_gradients(p, do, dlse, 21)


def check_gradients_of_values(p, do, dlse):
    """Gradients are with respect to stored * descale: those of the problem of the values."""
    per_q = np.repeat(p.descale_q, p.group, axis=1)[:, None, :, None]
    per_k = np.moveaxis(p.descale_k, 1, 2)[..., None]
    plain = Problem(p.q * per_q, p.k * per_k, p.v * p.descale_v)
    state = forward(p)
    np.testing.assert_allclose(state.o, forward(plain).o, rtol=1e-12, atol=1e-12)
    ours, other = (backward(x, state.o, state.lse, do, dlse) for x in (p, plain))
    for name in ("dq", "dk", "dv"):
        np.testing.assert_allclose(getattr(ours, name), getattr(other, name), atol=1e-12)
    check_gradients(plain, do, dlse, 22)


@pytest.mark.parametrize("q_packed", [True, False])
@pytest.mark.parametrize("k_packed", [True, False])
def test_gradients_varlen(q_packed, k_packed):
    p, do, dlse = draw(23, B=3, Sq=4, Sk=5, causal=True, softcap=2.0, sink=normal(24, 4))
    p.alibi, p.dropout, p.seed = normal(25, 4) ** 2, 0.2, 1
    p.bias = normal(26, 1, 4, 4, 5)
    if q_packed:
        p.q, p.cu_seqlens_q = normal(27, 9, 4, 6), np.array([0, 4, 4, 7])  # two rows past the end
        do, dlse = normal(28, 9, 4, 5), normal(29, 4, 9)
        p.max_seqlen_q = 4
    if k_packed:
        p.k, p.v, p.cu_seqlens_k = normal(30, 8, 2, 6), normal(31, 8, 2, 5), np.array([0, 3, 5, 8])
        p.max_seqlen_k = 5
    check_gradients(p, do, dlse, 32)


def test_gradient_every_element():
    p, do, dlse = draw(33, B=1, Sq=3, Sk=4, Hq=2, Hkv=1, D=2, Dv=2, softcap=1.0, sink=normal(34, 2))
    p.bias = normal(35, 1, 2, 3, 1)
    state = forward(p)
    grad = backward(p, state.o, state.lse, do, dlse)
    for name in ("q", "k", "v", "bias", "sink"):
        at = getattr(p, name)
        for index in np.ndindex(at.shape):
            step = np.zeros(at.shape)
            step[index] = 1e-5
            up, down = (
                loss(dataclasses.replace(p, **{name: x}), do, dlse) for x in (at + step, at - step)
            )
            assert getattr(grad, "d" + name)[index] == pytest.approx((up - down) / 2e-5, abs=1e-8)
