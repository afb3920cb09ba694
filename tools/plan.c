/*
 * attune plan: what would be done for a problem, and why.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "append.h"
#include "arguments.h"
#include "backend.h"
#include "block_list.h"
#include "commands.h"
#include "json.h"
#include "results.h"

static const char usage[] = "attune plan - what would be done for a problem, and why\n"
                            "\n"
                            "Usage: attune plan --shape B,Sq,Sk,Hq,Hkv,D[,Dv] [flags]\n"
                            "\n"
                            "Prints the kernel row, tiles, splits, work and roofline that 'attune run' would\n"
                            "have with the same flags, and for each row that was refused its reason. Nothing\n"
                            "is computed and no file is written: the flags of outputs and of --do and --dlse\n"
                            "only say that they are wanted. The other files are read for their shapes, those\n"
                            "of cu_seqlens for the packed lengths too. If every row is refused, the exit\n"
                            "status is 3.\n";

static const char examples[] = "\n"
                               "Examples:\n"
                               "  attune plan --shape 2,1024,1024,16,4,128 --causal --dtype bf16\n"
                               "  attune plan --shape 2,1024,1024,16,4,128 --op bwd --json\n";

struct plan {
    struct options options;
    struct tensors tensors;
    attune_op op;
    attune_attention_args args;
    attune_explanation explanation;
    struct block_list block_list;
};

/* ---- The problem ---- */

static enum tool_exit plan_backward(struct plan *plan) {
    attune_attention_args *args = &plan->args;
    args->probs = (attune_tensor){0};
    args->dout = args->o;
    if (plan->options.files[FILE_DLSE]) {
        args->dlse = args->lse;
    }
    return results_create_backward(&plan->options, &plan->tensors, args);
}

static enum tool_exit plan_problem(struct plan *plan) {
    struct options *options = &plan->options;
    if (options->op == 0) {
        options->op = options->files[FILE_DO] ? ATTUNE_OP_BACKWARD : ATTUNE_OP_FORWARD;
    }
    plan->op = options->op;
    plan->tensors.shapes_only = true;
    enum tool_exit status = arguments_from_shape(options, &plan->tensors, &plan->args);
    if (!status) {
        status = append_new(options, &plan->tensors, &plan->args);
    }
    if (!status) {
        status = results_create_forward(options, &plan->tensors, &plan->args);
    }
    if (!status && plan->op == ATTUNE_OP_BACKWARD) {
        status = plan_backward(plan);
    }
    return status;
}

/* The caller frees refusals. */
static enum tool_exit explain(struct plan *plan) {
    int32_t rows;
    attune_explanation *explanation = &plan->explanation;
    attune_status status = attune_device_count_kernels(plan->tensors.device, &rows);
    if (status != ATTUNE_OK) {
        return tool_fail_library(status);
    }
    *explanation = attune_explanation_init();
    explanation->refusals = calloc(rows > 0 ? (size_t)rows : 1, sizeof *explanation->refusals);
    if (!explanation->refusals) {
        return tool_fail_memory();
    }
    explanation->refusal_capacity = rows;
    status = attune_explain(plan->tensors.device, plan->op, &plan->args, explanation);
    return status == ATTUNE_OK ? block_list_describe(&plan->options, &plan->block_list) : tool_fail_library(status);
}

/* ---- What it prints ---- */

static enum tool_exit print_text(const attune_explanation *explanation, const struct block_list *list) {
    size_t length;
    attune_status status = attune_explanation_format(explanation, NULL, 0, &length);
    if (status != ATTUNE_OK) {
        return tool_fail_library(status);
    }
    char *text = malloc(length + 1);
    if (!text) {
        return tool_fail_memory();
    }
    status = attune_explanation_format(explanation, text, length + 1, &length);
    if (status == ATTUNE_OK) {
        printf("%s%s", text, length > 0 && text[length - 1] == '\n' ? "" : "\n");
    }
    free(text);
    if (status == ATTUNE_OK && list->given) {
        printf("%-11s %" PRId64 " of %" PRId64 " computed, %.4g%% of dense attention\n", "blocks", list->blocks,
               list->blocks_dense, 100 * list->share);
    }
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

static void add_block_list(cJSON *root, const struct block_list *list) {
    cJSON *blocks = json_add_object(root, "block_list");
    json_add_number(blocks, "blocks", (double)list->blocks);
    json_add_number(blocks, "blocks_dense", (double)list->blocks_dense);
    json_add_number(blocks, "share", list->share);
}

static void add_refusals(cJSON *root, const attune_explanation *explanation) {
    cJSON *refusals = json_add_array(root, "refusals");
    for (int32_t i = 0; i < explanation->refusal_count && i < explanation->refusal_capacity; i++) {
        cJSON *refusal = json_add_object(refusals, NULL);
        json_add_text(refusal, "kernel", explanation->refusals[i].kernel);
        json_add_text(refusal, "reason", explanation->refusals[i].reason);
    }
}

static enum tool_exit print_json(attune_op op, const attune_explanation *explanation, const struct block_list *list) {
    cJSON *root = json_root();
    json_add_text(root, "op", op == ATTUNE_OP_FORWARD ? "fwd" : "bwd");
    json_add_text(root, "problem", explanation->problem);
    json_add_text(root, "status", attune_status_name(explanation->status));
    json_add_text(root, "kernel", explanation->kernel[0] ? explanation->kernel : NULL);
    json_add_text(root, "device", explanation->device);
    json_add_number(root, "tile_rows", explanation->tile_rows);
    json_add_number(root, "tile_keys", explanation->tile_keys);
    json_add_bool(root, "tile_is_tuned", explanation->tile_is_tuned);
    json_add_number(root, "splits", explanation->splits);
    json_add_number(root, "pack", explanation->pack);
    cJSON *grid = json_add_array(root, "grid");
    for (int axis = 0; axis < 3; axis++) {
        json_add_number(grid, NULL, (double)explanation->grid[axis]);
    }
    json_add_number(root, "alignment_bytes", explanation->alignment_bytes);
    json_add_number(root, "workspace_bytes", (double)explanation->workspace_bytes);
    json_add_number(root, "tensor_bytes", (double)explanation->tensor_bytes);
    json_add_number(root, "visible_pairs", explanation->visible_pairs);
    json_add_bool(root, "pairs_are_bound", explanation->pairs_are_bound);
    json_add_number(root, "flops", explanation->flops);
    json_add_number(root, "bytes", explanation->bytes);
    json_add_number(root, "intensity", explanation->intensity);
    json_add_number(root, "seconds_at_peak", explanation->seconds_at_peak);
    json_add_bool(root, "compute_bound", explanation->compute_bound);
    if (list->given) {
        add_block_list(root, list);
    }
    add_refusals(root, explanation);
    return json_print(root);
}

static enum tool_exit execute(struct plan *plan) {
    enum tool_exit status = backend_open(plan->options.backend, &plan->tensors.device);
    if (!status) {
        status = plan_problem(plan);
    }
    if (!status) {
        status = explain(plan);
    }
    if (!status) {
        status = plan->options.json ? print_json(plan->op, &plan->explanation, &plan->block_list)
                                    : print_text(&plan->explanation, &plan->block_list);
    }
    if (!status && plan->explanation.status != ATTUNE_OK) {
        status = tool_fail(TOOL_UNSUPPORTED, "no kernel row of %s computes this problem", plan->explanation.device);
    }
    return status;
}

int attune_tool_plan(int argc, char **argv) {
    struct plan plan = {0};
    enum tool_exit status = options_parse(COMMAND_PLAN, argc, argv, &plan.options);
    if (!status && plan.options.help) {
        options_print_help(COMMAND_PLAN, usage, examples);
    } else if (!status) {
        status = execute(&plan);
    }
    free(plan.explanation.refusals);
    tensors_release(&plan.tensors);
    attune_device_close(plan.tensors.device);
    options_release(&plan.options);
    return status;
}
