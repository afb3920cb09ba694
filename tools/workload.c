/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include <inttypes.h>

#include "arguments.h"
#include "fill.h"
#include "inputs.h"
#include "results.h"

const void *workload_args(const struct workload *workload) {
    return workload->op == ATTUNE_OP_APPEND ? (const void *)&workload->append : &workload->attention;
}

void workload_set_check(struct workload *workload, bool check) {
    workload->attention.check = check;
    workload->append.check = check;
}

void workload_set_kernel(struct workload *workload, const char *kernel) {
    workload->attention.kernel = kernel;
    workload->append.kernel = kernel;
}

static void set_length(struct workload *workload, int64_t length) {
    struct options *options = &workload->options;
    if (length == 0) {
        return;
    }
    options->shape.keys = length;
    if (options->work == WORK_FORWARD || options->work == WORK_BACKWARD) {
        options->shape.rows = length;
    }
}

/* ---- Forward and backward ---- */

static enum tool_exit create_forward(struct workload *workload) {
    attune_attention_args *args = &workload->attention;
    enum tool_exit status = TOOL_OK;
    if (workload->options.work == WORK_DECODE && args->seqused_k.rank == 0) {
        status =
            fill_lengths(&workload->tensors, arguments_batch(args), workload->options.shape.keys, &args->seqused_k);
    }
    return status ? status : results_create_forward(&workload->options, &workload->tensors, args);
}

static enum tool_exit run_forward(struct workload *workload) {
    attune_attention_args args = workload->attention;
    args.kernel = NULL; /* it names one of backward's */
    attune_status status = attune_forward(workload->tensors.device, NULL, &args);
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

static enum tool_exit create_backward(struct workload *workload, struct random *random) {
    attune_attention_args *args = &workload->attention;
    struct tensors *tensors = &workload->tensors;
    enum tool_exit status = run_forward(workload);
    args->probs = (attune_tensor){0};
    if (!status) {
        status = tensors_create_like(tensors, &args->o, &args->dout);
    }
    if (!status) {
        status = fill_normal(tensors, &args->dout, random);
    }
    if (!status && workload->options.files[FILE_DLSE]) {
        status = tensors_create_like(tensors, &args->lse, &args->dlse);
    }
    if (!status) {
        status = fill_normal(tensors, &args->dlse, random);
    }
    return status ? status : results_create_backward(&workload->options, tensors, args);
}

/* ---- Append ---- */

static enum tool_exit load_rotary(struct workload *workload) {
    const char *const *files = workload->options.files;
    attune_kvcache_append_args *append = &workload->append;
    struct tensors *tensors = &workload->tensors;
    if (!files[FILE_COS]) {
        return TOOL_OK;
    }
    append->rotary_interleaved = workload->options.rotary_interleaved;
    append->q = workload->attention.q;
    enum tool_exit status =
        input_upload_floats(tensors, option_file_flag(FILE_COS), files[FILE_COS], &append->rotary_cos);
    if (!status) {
        status = input_upload_floats(tensors, option_file_flag(FILE_SIN), files[FILE_SIN], &append->rotary_sin);
    }
    return status ? status : tensors_create_like(tensors, &append->q, &append->q_out);
}

/* New rows: as q lies, with the cache's heads. Under an e4m3 cache the append converts them. */
static enum tool_exit create_new(struct workload *workload, const attune_tensor *cache, struct random *random,
                                 attune_tensor *out_new) {
    const struct options *options = &workload->options;
    const struct option_shape *shape = &options->shape;
    bool exchange = options->layout == LAYOUT_BHSD;
    int64_t head_dim = cache->shape[cache->rank - 1];
    attune_dtype dtype = cache->dtype == ATTUNE_DTYPE_E4M3 ? ATTUNE_DTYPE_BF16 : cache->dtype;
    int64_t extents[] = {shape->batch, shape->rows, shape->heads_kv, head_dim};
    if (exchange) {
        extents[1] = shape->heads_kv;
        extents[2] = shape->rows;
    }
    enum tool_exit status = tensors_create(&workload->tensors, dtype, 4, extents, out_new);
    if (!status && exchange) {
        *out_new = tensor_exchange_axes(*out_new);
    }
    return status ? status : fill_normal(&workload->tensors, out_new, random);
}

static enum tool_exit create_append(struct workload *workload, struct random *random) {
    const attune_attention_args *args = &workload->attention;
    const struct option_shape *shape = &workload->options.shape;
    attune_kvcache_append_args *append = &workload->append;
    if (args->cu_seqlens_q.rank > 0 || args->cu_seqlens_k.rank > 0) {
        return tool_fail(TOOL_BAD_INPUT, "--op append: a cache is not packed, without --cu-seqlens-q and -k");
    }
    if (shape->rows > shape->keys) {
        return tool_fail(TOOL_BAD_INPUT, "--op append: %" PRId64 " new rows do not fit a cache of %" PRId64,
                         shape->rows, shape->keys);
    }
    append->k_cache = args->k;
    append->v_cache = args->v;
    append->seqused_k = args->seqused_k;
    append->block_table = args->block_table;
    append->page_size = args->page_size;
    append->descale_k = args->descale_k;
    append->descale_v = args->descale_v;
    append->kernel = args->kernel;
    enum tool_exit status = create_new(workload, &args->k, random, &append->k_new);
    if (!status) {
        status = create_new(workload, &args->v, random, &append->v_new);
    }
    if (!status && !workload->options.files[FILE_SEQUSED_K]) {
        status = fill_lengths(&workload->tensors, shape->batch, shape->keys - shape->rows, &append->seqused_k);
    }
    return status ? status : load_rotary(workload);
}

/* ---- ---- */

static enum tool_exit fill_qkv(struct workload *workload, struct random *random) {
    const attune_attention_args *args = &workload->attention;
    enum tool_exit status = fill_normal(&workload->tensors, &args->q, random);
    if (!status) {
        status = fill_normal(&workload->tensors, &args->k, random);
    }
    return status ? status : fill_normal(&workload->tensors, &args->v, random);
}

enum tool_exit workload_create(const struct options *options, attune_device *device, int64_t length,
                               struct workload *out_workload) {
    struct workload *workload = out_workload;
    struct random random = {.state = 1};
    *workload = (struct workload){.options = *options, .tensors = {.device = device}, .op = options->op};
    workload->append = attune_kvcache_append_args_init();
    set_length(workload, length);
    enum tool_exit status = arguments_from_shape(&workload->options, &workload->tensors, &workload->attention);
    if (!status) {
        status = fill_qkv(workload, &random);
    }
    if (!status && workload->op == ATTUNE_OP_APPEND) {
        return create_append(workload, &random);
    }
    if (!status) {
        status = create_forward(workload);
    }
    if (!status && workload->op == ATTUNE_OP_BACKWARD) {
        status = create_backward(workload, &random);
    }
    return status;
}

void workload_release(struct workload *workload) {
    tensors_release(&workload->tensors);
}
