# SPDX-License-Identifier: Apache-2.0
"""The oracle's forward, its edges and its merge, against cases worked by hand.

Ids as B018 are faults that other attention libraries had (tests/faults.md); each case is the check
that would have found it.
"""

import dataclasses

import numpy as np
import pytest

import philox
from draws import draw, flat, normal
from semantics import Problem, backward, forward, merge

# ---------------------------------------------------------------------------------------------
# Who sees whom, by hand


def test_causal_alignment():  # B018
    ln = np.log
    np.testing.assert_allclose(forward(flat(1, 2, 5, causal=True)).lse[0, 0], [ln(4), ln(5)])
    top_left = forward(flat(1, 2, 5, causal=True, align="top-left")).lse
    np.testing.assert_allclose(top_left[0, 0], [0, ln(2)], atol=1e-15)
    diagonal = forward(flat(1, 2, 5, causal=True, diagonal=2)).lse
    np.testing.assert_allclose(diagonal[0, 0], [ln(3), ln(4)])


@pytest.mark.parametrize("left", [0, 1, 3, 7, 127])
def test_window_counts_the_diagonal(left):  # B019
    rows = np.arange(20)
    lse = forward(flat(2, 20, 20, causal=True, window=(left, -1))).lse[0, 0]
    np.testing.assert_allclose(lse, np.log(np.minimum(rows + 1, left + 1)), atol=1e-15)
    same = forward(flat(2, 20, 20, window=(left, 0))).lse[0, 0]
    np.testing.assert_array_equal(lse, same)


def test_window_open_sides():
    assert forward(flat(3, 4, 6, window=(-1, -1))).lse[0, 0] == pytest.approx(np.log(6))
    right = forward(flat(3, 4, 6, window=(-1, 1), align="top-left")).lse[0, 0]
    np.testing.assert_allclose(right, np.log([2, 3, 4, 5]))


def test_rows_without_keys():  # B005
    p, do, dlse = draw(4, B=1, Sq=5, Sk=3, Hq=2, Hkv=1, causal=True)
    state = forward(p, unowned=np.nan)
    assert not state.o[0, :2].any() and not state.probs[0, :, :2].any()
    assert (state.lse[0, :, :2] == -np.inf).all()
    assert np.isfinite(state.o).all() and np.isfinite(state.lse[0, :, 2:]).all()
    grad = backward(p, state.o, state.lse, do, dlse)
    assert not grad.dq[0, :2].any() and grad.dq[0, 2:].all()
    shorter = dataclasses.replace(p, q=p.q[:, 2:])
    rest = backward(shorter, state.o[:, 2:], state.lse[..., 2:], do[:, 2:], dlse[..., 2:])
    np.testing.assert_allclose(grad.dk, rest.dk, atol=1e-15)
    np.testing.assert_allclose(grad.dv, rest.dv, atol=1e-15)


def test_rows_without_keys_under_a_sink():  # B038
    p, do, dlse = draw(5, B=1, Sq=2, Sk=0, Hq=2, Hkv=1, sink=np.array([0.25, -np.inf]))
    state = forward(p, unowned=np.nan)
    assert not state.o.any()
    assert (state.lse[0, 0] == 0.25).all() and (state.lse[0, 1] == -np.inf).all()
    grad = backward(p, state.o, state.lse, do, dlse)
    np.testing.assert_allclose(grad.dsink, [dlse[0, 0].sum(), 0])


@pytest.mark.parametrize("empty", range(1, 8))
def test_empty_lengths(empty):  # B055, B056
    sizes = {n: 0 for bit, n in enumerate(("B", "Sq", "Sk")) if empty >> bit & 1}
    p, do, dlse = draw(6, **sizes)
    state = forward(p, unowned=np.nan)
    assert not state.o.any() and (state.lse == -np.inf).all()
    grad = backward(p, state.o, state.lse, do, dlse, unowned=np.nan)
    assert not grad.dq.any() and not grad.dk.any() and not grad.dv.any()


def test_empty_sequences_of_a_packed_batch():  # B030, B040
    p = Problem(normal(7, 8, 4, 6), normal(8, 22, 2, 6), normal(9, 22, 2, 5))
    p.cu_seqlens_q, p.cu_seqlens_k = np.array([0, 0, 5, 5]), np.array([0, 7, 12, 20])
    state = forward(p, unowned=np.nan)
    grad = backward(p, state.o, state.lse, normal(10, 8, 4, 5), normal(11, 4, 8), unowned=np.nan)
    for x in (state.o, grad.dq, state.lse.T):
        assert np.isfinite(x[:5]).all() and np.isnan(x[5:]).all()
    for x in (grad.dk, grad.dv):
        assert not x[:7].any() and x[7:12].all() and not x[12:20].any() and np.isnan(x[20:]).all()


def test_only_owned_elements_are_written():
    p, do, dlse = draw(12, seqused_q=np.array([2, 5]), seqused_k=np.array([7, 3]))
    p.leftpad_k = np.array([4, 1])
    state = forward(p, unowned=np.nan)
    grad = backward(p, state.o, state.lse, do, dlse, unowned=np.nan)
    np.testing.assert_array_equal(np.isnan(state.o[0, :, 0, 0]), [False] * 2 + [True] * 3)
    np.testing.assert_array_equal(np.isnan(state.lse[0, 0]), [False] * 2 + [True] * 3)
    np.testing.assert_array_equal(np.isnan(grad.dq[0, :, 0, 0]), [False] * 2 + [True] * 3)
    np.testing.assert_array_equal(np.isnan(grad.dk[0, :, 0, 0]), [True] * 4 + [False] * 3)
    np.testing.assert_array_equal(np.isnan(grad.dv[1, :, 0, 0]), [True] + [False] * 2 + [True] * 4)


@pytest.mark.parametrize("rubbish", [np.nan, np.inf, 1e30])
def test_bytes_outside_a_sequence_never_count(rubbish):  # B009
    p, do, dlse = draw(13, seqused_q=np.array([4, 5]), seqused_k=np.array([5, 7]))
    p.leftpad_k, p.causal = np.array([1, 2]), True
    clean = forward(p)
    spoilt = dataclasses.replace(p, q=p.q.copy(), k=p.k.copy(), v=p.v.copy())
    spoilt.q[0, 4:] = rubbish
    for x in (spoilt.k, spoilt.v):
        x[0, :1] = x[0, 5:] = x[1, :2] = rubbish
    dirty = forward(spoilt)
    np.testing.assert_array_equal(clean.o, dirty.o)
    np.testing.assert_array_equal(clean.lse, dirty.lse)
    first, second = (backward(x, clean.o, clean.lse, do, dlse) for x in (p, spoilt))
    for name in ("dq", "dk", "dv"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


def test_hidden_keys_may_hold_anything():
    p, do, dlse = draw(14, B=1, Sq=4, Sk=4, causal=True)
    spoilt = dataclasses.replace(p, k=p.k.copy(), v=p.v.copy())
    spoilt.k[0, 3], spoilt.v[0, 3] = np.nan, np.inf
    clean, dirty = forward(p), forward(spoilt)
    np.testing.assert_array_equal(clean.o[0, :3], dirty.o[0, :3])
    assert np.isnan(dirty.o[0, 3]).all()


def test_head_map_of_groups():  # B035
    for heads_q, heads_kv in ((3, 1), (6, 2), (10, 2), (21, 7)):
        p = flat(15, 2, 3, heads_q, heads_kv)
        p.v = np.broadcast_to(np.arange(heads_kv)[:, None], p.v.shape).astype(float)
        o = forward(p).o
        expected = np.arange(heads_q) // (heads_q // heads_kv)
        np.testing.assert_allclose(o, np.broadcast_to(expected[:, None], o.shape))


def test_block_rows_without_blocks():  # B085
    p, do, dlse = draw(16, B=1, Sq=5, Sk=7, Hq=2, Hkv=2)
    p.block_sparse = (np.array([1, 1, 3, 3]), np.array([9, 0, 2]), 2, 3)  # offsets are absolute
    state = forward(p)
    grad = backward(p, state.o, state.lse, do, dlse)
    assert (state.lse[0, :, [0, 1, 4]] == -np.inf).all()
    assert not grad.dq[0, [0, 1, 4]].any()
    assert not grad.dk[0, 3:6].any() and not grad.dv[0, 3:6].any() and grad.dv[0, [0, 6]].all()
    per_head = np.array([[1, 1, 3, 3], [3, 4, 4, 4]]), np.array([9, 0, 2, 1])
    second = forward(dataclasses.replace(p, block_sparse=(*per_head, 2, 3)))
    np.testing.assert_array_equal(second.o[:, :, 0], state.o[:, :, 0])
    np.testing.assert_array_equal(second.probs[0, 1].astype(bool).sum(axis=1), [3, 3, 0, 0, 0])
    p.block_sparse = None
    p.mask = np.zeros((1, 1, 5, 7))
    p.mask[..., 2:4, :3] = p.mask[..., 2:4, 6:] = 1
    np.testing.assert_array_equal(state.o, forward(p).o)


# ---------------------------------------------------------------------------------------------
# The score, by hand


def test_lse_is_a_natural_logarithm():  # B043
    assert forward(flat(17, 1, 8)).lse[0, 0, 0] == pytest.approx(np.log(8), abs=1e-15)


def test_cap_before_mask():  # B087
    p = flat(18, 2, 2, causal=True, softcap=1.0)
    p.v = np.array([0.0, 1e4]).reshape(1, 2, 1, 1)
    state = forward(p)
    assert state.o[0, 0, 0, 0] == 0 and state.lse[0, 0, 0] == 0
    assert state.o[0, 1, 0, 0] == 5e3


def test_softcap_value():
    p = Problem(*(np.full((1, 1, 1, 1), x) for x in (3.0, 2.0, 1.0)), scale=-1.0, softcap=4.0)
    assert forward(p).lse[0, 0, 0] == pytest.approx(4 * np.tanh(-6 / 4), abs=1e-15)


def test_alibi_is_a_distance():  # B090
    p = flat(19, 1, 3, alibi=np.array([np.log(2)]))
    state = forward(p)
    np.testing.assert_allclose(state.probs[0, 0, 0], np.array([1, 2, 4]) / 7)
    assert state.lse[0, 0, 0] == pytest.approx(np.log(1.75))
    beyond = forward(dataclasses.replace(p, diagonal=0)).probs[0, 0, 0]
    np.testing.assert_allclose(beyond, np.array([4, 2, 1]) / 7)


def test_alibi_per_batch():
    slopes = np.log(np.array([[2.0, 3.0], [4.0, 5.0]]))
    p = Problem(
        np.zeros((2, 1, 2, 1)), np.zeros((2, 2, 1, 1)), np.zeros((2, 2, 1, 1)), alibi=slopes
    )
    np.testing.assert_allclose(forward(p).lse[..., 0], np.log(1 + 1 / np.exp(slopes)))


def test_sink_takes_mass_and_brings_no_value():
    p = flat(20, 1, 3, sink=np.array([np.log(5)]))
    state = forward(p)
    assert state.lse[0, 0, 0] == pytest.approx(np.log(8))
    np.testing.assert_allclose(state.o[0, 0, 0], p.v[0, :, 0].sum(axis=0) / 8)
    np.testing.assert_allclose(state.probs, 1 / 8)


def test_scale_defaults_to_one_over_root_of_head_size():
    p, _, _ = draw(21)
    explicit = dataclasses.replace(p, scale=6**-0.5)
    np.testing.assert_allclose(forward(p).o, forward(explicit).o, rtol=1e-12)


# ---------------------------------------------------------------------------------------------
# Infinity and NaN


def test_score_plus_infinity():
    p, do, dlse = draw(22, B=1, Hq=2, Hkv=1, bias=np.zeros((1, 2, 5, 7)))
    clean = forward(p)
    p.bias[0, 1, 2, 3] = np.inf
    state = forward(p)
    spoilt = np.zeros((5, 2), bool)
    spoilt[2, 1] = True
    assert np.isnan(state.o[0, spoilt]).all() and np.isnan(state.lse[0, 1, 2])
    np.testing.assert_array_equal(state.o[0, ~spoilt], clean.o[0, ~spoilt])


def test_score_minus_infinity():
    p, do, dlse = draw(23, B=1, Hq=2, Hkv=1, bias=np.zeros((1, 1, 5, 7)))
    p.bias[..., 1, :3] = p.bias[..., 2, :] = -np.inf
    state = forward(p)
    assert not state.probs[0, :, 1, :3].any()
    assert (state.lse[0, :, 2] == -np.inf).all() and not state.o[0, 2].any()
    do[0, 1:3] = np.nan  # what such rows have reaches no key that they do not see
    grad = backward(p, state.o, state.lse, do, dlse)
    masked, _, _ = draw(23, B=1, Hq=2, Hkv=1, mask=p.bias == 0)
    other = backward(masked, state.o, state.lse, do, dlse)
    for name in ("dq", "dk", "dv"):
        np.testing.assert_array_equal(getattr(grad, name), getattr(other, name))


def test_very_low_scores_are_ordinary():
    p, _, _ = draw(24, bias=np.full((1, 1, 1, 1), -1e30))
    low = forward(p)
    assert (low.lse == -1e30).all() and np.isfinite(low.o).all()
    np.testing.assert_allclose(low.probs.sum(axis=-1), 1)


def test_nan_in_a_query_row():
    p, do, dlse = draw(25, B=1, Sq=4, Sk=4, Hq=2, Hkv=1, causal=True)
    clean = forward(p)
    before = backward(p, clean.o, clean.lse, do, dlse)
    p.q[0, 1, 0, 2] = np.nan
    state = forward(p)
    grad = backward(p, state.o, state.lse, do, dlse)
    for x, y in ((state.o, clean.o), (grad.dq, before.dq)):
        assert np.isnan(x[0, 1, 0]).all()
        np.testing.assert_array_equal(np.delete(x[0, :, 0], 1, 0), np.delete(y[0, :, 0], 1, 0))
        np.testing.assert_array_equal(x[0, :, 1], y[0, :, 1])
    for x in (grad.dk, grad.dv):
        assert np.isnan(x[0, :2]).all() and np.isfinite(x[0, 2:]).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_dout_that_is_not_finite(value):
    p, do, dlse = draw(35, B=1, Sq=4, Sk=4, Hq=2, Hkv=1, causal=True)
    state = forward(p)
    before = backward(p, state.o, state.lse, do, dlse)
    do[0, 1, 0, 2] = value
    grad = backward(p, state.o, state.lse, do, dlse)
    assert not np.isfinite(grad.dq[0, 1, 0]).any() and np.isfinite(grad.dq).sum() == grad.dq.size - 6
    assert np.isfinite(grad.dk[0, 2:]).all() and not np.isfinite(grad.dk[0, :2]).any()
    np.testing.assert_array_equal(np.isfinite(grad.dv[0, 0, 0]), np.arange(5) != 2)
    np.testing.assert_array_equal(grad.dv[0, 2:], before.dv[0, 2:])


def test_infinite_query_under_softcap():
    p, do, dlse = draw(36, B=1, Sq=4, Sk=4, Hq=2, Hkv=1, causal=True, softcap=2.0)
    p.q[0, 1, 0, 2] = np.inf
    state = forward(p)
    assert np.isfinite(state.o).all() and np.isfinite(state.lse).all()
    grad = backward(p, state.o, state.lse, do, dlse)
    assert np.isfinite(grad.dq).all() and np.isfinite(grad.dv).all()
    spoilt = np.zeros((4, 6), bool)
    spoilt[:2, 2] = True  # the slope, 0, times infinity, of the keys that the row sees
    np.testing.assert_array_equal(np.isnan(grad.dk[0, :, 0]), spoilt)


# ---------------------------------------------------------------------------------------------
# Dropout, parts and merging


def test_dropout_leaves_lse_and_probs():  # B012
    p, _, _ = draw(26, Sq=16, Sk=16, causal=True)
    whole = forward(p)
    dropped = forward(dataclasses.replace(p, dropout=0.999, seed=7))
    np.testing.assert_array_equal(whole.lse, dropped.lse)
    np.testing.assert_array_equal(whole.probs, dropped.probs)
    assert np.isfinite(dropped.o).all() and (dropped.o == 0).all(axis=-1).any()


def test_dropout_scales_what_it_keeps():
    p = flat(26, 9, 8, dropout=0.75, seed=5, offset=6)
    p.v = np.eye(8)[None, :, None, :]
    kept = philox.keep(0.75, 5, 6, 0, range(9), range(8))
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(forward(p).o[0, :, 0], kept / 0.25 / 8)


def test_dropout_of_a_shard_is_that_of_the_whole():
    p, _, _ = draw(27, B=3, Sq=6, Hq=4, Hkv=4, dropout=0.5, seed=9, offset=2)
    shard = dataclasses.replace(p, q=p.q[1:, 2:, 1:3], k=p.k[1:, :, 1:3], v=p.v[1:, :, 1:3])
    shard.origin, shard.heads_total = (1, 1, 2, 0), 4
    np.testing.assert_array_equal(forward(shard).o, forward(p).o[1:, 2:, 1:3])


def test_merge_of_parts_is_the_whole():
    p, _, _ = draw(27, Sk=9, causal=True, alibi=normal(28, 4) ** 2, dropout=0.3, seed=11)
    p.sink, p.bias = normal(29, 4), normal(30, 2, 4, 5, 9)
    states = []
    for first, last in ((0, 3), (3, 3), (3, 8), (8, 9)):
        part = dataclasses.replace(p, k=p.k[:, first:last], v=p.v[:, first:last])
        part.bias, part.diagonal = p.bias[..., first:last], 9 - 5 - first
        part.origin, part.sink = (0, 0, 0, first), p.sink if first == 8 else None
        state = forward(part)
        states.append((state.o, state.lse))
    o, lse = merge(states)
    np.testing.assert_allclose(o, forward(p).o, atol=1e-14)
    np.testing.assert_allclose(lse, forward(p).lse, atol=1e-14)


def test_merge_with_empty_states():  # B006
    o, lse = normal(31, 1, 2, 1, 3), np.array([[[-1e30, 4.0]]])
    empty = np.zeros((1, 2, 1, 3)), np.full((1, 1, 2), -np.inf)
    for states in ([empty, (o, lse)], [(o, lse), empty], [empty, empty, (o, lse), empty]):
        merged = merge(states)
        np.testing.assert_array_equal(merged[0], o)
        np.testing.assert_array_equal(merged[1], lse)
    merged = merge([empty, empty])
    assert not merged[0].any() and (merged[1] == -np.inf).all()


def test_merge_by_hand():
    ones = np.ones((1, 1, 1, 1))
    o, lse = merge([(ones * x, ones[0] * np.log(x)) for x in (1.0, 3.0, 4.0)])
    assert o[0, 0, 0, 0] == pytest.approx((1 + 9 + 16) / 8)
    assert lse[0, 0, 0] == pytest.approx(np.log(8))
