/*
 * What --memory tells: the library's own report, and the most that the process held at once.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_MEMORY_USE_H
#define ATTUNE_TOOLS_MEMORY_USE_H

#include "attune/device.h"
#include "json.h"

struct memory_use {
    attune_memory_report report;
    uint64_t process_peak_bytes; /* resident, files that were read included; 0: unknown */
};

enum tool_exit memory_use_get(attune_device *device, struct memory_use *out_use);
void memory_use_print(const struct memory_use *use);
void memory_use_add_json(cJSON *root, const struct memory_use *use);

/* "1.50 MiB"; out_text is returned. */
enum { BYTES_TEXT = 16 };
const char *bytes_format(uint64_t bytes, char out_text[BYTES_TEXT]);

#endif
