/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/vendor.h"

#include <dlfcn.h>
#include <stddef.h>

#include "attune/device.h"
#include "core/env.h"
#include "core/status_internal.h"
#include "core/text.h"

#define LIBRARIES_MAX (sizeof((struct attune_vendor){0}.libraries) / sizeof(const char *))

static const struct attune_vendor vendors[] = {
    {"cuda", "NVIDIA GPUs, by the CUDA driver", 40, "ATTUNE_CUDA_LIBRARY", {"libcuda.so.1", NULL, NULL}},
    {"hip",
     "AMD GPUs, by the HIP runtime",
     30,
     "ATTUNE_HIP_LIBRARY",
     {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"}},
    {"opencl", "any OpenCL device", 20, "ATTUNE_OPENCL_LIBRARY", {"libOpenCL.so.1", NULL, NULL}},
};

const struct attune_vendor *attune_vendor_at(int32_t index) {
    return index >= 0 && (size_t)index < sizeof vendors / sizeof vendors[0] ? &vendors[index] : NULL;
}

/* Left open if it can be opened: vendors' libraries start threads that outlive a dlclose. */
static bool can_open(const char *library) {
    return dlopen(library, RTLD_LAZY | RTLD_LOCAL) != NULL;
}

attune_status attune_vendor_refuse(const struct attune_vendor *vendor) {
    const char *chosen = attune_env_get(vendor->variable);
    const char *only[LIBRARIES_MAX] = {chosen};
    const char *const *libraries = chosen[0] == '\0' ? vendor->libraries : only;
    char missing[ATTUNE_REASON_MAX] = "";
    for (size_t index = 0; index < LIBRARIES_MAX && libraries[index] != NULL; index++) {
        if (can_open(libraries[index])) {
            return attune_fail(ATTUNE_UNAVAILABLE, "this attune has no %s backend (%s is present)", vendor->name,
                               libraries[index]);
        }
        const char *reason = dlerror();
        attune_text_append(missing, sizeof missing, "%s%s", index == 0 ? "" : "; ",
                           reason == NULL ? libraries[index] : reason);
    }
    return attune_fail(ATTUNE_UNAVAILABLE, "this attune has no %s backend, and the driver is missing: %s", vendor->name,
                       missing);
}
