/*
 * Which device a selector opens, over backends that are stubs.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <stdlib.h>

#include "core/builtin.h"
#include "core/host.h"
#include "core/selection.h"
#include "core/selector.h"
#include "core/status_internal.h"
#include "tests/support/log_capture.h"
#include "tests/support/stub_backend.h"

const struct attune_builtin_backend attune_builtin_backends[] = {{NULL, NULL}};

static const attune_host_services *host;

/* ---- Backends ---- */

static attune_status enumerate_nothing(int32_t index, attune_device_info *out_info) {
    (void)index;
    (void)out_info;
    return ATTUNE_NOT_FOUND;
}

static attune_status enumerate_no_driver(int32_t index, attune_device_info *out_info) {
    (void)index;
    (void)out_info;
    return host->fail(ATTUNE_UNAVAILABLE, "libgpu.so.1: cannot open shared object file");
}

static attune_status enumerate_without_a_sentence(int32_t index, attune_device_info *out_info) {
    (void)index;
    (void)out_info;
    return ATTUNE_DEVICE_LOST;
}

static attune_status enumerate_cpu_then_gpu(int32_t index, attune_device_info *out_info) {
    out_info->is_cpu = index == 0;
    return stub_enumerate(index, out_info);
}

static attune_status enumerate_emulations(int32_t index, attune_device_info *out_info) {
    out_info->is_emulation = true;
    return stub_enumerate(index, out_info);
}

static attune_status enumerate_broken_first(int32_t index, attune_device_info *out_info) {
    return index == 1 ? host->fail(ATTUNE_INTERNAL, "device 1 fell off the bus") : stub_enumerate(index, out_info);
}

static attune_status enumerate_names(int32_t index, attune_device_info *out_info) {
    static const char *const names[] = {"Alpha 100 Large", "Alpha 100", "Alpha 100", "Beta 7 SXM", "Beta 7 PCIe"};
    if (index >= (int32_t)(sizeof names / sizeof names[0])) {
        return ATTUNE_NOT_FOUND;
    }
    strcpy(out_info->name, names[index]);
    return ATTUNE_OK;
}

static attune_status open_busy_first(int32_t index, void **out_device) {
    return index == 0 ? host->fail(ATTUNE_UNAVAILABLE, "device 0 is busy") : stub_open(index, out_device);
}

static attune_status limits_fail(void *device, attune_device_limits *out_limits) {
    (void)device;
    (void)out_limits;
    return host->fail(ATTUNE_INTERNAL, "no limits");
}

#define QUERY(backend_name, priority, ...)                                                                             \
    static const attune_backend *query_##backend_name(int32_t abi, const attune_host_services *services) {             \
        static attune_backend backend;                                                                                 \
        (void)abi;                                                                                                     \
        host = services;                                                                                               \
        backend = stub_backend(#backend_name, priority);                                                               \
        __VA_ARGS__;                                                                                                   \
        return &backend;                                                                                               \
    }

QUERY(first, 100)
QUERY(second, 50)
QUERY(equal, 50)
QUERY(hidden, -1)
QUERY(empty, 90, backend.enumerate = enumerate_nothing)
QUERY(driverless, 80, backend.enumerate = enumerate_no_driver)
QUERY(wordless, 70, backend.enumerate = enumerate_without_a_sentence)
QUERY(opencl, 60, backend.enumerate = enumerate_cpu_then_gpu)
QUERY(emulated, 60, backend.enumerate = enumerate_emulations)
QUERY(busy, 60, backend.device_open = open_busy_first)
QUERY(limitless, 60, backend.device_limits = limits_fail)
QUERY(many, 60, backend.enumerate = enumerate_names)
QUERY(bumpy, 60, backend.enumerate = enumerate_broken_first)

static const attune_backend *query_refused(int32_t abi, const attune_host_services *services) {
    (void)abi;
    (void)services->fail(ATTUNE_INCOMPATIBLE, "not today");
    return NULL;
}

/* ---- A registry of some of them ---- */

static struct attune_registry *registry;
static struct attune_settings settings;
static struct log_capture capture;

#define BUILTIN(name)                                                                                                  \
    { #name, query_##name }
#define LIST(...) ((const struct attune_builtin_backend[]){__VA_ARGS__, {NULL, NULL}})

static void build(const struct attune_builtin_backend *builtins) {
    const struct attune_module_list no_modules = {NULL, 0, 0};
    attune_host_free(registry);
    registry = NULL;
    assert_int_equal(attune_registry_build(builtins, &no_modules, &registry), ATTUNE_OK);
}

static int start(void **state) {
    (void)state;
    attune_settings_init(&settings);
    log_capture_start(&capture, ATTUNE_LOG_WARN);
    return 0;
}

static int stop(void **state) {
    (void)state;
    log_capture_stop(&capture);
    attune_host_free(registry);
    registry = NULL;
    return 0;
}

static void assert_opens(const char *selector, const char *expected) {
    attune_device *device = NULL;
    if (attune_selection_open(registry, &settings, selector, &device) != ATTUNE_OK) {
        fail_msg("\"%s\" opens nothing: %s", selector == NULL ? "" : selector, attune_last_error());
    }
    assert_string_equal(device->info.selector, expected);
    attune_device_close(device);
}

static void assert_open_fails(const char *selector, attune_status expected, const char *part) {
    attune_device *device = (attune_device *)&settings;
    assert_int_equal(attune_selection_open(registry, &settings, selector, &device), expected);
    assert_ptr_equal(device, &settings);
    assert_contains(attune_last_error(), part);
}

/* ---- The grammar ---- */

static void malformed_selectors_are_invalid(void **state) {
    (void)state;
    build(LIST(BUILTIN(first)));
    static const char *const bad[] = {",",
                                      "first,",
                                      ",first",
                                      "first,,first",
                                      " first",
                                      "first ",
                                      "First",
                                      "first:",
                                      ":",
                                      ":0",
                                      "auto:0",
                                      "auto:name",
                                      "first: ",
                                      "first;1",
                                      "first/../x",
                                      "fi rst",
                                      "\n",
                                      "-1",
                                      "f%sst",
                                      "first,auto:1",
                                      "first:99999999999999999999",
                                      "first:2147483648",
                                      "a_backend_name_that_has_more_than_sixty_three_letters_in_it_is_too_long"};
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        if (strcmp(bad[index], "first: ") == 0) { /* " " is a device's name, though nobody's */
            assert_open_fails(bad[index], ATTUNE_NOT_FOUND, bad[index]);
        } else {
            assert_open_fails(bad[index], ATTUNE_INVALID_ARGUMENT, "selector = \"");
        }
    }
}

static void entries_are_read(void **state) {
    (void)state;
    const char *list = "auto,hip,cuda:12,opencl:Intel(R) Arc: A770";
    struct attune_selector selector;
    assert_null(attune_selector_next(&list, &selector));
    assert_int_equal(selector.kind, ATTUNE_SELECT_AUTO);
    assert_null(attune_selector_next(&list, &selector));
    assert_int_equal(selector.kind, ATTUNE_SELECT_BACKEND);
    assert_string_equal(selector.backend, "hip");
    assert_int_equal(selector.index, 0);
    assert_null(attune_selector_next(&list, &selector));
    assert_int_equal(selector.kind, ATTUNE_SELECT_INDEX);
    assert_string_equal(selector.text, "cuda:12");
    assert_int_equal(selector.index, 12);
    assert_null(attune_selector_next(&list, &selector));
    assert_int_equal(selector.kind, ATTUNE_SELECT_NAME);
    assert_string_equal(selector.device_name, "Intel(R) Arc: A770");
    assert_null(list);
}

/* ---- One entry ---- */

static void a_backend_and_an_index(void **state) {
    (void)state;
    build(LIST(BUILTIN(first), BUILTIN(hidden)));
    assert_opens("first", "first:0");
    assert_opens("first:0", "first:0");
    assert_opens("first:1", "first:1");
    assert_opens("hidden:1", "hidden:1");
    assert_open_fails("first:2", ATTUNE_NOT_FOUND, "first:2: ");
    assert_open_fails("frist", ATTUNE_NOT_FOUND, "frist: no such backend; there are first, ");
    assert_open_fails("firs", ATTUNE_NOT_FOUND, "firs: ");
    assert_int_equal(capture.count, 0);
}

static void a_name(void **state) {
    (void)state;
    build(LIST(BUILTIN(many)));
    assert_opens("many:alpha 100", "many:1");
    assert_opens("many:ALPHA 100 l", "many:0");
    assert_opens("many:Beta 7 P", "many:4");
    assert_open_fails("many:Beta", ATTUNE_INVALID_ARGUMENT, "many:Beta: several devices");
    assert_open_fails("many:100", ATTUNE_NOT_FOUND, "many:100: no such device");
    assert_open_fails("many:Gamma", ATTUNE_NOT_FOUND, "begins with \"Gamma\"");
}

static void a_single_selector_is_strict(void **state) {
    (void)state;
    build(LIST(BUILTIN(first), BUILTIN(empty), BUILTIN(driverless), BUILTIN(wordless), BUILTIN(busy), BUILTIN(refused),
               BUILTIN(limitless)));
    assert_open_fails("driverless", ATTUNE_UNAVAILABLE, "driverless: libgpu.so.1: cannot open");
    assert_open_fails("driverless:3", ATTUNE_UNAVAILABLE, "driverless:3: libgpu.so.1: cannot open");
    assert_open_fails("driverless:Alpha", ATTUNE_UNAVAILABLE, "libgpu.so.1");
    assert_open_fails("empty", ATTUNE_UNAVAILABLE, "empty: there is no device");
    assert_open_fails("wordless", ATTUNE_DEVICE_LOST, "wordless: device 0: DEVICE_LOST");
    assert_open_fails("busy", ATTUNE_UNAVAILABLE, "busy: device 0 is busy");
    assert_open_fails("refused", ATTUNE_INCOMPATIBLE, "refused: not today");
    assert_open_fails("limitless", ATTUNE_INTERNAL, "limitless: no limits");
}

static void vendors_without_a_backend_name_the_library(void **state) {
    (void)state;
    build(LIST(BUILTIN(first), BUILTIN(opencl)));
    setenv("ATTUNE_CUDA_LIBRARY", "libattune_no_such_driver.so.1", 1);
    assert_open_fails(
        "cuda", ATTUNE_UNAVAILABLE,
        "cuda: this attune has no cuda backend, and the driver is missing: libattune_no_such_driver.so.1: cannot open");
    assert_open_fails("cuda:1", ATTUNE_UNAVAILABLE, "cuda:1: this attune has no cuda backend");
    setenv("ATTUNE_HIP_LIBRARY", "libc.so.6", 1);
    assert_open_fails("hip", ATTUNE_UNAVAILABLE, "hip: this attune has no hip backend (libc.so.6 is present)");
    unsetenv("ATTUNE_CUDA_LIBRARY");
    unsetenv("ATTUNE_HIP_LIBRARY");
    assert_opens("opencl:1", "opencl:1");
    assert_null(attune_registry_find(registry, "opencl")->vendor);
    assert_non_null(attune_registry_find(registry, "cuda")->vendor);
}

/* ---- auto ---- */

static void auto_goes_by_priority(void **state) {
    (void)state;
    build(LIST(BUILTIN(second), BUILTIN(hidden), BUILTIN(equal), BUILTIN(first)));
    assert_opens("auto", "first:0");
    build(LIST(BUILTIN(hidden), BUILTIN(second), BUILTIN(equal)));
    assert_opens("auto", "second:0");
    build(LIST(BUILTIN(equal), BUILTIN(second)));
    assert_opens("", "equal:0");
    assert_opens(NULL, "equal:0");
}

static void auto_passes_over_what_is_not_there(void **state) {
    (void)state;
    build(LIST(BUILTIN(second), BUILTIN(empty), BUILTIN(driverless), BUILTIN(wordless), BUILTIN(emulated)));
    assert_opens("auto", "second:0");
    assert_int_equal(capture.count, 0); /* a missing driver is nothing to warn of */
    build(LIST(BUILTIN(opencl)));
    assert_opens("auto", "opencl:1");
    assert_opens("opencl", "opencl:0");
    build(LIST(BUILTIN(bumpy)));
    assert_opens("bumpy:0", "bumpy:0");
    assert_open_fails("bumpy:1", ATTUNE_INTERNAL, "fell off the bus");
}

static void auto_says_so_when_a_device_that_is_there_fails(void **state) {
    (void)state;
    build(LIST(BUILTIN(busy)));
    assert_opens("auto", "busy:1");
    assert_opens("auto", "busy:1");
    assert_string_equal(capture.text, "auto: passed over busy: device 0 is busy\n");
}

static void auto_tells_why_nothing_works(void **state) {
    (void)state;
    build(LIST(BUILTIN(hidden), BUILTIN(driverless), BUILTIN(emulated)));
    assert_open_fails("auto", ATTUNE_UNAVAILABLE,
                      "auto: no device works here\n"
                      "driverless: libgpu.so.1: cannot open shared object file\n"
                      "emulated:0: auto never takes an emulation\n"
                      "emulated:1: auto never takes an emulation");
}

/* ---- Lists ---- */

static void a_list_opens_the_first_that_works_and_says_so_once(void **state) {
    (void)state;
    build(LIST(BUILTIN(first), BUILTIN(second), BUILTIN(driverless)));
    assert_opens("first,second", "first:0");
    assert_int_equal(capture.count, 0);
    for (int round = 0; round < 3; round++) {
        assert_opens("driverless,nobody,second:1,first", "second:1");
    }
    assert_int_equal(capture.count, 1);
    assert_contains(capture.text,
                    "\"driverless,nobody,second:1,first\" opens second:1; passed over: driverless: libgpu");
    assert_contains(capture.text, "nobody: no such backend");
    assert_opens("driverless,auto", "first:0");
}

static void a_list_that_fails_has_a_line_for_each(void **state) {
    (void)state;
    build(LIST(BUILTIN(driverless), BUILTIN(empty), BUILTIN(first)));
    assert_open_fails("driverless,empty", ATTUNE_UNAVAILABLE,
                      "selector = \"driverless,empty\": no device works here\n"
                      "driverless: libgpu.so.1: cannot open shared object file\n"
                      "empty: there is no device");
    assert_open_fails("nobody,first:9", ATTUNE_NOT_FOUND, "nobody: ");
    assert_open_fails("nobody,empty", ATTUNE_UNAVAILABLE, "nobody: ");
}

static void code_beats_the_variable(void **state) {
    (void)state;
    build(LIST(BUILTIN(first), BUILTIN(second)));
    settings.backend = "second";
    assert_opens(NULL, "second:0");
    assert_opens("", "second:0");
    assert_opens("first", "first:0");
    settings.backend = "nobody";
    assert_open_fails(NULL, ATTUNE_NOT_FOUND, "nobody: ");
    assert_opens("auto", "first:0");
}

static void nothing_leaks_when_memory_runs_out(void **state) {
    (void)state;
    build(LIST(BUILTIN(first)));
    attune_status status = ATTUNE_OUT_OF_MEMORY;
    int64_t count = 0;
    for (; status == ATTUNE_OUT_OF_MEMORY && count < 100; count++) {
        attune_device *device = NULL;
        attune_host_limit_allocations(count);
        status = attune_selection_open(registry, &settings, "first", &device);
        attune_host_limit_allocations(-1);
        attune_device_close(device);
    }
    assert_int_equal(status, ATTUNE_OK);
    assert_true(count > 1);
}

#define selection_test(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        selection_test(malformed_selectors_are_invalid),
        selection_test(entries_are_read),
        selection_test(a_backend_and_an_index),
        selection_test(a_name),
        selection_test(a_single_selector_is_strict),
        selection_test(vendors_without_a_backend_name_the_library),
        selection_test(auto_goes_by_priority),
        selection_test(auto_passes_over_what_is_not_there),
        selection_test(auto_says_so_when_a_device_that_is_there_fails),
        selection_test(auto_tells_why_nothing_works),
        selection_test(a_list_opens_the_first_that_works_and_says_so_once),
        selection_test(a_list_that_fails_has_a_line_for_each),
        selection_test(code_beats_the_variable),
        selection_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("selection", tests, NULL, NULL);
}
