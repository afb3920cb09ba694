/*
 * Opens a vendor's driver. One file of a backend includes this: the count of forks is that file's.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_BACKENDS_DRIVER_OPEN_H
#define ATTUNE_BACKENDS_DRIVER_OPEN_H

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "backends/driver.h"

/* ---- Forks ---- */

/* Counts the forks between this process and the one that loaded attune. */
static atomic_uint attune_driver_fork_generation;

static inline void attune_driver_count_fork(void) {
    atomic_fetch_add(&attune_driver_fork_generation, 1);
}

static inline void attune_driver_watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, attune_driver_count_fork);
}

/* Whether this process is a fork of the one that opened the driver, which then answers no call. */
static inline bool attune_driver_is_forked(const struct attune_driver_table *table) {
    return atomic_load(&attune_driver_fork_generation) != table->fork_generation;
}

/* ---- Opening ---- */

static inline attune_status attune_driver_open_library(const struct attune_driver *driver,
                                                       const attune_host_services *host,
                                                       struct attune_driver_table *table) {
    const char *configured = host->config_get(driver->variable);
    if (configured[0] != '\0') {
        table->path = configured;
        table->library = dlopen(table->path, RTLD_NOW | RTLD_LOCAL);
        return table->library != NULL ? ATTUNE_OK : host->fail(ATTUNE_UNAVAILABLE, "%s", dlerror());
    }
    table->path = table->name;
    for (int32_t index = 0; attune_name_at(driver->libraries, index, table->name, sizeof table->name); index++) {
        table->library = dlopen(table->path, RTLD_NOW | RTLD_LOCAL);
        if (table->library != NULL) {
            return ATTUNE_OK;
        }
    }
    const bool is_one_of_several = strchr(driver->libraries, ' ') != NULL;
    return host->fail(ATTUNE_UNAVAILABLE, "%s%s%s", is_one_of_several ? driver->libraries : "",
                      is_one_of_several ? ": " : "", dlerror());
}

static inline attune_status attune_driver_load_functions(const struct attune_driver *driver,
                                                         const attune_host_services *host,
                                                         struct attune_driver_table *table) {
    for (size_t index = 0; index < driver->function_count; index++) {
        const struct attune_driver_function *function = &driver->functions[index];
        void *symbol = dlsym(table->library, function->symbol);
        if (symbol == NULL && !function->is_optional) {
            return host->fail(ATTUNE_UNAVAILABLE, "%s has no %s: %s", table->path, function->symbol, driver->older);
        }
        /* POSIX lets a void * from dlsym be a function pointer; ISO C only lets it be copied. */
        memcpy((char *)table + function->offset, &symbol, sizeof symbol);
    }
    return ATTUNE_OK;
}

static inline attune_status attune_driver_make(const struct attune_driver *driver, const attune_host_services *host,
                                               struct attune_driver_table **out_table) {
    static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
    (void)pthread_once(&forks_watched, attune_driver_watch_forks);
    struct attune_driver_table *table = host->alloc(driver->table_bytes);
    if (table == NULL) {
        return host->fail(ATTUNE_OUT_OF_MEMORY, "the driver's function table, %zu bytes", driver->table_bytes);
    }
    table->fork_generation = atomic_load(&attune_driver_fork_generation);
    attune_status status = attune_driver_open_library(driver, host, table);
    if (status == ATTUNE_OK) {
        status = attune_driver_load_functions(driver, host, table);
    }
    if (status == ATTUNE_OK && driver->start != NULL) {
        status = driver->start(table);
    }
    if (status != ATTUNE_OK) {
        host->free(table);
        return status;
    }
    *out_table = table;
    return ATTUNE_OK;
}

/* Opens the driver the first time; the same table from then on. UNAVAILABLE names the library or the symbol that is
 * missing; a failure is tried again at the next call. UNAVAILABLE, too, in a fork of the process that opened it.
 *
 * opened: the backend's, NULL before the first call. Two threads that come first may both open the library; the
 * second's table is freed. So no lock is held while a vendor's initialisers run. The library is never closed: its
 * threads would outlive it. */
static inline attune_status attune_driver_open(const struct attune_driver *driver, const attune_host_services *host,
                                               _Atomic(struct attune_driver_table *) *opened,
                                               const struct attune_driver_table **out_table) {
    struct attune_driver_table *table = atomic_load(opened);
    if (table == NULL) {
        struct attune_driver_table *made = NULL;
        const attune_status status = attune_driver_make(driver, host, &made);
        if (status != ATTUNE_OK) {
            return status;
        }
        if (atomic_compare_exchange_strong(opened, &table, made)) {
            table = made;
        } else {
            host->free(made);
        }
    }
    if (attune_driver_is_forked(table)) {
        return host->fail(ATTUNE_UNAVAILABLE, "this process is a fork of one that had %s", driver->opened);
    }
    *out_table = table;
    return ATTUNE_OK;
}

#endif
