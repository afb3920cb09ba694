/*
 * A module whose query says why it cannot serve.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend.h"

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    (void)host->fail(ATTUNE_INCOMPATIBLE, "host_abi_major = %d: must be 77", (int)host_abi_major);
    return NULL;
}
