/*
 * Token ids of texts, from a JSON file: a list of objects with "token_ids".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ENCODER_TEXTS_H
#define ENCODER_TEXTS_H

#include <stdint.h>

enum { TEXTS_MAX = 64, TEXT_TOKENS_MAX = 512 };

struct texts {
    int32_t count;
    int32_t longest;
    int32_t offsets[TEXTS_MAX + 1]; /* text n has the tokens offsets[n] to offsets[n + 1] - 1 */
    int32_t token[TEXTS_MAX * TEXT_TOKENS_MAX];
};

/* 0, or -1 after a sentence on stderr. words: an id is less. */
int texts_load(const char *path, int32_t words, struct texts *out_texts);

#endif
