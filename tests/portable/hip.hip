/* core/portable as HIP without its headers. SPDX-License-Identifier: Apache-2.0 */
#include "tests/portable/use_all.h"

extern "C" __attribute__((global)) void attune_portable_proof(float *x, long long n) {
    *x = attune_use_all(*x, n);
}
