/*
 * Random problems of attention with every option, and the portable kernels held to the reference on them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_GENERIC_CASE_H
#define ATTUNE_TESTS_GENERIC_CASE_H

#include "tests/unit/reference_case.h"

#define GENERIC_CASE_BATCH_MAX 4

struct generic_case {
    unsigned seed;
    uint64_t drawn; /* random numbers so far */
    struct reference_case test;
    double *truth[ATTUNE_OPERAND_COUNT]; /* what the reference gives in f64, element by element as in memory */
    int64_t elements[ATTUNE_OPERAND_COUNT];
    /* Of each sequence: the rows and keys that it owns. */
    int64_t first_row[GENERIC_CASE_BATCH_MAX];
    int64_t rows[GENERIC_CASE_BATCH_MAX];
    int64_t first_key[GENERIC_CASE_BATCH_MAX];
    int64_t keys[GENERIC_CASE_BATCH_MAX];
    int64_t leftpad[GENERIC_CASE_BATCH_MAX];
};

/* How a kernel goes about it. */
struct generic_way {
    int32_t tile_rows;
    int32_t tile_keys;
    int32_t splits;
    bool packs;
    int32_t threads;
};

/* A problem drawn from a seed; everything that no sequence owns is NaN, pages that no row can see do not exist. */
struct generic_case generic_case_draw(attune_op op, unsigned seed);
/* Asks the reference; part of drawing. */
void generic_case_find_truth(struct generic_case *drawn);
void generic_case_free(struct generic_case *drawn);

struct generic_way generic_case_draw_way(struct generic_case *drawn);

/* Runs the portable kernel into outputs of NaN, with a workspace of exactly the size that it asks for. */
void generic_case_run(struct generic_case *drawn, const struct generic_way *way);

/* Fails the test unless the outputs are those of the reference, and nothing else was written. */
void generic_case_check(const struct generic_case *drawn, const struct generic_way *way);

/* Random numbers from the seed: 0 to count - 1. */
int64_t generic_case_pick(struct generic_case *drawn, int64_t count);

#endif
