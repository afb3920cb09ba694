/*
 * How near a result is to the reference's, and how near it has to be: docs/semantics.md, "Accuracy", in norm.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_CLOSENESS_H
#define ATTUNE_TOOLS_CLOSENESS_H

#include "verify.h"

/* All zeros is nothing compared yet. */
struct closeness {
    int64_t count;
    double difference; /* squares */
    double norm;
    double lse;       /* the largest |x - g| / max(1, |g|) */
    double lse_wide;  /* and / max(1, |g| / 1000), the measure for all dtypes but f32 */
    bool has_strayed; /* NaN or infinity where the other has none */
};

void closeness_add(struct closeness *closeness, const float *values, const double *exact, int64_t count);

/* Each is infinite where a value strayed. */
double closeness_norm(const struct closeness *closeness);

/* Of dq and dk. Where rows see one key only the exact ones are 0: dP - D cancels to rounding errors. Those are held to
 * elements as large as dv's, which nothing cancels, or as 1 where there is no dv to compare. */
double closeness_score_gradient(const struct closeness *closeness, const struct closeness *dv);
double closeness_lse(const struct closeness *closeness, attune_dtype dtype);

double closeness_lse_limit(attune_dtype dtype);

/* Lets a result take part in the verdict. */
void verdict_add(struct verdict *verdict, const char *result, double error, double limit);

#endif
