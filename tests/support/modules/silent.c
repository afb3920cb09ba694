/*
 * A module whose query gives nothing and no reason.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend.h"

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    (void)host_abi_major;
    (void)host;
    return NULL;
}
