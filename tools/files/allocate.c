/* SPDX-License-Identifier: Apache-2.0 */
#include "allocate.h"

#include <inttypes.h>
#include <stdlib.h>

enum files_status files_allocate(int64_t bytes, const struct files_report *report, void **out_memory) {
    void *memory = (uint64_t)bytes <= SIZE_MAX ? malloc((size_t)bytes) : NULL;
    if (memory == NULL) {
        return files_report_fail(report, FILES_OUT_OF_MEMORY, "no memory for %" PRId64 " bytes", bytes);
    }
    *out_memory = memory;
    return FILES_OK;
}
