/* SPDX-License-Identifier: Apache-2.0 */
#include "results.h"

#include "arguments.h"

/* ---- Tensors ---- */

static attune_dtype output_dtype(const struct options *options, attune_dtype q) {
    if (options->out_dtype != ATTUNE_DTYPE_NONE) {
        return options->out_dtype;
    }
    return q == ATTUNE_DTYPE_E4M3 ? ATTUNE_DTYPE_BF16 : q;
}

/* A tensor that lies in its file as model does, with another last extent. */
static enum tool_exit create_like(struct tensors *tensors, const attune_tensor *model, int64_t last_extent,
                                  attune_dtype dtype, bool exchange, attune_tensor *out_tensor) {
    attune_tensor file = exchange ? tensor_exchange_axes(*model) : *model;
    file.shape[file.rank - 1] = last_extent;
    enum tool_exit status = tensors_create(tensors, dtype, file.rank, file.shape, out_tensor);
    if (!status && exchange) {
        *out_tensor = tensor_exchange_axes(*out_tensor);
    }
    return status;
}

static enum tool_exit create_lse(struct tensors *tensors, attune_attention_args *args) {
    const int64_t *q = args->q.shape;
    if (args->q.rank == 3) {
        return tensors_create(tensors, ATTUNE_DTYPE_F32, 2, (int64_t[]){q[1], q[0]}, &args->lse);
    }
    return tensors_create(tensors, ATTUNE_DTYPE_F32, 3, (int64_t[]){q[0], q[2], q[1]}, &args->lse);
}

static int64_t longest(const attune_tensor *tensor, bool is_packed, int64_t max_seqlen) {
    if (!is_packed) {
        return tensor->shape[1];
    }
    return max_seqlen > 0 ? max_seqlen : tensor->shape[0];
}

static enum tool_exit create_probs(struct tensors *tensors, attune_attention_args *args) {
    bool is_paged = args->block_table.rank == 2;
    int64_t keys = longest(&args->k, args->k.rank == 3, args->max_seqlen_k);
    if (is_paged && args->page_size > 0 && args->block_table.shape[1] > INT64_MAX / args->page_size) {
        return tool_fail(TOOL_BAD_INPUT, "--page-size: columns * page_size overflows");
    }
    if (is_paged) {
        keys = args->block_table.shape[1] * args->page_size;
    }
    int64_t rows = longest(&args->q, args->q.rank == 3, args->max_seqlen_q);
    int64_t heads = args->q.shape[args->q.rank - 2];
    int64_t shape[] = {arguments_batch(args), heads, rows, keys};
    return tensors_create(tensors, ATTUNE_DTYPE_F32, 4, shape, &args->probs);
}

enum tool_exit results_create_forward(const struct options *options, struct tensors *tensors,
                                      attune_attention_args *args) {
    int64_t head_dim_v = args->v.shape[args->v.rank - 1];
    enum tool_exit status = create_like(tensors, &args->q, head_dim_v, output_dtype(options, args->q.dtype),
                                        arguments_exchange_q(options), &args->o);
    bool is_backward = options->files[FILE_DO] || options->op == ATTUNE_OP_BACKWARD;
    if (!status && (options->files[FILE_LSE] || is_backward)) {
        status = create_lse(tensors, args);
    }
    if (!status && options->files[FILE_PROBS]) {
        status = create_probs(tensors, args);
    }
    return status;
}

enum tool_exit results_create_backward(const struct options *options, struct tensors *tensors,
                                       attune_attention_args *args) {
    const char *const *files = options->files;
    bool all = !files[FILE_DQ] && !files[FILE_DK] && !files[FILE_DV] && !files[FILE_DBIAS] && !files[FILE_DSINK];
    attune_dtype dtype = output_dtype(options, args->q.dtype);
    bool exchange_k = arguments_exchange_k(options);
    int64_t head_dim = args->q.shape[args->q.rank - 1];
    enum tool_exit status = TOOL_OK;
    if (all || files[FILE_DQ]) {
        status = create_like(tensors, &args->q, head_dim, dtype, arguments_exchange_q(options), &args->dq);
    }
    if (!status && (all || files[FILE_DK])) {
        status = create_like(tensors, &args->k, args->k.shape[args->k.rank - 1], dtype, exchange_k, &args->dk);
    }
    if (!status && (all || files[FILE_DV])) {
        status = create_like(tensors, &args->v, args->v.shape[args->v.rank - 1], dtype, exchange_k, &args->dv);
    }
    if (!status && files[FILE_DBIAS]) {
        status = tensors_create(tensors, ATTUNE_DTYPE_F32, args->bias.rank, args->bias.shape, &args->dbias);
    }
    if (!status && files[FILE_DSINK]) {
        status = tensors_create(tensors, ATTUNE_DTYPE_F32, 1, &args->q.shape[args->q.rank - 2], &args->dsink);
    }
    return status;
}

/* ---- Files ---- */

enum side { SIDE_Q, SIDE_K, SIDE_NONE }; /* whose axes the file has */

static const struct {
    enum option_file file;
    size_t member; /* of attune_attention_args */
    enum side side;
} rows[] = {
    {FILE_O, offsetof(attune_attention_args, o), SIDE_Q},
    {FILE_LSE, offsetof(attune_attention_args, lse), SIDE_NONE},
    {FILE_PROBS, offsetof(attune_attention_args, probs), SIDE_NONE},
    {FILE_DQ, offsetof(attune_attention_args, dq), SIDE_Q},
    {FILE_DK, offsetof(attune_attention_args, dk), SIDE_K},
    {FILE_DV, offsetof(attune_attention_args, dv), SIDE_K},
    {FILE_DBIAS, offsetof(attune_attention_args, dbias), SIDE_NONE},
    {FILE_DSINK, offsetof(attune_attention_args, dsink), SIDE_NONE},
    {FILE_K_OUT, offsetof(attune_attention_args, k), SIDE_K},
    {FILE_V_OUT, offsetof(attune_attention_args, v), SIDE_K},
};

static bool is_exchanged(const struct options *options, enum side side) {
    return side == SIDE_Q ? arguments_exchange_q(options) : side == SIDE_K && arguments_exchange_k(options);
}

enum tool_exit results_collect(const struct options *options, struct tensors *tensors,
                               const attune_attention_args *args, struct outputs *outputs) {
    enum tool_exit status = TOOL_OK;
    for (size_t i = 0; !status && i < sizeof rows / sizeof rows[0]; i++) {
        enum option_file file = rows[i].file;
        if (!options->files[file] && file != FILE_O) {
            continue;
        }
        attune_tensor tensor = *(const attune_tensor *)((const char *)args + rows[i].member);
        if (is_exchanged(options, rows[i].side)) {
            tensor = tensor_exchange_axes(tensor);
        }
        status = outputs_add(outputs, tensors, option_file_flag(file), options->files[file], &tensor);
    }
    return status;
}
