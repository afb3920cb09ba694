/*
 * builtin_backends.h is written by the build: a line BACKEND(name) for each backend that it links in.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/builtin.h"

#define BACKEND(name)                                                                                                  \
    const attune_backend *attune_##name##_backend_query(int32_t host_abi_major, const attune_host_services *host);
#include "builtin_backends.h"
#undef BACKEND

const struct attune_builtin_backend attune_builtin_backends[] = {
#define BACKEND(name) {#name, attune_##name##_backend_query},
#include "builtin_backends.h"
#undef BACKEND
    {NULL, NULL},
};
