/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/generic/attention.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "core/portable/philox.h"

/* ---- Building ---- */

static int64_t round_up(int64_t value, int64_t multiple) {
    return attune_ceil_div(value, multiple) * multiple;
}

static bool is_for_cpu(const attune_kernel_row *row) {
    return strcmp(row->architecture, "cpu") == 0;
}

/* Of a row with stages: a work-item has 8 x 8 scores, in blocks of 4 x 4, and as many held positions of results. */
static void set_ahead(const attune_kernel_row *row, struct opencl_tiling *tiling) {
    tiling->is_ahead = true;
    tiling->held_threads = row->tile_rows / 8;
    tiling->walked_threads = row->tile_keys / 8;
    tiling->lines = 4;
    tiling->out_threads = tiling->held_threads;
    tiling->out_lines = 4;
}

/* On a CPU a work-item is alone, with vectors as wide as the registers; elsewhere row->threads work-items have a
 * float4 each. */
static struct opencl_tiling tiling_of(const struct attune_opencl_device *device, const attune_kernel_row *row) {
    struct opencl_tiling tiling = {.held = row->tile_rows, .walked = row->tile_keys};
    if (is_for_cpu(row)) {
        tiling.vector = device->vector_floats >= 16 ? 16 : (device->vector_floats >= 8 ? 8 : 4);
        tiling.held_threads = 1;
        tiling.walked_threads = 1;
        tiling.lines = 8;
        tiling.out_threads = 1;
        tiling.out_lines = 8;
        return tiling;
    }
    tiling.vector = 4;
    if (row->stages > 1) {
        set_ahead(row, &tiling);
        return tiling;
    }
    tiling.held_threads = tiling.held / tiling.vector;
    tiling.walked_threads = row->threads / tiling.held_threads;
    tiling.lines = tiling.walked / tiling.walked_threads;
    tiling.columns = 64;
    tiling.out_threads = row->threads / ((int32_t)attune_min(tiling.columns, tiling.walked) / tiling.vector);
    tiling.out_lines = tiling.held / tiling.out_threads;
    return tiling;
}

/* On a CPU: what a head dim is rounded up to, so that few builds serve all. */
static int32_t head_dim_class(int64_t head_dim) {
    return head_dim <= 64 ? 64 : (head_dim <= 128 ? 128 : (int32_t)round_up(head_dim, 256));
}

static bool try_depth(const struct attune_opencl_device *device, const attune_problem *problem,
                      opencl_local_bytes local_bytes, int32_t depth, bool is_resident, struct opencl_tiling *tiling) {
    tiling->depth = depth;
    tiling->is_resident = is_resident;
    if (attune_opencl_threads(tiling) == 1) {
        tiling->columns = (int32_t)attune_min(depth, head_dim_class(problem->head_dim_v));
    }
    tiling->head_dim = (int32_t)round_up(problem->head_dim, attune_max(depth, tiling->columns));
    tiling->head_dim_v = (int32_t)round_up(problem->head_dim_v, attune_max(depth, tiling->columns));
    tiling->steps = (int32_t)attune_min(tiling->walked, attune_max(4, tiling->walked * depth / tiling->columns));
    return local_bytes(tiling) <= device->limits.shared_memory_bytes;
}

/* The weights' tile takes most of local memory: what is left has two slices of so many floats each for results. */
#define AHEAD_DEPTH     16
#define AHEAD_OUT_SLICE 1024

/* They count bytes from a tile's first position with 32 bits. */
#define AHEAD_STRIDE_MAX (INT_MAX / (128 * 4))

static bool try_ahead(const struct attune_opencl_device *device, const attune_problem *problem,
                      opencl_local_bytes local_bytes, struct opencl_tiling *tiling) {
    const int32_t across = attune_opencl_threads(tiling) / tiling->out_threads * tiling->vector;
    tiling->depth = AHEAD_DEPTH;
    tiling->head_dim = (int32_t)round_up(problem->head_dim, AHEAD_DEPTH);
    tiling->head_dim_v = (int32_t)round_up(problem->head_dim_v, across);
    tiling->columns = tiling->head_dim_v;
    tiling->steps = AHEAD_OUT_SLICE / tiling->columns;
    return local_bytes(tiling) <= device->limits.shared_memory_bytes;
}

/* Longer vectors stay in local memory on CPUs only: on a GPU it is better spent on more work-groups. */
#define RESIDENT_MAX 128

bool attune_opencl_tiling_choose(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                 const attune_problem *problem, opencl_local_bytes local_bytes,
                                 struct opencl_tiling *out_tiling) {
    static const int32_t depths[] = {32, 16, 8};
    const int64_t longest = attune_max(problem->head_dim, problem->head_dim_v);
    *out_tiling = tiling_of(device, row);
    if (is_for_cpu(row)) {
        return try_depth(device, problem, local_bytes, head_dim_class(longest), true, out_tiling) ||
               try_depth(device, problem, local_bytes, 32, false, out_tiling);
    }
    if (out_tiling->is_ahead) {
        return try_ahead(device, problem, local_bytes, out_tiling);
    }
    for (int n = 0; n < 3; n++) {
        if ((longest <= RESIDENT_MAX && try_depth(device, problem, local_bytes, depths[n], true, out_tiling)) ||
            try_depth(device, problem, local_bytes, depths[n], false, out_tiling)) {
            return true;
        }
    }
    return false;
}

#define GENERAL_FEATURES                                                                                               \
    (ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK |                       \
     ATTUNE_FEATURE_DROPOUT | ATTUNE_FEATURE_VARLEN_Q | ATTUNE_FEATURE_VARLEN_K | ATTUNE_FEATURE_SEQUSED_Q |           \
     ATTUNE_FEATURE_SEQUSED_K | ATTUNE_FEATURE_LEFTPAD_K | ATTUNE_FEATURE_PAGED | ATTUNE_FEATURE_BLOCK_SPARSE |        \
     ATTUNE_FEATURE_DESCALE | ATTUNE_FEATURE_PROBS)

static bool has_stride_over(const attune_problem *problem, attune_operand operand, int axis, int64_t most) {
    const int64_t stride = problem->operand[operand].stride[axis];
    return attune_problem_has(problem, operand) && (stride > most || stride < -most);
}

/* Whether a stride along rows or keys is. */
static bool any_stride_over(const attune_problem *problem, int64_t most) {
    static const attune_operand operands[] = {ATTUNE_OPERAND_Q,    ATTUNE_OPERAND_K,  ATTUNE_OPERAND_V,
                                              ATTUNE_OPERAND_O,    ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DK,
                                              ATTUNE_OPERAND_DOUT, ATTUNE_OPERAND_DV};
    bool is_over = has_stride_over(problem, ATTUNE_OPERAND_LSE, 2, most);
    for (size_t n = 0; n < sizeof operands / sizeof *operands; n++) {
        is_over = is_over || has_stride_over(problem, operands[n], 1, most);
    }
    return is_over;
}

bool attune_opencl_is_general(const attune_problem *problem, int32_t pack) {
    const attune_dtype dout = problem->operand[ATTUNE_OPERAND_DOUT].dtype;
    /* Kernels that are not general have 32 bits for a stride. */
    return (problem->features & GENERAL_FEATURES) != 0 || pack > 1 || any_stride_over(problem, INT_MAX) ||
           (dout != ATTUNE_DTYPE_NONE && dout != problem->dtype);
}

/* Whether each vector of an operand can be loaded as one. */
static bool is_aligned(const attune_problem *problem, attune_operand operand, int32_t vector) {
    const attune_layout *layout = &problem->operand[operand];
    const int64_t bytes = attune_element_bytes(layout->dtype) * vector;
    return layout->dtype == ATTUNE_DTYPE_NONE ||
           (problem->alignment_bytes >= bytes && layout->stride[0] % vector == 0 && layout->stride[1] % vector == 0 &&
            layout->stride[2] % vector == 0);
}

bool attune_opencl_all_aligned(const attune_problem *problem, int32_t vector) {
    return problem->head_dim % vector == 0 && problem->head_dim_v % vector == 0 &&
           is_aligned(problem, ATTUNE_OPERAND_Q, vector) && is_aligned(problem, ATTUNE_OPERAND_K, vector) &&
           is_aligned(problem, ATTUNE_OPERAND_V, vector) && is_aligned(problem, ATTUNE_OPERAND_DOUT, vector) &&
           is_aligned(problem, ATTUNE_OPERAND_O, vector);
}

void attune_opencl_options(struct attune_opencl_plan *plan, const struct opencl_tiling *tiling) {
    const attune_problem *problem = &plan->problem;
    const bool is_cpu = attune_opencl_threads(tiling) == 1;
    const bool is_general = attune_opencl_is_general(problem, plan->schedule.pack);
    const int unroll = plan->device->is_cpu ? 1 : AHEAD_DEPTH; /* on a CPU it is but more to compile */
    snprintf(plan->options, sizeof plan->options,
             "-DATTUNE_DTYPE=%d -DATTUNE_IS_CPU=%d -DATTUNE_ALIGNED=%d -DATTUNE_GENERAL=%d -DATTUNE_VECTOR=%d "
             "-DATTUNE_HELD=%d -DATTUNE_WALKED=%d -DATTUNE_HELD_THREADS=%d -DATTUNE_WALKED_THREADS=%d "
             "-DATTUNE_LINES=%d -DATTUNE_OUT_THREADS=%d -DATTUNE_OUT_LINES=%d -DATTUNE_DEPTH=%d -DATTUNE_STEPS=%d "
             "-DATTUNE_COLUMNS=%d -DATTUNE_RESIDENT=%d -DATTUNE_AHEAD=%d -DATTUNE_UNROLL=%d -DATTUNE_HEAD_DIM=%d "
             "-DATTUNE_HEAD_DIM_V=%d",
             is_general ? 0 : (int)problem->dtype, is_cpu,
             !is_cpu && !is_general && attune_opencl_all_aligned(problem, tiling->vector), is_general, tiling->vector,
             tiling->held, tiling->walked, tiling->held_threads, tiling->walked_threads, tiling->lines,
             tiling->out_threads, tiling->out_lines, tiling->depth, tiling->steps, tiling->columns, tiling->is_resident,
             tiling->is_ahead, unroll, tiling->head_dim, tiling->head_dim_v);
}

/* ---- The problem ---- */

attune_opencl_strides attune_opencl_strides_of(const attune_problem *problem, attune_operand operand) {
    attune_opencl_strides strides;
    for (int axis = 0; axis < ATTUNE_RANK_MAX; axis++) {
        strides.axis[axis] = problem->operand[operand].stride[axis];
    }
    return strides;
}

static void fill_strides(const attune_problem *problem, attune_opencl_attention *out) {
    out->q = attune_opencl_strides_of(problem, ATTUNE_OPERAND_Q);
    out->k = attune_opencl_strides_of(problem, ATTUNE_OPERAND_K);
    out->v = attune_opencl_strides_of(problem, ATTUNE_OPERAND_V);
    out->o = attune_opencl_strides_of(problem, ATTUNE_OPERAND_O);
    out->lse = attune_opencl_strides_of(problem, ATTUNE_OPERAND_LSE);
    out->probs = attune_opencl_strides_of(problem, ATTUNE_OPERAND_PROBS);
    out->dout = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DOUT);
    out->dlse = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DLSE);
    out->dq = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DQ);
    out->dk = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DK);
    out->dv = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DV);
    out->dbias = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DBIAS);
    out->dsink = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DSINK);
    out->bias = attune_opencl_strides_of(problem, ATTUNE_OPERAND_BIAS);
    out->mask = attune_opencl_strides_of(problem, ATTUNE_OPERAND_MASK);
    out->alibi_slopes = attune_opencl_strides_of(problem, ATTUNE_OPERAND_ALIBI_SLOPES);
    out->sink = attune_opencl_strides_of(problem, ATTUNE_OPERAND_SINK);
    out->cu_seqlens_q = attune_opencl_strides_of(problem, ATTUNE_OPERAND_CU_SEQLENS_Q);
    out->cu_seqlens_k = attune_opencl_strides_of(problem, ATTUNE_OPERAND_CU_SEQLENS_K);
    out->seqused_q = attune_opencl_strides_of(problem, ATTUNE_OPERAND_SEQUSED_Q);
    out->seqused_k = attune_opencl_strides_of(problem, ATTUNE_OPERAND_SEQUSED_K);
    out->leftpad_k = attune_opencl_strides_of(problem, ATTUNE_OPERAND_LEFTPAD_K);
    out->block_table = attune_opencl_strides_of(problem, ATTUNE_OPERAND_BLOCK_TABLE);
    out->block_row_ptr = attune_opencl_strides_of(problem, ATTUNE_OPERAND_BLOCK_ROW_PTR);
    out->block_col_idx = attune_opencl_strides_of(problem, ATTUNE_OPERAND_BLOCK_COL_IDX);
    out->descale_q = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DESCALE_Q);
    out->descale_k = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DESCALE_K);
    out->descale_v = attune_opencl_strides_of(problem, ATTUNE_OPERAND_DESCALE_V);
}

static void fill_dtypes(const attune_problem *problem, attune_opencl_attention *out) {
    out->bias_dtype = (int)problem->operand[ATTUNE_OPERAND_BIAS].dtype;
    out->dtype = (int)problem->dtype;
    out->o_dtype = (int)problem->operand[ATTUNE_OPERAND_O].dtype;
    out->dout_dtype = (int)problem->operand[ATTUNE_OPERAND_DOUT].dtype;
    out->dq_dtype = (int)problem->operand[ATTUNE_OPERAND_DQ].dtype;
    out->dk_dtype = (int)problem->operand[ATTUNE_OPERAND_DK].dtype;
    out->dv_dtype = (int)problem->operand[ATTUNE_OPERAND_DV].dtype;
    out->dbias_dtype = (int)problem->operand[ATTUNE_OPERAND_DBIAS].dtype;
}

static void fill_dropout(const attune_problem *problem, attune_opencl_attention *out) {
    out->dropout_threshold = attune_dropout_threshold(problem->dropout_rate);
    out->dropout_rescale = (float)(1.0 / (1.0 - problem->dropout_rate));
    out->batch_origin = problem->batch_origin;
    out->head_origin = problem->head_origin;
    out->row_origin = problem->row_origin;
    out->key_origin = problem->key_origin;
    out->heads_total = problem->heads_total;
}

void attune_opencl_attention_fill(const struct attune_opencl_plan *plan, attune_opencl_attention *out) {
    const attune_problem *problem = &plan->problem;
    memset(out, 0, sizeof *out);
    fill_strides(problem, out);
    fill_dtypes(problem, out);
    fill_dropout(problem, out);
    out->batch = problem->batch;
    out->rows = problem->rows;
    out->keys = problem->keys;
    out->heads_q = problem->heads_q;
    out->heads_kv = problem->heads_kv;
    out->page_size = problem->page_size;
    out->block_rows = problem->block_rows;
    out->block_keys = problem->block_keys;
    out->diagonal = problem->align == ATTUNE_ALIGN_DIAGONAL ? problem->diagonal : 0;
    out->window_left = problem->window_left;
    out->window_right = problem->window_right;
    memcpy(out->dbias_shape, problem->operand[ATTUNE_OPERAND_DBIAS].shape, sizeof out->dbias_shape);
    out->partial_o = (int64_t)plan->workspace.partial_o.offset;
    out->partial_lse = (int64_t)plan->workspace.partial_lse.offset;
    out->own = (int64_t)plan->workspace.own.offset;
    out->head_dim = (int)problem->head_dim;
    out->head_dim_v = (int)problem->head_dim_v;
    out->splits = plan->schedule.splits;
    out->pack = plan->schedule.pack;
    out->bottom_right = problem->align == ATTUNE_ALIGN_BOTTOM_RIGHT;
    out->softcap = attune_f32_softcap(problem);
}

bool attune_opencl_attention_accepts(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                     const attune_problem *problem, opencl_local_bytes local_bytes,
                                     char reason[ATTUNE_REASON_MAX]) {
    const int64_t most = INT_MAX - 1024; /* positions in a tile are counted with 32 bits */
    struct opencl_tiling tiling;
    if (row->stages > 1 && any_stride_over(problem, AHEAD_STRIDE_MAX)) {
        snprintf(reason, ATTUNE_REASON_MAX, "a stride along rows or keys is over %d", AHEAD_STRIDE_MAX);
        return false;
    }
    if (problem->rows > most || problem->keys > most) {
        snprintf(reason, ATTUNE_REASON_MAX, "it counts rows and keys to %lld", (long long)most);
        return false;
    }
    if (!attune_opencl_tiling_choose(device, row, problem, local_bytes, &tiling)) {
        snprintf(reason, ATTUNE_REASON_MAX, "it needs %lld bytes of local memory, the device has %lld",
                 (long long)local_bytes(&tiling), (long long)device->limits.shared_memory_bytes);
        return false;
    }
    return true;
}
