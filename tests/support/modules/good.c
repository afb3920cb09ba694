/*
 * A module with nothing wrong.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/stub_backend.h"

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    static attune_backend backend;
    static int query_count;
    (void)host_abi_major;
    backend = stub_backend("good", -5);
    if (++query_count > 1) {
        (void)host->fail(ATTUNE_INCOMPATIBLE, "asked twice");
        return NULL;
    }
    return &backend;
}
