/*
 * Values of environment variables, and selectors: the first byte chooses which, the rest is the text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/env.h"
#include "core/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) {
        abort();
    }
}

/* Each entry is read once, and what is read fits its own grammar. */
static void read_selectors(const char *text) {
    const char *rest = text;
    while (rest != NULL) {
        struct attune_selector selector;
        const char *before = rest;
        if (attune_selector_next(&rest, &selector) != NULL) {
            return;
        }
        require(rest == NULL || rest > before);
        require(strncmp(before, selector.text, strlen(selector.text)) == 0);
        require(selector.backend[0] != '\0' && selector.index >= 0);
        const char *again = selector.text;
        struct attune_selector same;
        require(attune_selector_next(&again, &same) == NULL && again == NULL);
        require(memcmp(&same, &selector, sizeof same) == 0);
    }
}

static void parse_value(const struct attune_env_variable *variable, const char *text) {
    struct attune_settings settings;
    attune_settings_init(&settings);
    if (attune_env_parse(variable->name, text, &settings) != ATTUNE_OK) {
        require(strncmp(attune_last_error(), variable->name, strlen(variable->name)) == 0);
        return;
    }
    require((settings.tile_rows == 0) == (settings.tile_keys == 0));
    require(settings.tile_rows == 0 || (settings.tile_rows >= 16 && settings.tile_rows <= 128));
    require(settings.tile_keys == 0 || (settings.tile_keys >= 16 && settings.tile_keys <= 128));
    require(settings.limit_processors >= 0 && settings.limit_shared_memory_bytes >= 0);
    require(settings.limit_work_group_size >= 0);
    require(settings.log_level >= ATTUNE_LOG_OFF && settings.log_level <= ATTUNE_LOG_DEBUG);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    char *text = malloc(size);
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    const struct attune_env_variable *variable = attune_env_describe(data[0]);
    if (variable != NULL) {
        parse_value(variable, text);
    } else {
        read_selectors(text);
    }
    free(text);
    return 0;
}
