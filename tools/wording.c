/* SPDX-License-Identifier: Apache-2.0 */
#include "wording.h"

#include <string.h>

static const struct {
    const char *argument;
    const char *flag;
} words[] = {
    {"dout", "--do"},
    {"alibi_slopes", "--alibi"},
    {"cu_seqlens_q", "--cu-seqlens-q"},
    {"cu_seqlens_k", "--cu-seqlens-k"},
    {"max_seqlen_q", "--max-seqlen-q"},
    {"max_seqlen_k", "--max-seqlen-k"},
    {"seqused_q", "--seqused-q"},
    {"seqused_k", "--seqused-k"},
    {"leftpad_k", "--leftpad-k"},
    {"block_table", "--block-table"},
    {"page_size", "--page-size"},
    {"block_row_ptr", "--block-sparse ROWPTR"},
    {"block_col_idx", "--block-sparse COLIDX"},
    {"block_rows", "--block-sparse BQ"},
    {"block_keys", "--block-sparse BK"},
    {"descale_q", "--descale-q"},
    {"descale_k", "--descale-k"},
    {"descale_v", "--descale-v"},
    {"dropout_rate", "--dropout"},
    {"k_new", "--knew"},
    {"v_new", "--vnew"},
    {"rotary_cos", "--cos"},
    {"rotary_sin", "--sin"},
    {"part_o", "--o"},
    {"part_lse", "--lse"},
};

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

static const char *flag_of(const char *word, size_t length) {
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i].argument) == length && strncmp(words[i].argument, word, length) == 0) {
            return words[i].flag;
        }
    }
    return NULL;
}

void wording_print(FILE *stream, const char *sentence) {
    while (*sentence) {
        size_t length = strspn(sentence, letters);
        const char *flag = flag_of(sentence, length);
        if (flag) {
            fputs(flag, stream);
        } else {
            fwrite(sentence, 1, length, stream);
        }
        sentence += length;
        length = strcspn(sentence, letters);
        fwrite(sentence, 1, length, stream);
        sentence += length;
    }
}
