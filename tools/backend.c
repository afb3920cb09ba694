/* SPDX-License-Identifier: Apache-2.0 */
#include "backend.h"

enum tool_exit backend_open(const char *selector, attune_device **out_device) {
    attune_status status = attune_device_open(selector, out_device);
    if (status == ATTUNE_OK) {
        return TOOL_OK;
    }
    if (status == ATTUNE_NOT_FOUND) { /* of a device that is "could not be had"; of all else, bad input */
        return tool_fail(TOOL_UNAVAILABLE, "%s", attune_last_error());
    }
    return tool_fail_library(status);
}
