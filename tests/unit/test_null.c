/*
 * The smallest backend, and with it the memory, streams and events that core lends to a backend without them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "attune/attune.h"
#include "tests/support/image.h"

static attune_device *device;

static int start(void **state) {
    (void)state;
    setenv("ATTUNE_BACKEND_PATH", TEST_MODULE_DIR, 1);
    if (attune_device_open("null", &device) != ATTUNE_OK) {
        print_error("%s\n", attune_last_error());
        return -1;
    }
    return 0;
}

static int stop(void **state) {
    (void)state;
    attune_device_close(device);
    return 0;
}

/* ---- The kernel ---- */

enum { BATCH = 2, ROWS = 5, HEADS_Q = 4, HEADS_KV = 2, DIM = 8 };

static attune_forward_args plain_args(struct image *image, int64_t keys) {
    attune_forward_args args = attune_forward_args_init();
    args.q = image_q(image);
    args.k = image_k(image);
    args.v = image_v(image);
    args.k.shape[1] = args.v.shape[1] = keys; /* of the 7 that there are: the strides stay */
    args.o = image_o(image);
    args.lse = image_lse(image);
    return args;
}

static double element(const attune_tensor *tensor, int64_t b, int64_t s, int64_t h, int64_t d) {
    const float *first = (const float *)(const void *)((const char *)tensor->data + tensor->byte_offset);
    return first[b * tensor->stride[0] + s * tensor->stride[1] + h * tensor->stride[2] + d * tensor->stride[3]];
}

/* The formula of docs/semantics.md in double, by two passes. */
static void expect_row(const attune_forward_args *args, double scale, const int64_t at[3], double out_o[DIM],
                       double *out_lse) {
    const int64_t kv_head = at[2] / (HEADS_Q / HEADS_KV);
    double scores[16];
    double max = -INFINITY;
    double sum = 0;
    for (int64_t j = 0; j < args->k.shape[1]; j++) {
        double dot = 0;
        for (int64_t d = 0; d < DIM; d++) {
            dot += element(&args->q, at[0], at[1], at[2], d) * element(&args->k, at[0], j, kv_head, d);
        }
        scores[j] = scale * dot;
        max = fmax(max, scores[j]);
    }
    for (int64_t d = 0; d < DIM; d++) {
        out_o[d] = 0;
    }
    for (int64_t j = 0; j < args->k.shape[1]; j++) {
        const double weight = exp(scores[j] - max);
        sum += weight;
        for (int64_t d = 0; d < DIM; d++) {
            out_o[d] += weight * element(&args->v, at[0], j, kv_head, d);
        }
    }
    for (int64_t d = 0; d < DIM && sum > 0; d++) {
        out_o[d] /= sum;
    }
    *out_lse = sum > 0 ? max + log(sum) : -INFINITY;
}

static void assert_forward(struct image *image, const attune_forward_args *args, double scale) {
    assert_ok(attune_forward(device, NULL, args));
    for (int64_t unit = 0; unit < BATCH * ROWS * HEADS_Q; unit++) {
        const int64_t at[] = {unit / HEADS_Q / ROWS, unit / HEADS_Q % ROWS, unit % HEADS_Q};
        double o[DIM];
        double lse = 0;
        expect_row(args, scale, at, o, &lse);
        for (int64_t d = 0; d < DIM; d++) {
            assert_true(fabs(element(&args->o, at[0], at[1], at[2], d) - o[d]) <= 1e-6);
        }
        const float given = image->lse[(at[0] * HEADS_Q + at[2]) * ROWS + at[1]];
        assert_true((double)given == lse || fabs((double)given - lse) <= 1e-6);
    }
}

static void forward_is_right(void **state) {
    (void)state;
    struct image image;
    image_fill(&image, 5);
    attune_forward_args args = plain_args(&image, 7);
    assert_forward(&image, &args, 1 / sqrt(DIM));
    args.scale = -3;
    assert_forward(&image, &args, -3);
    args.scale = 0;
    args.has_scale = true;
    assert_forward(&image, &args, 0);
}

static void rows_without_keys_are_zero(void **state) {
    (void)state;
    struct image image;
    image_fill(&image, 6);
    memset(image.o, 0xFF, sizeof image.o);
    const attune_forward_args args = plain_args(&image, 0);
    assert_forward(&image, &args, 1);
    assert_true(image.o[0] == 0 && image.lse[0] == -INFINITY);
}

static void infinite_scores(void **state) {
    (void)state;
    struct image image;
    image_fill(&image, 7);
    const attune_forward_args args = plain_args(&image, 7);
    image.q[0] = INFINITY; /* of row 0 and head 0, whose scores are then as the signs of k are */
    for (int j = 0; j < 7; j++) {
        image.k[j * HEADS_KV * DIM] = j == 4 ? 1.0F : -1.0F;
    }
    assert_ok(attune_forward(device, NULL, &args));
    assert_true(isnan(image.o[0]) && isnan(image.lse[0]));
    assert_true(!isnan(image.o[DIM]) && !isnan(image.lse[1]));
    image.k[4 * HEADS_KV * DIM] = -1.0F;
    assert_ok(attune_forward(device, NULL, &args));
    assert_true(image.o[0] == 0 && image.lse[0] == -INFINITY);
}

static void what_it_does_not_compute(void **state) {
    (void)state;
    struct image image;
    image_fill(&image, 8);
    attune_forward_args args = plain_args(&image, 7);
    args.softcap = 1;
    assert_fails(attune_forward(device, NULL, &args), ATTUNE_UNSUPPORTED, "null_forward: cannot do softcap");
    const attune_backward_args backward = image_backward_args(&image);
    assert_fails(attune_backward(device, NULL, &backward), ATTUNE_UNSUPPORTED, "null");
}

/* ---- What core lends ---- */

static void memory_is_the_host_s(void **state) {
    (void)state;
    void *data = NULL;
    uint8_t host[16];
    attune_memory_range range;
    assert_ok(attune_memory_alloc(device, ATTUNE_MEMORY_DEFAULT, 1000, &data));
    assert_int_equal((uintptr_t)data % 256, 0);
    assert_ok(attune_memory_fill(device, NULL, data, 10, 16, 9));
    assert_int_equal(((uint8_t *)data)[25], 9);
    assert_ok(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_HOST, host, 0, data, 12, 14));
    assert_int_equal(host[13], 9);
    assert_ok(attune_memory_copy(device, NULL, ATTUNE_COPY_DEVICE_TO_DEVICE, data, 900, data, 10, 16));
    assert_int_equal(((uint8_t *)data)[915], 9);
    assert_ok(attune_memory_get_range(device, (char *)data + 3, &range));
    assert_int_equal(range.offset, (uintptr_t)data + 3);
    assert_true(range.space == 0 && range.size_bytes == UINT64_MAX);
    attune_memory_free(device, data);
    data = NULL;
    assert_fails(attune_memory_alloc(device, ATTUNE_MEMORY_PINNED, 1, &data), ATTUNE_UNSUPPORTED, "kind = 2");
    assert_fails(attune_memory_alloc(device, ATTUNE_MEMORY_HOST, UINT64_MAX, &data), ATTUNE_OUT_OF_MEMORY, "bytes");
    assert_null(data);
}

static void streams_are_the_default_stream(void **state) {
    (void)state;
    struct image image;
    attune_stream *stream = NULL;
    bool capturing = true;
    image_fill(&image, 9);
    const attune_forward_args args = plain_args(&image, 7);
    assert_ok(attune_stream_create(device, &stream));
    assert_ok(attune_forward(device, stream, &args));
    assert_true(image.o[0] != 0); /* without a wait */
    assert_ok(attune_stream_is_capturing(device, stream, &capturing));
    assert_false(capturing);
    assert_ok(attune_stream_synchronize(device, stream));
    attune_stream_close(stream);
    assert_fails(attune_stream_wrap(device, &image, &stream), ATTUNE_UNSUPPORTED, "wrap");
}

static void events_are_the_host_s_time(void **state) {
    (void)state;
    const struct timespec a_while = {.tv_nsec = 20 * 1000 * 1000};
    attune_event *begin = NULL;
    attune_event *end = NULL;
    double seconds = -1;
    assert_ok(attune_event_create(device, &begin));
    assert_ok(attune_event_create(device, &end));
    assert_ok(attune_event_record(begin, NULL));
    nanosleep(&a_while, NULL);
    assert_ok(attune_event_record(end, NULL));
    assert_ok(attune_event_wait(end, NULL));
    assert_ok(attune_event_elapsed(begin, end, &seconds));
    assert_true(seconds >= 0.02 && seconds < 10);
    attune_event_close(end);
    attune_event_close(begin);
}

static void auto_never_takes_it(void **state) {
    (void)state;
    attune_device *chosen = NULL;
    attune_device_info info = {.struct_size = sizeof info};
    assert_ok(attune_device_open("auto", &chosen));
    assert_ok(attune_device_get_info(chosen, &info));
    assert_null(strstr(info.selector, "null"));
    attune_device_close(chosen);
    assert_fails(attune_device_open("null:1", &chosen), ATTUNE_NOT_FOUND, "null:1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_right),
        cmocka_unit_test(rows_without_keys_are_zero),
        cmocka_unit_test(infinite_scores),
        cmocka_unit_test(what_it_does_not_compute),
        cmocka_unit_test(memory_is_the_host_s),
        cmocka_unit_test(streams_are_the_default_stream),
        cmocka_unit_test(events_are_the_host_s_time),
        cmocka_unit_test(auto_never_takes_it),
    };
    return cmocka_run_group_tests_name("null", tests, start, stop);
}
