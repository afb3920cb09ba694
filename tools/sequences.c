/* SPDX-License-Identifier: Apache-2.0 */
#include "sequences.h"

#include <stdlib.h>

#include "arguments.h"

/* Entries of the tensors of lengths; NULL where one is absent. */
struct lengths {
    int32_t *cu_seqlens_q;
    int32_t *cu_seqlens_k;
    int32_t *seqused_q;
    int32_t *seqused_k;
    int32_t *leftpad_k;
};

static enum tool_exit get(struct tensors *tensors, const attune_tensor *tensor, int32_t **out_entries) {
    void *entries = NULL;
    enum tool_exit status = TOOL_OK;
    if (tensor->dtype != ATTUNE_DTYPE_NONE) {
        status = tensors_get(tensors, tensor, &entries);
    }
    *out_entries = entries;
    return status;
}

static enum tool_exit get_lengths(struct tensors *tensors, const attune_attention_args *args,
                                  struct lengths *out_lengths) {
    *out_lengths = (struct lengths){0};
    enum tool_exit status = get(tensors, &args->cu_seqlens_q, &out_lengths->cu_seqlens_q);
    if (!status) {
        status = get(tensors, &args->cu_seqlens_k, &out_lengths->cu_seqlens_k);
    }
    if (!status) {
        status = get(tensors, &args->seqused_q, &out_lengths->seqused_q);
    }
    if (!status) {
        status = get(tensors, &args->seqused_k, &out_lengths->seqused_k);
    }
    return status ? status : get(tensors, &args->leftpad_k, &out_lengths->leftpad_k);
}

static void release_lengths(struct lengths *lengths) {
    free(lengths->leftpad_k);
    free(lengths->seqused_k);
    free(lengths->seqused_q);
    free(lengths->cu_seqlens_k);
    free(lengths->cu_seqlens_q);
}

static void set_window(const attune_attention_args *args, attune_mask *mask) {
    mask->left = args->window.set ? args->window.left : -1;
    mask->right = args->window.set ? args->window.right : -1;
    if (args->causal) {
        mask->right = 0;
    }
}

static struct sequence make(const attune_attention_args *args, const struct lengths *lengths, int64_t b) {
    struct sequence sequence = {.batch_q = lengths->cu_seqlens_q ? 0 : b, .batch_k = lengths->cu_seqlens_k ? 0 : b};
    attune_mask *mask = &sequence.mask;
    mask->rows = args->q.shape[1];
    mask->keys = args->k.shape[1];
    if (lengths->cu_seqlens_q) {
        sequence.first_row = lengths->cu_seqlens_q[b];
        mask->rows = lengths->cu_seqlens_q[b + 1] - sequence.first_row;
    }
    if (lengths->cu_seqlens_k) {
        sequence.first_key = lengths->cu_seqlens_k[b];
        mask->keys = lengths->cu_seqlens_k[b + 1] - sequence.first_key;
    }
    if (lengths->seqused_q) {
        mask->rows = lengths->seqused_q[b];
    }
    if (lengths->seqused_k) {
        mask->keys = lengths->seqused_k[b];
    }
    mask->leftpad = lengths->leftpad_k ? lengths->leftpad_k[b] : 0;
    mask->shift = attune_mask_shift(args->align == ATTUNE_ALIGN_BOTTOM_RIGHT, args->diagonal, mask->rows, mask->keys);
    set_window(args, mask);
    return sequence;
}

enum tool_exit sequences_read(struct tensors *tensors, const attune_attention_args *args,
                              struct sequences *out_sequences) {
    struct lengths lengths;
    struct sequences sequences = {.count = arguments_batch(args)};
    enum tool_exit status = get_lengths(tensors, args, &lengths);
    if (!status) {
        sequences.item = malloc((sequences.count > 0 ? (size_t)sequences.count : 1) * sizeof *sequences.item);
        status = sequences.item ? TOOL_OK : tool_fail_memory();
    }
    for (int64_t b = 0; !status && b < sequences.count; b++) {
        sequences.item[b] = make(args, &lengths, b);
    }
    release_lengths(&lengths);
    *out_sequences = sequences;
    return status;
}

void sequences_release(struct sequences *sequences) {
    free(sequences->item);
    *sequences = (struct sequences){0};
}
