/*
 * The public listing and opening, from many threads at first, and in a forked child.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "attune/device.h"
#include "core/builtin.h"
#include "tests/support/log_capture.h"
#include "tests/support/stub_backend.h"

#define THREADS 8

/* Slow, so that all threads arrive while the first one asks. */
static const attune_backend *query_stub(int32_t abi, const attune_host_services *services) {
    static attune_backend backend;
    const struct timespec a_while = {.tv_nsec = 100 * 1000 * 1000};
    (void)abi;
    (void)services;
    nanosleep(&a_while, NULL);
    backend = stub_backend("stub", 10);
    return &backend;
}

const struct attune_builtin_backend attune_builtin_backends[] = {{"stub", query_stub}, {NULL, NULL}};

static struct log_capture capture;

static void *open_all(void *barrier) {
    static const char *const selectors[] = {"good:1", "stub", "auto", "longer"};
    pthread_barrier_wait(barrier);
    for (size_t index = 0; index < sizeof selectors / sizeof selectors[0]; index++) {
        attune_device *device = NULL;
        if (attune_device_open(selectors[index], &device) != ATTUNE_OK) {
            return (void *)selectors[index];
        }
        attune_device_close(device);
    }
    int32_t count = 0;
    return attune_backend_count(&count) == ATTUNE_OK && count > 2 ? NULL : "attune_backend_count";
}

/* "good" lets itself be asked only once. */
static void the_first_calls_may_race(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, THREADS);
    log_capture_start(&capture, ATTUNE_LOG_WARN);
    setenv("ATTUNE_BACKEND_PATH", TEST_MODULE_DIR, 1);
    for (int index = 0; index < THREADS; index++) {
        assert_int_equal(pthread_create(&threads[index], NULL, open_all, &barrier), 0);
    }
    for (int index = 0; index < THREADS; index++) {
        void *failed;
        pthread_join(threads[index], &failed);
        if (failed != NULL) {
            fail_msg("%s failed", (const char *)failed);
        }
    }
    pthread_barrier_destroy(&barrier);
    log_capture_stop(&capture);
    assert_contains(capture.text, "backend newer (");
    assert_null(strstr(strstr(capture.text, "backend newer (") + 1, "backend newer ("));
}

static int32_t find_backend(const char *name, attune_backend_info *out_info) {
    int32_t count = 0;
    assert_int_equal(attune_backend_count(&count), ATTUNE_OK);
    for (int32_t index = 0; index < count; index++) {
        out_info->struct_size = sizeof *out_info;
        assert_int_equal(attune_backend_get(index, out_info), ATTUNE_OK);
        if (strcmp(out_info->name, name) == 0) {
            return index;
        }
    }
    fail_msg("no backend %s", name);
    return -1;
}

static void backends_are_listed_by_priority(void **state) {
    (void)state;
    int32_t count = 0;
    assert_int_equal(attune_backend_count(&count), ATTUNE_OK);
    int32_t last_priority = INT32_MAX;
    for (int32_t index = 0; index < count; index++) {
        attune_backend_info info = {.struct_size = sizeof info};
        assert_int_equal(attune_backend_get(index, &info), ATTUNE_OK);
        assert_true(info.priority <= last_priority);
        assert_true((info.status == ATTUNE_OK) == (info.device_count > 0));
        assert_true((info.status == ATTUNE_OK) == (info.reason[0] == '\0'));
        last_priority = info.priority;
    }
}

static void usable_and_unusable_backends_are_described(void **state) {
    (void)state;
    attune_backend_info info;
    int32_t index = find_backend("stub", &info);
    assert_int_equal(info.status, ATTUNE_OK);
    assert_int_equal(info.device_count, STUB_DEVICE_COUNT);
    assert_string_equal(info.description, "a stub");
    attune_device_info device = {.struct_size = sizeof device};
    assert_int_equal(attune_backend_get_device(index, 1, &device), ATTUNE_OK);
    assert_string_equal(device.selector, "stub:1");
    assert_string_equal(device.name, "Stub B");
    assert_int_equal(attune_backend_get_device(index, 2, &device), ATTUNE_NOT_FOUND);
    assert_int_equal(attune_backend_get_device(index, -1, &device), ATTUNE_NOT_FOUND);

    index = find_backend("missing", &info);
    assert_int_equal(info.status, ATTUNE_UNAVAILABLE);
    assert_contains(info.reason, "libattune_absent.so.0");
    assert_int_equal(attune_backend_get_device(index, 0, &device), ATTUNE_UNAVAILABLE);

    setenv("ATTUNE_CUDA_LIBRARY", "libattune_no_such_driver.so", 1);
    (void)find_backend("cuda", &info);
    unsetenv("ATTUNE_CUDA_LIBRARY");
    assert_int_equal(info.status, ATTUNE_UNAVAILABLE);
    assert_contains(info.reason, "this attune has no cuda backend");
    assert_contains(info.reason, "libattune_no_such_driver.so: cannot open shared object file");
}

static void struct_sizes_are_kept_to(void **state) {
    (void)state;
    struct {
        attune_backend_info info;
        char behind[8];
    } larger;
    memset(&larger, 0x55, sizeof larger);
    larger.info.struct_size = sizeof larger.info;
    assert_int_equal(attune_backend_get(0, &larger.info), ATTUNE_OK);
    for (size_t index = 0; index < sizeof larger.behind; index++) {
        assert_int_equal(larger.behind[index], 0x55);
    }
    const size_t bad[] = {0, 1, sizeof larger.info.struct_size - 1, SIZE_MAX};
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        larger.info.struct_size = bad[index];
        strcpy(larger.info.name, "as it was");
        assert_int_equal(attune_backend_get(0, &larger.info), ATTUNE_INVALID_ARGUMENT);
        assert_string_equal(larger.info.name, "as it was");
    }
}

static void wrong_arguments(void **state) {
    (void)state;
    attune_backend_info info = {.struct_size = sizeof info};
    attune_device *device = NULL;
    assert_int_equal(attune_backend_count(NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_backend_get(0, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_backend_get(-1, &info), ATTUNE_NOT_FOUND);
    assert_int_equal(attune_backend_get(1000, &info), ATTUNE_NOT_FOUND);
    assert_contains(attune_last_error(), "index = 1000: must be from 0 to ");
    assert_int_equal(attune_backend_get_device(0, 0, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_open("stub", NULL), ATTUNE_INVALID_ARGUMENT);
    setenv("ATTUNE_CHECK", "perhaps", 1);
    assert_int_equal(attune_device_open("stub", &device), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "ATTUNE_CHECK=\"perhaps\"");
    int32_t count;
    assert_int_equal(attune_backend_count(&count), ATTUNE_INVALID_ARGUMENT);
    unsetenv("ATTUNE_CHECK");
    assert_null(device);
}

static void what_succeeds_leaves_the_last_error(void **state) {
    (void)state;
    attune_device *device;
    assert_int_equal(attune_device_open("stub:9", &device), ATTUNE_NOT_FOUND);
    char before[256];
    snprintf(before, sizeof before, "%s", attune_last_error());
    attune_backend_info info;
    (void)find_backend("missing", &info);
    (void)find_backend("stub", &info);
    assert_int_equal(attune_device_open("nobody,stub", &device), ATTUNE_OK);
    attune_device_close(device);
    assert_string_equal(attune_last_error(), before);
}

static void wrapping(void **state) {
    (void)state;
    attune_device *device = NULL;
    int native = 0;
    assert_int_equal(attune_device_wrap("stub", &native, &device), ATTUNE_UNSUPPORTED);
    assert_int_equal(attune_device_wrap("nobody", &native, &device), ATTUNE_NOT_FOUND);
    assert_int_equal(attune_device_wrap("missing", &native, &device), ATTUNE_UNAVAILABLE);
    assert_int_equal(attune_device_wrap("newer", &native, &device), ATTUNE_INCOMPATIBLE);
    assert_int_equal(attune_device_wrap(NULL, &native, &device), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(attune_device_wrap("stub", &native, NULL), ATTUNE_INVALID_ARGUMENT);
    assert_null(device);
}

static void a_forked_child_opens_too(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        attune_device *device;
        attune_status status = attune_device_open("nobody,good", &device);
        if (status == ATTUNE_OK) {
            attune_device_close(device);
        }
        _exit(status);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), ATTUNE_OK);
}

static void *open_until_told(void *stopped) {
    while (!atomic_load((atomic_bool *)stopped)) {
        attune_device *device;
        if (attune_device_open("nobody,stub", &device) == ATTUNE_OK) {
            attune_device_close(device);
        }
        for (int round = 0; round < 1000; round++) {
            attune_log_set_sink(NULL, NULL);
        }
    }
    return NULL;
}

/* A lock that another thread held at the fork would hang the child; the alarm turns that into a failure. */
static void a_child_forked_while_others_work_does_not_hang(void **state) {
    (void)state;
    static atomic_bool stopped;
    pthread_t thread;
    attune_log_set_level(ATTUNE_LOG_ERROR);
    assert_int_equal(pthread_create(&thread, NULL, open_until_told, &stopped), 0);
    for (int round = 0; round < 200; round++) {
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            attune_log_set_sink(NULL, NULL);
            _exit(0);
        }
        int result;
        assert_int_equal(waitpid(child, &result, 0), child);
        assert_true(WIFEXITED(result));
    }
    atomic_store(&stopped, true);
    pthread_join(thread, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_calls_may_race), /* first: modules are looked for once */
        cmocka_unit_test(backends_are_listed_by_priority),
        cmocka_unit_test(usable_and_unusable_backends_are_described),
        cmocka_unit_test(struct_sizes_are_kept_to),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(what_succeeds_leaves_the_last_error),
        cmocka_unit_test(wrapping),
        cmocka_unit_test(a_forked_child_opens_too),
        cmocka_unit_test(a_child_forked_while_others_work_does_not_hang),
    };
    return cmocka_run_group_tests_name("discovery", tests, NULL, NULL);
}
