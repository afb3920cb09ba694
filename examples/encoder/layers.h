/*
 * What an encoder has besides attention, in plain f32: matrix products, normalisation, GELU.
 *
 * Activations are rows of a row-major matrix, one for each token.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ENCODER_LAYERS_H
#define ENCODER_LAYERS_H

#include <stdint.h>

/* y = x W + b. weight: (inputs, outputs), so that the innermost loop runs along both W and y. */
struct linear {
    int64_t inputs;
    int64_t outputs;
    float *weight;
    float *bias;
};

/* x: (rows, inputs); out_y: (rows, outputs), not x. */
void linear_apply(const struct linear *linear, int64_t rows, const float *x, float *out_y);

struct norm {
    int64_t width;
    float *weight;
    float *bias;
};

/* x = norm(x + y), row by row, to mean 0 and variance 1. Source: Ba et al., Layer Normalization (arXiv 1607.06450). */
void norm_add(const struct norm *norm, int64_t rows, float *x, const float *y);

/* Source: Hendrycks and Gimpel, Gaussian Error Linear Units (arXiv 1606.08415), the exact form. */
void gelu(int64_t count, float *x);

#endif
