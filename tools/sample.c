/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include <stdlib.h>
#include <string.h>

#include "convert.h"

enum { DESCALE_BLOCK = 128 };

static const struct sequence *sequence_of(const struct sample_source *source, const struct sample_place *place) {
    return &source->sequences->item[place->sequence];
}

static int64_t head_kv_of(const struct sample_source *source, const struct sample_place *place) {
    const attune_attention_args *args = source->args;
    int64_t heads_q = args->q.shape[args->q.rank - 2];
    int64_t heads_kv = args->k.shape[args->k.rank - 2];
    return place->first_head / (heads_q / heads_kv);
}

/* ---- Elements of the source ---- */

static void widen(const attune_tensor *tensor, int64_t offset, int64_t count, float *out_values) {
    const char *data = (const char *)tensor->data + tensor->byte_offset;
    floats_widen(data + (uint64_t)offset * attune_dtype_size_bytes(tensor->dtype), tensor->dtype, count, out_values);
}

/* Of (B, S, H, D), or (total, H, D). */
static int64_t offset_of(const attune_tensor *tensor, int64_t batch, int64_t position, int64_t head) {
    const int64_t *stride = tensor->stride;
    if (tensor->rank == 3) {
        return position * stride[0] + head * stride[1];
    }
    return batch * stride[0] + position * stride[1] + head * stride[2];
}

static int64_t offset_of_key(const struct sample_source *source, const struct sample_place *place,
                             const attune_tensor *tensor, int64_t key) {
    const attune_attention_args *args = source->args;
    const struct sequence *sequence = sequence_of(source, place);
    int64_t head = head_kv_of(source, place);
    if (args->block_table.dtype == ATTUNE_DTYPE_NONE) {
        return offset_of(tensor, sequence->batch_k, sequence->first_key + key, head);
    }
    const int32_t *table = args->block_table.data;
    int64_t page = table[place->sequence * args->block_table.stride[0] + key / args->page_size];
    return offset_of(tensor, page, key % args->page_size, head);
}

void sample_read_rows(const struct sample_source *source, const struct sample_place *place, const attune_tensor *tensor,
                      float *out_values) {
    const struct sequence *sequence = sequence_of(source, place);
    int64_t extent = tensor->shape[tensor->rank - 1];
    for (int64_t i = 0; i < place->rows; i++) {
        for (int64_t h = 0; h < place->heads; h++) {
            int64_t position = sequence->first_row + place->first_row + i;
            widen(tensor, offset_of(tensor, sequence->batch_q, position, place->first_head + h), extent,
                  out_values + (i * place->heads + h) * extent);
        }
    }
}

void sample_read_keys(const struct sample_source *source, const struct sample_place *place, const attune_tensor *tensor,
                      float *out_values) {
    int64_t extent = tensor->shape[tensor->rank - 1];
    for (int64_t j = 0; j < place->keys; j++) {
        widen(tensor, offset_of_key(source, place, tensor, place->first_key + j), extent, out_values + j * extent);
    }
}

/* Of (B, H, S), or (H, total). */
void sample_read_lines(const struct sample_source *source, const struct sample_place *place,
                       const attune_tensor *tensor, float *out_values) {
    const struct sequence *sequence = sequence_of(source, place);
    const int64_t *stride = tensor->stride + tensor->rank - 2;
    int64_t first = tensor->rank == 3 ? sequence->batch_q * tensor->stride[0] : 0;
    for (int64_t h = 0; h < place->heads; h++) {
        for (int64_t i = 0; i < place->rows; i++) {
            widen(tensor,
                  first + (place->first_head + h) * stride[0] +
                      (sequence->first_row + place->first_row + i) * stride[1],
                  1, out_values + h * place->rows + i);
        }
    }
}

/* ---- The sample's own tensors ---- */

static enum tool_exit create(struct sample *sample, attune_dtype dtype, int rank, const int64_t *shape,
                             attune_tensor *out_tensor) {
    attune_tensor tensor = attune_tensor_contiguous(NULL, dtype, rank, shape);
    void *data = calloc((size_t)tensor_count(&tensor) + 1, attune_dtype_size_bytes(dtype));
    if (!data) {
        return tool_fail_memory();
    }
    sample->memory.item[sample->memory.count++] = data;
    tensor.data = data;
    *out_tensor = tensor;
    return TOOL_OK;
}

enum tool_exit sample_add_result(struct sample *sample, int rank, const int64_t *shape, attune_tensor *out_result) {
    return create(sample, ATTUNE_DTYPE_F64, rank, shape, out_result);
}

typedef void (*reader)(const struct sample_source *source, const struct sample_place *place,
                       const attune_tensor *tensor, float *out_values);

static enum tool_exit copy(struct sample *sample, const struct sample_source *source, const struct sample_place *place,
                           const attune_tensor *tensor, reader read, int rank, const int64_t *shape,
                           attune_tensor *out_tensor) {
    if (tensor->dtype == ATTUNE_DTYPE_NONE) {
        return TOOL_OK;
    }
    enum tool_exit status = create(sample, ATTUNE_DTYPE_F32, rank, shape, out_tensor);
    if (!status) {
        read(source, place, tensor, out_tensor->data);
    }
    return status;
}

/* ---- Descales ---- */

static float descale_at(const attune_tensor *descale, int64_t batch, int64_t head_kv, int64_t position) {
    const float *values = descale->data;
    if (descale->dtype == ATTUNE_DTYPE_NONE) {
        return 1;
    }
    if (descale->rank == 1) {
        return values[0];
    }
    int64_t offset = batch * descale->stride[0] + head_kv * descale->stride[1];
    return values[descale->rank == 3 ? offset + position / DESCALE_BLOCK * descale->stride[2] : offset];
}

/* Multiplies lines of a tensor whose second axis counts positions from first on. */
static void apply_descale(const struct sample_source *source, const struct sample_place *place,
                          const attune_tensor *descale, int64_t first, const attune_tensor *tensor) {
    int64_t extent = tensor->shape[2] * tensor->shape[3];
    for (int64_t i = 0; i < tensor->shape[1]; i++) {
        float factor = descale_at(descale, place->sequence, head_kv_of(source, place), first + i);
        for (int64_t d = 0; d < extent; d++) {
            ((float *)tensor->data)[i * extent + d] *= factor;
        }
    }
}

static enum tool_exit take_qkv(struct sample *sample, const struct sample_source *source,
                               const struct sample_place *place) {
    const attune_attention_args *args = source->args;
    const int64_t q[] = {1, place->rows, place->heads, args->q.shape[args->q.rank - 1]};
    const int64_t k[] = {1, place->keys, 1, args->k.shape[args->k.rank - 1]};
    const int64_t v[] = {1, place->keys, 1, args->v.shape[args->v.rank - 1]};
    enum tool_exit status = copy(sample, source, place, &args->q, sample_read_rows, 4, q, &sample->args.q);
    if (!status) {
        status = copy(sample, source, place, &args->k, sample_read_keys, 4, k, &sample->args.k);
    }
    if (!status) {
        status = copy(sample, source, place, &args->v, sample_read_keys, 4, v, &sample->args.v);
    }
    if (status) {
        return status;
    }
    apply_descale(source, place, &args->descale_q, place->first_row, &sample->args.q);
    apply_descale(source, place, &args->descale_k, place->first_key, &sample->args.k);
    apply_descale(source, place, &args->descale_v, place->first_key, &sample->args.v);
    return TOOL_OK;
}

static enum tool_exit take_backward(struct sample *sample, const struct sample_source *source,
                                    const struct sample_place *place) {
    const attune_attention_args *args = source->args;
    const int64_t o[] = {1, place->rows, place->heads, args->v.shape[args->v.rank - 1]};
    const int64_t lse[] = {1, place->heads, place->rows};
    enum tool_exit status = copy(sample, source, place, &args->o, sample_read_rows, 4, o, &sample->args.o);
    if (!status) {
        status = copy(sample, source, place, &args->dout, sample_read_rows, 4, o, &sample->args.dout);
    }
    if (!status) {
        status = copy(sample, source, place, &args->lse, sample_read_lines, 3, lse, &sample->args.lse);
    }
    return status ? status : copy(sample, source, place, &args->dlse, sample_read_lines, 3, lse, &sample->args.dlse);
}

/* ---- Scores ---- */

/* The offset in a tensor that is broadcast to (B, H, Sq, Sk) from the right. */
static int64_t offset_broadcast(const attune_tensor *tensor, const int64_t index[4]) {
    int64_t offset = 0;
    for (int axis = 0; axis < tensor->rank; axis++) {
        int64_t at = index[4 - tensor->rank + axis];
        offset += tensor->shape[axis] == 1 ? 0 : at * tensor->stride[axis];
    }
    return offset;
}

/* Whether the problem's lists of blocks name a (row, key). */
static bool is_listed(const attune_attention_args *args, int64_t head, int64_t row, int64_t key) {
    const attune_tensor *row_ptr = &args->block_row_ptr;
    const int32_t *blocks = args->block_col_idx.data;
    const int32_t *offset = row_ptr->data;
    if (row_ptr->dtype == ATTUNE_DTYPE_NONE) {
        return true;
    }
    offset += (row_ptr->rank == 2 ? head * row_ptr->stride[0] : 0) + row / args->block_rows;
    for (int32_t at = offset[0]; at < offset[1]; at++) {
        if (blocks[at] == key / args->block_keys) {
            return true;
        }
    }
    return false;
}

static bool is_shown(const attune_attention_args *args, const int64_t index[4]) {
    const uint8_t *mask = args->mask.data;
    return (args->mask.dtype == ATTUNE_DTYPE_NONE || mask[offset_broadcast(&args->mask, index)]) &&
           is_listed(args, index[1], index[2], index[3]);
}

static void fill_scores(const struct sample_source *source, const struct sample_place *place, struct sample *sample) {
    const attune_attention_args *args = source->args;
    float *bias = sample->args.bias.data;
    uint8_t *mask = sample->args.mask.data;
    int64_t at = 0;
    for (int64_t h = 0; h < place->heads; h++) {
        for (int64_t i = 0; i < place->rows; i++) {
            for (int64_t j = 0; j < place->keys; j++, at++) {
                const int64_t index[4] = {place->sequence, place->first_head + h, place->first_row + i,
                                          place->first_key + j};
                if (bias) {
                    widen(&args->bias, offset_broadcast(&args->bias, index), 1, &bias[at]);
                }
                if (mask) {
                    mask[at] = is_shown(args, index);
                }
            }
        }
    }
}

static void fill_heads(const attune_tensor *tensor, const struct sample_place *place, float *out_values) {
    int64_t first = tensor->rank == 2 ? place->sequence * tensor->stride[0] : 0;
    for (int64_t h = 0; h < place->heads; h++) {
        widen(tensor, first + (place->first_head + h) * tensor->stride[tensor->rank - 1], 1, &out_values[h]);
    }
}

static enum tool_exit take_heads(struct sample *sample, const attune_tensor *tensor, const struct sample_place *place,
                                 attune_tensor *out_tensor) {
    if (tensor->dtype == ATTUNE_DTYPE_NONE) {
        return TOOL_OK;
    }
    enum tool_exit status = create(sample, ATTUNE_DTYPE_F32, 1, &place->heads, out_tensor);
    if (!status) {
        fill_heads(tensor, place, out_tensor->data);
    }
    return status;
}

static enum tool_exit take_scores(struct sample *sample, const struct sample_source *source,
                                  const struct sample_place *place) {
    const attune_attention_args *args = source->args;
    const int64_t shape[] = {1, place->heads, place->rows, place->keys};
    bool is_masked = args->mask.dtype != ATTUNE_DTYPE_NONE || args->block_row_ptr.dtype != ATTUNE_DTYPE_NONE;
    enum tool_exit status = TOOL_OK;
    if (args->bias.dtype != ATTUNE_DTYPE_NONE) {
        status = create(sample, ATTUNE_DTYPE_F32, 4, shape, &sample->args.bias);
    }
    if (!status && is_masked) {
        status = create(sample, ATTUNE_DTYPE_U8, 4, shape, &sample->args.mask);
    }
    if (!status && (sample->args.bias.data || sample->args.mask.data)) {
        fill_scores(source, place, sample);
    }
    if (!status) {
        status = take_heads(sample, &args->alibi_slopes, place, &sample->args.alibi_slopes);
    }
    if (!status && source->op == ATTUNE_OP_FORWARD) {
        status = take_heads(sample, &args->sink, place, &sample->args.sink);
    }
    return status;
}

/* ---- ---- */

static void set_options(const struct sample_source *source, const struct sample_place *place,
                        attune_attention_args *args) {
    const attune_attention_args *whole = source->args;
    attune_mask mask = sequence_of(source, place)->mask;
    args->has_scale = whole->has_scale;
    args->scale = whole->scale;
    args->softcap = whole->softcap;
    args->align = ATTUNE_ALIGN_DIAGONAL;
    args->diagonal = mask.shift + place->first_row - place->first_key;
    if (mask.left >= 0 || mask.right >= 0) {
        args->window = ATTUNE_WINDOW(mask.left, mask.right);
    }
    args->dropout_rate = whole->dropout_rate;
    args->dropout_seed = whole->dropout_seed;
    args->dropout_offset = whole->dropout_offset;
    args->batch_origin = place->sequence;
    args->head_origin = place->first_head;
    args->row_origin = place->first_row;
    args->key_origin = place->first_key;
    args->heads_total = whole->q.shape[whole->q.rank - 2];
}

enum tool_exit sample_take(const struct sample_source *source, const struct sample_place *place,
                           struct sample *out_sample) {
    struct sample *sample = out_sample;
    *sample = (struct sample){.args = attune_attention_args_init()};
    set_options(source, place, &sample->args);
    enum tool_exit status = take_qkv(sample, source, place);
    if (!status) {
        status = take_scores(sample, source, place);
    }
    if (!status && source->op == ATTUNE_OP_BACKWARD) {
        status = take_backward(sample, source, place);
    }
    return status;
}

void sample_release(struct sample *sample) {
    host_memory_release(&sample->memory);
}
