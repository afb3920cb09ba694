/*
 * Decides which tensors a problem has, their shapes, and where each lies in which buffer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "problem.h"

#define GUARD_BYTES 256 /* before the first and behind the last tensor of a buffer; keeps the alignment */

/* Where a tensor begins and steps, in elements of its buffer. */
struct placement {
    int buffer;
    int64_t first;
    int64_t stride[4];
};

static void set_extents(struct conform_tensor *tensor, int64_t e0, int64_t e1, int64_t e2, int64_t e3) {
    const int64_t extents[4] = {e0, e1, e2, e3};
    memcpy(tensor->extent, extents, sizeof extents);
}

/* Axes of the view: rank canonical axes from first on. */
static void set_view(struct conform_tensor *tensor, attune_dtype dtype, int first, int rank) {
    tensor->view.dtype = dtype;
    tensor->view.rank = rank;
    for (int k = 0; k < rank; k++) {
        tensor->view.shape[k] = tensor->extent[first + k];
    }
}

static int first_axis(const struct conform_problem *problem, attune_operand operand) {
    const struct conform_options *options = &problem->options;
    switch (operand) {
    case ATTUNE_OPERAND_Q:
    case ATTUNE_OPERAND_O:
    case ATTUNE_OPERAND_DOUT:
    case ATTUNE_OPERAND_DQ:
    case ATTUNE_OPERAND_LSE:
    case ATTUNE_OPERAND_DLSE:
        return options->q.ragged ? 1 : 0;
    case ATTUNE_OPERAND_K:
    case ATTUNE_OPERAND_V:
    case ATTUNE_OPERAND_DK:
    case ATTUNE_OPERAND_DV:
        return options->k.ragged ? 1 : 0;
    case ATTUNE_OPERAND_ALIBI_SLOPES:
        return options->slopes == CONFORM_SLOPES_HEADS || options->slopes == CONFORM_SLOPES_LN2 ? 1 : 0;
    case ATTUNE_OPERAND_BLOCK_ROW_PTR:
        return options->sparse == CONFORM_SPARSE_SHARED ? 1 : 0;
    default:
        return 0;
    }
}

/* ---- Shapes ---- */

static void shape_rows(struct conform_problem *problem, attune_operand operand, attune_dtype dtype, int64_t width) {
    struct conform_tensor *tensor = &problem->tensor[operand];
    int first = first_axis(problem, operand);
    const struct conform_options *options = &problem->options;
    set_extents(tensor, first ? 1 : options->batch, problem->rows_total, options->heads_q, width);
    set_view(tensor, dtype, first, 4 - first);
}

static void shape_keys(struct conform_problem *problem, attune_operand operand, attune_dtype dtype, int64_t width) {
    struct conform_tensor *tensor = &problem->tensor[operand];
    int first = first_axis(problem, operand);
    const struct conform_options *options = &problem->options;
    if (options->page_size > 0) {
        set_extents(tensor, problem->pages, options->page_size, options->heads_kv, width);
    } else {
        set_extents(tensor, first ? 1 : options->batch, problem->keys_total, options->heads_kv, width);
    }
    set_view(tensor, dtype, first, 4 - first);
}

static void shape_row_scalars(struct conform_problem *problem, attune_operand operand) {
    struct conform_tensor *tensor = &problem->tensor[operand];
    int first = first_axis(problem, operand);
    set_extents(tensor, first ? 1 : problem->options.batch, problem->options.heads_q, problem->rows_total, 1);
    set_view(tensor, ATTUNE_DTYPE_F32, first, 3 - first);
}

static void shape_pairs(struct conform_problem *problem, attune_operand operand,
                        const struct conform_broadcast *broadcast, attune_dtype dtype) {
    const struct conform_options *options = &problem->options;
    struct conform_tensor *tensor = &problem->tensor[operand];
    set_extents(tensor, options->batch, options->heads_q, problem->longest_rows, problem->longest_keys);
    bool full = operand == ATTUNE_OPERAND_PROBS || (broadcast->expanded);
    for (int k = 0; k < 4 && !full; k++) {
        tensor->extent[k] = strchr(broadcast->axes, "bhij"[k]) ? tensor->extent[k] : 1;
    }
    int first = 0;
    while (!full && broadcast->squeezed && first < 3 && !strchr(broadcast->axes, "bhij"[first])) {
        first++;
    }
    set_view(tensor, dtype, first, 4 - first);
}

static void shape_plain(struct conform_problem *problem, attune_operand operand, attune_dtype dtype, int rank,
                        int64_t e0, int64_t e1, int64_t e2) {
    struct conform_tensor *tensor = &problem->tensor[operand];
    set_extents(tensor, e0, e1, e2, 1);
    int first = first_axis(problem, operand);
    set_view(tensor, dtype, first, rank - first);
}

static void shape_descale(struct conform_problem *problem, attune_operand operand, int64_t length) {
    const struct conform_options *options = &problem->options;
    if (options->descale == CONFORM_DESCALE_ONE) {
        shape_plain(problem, operand, ATTUNE_DTYPE_F32, 1, 1, 1, 1);
    } else if (options->descale == CONFORM_DESCALE_BLOCKS) {
        shape_plain(problem, operand, ATTUNE_DTYPE_F32, 3, options->batch, options->heads_kv, (length + 127) / 128);
    } else {
        shape_plain(problem, operand, ATTUNE_DTYPE_F32, 2, options->batch, options->heads_kv, 1);
    }
}

static void shape_main(struct conform_problem *problem) {
    const struct conform_options *options = &problem->options;
    bool backward = options->op == ATTUNE_OP_BACKWARD;
    attune_dtype out = conform_options_out_dtype(options);
    shape_rows(problem, ATTUNE_OPERAND_Q, options->dtype, options->head_dim);
    shape_keys(problem, ATTUNE_OPERAND_K, options->dtype, options->head_dim);
    shape_keys(problem, ATTUNE_OPERAND_V, options->dtype, options->head_dim_v);
    shape_rows(problem, ATTUNE_OPERAND_O, out, options->head_dim_v);
    if (!options->no_lse) {
        shape_row_scalars(problem, ATTUNE_OPERAND_LSE);
    }
    if (options->probs) {
        shape_pairs(problem, ATTUNE_OPERAND_PROBS, NULL, ATTUNE_DTYPE_F32);
    }
    if (backward) {
        shape_rows(problem, ATTUNE_OPERAND_DOUT, out, options->head_dim_v);
    }
    if (options->dlse) {
        shape_row_scalars(problem, ATTUNE_OPERAND_DLSE);
    }
}

static attune_dtype bias_dtype(const struct conform_options *options) {
    if (!options->bias.as_q) {
        return ATTUNE_DTYPE_F32;
    }
    return options->dtype == ATTUNE_DTYPE_E4M3 ? ATTUNE_DTYPE_BF16 : options->dtype;
}

static void shape_gradients(struct conform_problem *problem) {
    const struct conform_options *options = &problem->options;
    attune_dtype dtype = conform_options_grad_dtype(options);
    if (!options->no_dq) {
        shape_rows(problem, ATTUNE_OPERAND_DQ, dtype, options->head_dim);
    }
    if (!options->no_dkv) {
        shape_keys(problem, ATTUNE_OPERAND_DK, dtype, options->head_dim);
        shape_keys(problem, ATTUNE_OPERAND_DV, dtype, options->head_dim_v);
    }
    if (options->bias.axes && !options->no_dextra) {
        shape_pairs(problem, ATTUNE_OPERAND_DBIAS, &options->bias, bias_dtype(options));
    }
    if (options->sink && !options->no_dextra) {
        shape_plain(problem, ATTUNE_OPERAND_DSINK, ATTUNE_DTYPE_F32, 1, options->heads_q, 1, 1);
    }
}

static void shape_score(struct conform_problem *problem) {
    const struct conform_options *options = &problem->options;
    if (options->bias.axes) {
        shape_pairs(problem, ATTUNE_OPERAND_BIAS, &options->bias, bias_dtype(options));
    }
    if (options->mask.axes) {
        shape_pairs(problem, ATTUNE_OPERAND_MASK, &options->mask, ATTUNE_DTYPE_U8);
    }
    if (options->slopes != CONFORM_SLOPES_NONE) {
        bool batch = options->slopes == CONFORM_SLOPES_BATCH_HEADS;
        shape_plain(problem, ATTUNE_OPERAND_ALIBI_SLOPES, ATTUNE_DTYPE_F32, 2, batch ? options->batch : 1,
                    options->heads_q, 1);
    }
    if (options->sink) {
        shape_plain(problem, ATTUNE_OPERAND_SINK, ATTUNE_DTYPE_F32, 1, options->heads_q, 1, 1);
    }
    if (options->descale != CONFORM_DESCALE_NONE) {
        shape_descale(problem, ATTUNE_OPERAND_DESCALE_Q, problem->longest_rows);
        shape_descale(problem, ATTUNE_OPERAND_DESCALE_K, problem->longest_keys);
        shape_descale(problem, ATTUNE_OPERAND_DESCALE_V, problem->longest_keys);
    }
    if (options->dropout_memory) {
        shape_plain(problem, ATTUNE_OPERAND_DROPOUT_SEED, ATTUNE_DTYPE_U64, 1, 1, 1, 1);
        shape_plain(problem, ATTUNE_OPERAND_DROPOUT_OFFSET, ATTUNE_DTYPE_U32, 1, 1, 1, 1);
    }
}

static void shape_lengths(struct conform_problem *problem) {
    const struct conform_options *options = &problem->options;
    const struct {
        bool present;
        attune_operand operand;
        int64_t count;
    } vectors[] = {
        {options->q.ragged, ATTUNE_OPERAND_CU_SEQLENS_Q, options->batch + 1},
        {options->k.ragged, ATTUNE_OPERAND_CU_SEQLENS_K, options->batch + 1},
        {options->q.used, ATTUNE_OPERAND_SEQUSED_Q, options->batch},
        {options->k.used, ATTUNE_OPERAND_SEQUSED_K, options->batch},
        {options->leftpad, ATTUNE_OPERAND_LEFTPAD_K, options->batch},
        {options->sparse != CONFORM_SPARSE_NONE, ATTUNE_OPERAND_BLOCK_COL_IDX, problem->block_col_count},
    };
    for (size_t n = 0; n < sizeof vectors / sizeof vectors[0]; n++) {
        if (vectors[n].present) {
            shape_plain(problem, vectors[n].operand, ATTUNE_DTYPE_I32, 1, vectors[n].count, 1, 1);
        }
    }
    if (options->page_size > 0) {
        shape_plain(problem, ATTUNE_OPERAND_BLOCK_TABLE, ATTUNE_DTYPE_I32, 2, options->batch, problem->columns, 1);
    }
    if (options->sparse != CONFORM_SPARSE_NONE) {
        int64_t heads = options->sparse == CONFORM_SPARSE_HEADS ? options->heads_q : 1;
        shape_plain(problem, ATTUNE_OPERAND_BLOCK_ROW_PTR, ATTUNE_DTYPE_I32, 2, heads, problem->block_rows_count + 1,
                    1);
    }
}

/* ---- Strides ---- */

static unsigned transposed_bit(attune_operand operand) {
    switch (operand) {
    case ATTUNE_OPERAND_Q:
    case ATTUNE_OPERAND_DQ:
        return CONFORM_TRANSPOSED_Q;
    case ATTUNE_OPERAND_K:
    case ATTUNE_OPERAND_DK:
        return CONFORM_TRANSPOSED_K;
    case ATTUNE_OPERAND_V:
    case ATTUNE_OPERAND_DV:
        return CONFORM_TRANSPOSED_V;
    default:
        return CONFORM_TRANSPOSED_O;
    }
}

static bool is_heads_tensor(attune_operand operand) {
    return operand <= ATTUNE_OPERAND_O ||
           (operand >= ATTUNE_OPERAND_DOUT && operand <= ATTUNE_OPERAND_DV && operand != ATTUNE_OPERAND_DLSE);
}

/* Order of the axes in memory, outermost first. Tensors of four axes swap the middle two when transposed, lse and its
 * kind heads and rows, bias and its kind the last two. Lengths and tables are always in C order. */
static void memory_order(const struct conform_problem *problem, attune_operand operand, int out_order[4]) {
    static const int orders[][4] = {{0, 1, 2, 3}, {0, 2, 1, 3}, {0, 1, 3, 2}};
    unsigned transposed = problem->options.transposed;
    int which = 0;
    if (is_heads_tensor(operand)) {
        which = transposed & transposed_bit(operand) ? 1 : 0;
    } else if (operand == ATTUNE_OPERAND_LSE || operand == ATTUNE_OPERAND_DLSE) {
        which = transposed == CONFORM_TRANSPOSED_ALL ? 1 : 0;
    } else if (operand <= ATTUNE_OPERAND_MASK && operand != ATTUNE_OPERAND_DSINK) {
        which = transposed == CONFORM_TRANSPOSED_ALL ? 2 : 0;
    }
    memcpy(out_order, orders[which], sizeof orders[which]);
}

static bool is_shared_axis(const struct conform_problem *problem, attune_operand operand, int axis) {
    const struct conform_options *options = &problem->options;
    if (operand == ATTUNE_OPERAND_K || operand == ATTUNE_OPERAND_V) {
        return options->family == CONFORM_FAMILY_SHARED_HEADS && axis == 2;
    }
    if (operand == ATTUNE_OPERAND_BIAS || operand == ATTUNE_OPERAND_MASK) {
        const struct conform_broadcast *broadcast = operand == ATTUNE_OPERAND_BIAS ? &options->bias : &options->mask;
        return broadcast->expanded && !strchr(broadcast->axes, "bhij"[axis]);
    }
    return false;
}

static struct placement place_alone(struct conform_problem *problem, attune_operand operand) {
    const struct conform_tensor *tensor = &problem->tensor[operand];
    bool padded = problem->options.padded && operand <= ATTUNE_OPERAND_SINK;
    struct placement placement = {problem->buffer_count++, 0, {0}};
    int order[4];
    memory_order(problem, operand, order);
    int64_t step = 1;
    for (int k = 3; k >= 0; k--) {
        int axis = order[k];
        if (tensor->extent[axis] == 1 && !is_heads_tensor(operand)) {
            placement.stride[axis] = 0;
        } else if (!is_shared_axis(problem, operand, axis)) {
            placement.stride[axis] = step;
            step = step * (tensor->extent[axis] > 0 ? tensor->extent[axis] : 1) + (padded ? 2 * k - 1 : 0);
        }
    }
    return placement;
}

/* Members of a buffer in which every token has the heads of all of them side by side. */
static void place_side_by_side(struct conform_problem *problem, const attune_operand *members, int count,
                               struct placement *out_placements) {
    int64_t width = 3; /* an odd gap between tokens */
    int64_t tokens = 0;
    for (int n = 0; n < count; n++) {
        const int64_t *extent = problem->tensor[members[n]].extent;
        width += extent[2] * extent[3];
        tokens = extent[1] > tokens ? extent[1] : tokens;
    }
    int64_t first = 0;
    for (int n = 0; n < count; n++) {
        const int64_t *extent = problem->tensor[members[n]].extent;
        int64_t per_batch = problem->options.page_size > 0 ? extent[1] : tokens;
        out_placements[n] = (struct placement){problem->buffer_count, first, {per_batch * width, width, extent[3], 1}};
        first += extent[2] * extent[3];
    }
    problem->buffer_count++;
}

/* ---- Buffers ---- */

static int64_t last_element(const struct conform_tensor *tensor, const struct placement *placement) {
    int64_t last = placement->first;
    for (int k = 0; k < 4; k++) {
        last += (tensor->extent[k] - 1) * placement->stride[k];
    }
    return last;
}

static bool is_empty(const struct conform_tensor *tensor) {
    return tensor->extent[0] * tensor->extent[1] * tensor->extent[2] * tensor->extent[3] == 0;
}

static void put(struct conform_problem *problem, attune_operand operand, const struct placement *placement) {
    struct conform_tensor *tensor = &problem->tensor[operand];
    int first = operand == ATTUNE_OPERAND_DBIAS || operand == ATTUNE_OPERAND_BIAS || operand == ATTUNE_OPERAND_MASK
                    ? 4 - tensor->view.rank
                    : first_axis(problem, operand);
    for (int k = 0; k < 4; k++) {
        tensor->stride[k] = placement->stride[k];
    }
    for (int k = 0; k < tensor->view.rank; k++) {
        tensor->view.stride[k] = placement->stride[first + k];
    }
    if (is_empty(tensor)) {
        tensor->buffer = -1;
        return;
    }
    uint64_t size = attune_dtype_size_bytes(tensor->view.dtype);
    uint64_t before = GUARD_BYTES + (problem->options.misaligned ? size : 0);
    struct conform_buffer *buffer = &problem->buffer[placement->buffer];
    uint64_t end = before + ((uint64_t)last_element(tensor, placement) + 1) * size;
    tensor->buffer = placement->buffer;
    tensor->view.byte_offset = before + (uint64_t)placement->first * size;
    buffer->dtype = tensor->view.dtype;
    buffer->used_bytes = end > buffer->used_bytes ? end : buffer->used_bytes;
    buffer->size_bytes = (buffer->used_bytes + 7) / 8 * 8 + GUARD_BYTES;
}

static void put_members(struct conform_problem *problem, const attune_operand *members, int count) {
    struct placement placements[3];
    if (problem->tensor[members[count - 1]].view.dtype == ATTUNE_DTYPE_NONE) {
        return;
    }
    place_side_by_side(problem, members, count, placements);
    for (int n = 0; n < count; n++) {
        put(problem, members[n], &placements[n]);
    }
}

static void put_family(struct conform_problem *problem) {
    static const attune_operand inputs[] = {ATTUNE_OPERAND_Q, ATTUNE_OPERAND_K, ATTUNE_OPERAND_V};
    static const attune_operand gradients[] = {ATTUNE_OPERAND_DQ, ATTUNE_OPERAND_DK, ATTUNE_OPERAND_DV};
    switch (problem->options.family) {
    case CONFORM_FAMILY_PACKED_QKV: {
        put_members(problem, inputs, 3);
        int skipped = problem->options.no_dq ? 1 : 0;
        put_members(problem, gradients + skipped, 3 - skipped);
        break;
    }
    case CONFORM_FAMILY_POOL_KV:
        put_members(problem, inputs + 1, 2);
        put_members(problem, gradients + 1, 2);
        break;
    case CONFORM_FAMILY_V_IN_K: {
        struct placement placement = place_alone(problem, ATTUNE_OPERAND_K);
        put(problem, ATTUNE_OPERAND_K, &placement);
        put(problem, ATTUNE_OPERAND_V, &placement);
        break;
    }
    default:
        break;
    }
}

static void put_rest(struct conform_problem *problem) {
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        struct conform_tensor *tensor = &problem->tensor[operand];
        bool is_put = tensor->buffer >= 0 || tensor->stride[3] != 0;
        if (tensor->view.dtype == ATTUNE_DTYPE_NONE || is_put) {
            continue;
        }
        if (operand == ATTUNE_OPERAND_O && problem->options.in_place) {
            const struct conform_tensor *q = &problem->tensor[ATTUNE_OPERAND_Q];
            memcpy(tensor, q, sizeof *tensor);
            continue;
        }
        struct placement placement = place_alone(problem, (attune_operand)operand);
        put(problem, (attune_operand)operand, &placement);
    }
}

void conform_problem_lay_out(struct conform_problem *problem) {
    for (int operand = 0; operand < CONFORM_OPERANDS; operand++) {
        problem->tensor[operand].buffer = -1;
    }
    shape_main(problem);
    if (problem->options.op == ATTUNE_OP_BACKWARD) {
        shape_gradients(problem);
    }
    shape_score(problem);
    shape_lengths(problem);
    put_family(problem);
    put_rest(problem);
}
