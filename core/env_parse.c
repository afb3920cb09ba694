/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/env_parse.h"

#include <string.h>

#include "attune/backend_util.h"
#include "core/selector.h"
#include "core/status_internal.h"
#include "core/tile.h"

#define THREADS_MAX         4096
#define PROCESSORS_MAX      INT32_MAX
#define SHARED_MEMORY_MAX   (INT64_C(1) << 40)
#define WORK_GROUP_SIZE_MAX (INT64_C(1) << 31)

/* Refusals quote no more of a value than this. */
#define QUOTED_BYTES 200

static attune_status refuse(const struct attune_env_variable *variable, const char *value) {
    return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s=\"%.*s\": must be %s", variable->name, QUOTED_BYTES, value,
                       variable->values);
}

/* The index of the word that value is, in any case of letters; -1 if it is none of them. */
static int find_word(const char *value, const char *const *words, int count) {
    for (int index = 0; index < count; index++) {
        if (strlen(value) == strlen(words[index]) && attune_begins(value, words[index])) {
            return index;
        }
    }
    return -1;
}

/* Reads a number from least, which is 1 or more, to most, digits only, and moves past it. */
static bool take_number(const char **at, int64_t least, int64_t most, int64_t *out_number) {
    const char *digit = *at;
    int64_t number = 0;
    for (; *digit >= '0' && *digit <= '9'; digit++) {
        int value = *digit - '0';
        if (number > (most - value) / 10) {
            return false;
        }
        number = number * 10 + value;
    }
    if (number < least) {
        return false;
    }
    *at = digit;
    *out_number = number;
    return true;
}

static bool take_text(const char **at, const char *text) {
    if (!attune_begins(*at, text)) {
        return false;
    }
    *at += strlen(text);
    return true;
}

ATTUNE_ENV_PARSER(selector) {
    const char *rest = value;
    while (rest != NULL) {
        struct attune_selector selector;
        const char *broken_rule = attune_selector_next(&rest, &selector);
        if (broken_rule != NULL) {
            return attune_fail(ATTUNE_INVALID_ARGUMENT, "%s=\"%.*s\": %s", variable->name, QUOTED_BYTES, value,
                               broken_rule);
        }
    }
    settings->backend = value;
    return ATTUNE_OK;
}

/* Anything is accepted here: the loader passes over what is not an absolute folder, and says so. */
ATTUNE_ENV_PARSER(search_path) {
    (void)variable;
    settings->backend_path = value;
    return ATTUNE_OK;
}

bool attune_env_word_to_level(const char *word, attune_log_level *out_level) {
    static const char *const words[] = {"off", "error", "warn", "info", "debug"};
    int level = find_word(word, words, sizeof words / sizeof words[0]);
    if (level >= 0) {
        *out_level = (attune_log_level)level;
    }
    return level >= 0;
}

ATTUNE_ENV_PARSER(log_level) {
    return attune_env_word_to_level(value, &settings->log_level) ? ATTUNE_OK : refuse(variable, value);
}

ATTUNE_ENV_PARSER(tile) {
    const char *at = value;
    int64_t rows;
    int64_t keys;
    if (!take_number(&at, ATTUNE_TILE_SIDE_MIN, ATTUNE_TILE_SIDE_MAX, &rows) || !take_text(&at, "x") ||
        !take_number(&at, ATTUNE_TILE_SIDE_MIN, ATTUNE_TILE_SIDE_MAX, &keys) || *at != '\0') {
        return refuse(variable, value);
    }
    settings->tile_rows = (int32_t)rows;
    settings->tile_keys = (int32_t)keys;
    return ATTUNE_OK;
}

ATTUNE_ENV_PARSER(cpu_isa) {
    static const char *const words[] = {"reference", "generic", "avx2", "avx512", "amx", "neon"};
    (void)settings;
    return find_word(value, words, sizeof words / sizeof words[0]) >= 0 ? ATTUNE_OK : refuse(variable, value);
}

ATTUNE_ENV_PARSER(thread_count) {
    (void)settings;
    const char *at = value;
    int64_t threads;
    return take_number(&at, 1, THREADS_MAX, &threads) && *at == '\0' ? ATTUNE_OK : refuse(variable, value);
}

static attune_status parse_switch(const struct attune_env_variable *variable, const char *value, bool *out_on) {
    static const char *const words[] = {"0", "1", "false", "true", "off", "on"};
    int index = find_word(value, words, sizeof words / sizeof words[0]);
    if (index < 0) {
        return refuse(variable, value);
    }
    *out_on = index % 2 == 1;
    return ATTUNE_OK;
}

ATTUNE_ENV_PARSER(deterministic) {
    return parse_switch(variable, value, &settings->deterministic);
}

ATTUNE_ENV_PARSER(check) {
    return parse_switch(variable, value, &settings->check);
}

ATTUNE_ENV_PARSER(cache_dir) {
    if (value[0] != '/') {
        return refuse(variable, value);
    }
    settings->cache_dir = value;
    return ATTUNE_OK;
}

/* Reads "N", "NK" or "NKiB" up to the end of a list's entry. */
static bool take_limit(const char **at, int64_t most, int64_t *out_limit) {
    if (!take_number(at, 1, most, out_limit)) {
        return false;
    }
    if (take_text(at, "KiB") || take_text(at, "K")) {
        if (*out_limit > most / 1024) {
            return false;
        }
        *out_limit *= 1024;
    }
    return **at == ',' || **at == '\0';
}

ATTUNE_ENV_PARSER(device_limits) {
    struct {
        const char *key;
        int64_t most;
        int64_t limit; /* 0: not given */
    } entries[] = {
        {"processors=", PROCESSORS_MAX, 0}, {"shared=", SHARED_MEMORY_MAX, 0}, {"workgroup=", WORK_GROUP_SIZE_MAX, 0}};
    const int count = sizeof entries / sizeof entries[0];
    const char *at = value;
    do {
        int index = 0;
        while (index < count && !take_text(&at, entries[index].key)) {
            index++;
        }
        if (index == count || entries[index].limit != 0 ||
            !take_limit(&at, entries[index].most, &entries[index].limit)) {
            return refuse(variable, value);
        }
    } while (*at++ == ',');
    settings->limit_processors = (int32_t)entries[0].limit;
    settings->limit_shared_memory_bytes = entries[1].limit;
    settings->limit_work_group_size = entries[2].limit;
    return ATTUNE_OK;
}

/* A path with a '/' that is not absolute would be looked up in the working directory. */
ATTUNE_ENV_PARSER(library) {
    (void)settings;
    return value[0] == '/' || strchr(value, '/') == NULL ? ATTUNE_OK : refuse(variable, value);
}
