/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cpu/generic/not_finite.h"

#include "attune/backend_util.h"
#include "backends/cpu/generic/vector.h"

#define LANES   ATTUNE_GENERIC_LANES
#define VECTORS ATTUNE_GENERIC_VECTORS

struct generic_clean attune_generic_clean(struct generic_matrix matrix, int64_t rows, int64_t panels,
                                          struct generic_matrix room) {
    generic_vector sum = attune_generic_all(0.0f); /* 0, or NaN after anything that is not finite */
    for (int64_t panel = 0; panel < panels; panel++) {
        const generic_vector *from = (const generic_vector *)attune_generic_at(matrix, panel, 0);
        for (int64_t n = 0; n < rows * VECTORS; n++) {
            sum += from[n] * 0.0f;
        }
    }
    bool is_finite = true;
    for (int n = 0; n < ATTUNE_GENERIC_FLOATS; n++) {
        is_finite = is_finite && sum[n] == 0.0f;
    }
    for (int64_t panel = 0; panel < panels && !is_finite; panel++) {
        const generic_vector *from = (const generic_vector *)attune_generic_at(matrix, panel, 0);
        generic_vector *to = (generic_vector *)attune_generic_at(room, panel, 0);
        for (int64_t n = 0; n < rows * VECTORS; n++) {
            to[n] = attune_generic_select(from[n] * 0.0f == 0.0f, from[n], attune_generic_all(0.0f));
        }
    }
    return (struct generic_clean){is_finite ? matrix : room, !is_finite};
}

static bool is_finite(float x) {
    return x * 0.0f == 0.0f;
}

/* One number of one row. weight, factor: of its lane. */
static void add_row(float x, struct generic_span span, int64_t d, const float *weight, const float *factor,
                    struct generic_matrix out) {
    for (int64_t j = span.begin; j < attune_min(span.end, span.count); j++) {
        if (attune_generic_is_seen(weight[j * LANES])) {
            attune_generic_at(out, d / LANES, j)[d % LANES] += factor[j * LANES] * x;
        }
    }
}

void attune_generic_add_not_finite_rows(const struct generic_tile *tile, attune_interval keys, float *x, int64_t length,
                                        struct generic_matrix weight, struct generic_matrix factor,
                                        struct generic_matrix out) {
    for (int64_t s = 0; s < tile->strips; s++) {
        const struct generic_span span = attune_generic_strip_span(&tile->strip[s], keys);
        const float *panel = attune_generic_panel(x, s, length);
        for (int64_t n = 0; n < length * LANES; n++) {
            const int64_t lane = n % LANES;
            if (lane < tile->strip[s].lanes && !is_finite(panel[n])) {
                add_row(panel[n], span, n / LANES, attune_generic_at(weight, s, 0) + lane,
                        attune_generic_at(factor, s, 0) + lane, out);
            }
        }
    }
}

void attune_generic_add_not_finite_keys(struct generic_matrix x, struct generic_span span, int64_t length,
                                        const float *weight, const float *factor, float *out) {
    for (int64_t j = span.begin; j < attune_min(span.end, span.count); j++) {
        for (int64_t d = 0; d < length; d++) {
            const float number = attune_generic_at(x, d / LANES, j)[d % LANES];
            for (int64_t lane = 0; lane < LANES && !is_finite(number); lane++) {
                if (attune_generic_is_seen(weight[j * LANES + lane])) {
                    out[d * LANES + lane] += factor[j * LANES + lane] * number;
                }
            }
        }
    }
}
