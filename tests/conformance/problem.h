/*
 * A problem with all its bytes: what options describe, drawn from a seed, in host memory as it will lie on the device.
 *
 * Each buffer is larger than the tensors in it. What belongs to no element of a sequence is poison: 0xFF bytes among
 * inputs, which is NaN in every floating dtype and -1 in integers, and a pattern among outputs. `owner` tells for each
 * byte whose it is, so that afterwards every other byte can be shown to be what it was.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_PROBLEM_H
#define CONFORM_PROBLEM_H

#include "attune/backend.h"
#include "options.h"

#define CONFORM_OPERANDS (ATTUNE_OPERAND_DROPOUT_OFFSET + 1)

enum conform_owner {
    CONFORM_OWNER_NONE,   /* padding, guard, rows of no sequence: must not change and must not matter */
    CONFORM_OWNER_INPUT,  /* must not change */
    CONFORM_OWNER_OUTPUT, /* must be written */
    CONFORM_OWNER_EITHER  /* may be left, or set to 0: probs and dbias of pairs outside of every sequence */
};

struct conform_buffer {
    uint64_t size_bytes;
    uint64_t used_bytes; /* to the last element's end */
    attune_dtype dtype;
    bool filled; /* holds an input, so that an output in it keeps the input's bytes */
    uint8_t *image;
    uint8_t *owner;
};

struct conform_tensor {
    attune_tensor view; /* data NULL; dtype NONE: absent */
    int buffer;         /* -1: no element, data stays NULL */
    int64_t extent[4];  /* by the canonical axes of attune_layout; 1 where the tensor lacks one */
    int64_t stride[4];
};

/* Where batch entry b lies, and what exists of it. */
struct conform_sequence {
    int64_t row_first; /* its first row in the axis of rows: 0 unless packed */
    int64_t rows;
    int64_t key_first;
    int64_t keys;
    int64_t leftpad;
};

struct conform_problem {
    struct conform_options options;
    uint64_t seed;
    int64_t rows_total;   /* extent of the axis of rows in q: rows, or those of the packed batch */
    int64_t keys_total;   /* likewise, of an unpaged k */
    int64_t longest_rows; /* Sq of shapes */
    int64_t longest_keys; /* Sk of shapes: with a block table columns * page_size */
    int64_t pages;
    int64_t columns;
    int64_t block_rows_count; /* nq of the block-sparse pattern */
    struct conform_sequence *sequence;
    int32_t *block_table;   /* (batch, columns) */
    int32_t *cu_seqlens[2]; /* q, k */
    int32_t *seqused[2];
    int32_t *leftpad;
    int32_t *block_row_ptr; /* (1 or heads_q, nq + 1) */
    int32_t *block_col_idx;
    int64_t block_col_count;
    uint64_t dropout_seed;
    uint32_t dropout_offset;

    struct conform_tensor tensor[CONFORM_OPERANDS];
    struct conform_buffer buffer[CONFORM_OPERANDS];
    int buffer_count;
};

struct conform_problem *conform_problem_make(const struct conform_options *options, uint64_t seed);
void conform_problem_free(struct conform_problem *problem);

bool conform_problem_has(const struct conform_problem *problem, attune_operand operand);
bool conform_problem_writes(const struct conform_problem *problem, attune_operand operand);

/* One element of a tensor that belongs to a sequence. */
struct conform_element {
    int64_t axis[4];     /* (b, s, h, d), (b, h, s, 0), (b, h, i, j) or (n, m, l, 0); s counts in the sequence */
    uint64_t byte;       /* in the tensor's buffer */
    int64_t compact;     /* in the tensor's C order, k and v unpaged to (B, Sk, Hkv, D) */
    bool in_no_sequence; /* of bias and its kind, of descale: outside of every sequence */
};

typedef void (*conform_element_fn)(void *context, const struct conform_element *element);

/* Calls visit for every element that belongs to a sequence; of bias and its kind, and of descale, for every element. */
void conform_problem_visit(const struct conform_problem *problem, attune_operand operand, conform_element_fn visit,
                           void *context);

/* Elements of the tensor in its compact form. */
int64_t conform_problem_count_compact(const struct conform_problem *problem, attune_operand operand);

/* args of the call over buffers that lie at data. */
attune_attention_args conform_problem_args(const struct conform_problem *problem, void *const *data);

/* The tensor of args that is the operand. */
attune_tensor *conform_args_tensor(attune_attention_args *args, attune_operand operand);

/* The operand's name in args, for sentences. */
const char *conform_operand_name(attune_operand operand);

/* Zeroed memory, or an end with a message: a suite that runs out of memory has nothing to say about a backend. */
void *conform_alloc(uint64_t count, uint64_t size);

/* Steps of conform_problem_make. */
void conform_problem_draw_lengths(struct conform_problem *problem); /* lengths.c */
void conform_problem_draw_pages(struct conform_problem *problem);   /* lengths.c */
void conform_problem_draw_blocks(struct conform_problem *problem);  /* blocks.c */
void conform_problem_lay_out(struct conform_problem *problem);      /* layout.c */
void conform_problem_fill(struct conform_problem *problem);         /* fill.c */

/* Sets o and lse of a backward problem, from forward's exact ones in compact form. */
void conform_problem_fill_forward(struct conform_problem *problem, const double *o, const double *lse);

/* Writes value over all bytes of float inputs that belong to nobody, in tensors of k alone, v alone or all. */
enum conform_stale { CONFORM_STALE_K = 1, CONFORM_STALE_V = 2, CONFORM_STALE_ALL = 3 };
void conform_problem_set_stale(struct conform_problem *problem, enum conform_stale which, double value);

/* Multiplies a float input, before the problem is used. */
void conform_problem_multiply(struct conform_problem *problem, attune_operand operand, double factor);

/* Sets the entry of an int32 vector or table, counted in C order, before the problem is used. */
void conform_problem_set_integer(struct conform_problem *problem, attune_operand operand, int64_t entry, int32_t value);

/* The shift of docs/semantics.md: row i's diagonal is key i + shift. */
int64_t conform_problem_shift(const struct conform_problem *problem, const struct conform_sequence *sequence);

/* Whether row i may see key j by causal and window alone. */
bool conform_problem_in_band(const struct conform_problem *problem, const struct conform_sequence *sequence, int64_t i,
                             int64_t j);

#endif
