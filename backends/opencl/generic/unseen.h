/*
 * The weight of a pair that is not seen.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_UNSEEN_H
#define ATTUNE_OPENCL_GENERIC_UNSEEN_H

#include "backends/opencl/generic/place.h"

/* Where what it would be multiplied with may not be finite: 0 times that is NaN. The 0 of any other pair has no sign.
 */
#define UNSEEN (-0.0f)

FN bool is_seen(float weight) {
    return as_uint(weight) != as_uint(UNSEEN);
}

#endif
