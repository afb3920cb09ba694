/*
 * What a value of each variable may be. Pure: nothing here reads the environment.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_ENV_PARSE_H
#define ATTUNE_CORE_ENV_PARSE_H

#include "core/env.h"

/* Each is a parse function of struct attune_env_variable; value is not "". */
#define ATTUNE_ENV_PARSER(kind)                                                                                        \
    attune_status attune_env_parse_##kind(const struct attune_env_variable *variable, const char *value,               \
                                          struct attune_settings *settings)

ATTUNE_ENV_PARSER(selector);
ATTUNE_ENV_PARSER(search_path);
ATTUNE_ENV_PARSER(log_level);
ATTUNE_ENV_PARSER(tile);
ATTUNE_ENV_PARSER(cpu_isa);
ATTUNE_ENV_PARSER(thread_count);
ATTUNE_ENV_PARSER(deterministic);
ATTUNE_ENV_PARSER(check);
ATTUNE_ENV_PARSER(cache_dir);
ATTUNE_ENV_PARSER(device_limits);
ATTUNE_ENV_PARSER(library);

/* The level that a word names, in any case of letters; false for any other word. */
bool attune_env_word_to_level(const char *word, attune_log_level *out_level);

#endif
