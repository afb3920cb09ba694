/*
 * The CUDA backend's forward rows without core, for scripts that load this as a shared library: a problem is built from
 * numbers, a row is chosen as core chooses it, or taken by name, and run on the script's own memory and stream.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/backend_util.h"

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host);

static _Thread_local char sentence[1024];

static attune_status fail(attune_status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return status;
}

static void log_line(attune_log_level level, const char *format, ...) {
    (void)level;
    (void)format;
}

static void *alloc_zeroed(size_t bytes) {
    return calloc(1, bytes);
}

static const char *config_get(const char *name) {
    const char *value = getenv(name);
    return value == NULL ? "" : value;
}

static const attune_host_services services = {.struct_size = sizeof services,
                                              .log = log_line,
                                              .fail = fail,
                                              .alloc = alloc_zeroed,
                                              .free = free,
                                              .config_get = config_get};

static const attune_backend *backend;
static void *device;

const char *rows_error(void);
int rows_open(void);
void *rows_stream(void *native);
void *rows_plan(const int64_t *numbers, double softcap, int count, const int64_t *layouts, const char *name);
const char *rows_chosen(const void *plan);
int64_t rows_workspace(const void *plan);
int rows_run(const void *plan, void *stream, double scale, int count, const int64_t *operands, void *const *data,
             void *workspace);
void rows_close(void *plan);

/* The last failure, or the reasons why no row was chosen. */
const char *rows_error(void) {
    return sentence;
}

/* Opens device 0 by its primary context, which a framework in the process uses too. 0: done. */
int rows_open(void) {
    backend = ATTUNE_BACKEND_QUERY(ATTUNE_BACKEND_ABI_MAJOR, &services);
    return backend == NULL ? -1 : (int)backend->device_open(0, &device);
}

/* A stream of the driver's as the backend has it; it lives until the process ends. */
void *rows_stream(void *native) {
    void *stream = NULL;
    return backend->stream_wrap(device, native, &stream) == ATTUNE_OK ? stream : NULL;
}

/* ---- The problem ---- */

struct plan {
    attune_problem problem;
    attune_schedule schedule;
    attune_workspace_map workspace;
    int32_t row;
    const attune_kernel_row *kernel;
    void *handle;
};

/* An operand that makes a feature by being there. */
static const struct {
    attune_operand operand;
    uint64_t feature;
} feature_of_operand[] = {
    {ATTUNE_OPERAND_LSE, ATTUNE_FEATURE_LSE},
    {ATTUNE_OPERAND_SINK, ATTUNE_FEATURE_SINK},
    {ATTUNE_OPERAND_CU_SEQLENS_Q, ATTUNE_FEATURE_VARLEN_Q},
    {ATTUNE_OPERAND_CU_SEQLENS_K, ATTUNE_FEATURE_VARLEN_K},
    {ATTUNE_OPERAND_SEQUSED_Q, ATTUNE_FEATURE_SEQUSED_Q},
    {ATTUNE_OPERAND_SEQUSED_K, ATTUNE_FEATURE_SEQUSED_K},
    {ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_FEATURE_PAGED},
};

static uint64_t features_of(const attune_problem *problem) {
    uint64_t features = problem->heads_q > problem->heads_kv ? ATTUNE_FEATURE_GQA : 0;
    const bool is_causal = problem->window_left < 0 && problem->window_right == 0;
    if (is_causal) {
        features |= ATTUNE_FEATURE_CAUSAL;
    } else if (problem->window_left >= 0 || problem->window_right >= 0) {
        features |= ATTUNE_FEATURE_WINDOW;
    }
    if (problem->align != ATTUNE_ALIGN_BOTTOM_RIGHT) {
        features |= ATTUNE_FEATURE_DIAGONAL;
    }
    if (problem->softcap > 0.0) {
        features |= ATTUNE_FEATURE_SOFTCAP;
    }
    if (problem->operand[ATTUNE_OPERAND_O].dtype == ATTUNE_DTYPE_F32 && problem->dtype != ATTUNE_DTYPE_F32) {
        features |= ATTUNE_FEATURE_F32_OUT;
    }
    for (size_t i = 0; i < sizeof feature_of_operand / sizeof feature_of_operand[0]; i++) {
        if (attune_problem_has(problem, feature_of_operand[i].operand)) {
            features |= feature_of_operand[i].feature;
        }
    }
    return features;
}

static void set_problem(attune_problem *problem, const int64_t *numbers, double softcap, int count,
                        const int64_t *layouts) {
    problem->op = ATTUNE_OP_FORWARD;
    problem->dtype = (attune_dtype)numbers[0];
    problem->batch = numbers[1];
    problem->rows = numbers[2];
    problem->keys = numbers[3];
    problem->heads_q = numbers[4];
    problem->heads_kv = numbers[5];
    problem->head_dim = numbers[6];
    problem->head_dim_v = numbers[7];
    problem->page_size = numbers[8];
    problem->align = (attune_align)numbers[9];
    problem->diagonal = numbers[10];
    problem->window_left = numbers[11];
    problem->window_right = numbers[12];
    problem->alignment_bytes = 16;
    problem->heads_total = problem->heads_q;
    problem->softcap = softcap;
    for (int i = 0; i < count; i++) { /* operand, dtype, four extents, four strides */
        const int64_t *from = layouts + (ptrdiff_t)i * (2 + 2 * ATTUNE_RANK_MAX);
        attune_layout *layout = &problem->operand[from[0]];
        layout->dtype = (attune_dtype)from[1];
        layout->memory = ATTUNE_MEMORY_DEVICE;
        for (int axis = 0; axis < ATTUNE_RANK_MAX; axis++) {
            layout->shape[axis] = from[2 + axis];
            layout->stride[axis] = from[2 + ATTUNE_RANK_MAX + axis];
        }
    }
    problem->features = features_of(problem);
}

/* ---- The row ---- */

static bool fits_columns(const attune_kernel_row *row, const attune_problem *problem) {
    return row->op == problem->op && (row->dtypes & UINT64_C(1) << problem->dtype) != 0 &&
           problem->head_dim <= row->head_dim_max && problem->head_dim_v <= row->head_dim_v_max &&
           problem->head_dim % row->head_dim_multiple == 0 && problem->head_dim_v % row->head_dim_multiple == 0 &&
           (problem->features & ~row->features) == 0 && (row->rows_max == 0 || problem->rows <= row->rows_max);
}

static bool choose_row(struct plan *plan, const char *name) {
    int32_t count = 0;
    const attune_kernel_row *rows = backend->kernels(&count);
    (void)snprintf(sentence, sizeof sentence, "no row fits the columns");
    for (int32_t i = 0; i < count; i++) {
        char reason[ATTUNE_REASON_MAX] = "";
        if ((name != NULL && strcmp(name, rows[i].name) != 0) || !fits_columns(&rows[i], &plan->problem)) {
            continue;
        }
        if (backend->row_runnable(device, i, reason) && backend->row_accepts(device, i, &plan->problem, reason)) {
            plan->row = i;
            plan->kernel = &rows[i];
            return true;
        }
        (void)snprintf(sentence, sizeof sentence, "%s: %s", rows[i].name, reason);
    }
    return false;
}

/* numbers: as set_problem reads them. name: a row's, or NULL. NULL: rows_error says why. */
void *rows_plan(const int64_t *numbers, double softcap, int count, const int64_t *layouts, const char *name) {
    struct plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL) {
        return NULL;
    }
    set_problem(&plan->problem, numbers, softcap, count, layouts);
    if (choose_row(plan, name)) {
        plan->schedule.tile_rows = plan->kernel->tile_rows;
        plan->schedule.tile_keys = plan->kernel->tile_keys;
        plan->schedule.splits = 1;
        plan->schedule.pack = 1;
        plan->workspace.own.size_bytes = backend->workspace_bytes(device, plan->row, &plan->problem, &plan->schedule);
        const attune_plan_request request = {&plan->problem, plan->row, plan->schedule, plan->workspace};
        if (backend->plan_build(device, &request, &plan->handle) == ATTUNE_OK) {
            return plan;
        }
    }
    free(plan);
    return NULL;
}

const char *rows_chosen(const void *plan) {
    return ((const struct plan *)plan)->kernel->name;
}

int64_t rows_workspace(const void *plan) {
    return (int64_t)((const struct plan *)plan)->workspace.own.size_bytes;
}

int rows_run(const void *handle, void *stream, double scale, int count, const int64_t *operands, void *const *data,
             void *workspace) {
    const struct plan *plan = handle;
    static _Thread_local attune_bindings bindings;
    memset(&bindings, 0, sizeof bindings);
    for (int i = 0; i < count; i++) {
        bindings.operand[operands[i]].data = data[i];
    }
    bindings.workspace.data = workspace;
    bindings.scale = scale;
    return (int)backend->execute(device, plan->handle, stream, &bindings);
}

void rows_close(void *handle) {
    struct plan *plan = handle;
    backend->plan_release(device, plan->handle);
    free(plan);
}
