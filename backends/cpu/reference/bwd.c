/*
 * The golden backward: docs/semantics.md, "Backward", in f64. Every output is computed by who owns it, from P
 * recomputed, so that the order of each sum is fixed: dq by tiles of rows, dk and dv by tiles of keys, dbias and dsink
 * by element.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "backends/cpu/reference/head.h"
#include "backends/cpu/reference/load.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/store.h"
#include "backends/cpu/reference/tile.h"

/* ---- Workspace: D_i of every row, then what each thread works with ---- */

struct backward_scratch {
    double *left;     /* a tile of q or k, D each */
    double *right;    /* a tile of do or v, Dv each */
    double *sum_left; /* the tile's dq or dk */
    double *sum_right;
    double *vector;
    struct reference_matrix dot;      /* q k; then dS */
    struct reference_matrix dot_grad; /* do v; then P o Z, or dA */
    bool *seen;
    double *bias; /* a row of dbias */
};

static struct backward_scratch scratch_cut(const attune_problem *problem, char *base, uint64_t *out_bytes) {
    struct reference_scratch scratch = {.base = base};
    const int64_t rows = ATTUNE_REFERENCE_TILE_ROWS;
    const int64_t other = attune_max(problem->rows, problem->keys);
    const struct backward_scratch cut = {
        .left = attune_reference_take(&scratch, rows, problem->head_dim, sizeof(double)),
        .right = attune_reference_take(&scratch, rows, problem->head_dim_v, sizeof(double)),
        .sum_left = attune_reference_take(&scratch, rows, problem->head_dim, sizeof(double)),
        .sum_right = attune_reference_take(&scratch, rows, problem->head_dim_v, sizeof(double)),
        .vector =
            attune_reference_take(&scratch, 1, attune_max(problem->head_dim, problem->head_dim_v), sizeof(double)),
        .dot = attune_reference_matrix_take(&scratch, rows, other),
        .dot_grad = attune_reference_matrix_take(&scratch, rows, other),
        .seen = attune_reference_take(&scratch, rows, other, sizeof(bool)),
        .bias =
            attune_reference_take(&scratch, 1, problem->keys + 1, sizeof(double)), /* 1 where Sk is 0, if broadcast */
    };
    *out_bytes = scratch.used_bytes;
    return cut;
}

/* Rows of q in all: in a packed batch those of the tensor. */
static int64_t rows_in_all(const attune_problem *problem) {
    return problem->operand[ATTUNE_OPERAND_Q].shape[0] * problem->operand[ATTUNE_OPERAND_Q].shape[1];
}

static double *row_dots_cut(const attune_problem *problem, char *base, uint64_t *out_bytes) {
    struct reference_scratch scratch = {.base = base};
    double *dots = attune_reference_take(&scratch, rows_in_all(problem), problem->heads_q, sizeof(double));
    *out_bytes = scratch.used_bytes;
    return dots;
}

static uint64_t backward_workspace_bytes(const attune_problem *problem, const attune_schedule *schedule,
                                         int32_t threads) {
    (void)schedule;
    uint64_t shared_bytes = 0;
    uint64_t thread_bytes = 0;
    (void)row_dots_cut(problem, NULL, &shared_bytes);
    (void)scratch_cut(problem, NULL, &thread_bytes);
    return attune_reference_scratch_bytes(shared_bytes, thread_bytes, threads);
}

static struct backward_scratch scratch_of(const struct attune_cpu_run *run, int32_t thread) {
    uint64_t shared_bytes = 0;
    uint64_t thread_bytes = 0;
    (void)row_dots_cut(run->problem, NULL, &shared_bytes);
    (void)scratch_cut(run->problem, NULL, &thread_bytes);
    return scratch_cut(run->problem, run->workspace + shared_bytes + (uint64_t)thread * thread_bytes, &thread_bytes);
}

/* Where D_i of a row is kept. */
static double *row_dot_of(const struct reference_head *head, int64_t i) {
    const struct attune_cpu_run *run = head->run;
    const bool packed = attune_reference_has(run, ATTUNE_OPERAND_CU_SEQLENS_Q);
    const int64_t before = packed ? head->sequence.first_row : head->sequence.batch * run->problem->rows;
    uint64_t bytes = 0;
    return row_dots_cut(run->problem, run->workspace, &bytes) + (before + i) * run->problem->heads_q + head->head;
}

/* ---- D_i = sum_d do_i o_i ---- */

static void row_dots_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const struct backward_scratch scratch = scratch_of(run, thread);
    const struct reference_sequence sequence = attune_reference_sequence(run, unit / run->problem->heads_q);
    const struct reference_head head = attune_reference_head(run, &sequence, unit % run->problem->heads_q);
    const struct reference_vectors dout = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_DOUT, head.head);
    const struct reference_vectors o = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_O, head.head);
    for (int64_t i = 0; i < sequence.mask.rows; i++) {
        double sum = 0;
        attune_reference_vector_load(&dout, i, scratch.right);
        attune_reference_vector_load(&o, i, scratch.vector);
        for (int64_t d = 0; d < o.length; d++) {
            sum += scratch.right[d] * scratch.vector[d];
        }
        *row_dot_of(&head, i) = sum;
    }
}

/* ---- One row and key ---- */

struct row_state {
    double lse;
    double rest; /* dlse_i - D_i */
};

/* A row of lse or dlse; 0 if it is absent. */
static double row_value(const struct reference_head *head, attune_operand operand, int64_t i) {
    const struct attune_cpu_run *run = head->run;
    if (!attune_reference_has(run, operand)) {
        return 0.0;
    }
    const char *at =
        attune_reference_address(run, operand, head->sequence.batch, head->head, head->sequence.first_row + i);
    return attune_reference_load(run->problem->operand[operand].dtype, at, 0);
}

static struct row_state row_state_of(const struct reference_head *head, int64_t i) {
    return (struct row_state){
        .lse = row_value(head, ATTUNE_OPERAND_LSE, i),
        .rest = row_value(head, ATTUNE_OPERAND_DLSE, i) - *row_dot_of(head, i),
    };
}

struct pair {
    double weight; /* P o Z */
    double da;     /* dA */
    double ds;     /* dS */
};

/* False, and no gradient, where the row does not see the key, or sees none. dot: q_i k_j. dot_grad: do_i v_j. */
static bool pair_of(const struct reference_head *head, int64_t i, int64_t j, struct row_state row, double dot,
                    double dot_grad, struct pair *out) {
    const double s = attune_reference_score(head, i, j, dot);
    if (s == -INFINITY || row.lse == -INFINITY) {
        return false;
    }
    const double p = exp(s - row.lse);
    const double z = attune_reference_dropout_factor(head, i, j);
    out->weight = p * z;
    out->da = p * (z * dot_grad + row.rest);
    out->ds = out->da * attune_reference_score_slope(head, dot);
    return true;
}

static void scale_all(double factor, double *value, int64_t count) {
    for (int64_t n = 0; n < count; n++) {
        value[n] *= factor;
    }
}

/* ---- Rows: dS and dA of a tile of rows over the keys that it may see ---- */

static attune_interval rows_gradient(const struct reference_head *head, int64_t first, int64_t count,
                                     const struct backward_scratch *scratch) {
    const struct attune_cpu_run *run = head->run;
    const struct reference_sequence *sequence = &head->sequence;
    const struct reference_vectors q = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_Q, head->head);
    const struct reference_vectors k = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_K, head->head_kv);
    const struct reference_vectors v = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_V, head->head_kv);
    const struct reference_vectors dout = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_DOUT, head->head);
    const attune_interval keys = attune_mask_keys(sequence->mask, first, count);

    attune_reference_tile_load(&q, first, count, scratch->left);
    attune_reference_tile_load(&dout, first, count, scratch->right);
    attune_reference_tile_dot(scratch->left, count, &k, keys, scratch->vector, scratch->dot);
    attune_reference_tile_dot(scratch->right, count, &v, keys, scratch->vector, scratch->dot_grad);
    for (int64_t r = 0; r < count; r++) {
        const struct row_state row = row_state_of(head, first + r);
        for (int64_t j = keys.begin; j < keys.end; j++) {
            const int64_t at = r * scratch->dot.width + j;
            struct pair pair = {0};
            scratch->seen[at] =
                pair_of(head, first + r, j, row, scratch->dot.value[at], scratch->dot_grad.value[at], &pair);
            scratch->dot.value[at] = pair.ds;
            scratch->dot_grad.value[at] = pair.da;
        }
    }
    return keys;
}

static int64_t tiles_of(int64_t length) {
    return attune_ceil_div(length, ATTUNE_REFERENCE_TILE_ROWS);
}

/* dQ = scale dS K. A unit is a tile of rows of one query head of one sequence. */
static void dq_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const int64_t tiles = tiles_of(run->problem->rows);
    const int64_t first = unit % tiles * ATTUNE_REFERENCE_TILE_ROWS;
    const struct reference_sequence sequence = attune_reference_sequence(run, unit / tiles / run->problem->heads_q);
    const int64_t count = attune_clamp(sequence.mask.rows - first, 0, ATTUNE_REFERENCE_TILE_ROWS);
    if (count == 0) {
        return;
    }
    const struct reference_head head = attune_reference_head(run, &sequence, unit / tiles % run->problem->heads_q);
    const struct reference_vectors k = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_K, head.head_kv);
    const struct reference_vectors dq = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_DQ, head.head);
    const struct backward_scratch scratch = scratch_of(run, thread);
    const attune_interval keys = rows_gradient(&head, first, count, &scratch);

    memset(scratch.sum_left, 0, (size_t)(count * dq.length) * sizeof(double));
    attune_reference_tile_add(scratch.dot, scratch.seen, count, &k, keys, scratch.vector, scratch.sum_left);
    scale_all(run->bindings->scale, scratch.sum_left, count * dq.length);
    attune_reference_tile_store(&dq, first, count, scratch.sum_left);
}

/* ---- Keys: dS and P o Z of a tile of keys over the rows that may see it, of one query head ---- */

/* Tiles of k and v are loaded. */
static void keys_add_head(const struct reference_head *head, int64_t first, int64_t count,
                          const struct backward_scratch *scratch) {
    const struct attune_cpu_run *run = head->run;
    const struct reference_sequence *sequence = &head->sequence;
    const struct reference_vectors q = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_Q, head->head);
    const struct reference_vectors dout = attune_reference_vectors(run, sequence, ATTUNE_OPERAND_DOUT, head->head);
    const attune_interval rows = attune_mask_rows(sequence->mask, first, count);

    attune_reference_tile_dot(scratch->left, count, &q, rows, scratch->vector, scratch->dot);
    attune_reference_tile_dot(scratch->right, count, &dout, rows, scratch->vector, scratch->dot_grad);
    for (int64_t i = rows.begin; i < rows.end; i++) {
        const struct row_state row = row_state_of(head, i);
        for (int64_t r = 0; r < count; r++) {
            const int64_t at = r * scratch->dot.width + i;
            struct pair pair = {0};
            scratch->seen[at] =
                pair_of(head, i, first + r, row, scratch->dot.value[at], scratch->dot_grad.value[at], &pair);
            scratch->dot.value[at] = pair.ds;
            scratch->dot_grad.value[at] = pair.weight;
        }
    }
    attune_reference_tile_add(scratch->dot, scratch->seen, count, &q, rows, scratch->vector, scratch->sum_left);
    attune_reference_tile_add(scratch->dot_grad, scratch->seen, count, &dout, rows, scratch->vector,
                              scratch->sum_right);
}

static void store_if_given(const struct attune_cpu_run *run, const struct reference_sequence *sequence,
                           attune_operand operand, int64_t head, int64_t first, int64_t count, const double *rows) {
    if (attune_reference_has(run, operand)) {
        const struct reference_vectors vectors = attune_reference_vectors(run, sequence, operand, head);
        attune_reference_tile_store(&vectors, first, count, rows);
    }
}

/* dK = scale dS^T Q, dV = (P o Z)^T dO, summed over the group's query heads. A unit is a tile of keys of one key-value
 * head of one sequence. A key under the left padding or past the sequence's end has no row in dk and dv. */
static void dkv_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const attune_problem *problem = run->problem;
    const int64_t tiles = tiles_of(problem->keys);
    const int64_t head_kv = unit / tiles % problem->heads_kv;
    const int64_t group = problem->heads_q / problem->heads_kv;
    const struct reference_sequence sequence = attune_reference_sequence(run, unit / tiles / problem->heads_kv);
    const int64_t begin = unit % tiles * ATTUNE_REFERENCE_TILE_ROWS;
    const attune_interval keys =
        attune_interval_cut(begin, begin + ATTUNE_REFERENCE_TILE_ROWS, sequence.mask.leftpad, sequence.mask.keys);
    const int64_t count = keys.end - keys.begin;
    if (count == 0) {
        return;
    }
    const struct backward_scratch scratch = scratch_of(run, thread);
    const struct reference_vectors k = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_K, head_kv);
    const struct reference_vectors v = attune_reference_vectors(run, &sequence, ATTUNE_OPERAND_V, head_kv);
    attune_reference_tile_load(&k, keys.begin, count, scratch.left);
    attune_reference_tile_load(&v, keys.begin, count, scratch.right);
    memset(scratch.sum_left, 0, (size_t)(count * k.length) * sizeof(double));
    memset(scratch.sum_right, 0, (size_t)(count * v.length) * sizeof(double));
    for (int64_t h = head_kv * group; h < (head_kv + 1) * group; h++) {
        const struct reference_head head = attune_reference_head(run, &sequence, h);
        keys_add_head(&head, keys.begin, count, &scratch);
    }
    scale_all(run->bindings->scale, scratch.sum_left, count * k.length);
    store_if_given(run, &sequence, ATTUNE_OPERAND_DK, head_kv, keys.begin, count, scratch.sum_left);
    store_if_given(run, &sequence, ATTUNE_OPERAND_DV, head_kv, keys.begin, count, scratch.sum_right);
}

/* ---- dbias = dA, summed over the axes that bias broadcasts ---- */

/* What an index along an axis of bias stands for. */
static attune_interval axis_of(int64_t index, int64_t extent, int64_t whole) {
    return extent == 1 ? (attune_interval){0, whole} : (attune_interval){index, index + 1};
}

static void dbias_add_row(const struct reference_head *head, int64_t i, bool one_key,
                          const struct backward_scratch *scratch) {
    const attune_interval keys = rows_gradient(head, i, 1, scratch);
    for (int64_t j = keys.begin; j < keys.end; j++) {
        if (scratch->seen[j]) {
            scratch->bias[one_key ? 0 : j] += scratch->dot_grad.value[j];
        }
    }
}

/* A unit is a row of dbias: every element of it is written. */
static void dbias_unit(const void *context, int64_t unit, int32_t thread) {
    const struct attune_cpu_run *run = context;
    const attune_problem *problem = run->problem;
    const attune_layout *layout = &problem->operand[ATTUNE_OPERAND_DBIAS];
    const int64_t *shape = layout->shape;
    const int64_t row = unit % shape[2];
    const int64_t head_index = unit / shape[2] % shape[1];
    const int64_t batch = unit / shape[2] / shape[1];
    const struct backward_scratch scratch = scratch_of(run, thread);
    const attune_interval batches = axis_of(batch, shape[0], problem->batch);
    const attune_interval heads = axis_of(head_index, shape[1], problem->heads_q);
    const attune_interval rows = axis_of(row, shape[2], problem->rows);

    memset(scratch.bias, 0, (size_t)shape[3] * sizeof(double));
    for (int64_t b = batches.begin; b < batches.end; b++) {
        const struct reference_sequence sequence = attune_reference_sequence(run, b);
        for (int64_t h = heads.begin; h < heads.end; h++) {
            const struct reference_head head = attune_reference_head(run, &sequence, h);
            for (int64_t i = rows.begin; i < rows.end && i < sequence.mask.rows; i++) {
                dbias_add_row(&head, i, shape[3] == 1, &scratch);
            }
        }
    }
    char *out = attune_reference_address(run, ATTUNE_OPERAND_DBIAS, batch, head_index, row);
    for (int64_t j = 0; j < shape[3]; j++) {
        attune_reference_store(layout->dtype, out, j * layout->stride[3], scratch.bias[j]);
    }
}

/* ---- dsink[h] = sum_{b,i} exp(sink[h] - lse) (dlse_i - D_i) ---- */

static void dsink_unit(const void *context, int64_t h, int32_t thread) {
    (void)thread;
    const struct attune_cpu_run *run = context;
    double sum = 0;
    for (int64_t b = 0; b < run->problem->batch; b++) {
        const struct reference_sequence sequence = attune_reference_sequence(run, b);
        const struct reference_head head = attune_reference_head(run, &sequence, h);
        for (int64_t i = 0; i < sequence.mask.rows && head.sink != -INFINITY; i++) {
            const struct row_state row = row_state_of(&head, i);
            sum += exp(head.sink - row.lse) * row.rest;
        }
    }
    attune_reference_store(run->problem->operand[ATTUNE_OPERAND_DSINK].dtype,
                           attune_reference_address(run, ATTUNE_OPERAND_DSINK, h, 0, 0), 0, sum);
}

/* ---- Backward ---- */

static void backward_execute(const struct attune_cpu_run *run) {
    const attune_problem *problem = run->problem;
    const int64_t *bias = problem->operand[ATTUNE_OPERAND_DBIAS].shape;
    const double rows = (double)problem->batch * (double)problem->heads_q * (double)problem->rows;
    const double pass = rows * (double)problem->keys * 2 * (double)(problem->head_dim + problem->head_dim_v);

    attune_cpu_team_run(run->team, problem->batch * problem->heads_q, rows * (double)problem->head_dim_v, row_dots_unit,
                        run);
    if (attune_reference_has(run, ATTUNE_OPERAND_DQ)) {
        attune_cpu_team_run(run->team, problem->batch * problem->heads_q * tiles_of(problem->rows), pass, dq_unit, run);
    }
    if (attune_reference_has(run, ATTUNE_OPERAND_DK) || attune_reference_has(run, ATTUNE_OPERAND_DV)) {
        attune_cpu_team_run(run->team, problem->batch * problem->heads_kv * tiles_of(problem->keys), pass, dkv_unit,
                            run);
    }
    if (attune_reference_has(run, ATTUNE_OPERAND_DBIAS)) {
        attune_cpu_team_run(run->team, bias[0] * bias[1] * bias[2], pass, dbias_unit, run);
    }
    if (attune_reference_has(run, ATTUNE_OPERAND_DSINK)) {
        attune_cpu_team_run(run->team, problem->heads_q, rows, dsink_unit, run);
    }
}

const struct attune_cpu_kernel attune_cpu_reference_backward = {
    .workspace_bytes = backward_workspace_bytes,
    .execute = backward_execute,
};
