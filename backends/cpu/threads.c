/*
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE /* sched_getaffinity */

#include "backends/cpu/threads.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Affinity ---- */

/* The processors in a set of so many bits. 0: the kernel wants more bits than that; negative: it does not tell. */
static int32_t count_affinity(size_t bits) {
    cpu_set_t *set = CPU_ALLOC(bits);
    if (set == NULL) {
        return -1;
    }
    const size_t size = CPU_ALLOC_SIZE(bits);
    int32_t count = 0;
    if (sched_getaffinity(0, size, set) == 0) {
        count = CPU_COUNT_S(size, set);
    } else if (errno != EINVAL) {
        count = -1;
    }
    CPU_FREE(set);
    return count;
}

static int32_t threads_by_affinity(void) {
    int32_t count = 0;
    for (size_t bits = 1024; count == 0 && bits <= (size_t)1 << 20; bits *= 2) {
        count = count_affinity(bits);
    }
    return count > 0 ? count : 1;
}

/* ---- Control groups ---- */

#define PATH_BYTES 4096

/* The two kinds of cpu controller. */
struct cgroup_kind {
    const char *mount;       /* where the hierarchy is mounted */
    const char *quota_file;  /* microseconds of CPU time in each period; "max" or -1 for no limit */
    const char *period_file; /* NULL: the period follows the quota in quota_file */
};
static const struct cgroup_kind cgroup_v1 = {"/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"};
static const struct cgroup_kind cgroup_v2 = {"/sys/fs/cgroup", "cpu.max", NULL};

/* Up to two numbers at the start of a file; those that are not there stay as they were. */
static void read_numbers(const char *root, const struct cgroup_kind *kind, const char *group, const char *file,
                         long long out_number[2]) {
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s%s%s/%s", root, kind->mount, group, file);
    FILE *stream = length < (int)sizeof path ? fopen(path, "r") : NULL;
    if (stream == NULL) {
        return;
    }
    if (fscanf(stream, "%lld %lld", &out_number[0], &out_number[1]) < 0) {
        out_number[0] = -1;
    }
    fclose(stream);
}

/* Whole processors that one group is allowed; INT32_MAX for no limit. */
static int32_t threads_by_group(const char *root, const struct cgroup_kind *kind, const char *group) {
    long long quota[2] = {-1, 0};
    long long period[2] = {0, 0};
    read_numbers(root, kind, group, kind->quota_file, quota);
    if (kind->period_file == NULL) {
        period[0] = quota[1];
    } else {
        read_numbers(root, kind, group, kind->period_file, period);
    }
    if (quota[0] < 0 || period[0] <= 0) {
        return INT32_MAX;
    }
    const long long whole = quota[0] / period[0];
    return whole < 1 ? 1 : (whole > INT32_MAX ? INT32_MAX : (int32_t)whole);
}

/* The least of a group and all that it lies in. In a container the names above the mount are unknown; they are passed
 * over until the mount itself is reached. group is cut. */
static int32_t threads_by_groups(const char *root, const struct cgroup_kind *kind, char *group) {
    int32_t least = INT32_MAX;
    for (;;) {
        const int32_t threads = threads_by_group(root, kind, strcmp(group, "/") == 0 ? "" : group);
        least = threads < least ? threads : least;
        char *last = strrchr(group, '/');
        if (last == NULL) {
            return least;
        }
        *last = '\0';
    }
}

/* Whether a comma-separated list of controllers has "cpu". */
static bool has_cpu_controller(const char *list) {
    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, "cpu", 3) == 0 && (at[3] == ',' || at[3] == '\0')) {
            return true;
        }
    }
    return false;
}

/* A line of proc/self/cgroup: "number:controllers:group", the list being empty for version 2. line is cut. */
static int32_t threads_by_line(const char *root, char *line) {
    char *list = strchr(line, ':');
    char *group = list == NULL ? NULL : strchr(list + 1, ':');
    if (group == NULL) {
        return INT32_MAX;
    }
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    list++;
    if (*list == '\0') {
        return threads_by_groups(root, &cgroup_v2, group);
    }
    return has_cpu_controller(list) ? threads_by_groups(root, &cgroup_v1, group) : INT32_MAX;
}

int32_t attune_cpu_threads_by_quota(const char *root) {
    char path[PATH_BYTES];
    char line[PATH_BYTES];
    int32_t least = INT32_MAX;
    const int length = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *stream = length < (int)sizeof path ? fopen(path, "r") : NULL;
    if (stream == NULL) {
        return least;
    }
    while (fgets(line, sizeof line, stream) != NULL) {
        const int32_t threads = threads_by_line(root, line);
        least = threads < least ? threads : least;
    }
    fclose(stream);
    return least;
}

int32_t attune_cpu_threads_available(void) {
    const int32_t affinity = threads_by_affinity();
    const int32_t quota = attune_cpu_threads_by_quota("");
    return quota < affinity ? quota : affinity;
}

/* ---- The caller's choice ---- */

attune_status attune_cpu_threads_choose(const attune_host_services *host, int32_t *out_threads) {
    const char *text = host->config_get("ATTUNE_NUM_THREADS");
    if (*text == '\0') {
        *out_threads = attune_cpu_threads_available();
        return ATTUNE_OK;
    }
    char *end = NULL;
    errno = 0;
    const long threads = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || threads < 1 || threads > ATTUNE_CPU_THREADS_MAX) {
        return host->fail(ATTUNE_INVALID_ARGUMENT, "ATTUNE_NUM_THREADS=\"%s\": must be a number from 1 to %d", text,
                          ATTUNE_CPU_THREADS_MAX);
    }
    *out_threads = (int32_t)threads;
    return ATTUNE_OK;
}
