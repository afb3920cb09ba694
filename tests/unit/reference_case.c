/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/reference_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backends/cpu/kernel.h"
#include "backends/cpu/reference/load.h"
#include "backends/cpu/reference/operand.h"
#include "backends/cpu/reference/store.h"
#include "tests/support/cmocka_all.h"

/* ---- Host services ---- */

static const char *config_name = "";
static const char *config_value = "";
static int64_t allocations_left = -1;
static char last_failure[1024];
static int logged;

static void host_log(attune_log_level level, const char *format, ...) {
    (void)level, (void)format;
    logged++;
}

static attune_status host_fail(attune_status status, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(last_failure, sizeof last_failure, format, list);
    va_end(list);
    return status;
}

static void *host_alloc(size_t bytes) {
    if (allocations_left == 0) {
        return NULL;
    }
    allocations_left -= allocations_left > 0;
    return calloc(1, bytes);
}

static const char *host_config_get(const char *name) {
    return strcmp(name, config_name) == 0 ? config_value : "";
}

const attune_host_services reference_case_host = {
    .struct_size = sizeof reference_case_host,
    .log = host_log,
    .fail = host_fail,
    .alloc = host_alloc,
    .free = free,
    .config_get = host_config_get,
};

void reference_case_config(const char *name, const char *value) {
    config_name = name;
    config_value = value;
}

void reference_case_fail_alloc(int64_t successes) {
    allocations_left = successes;
}

const char *reference_case_last_failure(void) {
    return last_failure;
}

int reference_case_logged(void) {
    return logged;
}

/* ---- Problems ---- */

struct reference_case reference_case_make(attune_op op, int64_t batch, int64_t rows, int64_t keys, int64_t heads_q,
                                          int64_t heads_kv, int64_t head_dim, int64_t head_dim_v) {
    return (struct reference_case){
        .problem = {.op = op,
                    .dtype = ATTUNE_DTYPE_F32,
                    .batch = batch,
                    .rows = rows,
                    .keys = keys,
                    .heads_q = heads_q,
                    .heads_kv = heads_kv,
                    .head_dim = head_dim,
                    .head_dim_v = head_dim_v,
                    .window_left = -1,
                    .window_right = -1,
                    .heads_total = heads_q},
        .bindings = {.scale = 1.0},
    };
}

void reference_case_free(struct reference_case *test) {
    for (int n = 0; n < ATTUNE_OPERAND_COUNT; n++) {
        free(test->memory[n]);
    }
}

void *reference_case_add(struct reference_case *test, attune_operand operand, attune_dtype dtype, int64_t n0,
                         int64_t n1, int64_t n2, int64_t n3) {
    attune_layout *layout = &test->problem.operand[operand];
    const int64_t shape[4] = {n0, n1, n2, n3};
    int64_t stride = 1;
    layout->dtype = dtype;
    layout->memory = ATTUNE_MEMORY_HOST;
    for (int axis = 3; axis >= 0; axis--) {
        layout->shape[axis] = shape[axis];
        layout->stride[axis] = shape[axis] == 1 ? 0 : stride;
        stride *= shape[axis];
    }
    const size_t bytes = (size_t)(stride * attune_element_bytes(dtype));
    free(test->memory[operand]);
    test->memory[operand] = bytes == 0 ? NULL : malloc(bytes);
    if (bytes > 0) {
        memset(test->memory[operand], 0xFF, bytes);
    }
    test->bindings.operand[operand].data = test->memory[operand];
    return test->memory[operand];
}

float *reference_case_add_f32(struct reference_case *test, attune_operand operand) {
    const attune_problem *p = &test->problem;
    const int64_t b = p->batch;
    switch (operand) {
    case ATTUNE_OPERAND_Q:
    case ATTUNE_OPERAND_DQ:
        return reference_case_add(test, operand, ATTUNE_DTYPE_F32, b, p->rows, p->heads_q, p->head_dim);
    case ATTUNE_OPERAND_K:
    case ATTUNE_OPERAND_DK:
        return reference_case_add(test, operand, ATTUNE_DTYPE_F32, b, p->keys, p->heads_kv, p->head_dim);
    case ATTUNE_OPERAND_V:
    case ATTUNE_OPERAND_DV:
        return reference_case_add(test, operand, ATTUNE_DTYPE_F32, b, p->keys, p->heads_kv, p->head_dim_v);
    case ATTUNE_OPERAND_O:
    case ATTUNE_OPERAND_DOUT:
        return reference_case_add(test, operand, ATTUNE_DTYPE_F32, b, p->rows, p->heads_q, p->head_dim_v);
    case ATTUNE_OPERAND_LSE:
    case ATTUNE_OPERAND_DLSE:
        return reference_case_add(test, operand, ATTUNE_DTYPE_F32, b, p->heads_q, p->rows, 1);
    case ATTUNE_OPERAND_BIAS:
    case ATTUNE_OPERAND_DBIAS:
    case ATTUNE_OPERAND_PROBS:
        return reference_case_add(test, operand, ATTUNE_DTYPE_F32, b, p->heads_q, p->rows, p->keys);
    case ATTUNE_OPERAND_ALIBI_SLOPES:
        return reference_case_add(test, operand, ATTUNE_DTYPE_F32, 1, p->heads_q, 1, 1);
    case ATTUNE_OPERAND_SINK:
    case ATTUNE_OPERAND_DSINK:
        return reference_case_add(test, operand, ATTUNE_DTYPE_F32, p->heads_q, 1, 1, 1);
    default:
        fail_msg("operand %d has no dense shape", (int)operand);
        return NULL;
    }
}

void reference_case_add_integers(struct reference_case *test, attune_operand operand, int64_t count,
                                 const int32_t *values) {
    void *memory = reference_case_add(test, operand, ATTUNE_DTYPE_I32, count, 1, 1, 1);
    if (count > 0) {
        memcpy(memory, values, (size_t)count * sizeof *values);
    }
}

void reference_case_add_attention(struct reference_case *test, unsigned seed) {
    reference_case_add_f32(test, ATTUNE_OPERAND_Q);
    reference_case_add_f32(test, ATTUNE_OPERAND_K);
    reference_case_add_f32(test, ATTUNE_OPERAND_V);
    reference_case_add_f32(test, ATTUNE_OPERAND_O);
    reference_case_add_f32(test, ATTUNE_OPERAND_LSE);
    reference_case_draw(test, ATTUNE_OPERAND_Q, seed, 2);
    reference_case_draw(test, ATTUNE_OPERAND_K, seed + 1, 2);
    reference_case_draw(test, ATTUNE_OPERAND_V, seed + 2, 2);
}

void reference_case_add_gradients(struct reference_case *test, unsigned seed) {
    reference_case_add_f32(test, ATTUNE_OPERAND_DOUT);
    reference_case_add_f32(test, ATTUNE_OPERAND_DLSE);
    reference_case_add_f32(test, ATTUNE_OPERAND_DQ);
    reference_case_add_f32(test, ATTUNE_OPERAND_DK);
    reference_case_add_f32(test, ATTUNE_OPERAND_DV);
    reference_case_draw(test, ATTUNE_OPERAND_DOUT, seed, 2);
    reference_case_draw(test, ATTUNE_OPERAND_DLSE, seed + 1, 2);
}

/* ---- Values ---- */

int64_t reference_case_count(const struct reference_case *test, attune_operand operand) {
    const int64_t *shape = test->problem.operand[operand].shape;
    return shape[0] * shape[1] * shape[2] * shape[3];
}

double reference_case_get(const struct reference_case *test, attune_operand operand, int64_t index) {
    return attune_reference_load(test->problem.operand[operand].dtype, test->memory[operand], index);
}

void reference_case_set(struct reference_case *test, attune_operand operand, int64_t index, double value) {
    attune_reference_store(test->problem.operand[operand].dtype, test->memory[operand], index, value);
}

double reference_case_noise(unsigned seed, int64_t index) {
    uint64_t x = (uint64_t)index * UINT64_C(0x9E3779B97F4A7C15) + seed * UINT64_C(0xD1B54A32D192ED03) + 1;
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)(int64_t)(x ^ (x >> 31)) * 0x1p-63;
}

void reference_case_draw(struct reference_case *test, attune_operand operand, unsigned seed, double size) {
    for (int64_t n = 0; n < reference_case_count(test, operand); n++) {
        reference_case_set(test, operand, n, size * reference_case_noise(seed, n));
    }
}

void reference_case_fill(struct reference_case *test, attune_operand operand, double value) {
    for (int64_t n = 0; n < reference_case_count(test, operand); n++) {
        reference_case_set(test, operand, n, value);
    }
}

void reference_case_close(double got, double expected, double tolerance) {
    const bool same = got == expected || (isnan(got) && isnan(expected));
    if (!same && !(fabs(got - expected) <= tolerance * fmax(1.0, fabs(expected)))) {
        fail_msg("%.17g, not %.17g to %g", got, expected, tolerance);
    }
}

/* ---- Running ---- */

static const struct attune_cpu_kernel *kernel_of(attune_op op) {
    int32_t count = 0;
    const attune_kernel_row *rows = attune_cpu_kernels(&count);
    for (int32_t n = 0; n < count; n++) {
        if (rows[n].op == op && strncmp(rows[n].name, "reference_", strlen("reference_")) == 0) {
            return rows[n].kernel;
        }
    }
    fail_msg("no reference row for operation %d", (int)op);
    return NULL;
}

void reference_case_run(struct reference_case *test) {
    const struct attune_cpu_kernel *kernel = kernel_of(test->problem.op);
    const struct attune_cpu_team team = {.threads = test->threads == 0 ? 3 : test->threads,
                                         .host = &reference_case_host};
    struct attune_cpu_run run = {.problem = &test->problem, .bindings = &test->bindings, .team = &team};
    const uint64_t bytes =
        kernel->workspace_bytes == NULL ? 0 : kernel->workspace_bytes(&test->problem, NULL, team.threads);
    if (bytes > 0) {
        run.workspace = aligned_alloc(64, (size_t)bytes);
        assert_non_null(run.workspace);
        memset(run.workspace, 0xFF, (size_t)bytes);
    }
    test->bindings.part_o = test->part_o;
    test->bindings.part_lse = test->part_lse;
    kernel->execute(&run);
    free(run.workspace);
}

/* ---- Forward ---- */

struct reference_case reference_case_forward(int64_t batch, int64_t rows, int64_t keys, int64_t heads_q,
                                             int64_t heads_kv, int64_t head_dim, int64_t head_dim_v) {
    struct reference_case test =
        reference_case_make(ATTUNE_OP_FORWARD, batch, rows, keys, heads_q, heads_kv, head_dim, head_dim_v);
    reference_case_add_attention(&test, 1);
    return test;
}

struct reference_case reference_case_flat(int64_t rows, int64_t keys) {
    struct reference_case test = reference_case_forward(1, rows, keys, 1, 1, 4, 3);
    reference_case_fill(&test, ATTUNE_OPERAND_Q, 0);
    return test;
}

double reference_case_lse(const struct reference_case *test, int64_t index) {
    return reference_case_get(test, ATTUNE_OPERAND_LSE, index);
}

double reference_case_o(const struct reference_case *test, int64_t index) {
    return reference_case_get(test, ATTUNE_OPERAND_O, index);
}

void reference_case_counts(struct reference_case *test, const int *count) {
    reference_case_run(test);
    for (int64_t i = 0; i < test->problem.rows; i++) {
        reference_case_close(reference_case_lse(test, i), log(count[i]), 1e-6);
        if (count[i] == 0) {
            for (int64_t d = 0; d < test->problem.head_dim_v; d++) {
                assert_true(reference_case_o(test, i * test->problem.head_dim_v + d) == 0);
            }
        }
    }
}

void reference_case_same_bits(const struct reference_case *a, const struct reference_case *b, attune_operand operand) {
    assert_int_equal(reference_case_count(a, operand), reference_case_count(b, operand));
    assert_memory_equal(a->memory[operand], b->memory[operand],
                        (size_t)reference_case_count(a, operand) * sizeof(float));
}
