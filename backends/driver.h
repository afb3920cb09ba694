/*
 * A vendor's driver that is opened at run time, as backends that have one describe it: what it is in a driver.def,
 * which drivers.def beside this explains, and which functions are called in a .def of its own. driver_open.h opens it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_BACKENDS_DRIVER_H
#define ATTUNE_BACKENDS_DRIVER_H

#include "attune/backend_util.h"

/* Of a library's file name. */
#define ATTUNE_DRIVER_NAME_BYTES 64

/* The first member of a backend's table of driver functions. */
struct attune_driver_table {
    void *library;
    const char *path; /* what was opened */
    char name[ATTUNE_DRIVER_NAME_BYTES];
    unsigned fork_generation;
};

struct attune_driver_function {
    const char *symbol;
    size_t offset; /* of its pointer in the table */
    bool is_optional;
};

struct attune_driver {
    const char *variable;  /* names the library in place of these */
    const char *libraries; /* as driver.def has them; the first that opens */
    const struct attune_driver_function *functions;
    size_t function_count;
    size_t table_bytes;
    attune_status (*start)(struct attune_driver_table *table); /* once all functions are there; NULL: nothing to do */
    const char *older;                                         /* completes "LIBRARY has no SYMBOL: " */
    const char *opened;                                        /* completes "this process is a fork of one that had " */
};

/* A driver.def's line as the first fields of a struct attune_backend, in its initialiser. */
#define ATTUNE_DRIVER_BACKEND_HEADER(name, NAME, priority, description, names)                                         \
    ATTUNE_BACKEND_HEADER(#name, description, priority),

/* A driver.def's line as fields of an attune_driver: #define ATTUNE_DRIVER ATTUNE_DRIVER_LIBRARIES, then include it. */
#define ATTUNE_DRIVER_LIBRARIES(name, NAME, priority, description, names)                                              \
    .variable = "ATTUNE_" #NAME "_LIBRARY", .libraries = (names),

#endif
