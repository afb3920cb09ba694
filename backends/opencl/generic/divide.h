/*
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_DIVIDE_H
#define ATTUNE_OPENCL_GENERIC_DIVIDE_H

#include "core/portable/target.h"

/* OpenCL's own quotient may be off by 2.5 units in the last place, which would change codes. */
ATTUNE_FN float divide(float a, float b) {
    const float rough = a / b;
    const float fine = fma(fma(-rough, b, a), 1.0f / b, rough);
    return fine - fine == 0.0f ? fine : rough;
}

#endif
