/*
 * A module whose table is shorter than the first version of this ABI.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend.h"

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    static attune_backend backend = {.struct_size = offsetof(attune_backend, name),
                                     .abi_major = ATTUNE_BACKEND_ABI_MAJOR};
    (void)host_abi_major;
    (void)host;
    return &backend;
}
