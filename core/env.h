/*
 * Every environment variable that attune reads: one table, env.def, parses, prints and documents them.
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

/* A line of the table. */
struct attune_env_variable {
    const char *name;
    attune_status (*parse)(const struct attune_env_variable *variable, const char *value,
                           struct attune_settings *settings);
    bool ignored_if_setuid;
    const char *values;        /* completes "must be ..." */
    const char *default_value; /* for people; "" if there is none */
    const char *documentation;
};

/* Reads the environment as it is now. INVALID_ARGUMENT names variable, value and rule. An unknown ATTUNE_ variable is
 * warned of once, with the nearest known name. */
attune_status attune_settings_read(struct attune_settings *out_settings);

/* host->config_get of backend.h: the value of any variable in the table, interned; "" if unset or not in the table. */
const char *attune_env_get(const char *name);

/* Puts what ATTUNE_DEVICE_LIMITS says in the place of limits. */
void attune_settings_override(const struct attune_settings *settings, attune_device_limits *limits);

/* host->limits_override of backend.h: the same, of the environment as it is now. */
void attune_env_override_limits(attune_device_limits *limits);

/* ATTUNE_LOG as it is now; the default if it cannot be read. Logs nothing and fails nothing. */
attune_log_level attune_env_log_level(void);

/* The folder that cache files lie in by environment: ATTUNE_CACHE_DIR, or the user's own. capacity bytes; false if
 * there is none, or none that fits. */
bool attune_env_cache_dir(char *out_path, size_t capacity);

/* Settings without any variable set. */
void attune_settings_init(struct attune_settings *out_settings);

/* Parses one variable's value into settings, which keep pointers to it. "" sets nothing. INVALID_ARGUMENT names
 * variable, value and rule; NOT_FOUND: a name that is not in the table. */
attune_status attune_env_parse(const char *name, const char *value, struct attune_settings *settings);

/* The table line by line: NULL past the last. */
const struct attune_env_variable *attune_env_describe(int32_t index);

/* The table in Markdown, as the README has it, from attune_host_alloc; NULL if there is no memory. */
char *attune_env_format(void);

#endif
