/* SPDX-License-Identifier: Apache-2.0 */
#include "devices_verbose.h"

#include <stdio.h>

#include "attune/attune.h"

/* ---- What the library says, as JSON: the text is made from it ---- */

static void add_limits(cJSON *device, const attune_device_limits *limits) {
    cJSON *object = json_add_object(device, "limits");
    json_add_text(object, "architecture", limits->architecture);
    json_add_number(object, "processors", limits->processors);
    json_add_number(object, "warp_width", limits->warp_width);
    json_add_number(object, "shared_memory_bytes", (double)limits->shared_memory_bytes);
    json_add_number(object, "register_file_bytes", (double)limits->register_file_bytes);
    json_add_number(object, "l2_cache_bytes", (double)limits->l2_cache_bytes);
    json_add_number(object, "work_group_size_max", (double)limits->work_group_size_max);
    json_add_number(object, "memory_bytes", (double)limits->memory_bytes);
    json_add_number(object, "alignment_bytes", limits->alignment_bytes);
    json_add_number(object, "peak_flops", limits->peak_flops);
    json_add_number(object, "peak_bytes_per_second", limits->peak_bytes_per_second);
}

static const char *op_name(attune_op op) {
    static const char *const names[] = {
        [ATTUNE_OP_FORWARD] = "forward", [ATTUNE_OP_BACKWARD] = "backward", [ATTUNE_OP_APPEND] = "append",
        [ATTUNE_OP_MERGE] = "merge",     [ATTUNE_OP_QUANTIZE] = "quantize",
    };
    bool is_known = op >= ATTUNE_OP_FORWARD && op <= ATTUNE_OP_QUANTIZE;
    return is_known ? names[op] : "unknown";
}

static void add_kernel(cJSON *kernels, const attune_kernel_info *kernel) {
    cJSON *object = json_add_object(kernels, NULL);
    json_add_text(object, "name", kernel->name);
    json_add_text(object, "op", op_name(kernel->op));
    json_add_text(object, "architecture", kernel->architecture);
    cJSON *dtypes = json_add_array(object, "dtypes");
    for (attune_dtype dtype = ATTUNE_DTYPE_F32; dtype <= ATTUNE_DTYPE_F64; dtype++) {
        if (kernel->dtypes >> dtype & 1) {
            json_add_text(dtypes, NULL, attune_dtype_name(dtype));
        }
    }
    json_add_number(object, "head_dim_max", kernel->head_dim_max);
    json_add_number(object, "head_dim_v_max", kernel->head_dim_v_max);
    json_add_number(object, "head_dim_multiple", kernel->head_dim_multiple);
    json_add_number(object, "tile_rows", kernel->tile_rows);
    json_add_number(object, "tile_keys", kernel->tile_keys);
    json_add_text(object, "p_dtype", attune_dtype_name(kernel->p_dtype));
    json_add_bool(object, "runnable", kernel->runnable);
    json_add_text(object, "reason", kernel->runnable ? NULL : kernel->reason);
}

static attune_status add_open(cJSON *object, attune_device *device) {
    attune_device_limits limits = {.struct_size = sizeof limits};
    int32_t count = 0;
    attune_status status = attune_device_get_limits(device, &limits);
    if (status == ATTUNE_OK) {
        status = attune_device_count_kernels(device, &count);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    add_limits(object, &limits);
    cJSON *kernels = json_add_array(object, "kernels");
    for (int32_t i = 0; i < count && status == ATTUNE_OK; i++) {
        attune_kernel_info kernel = {.struct_size = sizeof kernel};
        status = attune_device_get_kernel(device, i, &kernel);
        if (status == ATTUNE_OK) {
            add_kernel(kernels, &kernel);
        }
    }
    return status;
}

enum tool_exit devices_add_verbose(cJSON *object, const char *selector) {
    attune_device *device = NULL;
    if (attune_device_open(selector, &device) != ATTUNE_OK) {
        json_add_text(object, "error", attune_last_error());
        return TOOL_OK;
    }
    attune_status status = add_open(object, device);
    attune_device_close(device);
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

/* ---- Text ---- */

static const char *text_of(const cJSON *object, const char *name) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
    return text ? text : "";
}

static void print_limit(const cJSON *limit) {
    if (cJSON_IsString(limit)) {
        printf("    %-24s %s\n", limit->string, limit->valuestring);
    } else if (cJSON_GetNumberValue(limit) > 0) {
        printf("    %-24s %.15g\n", limit->string, cJSON_GetNumberValue(limit));
    }
}

static void print_kernel(const cJSON *kernel) {
    const char *reason = text_of(kernel, "reason");
    printf("    %-8s %s", text_of(kernel, "op"), text_of(kernel, "name"));
    const cJSON *dtype;
    cJSON_ArrayForEach(dtype, cJSON_GetObjectItemCaseSensitive(kernel, "dtypes")) printf(" %s", dtype->valuestring);
    printf("%s%s\n", reason[0] ? "; not here: " : "", reason);
}

enum tool_exit devices_print_verbose(const char *selector) {
    cJSON *root = json_root();
    enum tool_exit status = devices_add_verbose(root, selector);
    const cJSON *item;
    if (!status && text_of(root, "error")[0]) {
        printf("    %s\n", text_of(root, "error"));
    }
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "limits")) print_limit(item);
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "kernels")) print_kernel(item);
    cJSON_Delete(root);
    return status;
}
