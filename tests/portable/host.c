/* core/portable as C11 and as C++17. SPDX-License-Identifier: Apache-2.0 */
#include "tests/portable/use_all.h"

float attune_portable_proof(float x, int64_t n);

float attune_portable_proof(float x, int64_t n) {
    return attune_use_all(x, n);
}
