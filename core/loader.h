/*
 * Backend modules: shared objects named attune_NAME.so in the folders that are searched.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_LOADER_H
#define ATTUNE_CORE_LOADER_H

#include "attune/backend.h"

/* A file that looked like a module. It stays open for the process's life, whatever is made of it. */
struct attune_module {
    char name[ATTUNE_NAME_MAX];    /* from the file's name */
    char path[ATTUNE_REASON_MAX];  /* for people */
    attune_backend_query_fn query; /* NULL: status and reason say why */
    attune_status status;          /* UNAVAILABLE: it could not be opened; INCOMPATIBLE: it is no module */
    char reason[ATTUNE_REASON_MAX];
    const void *handle;
};

struct attune_module_list {
    struct attune_module *modules; /* from attune_host_alloc */
    int32_t count;
    int32_t capacity;
};

/* Opens all modules of the folders of search_path, of the folder that this library lies in, and of the install folder,
 * in this order and in the order of their names. search_path: absolute folders separated by ':'; others are passed over
 * with a warning. Calls nothing in the modules and holds no lock. Errors: OUT_OF_MEMORY. */
attune_status attune_loader_open_modules(const char *search_path, struct attune_module_list *out_list);

/* Frees the list; the modules stay open. */
void attune_loader_free_list(struct attune_module_list *list);

#endif
