/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "core/loader.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/host.h"
#include "core/log_internal.h"
#include "core/status_internal.h"
#include "core/text.h"

static const char file_prefix[] = "attune_";
static const char file_suffix[] = ".so";

/* The length of NAME in attune_NAME.so; 0 for any other file. */
static size_t module_name_length(const char *file_name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t prefix_length = sizeof file_prefix - 1;
    if (strncmp(file_name, file_prefix, prefix_length) != 0) {
        return 0;
    }
    size_t length = strspn(file_name + prefix_length, letters);
    return strcmp(file_name + prefix_length + length, file_suffix) == 0 && length < ATTUNE_NAME_MAX ? length : 0;
}

static int is_module_file(const struct dirent *entry) {
    return module_name_length(entry->d_name) > 0;
}

/* Not alphasort: the order must not depend on the locale. */
static int compare_names(const struct dirent **left, const struct dirent **right) {
    return strcmp((*left)->d_name, (*right)->d_name);
}

static attune_status reserve(struct attune_module_list *list, int32_t more) {
    if (list->count + more <= list->capacity) {
        return ATTUNE_OK;
    }
    int32_t capacity = list->count + more;
    struct attune_module *modules = attune_host_alloc((size_t)capacity * sizeof *modules);
    if (modules == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory for a list of %d modules", (int)capacity);
    }
    if (list->count > 0) {
        memcpy(modules, list->modules, (size_t)list->count * sizeof *modules);
    }
    attune_host_free(list->modules);
    list->modules = modules;
    list->capacity = capacity;
    return ATTUNE_OK;
}

static void open_module(const char *path, struct attune_module *module) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *reason = dlerror();
        module->status = ATTUNE_UNAVAILABLE;
        attune_text_format(module->reason, sizeof module->reason, "%s", reason == NULL ? "dlopen failed" : reason);
        return;
    }
    void *symbol = dlsym(handle, ATTUNE_BACKEND_QUERY_SYMBOL);
    module->handle = handle;
    if (symbol == NULL) {
        module->status = ATTUNE_INCOMPATIBLE;
        attune_text_format(module->reason, sizeof module->reason, "%s: no symbol %s", path,
                           ATTUNE_BACKEND_QUERY_SYMBOL);
        return;
    }
    /* ISO C has no cast from void * to a function. */
    memcpy(&module->query, &symbol, sizeof module->query);
}

/* Two folders may be one, and two names one file. */
static bool is_open_already(const struct attune_module_list *list, const struct attune_module *module) {
    for (int32_t index = 0; index < list->count; index++) {
        if (module->handle != NULL && list->modules[index].handle == module->handle) {
            return true;
        }
    }
    return false;
}

static void add_module(const char *folder, const char *file_name, struct attune_module_list *list) {
    char path[PATH_MAX];
    struct attune_module module = {.status = ATTUNE_OK};
    memcpy(module.name, file_name + sizeof file_prefix - 1, module_name_length(file_name));
    if (snprintf(path, sizeof path, "%s/%s", folder, file_name) >= (int)sizeof path) {
        module.status = ATTUNE_UNAVAILABLE;
        attune_text_format(module.reason, sizeof module.reason, "the path of %s is too long", file_name);
    } else {
        open_module(path, &module);
    }
    attune_text_format(module.path, sizeof module.path, "%s", path);
    if (!is_open_already(list, &module)) {
        list->modules[list->count++] = module;
    }
}

/* wanted: the user named the folder, so that it should be there. */
static attune_status open_folder(const char *folder, bool wanted, struct attune_module_list *list) {
    struct dirent **files = NULL;
    int count = scandir(folder, &files, is_module_file, compare_names);
    if (count < 0) {
        attune_log_write_once(wanted ? ATTUNE_LOG_WARN : ATTUNE_LOG_DEBUG, "no modules from %s: %s", folder,
                              strerror(errno));
        return ATTUNE_OK;
    }
    attune_status status = reserve(list, count);
    for (int index = 0; index < count; index++) {
        if (status == ATTUNE_OK) {
            add_module(folder, files[index]->d_name, list);
        }
        free(files[index]);
    }
    free(files);
    return status;
}

static attune_status open_search_path(const char *search_path, struct attune_module_list *list) {
    attune_status status = ATTUNE_OK;
    while (status == ATTUNE_OK && *search_path != '\0') {
        char folder[PATH_MAX];
        size_t length = strcspn(search_path, ":");
        if (search_path[0] == '/' && length < sizeof folder) {
            snprintf(folder, sizeof folder, "%.*s", (int)length, search_path);
            status = open_folder(folder, true, list);
        } else if (length > 0) {
            attune_log_write_once(ATTUNE_LOG_WARN,
                                  "ATTUNE_BACKEND_PATH: \"%.*s\" is passed over: must be an absolute path", (int)length,
                                  search_path);
        }
        search_path += search_path[length] == ':' ? length + 1 : length;
    }
    return status;
}

/* The library's own folder, and the folder "attune" in it, where an installed library has its modules even if it was
 * moved since. A library that was found by a relative path would bring the working directory back in. */
static attune_status open_own_folder(struct attune_module_list *list) {
    static const char here;
    char folder[PATH_MAX];
    char modules[PATH_MAX + sizeof "/attune"];
    Dl_info info;
    if (dladdr(&here, &info) == 0 || info.dli_fname == NULL || info.dli_fname[0] != '/') {
        return ATTUNE_OK;
    }
    size_t length = (size_t)(strrchr(info.dli_fname, '/') - info.dli_fname);
    if (length >= sizeof folder) {
        return ATTUNE_OK;
    }
    snprintf(folder, sizeof folder, "%.*s", length == 0 ? 1 : (int)length, info.dli_fname);
    snprintf(modules, sizeof modules, "%s/attune", folder);
    attune_status status = open_folder(folder, false, list);
    return status == ATTUNE_OK ? open_folder(modules, false, list) : status;
}

attune_status attune_loader_open_modules(const char *search_path, struct attune_module_list *out_list) {
    struct attune_module_list list = {NULL, 0, 0};
    attune_status status = open_search_path(search_path, &list);
    if (status == ATTUNE_OK) {
        status = open_own_folder(&list);
    }
#ifdef ATTUNE_MODULE_DIR
    if (status == ATTUNE_OK) {
        status = open_folder(ATTUNE_MODULE_DIR, false, &list);
    }
#endif
    if (status != ATTUNE_OK) {
        attune_loader_free_list(&list);
        return status;
    }
    *out_list = list;
    return ATTUNE_OK;
}

void attune_loader_free_list(struct attune_module_list *list) {
    attune_host_free(list->modules);
    *list = (struct attune_module_list){NULL, 0, 0};
}
