/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* getrusage */

#include "memory_use.h"

#include <stdio.h>
#include <sys/resource.h>

enum tool_exit memory_use_get(attune_device *device, struct memory_use *out_use) {
    struct rusage usage;
    out_use->report.struct_size = sizeof out_use->report;
    attune_status status = attune_device_get_memory(device, &out_use->report);
    if (status != ATTUNE_OK) {
        return tool_fail_library(status);
    }
    bool is_known = getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > 0;
    out_use->process_peak_bytes = is_known ? (uint64_t)usage.ru_maxrss * 1024 : 0;
    return TOOL_OK;
}

const char *bytes_format(uint64_t bytes, char out_text[BYTES_TEXT]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024; unit++) {
        value /= 1024;
    }
    snprintf(out_text, BYTES_TEXT, "%.*f %s", unit == 0 ? 0 : 2, value, units[unit]);
    return out_text;
}

void memory_use_print(const struct memory_use *use) {
    char tensors[BYTES_TEXT], workspace[BYTES_TEXT], peak[BYTES_TEXT], process[BYTES_TEXT];
    printf("%-10s tensors %s, workspace %s, peak %s; the process %s\n", "memory",
           bytes_format(use->report.tensor_bytes, tensors), bytes_format(use->report.workspace_peak_bytes, workspace),
           bytes_format(use->report.peak_bytes, peak), bytes_format(use->process_peak_bytes, process));
}

void memory_use_add_json(cJSON *root, const struct memory_use *use) {
    cJSON *memory = json_add_object(root, "memory");
    json_add_number(memory, "tensor_bytes", (double)use->report.tensor_bytes);
    json_add_number(memory, "workspace_bytes", (double)use->report.workspace_peak_bytes);
    json_add_number(memory, "peak_bytes", (double)use->report.peak_bytes);
    json_add_number(memory, "process_peak_bytes", (double)use->process_peak_bytes);
}
