/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/kernel_table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>

#include "core/args.h"
#include "core/describe.h"
#include "core/schedule.h"
#include "core/split.h"
#include "core/status_internal.h"
#include "core/text.h"
#include "core/tuned_tile.h"

/* ---- Rows ---- */

int32_t attune_kernel_row_count(const attune_backend *backend) {
    int32_t count = 0;
    return backend->kernels(&count) == NULL ? 0 : count;
}

attune_kernel_row attune_kernel_row_get(const attune_backend *backend, int32_t index) {
    int32_t count;
    attune_kernel_row row;
    const unsigned char *rows = (const unsigned char *)backend->kernels(&count);
    size_t size = backend->kernel_row_size < sizeof row ? backend->kernel_row_size : sizeof row;
    memset(&row, 0, sizeof row);
    memcpy(&row, rows + (size_t)index * backend->kernel_row_size, size);
    return row;
}

/* ---- Reasons of the columns ---- */

/* One row's reasons, one after the other. */
struct reasons {
    const attune_kernel_row *row;
    const attune_problem *problem;
    char text[ATTUNE_REASON_MAX];
};

ATTUNE_PRINTF(2, 3) static void refuse(struct reasons *reasons, const char *format, ...) {
    char reason[ATTUNE_REASON_MAX];
    va_list arguments;
    va_start(arguments, format);
    attune_text_vformat(reason, sizeof reason, format, arguments);
    va_end(arguments);
    const char *separator = reasons->text[0] == '\0' ? "" : "; ";
    attune_text_append(reasons->text, sizeof reasons->text, "%s%s", separator, reason);
}

static void check_dtype(struct reasons *reasons) {
    if ((reasons->row->dtypes & UINT64_C(1) << reasons->problem->dtype) != 0) {
        return;
    }
    refuse(reasons, "does not read %s, but", attune_dtype_name(reasons->problem->dtype));
    for (int dtype = 1; dtype <= ATTUNE_DTYPE_F64; dtype++) {
        if ((reasons->row->dtypes & UINT64_C(1) << dtype) != 0) {
            attune_text_append(reasons->text, sizeof reasons->text, " %s", attune_dtype_name((attune_dtype)dtype));
        }
    }
}

static void check_head_dim(struct reasons *reasons, const char *name, int64_t head_dim, int32_t most) {
    int32_t multiple = reasons->row->head_dim_multiple;
    if (head_dim > most) {
        refuse(reasons, "%s = %" PRId64 " is more than %" PRId32, name, head_dim, most);
    }
    if (multiple > 1 && head_dim % multiple != 0) {
        refuse(reasons, "%s = %" PRId64 " is not a multiple of %" PRId32, name, head_dim, multiple);
    }
}

static void check_features(struct reasons *reasons) {
    uint64_t missing = reasons->problem->features & ~reasons->row->features;
    if (missing != 0) {
        refuse(reasons, "cannot do ");
        attune_describe_features(missing, reasons->text, sizeof reasons->text);
    }
}

static void check_rows_and_pointers(struct reasons *reasons) {
    const attune_kernel_row *row = reasons->row;
    const attune_problem *problem = reasons->problem;
    if (row->rows_max > 0 && problem->rows > row->rows_max) {
        refuse(reasons, "%" PRId64 " rows are more than %" PRId32, problem->rows, row->rows_max);
    }
    if (row->alignment_bytes > problem->alignment_bytes) {
        refuse(reasons, "pointers are aligned to %" PRId32 " bytes, not to %" PRId32, problem->alignment_bytes,
               row->alignment_bytes);
    }
}

/* On a CPU shared memory is a cache, which may be exceeded. */
static void check_limits(struct reasons *reasons, const attune_device_limits *limits) {
    const attune_kernel_row *row = reasons->row;
    if (!limits->is_cpu && limits->shared_memory_bytes > 0 && row->shared_bytes > limits->shared_memory_bytes) {
        refuse(reasons, "takes %" PRId32 " bytes of on-chip memory, the device has %" PRId64, row->shared_bytes,
               limits->shared_memory_bytes);
    }
    if (!limits->is_cpu && limits->work_group_size_max > 0 && row->threads > limits->work_group_size_max) {
        refuse(reasons, "takes work-groups of %" PRId32 ", the device has at most %" PRId64, row->threads,
               limits->work_group_size_max);
    }
}

/* ---- Reasons of the backend ---- */

/* Whether a device can run a row, with a reason that is never empty where it cannot. */
static bool row_runs(const attune_device *device, int32_t index, char out_reason[ATTUNE_REASON_MAX]) {
    out_reason[0] = '\0';
    if (device->backend->row_runnable == NULL || device->backend->row_runnable(device->handle, index, out_reason)) {
        out_reason[0] = '\0';
        return true;
    }
    if (out_reason[0] == '\0') {
        attune_text_format(out_reason, ATTUNE_REASON_MAX, "this device cannot run it");
    }
    return false;
}

static bool row_accepts(const attune_device *device, int32_t index, const attune_problem *problem,
                        char out_reason[ATTUNE_REASON_MAX]) {
    out_reason[0] = '\0';
    if (device->backend->row_accepts == NULL ||
        device->backend->row_accepts(device->handle, index, problem, out_reason)) {
        return true;
    }
    if (out_reason[0] == '\0') {
        attune_text_format(out_reason, ATTUNE_REASON_MAX, "the backend does not accept it");
    }
    return false;
}

/* ---- One row against a problem ---- */

static bool is_asked_for(const struct attune_request *request, const attune_kernel_row *row) {
    return request->kernel == NULL || strcmp(request->kernel, row->name) == 0;
}

/* Makes the schedule; a tile that was tuned is asked for where nobody asks for another. */
static bool make_schedule(const attune_device *device, const attune_problem *problem,
                          const struct attune_request *request, struct attune_choice *choice,
                          char out_reason[ATTUNE_REASON_MAX]) {
    const attune_kernel_row *row = &choice->kernel;
    struct attune_request own = *request;
    struct attune_tile tuned = {0, 0};
    const bool is_tuned =
        request->tile_rows == 0 && request->tile_keys == 0 && attune_tuned_tile_find(device, problem, row, &tuned);
    if (is_tuned) {
        own.tile_rows = tuned.rows;
        own.tile_keys = tuned.keys;
    }
    const bool fits = attune_schedule_make(&device->limits, problem, row, &own, &choice->schedule, out_reason);
    choice->tile_is_tuned =
        fits && is_tuned && choice->schedule.tile_rows == tuned.rows && choice->schedule.tile_keys == tuned.keys;
    return fits;
}

/* A row that splits the keys in its own way is for problems that gain by it, unless it is asked for by name. */
static bool choose_own_splits(const attune_device *device, const attune_problem *problem,
                              const struct attune_request *request, struct attune_choice *choice,
                              char out_reason[ATTUNE_REASON_MAX]) {
    if ((choice->kernel.features & ATTUNE_FEATURE_OWN_SPLITS) == 0 || device->backend->row_splits == NULL) {
        return true;
    }
    const int32_t splits =
        device->backend->row_splits(device->handle, choice->row, problem, attune_split_clamp(request->splits));
    choice->schedule.splits = splits;
    choice->schedule.grid[1] = splits;
    if (splits == 1 && request->kernel == NULL) {
        attune_text_format(out_reason, ATTUNE_REASON_MAX, "it splits the keys, which would gain too little here");
        return false;
    }
    return true;
}

/* Whether the row computes the problem; the cheap reasons are all told, the others one at a time. */
static bool try_row(const attune_device *device, const attune_problem *problem, const struct attune_request *request,
                    int32_t index, struct attune_choice *out_choice, char out_reason[ATTUNE_REASON_MAX]) {
    const attune_kernel_row row = attune_kernel_row_get(device->backend, index);
    struct reasons reasons = {&row, problem, ""};
    if (!is_asked_for(request, &row)) {
        refuse(&reasons, "is not the kernel asked for, %s", request->kernel);
    } else {
        check_dtype(&reasons);
        check_head_dim(&reasons, "D", problem->head_dim, row.head_dim_max);
        check_head_dim(&reasons, "Dv", problem->head_dim_v, row.head_dim_v_max);
        check_features(&reasons);
        check_rows_and_pointers(&reasons);
        check_limits(&reasons, &device->limits);
    }
    out_choice->row = index;
    out_choice->kernel = row;
    bool fits = reasons.text[0] == '\0' && row_runs(device, index, reasons.text) &&
                row_accepts(device, index, problem, reasons.text) &&
                make_schedule(device, problem, request, out_choice, reasons.text) &&
                choose_own_splits(device, problem, request, out_choice, reasons.text);
    memcpy(out_reason, reasons.text, ATTUNE_REASON_MAX);
    return fits;
}

/* ---- The table ---- */

static void add_refusal(struct attune_refusal_list *list, const attune_kernel_row *row, const char *reason) {
    if (list->refusals != NULL && list->count < list->capacity) {
        attune_refusal *refusal = &list->refusals[list->count];
        attune_text_format(refusal->kernel, sizeof refusal->kernel, "%s", row->name);
        attune_text_format(refusal->reason, sizeof refusal->reason, "%s", reason);
    }
    list->count++;
}

static bool honours(const struct attune_choice *choice, const struct attune_request *request) {
    const attune_schedule *schedule = &choice->schedule;
    return (request->tile_rows == 0 || schedule->tile_rows == request->tile_rows) &&
           (request->tile_keys == 0 || schedule->tile_keys == request->tile_keys) &&
           (request->splits <= 1 || schedule->splits > 1);
}

static attune_status fail_not_found(const attune_device *device, attune_op op, const char *kernel) {
    char names[ATTUNE_SENTENCE_MAX] = "";
    char nearest[ATTUNE_NAME_MAX] = "";
    int least = INT_MAX;
    for (int32_t index = 0; index < attune_kernel_row_count(device->backend); index++) {
        const attune_kernel_row row = attune_kernel_row_get(device->backend, index);
        if (row.op != op) {
            continue;
        }
        attune_text_append(names, sizeof names, "%s%s", names[0] == '\0' ? "" : ", ", row.name);
        if (attune_text_distance(kernel, row.name) < least) {
            least = attune_text_distance(kernel, row.name);
            attune_text_format(nearest, sizeof nearest, "%s", row.name);
        }
    }
    if (nearest[0] == '\0') {
        return attune_fail(ATTUNE_NOT_FOUND, "kernel = \"%.100s\": backend %s has no kernel for %s", kernel,
                           device->backend->name, attune_op_name(op));
    }
    return attune_fail(ATTUNE_NOT_FOUND,
                       "kernel = \"%.100s\": must be a row for %s of backend %s; the nearest is %s, all are: %s",
                       kernel, attune_op_name(op), device->backend->name, nearest, names);
}

static attune_status check_name(const attune_device *device, attune_op op, const struct attune_request *request) {
    if (request->kernel == NULL) {
        return ATTUNE_OK;
    }
    for (int32_t index = 0; index < attune_kernel_row_count(device->backend); index++) {
        const attune_kernel_row row = attune_kernel_row_get(device->backend, index);
        if (row.op == op && is_asked_for(request, &row)) {
            return ATTUNE_OK;
        }
    }
    return fail_not_found(device, op, request->kernel);
}

attune_status attune_kernel_choose(const attune_device *device, const attune_problem *problem,
                                   const struct attune_request *request, struct attune_refusal_list *refusals,
                                   struct attune_choice *out_choice) {
    memset(out_choice, 0, sizeof *out_choice);
    out_choice->row = -1;
    attune_status status = check_name(device, problem->op, request);
    for (int32_t index = 0; status == ATTUNE_OK && index < attune_kernel_row_count(device->backend); index++) {
        char reason[ATTUNE_REASON_MAX];
        struct attune_choice candidate;
        if (attune_kernel_row_get(device->backend, index).op != problem->op) {
            continue;
        }
        if (!try_row(device, problem, request, index, &candidate, reason)) {
            add_refusal(refusals, &candidate.kernel, reason);
            continue;
        }
        bool is_best = honours(&candidate, request);
        if (is_best || out_choice->row < 0) {
            *out_choice = candidate;
        }
        if (is_best) {
            break;
        }
    }
    return status;
}

attune_status attune_kernel_fail_unsupported(const attune_device *device, const attune_problem *problem,
                                             const struct attune_request *request) {
    char lines[ATTUNE_SENTENCE_MAX] = "";
    char asked[ATTUNE_REASON_MAX];
    attune_describe_problem(problem, asked, sizeof asked);
    for (int32_t index = 0; index < attune_kernel_row_count(device->backend); index++) {
        char reason[ATTUNE_REASON_MAX];
        struct attune_choice candidate;
        const attune_kernel_row row = attune_kernel_row_get(device->backend, index);
        if (row.op == problem->op && is_asked_for(request, &row) &&
            !try_row(device, problem, request, index, &candidate, reason)) {
            attune_text_append(lines, sizeof lines, "\n  %s: %s", row.name, reason);
        }
    }
    return attune_fail(ATTUNE_UNSUPPORTED, "no kernel of %s computes %s%s", device->info.selector, asked,
                       lines[0] == '\0' ? ": the backend has none for this operation" : lines);
}

/* ---- For the application ---- */

attune_status attune_device_count_kernels(attune_device *device, int32_t *out_count) {
    if (device == NULL || out_count == NULL) {
        return attune_args_refuse_null(device == NULL ? "device" : "out_count");
    }
    *out_count = attune_kernel_row_count(device->backend);
    return ATTUNE_OK;
}

static void describe_row(const attune_device *device, int32_t index, attune_kernel_info *out_info) {
    const attune_kernel_row row = attune_kernel_row_get(device->backend, index);
    memset(out_info, 0, sizeof *out_info);
    out_info->struct_size = sizeof *out_info;
    attune_text_format(out_info->name, sizeof out_info->name, "%s", row.name);
    attune_text_format(out_info->architecture, sizeof out_info->architecture, "%s", row.architecture);
    out_info->op = row.op;
    out_info->dtypes = row.dtypes;
    out_info->features = row.features;
    out_info->head_dim_max = row.head_dim_max;
    out_info->head_dim_v_max = row.head_dim_v_max;
    out_info->head_dim_multiple = row.head_dim_multiple;
    out_info->rows_max = row.rows_max;
    out_info->tile_rows = row.tile_rows;
    out_info->tile_keys = row.tile_keys;
    out_info->p_dtype = row.p_dtype;
    out_info->flushes_subnormals = row.flushes_subnormals;
    out_info->runnable = row_runs(device, index, out_info->reason);
}

attune_status attune_device_get_kernel(attune_device *device, int32_t index, attune_kernel_info *out_info) {
    if (device == NULL) {
        return attune_args_refuse_null("device");
    }
    int32_t count = attune_kernel_row_count(device->backend);
    if (index < 0 || index >= count) {
        return attune_fail(ATTUNE_NOT_FOUND, "index = %" PRId32 ": must be from 0 to %" PRId32 ", the rows of %s",
                           index, count - 1, device->info.selector);
    }
    attune_kernel_info info;
    describe_row(device, index, &info);
    return attune_args_export("attune_kernel_info", &info, sizeof info, out_info);
}
