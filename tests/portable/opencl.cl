/* core/portable as OpenCL C 1.2. SPDX-License-Identifier: Apache-2.0 */
#include "tests/portable/use_all.h"

__kernel void attune_portable_proof(__global float *x, long n) {
    x[get_global_id(0)] = attune_use_all(x[get_global_id(0)], n);
}
