/* SPDX-License-Identifier: Apache-2.0 */
#include "summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json.h"

static const char *op_name(attune_op op) {
    return op == ATTUNE_OP_FORWARD ? "forward" : "backward";
}

/* "--dq" is dq. */
static const char *output_name(const struct output *output) {
    return output->flag + strspn(output->flag, "-");
}

enum tool_exit summary_complete(attune_device *device, struct summary *summary) {
    summary->device.struct_size = sizeof summary->device;
    attune_status status = attune_device_get_info(device, &summary->device);
    for (int i = 0; status == ATTUNE_OK && i < summary->pass_count; i++) {
        struct summary_pass *pass = &summary->pass[i];
        attune_explanation explanation = attune_explanation_init();
        status = attune_explain(device, pass->op, pass->args, &explanation);
        if (status == ATTUNE_OK) {
            snprintf(pass->kernel, sizeof pass->kernel, "%s", explanation.kernel);
        }
    }
    if (status != ATTUNE_OK) {
        return tool_fail_library(status);
    }
    return summary->tells_memory ? memory_use_get(device, &summary->memory) : TOOL_OK;
}

/* ---- Text ---- */

static void print_shape(const char *name, const attune_tensor *tensor) {
    printf("%s (", name);
    for (int axis = 0; axis < tensor->rank; axis++) {
        printf("%s%" PRId64, axis ? ", " : "", tensor->shape[axis]);
    }
    printf(")");
}

static void print_pass(const struct summary_pass *pass) {
    const struct timing *timing = &pass->timing;
    printf("%-10s kernel %s, %.3f ms", op_name(pass->op), pass->kernel, 1e3 * timing->fastest_seconds);
    if (timing->runs > 1) {
        printf(" (median %.3f ms of %" PRId64 " runs)", 1e3 * timing->median_seconds, timing->runs);
    }
    printf("\n");
}

enum tool_exit summary_print(const struct summary *summary) {
    const attune_attention_args *args = summary->pass[0].args;
    printf("%-10s ", "shape");
    print_shape("q", &args->q);
    print_shape(", k", &args->k);
    print_shape(", v", &args->v);
    printf("\n%-10s %s, o %s\n", "dtype", attune_dtype_name(args->q.dtype), attune_dtype_name(args->o.dtype));
    printf("%-10s %s, %s\n", "device", summary->device.selector, summary->device.name);
    for (int i = 0; i < summary->pass_count; i++) {
        print_pass(&summary->pass[i]);
    }
    for (int i = 0; i < summary->outputs->count; i++) {
        printf("%-10s %s %016" PRIx64 "\n", "checksum", output_name(&summary->outputs->item[i]),
               summary->outputs->item[i].checksum);
    }
    if (summary->tells_memory) {
        memory_use_print(&summary->memory);
    }
    return TOOL_OK;
}

/* ---- JSON ---- */

static void add_shape(cJSON *parent, const char *name, const attune_tensor *tensor) {
    cJSON *shape = json_add_array(parent, name);
    for (int axis = 0; axis < tensor->rank; axis++) {
        json_add_number(shape, NULL, (double)tensor->shape[axis]);
    }
}

static void add_pass(cJSON *passes, const struct summary_pass *pass) {
    cJSON *object = json_add_object(passes, NULL);
    json_add_text(object, "op", op_name(pass->op));
    json_add_text(object, "kernel", pass->kernel);
    json_add_number(object, "runs", (double)pass->timing.runs);
    json_add_number(object, "fastest_seconds", pass->timing.fastest_seconds);
    json_add_number(object, "median_seconds", pass->timing.median_seconds);
}

static void add_output(cJSON *outputs, const struct output *output) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, output->checksum);
    cJSON *object = json_add_object(outputs, output_name(output));
    json_add_text(object, "file", output->path);
    json_add_text(object, "checksum", text);
}

enum tool_exit summary_print_json(const struct summary *summary) {
    const attune_attention_args *args = summary->pass[0].args;
    cJSON *root = json_root();
    cJSON *shape = json_add_object(root, "shape");
    add_shape(shape, "q", &args->q);
    add_shape(shape, "k", &args->k);
    add_shape(shape, "v", &args->v);
    json_add_text(root, "dtype", attune_dtype_name(args->q.dtype));
    json_add_text(root, "out_dtype", attune_dtype_name(args->o.dtype));
    json_add_text(root, "device", summary->device.selector);
    json_add_text(root, "device_name", summary->device.name);
    cJSON *passes = json_add_array(root, "passes");
    for (int i = 0; i < summary->pass_count; i++) {
        add_pass(passes, &summary->pass[i]);
    }
    cJSON *outputs = json_add_object(root, "outputs");
    for (int i = 0; i < summary->outputs->count; i++) {
        add_output(outputs, &summary->outputs->item[i]);
    }
    if (summary->tells_memory) {
        memory_use_add_json(root, &summary->memory);
    }
    return json_print(root);
}
