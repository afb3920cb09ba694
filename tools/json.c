/* SPDX-License-Identifier: Apache-2.0 */
#include "json.h"

#include <stdio.h>

static bool has_failed;

static cJSON *add(cJSON *parent, const char *name, cJSON *child) {
    cJSON_bool added = name ? cJSON_AddItemToObject(parent, name, child) : cJSON_AddItemToArray(parent, child);
    if (added) {
        return child;
    }
    has_failed = true;
    cJSON_Delete(child);
    return NULL;
}

cJSON *json_root(void) {
    cJSON *root = cJSON_CreateObject();
    has_failed = root == NULL;
    return root;
}

cJSON *json_add_object(cJSON *parent, const char *name) {
    return add(parent, name, cJSON_CreateObject());
}

cJSON *json_add_array(cJSON *parent, const char *name) {
    return add(parent, name, cJSON_CreateArray());
}

void json_add_text(cJSON *parent, const char *name, const char *value) {
    add(parent, name, value ? cJSON_CreateString(value) : cJSON_CreateNull());
}

void json_add_number(cJSON *parent, const char *name, double value) {
    add(parent, name, cJSON_CreateNumber(value));
}

void json_add_bool(cJSON *parent, const char *name, bool value) {
    add(parent, name, cJSON_CreateBool(value));
}

enum tool_exit json_print(cJSON *root) {
    char *text = has_failed ? NULL : cJSON_Print(root);
    cJSON_Delete(root);
    if (!text) {
        return tool_fail_memory();
    }
    puts(text);
    cJSON_free(text);
    return TOOL_OK;
}
