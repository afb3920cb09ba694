/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <inttypes.h>

#include "convert.h"
#include "fill.h"
#include "inputs.h"

bool arguments_exchange_q(const struct options *options) {
    return options->layout == LAYOUT_BHSD && !options->files[FILE_CU_SEQLENS_Q];
}

bool arguments_exchange_k(const struct options *options) {
    return options->layout == LAYOUT_BHSD && !options->files[FILE_CU_SEQLENS_K] && !options->files[FILE_BLOCK_TABLE] &&
           options->page_size == 0;
}

int64_t arguments_batch(const attune_attention_args *args) {
    if (args->cu_seqlens_q.dtype == ATTUNE_DTYPE_NONE) {
        return args->q.shape[0];
    }
    return args->cu_seqlens_q.shape[0] > 0 ? args->cu_seqlens_q.shape[0] - 1 : 0;
}

/* ---- Options without files ---- */

static void set_values(const struct options *options, attune_attention_args *args) {
    args->has_scale = options->scale.given;
    args->scale = options->scale.value;
    args->softcap = options->softcap;
    args->causal = options->causal;
    args->align = options->diagonal.given ? ATTUNE_ALIGN_DIAGONAL : options->align.value;
    args->diagonal = options->diagonal.value;
    args->window = options->window;
    args->dropout_rate = options->dropout_rate;
    args->dropout_seed = options->dropout_seed;
    args->dropout_offset = options->dropout_offset;
    args->max_seqlen_q = options->max_seqlen_q;
    args->max_seqlen_k = options->max_seqlen_k;
    args->page_size = options->page_size;
    args->block_rows = options->block_sparse.rows;
    args->block_keys = options->block_sparse.keys;
    args->splits = (int32_t)options->splits;
    args->tile_rows = (int32_t)options->tile.rows;
    args->tile_keys = (int32_t)options->tile.keys;
    args->kernel = options->kernel;
    args->deterministic = options->deterministic;
    args->check = true;
}

/* ---- Files that mean the same in run and plan ---- */

typedef enum tool_exit (*uploader)(struct tensors *tensors, const char *flag, const char *spec,
                                   attune_tensor *out_tensor);

static const struct {
    enum option_file file;
    size_t member; /* of attune_attention_args */
    uploader upload;
} optional_inputs[] = {
    {FILE_BIAS, offsetof(attune_attention_args, bias), input_upload_floats},
    {FILE_MASK, offsetof(attune_attention_args, mask), input_upload_mask},
    {FILE_ALIBI, offsetof(attune_attention_args, alibi_slopes), input_upload_floats},
    {FILE_SINK, offsetof(attune_attention_args, sink), input_upload_floats},
    {FILE_SEQUSED_Q, offsetof(attune_attention_args, seqused_q), input_upload_integers},
    {FILE_SEQUSED_K, offsetof(attune_attention_args, seqused_k), input_upload_integers},
    {FILE_LEFTPAD_K, offsetof(attune_attention_args, leftpad_k), input_upload_integers},
    {FILE_BLOCK_TABLE, offsetof(attune_attention_args, block_table), input_upload_pages},
    {FILE_DESCALE_Q, offsetof(attune_attention_args, descale_q), input_upload_floats},
    {FILE_DESCALE_K, offsetof(attune_attention_args, descale_k), input_upload_floats},
    {FILE_DESCALE_V, offsetof(attune_attention_args, descale_v), input_upload_floats},
};

static enum tool_exit load_optional(const struct options *options, struct tensors *tensors,
                                    attune_attention_args *args) {
    enum tool_exit status = TOOL_OK;
    for (size_t i = 0; !status && i < sizeof optional_inputs / sizeof optional_inputs[0]; i++) {
        enum option_file file = optional_inputs[i].file;
        attune_tensor *tensor = (attune_tensor *)((char *)args + optional_inputs[i].member);
        if (options->files[file]) {
            status = optional_inputs[i].upload(tensors, option_file_flag(file), options->files[file], tensor);
        }
    }
    if (!status && options->block_sparse.row_ptr) {
        status = input_upload_integers(tensors, "--block-sparse", options->block_sparse.row_ptr, &args->block_row_ptr);
    }
    if (!status && options->block_sparse.col_idx) {
        status = input_upload_integers(tensors, "--block-sparse", options->block_sparse.col_idx, &args->block_col_idx);
    }
    return status;
}

/* What a file of cu_seqlens says. */
struct packing {
    bool given;
    int64_t sequences;
    int64_t total;   /* rows that the sequences own */
    int64_t longest; /* 0 where the entries decrease: the library says that better */
};

static struct packing measure_packing(const struct array *offsets) {
    struct packing packing = {.given = true, .sequences = offsets->count > 0 ? offsets->count - 1 : 0};
    const int32_t *offset = offsets->data;
    packing.total = offsets->count > 0 ? offset[offsets->count - 1] : 0;
    for (int64_t b = 0; b < packing.sequences; b++) {
        int64_t length = (int64_t)offset[b + 1] - offset[b];
        if (length < 0) {
            packing.longest = 0;
            break;
        }
        if (length > packing.longest) {
            packing.longest = length;
        }
    }
    return packing;
}

static enum tool_exit load_packing(const struct options *options, struct tensors *tensors, enum option_file file,
                                   attune_tensor *out_tensor, struct packing *out_packing) {
    *out_packing = (struct packing){0};
    if (!options->files[file]) {
        return TOOL_OK;
    }
    struct array offsets;
    const char *flag = option_file_flag(file);
    enum tool_exit status = input_read_integers(flag, options->files[file], &offsets);
    if (status) {
        return status;
    }
    *out_packing = measure_packing(&offsets);
    status = tensors_upload(tensors, flag, &offsets, ATTUNE_DTYPE_I32, out_tensor);
    array_release(&offsets);
    return status;
}

/* Everything but q, k and v. */
static enum tool_exit load_common(const struct options *options, struct tensors *tensors, attune_attention_args *args,
                                  struct packing *out_packing_q, struct packing *out_packing_k) {
    *args = attune_attention_args_init();
    set_values(options, args);
    enum tool_exit status = load_packing(options, tensors, FILE_CU_SEQLENS_Q, &args->cu_seqlens_q, out_packing_q);
    if (!status) {
        status = load_packing(options, tensors, FILE_CU_SEQLENS_K, &args->cu_seqlens_k, out_packing_k);
    }
    if (!status && args->max_seqlen_q == 0) {
        args->max_seqlen_q = out_packing_q->longest;
    }
    if (!status && args->max_seqlen_k == 0) {
        args->max_seqlen_k = out_packing_k->longest;
    }
    return status ? status : load_optional(options, tensors, args);
}

/* ---- q, k, v and what is shaped like them, from files ---- */

struct load {
    enum option_file file;
    int rank;           /* that the file must have */
    bool exchange;      /* heads before rows */
    attune_dtype dtype; /* to round to; NONE: that of the file */
    bool is_rounded;    /* false: the file must hold dtype already */
};

static enum tool_exit check_load(const struct load *load, const char *flag, const char *spec,
                                 const struct array *array) {
    if (array->rank != load->rank) {
        return tool_fail(TOOL_BAD_INPUT, "%s %s: the file has %d axes: %s needed", flag, spec, array->rank,
                         load->rank == 4 ? "four, as (B, S, H, D), are" : "three, (total, H, D), are");
    }
    if (load->dtype == ATTUNE_DTYPE_NONE && array->type == ARRAY_F64) {
        return tool_fail(TOOL_BAD_INPUT, "%s %s: it holds f64, which no kernel reads; --dtype rounds it", flag, spec);
    }
    if (!load->is_rounded && (array->type == ARRAY_F64 || array_type_to_dtype(array->type) != load->dtype)) {
        return tool_fail(TOOL_BAD_INPUT, "%s %s: dtype mismatch: it holds %s and --q %s; --dtype rounds all to one",
                         flag, spec, array_type_name(array->type), attune_dtype_name(load->dtype));
    }
    return TOOL_OK;
}

static enum tool_exit load_tensor(const struct load *load, const struct options *options, struct tensors *tensors,
                                  attune_tensor *out_tensor) {
    struct array array;
    const char *flag = option_file_flag(load->file);
    const char *spec = options->files[load->file];
    enum tool_exit status = input_read_floats(flag, spec, &array);
    if (status) {
        return status;
    }
    status = check_load(load, flag, spec, &array);
    if (!status) {
        status = tensors_upload(tensors, flag, &array,
                                load->dtype != ATTUNE_DTYPE_NONE ? load->dtype : array_type_to_dtype(array.type),
                                out_tensor);
    }
    if (!status && load->exchange) {
        *out_tensor = tensor_exchange_axes(*out_tensor);
    }
    array_release(&array);
    return status;
}

static enum tool_exit load_q(const struct options *options, struct tensors *tensors, enum option_file file,
                             attune_dtype dtype, attune_tensor *out_tensor) {
    struct load load = {
        .file = file,
        .rank = options->files[FILE_CU_SEQLENS_Q] ? 3 : 4,
        .exchange = arguments_exchange_q(options),
        .dtype = dtype,
        .is_rounded = true,
    };
    return load_tensor(&load, options, tensors, out_tensor);
}

static enum tool_exit load_kv(const struct options *options, struct tensors *tensors, enum option_file file,
                              attune_dtype dtype, attune_tensor *out_tensor) {
    struct load load = {
        .file = file,
        .rank = options->files[FILE_CU_SEQLENS_K] ? 3 : 4,
        .exchange = arguments_exchange_k(options),
        .dtype = dtype,
        .is_rounded = options->dtype != ATTUNE_DTYPE_NONE,
    };
    return load_tensor(&load, options, tensors, out_tensor);
}

enum tool_exit arguments_load_new(const struct options *options, struct tensors *tensors, enum option_file file,
                                  attune_dtype cache_dtype, attune_tensor *out_tensor) {
    bool is_converted = cache_dtype == ATTUNE_DTYPE_E4M3; /* by the append, which knows the descale */
    struct load load = {
        .file = file,
        .rank = 4,
        .exchange = options->layout == LAYOUT_BHSD,
        .dtype = is_converted ? ATTUNE_DTYPE_F32 : cache_dtype,
        .is_rounded = is_converted || options->dtype != ATTUNE_DTYPE_NONE,
    };
    return load_tensor(&load, options, tensors, out_tensor);
}

enum tool_exit arguments_from_files(const struct options *options, struct tensors *tensors,
                                    attune_attention_args *out_args) {
    struct packing packing_q, packing_k;
    enum tool_exit status = load_common(options, tensors, out_args, &packing_q, &packing_k);
    if (!status) {
        status = load_q(options, tensors, FILE_Q, options->dtype, &out_args->q);
    }
    if (!status) {
        status = load_kv(options, tensors, FILE_K, out_args->q.dtype, &out_args->k);
    }
    return status ? status : load_kv(options, tensors, FILE_V, out_args->q.dtype, &out_args->v);
}

/* ---- q, k and v from --shape ---- */

static enum tool_exit check_packing(const struct options *options, enum option_file file, const struct packing *packing,
                                    int64_t extent) {
    const char *flag = option_file_flag(file);
    const char *spec = options->files[file];
    int64_t batch = options->shape.batch;
    if (packing->given && packing->sequences != batch) {
        return tool_fail(TOOL_BAD_INPUT, "%s %s: it has %" PRId64 " sequences: --shape has a B of %" PRId64, flag, spec,
                         packing->sequences, batch);
    }
    if (packing->given && (packing->total < 0 || packing->longest > extent)) {
        return tool_fail(TOOL_BAD_INPUT,
                         "%s %s: the longest sequence is %" PRId64 ", the last entry %" PRId64
                         ": --shape allows lengths from 0 to %" PRId64,
                         flag, spec, packing->longest, packing->total, extent);
    }
    return TOOL_OK;
}

static enum tool_exit check_pages(const struct options *options, const attune_tensor *block_table) {
    int64_t keys = options->shape.keys;
    int64_t page_size = options->page_size;
    if (block_table->rank != 2 || page_size == 0) {
        return TOOL_OK; /* the library says what is wrong */
    }
    int64_t columns = keys / page_size + (keys % page_size != 0);
    if (columns > block_table->shape[1]) {
        return tool_fail(TOOL_BAD_INPUT,
                         "--block-table %s: %" PRId64 " columns of --page-size %" PRId64 " hold fewer than the %" PRId64
                         " keys of --shape",
                         options->files[FILE_BLOCK_TABLE], block_table->shape[1], page_size, keys);
    }
    return TOOL_OK;
}

/* --page-size alone: pages of its own, all keys in use. */
static enum tool_exit create_pages(const struct options *options, struct tensors *tensors,
                                   attune_attention_args *args) {
    const struct option_shape *shape = &options->shape;
    struct random random = {0};
    if (options->page_size == 0 || args->block_table.rank > 0 || args->cu_seqlens_k.rank > 0) {
        return TOOL_OK;
    }
    int64_t columns = shape->keys / options->page_size + (shape->keys % options->page_size != 0);
    enum tool_exit status = fill_pages(tensors, shape->batch, columns, &random, &args->block_table);
    if (!status && args->seqused_k.rank == 0) {
        status = fill_lengths(tensors, shape->batch, shape->keys, &args->seqused_k);
    }
    return status;
}

static enum tool_exit create_qkv(struct tensors *tensors, attune_dtype dtype, int rank, const int64_t *shape,
                                 bool exchange, attune_tensor *out_tensor) {
    int64_t file_shape[] = {shape[0], shape[1], shape[2], shape[3]};
    if (exchange) {
        file_shape[1] = shape[2];
        file_shape[2] = shape[1];
    }
    const int64_t *extents = rank == 3 ? file_shape + 1 : file_shape;
    enum tool_exit status = tensors_create(tensors, dtype, rank, extents, out_tensor);
    if (!status && exchange) {
        *out_tensor = tensor_exchange_axes(*out_tensor);
    }
    return status;
}

/* A packed tensor has the rows that its sequences own, and room for one of the maximal length. */
static int64_t packed_extent(const struct packing *packing, int64_t max_seqlen, int64_t length) {
    if (!packing->given) {
        return length;
    }
    return packing->total > max_seqlen ? packing->total : max_seqlen;
}

static enum tool_exit create_from_shape(const struct options *options, struct tensors *tensors,
                                        const struct packing *packing_q, const struct packing *packing_k,
                                        attune_attention_args *args) {
    const struct option_shape *shape = &options->shape;
    const attune_tensor *table = &args->block_table;
    attune_dtype dtype = options->dtype != ATTUNE_DTYPE_NONE ? options->dtype : ATTUNE_DTYPE_F32;
    int64_t rows = packed_extent(packing_q, args->max_seqlen_q, shape->rows);
    int64_t keys = packed_extent(packing_k, args->max_seqlen_k, shape->keys);
    int64_t q[] = {shape->batch, rows, shape->heads_q, shape->head_dim};
    int64_t k[] = {shape->batch, keys, shape->heads_kv, shape->head_dim};
    if (table->rank == 2) { /* a page for each entry */
        k[0] = table->shape[0] * table->shape[1];
        k[1] = options->page_size;
    }
    int64_t v[] = {k[0], k[1], k[2], shape->head_dim_v};
    int rank_k = packing_k->given ? 3 : 4;
    bool exchange_k = arguments_exchange_k(options);
    enum tool_exit status =
        create_qkv(tensors, dtype, packing_q->given ? 3 : 4, q, arguments_exchange_q(options), &args->q);
    if (!status) {
        status = create_qkv(tensors, dtype, rank_k, k, exchange_k, &args->k);
    }
    return status ? status : create_qkv(tensors, dtype, rank_k, v, exchange_k, &args->v);
}

enum tool_exit arguments_from_shape(const struct options *options, struct tensors *tensors,
                                    attune_attention_args *out_args) {
    struct packing packing_q, packing_k;
    enum tool_exit status = load_common(options, tensors, out_args, &packing_q, &packing_k);
    if (!status) {
        status = check_packing(options, FILE_CU_SEQLENS_Q, &packing_q, options->shape.rows);
    }
    if (!status) {
        status = check_packing(options, FILE_CU_SEQLENS_K, &packing_k, options->shape.keys);
    }
    if (!status) {
        status = check_pages(options, &out_args->block_table);
    }
    if (!status) {
        status = create_pages(options, tensors, out_args);
    }
    if (status) {
        return status;
    }
    if (packing_q.given && options->max_seqlen_q == 0) {
        out_args->max_seqlen_q = options->shape.rows;
    }
    if (packing_k.given && options->max_seqlen_k == 0) {
        out_args->max_seqlen_k = options->shape.keys;
    }
    return create_from_shape(options, tensors, &packing_q, &packing_k, out_args);
}

/* ---- Backward ---- */

enum tool_exit arguments_load_gradients(const struct options *options, struct tensors *tensors,
                                        attune_attention_args *args) {
    enum tool_exit status = load_q(options, tensors, FILE_DO, args->o.dtype, &args->dout);
    if (!status && options->files[FILE_DLSE]) {
        status = input_upload_floats(tensors, option_file_flag(FILE_DLSE), options->files[FILE_DLSE], &args->dlse);
    }
    return status;
}
