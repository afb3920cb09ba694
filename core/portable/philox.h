/*
 * Dropout's random bits: the same on every backend, tile shape and split, integers only.
 *
 * Source: docs/semantics.md, "Dropout"; Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_PORTABLE_PHILOX_H
#define ATTUNE_PORTABLE_PHILOX_H

#include "core/portable/target.h"

typedef struct attune_philox_words {
    attune_u32 word[4];
} attune_philox_words;

/* Philox 4x32-10: counter in, four random words out. */
ATTUNE_FN attune_philox_words attune_philox(attune_philox_words counter, attune_u32 key0, attune_u32 key1) {
    int round;
    for (round = 0; round < 10; round++) {
        const attune_u64 product0 = (attune_u64)0xD2511F53u * counter.word[0];
        const attune_u64 product1 = (attune_u64)0xCD9E8D57u * counter.word[2];
        counter.word[0] = (attune_u32)(product1 >> 32) ^ counter.word[1] ^ key0;
        counter.word[1] = (attune_u32)product1;
        counter.word[2] = (attune_u32)(product0 >> 32) ^ counter.word[3] ^ key1;
        counter.word[3] = (attune_u32)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return counter;
}

/* What dropout needs to know of a call; the origins are where the call lies in the whole problem. */
typedef struct attune_dropout {
    attune_u64 seed;
    attune_u64 threshold; /* attune_dropout_threshold; 0 keeps everything */
    attune_i64 batch_origin;
    attune_i64 head_origin;
    attune_i64 row_origin;
    attune_i64 key_origin;
    attune_i64 heads_total;
    attune_u32 offset;
} attune_dropout;

/* The words of one row for the four keys 4 n to 4 n + 3, where n = (key_origin + key) / 4 for each of them. batch, head
 * and row are the call's own; row counts within the sequence. */
ATTUNE_FN attune_philox_words attune_dropout_words(attune_dropout dropout, attune_i64 batch, attune_i64 head,
                                                   attune_i64 row, attune_i64 n) {
    attune_philox_words counter;
    /* Unsigned: each is taken mod 2^32, and products may wrap. */
    counter.word[0] = dropout.offset;
    counter.word[1] = (attune_u32)((attune_u64)(dropout.batch_origin + batch) * (attune_u64)dropout.heads_total +
                                   (attune_u64)(dropout.head_origin + head));
    counter.word[2] = (attune_u32)(attune_u64)(dropout.row_origin + row);
    counter.word[3] = (attune_u32)(attune_u64)n;
    return attune_philox(counter, (attune_u32)dropout.seed, (attune_u32)(dropout.seed >> 32));
}

/* A threshold is up to 2^32, hence the 64 bits. */
ATTUNE_FN bool attune_dropout_keeps_word(attune_dropout dropout, attune_u32 word) {
    return word >= dropout.threshold;
}

/* Whether the weight of one row and key is kept. */
ATTUNE_FN bool attune_dropout_keeps(attune_dropout dropout, attune_i64 batch, attune_i64 head, attune_i64 row,
                                    attune_i64 key) {
    const attune_i64 position = dropout.key_origin + key;
    const attune_philox_words words = attune_dropout_words(dropout, batch, head, row, position / 4);
    const attune_u32 pair = (attune_u32)(position % 4 / 2);
    /* Chosen, not indexed: an index that a compiler cannot see puts the array into memory. */
    const attune_u32 even = pair == 0 ? words.word[0] : words.word[2];
    const attune_u32 odd = pair == 0 ? words.word[1] : words.word[3];
    return attune_dropout_keeps_word(dropout, position % 2 == 0 ? even : odd);
}

#if defined(ATTUNE_TARGET_HOST)
/* ceil(rate * 2^32) for a rate in [0, 1): a device need not have doubles. The product only moves the exponent, so it is
 * exact. */
ATTUNE_FN attune_u64 attune_dropout_threshold(double rate) {
    const double scaled = rate * 4294967296.0;
    const attune_u64 whole = (attune_u64)scaled;
    return (double)whole < scaled ? whole + 1 : whole;
}
#endif

#endif
