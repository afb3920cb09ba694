/*
 * Where a tensor's data lies.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdint.h>
#include <string.h>

#include "backends/opencl/device.h"

/* ---- Memory objects ---- */

struct question {
    cl_mem_info fact;
    size_t size;
    void *answer;
};

static attune_status ask(const struct attune_opencl_api *api, cl_mem memory, const struct question *questions,
                         size_t count) {
    for (size_t index = 0; index < count; index++) {
        const struct question *question = &questions[index];
        const cl_int result = api->GetMemObjectInfo(memory, question->fact, question->size, question->answer, NULL);
        if (result == CL_INVALID_MEM_OBJECT) {
            return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT, "%p is no cl_mem", (void *)memory);
        }
        const attune_status status = attune_opencl_check(result, "clGetMemObjectInfo");
        if (status != ATTUNE_OK) {
            return status;
        }
    }
    return ATTUNE_OK;
}

struct object_facts {
    cl_context context;
    cl_mem_object_type type;
    cl_mem parent; /* of a sub-buffer, which begins at offset of it */
    size_t offset;
    size_t bytes;
};

static attune_status look_up(const struct attune_opencl_api *api, cl_mem memory, struct object_facts *out_facts) {
    const struct question questions[] = {
        {CL_MEM_CONTEXT, sizeof out_facts->context, &out_facts->context},
        {CL_MEM_TYPE, sizeof out_facts->type, &out_facts->type},
        {CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(cl_mem), (void *)&out_facts->parent},
        {CL_MEM_OFFSET, sizeof out_facts->offset, &out_facts->offset},
        {CL_MEM_SIZE, sizeof out_facts->bytes, &out_facts->bytes},
    };
    return ask(api, memory, questions, sizeof questions / sizeof questions[0]);
}

static attune_status check_object(const struct attune_opencl_device *device, const void *data,
                                  const struct object_facts *facts) {
    const int32_t alignment = device->limits.alignment_bytes;
    if (facts->type != CL_MEM_OBJECT_BUFFER) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT, "%p is a cl_mem, but no buffer", data);
    }
    if (facts->context != device->context) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                        "%p is a cl_mem of another cl_context than the device's", data);
    }
    if (facts->parent != NULL && alignment > 0 && facts->offset % (size_t)alignment != 0) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                        "%p is a sub-buffer from byte %zu on: must be a multiple of %d bytes, the "
                                        "CL_DEVICE_MEM_BASE_ADDR_ALIGN of %s",
                                        data, facts->offset, (int)alignment, device->name);
    }
    return ATTUNE_OK;
}

/* The host's memory that a whole object was made over; NULL if it has memory of its own. */
static attune_status find_host(const struct attune_opencl_api *api, cl_mem whole, void **out_host) {
    cl_mem_flags flags = 0;
    void *host = NULL;
    const struct question questions[] = {
        {CL_MEM_FLAGS, sizeof flags, &flags},
        {CL_MEM_HOST_PTR, sizeof host, (void *)&host},
    };
    const attune_status status = ask(api, whole, questions, sizeof questions / sizeof questions[0]);
    *out_host = (flags & CL_MEM_USE_HOST_PTR) != 0 ? host : NULL;
    return status;
}

/* An object over memory of the host is as aligned as that is, and may share it with another one: its place is its
 * address. Any other is a space of its own. */
static attune_status range_of_object(const struct attune_opencl_device *device, const void *data,
                                     attune_memory_range *out_range) {
    const cl_mem memory = (cl_mem)(uintptr_t)data;
    struct object_facts facts = {0};
    void *host = NULL;
    attune_status status = look_up(device->api, memory, &facts);
    if (status == ATTUNE_OK) {
        status = check_object(device, data, &facts);
    }
    const cl_mem whole = facts.parent == NULL ? memory : facts.parent;
    if (status == ATTUNE_OK) {
        status = find_host(device->api, whole, &host);
    }
    if (status == ATTUNE_OK) {
        const uint64_t space = host == NULL ? (uint64_t)(uintptr_t)whole : 0;
        *out_range = (attune_memory_range){space, (uint64_t)(uintptr_t)host + facts.offset, facts.bytes};
    }
    return status;
}

/* ---- Any pointer ---- */

/* A loader that is asked about an address that is no object's goes where its first bytes point to. So they are compared
 * first, where drivers have promised what they are; all else is refused by the driver itself. */
static bool may_be_object(const struct attune_opencl_device *device, const void *data) {
    return !device->has_dispatch || memcmp(data, device->device, sizeof(void *)) == 0;
}

attune_status attune_opencl_memory_range(void *handle, const void *data, attune_memory_range *out_range) {
    struct attune_opencl_device *device = handle;
    attune_status status = attune_opencl_enter(device);
    if (status != ATTUNE_OK || attune_opencl_svm_find(device, data, out_range)) {
        return status;
    }
    if (!may_be_object(device, data)) {
        return attune_opencl_host->fail(ATTUNE_INVALID_ARGUMENT,
                                        "%p is no cl_mem, nor shared virtual memory of attune_memory_alloc", data);
    }
    return range_of_object(device, data, out_range);
}
