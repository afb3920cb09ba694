# SPDX-License-Identifier: Apache-2.0
"""Philox 4x32-10 (Salmon et al., SC11) and the dropout mask that docs/semantics.md draws from it."""

import math

import numpy as np

MULTIPLIER = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox4x32(counter, key):
    """Four uint32 words (leading axis) from a counter of four words and a key of two."""
    c0, c1, c2, c3 = (np.asarray(word, np.uint32) for word in np.broadcast_arrays(*counter))
    k0, k1 = key
    for _ in range(ROUNDS):
        high0, low0 = multiply(MULTIPLIER[0], c0)
        high1, low1 = multiply(MULTIPLIER[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ np.uint32(k0), low1, high0 ^ c3 ^ np.uint32(k1), low0
        k0 = (k0 + WEYL[0]) % 2**32
        k1 = (k1 + WEYL[1]) % 2**32
    return np.stack([c0, c1, c2, c3])


def multiply(factor, word):
    """The high and the low 32 bits of a 32 by 32 bit product."""
    product = word.astype(np.uint64) * factor
    return (product >> np.uint64(32)).astype(np.uint32), product.astype(np.uint32)


def threshold(rate):
    """ceil(rate * 2^32), an integer in [0, 2^32]: a word below it drops its element."""
    return math.ceil(rate * 2.0**32)


def keep(rate, seed, offset, head, rows, columns):
    """bool (rows, columns): which elements stay. head, rows and columns include the origins."""
    rows = np.asarray(rows, np.int64)[:, None]
    columns = np.asarray(columns, np.int64)[None, :]
    counter = [np.asarray(word % 2**32, np.uint32) for word in (offset, head, rows, columns // 4)]
    words = philox4x32(counter, (seed % 2**32, seed // 2**32))
    chosen = np.take_along_axis(words, np.broadcast_to(columns % 4, words.shape[1:])[None], 0)[0]
    return chosen.astype(np.uint64) >= np.uint64(threshold(rate))
