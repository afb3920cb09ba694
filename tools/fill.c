/* SPDX-License-Identifier: Apache-2.0 */
#include "fill.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"

/* ---- Floats ---- */

enum { POOL_SIZE = 1 << 16, DRAWS_PER_WORD = 4 };

/* Elements are drawn from a pool: as random as normal numbers for the hardware, and made at the speed of memory. */
static void draw(const unsigned char *pool, size_t element_bytes, int64_t count, struct random *random,
                 unsigned char *out_elements) {
    uint64_t word = 0;
    for (int64_t i = 0; i < count; i++) {
        word = i % DRAWS_PER_WORD == 0 ? random_next(random) : word >> 16;
        memcpy(out_elements + (size_t)i * element_bytes, pool + (word % POOL_SIZE) * element_bytes, element_bytes);
    }
}

enum tool_exit fill_normal(struct tensors *tensors, const attune_tensor *tensor, struct random *random) {
    static float normals[POOL_SIZE];
    static float pool[POOL_SIZE];
    int64_t count = tensor->dtype == ATTUNE_DTYPE_NONE ? 0 : tensor_count(tensor);
    size_t element_bytes = attune_dtype_size_bytes(tensor->dtype);
    if (tensors->shapes_only || count == 0) {
        return TOOL_OK;
    }
    for (int i = 0; i < POOL_SIZE; i++) {
        normals[i] = (float)random_normal(random);
    }
    floats_round(normals, ARRAY_F32, POOL_SIZE, tensor->dtype, pool);
    unsigned char *elements = malloc((size_t)count * element_bytes);
    if (!elements) {
        return tool_fail_memory();
    }
    draw((const unsigned char *)pool, element_bytes, count, random, elements);
    enum tool_exit status = tensors_set(tensors, tensor, elements);
    free(elements);
    return status;
}

/* ---- Integers ---- */

static enum tool_exit upload(struct tensors *tensors, int rank, const int64_t *shape, const int32_t *values,
                             attune_tensor *out_tensor) {
    enum tool_exit status = tensors_create(tensors, ATTUNE_DTYPE_I32, rank, shape, out_tensor);
    return status || tensors->shapes_only ? status : tensors_set(tensors, out_tensor, values);
}

/* Room for count entries of int32, or NULL after a failure that was told. */
static int32_t *allocate(int64_t count, const char *what) {
    if (count > INT32_MAX) {
        (void)tool_fail(TOOL_BAD_INPUT, "%" PRId64 " %s: must fit in 32 bits", count, what);
        return NULL;
    }
    int32_t *values = malloc((count > 0 ? (size_t)count : 1) * sizeof *values);
    if (!values) {
        (void)tool_fail_memory();
    }
    return values;
}

enum tool_exit fill_lengths(struct tensors *tensors, int64_t count, int64_t length, attune_tensor *out_tensor) {
    if (length < 0 || length > INT32_MAX) {
        return tool_fail(TOOL_BAD_INPUT, "--seqused-k: a length of %" PRId64 ": must be 0 or more and fit in 32 bits",
                         length);
    }
    int32_t *values = allocate(count, "sequences");
    if (!values) {
        return TOOL_FAILED;
    }
    for (int64_t i = 0; i < count; i++) {
        values[i] = (int32_t)length;
    }
    enum tool_exit status = upload(tensors, 1, &count, values, out_tensor);
    free(values);
    return status;
}

/* Fisher and Yates. */
static void shuffle(int32_t *values, int64_t count, struct random *random) {
    for (int64_t i = count - 1; i > 0; --i) {
        int64_t other = random_below(random, i + 1);
        int32_t value = values[i];
        values[i] = values[other];
        values[other] = value;
    }
}

enum tool_exit fill_pages(struct tensors *tensors, int64_t batch, int64_t columns, struct random *random,
                          attune_tensor *out_tensor) {
    int64_t pages = columns > 0 && batch > INT32_MAX / columns ? INT64_MAX : batch * columns;
    int32_t *values = allocate(pages, "pages");
    if (!values) {
        return TOOL_FAILED;
    }
    for (int64_t i = 0; i < pages; i++) {
        values[i] = (int32_t)i;
    }
    shuffle(values, pages, random);
    enum tool_exit status = upload(tensors, 2, (int64_t[]){batch, columns}, values, out_tensor);
    free(values);
    return status;
}
