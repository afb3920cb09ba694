/*
 * Every environment variable that attune reads: one table parses, prints and documents them.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_ENV_H
#define ATTUNE_CORE_ENV_H

#include "attune/device.h"
#include "attune/log.h"

/* The variables that core itself acts on, parsed. Strings are interned: valid for the process's life, "" if unset. */
struct attune_settings {
    const char *backend;      /* ATTUNE_BACKEND */
    const char *backend_path; /* ATTUNE_BACKEND_PATH */
    const char *cache_dir;    /* ATTUNE_CACHE_DIR */
    attune_log_level log_level;
    int32_t tile_rows; /* ATTUNE_TILE; 0: unset */
    int32_t tile_keys;
    bool deterministic;
    bool check;
    int32_t limit_processors; /* ATTUNE_DEVICE_LIMITS; 0: not overridden */
    int64_t limit_shared_memory_bytes;
    int64_t limit_work_group_size;
};

/* Reads the environment as it is now. INVALID_ARGUMENT names variable, value and rule. An unknown ATTUNE_ variable is
 * warned of once, with the nearest known name. */
attune_status attune_settings_read(struct attune_settings *out_settings);

/* host->config_get of backend.h: the value of any variable in the table, interned; "" if unset or not in the table. */
const char *attune_env_get(const char *name);

#endif
