/*
 * How many threads the CPU backend takes, and how it runs on them: control groups made of files, affinity, callers with
 * threads of their own, forks.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _GNU_SOURCE /* sched_setaffinity, nftw */

#include <ftw.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/cpu/team.h"
#include "backends/cpu/threads.h"
#include "tests/support/cmocka_all.h"
#include "tests/unit/reference_case.h"

#define MUCH 1e12 /* operations: always worth all threads */

/* ---- Control groups ---- */

static char root[64];

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *walk) {
    (void)status, (void)kind, (void)walk;
    return remove(path);
}

static int make_root(void **state) {
    (void)state;
    strcpy(root, "/tmp/attune_cgroup_XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state) {
    (void)state;
    return nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes root/path, with its folders. */
static void put(const char *path, const char *text) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *at = strchr(whole + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(whole, 0700);
        *at = '/';
    }
    FILE *stream = fopen(whole, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

static void check_threads(int32_t expected) {
    assert_int_equal(attune_cpu_threads_by_quota(root), expected);
}

static void test_B131_version_2(void **state) {
    (void)state;
    put("proc/self/cgroup", "0::/a/b\n");
    check_threads(INT32_MAX);
    put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    check_threads(INT32_MAX);
    put("sys/fs/cgroup/a/b/cpu.max", "199999 100000\n"); /* rounded down */
    check_threads(1);
    put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"); /* at least one */
    check_threads(1);
    put("sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
    check_threads(2);
    put("sys/fs/cgroup/a/cpu.max", "100000 100000\n"); /* a group around it is tighter */
    check_threads(1);
}

static void test_B131_version_1(void **state) {
    (void)state;
    put("proc/self/cgroup", "12:cpuset:/x\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n");
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n"); /* the container sees its own group as the top */
    put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    check_threads(1);
    put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    check_threads(INT32_MAX);
    put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "100000\n");
    put("sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "50000\n");
    check_threads(2);
    put("proc/self/cgroup", "12:cpuset,cpuacct:/docker/abc\n"); /* not the cpu controller */
    check_threads(INT32_MAX);
}

static void test_files_that_make_no_sense(void **state) {
    (void)state;
    const char *texts[] = {"", "x", "100000", "100000 0\n", "-5 -5\n", "99999999999999999999999 100000\n"};
    check_threads(INT32_MAX);
    put("proc/self/cgroup", "no colon\n0::\n::::\n");
    check_threads(INT32_MAX);
    put("proc/self/cgroup", "0::/\n");
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        put("sys/fs/cgroup/cpu.max", texts[n]);
        check_threads(INT32_MAX);
    }
}

static void test_B131_affinity(void **state) {
    (void)state;
    cpu_set_t before;
    cpu_set_t one;
    cpu_set_t after;
    int first = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET(first, &before)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(attune_cpu_threads_available(), 1);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&one, &after));
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

/* ---- Running ---- */

#define UNITS 500

struct count {
    _Atomic int of_unit[UNITS];
    _Atomic int busy[8]; /* by thread number */
    _Atomic int faults;
    int32_t threads;
};

static void count_unit(const void *context, int64_t unit, int32_t thread) {
    struct count *count = (struct count *)(uintptr_t)context;
    if (thread < 0 || thread >= count->threads || atomic_fetch_add(&count->busy[thread], 1) != 0) {
        atomic_fetch_add(&count->faults, 1);
        return;
    }
    atomic_fetch_add(&count->of_unit[unit], 1);
    atomic_fetch_sub(&count->busy[thread], 1);
}

/* Every unit once, and no two at once with one thread number. */
static int faults_of_run(int32_t threads, double operations) {
    struct count count = {.threads = threads};
    const struct attune_cpu_team team = {.threads = threads, .host = &reference_case_host};
    attune_cpu_team_run(&team, UNITS, operations, count_unit, &count);
    for (int n = 0; n < UNITS; n++) {
        count.faults += count.of_unit[n] != 1;
    }
    return count.faults;
}

static void test_every_unit_once(void **state) {
    (void)state;
    for (int32_t threads = 1; threads <= 8; threads++) {
        assert_int_equal(faults_of_run(threads, MUCH), 0);
        assert_int_equal(faults_of_run(threads, 0), 0);
    }
}

static void test_no_units(void **state) {
    (void)state;
    const struct attune_cpu_team team = {.threads = 4, .host = &reference_case_host};
    attune_cpu_team_run(&team, 0, MUCH, count_unit, NULL);
}

static double seconds_of(clockid_t clock) {
    struct timespec now;
    assert_int_equal(clock_gettime(clock, &now), 0);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void sleep_in_first_unit(const void *context, int64_t unit, int32_t thread) {
    (void)context, (void)thread;
    if (unit == 0) {
        (void)usleep(400000);
    }
}

/* Threads that wait for the last unit, and for the next call, do it asleep: of 3 that wait for 0.7 s, as good as
 * nothing is spent. */
static void test_waiting_takes_no_time(void **state) {
    (void)state;
    const struct attune_cpu_team team = {.threads = 4, .host = &reference_case_host};
    const double began = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    attune_cpu_team_run(&team, 4, MUCH, sleep_in_first_unit, NULL);
    (void)usleep(300000);
    assert_true(seconds_of(CLOCK_PROCESS_CPUTIME_ID) - began < 0.05);
}

static void test_inside_of_a_parallel_region(void **state) {
    (void)state;
    const int before = omp_get_max_threads();
    int faults = 0;
#pragma omp parallel num_threads(3) reduction(+ : faults)
    faults += faults_of_run(4, MUCH);
    assert_int_equal(faults, 0);
    assert_int_equal(omp_get_max_threads(), before);
    assert_int_equal(faults_of_run(4, MUCH), 0);
}

static void *run_on_thread(void *faults) {
    for (int n = 0; n < 20; n++) {
        *(int *)faults += faults_of_run(3, MUCH);
    }
    return NULL;
}

static void test_from_several_threads(void **state) {
    (void)state;
    pthread_t thread[4];
    int faults[4] = {0};
    for (int n = 0; n < 4; n++) {
        assert_int_equal(pthread_create(&thread[n], NULL, run_on_thread, &faults[n]), 0);
    }
    for (int n = 0; n < 4; n++) {
        assert_int_equal(pthread_join(thread[n], NULL), 0);
        assert_int_equal(faults[n], 0);
    }
}

/* What a forked child does: exits with 0 if it ran everything and said so once. An alarm ends one that hangs. */
static int status_of_child(int lines_expected) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        const int before = reference_case_logged();
        const int faults = faults_of_run(4, MUCH) + faults_of_run(4, MUCH);
        _exit(faults == 0 && reference_case_logged() - before == lines_expected ? 0 : 1);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void test_fork_after_a_parallel_region(void **state) {
    (void)state;
    assert_int_equal(faults_of_run(4, MUCH), 0);
    assert_int_equal(status_of_child(1), 0);
    assert_int_equal(faults_of_run(4, MUCH), 0); /* the parent goes on as it was */
}

/* Runs first: while the process has one thread a child may have as many as it likes, and has nothing to say. */
static void test_fork_before_any_thread(void **state) {
    (void)state;
    attune_cpu_team_watch_forks();
    assert_int_equal(status_of_child(0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork_before_any_thread),
        cmocka_unit_test_setup_teardown(test_B131_version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_B131_version_1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(test_files_that_make_no_sense, make_root, remove_root),
        cmocka_unit_test(test_B131_affinity),
        cmocka_unit_test(test_every_unit_once),
        cmocka_unit_test(test_no_units),
        cmocka_unit_test(test_waiting_takes_no_time),
        cmocka_unit_test(test_inside_of_a_parallel_region),
        cmocka_unit_test(test_from_several_threads),
        cmocka_unit_test(test_fork_after_a_parallel_region),
    };
    return cmocka_run_group_tests_name("cpu threads", tests, NULL, NULL);
}
