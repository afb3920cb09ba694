/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/image.h"

/* Source: Press et al., Numerical Recipes, 2nd edition, section 7.1. */
static float draw(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return (float)(*seed >> 8) / (float)(1 << 23) - 1.0F;
}

static void draw_values(float *values, size_t bytes, uint32_t *seed) {
    for (size_t index = 0; index < bytes / sizeof *values; index++) {
        values[index] = draw(seed);
    }
}

void image_fill(struct image *image, uint32_t seed) {
    memset(image, 0, sizeof *image);
    draw_values(image->q, sizeof image->q, &seed);
    draw_values(image->k, sizeof image->k, &seed);
    draw_values(image->v, sizeof image->v, &seed);
    draw_values(image->dout, sizeof image->dout, &seed);
    draw_values(image->other_lse, sizeof image->other_lse, &seed);
    draw_values(image->new_k, sizeof image->new_k, &seed);
    draw_values(image->new_v, sizeof image->new_v, &seed);
    image->lengths[0] = 3;
    image->lengths[1] = 6;
}

attune_forward_args image_forward_args(void *data) {
    attune_forward_args args = attune_forward_args_init();
    args.q = image_q(data);
    args.k = image_k(data);
    args.v = image_v(data);
    args.o = image_o(data);
    args.lse = image_lse(data);
    args.seqused_k = image_lengths(data);
    args.causal = true;
    return args;
}

attune_backward_args image_backward_args(void *data) {
    attune_backward_args args = image_forward_args(data);
    args.dout = image_dout(data);
    args.dq = image_dq(data);
    args.dk = image_dk(data);
    args.dv = image_dv(data);
    return args;
}

static attune_status merge(attune_device *device, attune_stream *stream, void *data) {
    const attune_tensor part_o[] = {image_o(data), image_dout(data)};
    const attune_tensor part_lse[] = {image_lse(data), image_other_lse(data)};
    attune_merge_args args = attune_merge_args_init();
    args.parts = 2;
    args.part_o = part_o;
    args.part_lse = part_lse;
    args.o = image_merged_o(data);
    args.lse = image_merged_lse(data);
    return attune_merge(device, stream, &args);
}

static attune_status append(attune_device *device, attune_stream *stream, void *data) {
    attune_kvcache_append_args args = attune_kvcache_append_args_init();
    args.k_cache = image_k(data);
    args.v_cache = image_v(data);
    args.k_new = image_new_k(data);
    args.v_new = image_new_v(data);
    args.seqused_k = image_lengths(data);
    return attune_kvcache_append(device, stream, &args);
}

static attune_status quantize(attune_device *device, attune_stream *stream, void *data) {
    attune_quantize_args args = attune_quantize_args_init();
    args.x = image_q(data);
    args.y = image_stored(data);
    args.descale = image_descale(data);
    return attune_quantize(device, stream, &args);
}

attune_status image_run_all(attune_device *device, attune_stream *stream, void *data) {
    const attune_forward_args forward_args = image_forward_args(data);
    const attune_backward_args backward_args = image_backward_args(data);
    attune_status status = attune_forward(device, stream, &forward_args);
    if (status == ATTUNE_OK) {
        status = attune_backward(device, stream, &backward_args);
    }
    if (status == ATTUNE_OK) {
        status = merge(device, stream, data);
    }
    if (status == ATTUNE_OK) {
        status = append(device, stream, data);
    }
    return status == ATTUNE_OK ? quantize(device, stream, data) : status;
}

attune_status image_upload(attune_device *device, attune_stream *stream, void *data, const struct image *image) {
    return attune_memory_copy(device, stream, ATTUNE_COPY_HOST_TO_DEVICE, data, 0, image, 0, sizeof *image);
}

attune_status image_download(attune_device *device, attune_stream *stream, struct image *image, const void *data) {
    return attune_memory_copy(device, stream, ATTUNE_COPY_DEVICE_TO_HOST, image, 0, data, 0, sizeof *image);
}
