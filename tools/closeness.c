/* SPDX-License-Identifier: Apache-2.0 */
#include "closeness.h"

#include <math.h>

void closeness_add(struct closeness *closeness, const float *values, const double *exact, int64_t count) {
    closeness->count += count;
    for (int64_t i = 0; i < count; i++) {
        double x = values[i];
        double g = exact[i];
        if (x == g || (isnan(x) && isnan(g))) {
            closeness->norm += isfinite(g) ? g * g : 0;
        } else if (!isfinite(x) || !isfinite(g)) {
            closeness->has_strayed = true;
        } else {
            closeness->difference += (x - g) * (x - g);
            closeness->norm += g * g;
            closeness->lse = fmax(closeness->lse, fabs(x - g) / fmax(1, fabs(g)));
            closeness->lse_wide = fmax(closeness->lse_wide, fabs(x - g) / fmax(1, fabs(g) / 1000));
        }
    }
}

double closeness_norm(const struct closeness *closeness) {
    if (closeness->has_strayed) {
        return INFINITY;
    }
    return closeness->difference == 0 ? 0 : sqrt(closeness->difference / closeness->norm);
}

double closeness_score_gradient(const struct closeness *closeness, const struct closeness *dv) {
    double usual = dv->count > 0 ? sqrt(dv->norm / (double)dv->count) : 1;
    double usual_norm = usual * sqrt((double)closeness->count);
    if (closeness->has_strayed || sqrt(closeness->norm) > 1e-4 * usual_norm) {
        return closeness_norm(closeness);
    }
    return closeness->difference == 0 ? 0 : sqrt(closeness->difference) / usual_norm;
}

double closeness_lse(const struct closeness *closeness, attune_dtype dtype) {
    if (closeness->has_strayed) {
        return INFINITY;
    }
    return dtype == ATTUNE_DTYPE_F32 ? closeness->lse : closeness->lse_wide;
}

double closeness_lse_limit(attune_dtype dtype) {
    return dtype == ATTUNE_DTYPE_F32 ? 1e-5 : 1e-3;
}

void verdict_add(struct verdict *verdict, const char *result, double error, double limit) {
    verdict->is_right = verdict->is_right && error <= limit;
    if (error / limit >= verdict->error / verdict->limit) {
        verdict->error = error;
        verdict->limit = limit;
        verdict->result = result;
    }
}
