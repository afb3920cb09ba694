/*
 * The devices of all platforms, counted as the library lists them, and what they say of themselves.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_ENUMERATE_H
#define ATTUNE_OPENCL_ENUMERATE_H

#include "backends/opencl/api.h"

/* NOT_FOUND past the last; UNAVAILABLE if there is no library, platform or device at all. */
attune_status attune_opencl_find_device(int32_t index, const struct attune_opencl_api **out_api,
                                        cl_device_id *out_device);

/* The index of a device, or of the one that it is a part of; INVALID_ARGUMENT if the library does not list it. */
attune_status attune_opencl_find_index(const struct attune_opencl_api *api, cl_device_id device, int32_t *out_index);

/* Whether objects of the device's platform all begin with the same pointer. */
bool attune_opencl_has_dispatch(const struct attune_opencl_api *api, cl_device_id device);

/* A text of the device or of its platform in memory from the host's alloc. */
attune_status attune_opencl_device_text(const struct attune_opencl_api *api, cl_device_id device, cl_device_info fact,
                                        char **out_text);

/* A number of the device, of whatever size the driver gives it in. */
attune_status attune_opencl_device_number(const struct attune_opencl_api *api, cl_device_id device, cl_device_info fact,
                                          uint64_t *out_number);

/* Sets name, driver, is_cpu, is_emulation and memory_bytes. */
attune_status attune_opencl_describe(const struct attune_opencl_api *api, cl_device_id device,
                                     attune_device_info *out_info);

#endif
