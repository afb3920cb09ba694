/*
 * Programs: built from source for a device, kept in memory by it and as files by the host.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backends/opencl/kernel.h"

/* What every source is compiled with. Nothing that gives up NaN, infinity or the order of sums. */
#define COMMON_OPTIONS "-cl-std=CL1.2"

struct attune_opencl_program {
    struct attune_opencl_program *next;
    cl_program program;
    const char *source; /* of the library's own texts, so an address tells them apart */
    char options[];
};

/* ---- Keys ---- */

/* FNV-1a, 64 bits (draft-eastlake-fnv). The end of a text counts, so that texts cannot run into each other. */
static uint64_t hash_add(uint64_t hash, const char *text) {
    size_t index = 0;
    do {
        hash = (hash ^ (unsigned char)text[index]) * UINT64_C(0x100000001b3);
    } while (text[index++] != '\0');
    return hash;
}

static void make_key(const struct attune_opencl_device *device, const char *source, const char *options,
                     char out_key[64]) {
    uint64_t device_hash = UINT64_C(0xcbf29ce484222325);
    uint64_t program_hash = device_hash;
    device_hash = hash_add(device_hash, device->name);
    device_hash = hash_add(device_hash, device->driver);
    device_hash = hash_add(device_hash, device->version);
    program_hash = hash_add(program_hash, source);
    program_hash = hash_add(program_hash, options);
    snprintf(out_key, 64, "opencl-%016" PRIx64 "-%016" PRIx64, device_hash, program_hash);
}

/* ---- From the cache ---- */

static cl_int build(const struct attune_opencl_device *device, cl_program program, const char *options) {
    char all[sizeof COMMON_OPTIONS + 1 + ATTUNE_OPENCL_OPTIONS_MAX];
    snprintf(all, sizeof all, COMMON_OPTIONS " %s", options);
    return device->api->BuildProgram(program, 1, &device->device, all, NULL, NULL);
}

/* NULL if there is no file, or none that the driver takes: a file may be whole, and the driver another one under the
 * same version. */
static cl_program load_cached(const struct attune_opencl_device *device, const char *key, const char *options) {
    const struct attune_opencl_api *api = device->api;
    void *binary = NULL;
    size_t size = 0;
    if (attune_opencl_host->cache_read(key, &binary, &size) != ATTUNE_OK) {
        return NULL;
    }
    const unsigned char *bytes = binary;
    cl_int taken = CL_SUCCESS;
    cl_int result = CL_SUCCESS;
    cl_program program =
        api->CreateProgramWithBinary(device->context, 1, &device->device, &size, &bytes, &taken, &result);
    attune_opencl_host->free(binary);
    if (result != CL_SUCCESS) {
        return NULL;
    }
    if (taken != CL_SUCCESS || build(device, program, options) != CL_SUCCESS) {
        (void)api->ReleaseProgram(program);
        return NULL;
    }
    return program;
}

/* PoCL keeps what it compiles itself; to give a binary it compiles each kernel again, for a size of work-group that
 * nobody launches. */
static bool keeps_programs_itself(const struct attune_opencl_device *device) {
    return strstr(device->version, "PoCL") != NULL;
}

/* The device's binary, in memory from the host's alloc; NULL if there is none. A program has one for each device of its
 * context that it was built for. */
static unsigned char *take_binary(const struct attune_opencl_device *device, cl_program program, size_t *out_size) {
    const struct attune_opencl_api *api = device->api;
    cl_device_id devices[ATTUNE_OPENCL_CONTEXT_DEVICES_MAX];
    size_t sizes[ATTUNE_OPENCL_CONTEXT_DEVICES_MAX];
    unsigned char *binaries[ATTUNE_OPENCL_CONTEXT_DEVICES_MAX] = {NULL}; /* NULL: not asked for */
    size_t bytes = 0;
    if (api->GetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, &bytes) != CL_SUCCESS ||
        api->GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS) {
        return NULL;
    }
    const size_t count = bytes / sizeof devices[0];
    size_t at = 0;
    while (at < count && devices[at] != device->device) {
        at++;
    }
    if (at == count || sizes[at] == 0) {
        return NULL;
    }
    binaries[at] = attune_opencl_host->alloc(sizes[at]);
    if (binaries[at] != NULL && api->GetProgramInfo(program, CL_PROGRAM_BINARIES, count * sizeof binaries[0],
                                                    (void *)binaries, NULL) != CL_SUCCESS) {
        attune_opencl_host->free(binaries[at]);
        return NULL;
    }
    *out_size = sizes[at];
    return binaries[at];
}

/* A cache that cannot be written is no error: the next process builds again. */
static void store(const struct attune_opencl_device *device, const char *key, cl_program program) {
    size_t size = 0;
    unsigned char *binary = take_binary(device, program, &size);
    if (binary != NULL && attune_opencl_host->cache_write(key, binary, size) != ATTUNE_OK) {
        attune_opencl_host->log(ATTUNE_LOG_DEBUG, "opencl: program %s is not kept", key);
    }
    attune_opencl_host->free(binary);
}

/* ---- From source ---- */

/* The log's first line that tells of an error, or its first line. */
static void copy_error(const char *log, char out_line[ATTUNE_REASON_MAX]) {
    const char *at = strstr(log, "error");
    if (at == NULL) {
        at = log;
    }
    while (at > log && at[-1] != '\n') {
        at--;
    }
    snprintf(out_line, ATTUNE_REASON_MAX, "%.*s", (int)strcspn(at, "\n"), at);
}

static attune_status fail_build(const struct attune_opencl_device *device, cl_program program, cl_int result) {
    const struct attune_opencl_api *api = device->api;
    char line[ATTUNE_REASON_MAX] = "the driver says no more";
    char what[2 * ATTUNE_REASON_MAX];
    size_t size = 0;
    char *log = NULL;
    if (api->GetProgramBuildInfo(program, device->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS) {
        log = attune_opencl_host->alloc(size + 1);
    }
    if (log != NULL &&
        api->GetProgramBuildInfo(program, device->device, CL_PROGRAM_BUILD_LOG, size, log, NULL) == CL_SUCCESS) {
        copy_error(log, line);
        attune_opencl_host->log(ATTUNE_LOG_DEBUG, "opencl: %s", log);
    }
    attune_opencl_host->free(log);
    snprintf(what, sizeof what, "%s cannot build the kernel: %s: clBuildProgram", device->name, line);
    return attune_opencl_check(result, what);
}

static attune_status build_source(const struct attune_opencl_device *device, const char *source, const char *options,
                                  cl_program *out_program) {
    cl_int result = CL_SUCCESS;
    cl_program program = device->api->CreateProgramWithSource(device->context, 1, &source, NULL, &result);
    attune_status status = attune_opencl_check(result, "clCreateProgramWithSource");
    if (status != ATTUNE_OK) {
        return status;
    }
    result = build(device, program, options);
    if (result != CL_SUCCESS) {
        status = fail_build(device, program, result);
        (void)device->api->ReleaseProgram(program);
        return status;
    }
    *out_program = program;
    return ATTUNE_OK;
}

static attune_status make_program(const struct attune_opencl_device *device, const char *source, const char *options,
                                  cl_program *out_program) {
    char key[64];
    make_key(device, source, options, key);
    *out_program = load_cached(device, key, options);
    if (*out_program != NULL) {
        return ATTUNE_OK;
    }
    const attune_status status = build_source(device, source, options, out_program);
    if (status == ATTUNE_OK && !keeps_programs_itself(device)) {
        store(device, key, *out_program);
    }
    return status;
}

/* ---- In memory ---- */

static attune_status add_program(struct attune_opencl_device *device, const char *source, const char *options,
                                 struct attune_opencl_program **out_entry) {
    const size_t options_bytes = strlen(options) + 1;
    struct attune_opencl_program *entry = attune_opencl_host->alloc(sizeof *entry + options_bytes);
    if (entry == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "a program's record of %zu bytes",
                                        sizeof *entry + options_bytes);
    }
    const attune_status status = make_program(device, source, options, &entry->program);
    if (status != ATTUNE_OK) {
        attune_opencl_host->free(entry);
        return status;
    }
    entry->source = source;
    memcpy(entry->options, options, options_bytes);
    entry->next = device->programs;
    device->programs = entry;
    *out_entry = entry;
    return ATTUNE_OK;
}

/* The lock is held during a build: of two threads that want the same program, one builds it. */
attune_status attune_opencl_program_get(struct attune_opencl_device *device, const char *source, const char *options,
                                        cl_program *out_program) {
    attune_status status = ATTUNE_OK;
    (void)pthread_mutex_lock(&device->programs_lock);
    struct attune_opencl_program *entry = device->programs;
    while (entry != NULL && (entry->source != source || strcmp(entry->options, options) != 0)) {
        entry = entry->next;
    }
    if (entry == NULL) {
        status = add_program(device, source, options, &entry);
    }
    if (status == ATTUNE_OK) {
        *out_program = entry->program;
    }
    (void)pthread_mutex_unlock(&device->programs_lock);
    return status;
}

void attune_opencl_programs_release(struct attune_opencl_device *device) {
    while (device->programs != NULL) {
        struct attune_opencl_program *entry = device->programs;
        device->programs = entry->next;
        if (!attune_opencl_api_is_forked(device->api)) {
            (void)device->api->ReleaseProgram(entry->program);
        }
        attune_opencl_host->free(entry);
    }
}
