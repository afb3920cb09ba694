/*
 * attune-demo: attention of a real transformer on real text, held against what the framework gave.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>

#include "attune/attune.h"
#include "backend.h"
#include "inputs.h"
#include "timing.h"

/* What f32 leaves of exact attention over a few dozen keys, with room for the framework's own rounding. */
#define ERROR_LIMIT 2e-6

enum { RUNS = 20, PATH_BYTES = 4096 };

static const char *const layer_names[] = {"layer0", "layer5"};

struct layer {
    const char *folder;
    const char *name;
    struct tensors tensors;
    attune_forward_args args;
    struct array expected;
    struct timing timing;
    double error;
    char kernel[ATTUNE_NAME_MAX];
};

/* ---- Reading ---- */

static enum tool_exit spell(const struct layer *layer, const char *tensor, char out_spec[PATH_BYTES]) {
    int length = snprintf(out_spec, PATH_BYTES, "%s/%s.safetensors:%s", layer->folder, layer->name, tensor);
    if (length < PATH_BYTES) {
        return TOOL_OK;
    }
    return tool_fail(TOOL_BAD_INPUT, "%s: the path has more than %d bytes", layer->folder, PATH_BYTES - 1);
}

static enum tool_exit load_floats(struct layer *layer, const char *name, attune_tensor *out_tensor) {
    char spec[PATH_BYTES];
    enum tool_exit status = spell(layer, name, spec);
    return status ? status : input_upload_floats(&layer->tensors, name, spec, out_tensor);
}

static enum tool_exit load(struct layer *layer) {
    char spec[PATH_BYTES];
    enum tool_exit status = load_floats(layer, "q", &layer->args.q);
    if (!status) {
        status = load_floats(layer, "k", &layer->args.k);
    }
    if (!status) {
        status = load_floats(layer, "v", &layer->args.v);
    }
    if (!status) {
        status = spell(layer, "lengths", spec);
    }
    if (!status) {
        status = input_upload_integers(&layer->tensors, "lengths", spec, &layer->args.seqused_k);
    }
    if (!status) {
        status = spell(layer, "out", spec);
    }
    return status ? status : input_read_floats("out", spec, &layer->expected);
}

/* ---- Running ---- */

static attune_status forward_once(void *context, int64_t run) {
    (void)run;
    struct layer *layer = context;
    attune_status status = attune_forward(layer->tensors.device, NULL, &layer->args);
    return status == ATTUNE_OK ? attune_stream_synchronize(layer->tensors.device, NULL) : status;
}

static enum tool_exit name_kernel(struct layer *layer) {
    attune_explanation explanation = attune_explanation_init();
    attune_status status = attune_explain(layer->tensors.device, ATTUNE_OP_FORWARD, &layer->args, &explanation);
    if (status != ATTUNE_OK) {
        return tool_fail_library(status);
    }
    snprintf(layer->kernel, sizeof layer->kernel, "%s", explanation.kernel);
    return TOOL_OK;
}

/* Frobenius, over all rows: the padded ones too attend to the keys that exist. */
static double relative_error(const struct array *got, const struct array *expected) {
    const float *x = got->data;
    const float *g = expected->data;
    double difference = 0;
    double norm = 0;
    for (int64_t i = 0; i < expected->count; i++) {
        difference += ((double)x[i] - g[i]) * ((double)x[i] - g[i]);
        norm += (double)g[i] * g[i];
    }
    return sqrt(difference / norm);
}

static enum tool_exit measure_error(struct layer *layer) {
    struct array got;
    enum tool_exit status = tensors_download(&layer->tensors, &layer->args.o, &got);
    if (status) {
        return status;
    }
    if (layer->expected.type != ARRAY_F32 || layer->expected.count != got.count) {
        status = tool_fail(TOOL_BAD_INPUT, "%s: out must be f32 and shaped as q", layer->name);
    } else {
        layer->error = relative_error(&got, &layer->expected);
    }
    array_release(&got);
    return status;
}

static enum tool_exit compute(struct layer *layer) {
    layer->args.check = true;
    enum tool_exit status = load(layer);
    if (!status) {
        status =
            tensors_create(&layer->tensors, ATTUNE_DTYPE_F32, layer->args.q.rank, layer->args.q.shape, &layer->args.o);
    }
    if (!status) {
        status = timing_measure(forward_once, layer, RUNS, &layer->timing);
    }
    if (!status) {
        status = name_kernel(layer);
    }
    return status ? status : measure_error(layer);
}

/* ---- Telling ---- */

static void print_layer(const struct layer *layer, const char *device) {
    const int64_t *shape = layer->args.q.shape;
    char text[64];
    snprintf(text, sizeof text, "%lld x %lld x %lld x %lld", (long long)shape[0], (long long)shape[1],
             (long long)shape[2], (long long)shape[3]);
    printf("%-8s %-18s %-24s %-10s %9.3f ms   %.1e  %s\n", layer->name, text, layer->kernel, device,
           1e3 * layer->timing.fastest_seconds, layer->error, layer->error <= ERROR_LIMIT ? "ok" : "TOO LARGE");
}

static enum tool_exit run_layer(attune_device *device, const char *selector, const char *folder, const char *name) {
    struct layer layer = {
        .folder = folder, .name = name, .tensors = {.device = device}, .args = attune_forward_args_init()};
    enum tool_exit status = compute(&layer);
    if (!status) {
        print_layer(&layer, selector);
    }
    if (!status && !(layer.error <= ERROR_LIMIT)) { /* NaN is an error too */
        status = tool_fail(TOOL_FAILED, "%s: the relative error is %.1e: at most %.1e is right", name, layer.error,
                           ERROR_LIMIT);
    }
    array_release(&layer.expected);
    tensors_release(&layer.tensors);
    return status;
}

static enum tool_exit run_all(attune_device *device, const char *folder) {
    attune_device_info info = {.struct_size = sizeof info};
    attune_status got = attune_device_get_info(device, &info);
    if (got != ATTUNE_OK) {
        return tool_fail_library(got);
    }
    printf("MiniLM-L6 on English text, against the framework's own attention (f32; the best of %d runs)\n\n", RUNS);
    printf("%-8s %-18s %-24s %-10s %12s   %s\n", "LAYER", "B x S x H x D", "KERNEL", "DEVICE", "TIME", "ERROR");
    enum tool_exit status = TOOL_OK;
    for (size_t i = 0; i < sizeof layer_names / sizeof layer_names[0]; i++) {
        enum tool_exit layer_status = run_layer(device, info.selector, folder, layer_names[i]);
        status = status ? status : layer_status;
    }
    return status;
}

int main(int argc, char **argv) {
    tool_set_command("demo");
    if (argc > 2) {
        return tool_fail(TOOL_BAD_INPUT, "%s: the only argument is the folder of the data", argv[2]);
    }
    attune_device *device = NULL;
    enum tool_exit status = backend_open(NULL, &device);
    if (!status) {
        status = run_all(device, argc > 1 ? argv[1] : "tests/data/minilm");
    }
    attune_device_close(device);
    enum tool_exit flushed = tool_flush();
    return status ? status : flushed;
}
