/*
 * The one device, and what core plans with.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* sysconf */

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/threads.h"

/* ---- What is there ---- */

static uint64_t memory_bytes(void) {
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : 0;
}

static void machine_name(char name[ATTUNE_NAME_MAX]) {
    struct utsname machine;
    snprintf(name, ATTUNE_NAME_MAX, "%.60s", uname(&machine) == 0 ? machine.machine : "unknown");
}

/* The vendor's name, where the kernel tells it; else the machine's. */
static void processor_name(char name[ATTUNE_NAME_MAX]) {
    char line[256];
    machine_name(name);
    FILE *stream = fopen("/proc/cpuinfo", "r");
    if (stream == NULL) {
        return;
    }
    while (fgets(line, sizeof line, stream) != NULL) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", strlen("model name")) == 0 && value != NULL) {
            value += 1 + strspn(value + 1, " ");
            snprintf(name, ATTUNE_NAME_MAX, "%.*s", (int)strcspn(value, "\n"), value);
            break;
        }
    }
    fclose(stream);
}

/* On x86 the level of the psABI, on others the machine's name. Source: System V psABI for AMD64, table 3.1. */
static void architecture_name(char name[ATTUNE_NAME_MAX]) {
    machine_name(name);
#if defined(__x86_64__)
    int level = 1;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt")) {
        level = 2;
    }
    if (level == 2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2")) {
        level = 3;
    }
    if (level == 3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl")) {
        level = 4;
    }
    snprintf(name, ATTUNE_NAME_MAX, "x86-64-v%d", level);
#endif
}

/* ---- Caches ---- */

/* A file of cpu0's cache number index; false if there is none. */
static bool read_cache_file(int index, const char *file, char *text, int capacity) {
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
    FILE *stream = fopen(path, "r");
    if (stream == NULL) {
        return false;
    }
    const bool read = fgets(text, capacity, stream) != NULL;
    fclose(stream);
    return read;
}

/* The data cache of a level in bytes, by sysfs; 0 if it is unknown. */
static int64_t cache_bytes_by_sysfs(int level) {
    char text[32];
    for (int index = 0; read_cache_file(index, "level", text, sizeof text); index++) {
        int found = 0;
        long long kibibytes = 0;
        if (sscanf(text, "%d", &found) != 1 || found != level || !read_cache_file(index, "type", text, sizeof text) ||
            text[0] == 'I') {
            continue;
        }
        if (read_cache_file(index, "size", text, sizeof text) && sscanf(text, "%lldK", &kibibytes) == 1) {
            return kibibytes * 1024;
        }
    }
    return 0;
}

/* The C library asks the processor itself on x86, and knows little elsewhere. */
static int64_t cache_bytes(int level, int name) {
    const long bytes = name < 0 ? 0 : sysconf(name);
    return bytes > 0 ? bytes : cache_bytes_by_sysfs(level);
}

#ifdef _SC_LEVEL2_CACHE_SIZE
#    define LEVEL2 _SC_LEVEL2_CACHE_SIZE
#    define LEVEL3 _SC_LEVEL3_CACHE_SIZE
#else
#    define LEVEL2 (-1)
#    define LEVEL3 (-1)
#endif

/* ---- The device ---- */

attune_status attune_cpu_enumerate(int32_t index, attune_device_info *out_info) {
    if (index > 0) {
        return ATTUNE_NOT_FOUND;
    }
    processor_name(out_info->name);
    snprintf(out_info->driver, sizeof out_info->driver, "%s", attune_cpu_team_runtime());
    out_info->is_cpu = true;
    out_info->is_emulation = false;
    out_info->memory_bytes = memory_bytes();
    return ATTUNE_OK;
}

attune_status attune_cpu_device_open(int32_t index, void **out_device) {
    if (index != 0) {
        return attune_cpu_host->fail(ATTUNE_NOT_FOUND, "device %d; there is only device 0", index);
    }
    struct attune_cpu_device opened = {.team.host = attune_cpu_host};
    attune_status status = attune_cpu_threads_choose(attune_cpu_host, &opened.team.threads);
    if (status == ATTUNE_OK) {
        status = attune_cpu_family_choose(&opened.family);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    struct attune_cpu_device *device = attune_cpu_host->alloc(sizeof *device);
    if (device == NULL) {
        return attune_cpu_host->fail(ATTUNE_OUT_OF_MEMORY, "a device of %zu bytes", sizeof *device);
    }
    *device = opened;
    *out_device = device;
    return ATTUNE_OK;
}

void attune_cpu_device_close(void *device) {
    attune_cpu_host->free(device);
}

attune_status attune_cpu_device_limits(void *device, attune_device_limits *out_limits) {
    const struct attune_cpu_device *cpu = device;
    architecture_name(out_limits->architecture);
    out_limits->processors = cpu->team.threads;
    out_limits->shared_memory_bytes = cache_bytes(2, LEVEL2);
    /* What the processors share between them and the memory; a GPU calls it L2. */
    out_limits->l2_cache_bytes = cache_bytes(3, LEVEL3);
    out_limits->memory_bytes = (int64_t)memory_bytes();
    out_limits->alignment_bytes = ATTUNE_HOST_MEMORY_ALIGNMENT_BYTES;
    out_limits->is_cpu = true;
    out_limits->is_emulation = false;
    return ATTUNE_OK;
}
