/*
 * The host's side of bwd.cl and bwd_chunks.cl.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/opencl/generic/attention.h"
#include "backends/opencl/generic/bwd_chunks.h"

/* ---- Tiles ---- */

/* Local memory of a build, as bwd.cl declares it. */
static int64_t local_bytes(const struct opencl_tiling *tiling) {
    const int64_t held =
        (int64_t)(tiling->is_resident ? tiling->head_dim + tiling->head_dim_v : tiling->depth) * tiling->held;
    const int64_t walked =
        attune_max((int64_t)tiling->walked * tiling->depth, (int64_t)tiling->steps * tiling->columns);
    const int64_t scores = (int64_t)tiling->walked * tiling->held;
    const int64_t rows = 2 * attune_max(tiling->held, tiling->walked);
    return (int64_t)sizeof(float) * (held + walked + scores + rows) + 20 * (int64_t)tiling->held +
           (int64_t)sizeof(int32_t);
}

static bool accepts(const struct attune_opencl_device *device, const attune_kernel_row *row,
                    const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    return attune_opencl_attention_accepts(device, row, problem, local_bytes, reason);
}

/* ---- Steps ---- */

#define ROW_THREADS  64 /* of attune_backward_rests */
#define SINK_THREADS 64

/* What every step reads, and the two that it may write. */
#define OPERANDS(out, out_v)                                                                                           \
    {                                                                                                                  \
        ATTUNE_OPERAND_Q, ATTUNE_OPERAND_K, ATTUNE_OPERAND_V, ATTUNE_OPERAND_O, ATTUNE_OPERAND_LSE,                    \
            ATTUNE_OPERAND_DOUT, ATTUNE_OPERAND_DLSE, out, out_v, ATTUNE_OPENCL_OPTION_OPERANDS                        \
    }

static const attune_operand dq_operands[] = OPERANDS(ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DQ);
static const attune_operand dkv_operands[] = OPERANDS(ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV);
static const attune_operand dbias_operands[] = OPERANDS(ATTUNE_OPERAND_DBIAS, ATTUNE_OPERAND_DBIAS);
static const attune_operand dsink_operands[] = OPERANDS(ATTUNE_OPERAND_DSINK, ATTUNE_OPERAND_DSINK);

static void add_step(struct attune_opencl_plan *plan, const char *symbol, int64_t groups, int64_t threads,
                     const attune_operand *operands) {
    const bool is_general = attune_opencl_is_general(&plan->problem, plan->schedule.pack);
    plan->step[plan->step_count++] = (struct attune_opencl_step){
        .symbol = symbol,
        .groups = {(size_t)groups, 1, 1},
        .local = {(size_t)threads, 1, 1},
        .operands = operands,
        .operand_count = 9 + (is_general ? ATTUNE_OPENCL_OPTION_COUNT : 1),
    };
}

/* dlse_i - D_i of each row, which the others read. */
static void add_rests_step(struct attune_opencl_plan *plan) {
    const int64_t rows = plan->problem.batch * plan->problem.heads_q * plan->problem.rows;
    add_step(plan, "attune_backward_rests", attune_ceil_div(rows, ROW_THREADS), ROW_THREADS, dq_operands);
}

static void add_dsink_step(struct attune_opencl_plan *plan) {
    if (attune_problem_has(&plan->problem, ATTUNE_OPERAND_DSINK)) {
        add_step(plan, "attune_backward_dsink", plan->problem.heads_q, SINK_THREADS, dsink_operands);
    }
}

static void add_steps(struct attune_opencl_plan *plan, const struct opencl_tiling *tiling,
                      const attune_opencl_attention *params) {
    const attune_problem *problem = &plan->problem;
    const int64_t *bias = problem->operand[ATTUNE_OPERAND_DBIAS].shape;
    const int64_t threads = attune_opencl_threads(tiling);
    add_rests_step(plan);
    if (attune_problem_has(problem, ATTUNE_OPERAND_DQ)) {
        add_step(plan, "attune_backward_dq", problem->batch * problem->heads_q * params->row_tiles, threads,
                 dq_operands);
    }
    if (attune_problem_has(problem, ATTUNE_OPERAND_DK) || attune_problem_has(problem, ATTUNE_OPERAND_DV)) {
        add_step(plan, "attune_backward_dkv", problem->batch * problem->heads_kv * params->key_tiles, threads,
                 dkv_operands);
    }
    if (attune_problem_has(problem, ATTUNE_OPERAND_DBIAS)) {
        const int64_t tiles = attune_ceil_div(bias[2], tiling->held) * attune_ceil_div(bias[3], tiling->walked);
        add_step(plan, "attune_backward_dbias", bias[0] * bias[1] * tiles, threads, dbias_operands);
    }
    add_dsink_step(plan);
}

static attune_status prepare(struct attune_opencl_plan *plan) {
    const attune_problem *problem = &plan->problem;
    struct opencl_tiling tiling;
    attune_opencl_attention params;
    (void)attune_opencl_tiling_choose(plan->device, plan->row, problem, local_bytes, &tiling);
    attune_opencl_options(plan, &tiling);
    attune_opencl_attention_fill(plan, &params);
    params.row_tiles = attune_ceil_div(problem->rows, tiling.held);
    params.key_tiles = attune_ceil_div(problem->keys, tiling.held);
    memcpy(plan->constants.bytes, &params, sizeof params);
    plan->constants_bytes = sizeof params;
    add_steps(plan, &tiling, &params);
    return ATTUNE_OK;
}

/* dlse_i - D_i of each row. */
static uint64_t rests_bytes(const attune_problem *problem) {
    return sizeof(float) * (uint64_t)(problem->batch * problem->heads_q * problem->rows);
}

static uint64_t workspace_bytes(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                const attune_problem *problem, const attune_schedule *schedule) {
    (void)device, (void)row, (void)schedule;
    return rests_bytes(problem);
}

const struct attune_opencl_family attune_opencl_backward_family = {
    .accepts = accepts, .workspace_bytes = workspace_bytes, .prepare = prepare};

/* ---- By chunks of keys ---- */

#define CHUNKS_MAX     8  /* each takes a partial dq */
#define CHUNKS_RUNNING 2  /* work-groups that a processor runs at once, by their registers */
#define SUM_THREADS    64 /* of attune_backward_chunks_dq */

#define POSITIONS_MAX   (INT_MAX - 1024) /* those in a tile are counted with 32 bits */
#define CHUNK_BYTES_MAX 0x1p62

static int64_t key_tiles_of(const attune_problem *problem) {
    return attune_ceil_div(problem->keys, ATTUNE_CHUNK_KEYS);
}

/* The fewest that end soonest: in rounds of as many work-groups as run at once, each of so many tiles. */
static int64_t chunks_of(const struct attune_opencl_device *device, const attune_problem *problem) {
    const int64_t heads = problem->batch * problem->heads_kv;
    const int64_t running = CHUNKS_RUNNING * attune_max(1, device->limits.processors);
    const int64_t most = attune_max(1, attune_min(CHUNKS_MAX, key_tiles_of(problem)));
    int64_t best = 1;
    int64_t least = INT64_MAX;
    for (int64_t chunks = 1; chunks <= most; chunks++) {
        const int64_t steps = attune_ceil_div(heads * chunks, running) * attune_ceil_div(key_tiles_of(problem), chunks);
        if (steps < least) {
            best = chunks;
            least = steps;
        }
    }
    return best;
}

static int64_t rounded_dim(int64_t head_dim) {
    return attune_ceil_div(head_dim, ATTUNE_CHUNK_HEAD_DIM) * ATTUNE_CHUNK_HEAD_DIM;
}

/* Bytes of a chunk's dq, and of the tiles of dk and dv that its work-groups have. */
static double chunk_bytes(const attune_problem *problem) {
    const double rows = (double)attune_ceil_div(problem->rows, ATTUNE_CHUNK_ROWS) * ATTUNE_CHUNK_ROWS;
    const double dims = (double)(rounded_dim(problem->head_dim) + rounded_dim(problem->head_dim_v));
    return sizeof(float) * (double)problem->batch *
           ((double)problem->heads_q * rows * (double)rounded_dim(problem->head_dim) +
            (double)problem->heads_kv * ATTUNE_CHUNK_KEYS * dims);
}

/* Places in the workspace's own region, in bytes: behind rests each chunk's dq, then each work-group's dk and dv. */
struct chunk_places {
    int64_t partial_dq;
    int64_t partial_dkv;
    int64_t end;
};

static struct chunk_places chunk_places_of(const attune_problem *problem, int64_t chunks) {
    const int64_t rows = attune_ceil_div(problem->rows, ATTUNE_CHUNK_ROWS) * ATTUNE_CHUNK_ROWS;
    const int64_t dims = rounded_dim(problem->head_dim) + rounded_dim(problem->head_dim_v);
    const int64_t dq = problem->batch * problem->heads_q * rows * rounded_dim(problem->head_dim);
    const int64_t dkv = problem->batch * problem->heads_kv * ATTUNE_CHUNK_KEYS * dims;
    struct chunk_places places;
    places.partial_dq = attune_ceil_div((int64_t)rests_bytes(problem), 64) * 64;
    places.partial_dkv = places.partial_dq + (int64_t)sizeof(float) * chunks * dq;
    places.end = places.partial_dkv + (int64_t)sizeof(float) * chunks * dkv;
    return places;
}

/* Work-groups of bwd_chunks.cl. */
static int64_t chunk_groups(const struct attune_opencl_device *device, const attune_problem *problem) {
    return problem->batch * problem->heads_kv * chunks_of(device, problem);
}

static bool chunks_accept(const struct attune_opencl_device *device, const attune_kernel_row *row,
                          const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    const int64_t local =
        sizeof(float) * ATTUNE_CHUNK_FLOATS + sizeof(int32_t) * ATTUNE_CHUNK_INTS + ATTUNE_CHUNK_FRAME;
    (void)row;
    if (!attune_problem_has(problem, ATTUNE_OPERAND_DQ) || !attune_problem_has(problem, ATTUNE_OPERAND_DK) ||
        !attune_problem_has(problem, ATTUNE_OPERAND_DV)) {
        snprintf(reason, ATTUNE_REASON_MAX, "it computes dq, dk and dv together");
    } else if (local > device->limits.shared_memory_bytes) {
        snprintf(reason, ATTUNE_REASON_MAX, "it needs %lld bytes of local memory, the device has %lld",
                 (long long)local, (long long)device->limits.shared_memory_bytes);
    } else if (attune_max(problem->rows, problem->keys) > POSITIONS_MAX) {
        snprintf(reason, ATTUNE_REASON_MAX, "it counts rows and keys to %d", POSITIONS_MAX);
    } else if (CHUNKS_MAX * chunk_bytes(problem) > CHUNK_BYTES_MAX) {
        snprintf(reason, ATTUNE_REASON_MAX, "its workspace would exceed 2^62 bytes");
    } else if (chunk_groups(device, problem) < device->limits.processors) {
        snprintf(reason, ATTUNE_REASON_MAX, "its %lld work-groups are fewer than the device's processors, %d",
                 (long long)chunk_groups(device, problem), (int)device->limits.processors);
    } else {
        return true;
    }
    return false;
}

static void set_chunk_options(struct attune_opencl_plan *plan) {
    const attune_problem *problem = &plan->problem;
    const bool is_general = attune_opencl_is_general(problem, 1);
    snprintf(plan->options, sizeof plan->options,
             "-DATTUNE_DTYPE=%d -DATTUNE_IS_CPU=0 -DATTUNE_ALIGNED=%d -DATTUNE_GENERAL=%d -DATTUNE_VECTOR=4 "
             "-DATTUNE_DOUT_DTYPE=%d -DATTUNE_HEAD_DIM=%d -DATTUNE_HEAD_DIM_V=%d",
             (int)problem->dtype, attune_opencl_all_aligned(problem, 4), is_general,
             (int)problem->operand[ATTUNE_OPERAND_DOUT].dtype, (int)rounded_dim(problem->head_dim),
             (int)rounded_dim(problem->head_dim_v));
}

static attune_status prepare_chunks(struct attune_opencl_plan *plan) {
    const attune_problem *problem = &plan->problem;
    const int64_t chunks = chunks_of(plan->device, problem);
    const struct chunk_places places = chunk_places_of(problem, chunks);
    const int64_t sums = problem->batch * problem->heads_q * problem->rows * (rounded_dim(problem->head_dim) / 4);
    attune_opencl_attention params;
    attune_opencl_attention_fill(plan, &params);
    params.row_tiles = attune_ceil_div(problem->rows, ATTUNE_CHUNK_ROWS);
    params.key_tiles = key_tiles_of(problem);
    params.chunks = chunks;
    params.partial_dq = params.own + places.partial_dq;
    params.partial_dkv = params.own + places.partial_dkv;
    memcpy(plan->constants.bytes, &params, sizeof params);
    plan->constants_bytes = sizeof params;
    set_chunk_options(plan);
    add_rests_step(plan);
    add_step(plan, "attune_backward_chunks", chunk_groups(plan->device, problem), ATTUNE_CHUNK_THREADS, dkv_operands);
    add_step(plan, "attune_backward_chunks_dq", attune_ceil_div(sums, SUM_THREADS), SUM_THREADS, dq_operands);
    add_dsink_step(plan);
    return ATTUNE_OK;
}

static uint64_t chunks_workspace_bytes(const struct attune_opencl_device *device, const attune_kernel_row *row,
                                       const attune_problem *problem, const attune_schedule *schedule) {
    (void)row, (void)schedule;
    return (uint64_t)chunk_places_of(problem, chunks_of(device, problem)).end;
}

const struct attune_opencl_family attune_opencl_backward_chunks_family = {
    .accepts = chunks_accept, .workspace_bytes = chunks_workspace_bytes, .prepare = prepare_chunks};
