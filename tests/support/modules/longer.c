/*
 * A module of this ABI with a later minor version: its table has entries at the end that core does not know.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/stub_backend.h"

const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major, const attune_host_services *host) {
    static struct {
        attune_backend known;
        void (*unknown)(void *);
    } backend;
    (void)host_abi_major;
    (void)host;
    backend.known = stub_backend("longer", -6);
    backend.known.struct_size = sizeof backend;
    backend.known.abi_minor = ATTUNE_BACKEND_ABI_MINOR + 1;
    backend.unknown = stub_close;
    return &backend.known;
}
