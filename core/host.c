/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/host.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/cache_file.h"
#include "core/env.h"
#include "core/log_internal.h"
#include "core/status_internal.h"

static _Atomic int64_t allocations_left = -1;

void attune_host_limit_allocations(int64_t count) {
    atomic_store(&allocations_left, count);
}

static bool may_allocate(void) {
    int64_t left = atomic_load(&allocations_left);
    while (left > 0 && !atomic_compare_exchange_weak(&allocations_left, &left, left - 1)) {
    }
    return left != 0;
}

void *attune_host_alloc(size_t bytes) {
    return may_allocate() ? calloc(1, bytes == 0 ? 1 : bytes) : NULL;
}

void attune_host_free(void *memory) {
    free(memory);
}

const attune_host_services *attune_host_services_get(void) {
    static const attune_host_services services = {
        .struct_size = sizeof services,
        .log = attune_log_write,
        .fail = attune_fail,
        .alloc = attune_host_alloc,
        .free = attune_host_free,
        .config_get = attune_env_get,
        .cache_read = attune_cache_file_read,
        .cache_write = attune_cache_file_write,
        .limits_override = attune_env_override_limits,
    };
    return &services;
}
