/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_SAFETENSORS_JSON_H
#define ATTUNE_TOOLS_FILES_SAFETENSORS_JSON_H

#include "report.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

/* Reads text[0 .. text_bytes), which a NUL follows, as one JSON object. cJSON_Delete() frees it.
 * FILES_INVALID if it is none, or holds a NUL, raw or escaped, at which cJSON would cut a name. Not
 * to be called on two threads at once: cJSON's allocator is one for the process. */
enum files_status safetensors_json_parse(const char *text, int64_t text_bytes, const struct files_report *report,
                                         cJSON **out_object);

/* False if `item` is not a number, or not a whole one in [0, 2^53), which is what a double can hold
 * without doubt. */
bool safetensors_json_integer(const cJSON *item, int64_t *out_value);

#endif
