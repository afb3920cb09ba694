/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE 1 /* secure_getenv, environ */
#include "core/env.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/env_parse.h"
#include "core/host.h"
#include "core/intern.h"
#include "core/log_internal.h"
#include "core/status_internal.h"
#include "core/text.h"

#define PREFIX     "ATTUNE_"
#define NAME_BYTES 128 /* longer names of unknown variables are cut */

static const struct attune_env_variable variables[] = {
#define ATTUNE_ENV(name, kind, ignored_if_setuid, values, default_value, documentation)                                \
    {#name, attune_env_parse_##kind, ignored_if_setuid, values, default_value, documentation},
#include "core/env.def"
#undef ATTUNE_ENV
};

enum { VARIABLE_COUNT = sizeof variables / sizeof variables[0] };

static const struct attune_env_variable *find_variable(const char *name) {
    for (int index = 0; index < VARIABLE_COUNT; index++) {
        if (strcmp(variables[index].name, name) == 0) {
            return &variables[index];
        }
    }
    return NULL;
}

static const char *read_value(const struct attune_env_variable *variable) {
    const char *value = variable->ignored_if_setuid ? secure_getenv(variable->name) : getenv(variable->name);
    return value == NULL ? "" : value;
}

static const char *intern_value(const struct attune_env_variable *variable) {
    static struct attune_intern_set values;
    const char *value = read_value(variable);
    return value[0] == '\0' ? "" : attune_intern(&values, value, NULL);
}

const char *attune_env_get(const char *name) {
    const struct attune_env_variable *variable = find_variable(name);
    const char *value = variable == NULL ? NULL : intern_value(variable);
    return value == NULL ? "" : value;
}

attune_log_level attune_env_log_level(void) {
    struct attune_settings settings;
    attune_settings_init(&settings);
    (void)attune_env_word_to_level(read_value(find_variable("ATTUNE_LOG")), &settings.log_level);
    return settings.log_level;
}

bool attune_env_cache_dir(char *out_path, size_t capacity) {
    const char *own = read_value(find_variable("ATTUNE_CACHE_DIR"));
    const char *cache_home = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int length = -1;
    if (own[0] != '\0') {
        length = snprintf(out_path, capacity, "%s", own);
    } else if (cache_home != NULL && cache_home[0] == '/') { /* XDG Base Directory: relative paths are ignored */
        length = snprintf(out_path, capacity, "%s/attune", cache_home);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(out_path, capacity, "%s/.cache/attune", home);
    }
    return length >= 0 && (size_t)length < capacity && out_path[0] == '/';
}

/* Padding included, so that settings can be compared as bytes. */
void attune_settings_init(struct attune_settings *out_settings) {
    memset(out_settings, 0, sizeof *out_settings);
    out_settings->backend = "";
    out_settings->backend_path = "";
    out_settings->cache_dir = "";
    out_settings->log_level = ATTUNE_LOG_WARN;
}

attune_status attune_env_parse(const char *name, const char *value, struct attune_settings *settings) {
    const struct attune_env_variable *variable = find_variable(name);
    if (variable == NULL) {
        return attune_fail(ATTUNE_NOT_FOUND, "%.100s is no variable of attune", name);
    }
    return value[0] == '\0' ? ATTUNE_OK : variable->parse(variable, value, settings);
}

/* ---- ATTUNE_DEVICE_LIMITS ---- */

#define LIMITS "ATTUNE_DEVICE_LIMITS"

void attune_settings_override(const struct attune_settings *settings, attune_device_limits *limits) {
    if (settings->limit_processors != 0) {
        limits->processors = settings->limit_processors;
    }
    if (settings->limit_shared_memory_bytes != 0) {
        limits->shared_memory_bytes = settings->limit_shared_memory_bytes;
    }
    if (settings->limit_work_group_size != 0) {
        limits->work_group_size_max = settings->limit_work_group_size;
    }
}

void attune_env_override_limits(attune_device_limits *limits) {
    struct attune_settings settings;
    attune_settings_init(&settings);
    if (attune_env_parse(LIMITS, attune_env_get(LIMITS), &settings) == ATTUNE_OK) {
        attune_settings_override(&settings, limits);
    }
}

/* ---- The environment ---- */

static const char *nearest_name(const char *name) {
    const char *nearest = NULL;
    int least = INT_MAX;
    for (int index = 0; index < VARIABLE_COUNT; index++) {
        int distance = attune_text_distance(name, variables[index].name);
        if (distance < least) {
            least = distance;
            nearest = variables[index].name;
        }
    }
    return nearest;
}

static void warn_of_unknown_names(void) {
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        char name[NAME_BYTES];
        attune_text_format(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        if (strncmp(name, PREFIX, strlen(PREFIX)) == 0 && find_variable(name) == NULL) {
            attune_log_write_once(ATTUNE_LOG_WARN, "unknown variable %s; did you mean %s?", name, nearest_name(name));
        }
    }
}

attune_status attune_settings_read(struct attune_settings *out_settings) {
    struct attune_settings settings;
    attune_settings_init(&settings);
    for (int index = 0; index < VARIABLE_COUNT; index++) {
        const char *value = intern_value(&variables[index]);
        if (value == NULL) {
            return attune_fail(ATTUNE_OUT_OF_MEMORY, "%s: no memory for its value", variables[index].name);
        }
        attune_status status = attune_env_parse(variables[index].name, value, &settings);
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    attune_log_set_environment_level(settings.log_level);
    warn_of_unknown_names();
    *out_settings = settings;
    return ATTUNE_OK;
}

const struct attune_env_variable *attune_env_describe(int32_t index) {
    return index >= 0 && index < VARIABLE_COUNT ? &variables[index] : NULL;
}

#define TABLE_HEADER "| variable | values | default | meaning |\n| --- | --- | --- | --- |\n"
#define TABLE_LINE   "| `%s` | %s | %s | %s |\n"

char *attune_env_format(void) {
    size_t capacity = sizeof TABLE_HEADER;
    for (int index = 0; index < VARIABLE_COUNT; index++) {
        const struct attune_env_variable *variable = &variables[index];
        capacity += sizeof TABLE_LINE + strlen(variable->name) + strlen(variable->values) +
                    strlen(variable->default_value) + strlen(variable->documentation);
    }
    char *text = attune_host_alloc(capacity);
    if (text == NULL) {
        return NULL;
    }
    attune_text_append(text, capacity, TABLE_HEADER);
    for (int index = 0; index < VARIABLE_COUNT; index++) {
        const struct attune_env_variable *variable = &variables[index];
        attune_text_append(text, capacity, TABLE_LINE, variable->name, variable->values, variable->default_value,
                           variable->documentation);
    }
    return text;
}
