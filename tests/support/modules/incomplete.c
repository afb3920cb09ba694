/*
 * A module that leaves out an entry that core cannot do without.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/stub_backend.h"

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    static attune_backend backend;
    (void)host_abi_major;
    (void)host;
    backend = stub_backend("incomplete", -7);
    backend.event_wait = NULL;
    return &backend;
}
