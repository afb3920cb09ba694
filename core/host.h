/*
 * What core lends a backend, and where core's own host memory comes from.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_HOST_H
#define ATTUNE_CORE_HOST_H

#include "attune/backend.h"

/* The services: one constant for the process's life. */
const attune_host_services *attune_host_services_get(void);

/* Zeroed host memory, for core as well as for backends; NULL if there is none. bytes 0 gives memory too. */
void *attune_host_alloc(size_t bytes);

/* NULL is ignored. */
void attune_host_free(void *memory);

/* For tests: so many more allocations succeed, and then none. Negative: all. */
void attune_host_limit_allocations(int64_t count);

#endif
