/*
 * A module of a later ABI, whose table may look like anything past its first fields.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/backend.h"

struct later_backend {
    size_t struct_size;
    int32_t abi_major;
};

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    static const struct later_backend backend = {sizeof backend + 4096, ATTUNE_BACKEND_ABI_MAJOR + 1};
    (void)host_abi_major;
    (void)host;
    return (const attune_backend *)(const void *)&backend;
}
