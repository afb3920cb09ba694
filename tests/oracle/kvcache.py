# SPDX-License-Identifier: Apache-2.0
"""Append to a KV cache, with rotary embedding: "Paged keys and values" in docs/semantics.md."""

import numpy as np

from formats import round_to


def rotary(rows, cos, sin, position, interleaved):
    """Rows (S, H, D) turned in pairs over the first rotary_dim elements; row i by the angles of
    position + i."""
    half = cos.shape[1]
    if interleaved:
        first, second = np.arange(half) * 2, np.arange(half) * 2 + 1
    else:
        first, second = np.arange(half), np.arange(half) + half
    at = position + np.arange(len(rows))
    c, s = cos[at][:, None, :], sin[at][:, None, :]
    x, y = rows[:, :, first], rows[:, :, second]
    turned = rows.copy()
    turned[:, :, first] = x * c - y * s
    turned[:, :, second] = x * s + y * c
    return turned


def append(p, knew, vnew, dtype, cos=None, sin=None, interleaved=False):
    """q, k and v of problem p after rows knew and vnew (B, Snew, H, D) were put at positions
    seqused_k[b] + i and q was turned, each rounded to dtype; and the advanced seqused_k."""
    q, k, v = p.q.copy(), p.k.copy(), p.v.copy()
    used = np.zeros(len(knew), np.int64) if p.seqused_k is None else p.seqused_k.astype(np.int64)
    for b in range(len(knew)):
        keys = knew[b]
        if cos is not None:
            keys = rotary(keys, cos, sin, used[b], interleaved)
            q[b] = round_to(rotary(q[b], cos, sin, used[b], interleaved), dtype)
        put(p, k, keys, p.descale_k, dtype, b, used[b])
        put(p, v, vnew[b], p.descale_v, dtype, b, used[b])
    return q, k, v, used + knew.shape[1]


def put(p, cache, rows, descale, dtype, b, start):
    for i, row in enumerate(rows):
        position = start + i
        stored = round_to(row / factor_at(descale, b, position), dtype)
        if p.block_table is None:
            cache[b, position] = stored
        else:
            cache[p.block_table[b, position // p.page_size], position % p.page_size] = stored


def factor_at(descale, b, position):
    """(Hkv, 1) or a scalar: what one position of the cache is multiplied by when it is read."""
    if descale is None:
        return 1.0
    if descale.size == 1:
        return descale.reshape(())
    per_head = descale[b] if descale.ndim == 2 else descale[b][:, position // 128]
    return per_head[:, None]
