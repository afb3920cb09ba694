/*
 * A module that needs a library which is not there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/stub_backend.h"

int absent_value(void);

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    static attune_backend backend;
    (void)host_abi_major;
    (void)host;
    backend = stub_backend("missing", absent_value());
    return &backend;
}
