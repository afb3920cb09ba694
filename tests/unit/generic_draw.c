/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attune/backend_util.h"
#include "backends/cpu/reference/store.h"
#include "core/portable/mask.h"
#include "tests/unit/generic_case.h"

#define COUNT(array) ((int64_t)(sizeof(array) / sizeof((array)[0])))

/* ---- Random numbers ---- */

static double noise(struct generic_case *drawn) {
    return reference_case_noise(drawn->seed, (int64_t)drawn->drawn++);
}

int64_t generic_case_pick(struct generic_case *drawn, int64_t count) {
    const int64_t picked = (int64_t)((noise(drawn) * 0.5 + 0.5) * (double)count);
    return picked < count ? picked : count - 1;
}

static bool one_in(struct generic_case *drawn, int64_t count) {
    return generic_case_pick(drawn, count) == 0;
}

#define PICK(drawn, array) ((array)[generic_case_pick((drawn), COUNT(array))])

/* ---- Operands ---- */

/* Memory of an operand whose axes lie in it in a given order, the last one dense; all of it NaN. */
static void place(struct generic_case *drawn, attune_operand operand, attune_dtype dtype, const int64_t shape[4],
                  const int order[4], int64_t gap) {
    struct reference_case *test = &drawn->test;
    attune_layout *layout = &test->problem.operand[operand];
    int64_t stride = 1;
    layout->dtype = dtype;
    layout->memory = ATTUNE_MEMORY_HOST;
    for (int n = 3; n >= 0; n--) {
        const int axis = order[n];
        layout->shape[axis] = shape[axis];
        layout->stride[axis] = shape[axis] == 1 ? 0 : stride;
        stride = stride * shape[axis] + (n == 3 ? gap : 0);
    }
    drawn->elements[operand] = stride;
    test->memory[operand] = malloc((size_t)(stride * attune_element_bytes(dtype)) + 1);
    assert_non_null(test->memory[operand]);
    memset(test->memory[operand], 0xFF, (size_t)(stride * attune_element_bytes(dtype)));
    test->bindings.operand[operand].data = test->memory[operand];
}

static const int as_it_is[4] = {0, 1, 2, 3};

/* (b, s, h, d), in that order or head before position. */
static void place_vectors(struct generic_case *drawn, attune_operand operand, attune_dtype dtype, int64_t b, int64_t s,
                          int64_t h, int64_t d) {
    static const int heads_first[4] = {0, 2, 1, 3};
    const int64_t shape[4] = {b, s, h, d};
    place(drawn, operand, dtype, shape, one_in(drawn, 2) ? heads_first : as_it_is, generic_case_pick(drawn, 3));
}

static void place_plain(struct generic_case *drawn, attune_operand operand, attune_dtype dtype, int64_t n0, int64_t n1,
                        int64_t n2, int64_t n3) {
    const int64_t shape[4] = {n0, n1, n2, n3};
    place(drawn, operand, dtype, shape, as_it_is, 0);
}

static void set(struct generic_case *drawn, attune_operand operand, int64_t i0, int64_t i1, int64_t i2, int64_t i3,
                double value) {
    const attune_layout *layout = &drawn->test.problem.operand[operand];
    attune_reference_store(layout->dtype, drawn->test.memory[operand], attune_layout_offset(layout, i0, i1, i2, i3),
                           value);
}

static void fill_noise(struct generic_case *drawn, attune_operand operand, double size) {
    const int64_t *shape = drawn->test.problem.operand[operand].shape;
    for (int64_t n = 0; n < shape[0] * shape[1] * shape[2] * shape[3]; n++) {
        set(drawn, operand, n / (shape[1] * shape[2] * shape[3]), n / (shape[2] * shape[3]) % shape[1],
            n / shape[3] % shape[2], n % shape[3], size * noise(drawn));
    }
}

static void place_integers(struct generic_case *drawn, attune_operand operand, int64_t n0, int64_t n1,
                           const int32_t *values) {
    place_plain(drawn, operand, ATTUNE_DTYPE_I32, n0, n1, 1, 1);
    if (n0 * n1 > 0) {
        memcpy(drawn->test.memory[operand], values, (size_t)(n0 * n1) * sizeof *values);
    }
}

static bool has(const struct generic_case *drawn, attune_operand operand) {
    return drawn->test.problem.operand[operand].dtype != ATTUNE_DTYPE_NONE;
}

/* ---- Sizes ---- */

static void draw_sizes(struct generic_case *drawn, attune_op op) {
    static const int64_t heads[][2] = {{1, 1}, {2, 2}, {2, 1}, {4, 2}, {6, 2}, {3, 1}, {8, 1}};
    static const int64_t head_dims[] = {1, 7, 8, 16, 24, 33, 40, 64, 64, 80, 128};
    static const attune_dtype dtypes[] = {ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F32, ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16,
                                          ATTUNE_DTYPE_E4M3};
    static const double scales[] = {0, 0, 0, -0.3, 1e-9, 0.5};
    const int64_t *group = heads[generic_case_pick(drawn, COUNT(heads))];
    const int64_t head_dim = PICK(drawn, head_dims);
    const int64_t head_dim_v = one_in(drawn, 2) ? head_dim : PICK(drawn, head_dims);
    drawn->test = reference_case_make(op, 1 + generic_case_pick(drawn, 3), 1 + generic_case_pick(drawn, 80),
                                      generic_case_pick(drawn, 200), group[0], group[1], head_dim, head_dim_v);
    attune_problem *problem = &drawn->test.problem;
    problem->dtype = PICK(drawn, dtypes);
    if (one_in(drawn, 4)) {
        problem->rows = 1 + generic_case_pick(drawn, 16);
        problem->head_dim = op == ATTUNE_OP_FORWARD && one_in(drawn, 2) ? 576 : 256;
        problem->head_dim_v = op == ATTUNE_OP_FORWARD && one_in(drawn, 2) ? 512 : 192;
    }
    drawn->test.bindings.scale = PICK(drawn, scales);
    if (drawn->test.bindings.scale == 0) {
        drawn->test.bindings.scale = 1 / sqrt((double)problem->head_dim);
    }
}

/* ---- Lengths ---- */

/* What each sequence owns on one side. Returns the rows of a packed tensor, some of them nobody's; 0: not packed. */
static int64_t draw_side(struct generic_case *drawn, attune_operand cu_seqlens, attune_operand seqused, bool may_pack,
                         bool must_use, int64_t capacity, int64_t *first, int64_t *length) {
    const int64_t batch = drawn->test.problem.batch;
    const bool packed = may_pack && one_in(drawn, 3);
    int32_t offsets[GENERIC_CASE_BATCH_MAX + 1] = {0};
    int32_t used[GENERIC_CASE_BATCH_MAX] = {0};
    for (int64_t b = 0; b < batch; b++) {
        length[b] = packed ? generic_case_pick(drawn, capacity + 1) : capacity;
        first[b] = packed ? offsets[b] : 0;
        offsets[b + 1] = offsets[b] + (int32_t)length[b];
    }
    if (packed) {
        place_integers(drawn, cu_seqlens, batch + 1, 1, offsets);
    }
    if (must_use || one_in(drawn, 3)) {
        for (int64_t b = 0; b < batch; b++) {
            length[b] = generic_case_pick(drawn, length[b] + 1);
            used[b] = (int32_t)length[b];
        }
        place_integers(drawn, seqused, batch, 1, used);
    }
    return packed ? offsets[batch] + 1 + generic_case_pick(drawn, 5) : 0;
}

static void draw_leftpad(struct generic_case *drawn) {
    int32_t leftpad[GENERIC_CASE_BATCH_MAX] = {0};
    if (!one_in(drawn, 4)) {
        return;
    }
    for (int64_t b = 0; b < drawn->test.problem.batch; b++) {
        drawn->leftpad[b] = generic_case_pick(drawn, drawn->keys[b] + 1);
        leftpad[b] = (int32_t)drawn->leftpad[b];
    }
    place_integers(drawn, ATTUNE_OPERAND_LEFTPAD_K, drawn->test.problem.batch, 1, leftpad);
}

/* ---- Who sees whom ---- */

static void draw_window(struct generic_case *drawn) {
    attune_problem *problem = &drawn->test.problem;
    problem->align = (attune_align)generic_case_pick(drawn, 3);
    if (problem->align == ATTUNE_ALIGN_DIAGONAL) {
        problem->diagonal = generic_case_pick(drawn, 200) - 100;
    }
    if (one_in(drawn, 2)) {
        problem->window_left = one_in(drawn, 2) ? -1 : generic_case_pick(drawn, 60);
        problem->window_right = one_in(drawn, 2) ? 0 : generic_case_pick(drawn, 60) - 1;
    }
}

static attune_mask mask_of(const struct generic_case *drawn, int64_t b) {
    const attune_problem *problem = &drawn->test.problem;
    const int64_t diagonal = problem->align == ATTUNE_ALIGN_DIAGONAL ? problem->diagonal : 0;
    return (attune_mask){
        .rows = drawn->rows[b],
        .keys = drawn->keys[b],
        .leftpad = drawn->leftpad[b],
        .shift =
            attune_mask_shift(problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT, diagonal, drawn->rows[b], drawn->keys[b]),
        .left = problem->window_left,
        .right = problem->window_right,
    };
}

static void draw_blocks(struct generic_case *drawn) {
    static const int64_t sizes[] = {1, 5, 16, 48, 300};
    attune_problem *problem = &drawn->test.problem;
    if (!one_in(drawn, 5)) {
        return;
    }
    problem->block_rows = PICK(drawn, sizes);
    problem->block_keys = PICK(drawn, sizes);
    const int64_t heads = one_in(drawn, 2) ? problem->heads_q : 1;
    const int64_t lists = attune_ceil_div(problem->rows, problem->block_rows);
    const int64_t blocks = attune_ceil_div(problem->keys, problem->block_keys);
    const int64_t density = 1 + generic_case_pick(drawn, 4);
    int32_t *row_ptr = calloc((size_t)(heads * (lists + 1)), sizeof *row_ptr);
    int32_t *col_idx = calloc((size_t)(heads * lists * blocks) + 1, sizeof *col_idx);
    int32_t count = 0;
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t list = 0; list < lists; list++) {
            row_ptr[h * (lists + 1) + list] = count;
            for (int64_t block = 0; block < blocks; block++) {
                if (one_in(drawn, density)) {
                    col_idx[count++] = (int32_t)block;
                }
            }
            row_ptr[h * (lists + 1) + list + 1] = count;
        }
    }
    place_integers(drawn, ATTUNE_OPERAND_BLOCK_ROW_PTR, heads, lists + 1, row_ptr);
    place_integers(drawn, ATTUNE_OPERAND_BLOCK_COL_IDX, count, 1, col_idx);
    free(row_ptr);
    free(col_idx);
}

/* An extent, or 1: broadcast. */
static int64_t maybe(struct generic_case *drawn, int64_t extent) {
    return one_in(drawn, 3) ? 1 : extent;
}

static void draw_mask(struct generic_case *drawn) {
    const attune_problem *problem = &drawn->test.problem;
    if (!one_in(drawn, 5)) {
        return;
    }
    place_plain(drawn, ATTUNE_OPERAND_MASK, ATTUNE_DTYPE_U8, maybe(drawn, problem->batch),
                maybe(drawn, problem->heads_q), maybe(drawn, problem->rows), maybe(drawn, problem->keys));
    uint8_t *mask = drawn->test.memory[ATTUNE_OPERAND_MASK];
    for (int64_t n = 0; n < drawn->elements[ATTUNE_OPERAND_MASK]; n++) {
        mask[n] = one_in(drawn, 3) ? 0 : (uint8_t)(1 + generic_case_pick(drawn, 255));
    }
}

/* ---- The score ---- */

static void draw_bias(struct generic_case *drawn) {
    const attune_problem *problem = &drawn->test.problem;
    if (one_in(drawn, 4)) {
        const bool is_f32 = problem->dtype == ATTUNE_DTYPE_E4M3 || one_in(drawn, 2);
        place_plain(drawn, ATTUNE_OPERAND_BIAS, is_f32 ? ATTUNE_DTYPE_F32 : problem->dtype,
                    maybe(drawn, problem->batch), maybe(drawn, problem->heads_q), maybe(drawn, problem->rows),
                    maybe(drawn, problem->keys));
        fill_noise(drawn, ATTUNE_OPERAND_BIAS, 2);
    }
}

static void draw_score(struct generic_case *drawn) {
    attune_problem *problem = &drawn->test.problem;
    if (one_in(drawn, 5)) {
        problem->softcap = 1 + (double)generic_case_pick(drawn, 30);
    }
    if (one_in(drawn, 5)) {
        place_plain(drawn, ATTUNE_OPERAND_ALIBI_SLOPES, ATTUNE_DTYPE_F32, maybe(drawn, problem->batch),
                    problem->heads_q, 1, 1);
        fill_noise(drawn, ATTUNE_OPERAND_ALIBI_SLOPES, 0.2);
    }
    if (one_in(drawn, 4)) {
        place_plain(drawn, ATTUNE_OPERAND_SINK, ATTUNE_DTYPE_F32, problem->heads_q, 1, 1, 1);
        fill_noise(drawn, ATTUNE_OPERAND_SINK, 2);
        set(drawn, ATTUNE_OPERAND_SINK, generic_case_pick(drawn, problem->heads_q), 0, 0, 0, -INFINITY);
    }
    if (one_in(drawn, 5)) {
        problem->dropout_rate = 0.1 + 0.2 * (double)generic_case_pick(drawn, 4);
        problem->batch_origin = generic_case_pick(drawn, 5);
        problem->head_origin = generic_case_pick(drawn, 5);
        problem->row_origin = generic_case_pick(drawn, 1000);
        problem->key_origin = generic_case_pick(drawn, 1000);
        problem->heads_total = problem->heads_q + 7;
        drawn->test.bindings.dropout_seed = (uint64_t)generic_case_pick(drawn, INT64_C(1) << 40);
        drawn->test.bindings.dropout_offset = (uint32_t)generic_case_pick(drawn, 1000);
    }
    draw_bias(drawn);
}

/* ---- Tensors ---- */

static void draw_table(struct generic_case *drawn) {
    const attune_problem *problem = &drawn->test.problem;
    const int64_t columns = problem->keys / problem->page_size;
    int32_t *table = calloc((size_t)(problem->batch * columns) + 1, sizeof *table);
    for (int64_t b = 0; b < problem->batch; b++) {
        attune_interval seen = {0, 0};
        if (drawn->rows[b] > 0) {
            seen = attune_mask_keys(mask_of(drawn, b), 0, drawn->rows[b]);
        }
        for (int64_t n = 0; n < columns; n++) {
            /* From the last page to the first; one that holds no position that a row can see is nowhere. */
            const bool is_seen = (n + 1) * problem->page_size > seen.begin && n * problem->page_size < seen.end;
            const int64_t at = b * columns + n;
            table[at] = is_seen ? (int32_t)(problem->batch * columns - at) : INT32_MIN;
        }
    }
    place_integers(drawn, ATTUNE_OPERAND_BLOCK_TABLE, problem->batch, columns, table);
    free(table);
}

static void place_cache(struct generic_case *drawn, attune_operand operand, int64_t packed, int64_t length) {
    const attune_problem *problem = &drawn->test.problem;
    if (problem->page_size > 0) {
        const int64_t pages = problem->batch * (problem->keys / problem->page_size) + 1;
        place_vectors(drawn, operand, problem->dtype, pages, problem->page_size, problem->heads_kv, length);
    } else {
        place_vectors(drawn, operand, problem->dtype, packed > 0 ? 1 : problem->batch,
                      packed > 0 ? packed : problem->keys, problem->heads_kv, length);
    }
}

/* Values for what the sequences own. */
static void fill_rows(struct generic_case *drawn, attune_operand operand) {
    const int64_t *shape = drawn->test.problem.operand[operand].shape;
    const int64_t per_row = shape[2] * shape[3];
    for (int64_t b = 0; b < drawn->test.problem.batch; b++) {
        for (int64_t n = 0; n < drawn->rows[b] * per_row; n++) {
            set(drawn, operand, b, drawn->first_row[b] + n / per_row, n / shape[3] % shape[2], n % shape[3],
                1.7 * noise(drawn));
        }
    }
}

/* Those of dlse, (b, h, s). */
static void fill_lines(struct generic_case *drawn, attune_operand operand) {
    for (int64_t b = 0; b < drawn->test.problem.batch; b++) {
        for (int64_t n = 0; n < drawn->rows[b] * drawn->test.problem.heads_q; n++) {
            set(drawn, operand, b, n % drawn->test.problem.heads_q,
                drawn->first_row[b] + n / drawn->test.problem.heads_q, 0, noise(drawn));
        }
    }
}

static void fill_key(struct generic_case *drawn, attune_operand operand, int64_t b, int64_t key) {
    const attune_problem *problem = &drawn->test.problem;
    const int64_t *shape = problem->operand[operand].shape;
    int64_t at[2] = {b, drawn->first_key[b] + key};
    if (problem->page_size > 0) {
        const int32_t *table = drawn->test.memory[ATTUNE_OPERAND_BLOCK_TABLE];
        at[0] = table[b * (problem->keys / problem->page_size) + key / problem->page_size];
        at[1] = key % problem->page_size;
    }
    for (int64_t n = 0; n < shape[2] * shape[3] && at[0] >= 0; n++) {
        set(drawn, operand, at[0], at[1], n / shape[3], n % shape[3], 1.7 * noise(drawn));
    }
}

static void fill_keys(struct generic_case *drawn, attune_operand operand) {
    for (int64_t b = 0; b < drawn->test.problem.batch; b++) {
        for (int64_t key = drawn->leftpad[b]; key < drawn->keys[b]; key++) {
            fill_key(drawn, operand, b, key);
        }
    }
}

static void draw_descale(struct generic_case *drawn, attune_operand operand, int64_t length) {
    const attune_problem *problem = &drawn->test.problem;
    if (problem->dtype == ATTUNE_DTYPE_E4M3 && one_in(drawn, 2)) {
        const bool one = one_in(drawn, 3);
        place_plain(drawn, operand, ATTUNE_DTYPE_F32, one ? 1 : problem->batch, one ? 1 : problem->heads_kv,
                    one || one_in(drawn, 2) ? 1 : attune_ceil_div(length, 128), 1);
        fill_noise(drawn, operand, 1.5);
    }
}

/* Lengths and tensors that both passes have. */
static void draw_inputs(struct generic_case *drawn) {
    attune_problem *problem = &drawn->test.problem;
    static const int64_t page_sizes[] = {1, 3, 16, 19};
    const bool paged = problem->op == ATTUNE_OP_FORWARD && one_in(drawn, 4);
    if (paged) {
        problem->page_size = PICK(drawn, page_sizes);
        problem->keys = attune_ceil_div(problem->keys, problem->page_size) * problem->page_size;
    }
    const int64_t total_q = draw_side(drawn, ATTUNE_OPERAND_CU_SEQLENS_Q, ATTUNE_OPERAND_SEQUSED_Q, true, false,
                                      problem->rows, drawn->first_row, drawn->rows);
    const int64_t total_k = draw_side(drawn, ATTUNE_OPERAND_CU_SEQLENS_K, ATTUNE_OPERAND_SEQUSED_K, !paged, paged,
                                      problem->keys, drawn->first_key, drawn->keys);
    draw_leftpad(drawn);
    draw_window(drawn);
    if (paged) {
        draw_table(drawn);
    }
    place_vectors(drawn, ATTUNE_OPERAND_Q, problem->dtype, total_q > 0 ? 1 : problem->batch,
                  total_q > 0 ? total_q : problem->rows, problem->heads_q, problem->head_dim);
    place_cache(drawn, ATTUNE_OPERAND_K, total_k, problem->head_dim);
    place_cache(drawn, ATTUNE_OPERAND_V, total_k, problem->head_dim_v);
    fill_rows(drawn, ATTUNE_OPERAND_Q);
    fill_keys(drawn, ATTUNE_OPERAND_K);
    fill_keys(drawn, ATTUNE_OPERAND_V);
    draw_descale(drawn, ATTUNE_OPERAND_DESCALE_Q, problem->rows);
    draw_descale(drawn, ATTUNE_OPERAND_DESCALE_K, problem->keys);
    draw_descale(drawn, ATTUNE_OPERAND_DESCALE_V, problem->keys);
    draw_blocks(drawn);
    draw_mask(drawn);
    draw_score(drawn);
}

/* As q, or f32; f16 or bf16 where q is e4m3. */
static attune_dtype result_dtype(struct generic_case *drawn) {
    static const attune_dtype halves[] = {ATTUNE_DTYPE_F16, ATTUNE_DTYPE_BF16};
    if (one_in(drawn, 3)) {
        return ATTUNE_DTYPE_F32;
    }
    return drawn->test.problem.dtype == ATTUNE_DTYPE_E4M3 ? PICK(drawn, halves) : drawn->test.problem.dtype;
}

/* An operand of another one's batches, positions and heads. */
static void place_like(struct generic_case *drawn, attune_operand operand, attune_operand like, int64_t length) {
    const int64_t *shape = drawn->test.problem.operand[like].shape;
    place_vectors(drawn, operand, result_dtype(drawn), shape[0], shape[1], shape[2], length);
}

static void place_lines(struct generic_case *drawn, attune_operand operand) {
    const int64_t *q = drawn->test.problem.operand[ATTUNE_OPERAND_Q].shape;
    place_plain(drawn, operand, ATTUNE_DTYPE_F32, q[0], q[2], q[1], 1);
}

static void draw_forward(struct generic_case *drawn) {
    const attune_problem *problem = &drawn->test.problem;
    place_like(drawn, ATTUNE_OPERAND_O, ATTUNE_OPERAND_Q, problem->head_dim_v);
    if (!one_in(drawn, 3)) {
        place_lines(drawn, ATTUNE_OPERAND_LSE);
    }
    if (one_in(drawn, 5)) {
        place_plain(drawn, ATTUNE_OPERAND_PROBS, ATTUNE_DTYPE_F32, problem->batch, problem->heads_q, problem->rows,
                    problem->keys);
    }
}

/* o and lse of the reference, and gradients of them. */
static void draw_backward(struct generic_case *drawn) {
    attune_problem *problem = &drawn->test.problem;
    place_like(drawn, ATTUNE_OPERAND_O, ATTUNE_OPERAND_Q, problem->head_dim_v);
    place_lines(drawn, ATTUNE_OPERAND_LSE);
    problem->op = ATTUNE_OP_FORWARD;
    reference_case_run(&drawn->test);
    problem->op = ATTUNE_OP_BACKWARD;
    place_like(drawn, ATTUNE_OPERAND_DOUT, ATTUNE_OPERAND_Q, problem->head_dim_v);
    fill_rows(drawn, ATTUNE_OPERAND_DOUT);
    if (one_in(drawn, 2)) {
        place_lines(drawn, ATTUNE_OPERAND_DLSE);
        fill_lines(drawn, ATTUNE_OPERAND_DLSE);
    }
    const int64_t left_out = generic_case_pick(drawn, 6);
    if (left_out != 0) {
        place_like(drawn, ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_Q, problem->head_dim);
    }
    if (left_out != 1) {
        place_like(drawn, ATTUNE_OPERAND_DK, ATTUNE_OPERAND_K, problem->head_dim);
    }
    if (left_out != 2) {
        place_like(drawn, ATTUNE_OPERAND_DV, ATTUNE_OPERAND_K, problem->head_dim_v);
    }
    if (has(drawn, ATTUNE_OPERAND_BIAS)) {
        const int64_t *shape = problem->operand[ATTUNE_OPERAND_BIAS].shape;
        place_plain(drawn, ATTUNE_OPERAND_DBIAS, ATTUNE_DTYPE_F32, shape[0], shape[1], shape[2], shape[3]);
    }
    if (has(drawn, ATTUNE_OPERAND_SINK)) {
        place_plain(drawn, ATTUNE_OPERAND_DSINK, ATTUNE_DTYPE_F32, problem->heads_q, 1, 1, 1);
    }
}

struct generic_case generic_case_draw(attune_op op, unsigned seed) {
    struct generic_case drawn = {.seed = seed};
    draw_sizes(&drawn, op);
    draw_inputs(&drawn);
    if (op == ATTUNE_OP_FORWARD) {
        draw_forward(&drawn);
    } else {
        draw_backward(&drawn);
    }
    generic_case_find_truth(&drawn);
    return drawn;
}

struct generic_way generic_case_draw_way(struct generic_case *drawn) {
    static const int32_t sides[] = {4, 16, 17, 32, 48, 64, 100, 128};
    struct generic_way way = {PICK(drawn, sides), PICK(drawn, sides), 1, one_in(drawn, 2),
                              1 + (int32_t)generic_case_pick(drawn, 3)};
    if (drawn->test.problem.op == ATTUNE_OP_FORWARD && !has(drawn, ATTUNE_OPERAND_PROBS) && one_in(drawn, 2)) {
        way.splits = 1 + (int32_t)generic_case_pick(drawn, 9);
    }
    return way;
}
