/* core/portable as CUDA. SPDX-License-Identifier: Apache-2.0 */
#include "tests/portable/use_all.h"

/* Attributes in place of CUDA's keywords: clang has them without CUDA's headers. */
extern "C" __attribute__((global)) void attune_portable_proof(float *x, long long n) {
    *x = attune_use_all(*x, n);
}
