/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/opencl/api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define DEFAULT_LIBRARY "libOpenCL.so.1"

/* Of cl_khr_icd and of NVIDIA's driver; the headers here do not name the latter. */
#define PLATFORM_NOT_FOUND  (-1001)
#define NVIDIA_BAD_ACCESS   (-9999)
#define NVIDIA_BROKEN_QUEUE CL_INVALID_COMMAND_QUEUE

const attune_host_services *attune_opencl_host;

/* Two threads that come first may both open the library; the second's table is freed. So no lock is held while a
 * vendor's initialisers run. The library is never closed: its threads would outlive it. */
static _Atomic(struct attune_opencl_api *) opened_api;

/* ---- Forks ---- */

/* Counts the forks between this process and the one that loaded attune. */
static atomic_uint fork_generation;

static void count_fork(void) {
    atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void) {
    (void)pthread_atfork(NULL, NULL, count_fork);
}

bool attune_opencl_api_is_forked(const struct attune_opencl_api *api) {
    return atomic_load(&fork_generation) != api->fork_generation;
}

/* ---- Opening ---- */

static attune_status load_symbols(struct attune_opencl_api *api) {
    void *symbol = NULL;
    /* POSIX lets a void * from dlsym be a function pointer; ISO C only lets it be copied. */
#define CL_FUNCTION(result, name, arguments)                                                                           \
    symbol = dlsym(api->library, "cl" #name);                                                                          \
    if (symbol == NULL) {                                                                                              \
        return attune_opencl_host->fail(ATTUNE_UNAVAILABLE, "%s has no cl" #name ": it is older than OpenCL 1.2",      \
                                        api->path);                                                                    \
    }                                                                                                                  \
    memcpy(&api->name, &symbol, sizeof symbol);
#define CL_FUNCTION_2_0(result, name, arguments)                                                                       \
    symbol = dlsym(api->library, "cl" #name);                                                                          \
    memcpy(&api->name, &symbol, sizeof symbol);
#include "backends/opencl/cl_api.def"
#undef CL_FUNCTION
#undef CL_FUNCTION_2_0
    return ATTUNE_OK;
}

static attune_status open_library(struct attune_opencl_api *api) {
    const char *configured = attune_opencl_host->config_get("ATTUNE_OPENCL_LIBRARY");
    api->path = configured[0] != '\0' ? configured : DEFAULT_LIBRARY;
    api->library = dlopen(api->path, RTLD_NOW | RTLD_LOCAL);
    if (api->library == NULL) {
        return attune_opencl_host->fail(ATTUNE_UNAVAILABLE, "%s", dlerror());
    }
    return load_symbols(api);
}

static attune_status make_api(struct attune_opencl_api **out_api) {
    static pthread_once_t forks_watched = PTHREAD_ONCE_INIT;
    (void)pthread_once(&forks_watched, watch_forks);
    struct attune_opencl_api *api = attune_opencl_host->alloc(sizeof *api);
    if (api == NULL) {
        return attune_opencl_host->fail(ATTUNE_OUT_OF_MEMORY, "the library's function table, %zu bytes", sizeof *api);
    }
    api->fork_generation = atomic_load(&fork_generation);
    const attune_status status = open_library(api);
    if (status != ATTUNE_OK) {
        attune_opencl_host->free(api);
        return status;
    }
    *out_api = api;
    return ATTUNE_OK;
}

attune_status attune_opencl_api_open(const struct attune_opencl_api **out_api) {
    struct attune_opencl_api *api = atomic_load(&opened_api);
    if (api == NULL) {
        struct attune_opencl_api *made = NULL;
        const attune_status status = make_api(&made);
        if (status != ATTUNE_OK) {
            return status;
        }
        if (atomic_compare_exchange_strong(&opened_api, &api, made)) {
            api = made;
        } else {
            attune_opencl_host->free(made);
        }
    }
    if (attune_opencl_api_is_forked(api)) {
        return attune_opencl_host->fail(ATTUNE_UNAVAILABLE, "this process is a fork of one that had opened OpenCL");
    }
    *out_api = api;
    return ATTUNE_OK;
}

/* ---- What the driver says ---- */

static const struct {
    cl_int result;
    attune_status status;
    const char *name;
} results[] = {
    {CL_DEVICE_NOT_FOUND, ATTUNE_UNAVAILABLE, "CL_DEVICE_NOT_FOUND"},
    {CL_DEVICE_NOT_AVAILABLE, ATTUNE_UNAVAILABLE, "CL_DEVICE_NOT_AVAILABLE"},
    {CL_COMPILER_NOT_AVAILABLE, ATTUNE_UNAVAILABLE, "CL_COMPILER_NOT_AVAILABLE"},
    {PLATFORM_NOT_FOUND, ATTUNE_UNAVAILABLE, "CL_PLATFORM_NOT_FOUND_KHR"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, ATTUNE_OUT_OF_MEMORY, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {CL_OUT_OF_RESOURCES, ATTUNE_OUT_OF_MEMORY, "CL_OUT_OF_RESOURCES"},
    {CL_OUT_OF_HOST_MEMORY, ATTUNE_OUT_OF_MEMORY, "CL_OUT_OF_HOST_MEMORY"},
    {CL_INVALID_BUFFER_SIZE, ATTUNE_OUT_OF_MEMORY, "CL_INVALID_BUFFER_SIZE"},
    {CL_BUILD_PROGRAM_FAILURE, ATTUNE_UNSUPPORTED, "CL_BUILD_PROGRAM_FAILURE"},
    {CL_INVALID_BINARY, ATTUNE_UNSUPPORTED, "CL_INVALID_BINARY"},
    {CL_INVALID_BUILD_OPTIONS, ATTUNE_UNSUPPORTED, "CL_INVALID_BUILD_OPTIONS"},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, ATTUNE_DEVICE_LOST, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {NVIDIA_BROKEN_QUEUE, ATTUNE_DEVICE_LOST, "CL_INVALID_COMMAND_QUEUE"},
    {NVIDIA_BAD_ACCESS, ATTUNE_DEVICE_LOST, "a kernel read or wrote where no memory is"},
    {CL_MEM_COPY_OVERLAP, ATTUNE_INVALID_ARGUMENT, "CL_MEM_COPY_OVERLAP"},
    {CL_INVALID_OPERATION, ATTUNE_INVALID_ARGUMENT,
     "CL_INVALID_OPERATION, as for a cl_mem that the host has no access to"},
    {CL_INVALID_VALUE, ATTUNE_INTERNAL, "CL_INVALID_VALUE"},
    {CL_INVALID_CONTEXT, ATTUNE_INTERNAL, "CL_INVALID_CONTEXT"},
    {CL_INVALID_DEVICE, ATTUNE_INTERNAL, "CL_INVALID_DEVICE"},
    {CL_INVALID_MEM_OBJECT, ATTUNE_INTERNAL, "CL_INVALID_MEM_OBJECT"},
    {CL_INVALID_KERNEL_NAME, ATTUNE_INTERNAL, "CL_INVALID_KERNEL_NAME"},
    {CL_INVALID_KERNEL_ARGS, ATTUNE_INTERNAL, "CL_INVALID_KERNEL_ARGS"},
    {CL_INVALID_ARG_SIZE, ATTUNE_INTERNAL, "CL_INVALID_ARG_SIZE"},
    {CL_INVALID_WORK_GROUP_SIZE, ATTUNE_INTERNAL, "CL_INVALID_WORK_GROUP_SIZE"},
    {CL_PROFILING_INFO_NOT_AVAILABLE, ATTUNE_UNSUPPORTED, "CL_PROFILING_INFO_NOT_AVAILABLE"},
};

attune_status attune_opencl_check(cl_int result, const char *what) {
    if (result == CL_SUCCESS) {
        return ATTUNE_OK;
    }
    for (size_t index = 0; index < sizeof results / sizeof results[0]; index++) {
        if (results[index].result == result) {
            return attune_opencl_host->fail(results[index].status, "%s: %s (%d)", what, results[index].name,
                                            (int)result);
        }
    }
    return attune_opencl_host->fail(ATTUNE_INTERNAL, "%s: error %d", what, (int)result);
}
