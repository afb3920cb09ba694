/*
 * attune run: attention on tensors in files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "append.h"
#include "arguments.h"
#include "backend.h"
#include "commands.h"
#include "progress.h"
#include "results.h"
#include "summary.h"

static const char usage[] = "attune run - exact attention, forward and backward, on tensors in files\n"
                            "\n"
                            "Usage: attune run --q FILE --k FILE --v FILE [-o FILE] [flags]\n"
                            "\n"
                            "Computes o = softmax(scale q k^T + ...) v and writes what is asked for. Row i of\n"
                            "head h attends to keys of head h / (Hq / Hkv). Without -o it prints a summary:\n"
                            "shapes, device, kernels, times, and a checksum (FNV-1a, 64 bits) of each output.\n"
                            "\n"
                            "A FILE that is read is .npy (C or Fortran order; floats f16, f32 or f64;\n"
                            "integers int32 or int64; masks u8 or bool), or FILE.safetensors:NAME, which has\n"
                            "bf16 and e4m3 too. A FILE that is written is .npy: f16 as f2, all else widened\n"
                            "to f4; rows that no sequence owns hold 0. Lengths, cu_seqlens and those\n"
                            "entries of a block table that will be read are always checked.\n"
                            "\n"
                            "A flag takes the next word as its value, even if that starts with '-'. No flag\n"
                            "may be abbreviated, or given twice.\n";

static const char examples[] = "\n"
                               "Examples:\n"
                               "  attune run --q q.npy --k k.npy --v v.npy --causal -o o.npy --lse lse.npy\n"
                               "  attune run --q a.safetensors:q --k a.safetensors:k --v a.safetensors:v \\\n"
                               "      --seqused-k a.safetensors:lengths --dtype bf16 --repeat 10\n"
                               "  attune run --q q.npy --k k.npy --v v.npy --do do.npy --dq dq.npy --dk dk.npy\n";

struct run {
    struct options options;
    int64_t repeat;
    struct tensors tensors;
    attune_attention_args forward;
    attune_attention_args backward; /* everything of forward, and the gradients */
    struct outputs outputs;
    struct timing forward_timing;
    struct timing backward_timing;
};

/* ---- The passes ---- */

/* The first run is checked; the others would be timed with what is no part of a pass. */
static bool is_checked(const struct run *run, int64_t index) {
    return index == 0 || run->options.check;
}

static attune_status forward_once(void *context, int64_t index) {
    struct run *run = context;
    run->forward.check = is_checked(run, index);
    attune_status status = attune_forward(run->tensors.device, NULL, &run->forward);
    return status == ATTUNE_OK ? attune_stream_synchronize(run->tensors.device, NULL) : status;
}

static attune_status backward_once(void *context, int64_t index) {
    struct run *run = context;
    run->backward.check = is_checked(run, index);
    attune_status status = attune_backward(run->tensors.device, NULL, &run->backward);
    return status == ATTUNE_OK ? attune_stream_synchronize(run->tensors.device, NULL) : status;
}

static enum tool_exit run_forward(struct run *run) {
    progress_stage("forward");
    enum tool_exit status = results_create_forward(&run->options, &run->tensors, &run->forward);
    if (!status) {
        status = timing_measure(forward_once, run, run->repeat, &run->forward_timing);
    }
    run->backward = run->forward;
    return status;
}

static enum tool_exit run_backward(struct run *run) {
    if (!run->options.files[FILE_DO]) {
        return TOOL_OK;
    }
    progress_stage("backward");
    run->backward.probs = (attune_tensor){0}; /* forward's alone */
    enum tool_exit status = arguments_load_gradients(&run->options, &run->tensors, &run->backward);
    if (!status) {
        status = results_create_backward(&run->options, &run->tensors, &run->backward);
    }
    if (!status) {
        status = timing_measure(backward_once, run, run->repeat, &run->backward_timing);
    }
    return status;
}

/* ---- What comes of them ---- */

static enum tool_exit print_summary(struct run *run) {
    struct summary summary = {.outputs = &run->outputs, .tells_memory = run->options.memory};
    summary.pass[summary.pass_count++] =
        (struct summary_pass){.op = ATTUNE_OP_FORWARD, .args = &run->forward, .timing = run->forward_timing};
    if (run->backward_timing.runs > 0) {
        summary.pass[summary.pass_count++] =
            (struct summary_pass){.op = ATTUNE_OP_BACKWARD, .args = &run->backward, .timing = run->backward_timing};
    }
    enum tool_exit status = summary_complete(run->tensors.device, &summary);
    if (status) {
        return status;
    }
    return run->options.json ? summary_print_json(&summary) : summary_print(&summary);
}

static enum tool_exit finish(struct run *run) {
    progress_stage("writing");
    attune_attention_args all = run->backward;
    all.probs = run->forward.probs;
    enum tool_exit status = results_collect(&run->options, &run->tensors, &all, &run->outputs);
    if (!status && (run->options.json || run->options.memory || !run->options.files[FILE_O])) {
        status = print_summary(run);
    }
    if (!status) {
        status = tool_flush();
    }
    return status ? status : outputs_commit(&run->outputs);
}

static enum tool_exit execute(struct run *run) {
    run->repeat = run->options.repeat > 0 ? run->options.repeat : 1;
    progress_stage("opening the device");
    enum tool_exit status = backend_open(run->options.backend, &run->tensors.device);
    if (status) {
        return status;
    }
    progress_stage("reading");
    status = arguments_from_files(&run->options, &run->tensors, &run->forward);
    if (!status) {
        status = append_new(&run->options, &run->tensors, &run->forward);
    }
    if (!status) {
        status = run_forward(run);
    }
    if (!status) {
        status = run_backward(run);
    }
    return status ? status : finish(run);
}

int attune_tool_run(int argc, char **argv) {
    struct run run = {0};
    enum tool_exit status = options_parse(COMMAND_RUN, argc, argv, &run.options);
    if (!status && run.options.help) {
        options_print_help(COMMAND_RUN, usage, examples);
    } else if (!status) {
        progress_start();
        status = execute(&run);
        progress_stop();
    }
    outputs_release(&run.outputs);
    tensors_release(&run.tensors);
    attune_device_close(run.tensors.device);
    options_release(&run.options);
    return status;
}
