/*
 * attune merge: one state (o, lse) from those of parts of the keys.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* strdup */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/attention.h"
#include "backend.h"
#include "commands.h"
#include "convert.h"
#include "inputs.h"
#include "options.h"
#include "outputs.h"

static const char usage[] = "attune merge - one attention state from those of parts of the keys\n"
                            "\n"
                            "Usage: attune merge --o A,B,... --lse A,B,... -o FILE [--lse-out FILE]\n"
                            "\n"
                            "Each part is the o and lse that 'attune run' wrote for the same rows and some of\n"
                            "the keys; parts share no key. Writes lse = log(sum exp(lse_n)) and o = sum o_n\n"
                            "exp(lse_n - lse), both f32, the parts taken in the order given. Exactly one part\n"
                            "of a split problem is given the sink.\n";

struct path_list {
    char *text; /* from malloc: the paths, each ended by 0 */
    const char *path[ATTUNE_MERGE_PARTS_MAX];
    int count;
};

struct merge_options {
    bool help;
    struct path_list o;
    struct path_list lse;
    const char *o_out;
    const char *lse_out;
    const char *backend;
    const char *kernel;
    enum option_layout layout;
};

static enum tool_exit set_paths(const struct flag *flag, const char *text, void *out_field) {
    struct path_list *field = out_field;
    field->text = strdup(text);
    if (!field->text) {
        return tool_fail_memory();
    }
    for (char *next = field->text; next;) {
        char *path = next;
        next = strchr(path, ',');
        if (next) {
            *next++ = '\0';
        }
        if (!*path) {
            return flag_refuse(flag, text, "a name in the list is empty");
        }
        if (field->count == ATTUNE_MERGE_PARTS_MAX) {
            return flag_refuse(flag, text, "there are at most 128 parts");
        }
        field->path[field->count++] = path;
    }
    return TOOL_OK;
}

#define ROW(name, argument, setter, member, help)                                                                      \
    { name, argument, setter, offsetof(struct merge_options, member), 0, 0, 1, "Flags", help }
static const struct flag flags[] = {
    ROW("--o", "A,B,...", set_paths, o,
        "the parts' o: (B, S, Hq, Dv), or (total, Hq, Dv); f32, f16 or bf16, all alike"),
    ROW("--lse", "A,B,...", set_paths, lse, "the parts' lse, in the same order: (B, Hq, S), or (Hq, total)"),
    ROW("-o", "FILE", flag_set_text, o_out, "write the merged o; f32"),
    ROW("--lse-out", "FILE", flag_set_text, lse_out, "write the merged lse; f32"),
    ROW("--layout", "bshd|bhsd", option_set_layout, layout, "the axes of the four-axis o files; default bshd"),
    ROW("--backend", BACKEND_ARGUMENT, flag_set_text, backend, BACKEND_HELP),
    ROW("--kernel", "ROW", flag_set_text, kernel, "this kernel row and no other"),
    ROW("--help", NULL, flag_set_switch, help, "print this text"),
};

static const struct flag_table table = {flags, sizeof flags / sizeof flags[0], 1};

static enum tool_exit check(const struct merge_options *options) {
    if (options->o.count == 0 || options->lse.count == 0 || !options->o_out) {
        return tool_fail(TOOL_BAD_INPUT, "--o, --lse and -o: all are needed");
    }
    if (options->o.count != options->lse.count) {
        return tool_fail(TOOL_BAD_INPUT, "--o names %d files and --lse %d: each part has one of both", options->o.count,
                         options->lse.count);
    }
    if (options->lse_out && strcmp(options->lse_out, options->o_out) == 0) {
        return tool_fail(TOOL_BAD_INPUT, "-o and --lse-out both name %s: each output needs a file of its own",
                         options->o_out);
    }
    return TOOL_OK;
}

/* ---- The merge ---- */

struct merge {
    struct merge_options options;
    struct tensors tensors;
    attune_tensor part_o[ATTUNE_MERGE_PARTS_MAX];
    attune_tensor part_lse[ATTUNE_MERGE_PARTS_MAX];
    attune_merge_args args;
    struct outputs outputs;
};

static bool is_exchanged(const struct merge *merge, const attune_tensor *o) {
    return merge->options.layout == LAYOUT_BHSD && o->rank == 4;
}

static enum tool_exit load_o(struct merge *merge, int part) {
    struct array array;
    attune_tensor *tensor = &merge->part_o[part];
    enum tool_exit status = input_read_floats("--o", merge->options.o.path[part], &array);
    if (status) {
        return status;
    }
    status = tensors_upload(&merge->tensors, "--o", &array, array_type_to_dtype(array.type), tensor);
    if (!status && is_exchanged(merge, tensor)) {
        *tensor = tensor_exchange_axes(*tensor);
    }
    array_release(&array);
    return status;
}

/* The rest is the library's to say; but it takes o's rank from us. */
static enum tool_exit check_part(const struct merge *merge, int part) {
    const attune_tensor *o = &merge->part_o[part];
    const attune_tensor *lse = &merge->part_lse[part];
    if ((o->rank == 3 || o->rank == 4) && lse->rank == o->rank - 1) {
        return TOOL_OK;
    }
    return tool_fail(TOOL_BAD_INPUT,
                     "--o %s has %d axes and --lse %s %d: four and three are needed, or three and two where packed",
                     merge->options.o.path[part], o->rank, merge->options.lse.path[part], lse->rank);
}

static enum tool_exit load_parts(struct merge *merge) {
    enum tool_exit status = TOOL_OK;
    for (int part = 0; !status && part < merge->options.o.count; part++) {
        status = load_o(merge, part);
        if (!status) {
            status =
                input_upload_floats(&merge->tensors, "--lse", merge->options.lse.path[part], &merge->part_lse[part]);
        }
        if (!status) {
            status = check_part(merge, part);
        }
    }
    return status;
}

static enum tool_exit create_outputs(struct merge *merge) {
    attune_tensor o = merge->part_o[0];
    attune_tensor lse = merge->part_lse[0];
    bool exchange = is_exchanged(merge, &o);
    if (exchange) {
        o = tensor_exchange_axes(o);
    }
    enum tool_exit status = tensors_create(&merge->tensors, ATTUNE_DTYPE_F32, o.rank, o.shape, &merge->args.o);
    if (!status && exchange) {
        merge->args.o = tensor_exchange_axes(merge->args.o);
    }
    if (!status) {
        status = tensors_create(&merge->tensors, ATTUNE_DTYPE_F32, lse.rank, lse.shape, &merge->args.lse);
    }
    return status;
}

static enum tool_exit compute(struct merge *merge) {
    merge->args.parts = merge->options.o.count;
    merge->args.part_o = merge->part_o;
    merge->args.part_lse = merge->part_lse;
    merge->args.kernel = merge->options.kernel;
    attune_status status = attune_merge(merge->tensors.device, NULL, &merge->args);
    if (status == ATTUNE_OK) {
        status = attune_stream_synchronize(merge->tensors.device, NULL);
    }
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

static enum tool_exit add_output(struct merge *merge, const char *flag, const char *path, attune_tensor tensor) {
    if (!path) {
        return TOOL_OK;
    }
    if (is_exchanged(merge, &tensor)) {
        tensor = tensor_exchange_axes(tensor);
    }
    return outputs_add(&merge->outputs, &merge->tensors, flag, path, &tensor);
}

static enum tool_exit execute(struct merge *merge) {
    enum tool_exit status = backend_open(merge->options.backend, &merge->tensors.device);
    if (!status) {
        status = load_parts(merge);
    }
    if (!status) {
        status = create_outputs(merge);
    }
    if (!status) {
        status = compute(merge);
    }
    if (!status) {
        status = add_output(merge, "-o", merge->options.o_out, merge->args.o);
    }
    if (!status) {
        status = add_output(merge, "--lse-out", merge->options.lse_out, merge->args.lse);
    }
    return status ? status : outputs_commit(&merge->outputs);
}

int attune_tool_merge(int argc, char **argv) {
    struct merge merge = {.args = attune_merge_args_init()};
    enum tool_exit status = flags_parse(&table, argc, argv, &merge.options);
    if (!status && merge.options.help) {
        flags_print_help(usage, &table, "");
    } else if (!status) {
        status = check(&merge.options);
        if (!status) {
            status = execute(&merge);
        }
    }
    outputs_release(&merge.outputs);
    tensors_release(&merge.tensors);
    attune_device_close(merge.tensors.device);
    free(merge.options.lse.text);
    free(merge.options.o.text);
    return status;
}
