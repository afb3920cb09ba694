# SPDX-License-Identifier: Apache-2.0
"""What attention computes, in numpy and float64: the page docs/semantics.md read line by line.

Nothing here is shared with the library: it is a second reading of the same page, and the golden
kernel is judged by it. Tensors hold the values that their storage format holds (formats.py), in
float64, in the layout (B, S, H, D), or (total, H, D) where cu_seqlens says so.
"""

from dataclasses import dataclass

import numpy as np

import philox


@dataclass
class Problem:
    """Every option of the page; what is absent is None."""

    q: np.ndarray
    k: np.ndarray  # with a block table: (pages, page_size, Hkv, D)
    v: np.ndarray
    scale: float = None  # 1 / sqrt(D)
    softcap: float = 0.0
    causal: bool = False
    align: str = "bottom-right"
    diagonal: int = None  # takes the place of align
    window: tuple = None  # (left, right), -1 is open
    bias: np.ndarray = None  # broadcastable to (B, Hq, Sq, Sk), as mask
    mask: np.ndarray = None
    alibi: np.ndarray = None  # (Hq,) or (B, Hq)
    sink: np.ndarray = None  # (Hq,)
    block_sparse: tuple = None  # (row_ptr, col_idx, BQ, BK), row_ptr (nq + 1,) or (Hq, nq + 1)
    cu_seqlens_q: np.ndarray = None
    cu_seqlens_k: np.ndarray = None
    max_seqlen_q: int = None
    max_seqlen_k: int = None
    seqused_q: np.ndarray = None
    seqused_k: np.ndarray = None
    leftpad_k: np.ndarray = None
    block_table: np.ndarray = None
    page_size: int = None
    descale_q: np.ndarray = None  # (1,), (B, Hkv) or (B, Hkv, ceil(S / 128))
    descale_k: np.ndarray = None
    descale_v: np.ndarray = None
    dropout: float = 0.0
    seed: int = 0
    offset: int = 0
    origin: tuple = (0, 0, 0, 0)  # b0, h0, i0, j0
    heads_total: int = 0  # 0: Hq

    @property
    def batch(self):
        if self.cu_seqlens_q is not None:
            return len(self.cu_seqlens_q) - 1
        return self.q.shape[0]

    @property
    def heads_q(self):
        return self.q.shape[-2]

    @property
    def heads_kv(self):
        return self.k.shape[-2]

    @property
    def group(self):
        return self.heads_q // self.heads_kv

    @property
    def longest_q(self):
        return longest(self.q, self.cu_seqlens_q, self.max_seqlen_q)

    @property
    def longest_k(self):
        if self.block_table is not None:
            return self.block_table.shape[1] * self.page_size
        return longest(self.k, self.cu_seqlens_k, self.max_seqlen_k)

    @property
    def score_shape(self):
        return (self.batch, self.heads_q, self.longest_q, self.longest_k)

    @property
    def factor(self):
        return 1 / np.sqrt(self.q.shape[-1]) if self.scale is None else self.scale


@dataclass
class Sequence:
    """Batch entry b: its lengths, where its rows lie, and its values after descale."""

    b: int
    at_q: tuple  # index of its rows in q, o, do and dq
    at_k: tuple  # index of its keys in k, v, dk and dv; None with a block table
    sq: int
    sk: int
    leftpad: int
    shift: int
    q: np.ndarray = None
    k: np.ndarray = None
    v: np.ndarray = None

    @property
    def rows(self):
        return np.arange(self.sq)[:, None]

    @property
    def keys(self):
        return np.arange(self.sk)[None, :]


# ---------------------------------------------------------------------------------------------
# Sequences


def sequences(p):
    for b in range(p.batch):
        at_q, sq = locate(p.cu_seqlens_q, p.seqused_q, b, p.longest_q)
        at_k, sk = locate(p.cu_seqlens_k, p.seqused_k, b, p.longest_k)
        leftpad = 0 if p.leftpad_k is None else int(p.leftpad_k[b])
        one = Sequence(b, at_q, at_k, sq, sk, leftpad, shift_of(p, sq, sk))
        factor_q = np.repeat(descale_of(p, p.descale_q, b, sq), p.group, axis=1)
        one.q = p.q[at_q] * factor_q
        one.k = keys_of(p, p.k, one) * descale_of(p, p.descale_k, b, sk)
        one.v = keys_of(p, p.v, one) * descale_of(p, p.descale_v, b, sk)
        yield one


def longest(tensor, cu_seqlens, max_seqlen):
    if cu_seqlens is None:
        return tensor.shape[1]
    return int(np.diff(cu_seqlens).max(initial=0)) if max_seqlen is None else max_seqlen


def locate(cu_seqlens, seqused, b, longest):
    """The index of sequence b's existing rows in its tensor, and how many there are."""
    if cu_seqlens is None:
        count = longest if seqused is None else int(seqused[b])
        return (b, slice(0, count)), count
    start, stop = int(cu_seqlens[b]), int(cu_seqlens[b + 1])
    count = stop - start if seqused is None else int(seqused[b])
    return (slice(start, start + count),), count


def shift_of(p, sq, sk):
    if p.diagonal is not None:
        return int(p.diagonal)
    return sk - sq if p.align == "bottom-right" else 0


def descale_of(p, descale, b, length):
    """(length, Hkv, 1): the factor of each position and key-value head."""
    if descale is None:
        return np.ones((length, p.heads_kv, 1))
    if descale.size == 1:
        return np.full((length, p.heads_kv, 1), descale.reshape(()))
    if descale.ndim == 2:
        return np.broadcast_to(descale[b][None, :, None], (length, p.heads_kv, 1))
    return descale[b][:, np.arange(length) // 128].T[:, :, None]


def keys_of(p, stored, one):
    """Rows 0 .. Sk of k or v, (Sk, Hkv, D)."""
    if p.block_table is None:
        return stored[one.at_k]
    reached = in_band(p, one).any(axis=0) & (one.keys[0] >= one.leftpad)
    rows = np.full((one.sk,) + stored.shape[2:], np.nan)  # what a page not read leaves there
    for n in range(p.block_table.shape[1]):
        held = slice(n * p.page_size, min((n + 1) * p.page_size, one.sk))
        if reached[held].any():
            rows[held] = stored[p.block_table[one.b, n], : held.stop - held.start]
    return rows


# ---------------------------------------------------------------------------------------------
# Who sees whom, and the score


def in_band(p, one):
    """Causal and window, (Sq, Sk)."""
    diagonal = one.rows + one.shift
    band = np.ones((one.sq, one.sk), bool)
    if p.causal:
        band &= one.keys <= diagonal
    if p.window is not None:
        left, right = p.window
        if left != -1:
            band &= diagonal - left <= one.keys
        if right != -1:
            band &= one.keys <= diagonal + right
    return band


def visible(p, one, h):
    """bool (Sq, Sk): the AND of all that the problem asks for."""
    see = in_band(p, one) & (one.keys >= one.leftpad)
    if p.mask is not None:
        see &= part_of(p, p.mask, one, h) != 0
    if p.block_sparse is not None:
        block_q, block_k = p.block_sparse[2:]
        see &= listed_blocks(p, h)[one.rows // block_q, one.keys // block_k]
    return see


def part_of(p, tensor, one, h):
    """bias or mask of one sequence and head, broadcast to (Sq, Sk)."""
    return np.broadcast_to(tensor, p.score_shape)[one.b, h, : one.sq, : one.sk]


def listed_blocks(p, h):
    """bool (nq, nk): the blocks that the CSR list of head h names."""
    row_ptr, col_idx, block_q, block_k = p.block_sparse
    if row_ptr.ndim == 2:
        row_ptr = row_ptr[h]
    listed = np.zeros((-(-p.longest_q // block_q), -(-p.longest_k // block_k)), bool)
    for row in range(len(listed)):
        listed[row, col_idx[row_ptr[row] : row_ptr[row + 1]]] = True
    return listed


def score(p, one, h):
    """raw and s of every (i, j), before visibility: both (Sq, Sk)."""
    raw = p.factor * (one.q[:, h] @ one.k[:, h // p.group].T)
    s = p.softcap * np.tanh(raw / p.softcap) if p.softcap > 0 else raw
    if p.bias is not None:
        s = s + part_of(p, p.bias, one, h)
    if p.alibi is not None:
        slope = p.alibi[h] if p.alibi.ndim == 1 else p.alibi[one.b, h]
        s = s - slope * np.abs(one.rows + one.shift - one.keys)
    return raw, s


def dropout_factor(p, one, h):
    """Z: keep / (1 - rate), or 1."""
    if p.dropout == 0:
        return np.ones((one.sq, one.sk))
    b0, h0, i0, j0 = p.origin
    head = (b0 + one.b) * (p.heads_total or p.heads_q) + h0 + h
    rows, columns = i0 + one.rows[:, 0], j0 + one.keys[0]
    return philox.keep(p.dropout, p.seed, p.offset, head, rows, columns) / (1 - p.dropout)


def sum_seen(see, weight, values):
    """sum_j weight[i, j] values[j, :] over the j that see[i, j]: what is hidden adds nothing, NaN
    included, as no multiplication by a zero weight could promise."""
    return np.where(see[:, :, None], weight[:, :, None] * values[None, :, :], 0.0).sum(axis=1)


# ---------------------------------------------------------------------------------------------
# Forward


@dataclass
class State:
    o: np.ndarray
    lse: np.ndarray
    probs: np.ndarray = None


def forward(p, unowned=0.0):
    """o, lse and probs. Elements that no sequence owns keep `unowned`."""
    o = np.full(p.q.shape[:-1] + p.v.shape[-1:], unowned)
    lse = np.full(lse_shape(p), unowned)
    probs = np.full(p.score_shape, unowned)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for one in sequences(p):
            for h in range(p.heads_q):
                o_h, lse_h, probs_h = forward_head(p, one, h)
                o[one.at_q][:, h] = o_h
                lse[lse_at(one, h)] = lse_h
                probs[one.b, h, : one.sq, : one.sk] = probs_h
    return State(o, lse, probs)


def lse_shape(p):
    if p.cu_seqlens_q is not None:
        return (p.heads_q, p.q.shape[0])
    return (p.batch, p.heads_q, p.longest_q)


def lse_at(one, h):
    """The index of the sequence's rows in lse and dlse: (B, Hq, Sq), or (Hq, total)."""
    return one.at_q[:-1] + (h,) + one.at_q[-1:]


def forward_head(p, one, h):
    s = np.where(visible(p, one, h), score(p, one, h)[1], -np.inf)
    see = s != -np.inf  # a score of -inf hides a key, too
    sink = -np.inf if p.sink is None else p.sink[h]
    m = np.maximum(s.max(axis=1, initial=-np.inf), sink)
    m = np.where(m == -np.inf, 0.0, m)  # nothing seen: any finite m gives no mass
    weight = np.where(see, np.exp(s - m[:, None]), 0.0)
    mass = weight.sum(axis=1) + np.exp(sink - m)  # the page's l
    probs = np.where((mass == 0)[:, None], 0.0, weight / mass[:, None])
    o = sum_seen(see, probs * dropout_factor(p, one, h), one.v[:, h // p.group])
    return o, m + np.log(mass), probs


# ---------------------------------------------------------------------------------------------
# Backward


@dataclass
class Gradients:
    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray
    dbias: np.ndarray = None
    dsink: np.ndarray = None


def backward(p, o, lse, do, dlse=None, unowned=0.0):
    """Gradients of sum(o do) + sum(lse dlse). o and lse are what forward gave, as it rounded them.
    Rows and keys that no sequence owns keep `unowned`."""
    grad = Gradients(*(np.full(x.shape, unowned) for x in (p.q, p.k, p.v)))
    dbias = np.zeros(p.score_shape)
    dsink = np.zeros(p.heads_q)
    dlse = np.zeros(lse.shape) if dlse is None else dlse
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        for one in sequences(p):
            first, last = one.at_k[-1].start, one.at_k[-1].stop
            owned = one.at_k[:-1] + (slice(min(first + one.leftpad, last), last),)
            grad.dk[owned] = grad.dv[owned] = 0.0
            for h in range(p.heads_q):
                row = lse_at(one, h)
                dq, dk, dv, da, ds = backward_head(
                    p, one, h, o[one.at_q][:, h], lse[row], do[one.at_q][:, h], dlse[row]
                )
                kv = h // p.group
                grad.dq[one.at_q][:, h] = dq
                grad.dk[owned][:, kv] += dk[one.leftpad :]
                grad.dv[owned][:, kv] += dv[one.leftpad :]
                dbias[one.b, h, : one.sq, : one.sk] = da
                dsink[h] += ds
    grad.dbias = None if p.bias is None else sum_to(dbias, p.bias.shape)
    grad.dsink = None if p.sink is None else dsink
    return grad


def backward_head(p, one, h, o, lse, do, dlse):
    """dq, dk, dv, dA and dsink of one sequence and query head."""
    q, k, v = one.q[:, h], one.k[:, h // p.group], one.v[:, h // p.group]
    raw, s = score(p, one, h)
    see = visible(p, one, h) & (s != -np.inf)
    see &= (lse != -np.inf)[:, None]  # no gradient from a row that sees nothing
    z = dropout_factor(p, one, h)
    prob = np.where(see, np.exp(s - lse[:, None]), 0.0)
    delta = (do * o).sum(axis=1)
    dp = z * (do @ v.T)
    da = np.where(see, prob * (dp - delta[:, None] + dlse[:, None]), 0.0)
    ds = da * (1 - np.tanh(raw / p.softcap) ** 2) if p.softcap > 0 else da
    dq = p.factor * sum_seen(see, ds, k)
    dk = p.factor * sum_seen(see.T, ds.T, q)
    dv = sum_seen(see.T, (prob * z).T, do)
    dsink = 0.0
    if p.sink is not None and p.sink[h] != -np.inf:
        dsink = (np.exp(p.sink[h] - lse) * (dlse - delta)).sum()
    return dq, dk, dv, da, dsink


def sum_to(x, shape):
    """x summed over the axes that were broadcast from `shape`."""
    full = (1,) * (x.ndim - len(shape)) + tuple(shape)
    axes = tuple(n for n in range(x.ndim) if full[n] == 1 and x.shape[n] != 1)
    return x.sum(axis=axes, keepdims=True).reshape(shape)


# ---------------------------------------------------------------------------------------------
# Merging


def merge(states):
    """(o, lse) of the union of disjoint sets of keys, in index order. o (..., S, H, Dv), lse
    (..., H, S)."""
    o, lse = states[0]
    for o2, lse2 in states[1:]:
        with np.errstate(invalid="ignore"):
            both = np.logaddexp(lse, lse2)
        nothing = both == -np.inf
        base = np.where(nothing, 0.0, both)
        first, second = (np.swapaxes(np.exp(x - base), -1, -2)[..., None] for x in (lse, lse2))
        o, lse = o * first + o2 * second, both
    return o, lse
