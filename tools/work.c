/* SPDX-License-Identifier: Apache-2.0 */
#include "work.h"

#include <math.h>
#include <stdlib.h>

#include "ceiling.h"
#include "sequences.h"

struct counts {
    double pairs; /* over batches and query heads */
    double keys;  /* over batches: those that some row sees */
};

/* The lists of --block-sparse. */
struct block_lists {
    int32_t *row_ptr; /* NULL: none */
    int32_t *col_idx;
    int64_t heads;   /* that have lists of their own, or 1 */
    int64_t offsets; /* of a head */
};

/* ---- Pairs ---- */

static int64_t overlap(attune_interval interval, int64_t begin, int64_t end) {
    attune_interval cut = attune_interval_cut(interval.begin, interval.end, begin, end);
    return cut.end - cut.begin;
}

/* Keys that a row of the problem's lists sees in the interval. */
static int64_t count_listed(const attune_attention_args *args, const struct block_lists *lists, int64_t head,
                            int64_t row, attune_interval keys) {
    const int32_t *offset = lists->row_ptr + head * lists->offsets + row / args->block_rows;
    int64_t count = 0;
    for (int32_t at = offset[0]; at < offset[1]; at++) {
        int64_t first = lists->col_idx[at] * args->block_keys;
        count += overlap(keys, first, first + args->block_keys);
    }
    return count;
}

static double count_row(const attune_attention_args *args, const struct block_lists *lists, attune_mask mask,
                        int64_t row) {
    attune_interval keys = attune_mask_keys(mask, row, 1);
    if (!lists->row_ptr) {
        return (double)(keys.end - keys.begin);
    }
    double count = 0;
    for (int64_t head = 0; head < lists->heads; head++) {
        count += (double)count_listed(args, lists, head, row, keys) / (double)lists->heads;
    }
    return count;
}

static struct counts count_all(const attune_attention_args *args, const struct block_lists *lists,
                               const struct sequences *sequences) {
    struct counts counts = {0, 0};
    for (int64_t b = 0; b < sequences->count; b++) {
        attune_mask mask = sequences->item[b].mask;
        for (int64_t row = 0; row < mask.rows; row++) {
            counts.pairs += count_row(args, lists, mask, row);
        }
        if (mask.rows > 0) {
            attune_interval keys = attune_mask_keys(mask, 0, mask.rows);
            counts.keys += (double)(keys.end - keys.begin);
        }
    }
    counts.pairs *= (double)args->q.shape[args->q.rank - 2];
    return counts;
}

static enum tool_exit get_lists(struct tensors *tensors, const attune_attention_args *args,
                                struct block_lists *out_lists) {
    void *entries = NULL;
    *out_lists = (struct block_lists){0};
    if (args->block_row_ptr.dtype == ATTUNE_DTYPE_NONE) {
        return TOOL_OK;
    }
    const attune_tensor *row_ptr = &args->block_row_ptr;
    out_lists->heads = row_ptr->rank == 2 ? row_ptr->shape[0] : 1;
    out_lists->offsets = row_ptr->shape[row_ptr->rank - 1];
    enum tool_exit status = tensors_get(tensors, row_ptr, &entries);
    if (status) {
        return status;
    }
    out_lists->row_ptr = entries;
    status = tensors_get(tensors, &args->block_col_idx, &entries);
    out_lists->col_idx = status ? NULL : entries;
    return status;
}

static enum tool_exit count(struct workload *workload, struct counts *out_counts) {
    const attune_attention_args *args = &workload->attention;
    struct block_lists lists;
    struct sequences sequences = {0};
    enum tool_exit status = get_lists(&workload->tensors, args, &lists);
    if (!status) {
        status = sequences_read(&workload->tensors, args, &sequences);
    }
    if (!status) {
        *out_counts = count_all(args, &lists, &sequences);
    }
    sequences_release(&sequences);
    free(lists.col_idx);
    free(lists.row_ptr);
    return status;
}

/* ---- Cost ---- */

/* Bytes of one key and its value over all heads. */
static double key_bytes(const attune_attention_args *args) {
    const int64_t *k = args->k.shape + args->k.rank - 2;
    const int64_t *v = args->v.shape + args->v.rank - 2;
    return (double)(k[0] * k[1] + v[0] * v[1]) * (double)attune_dtype_size_bytes(args->k.dtype);
}

/* Keys of all sequences, visible or not. */
static double keys_of(const attune_attention_args *args) {
    double keys = (double)args->k.shape[0];
    return args->k.rank == 4 ? keys * (double)args->k.shape[1] : keys;
}

static enum tool_exit get_ceiling(const struct workload *workload, struct work *work) {
    attune_device_limits limits = {.struct_size = sizeof limits};
    attune_status status = attune_device_get_limits(workload->tensors.device, &limits);
    if (status != ATTUNE_OK) {
        return tool_fail_library(status);
    }
    /* The peak is that of f32; matrix units have another one for each of the shorter dtypes. */
    bool has_peak = limits.is_cpu || workload->attention.q.dtype == ATTUNE_DTYPE_F32;
    const struct ceiling ceiling = ceiling_of(&limits);
    bool is_transfer = workload->options.work == WORK_DECODE || workload->options.work == WORK_APPEND;
    work->ceiling_seconds = 0;
    if (ceiling.flops_per_second > 0 && ceiling.bytes_per_second > 0 && (has_peak || is_transfer)) {
        work->ceiling_seconds =
            fmax(has_peak ? work->flops / ceiling.flops_per_second : 0, work->bytes / ceiling.bytes_per_second);
    }
    return TOOL_OK;
}

enum tool_exit work_count(struct workload *workload, const attune_explanation *explanation, struct work *out_work) {
    const attune_attention_args *args = &workload->attention;
    struct counts counts;
    *out_work = (struct work){.flops = explanation->flops, .bytes = explanation->bytes};
    if (workload->op != ATTUNE_OP_APPEND && explanation->visible_pairs > 0) {
        enum tool_exit status = count(workload, &counts);
        if (status) {
            return status;
        }
        out_work->flops *= counts.pairs / explanation->visible_pairs;
        out_work->is_bound = args->mask.dtype != ATTUNE_DTYPE_NONE;
        if (workload->op == ATTUNE_OP_FORWARD) {
            out_work->bytes -= (keys_of(args) - counts.keys) * key_bytes(args);
        }
    }
    return get_ceiling(workload, out_work);
}
