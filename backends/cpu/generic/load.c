/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/load.h"

#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/generic/product.h"
#include "core/portable/convert.h"

#define LANES ATTUNE_GENERIC_LANES

/* ---- From a dtype ----
 *
 * As core/portable/convert.h has it, but without a branch, so that a loop of it becomes one of vectors. */

/* All bits where a is less than b, both below 2^31. */
static inline uint32_t where_less(uint32_t a, uint32_t b) {
    return (uint32_t)((int32_t)(a - b) >> 31);
}

static inline uint32_t select_bits(uint32_t where, uint32_t a, uint32_t b) {
    return (where & a) | (~where & b);
}

static inline float from_f16(uint16_t code) {
    const uint32_t magnitude = code & 0x7FFFu;
    const uint32_t rebias = 112u << 23;
    const uint32_t subnormal = attune_f32_to_bits((float)(int32_t)magnitude * 0x1p-24f);
    const uint32_t normal = (magnitude << 13) + rebias + (where_less(0x7BFFu, magnitude) & rebias);
    return attune_f32_from_bits((uint32_t)(code & 0x8000u) << 16 |
                                select_bits(where_less(magnitude, 0x400u), subnormal, normal));
}

static inline float from_e4m3(uint8_t code) {
    const uint32_t magnitude = code & 0x7Fu;
    const uint32_t subnormal = attune_f32_to_bits((float)(int32_t)magnitude * 0x1p-9f);
    const uint32_t number = select_bits(where_less(magnitude, 8u), subnormal, (magnitude << 20) + (120u << 23));
    return attune_f32_from_bits((uint32_t)(code & 0x80u) << 24 |
                                select_bits(where_less(0x7Eu, magnitude), 0x7FC00000u, number));
}

/* dtype is a constant where this is called. */
ATTUNE_GENERIC_INLINE float element(attune_dtype dtype, const void *array, int64_t index) {
    switch (dtype) {
    case ATTUNE_DTYPE_F32:
        return ((const float *)array)[index];
    case ATTUNE_DTYPE_F16:
        return from_f16(((const uint16_t *)array)[index]);
    case ATTUNE_DTYPE_BF16:
        return attune_f32_from_bf16(((const uint16_t *)array)[index]);
    default:
        return from_e4m3(((const uint8_t *)array)[index]);
    }
}

/* A line of lanes, of which the array has only so many. */
ATTUNE_GENERIC_INLINE void load_line(attune_dtype dtype, const void *array, int64_t index, int64_t count, float scale,
                                     float *out) {
    if (count >= LANES) {
        ATTUNE_GENERIC_SIMD
        for (int n = 0; n < LANES; n++) {
            out[n] = element(dtype, array, index + n) * scale;
        }
        return;
    }
    for (int n = 0; n < LANES; n++) {
        out[n] = n < count ? element(dtype, array, index + n) * scale : 0.0f;
    }
}

/* Line after line; stride: from one to the next in out. */
ATTUNE_GENERIC_INLINE void load_lines(attune_dtype dtype, const void *array, int64_t count, float scale, float *out,
                                      int64_t stride) {
    for (int64_t index = 0; index < count; index += LANES) {
        load_line(dtype, array, index, count - index, scale, out);
        out += stride;
    }
}

static void load(attune_dtype dtype, const void *array, int64_t count, float scale, float *out, int64_t stride) {
    switch (dtype) {
    case ATTUNE_DTYPE_F32:
        load_lines(ATTUNE_DTYPE_F32, array, count, scale, out, stride);
        break;
    case ATTUNE_DTYPE_F16:
        load_lines(ATTUNE_DTYPE_F16, array, count, scale, out, stride);
        break;
    case ATTUNE_DTYPE_BF16:
        load_lines(ATTUNE_DTYPE_BF16, array, count, scale, out, stride);
        break;
    default:
        load_lines(ATTUNE_DTYPE_E4M3, array, count, scale, out, stride);
        break;
    }
}

void attune_generic_load_array(attune_dtype dtype, const void *array, int64_t count, float scale, float *out) {
    load(dtype, array, count, scale, out, LANES);
}

static void load_vector(const struct reference_vectors *vectors, int64_t position, float *out, int64_t stride) {
    load(vectors->dtype, attune_reference_vector_address(vectors, position), vectors->length,
         (float)attune_reference_descale(vectors, position), out, stride);
}

void attune_generic_load_vector(const struct reference_vectors *vectors, int64_t position, float *out) {
    load_vector(vectors, position, out, LANES);
}

#define ROWS_AHEAD       8
#define CACHE_LINE_BYTES 64

/* A row lies far from the last one, often in another page: no hardware foresees it. */
static void prefetch(const struct reference_vectors *vectors, int64_t position) {
    const char *array = attune_reference_vector_address(vectors, position);
    const int64_t bytes = vectors->length * attune_element_bytes(vectors->dtype);
    for (int64_t n = 0; n < bytes; n += CACHE_LINE_BYTES) {
        __builtin_prefetch(array + n);
    }
}

void attune_generic_prefetch_rows(const struct reference_vectors *vectors, int64_t first, int64_t count) {
    for (int64_t position = first; position < first + count; position++) {
        prefetch(vectors, position);
    }
}

void attune_generic_load_rows(const struct reference_vectors *vectors, int64_t first, int64_t count,
                              struct generic_matrix out) {
    const int64_t block = ATTUNE_GENERIC_BLOCK;
    const int64_t rows = (count + block - 1) / block * block;
    const int64_t stride = out.rows * LANES;
    for (int64_t row = 0; row < count; row++) {
        if (row + ROWS_AHEAD < count) {
            prefetch(vectors, first + row + ROWS_AHEAD);
        }
        load_vector(vectors, first + row, attune_generic_at(out, 0, row), stride);
    }
    for (int64_t panel = 0; panel < attune_generic_panels(vectors->length) && count < rows; panel++) {
        memset(attune_generic_at(out, panel, count), 0, (size_t)((rows - count) * LANES) * sizeof(float));
    }
}

void attune_generic_load_lane(const struct reference_vectors *vectors, int64_t position, float *out) {
    float line[ATTUNE_GENERIC_LENGTH_MAX];
    load_vector(vectors, position, line, LANES);
    for (int64_t d = 0; d < vectors->length; d++) {
        out[d * LANES] = line[d];
    }
}

float attune_generic_load_element(attune_dtype dtype, const void *at) {
    switch (dtype) {
    case ATTUNE_DTYPE_F32:
        return element(ATTUNE_DTYPE_F32, at, 0);
    case ATTUNE_DTYPE_F16:
        return element(ATTUNE_DTYPE_F16, at, 0);
    case ATTUNE_DTYPE_BF16:
        return element(ATTUNE_DTYPE_BF16, at, 0);
    default:
        return element(ATTUNE_DTYPE_E4M3, at, 0);
    }
}

/* ---- To a dtype ---- */

void attune_generic_store_element(attune_dtype dtype, void *at, float value) {
    switch (dtype) {
    case ATTUNE_DTYPE_F32:
        *(float *)at = value;
        break;
    case ATTUNE_DTYPE_F16:
        *(uint16_t *)at = attune_f16_from_f32(value);
        break;
    case ATTUNE_DTYPE_BF16:
        *(uint16_t *)at = attune_bf16_from_f32(value);
        break;
    default:
        *(uint8_t *)at = attune_e4m3_from_f32(value);
        break;
    }
}

void attune_generic_store_array(attune_dtype dtype, void *array, int64_t count, const float *values) {
    const int64_t size = attune_element_bytes(dtype);
    for (int64_t d = 0; d < count; d++) {
        attune_generic_store_element(dtype, (char *)array + d * size, values[d]);
    }
}

void attune_generic_store_vector(const struct reference_vectors *vectors, int64_t position, const float *values) {
    attune_generic_store_array(vectors->dtype, attune_reference_vector_address(vectors, position), vectors->length,
                               values);
}

void attune_generic_store_lane(const struct reference_vectors *vectors, int64_t position, const float *values,
                               float factor) {
    float line[ATTUNE_GENERIC_LENGTH_MAX];
    for (int64_t d = 0; d < vectors->length; d++) {
        line[d] = values[d * LANES] * factor;
    }
    attune_generic_store_vector(vectors, position, line);
}

void attune_generic_store_rows(const struct reference_vectors *vectors, int64_t first, int64_t count,
                               struct generic_matrix rows, float factor) {
    float line[ATTUNE_GENERIC_LENGTH_MAX];
    for (int64_t row = 0; row < count; row++) {
        for (int64_t d = 0; d < vectors->length; d++) {
            line[d] = attune_generic_at(rows, d / LANES, row)[d % LANES] * factor;
        }
        attune_generic_store_vector(vectors, first + row, line);
    }
}
