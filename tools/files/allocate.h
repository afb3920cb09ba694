/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_ALLOCATE_H
#define ATTUNE_TOOLS_FILES_ALLOCATE_H

#include "report.h"

#include <stdint.h>

/* Memory for `bytes` bytes, at least 1, released by free(). FILES_OUT_OF_MEMORY if there is none;
 * *out_memory is written on success only. */
enum files_status files_allocate(int64_t bytes, const struct files_report *report, void **out_memory);

#endif
