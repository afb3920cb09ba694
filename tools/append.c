/* SPDX-License-Identifier: Apache-2.0 */
#include "append.h"

#include <inttypes.h>
#include <stdlib.h>

#include "arguments.h"
#include "attune/kvcache.h"
#include "inputs.h"

/* The file of --seqused-k, or B zeros. */
static enum tool_exit read_lengths(const struct options *options, int64_t batch, struct array *out_lengths) {
    if (options->files[FILE_SEQUSED_K]) {
        return input_read_integers(option_file_flag(FILE_SEQUSED_K), options->files[FILE_SEQUSED_K], out_lengths);
    }
    struct array lengths = {.type = ARRAY_I32, .rank = 1, .shape = {batch}};
    if (!array_measure(&lengths)) {
        return tool_fail_memory();
    }
    lengths.data = calloc(batch > 0 ? (size_t)batch : 1, sizeof(int32_t));
    if (!lengths.data) {
        return tool_fail_memory();
    }
    *out_lengths = lengths;
    return TOOL_OK;
}

static enum tool_exit advance(struct array *lengths, int64_t rows) {
    int32_t *length = lengths->data;
    for (int64_t b = 0; b < lengths->count; b++) {
        if (rows > INT32_MAX - (int64_t)length[b]) {
            return tool_fail(TOOL_BAD_INPUT,
                             "--seqused-k: entry %" PRId64 " is %" PRId32 " and grows by %" PRId64
                             ": it must fit in 32 bits",
                             b, length[b], rows);
        }
        length[b] += (int32_t)rows;
    }
    return TOOL_OK;
}

static enum tool_exit load(const struct options *options, struct tensors *tensors, const attune_attention_args *args,
                           attune_kvcache_append_args *append) {
    enum tool_exit status = arguments_load_new(options, tensors, FILE_KNEW, args->k.dtype, &append->k_new);
    if (!status) {
        status = arguments_load_new(options, tensors, FILE_VNEW, args->k.dtype, &append->v_new);
    }
    if (status || !options->files[FILE_COS]) {
        return status;
    }
    append->q = append->q_out = args->q;
    status = input_upload_floats(tensors, option_file_flag(FILE_COS), options->files[FILE_COS], &append->rotary_cos);
    if (!status) {
        status =
            input_upload_floats(tensors, option_file_flag(FILE_SIN), options->files[FILE_SIN], &append->rotary_sin);
    }
    return status;
}

static enum tool_exit execute(const struct options *options, struct tensors *tensors, const attune_attention_args *args,
                              attune_kvcache_append_args *append) {
    append->k_cache = args->k;
    append->v_cache = args->v;
    append->seqused_k = args->seqused_k;
    append->block_table = args->block_table;
    append->page_size = args->page_size;
    append->descale_k = args->descale_k;
    append->descale_v = args->descale_v;
    append->rotary_interleaved = options->rotary_interleaved;
    append->check = true;
    attune_status status = attune_kvcache_append(tensors->device, NULL, append);
    if (status == ATTUNE_OK) {
        status = attune_stream_synchronize(tensors->device, NULL);
    }
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

static enum tool_exit append_at(const struct options *options, struct tensors *tensors, struct array *lengths,
                                attune_attention_args *args) {
    const char *flag = option_file_flag(FILE_SEQUSED_K);
    attune_kvcache_append_args append = attune_kvcache_append_args_init();
    enum tool_exit status = load(options, tensors, args, &append);
    if (!status) {
        status = tensors_upload(tensors, flag, lengths, ATTUNE_DTYPE_I32, &args->seqused_k);
    }
    if (!status && !tensors->shapes_only) {
        status = execute(options, tensors, args, &append);
    }
    if (!status) {
        status = advance(lengths, append.k_new.shape[1]);
    }
    return status ? status : tensors_upload(tensors, flag, lengths, ATTUNE_DTYPE_I32, &args->seqused_k);
}

enum tool_exit append_new(const struct options *options, struct tensors *tensors, attune_attention_args *args) {
    if (!options->files[FILE_KNEW]) {
        return TOOL_OK;
    }
    struct array lengths;
    enum tool_exit status = read_lengths(options, arguments_batch(args), &lengths);
    if (status) {
        return status;
    }
    status = append_at(options, tensors, &lengths, args);
    array_release(&lengths);
    return status;
}
