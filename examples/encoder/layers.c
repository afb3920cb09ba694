/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <math.h>
#include <string.h>

#define NORM_EPSILON 1e-12

enum { ROWS_AT_ONCE = 4 }; /* that share a row of W in the cache */

static void add_products(const struct linear *linear, int64_t rows, const float *x, float *y) {
    for (int64_t i = 0; i < linear->inputs; i++) {
        const float *weight = linear->weight + i * linear->outputs;
        for (int64_t row = 0; row < rows; row++) {
            float factor = x[row * linear->inputs + i];
            for (int64_t o = 0; o < linear->outputs; o++) {
                y[row * linear->outputs + o] += factor * weight[o];
            }
        }
    }
}

void linear_apply(const struct linear *linear, int64_t rows, const float *x, float *out_y) {
#pragma omp parallel for
    for (int64_t first = 0; first < rows; first += ROWS_AT_ONCE) {
        int64_t count = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
        float *y = out_y + first * linear->outputs;
        for (int64_t row = 0; row < count; row++) {
            memcpy(y + row * linear->outputs, linear->bias, (size_t)linear->outputs * sizeof *y);
        }
        add_products(linear, count, x + first * linear->inputs, y);
    }
}

static void norm_row(const struct norm *norm, float *x, const float *y) {
    double mean = 0;
    double variance = 0;
    for (int64_t i = 0; i < norm->width; i++) {
        x[i] += y[i];
        mean += (double)x[i] / (double)norm->width;
    }
    for (int64_t i = 0; i < norm->width; i++) {
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)norm->width;
    }
    double factor = 1 / sqrt(variance + NORM_EPSILON);
    for (int64_t i = 0; i < norm->width; i++) {
        x[i] = (float)(((double)x[i] - mean) * factor) * norm->weight[i] + norm->bias[i];
    }
}

void norm_add(const struct norm *norm, int64_t rows, float *x, const float *y) {
    for (int64_t row = 0; row < rows; row++) {
        norm_row(norm, x + row * norm->width, y + row * norm->width);
    }
}

void gelu(int64_t count, float *x) {
    for (int64_t i = 0; i < count; i++) {
        x[i] = 0.5F * x[i] * (1 + erff(x[i] * 0.70710678F));
    }
}
