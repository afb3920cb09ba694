/*
 * Environment variables: what each accepts and refuses, and what is said of unknown ones.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/env.h"
#include "core/host.h"
#include "tests/support/log_capture.h"

static attune_status parse(const char *name, const char *value, struct attune_settings *out_settings) {
    attune_settings_init(out_settings);
    return attune_env_parse(name, value, out_settings);
}

static void assert_accepts(const char *name, const char *value) {
    struct attune_settings settings;
    if (parse(name, value, &settings) != ATTUNE_OK) {
        fail_msg("%s=\"%s\" was refused: %s", name, value, attune_last_error());
    }
}

static void assert_refuses(const char *name, const char *value) {
    struct attune_settings settings;
    if (parse(name, value, &settings) != ATTUNE_INVALID_ARGUMENT) {
        fail_msg("%s=\"%s\" was accepted", name, value);
    }
    assert_contains(attune_last_error(), name);
    assert_contains(attune_last_error(), value);
    assert_contains(attune_last_error(), "must");
}

/* B122: "0" is off, and what is not understood is not taken for "on". */
static void switches(void **state) {
    (void)state;
    static const struct {
        const char *value;
        bool on;
    } good[] = {{"", false},    {"0", false},   {"1", true},  {"false", false}, {"FALSE", false}, {"True", true},
                {"TRUE", true}, {"off", false}, {"ON", true}, {"on", true},     {"Off", false}};
    static const char *const bad[] = {" 1", "1 ", "abc", "99999999999", "2", "-1", "yes", "no", "00", "tru", "\t"};
    for (size_t index = 0; index < sizeof good / sizeof good[0]; index++) {
        struct attune_settings settings;
        assert_int_equal(parse("ATTUNE_CHECK", good[index].value, &settings), ATTUNE_OK);
        assert_int_equal(settings.check, good[index].on);
        assert_false(settings.deterministic);
        assert_int_equal(parse("ATTUNE_DETERMINISTIC", good[index].value, &settings), ATTUNE_OK);
        assert_int_equal(settings.deterministic, good[index].on);
        assert_false(settings.check);
    }
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        assert_refuses("ATTUNE_CHECK", bad[index]);
        assert_refuses("ATTUNE_DETERMINISTIC", bad[index]);
    }
}

/* The same values in each variable: none may take one for something that it is not. */
static void every_variable_gets_the_values_of_the_case(void **state) {
    (void)state;
    static const char *const values[] = {" 1", "abc", "99999999999"};
    const struct attune_env_variable *variable;
    for (int32_t index = 0; (variable = attune_env_describe(index)) != NULL; index++) {
        struct attune_settings untouched;
        struct attune_settings settings;
        attune_settings_init(&untouched);
        assert_int_equal(parse(variable->name, "", &settings), ATTUNE_OK);
        assert_memory_equal(&settings, &untouched, sizeof settings);
        for (size_t value = 0; value < sizeof values / sizeof values[0]; value++) {
            attune_status status = parse(variable->name, values[value], &settings);
            bool takes_any_text = strstr(variable->name, "_LIBRARY") != NULL || strstr(variable->name, "_PATH") != NULL;
            bool takes_a_name = strcmp(variable->name, "ATTUNE_BACKEND") == 0 && value != 0;
            assert_int_equal(status, takes_any_text || takes_a_name ? ATTUNE_OK : ATTUNE_INVALID_ARGUMENT);
        }
    }
}

static void tile(void **state) {
    (void)state;
    static const char *const bad[] = {"128",     "128x",    "x64",      "0x64",          "128x0",  "129x64",
                                      "64x129",  "15x64",   "64x15",    "-1x4",          "128*64", "16.5x16",
                                      "128x64 ", " 128x64", "128x64x2", "99999999999x16"};
    struct attune_settings settings;
    assert_int_equal(parse("ATTUNE_TILE", "128x64", &settings), ATTUNE_OK);
    assert_int_equal(settings.tile_rows, 128);
    assert_int_equal(settings.tile_keys, 64);
    assert_int_equal(parse("ATTUNE_TILE", "16X128", &settings), ATTUNE_OK);
    assert_int_equal(settings.tile_rows, 16);
    assert_int_equal(settings.tile_keys, 128);
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        assert_refuses("ATTUNE_TILE", bad[index]);
    }
}

static void device_limits(void **state) {
    (void)state;
    static const char *const bad[] = {"processors",
                                      "processors=",
                                      "processors=0",
                                      "processors=-1",
                                      "cores=4",
                                      "processors=4,",
                                      ",processors=4",
                                      "processors=4 ",
                                      "processors=4;shared=1",
                                      "shared=1,shared=2",
                                      "shared=1M",
                                      "shared=1KB",
                                      "processors=99999999999",
                                      "shared=99999999999999999999",
                                      "workgroup=1.5",
                                      "shared=1099511627776K"};
    struct attune_settings settings;
    assert_int_equal(parse("ATTUNE_DEVICE_LIMITS", "processors=132,shared=98304,workgroup=256", &settings), ATTUNE_OK);
    assert_int_equal(settings.limit_processors, 132);
    assert_int_equal(settings.limit_shared_memory_bytes, 98304);
    assert_int_equal(settings.limit_work_group_size, 256);
    assert_int_equal(parse("ATTUNE_DEVICE_LIMITS", "workgroup=2K,shared=96KiB", &settings), ATTUNE_OK);
    assert_int_equal(settings.limit_processors, 0);
    assert_int_equal(settings.limit_shared_memory_bytes, 96 * 1024);
    assert_int_equal(settings.limit_work_group_size, 2048);
    for (size_t index = 0; index < sizeof bad / sizeof bad[0]; index++) {
        assert_refuses("ATTUNE_DEVICE_LIMITS", bad[index]);
    }
}

static void words_numbers_and_paths(void **state) {
    (void)state;
    struct attune_settings settings;
    assert_int_equal(parse("ATTUNE_LOG", "DEBUG", &settings), ATTUNE_OK);
    assert_int_equal(settings.log_level, ATTUNE_LOG_DEBUG);
    assert_int_equal(parse("ATTUNE_LOG", "off", &settings), ATTUNE_OK);
    assert_int_equal(settings.log_level, ATTUNE_LOG_OFF);
    assert_refuses("ATTUNE_LOG", "3");
    assert_refuses("ATTUNE_LOG", "warning");

    assert_accepts("ATTUNE_CPU_ISA", "reference");
    assert_accepts("ATTUNE_CPU_ISA", "avx2");
    assert_refuses("ATTUNE_CPU_ISA", "avx3");
    assert_accepts("ATTUNE_NUM_THREADS", "1");
    assert_accepts("ATTUNE_NUM_THREADS", "4096");
    assert_refuses("ATTUNE_NUM_THREADS", "4097");
    assert_refuses("ATTUNE_NUM_THREADS", "0");
    assert_refuses("ATTUNE_NUM_THREADS", "+1");
    assert_refuses("ATTUNE_NUM_THREADS", "0x10");

    assert_accepts("ATTUNE_CACHE_DIR", "/tmp/cache");
    assert_refuses("ATTUNE_CACHE_DIR", "cache");
    assert_accepts("ATTUNE_CUDA_LIBRARY", "libcuda.so.1");
    assert_accepts("ATTUNE_HIP_LIBRARY", "/opt/rocm/lib/libamdhip64.so");
    assert_refuses("ATTUNE_OPENCL_LIBRARY", "./libOpenCL.so");
}

static void selectors(void **state) {
    (void)state;
    struct attune_settings settings;
    assert_int_equal(parse("ATTUNE_BACKEND", "cuda:1,hip,cpu", &settings), ATTUNE_OK);
    assert_string_equal(settings.backend, "cuda:1,hip,cpu");
    assert_refuses("ATTUNE_BACKEND", ",cpu");
    assert_refuses("ATTUNE_BACKEND", "cpu, cuda");
    assert_refuses("ATTUNE_BACKEND", "cuda:");
}

static void a_name_outside_the_table_is_not_found(void **state) {
    (void)state;
    struct attune_settings settings;
    assert_int_equal(parse("ATTUNE_NOTHING", "1", &settings), ATTUNE_NOT_FOUND);
    assert_string_equal(attune_env_get("PATH"), "");
}

static void long_values_are_cut_in_the_sentence(void **state) {
    (void)state;
    char value[20000];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    struct attune_settings settings;
    assert_int_equal(parse("ATTUNE_CHECK", value, &settings), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "must be 0, 1");
    assert_true(strlen(attune_last_error()) < 400);
}

static void the_environment_is_read_as_it_is_now(void **state) {
    (void)state;
    struct attune_settings settings;
    setenv("ATTUNE_TILE", "32x16", 1);
    setenv("ATTUNE_CHECK", "on", 1);
    assert_int_equal(attune_settings_read(&settings), ATTUNE_OK);
    assert_int_equal(settings.tile_rows, 32);
    assert_true(settings.check);
    assert_string_equal(attune_env_get("ATTUNE_TILE"), "32x16");

    const char *before = attune_env_get("ATTUNE_TILE");
    setenv("ATTUNE_TILE", "64x64", 1);
    setenv("ATTUNE_TILE", "32x16", 1);
    assert_ptr_equal(attune_env_get("ATTUNE_TILE"), before);

    setenv("ATTUNE_CHECK", "maybe", 1);
    settings.tile_rows = 7;
    assert_int_equal(attune_settings_read(&settings), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "ATTUNE_CHECK=\"maybe\"");
    assert_int_equal(settings.tile_rows, 7);
    unsetenv("ATTUNE_TILE");
    unsetenv("ATTUNE_CHECK");
    assert_string_equal(attune_env_get("ATTUNE_TILE"), "");
}

static void unknown_names_are_warned_of_once(void **state) {
    (void)state;
    struct log_capture capture;
    struct attune_settings settings;
    log_capture_start(&capture, ATTUNE_LOG_WARN);
    setenv("ATTUNE_NUM_THREAD", "3", 1);
    setenv("ATTUNEX", "not ours", 1);
    assert_int_equal(attune_settings_read(&settings), ATTUNE_OK);
    assert_int_equal(attune_settings_read(&settings), ATTUNE_OK);
    assert_int_equal(capture.count, 1);
    assert_string_equal(capture.text, "unknown variable ATTUNE_NUM_THREAD; did you mean ATTUNE_NUM_THREADS?\n");
    setenv("ATTUNE_BACKENDS", "cpu", 1);
    assert_int_equal(attune_settings_read(&settings), ATTUNE_OK);
    assert_int_equal(capture.count, 2);
    assert_contains(capture.text, "ATTUNE_BACKENDS; did you mean ATTUNE_BACKEND?");
    log_capture_stop(&capture);
    unsetenv("ATTUNE_NUM_THREAD");
    unsetenv("ATTUNE_BACKENDS");
    unsetenv("ATTUNEX");
}

static void the_table_documents_every_variable(void **state) {
    (void)state;
    char *text = attune_env_format();
    assert_non_null(text);
    const struct attune_env_variable *variable;
    int32_t count = 0;
    for (; (variable = attune_env_describe(count)) != NULL; count++) {
        char cell[128];
        snprintf(cell, sizeof cell, "| `%s` | ", variable->name);
        assert_contains(text, cell);
        assert_true(variable->documentation[0] != '\0');
        assert_null(strchr(variable->documentation, '|'));
    }
    assert_int_equal(count, 13);
    assert_null(attune_env_describe(-1));
    assert_int_equal(text[strlen(text) - 1], '\n');
    attune_host_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switches),
        cmocka_unit_test(every_variable_gets_the_values_of_the_case),
        cmocka_unit_test(tile),
        cmocka_unit_test(device_limits),
        cmocka_unit_test(words_numbers_and_paths),
        cmocka_unit_test(selectors),
        cmocka_unit_test(a_name_outside_the_table_is_not_found),
        cmocka_unit_test(long_values_are_cut_in_the_sentence),
        cmocka_unit_test(the_environment_is_read_as_it_is_now),
        cmocka_unit_test(unknown_names_are_warned_of_once),
        cmocka_unit_test(the_table_documents_every_variable),
    };
    return cmocka_run_group_tests_name("env", tests, NULL, NULL);
}
