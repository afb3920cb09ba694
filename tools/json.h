/*
 * JSON on stdout. A failed allocation anywhere is remembered, and told once by json_print.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_JSON_H
#define ATTUNE_TOOLS_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "failure.h"

cJSON *json_root(void);

/* Each adds to a parent: an object, or with name NULL an array. The parent owns the child. A parent of NULL, left by an
 * earlier failure, is legal. */
cJSON *json_add_object(cJSON *parent, const char *name);
cJSON *json_add_array(cJSON *parent, const char *name);
void json_add_text(cJSON *parent, const char *name, const char *value); /* NULL: null */
void json_add_number(cJSON *parent, const char *name, double value);    /* not finite: null */
void json_add_bool(cJSON *parent, const char *name, bool value);

/* Prints and deletes the root. */
enum tool_exit json_print(cJSON *root);

#endif
