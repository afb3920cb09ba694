/*
 * Problems made by hand, without core, and run by the CPU reference: for tests of the reference itself.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_REFERENCE_CASE_H
#define ATTUNE_TESTS_REFERENCE_CASE_H

#include "attune/backend.h"

struct reference_case {
    attune_problem problem;
    attune_bindings bindings;
    int32_t threads;                       /* 0: 3 */
    void *memory[ATTUNE_OPERAND_COUNT];    /* freed with the case */
    attune_pointer part_o[8], part_lse[8]; /* merge */
};

/* Head sizes and lengths; everything else is off, and scale is 1. */
struct reference_case reference_case_make(attune_op op, int64_t batch, int64_t rows, int64_t keys, int64_t heads_q,
                                          int64_t heads_kv, int64_t head_dim, int64_t head_dim_v);
void reference_case_free(struct reference_case *test);

/* Gives an operand memory of its own, of exactly its size, all bytes 0xFF: NaN in every dtype. An axis of extent 1 has
 * stride 0. */
void *reference_case_add(struct reference_case *test, attune_operand operand, attune_dtype dtype, int64_t n0,
                         int64_t n1, int64_t n2, int64_t n3);

/* Adds the operand in the shape that its role has in the dense problem. */
float *reference_case_add_f32(struct reference_case *test, attune_operand operand);

/* Adds (n, 1, 1, 1) numbers. */
void reference_case_add_integers(struct reference_case *test, attune_operand operand, int64_t count,
                                 const int32_t *values);

/* q, k, v and o in f32 of normal-like values from a seed, o and lse of NaN. */
void reference_case_add_attention(struct reference_case *test, unsigned seed);

/* do, dlse of values from a seed, and dq, dk, dv of NaN. */
void reference_case_add_gradients(struct reference_case *test, unsigned seed);

/* The elements of an operand in f64, and back, by index in memory. */
double reference_case_get(const struct reference_case *test, attune_operand operand, int64_t index);
void reference_case_set(struct reference_case *test, attune_operand operand, int64_t index, double value);
int64_t reference_case_count(const struct reference_case *test, attune_operand operand);
void reference_case_draw(struct reference_case *test, attune_operand operand, unsigned seed, double size);
void reference_case_fill(struct reference_case *test, attune_operand operand, double value);

/* A number between -1 and 1, from the two. */
double reference_case_noise(unsigned seed, int64_t index);

/* Runs the operation's row with a workspace of exactly the size that it asks for, filled with NaN. */
void reference_case_run(struct reference_case *test);

/* Fails the test unless the two agree to a tolerance relative to max(1, |expected|), as equal infinities and NaN do. */
void reference_case_close(double got, double expected, double tolerance);

/* A forward with q, k and v of values from a fixed seed, o and lse of NaN. */
struct reference_case reference_case_forward(int64_t batch, int64_t rows, int64_t keys, int64_t heads_q,
                                             int64_t heads_kv, int64_t head_dim, int64_t head_dim_v);

/* All dot products 0: lse is the logarithm of how many keys a row sees. */
struct reference_case reference_case_flat(int64_t rows, int64_t keys);

/* Elements of lse and of o. */
double reference_case_lse(const struct reference_case *test, int64_t index);
double reference_case_o(const struct reference_case *test, int64_t index);

/* Runs it, and fails the test unless row i has lse log(count[i]), and o = 0 where that count is 0. One head. */
void reference_case_counts(struct reference_case *test, const int *count);

/* Two cases gave the same bits. */
void reference_case_same_bits(const struct reference_case *a, const struct reference_case *b, attune_operand operand);

/* Host services without core: config_get gives what reference_case_config was last told, alloc is calloc and fails
 * after reference_case_fail_alloc(n) successes, fail remembers its status. */
extern const attune_host_services reference_case_host;
void reference_case_config(const char *name, const char *value);
void reference_case_fail_alloc(int64_t successes);
const char *reference_case_last_failure(void);
int reference_case_logged(void);

#endif
