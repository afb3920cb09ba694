/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/generic_case.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "attune/backend_util.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/reference/load.h"

static const attune_operand outputs[] = {
    ATTUNE_OPERAND_O,  ATTUNE_OPERAND_LSE, ATTUNE_OPERAND_PROBS, ATTUNE_OPERAND_DQ,
    ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV,  ATTUNE_OPERAND_DBIAS, ATTUNE_OPERAND_DSINK,
};
#define OUTPUTS ((int)(sizeof outputs / sizeof outputs[0]))

static bool is_output(const struct generic_case *drawn, attune_operand operand) {
    const bool of_forward = operand <= ATTUNE_OPERAND_PROBS;
    return drawn->test.problem.operand[operand].dtype != ATTUNE_DTYPE_NONE &&
           of_forward == (drawn->test.problem.op == ATTUNE_OP_FORWARD);
}

static size_t bytes_of(const struct generic_case *drawn, attune_operand operand) {
    const attune_dtype dtype = drawn->test.problem.operand[operand].dtype;
    return (size_t)(drawn->elements[operand] * attune_element_bytes(dtype));
}

/* ---- The reference ---- */

/* The same problem with outputs of f64, elsewhere. */
void generic_case_find_truth(struct generic_case *drawn) {
    struct reference_case twin = drawn->test;
    for (int n = 0; n < OUTPUTS; n++) {
        const attune_operand operand = outputs[n];
        if (is_output(drawn, operand)) {
            const size_t bytes = (size_t)drawn->elements[operand] * sizeof(double);
            drawn->truth[operand] = malloc(bytes + 1);
            assert_non_null(drawn->truth[operand]);
            memset(drawn->truth[operand], 0xFF, bytes);
            twin.problem.operand[operand].dtype = ATTUNE_DTYPE_F64;
            twin.bindings.operand[operand].data = drawn->truth[operand];
        }
    }
    reference_case_run(&twin);
}

void generic_case_free(struct generic_case *drawn) {
    for (int n = 0; n < OUTPUTS; n++) {
        free(drawn->truth[outputs[n]]);
    }
    reference_case_free(&drawn->test);
}

/* ---- The portable kernel ---- */

static const struct attune_cpu_kernel *kernel_of(attune_op op) {
    int32_t count = 0;
    const attune_kernel_row *rows = attune_cpu_kernels(&count);
    for (int32_t n = 0; n < count; n++) {
        if (rows[n].op == op && strncmp(rows[n].name, "generic_", strlen("generic_")) == 0) {
            return rows[n].kernel;
        }
    }
    fail_msg("no portable row for operation %d", (int)op);
    return NULL;
}

static attune_schedule schedule_of(const struct generic_case *drawn, const struct generic_way *way) {
    const attune_problem *problem = &drawn->test.problem;
    const bool packs = way->packs && problem->op == ATTUNE_OP_FORWARD;
    const int64_t pack = packs ? problem->heads_q / problem->heads_kv : 1;
    return (attune_schedule){
        .tile_rows = way->tile_rows,
        .tile_keys = way->tile_keys,
        .splits = way->splits,
        .pack = (int32_t)pack,
        .grid = {attune_ceil_div(problem->rows * pack, way->tile_rows), way->splits,
                 problem->batch * problem->heads_q / pack},
    };
}

#define CANARY       0xA5
#define CANARY_BYTES 64

static char *scratch_make(uint64_t bytes) {
    char *scratch = aligned_alloc(64, ((size_t)bytes + CANARY_BYTES + 63) / 64 * 64);
    assert_non_null(scratch);
    memset(scratch, 0xFF, (size_t)bytes);
    memset(scratch + bytes, CANARY, CANARY_BYTES);
    return scratch;
}

static void scratch_free(char *scratch, uint64_t bytes) {
    for (int n = 0; n < CANARY_BYTES; n++) {
        assert_int_equal((unsigned char)scratch[bytes + (uint64_t)n], CANARY);
    }
    free(scratch);
}

void generic_case_run(struct generic_case *drawn, const struct generic_way *way) {
    const attune_problem *problem = &drawn->test.problem;
    const struct attune_cpu_kernel *kernel = kernel_of(problem->op);
    const attune_schedule schedule = schedule_of(drawn, way);
    const struct attune_cpu_team team = {.threads = way->threads, .host = &reference_case_host};
    const uint64_t bytes = kernel->workspace_bytes(problem, &schedule, way->threads);
    const uint64_t lines = (uint64_t)(way->splits * problem->batch * problem->heads_q * problem->rows) * sizeof(float);
    struct attune_cpu_run run = {
        .problem = problem,
        .schedule = &schedule,
        .bindings = &drawn->test.bindings,
        .workspace = scratch_make(bytes),
        .partial_o = (float *)(void *)scratch_make(lines * (uint64_t)problem->head_dim_v),
        .partial_lse = (float *)(void *)scratch_make(lines),
        .team = &team,
    };
    for (int n = 0; n < OUTPUTS; n++) {
        if (is_output(drawn, outputs[n])) {
            memset(drawn->test.memory[outputs[n]], 0xFF, bytes_of(drawn, outputs[n]));
        }
    }
    kernel->execute(&run);
    scratch_free(run.workspace, bytes);
    scratch_free((char *)run.partial_o, lines * (uint64_t)problem->head_dim_v);
    scratch_free((char *)run.partial_lse, lines);
}

/* ---- The verdict ---- */

static bool is_untouched(const void *at, int64_t bytes) {
    const unsigned char *byte = at;
    int64_t n = 0;
    while (n < bytes && byte[n] == 0xFF) {
        n++;
    }
    return n == bytes;
}

static double largest_of(const struct generic_case *drawn, attune_operand operand) {
    double largest = 1;
    for (int64_t n = 0; n < drawn->elements[operand]; n++) {
        if (isfinite(drawn->truth[operand][n])) {
            largest = fmax(largest, fabs(drawn->truth[operand][n]));
        }
    }
    return largest;
}

static double unit_of(attune_dtype dtype) {
    return dtype == ATTUNE_DTYPE_F16 ? 0x1p-11 : dtype == ATTUNE_DTYPE_BF16 ? 0x1p-8 : 0x1p-24;
}

/* What a wrong mask, index or factor does is far above this; the conformance suite has the exact bounds. */
#define TOLERANCE 1e-4

static void check_operand(const struct generic_case *drawn, attune_operand operand, const struct generic_way *way) {
    const attune_dtype dtype = drawn->test.problem.operand[operand].dtype;
    const int64_t size = attune_element_bytes(dtype);
    const char *memory = drawn->test.memory[operand];
    const double slack = TOLERANCE * largest_of(drawn, operand);
    for (int64_t n = 0; n < drawn->elements[operand]; n++) {
        const double expected = drawn->truth[operand][n];
        const double got = attune_reference_load(dtype, memory, n);
        const bool untouched = is_untouched(memory + n * size, size);
        const bool same = got == expected || fabs(got - expected) <= unit_of(dtype) * fabs(expected) + slack;
        if (is_untouched(&drawn->truth[operand][n], sizeof expected) ? !untouched : untouched || !same) {
            fail_msg("seed %u, operand %d, element %lld of tile %dx%d, %d splits, %d threads%s: %.9g, not %.9g",
                     drawn->seed, (int)operand, (long long)n, way->tile_rows, way->tile_keys, way->splits, way->threads,
                     way->packs ? ", packed" : "", got, expected);
        }
    }
}

void generic_case_check(const struct generic_case *drawn, const struct generic_way *way) {
    for (int n = 0; n < OUTPUTS; n++) {
        if (is_output(drawn, outputs[n])) {
            check_operand(drawn, outputs[n], way);
        }
    }
}
