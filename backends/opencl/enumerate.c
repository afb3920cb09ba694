/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/opencl/enumerate.h"

#include <stdio.h>
#include <string.h>

#include "backends/opencl/device.h"

#define PLATFORM_NOT_FOUND (-1001) /* of cl_khr_icd: there is a loader, but no driver */

/* ---- Facts ---- */

attune_status attune_opencl_device_text(const struct attune_opencl_api *api, cl_device_id device, cl_device_info fact,
                                        char **out_text) {
    size_t size = 0;
    attune_status status = attune_opencl_check(api->GetDeviceInfo(device, fact, 0, NULL, &size), "clGetDeviceInfo");
    if (status != ATTUNE_OK) {
        return status;
    }
    char *text = attune_opencl_host->alloc(size + 1);
    if (text == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "a text of %zu bytes", size + 1);
    }
    status = attune_opencl_check(api->GetDeviceInfo(device, fact, size, text, NULL), "clGetDeviceInfo");
    if (status != ATTUNE_OK) {
        attune_opencl_host->free(text);
        return status;
    }
    *out_text = text;
    return ATTUNE_OK;
}

attune_status attune_opencl_device_number(const struct attune_opencl_api *api, cl_device_id device, cl_device_info fact,
                                          uint64_t *out_number) {
    union {
        cl_uint narrow;
        cl_ulong wide;
    } number = {.wide = 0};
    size_t size = 0;
    const attune_status status =
        attune_opencl_check(api->GetDeviceInfo(device, fact, sizeof number, &number, &size), "clGetDeviceInfo");
    if (status == ATTUNE_OK) {
        *out_number = size == sizeof number.narrow ? number.narrow : number.wide;
    }
    return status;
}

/* Copies a text of the device's, without the blanks around it. */
static attune_status copy_text(const struct attune_opencl_api *api, cl_device_id device, cl_device_info fact,
                               const char *before, char out_text[ATTUNE_NAME_MAX]) {
    char *text = NULL;
    const attune_status status = attune_opencl_device_text(api, device, fact, &text);
    if (status == ATTUNE_OK) {
        const char *begin = text + strspn(text, " ");
        size_t length = strlen(begin);
        while (length > 0 && begin[length - 1] == ' ') {
            length--;
        }
        snprintf(out_text, ATTUNE_NAME_MAX, "%s%.*s", before, (int)length, begin);
        attune_opencl_host->free(text);
    }
    return status;
}

/* Oclgrind interprets kernels, to find their faults. */
static attune_status find_emulation(const struct attune_opencl_api *api, cl_device_id device, bool *out_is_emulation) {
    char name[ATTUNE_NAME_MAX];
    const attune_status status = copy_text(api, device, CL_DEVICE_VERSION, "", name);
    *out_is_emulation = status == ATTUNE_OK && strstr(name, "Oclgrind") != NULL;
    return status;
}

attune_status attune_opencl_describe(const struct attune_opencl_api *api, cl_device_id device,
                                     attune_device_info *out_info) {
    uint64_t type = 0;
    uint64_t bytes = 0;
    bool is_emulation = false;
    attune_status status = copy_text(api, device, CL_DEVICE_NAME, "", out_info->name);
    if (status == ATTUNE_OK) {
        status = copy_text(api, device, CL_DRIVER_VERSION, "OpenCL, driver ", out_info->driver);
    }
    if (status == ATTUNE_OK) {
        status = attune_opencl_device_number(api, device, CL_DEVICE_TYPE, &type);
    }
    if (status == ATTUNE_OK) {
        status = attune_opencl_device_number(api, device, CL_DEVICE_GLOBAL_MEM_SIZE, &bytes);
    }
    if (status == ATTUNE_OK) {
        status = find_emulation(api, device, &is_emulation);
    }
    if (status == ATTUNE_OK) {
        out_info->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
        out_info->is_emulation = is_emulation;
        out_info->memory_bytes = bytes;
    }
    return status;
}

/* ---- The list ---- */

struct list {
    cl_device_id *devices;
    cl_uint count;
    cl_uint capacity;
};

static cl_uint count_of(const struct attune_opencl_api *api, cl_platform_id platform) {
    cl_uint count = 0;
    return api->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, &count) == CL_SUCCESS ? count : 0;
}

/* A platform that cannot list its devices has none: others may be whole. */
static attune_status list_devices(const struct attune_opencl_api *api, const cl_platform_id *platforms,
                                  cl_uint platform_count, struct list *out_list) {
    cl_uint capacity = 1;
    for (cl_uint index = 0; index < platform_count; index++) {
        capacity += count_of(api, platforms[index]);
    }
    struct list list = {attune_opencl_host->alloc(capacity * sizeof *list.devices), 0, capacity};
    if (list.devices == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "a list of %u devices", (unsigned)capacity);
    }
    for (cl_uint index = 0; index < platform_count && list.count < capacity; index++) {
        const cl_uint left = capacity - list.count;
        cl_uint count = 0;
        if (api->GetDeviceIDs(platforms[index], CL_DEVICE_TYPE_ALL, left, list.devices + list.count, &count) ==
            CL_SUCCESS) {
            list.count += count < left ? count : left;
        }
    }
    *out_list = list;
    return ATTUNE_OK;
}

static attune_status count_platforms(const struct attune_opencl_api *api, cl_uint *out_count) {
    const cl_int result = api->GetPlatformIDs(0, NULL, out_count);
    if (result == PLATFORM_NOT_FOUND || (result == CL_SUCCESS && *out_count == 0)) {
        return attune_opencl_host->fail(ATTUNE_UNAVAILABLE,
                                        "%s is there, but no platform: no driver is installed (clGetPlatformIDs)",
                                        api->driver.path);
    }
    return attune_opencl_check(result, "clGetPlatformIDs");
}

static attune_status list_all(const struct attune_opencl_api *api, struct list *out_list) {
    cl_uint count = 0;
    attune_status status = count_platforms(api, &count);
    if (status != ATTUNE_OK) {
        return status;
    }
    cl_platform_id *platforms = attune_opencl_host->alloc(count * sizeof(cl_platform_id));
    if (platforms == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "a list of %u platforms", (unsigned)count);
    }
    status = attune_opencl_check(api->GetPlatformIDs(count, platforms, NULL), "clGetPlatformIDs");
    if (status == ATTUNE_OK) {
        status = list_devices(api, platforms, count, out_list);
    }
    attune_opencl_host->free(platforms);
    return status;
}

attune_status attune_opencl_find_device(int32_t index, const struct attune_opencl_api **out_api,
                                        cl_device_id *out_device) {
    const struct attune_opencl_api *api = NULL;
    struct list list = {NULL, 0, 0};
    attune_status status = attune_opencl_api_open(&api);
    if (status == ATTUNE_OK) {
        status = list_all(api, &list);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (list.count == 0) {
        status =
            attune_opencl_host->fail(ATTUNE_UNAVAILABLE, "%s and a driver are there, but no device", api->driver.path);
    } else if (index < 0 || (cl_uint)index >= list.count) {
        status = attune_opencl_host->fail(ATTUNE_NOT_FOUND, "device %d; there are %u, counted from 0", (int)index,
                                          (unsigned)list.count);
    } else {
        *out_api = api;
        *out_device = list.devices[index];
    }
    attune_opencl_host->free(list.devices);
    return status;
}

/* The device that a sub-device was cut from, or itself. */
static attune_status find_root(const struct attune_opencl_api *api, cl_device_id device, cl_device_id *out_root) {
    for (cl_device_id parent = device; parent != NULL;) {
        *out_root = parent;
        const attune_status status =
            attune_opencl_check(api->GetDeviceInfo(*out_root, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, NULL),
                                "CL_DEVICE_PARENT_DEVICE");
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return ATTUNE_OK;
}

/* Extension cl_khr_icd, by which the loader finds the driver of an object. */
bool attune_opencl_has_dispatch(const struct attune_opencl_api *api, cl_device_id device) {
    cl_platform_id platform = NULL;
    size_t size = 0;
    if (api->GetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL) != CL_SUCCESS ||
        api->GetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, 0, NULL, &size) != CL_SUCCESS) {
        return false;
    }
    char *extensions = attune_opencl_host->alloc(size + 1);
    const bool is_there =
        extensions != NULL &&
        api->GetPlatformInfo(platform, CL_PLATFORM_EXTENSIONS, size, extensions, NULL) == CL_SUCCESS &&
        strstr(extensions, "cl_khr_icd") != NULL;
    attune_opencl_host->free(extensions);
    return is_there;
}

/* Its place in the list; the list's count if it is not there. */
static cl_uint find_listed(const struct list *list, cl_device_id device) {
    cl_uint index = 0;
    while (index < list->count && list->devices[index] != device) {
        index++;
    }
    return index;
}

/* Whether what is not listed may be a part of a device, which begins with the same pointer as the device: see
 * attune_opencl_may_be_object. */
static bool may_be_part(const struct attune_opencl_api *api, const struct list *list, cl_device_id device) {
    bool may_be = false;
    for (cl_uint index = 0; index < list->count && !may_be; index++) {
        may_be = !attune_opencl_has_dispatch(api, list->devices[index]) ||
                 memcmp(device, list->devices[index], sizeof(void *)) == 0;
    }
    return may_be;
}

attune_status attune_opencl_find_index(const struct attune_opencl_api *api, cl_device_id device, int32_t *out_index) {
    struct list list = {NULL, 0, 0};
    cl_device_id root = device;
    attune_status status = list_all(api, &list);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (find_listed(&list, device) == list.count && may_be_part(api, &list, device)) {
        status = find_root(api, device, &root);
    }
    const cl_uint index = find_listed(&list, root);
    if (status == ATTUNE_OK && index == list.count) {
        status = attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                          "native.device is not a cl_device_id, or one that %s does not list",
                                          api->driver.path);
    }
    attune_opencl_host->free(list.devices);
    *out_index = (int32_t)index;
    return status;
}

attune_status attune_opencl_enumerate(int32_t index, attune_device_info *out_info) {
    const struct attune_opencl_api *api = NULL;
    cl_device_id device = NULL;
    const attune_status status = attune_opencl_find_device(index, &api, &device);
    return status == ATTUNE_OK ? attune_opencl_describe(api, device, out_info) : status;
}
