/*
 * Tiles that are kept: which problems get them, what goes before them, and files that hold something else.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "core/tuned_tile.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attune/plan.h"
#include "core/cache_file.h"
#include "core/host.h"
#include "tests/support/cmocka_all.h"
#include "tests/support/fake_backend.h"
#include "tests/support/problems.h"

static struct fake fake;
static char folder[64];

static int set_up(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/attune-tiles-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("ATTUNE_CACHE_DIR", folder, 1);
    fake_init(&fake);
    snprintf(fake.device.limits.architecture, sizeof fake.device.limits.architecture, "Arch:1+");
    fake.rows[0].features |= ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_LSE | ATTUNE_FEATURE_GQA;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    attune_host_limit_allocations(-1);
    attune_host_free(fake.device.tuned_tiles);
    fake_finish(&fake);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* As if the device were opened again. */
static void load(void) {
    attune_host_free(fake.device.tuned_tiles);
    fake.device.tuned_tiles = NULL;
    attune_tuned_tiles_load(&fake.device);
}

static attune_status keep(const attune_forward_args *args, int32_t rows, int32_t keys) {
    attune_status status = attune_tile_keep(&fake.device, ATTUNE_OP_FORWARD, args, rows, keys);
    load();
    return status;
}

static void assert_tile(const attune_forward_args *args, int32_t rows, int32_t keys, bool is_tuned) {
    attune_explanation explanation = attune_explanation_init();
    assert_int_equal(attune_explain(&fake.device, ATTUNE_OP_FORWARD, args, &explanation), ATTUNE_OK);
    assert_int_equal(explanation.tile_rows, rows);
    assert_int_equal(explanation.tile_keys, keys);
    assert_int_equal(explanation.tile_is_tuned, is_tuned);
}

static attune_forward_args args_of(int64_t length, int64_t head_dim) {
    return test_forward_args(NULL, 1, length, 2, head_dim);
}

static void test_a_tile_is_kept(void **state) {
    (void)state;
    const attune_forward_args args = args_of(1024, 64);
    const attune_forward_args longer = args_of(4096, 64);
    assert_tile(&args, 128, 128, false);
    assert_int_equal(keep(&args, 32, 64), ATTUNE_OK);
    assert_tile(&args, 32, 64, true);
    assert_tile(&longer, 32, 64, true);
    assert_int_equal(keep(&args, 64, 16), ATTUNE_OK);
    assert_tile(&args, 64, 16, true);
}

static void test_other_classes_stay_automatic(void **state) {
    (void)state;
    const attune_forward_args args = args_of(1024, 64);
    attune_forward_args causal = args;
    attune_forward_args with_lse = args;
    const attune_forward_args wider = args_of(1024, 128);
    const attune_forward_args shorter = args_of(64, 64);
    causal.causal = true;
    with_lse.lse = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F32, 3, (const int64_t[]){1, 2, 1024});
    assert_int_equal(keep(&args, 32, 64), ATTUNE_OK);
    assert_tile(&causal, 128, 128, false);
    assert_tile(&wider, 128, 128, false);
    assert_tile(&shorter, 64, 64, false);
    assert_tile(&with_lse, 32, 64, true);
    assert_int_equal(keep(&causal, 16, 16), ATTUNE_OK);
    assert_int_equal(keep(&wider, 16, 32), ATTUNE_OK);
    assert_tile(&causal, 16, 16, true);
    assert_tile(&wider, 16, 32, true);
    assert_tile(&args, 32, 64, true);
}

static void test_what_is_asked_for_goes_first(void **state) {
    (void)state;
    attune_forward_args args = args_of(1024, 64);
    assert_int_equal(keep(&args, 32, 64), ATTUNE_OK);
    fake.device.settings.tile_rows = 64;
    fake.device.settings.tile_keys = 32;
    assert_tile(&args, 64, 32, false);
    args.tile_rows = args.tile_keys = 16;
    assert_tile(&args, 16, 16, false);
    fake.device.settings.tile_rows = fake.device.settings.tile_keys = 0;
    assert_tile(&args, 16, 16, false);
}

static void test_a_tile_that_does_not_fit_is_passed_over(void **state) {
    (void)state;
    const attune_forward_args args = args_of(1024, 64);
    assert_int_equal(keep(&args, 128, 128), ATTUNE_OK);
    assert_tile(&args, 128, 128, true);
    fake.device.limits.shared_memory_bytes = 40000;
    assert_tile(&args, 32, 32, false);
}

static void test_another_architecture_has_its_own(void **state) {
    (void)state;
    const attune_forward_args args = args_of(1024, 64);
    assert_int_equal(keep(&args, 32, 64), ATTUNE_OK);
    fake.device.limits.architecture[0] = 'B';
    load();
    assert_tile(&args, 128, 128, false);
    snprintf(fake.device.limits.architecture, sizeof fake.device.limits.architecture, "Arch/1+"); /* the same file */
    load();
    assert_tile(&args, 128, 128, false);
    snprintf(fake.device.limits.architecture, sizeof fake.device.limits.architecture, "Arch:1+");
    load();
    assert_tile(&args, 32, 64, true);
}

/* What a row is called and what it can do is part of the key. */
static void test_another_row_has_its_own(void **state) {
    (void)state;
    const attune_forward_args args = args_of(1024, 64);
    assert_int_equal(keep(&args, 32, 64), ATTUNE_OK);
    fake.rows[0].name = "fake_forward_2";
    assert_tile(&args, 128, 128, false);
    fake.rows[0].name = "fake_forward";
    fake.rows[0].features &= ~ATTUNE_FEATURE_ANY_TILE;
    fake.rows[0].tile_rows = 48;
    fake.rows[0].tile_keys = 96;
    assert_tile(&args, 48, 96, false);
    assert_int_equal(keep(&args, 32, 64), ATTUNE_UNSUPPORTED);
    assert_contains(attune_last_error(), "fake_forward has a tile of its own");
}

static void assert_not_used(const char *text) {
    const attune_forward_args args = args_of(1024, 64);
    assert_int_equal(attune_cache_file_write("tiles-fake-arch_1_", text, strlen(text)), ATTUNE_OK);
    load();
    assert_tile(&args, 128, 128, false);
    assert_int_equal(keep(&args, 32, 64), ATTUNE_OK);
    assert_tile(&args, 32, 64, true);
}

static void test_files_that_hold_something_else(void **state) {
    (void)state;
    static const char key[] = "fake Arch:1+\nfake_forward f32 d64 dv64 rows128 keys128 features0";
    char text[256];
    assert_not_used("");
    assert_not_used("\n");
    assert_not_used("nothing");
    assert_not_used("fake Arch:1+");
    assert_not_used("fake Arch:2+\n");
    const char *const values[] = {"", " ", " 32x64", " 32\n", " 32x\n", " 32x64 \n", " 8x64\n", " 32x129\n", " x\n"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        snprintf(text, sizeof text, "%s%s", key, values[i]);
        assert_not_used(text);
    }
    snprintf(text, sizeof text, "%s 64x32\n", key); /* and the key is what it is taken for here */
    assert_int_equal(attune_cache_file_write("tiles-fake-arch_1_", text, strlen(text)), ATTUNE_OK);
    load();
    const attune_forward_args args = args_of(1024, 64);
    assert_tile(&args, 64, 32, true);
}

static void test_errors(void **state) {
    (void)state;
    const attune_forward_args args = args_of(1024, 64);
    attune_forward_args wrong = args;
    wrong.softcap = -1;
    assert_int_equal(keep(&args, 8, 64), ATTUNE_INVALID_ARGUMENT);
    assert_contains(attune_last_error(), "tile_rows = 8");
    assert_int_equal(keep(&args, 16, 129), ATTUNE_INVALID_ARGUMENT);
    assert_int_equal(keep(&wrong, 32, 64), ATTUNE_INVALID_ARGUMENT);
    wrong.softcap = 1;
    assert_int_equal(keep(&wrong, 32, 64), ATTUNE_UNSUPPORTED);
    assert_int_equal(attune_tile_keep(NULL, ATTUNE_OP_FORWARD, &args, 32, 64), ATTUNE_INVALID_ARGUMENT);
    attune_host_limit_allocations(0);
    assert_int_equal(keep(&args, 32, 64), ATTUNE_OUT_OF_MEMORY);
    attune_host_limit_allocations(-1);
    setenv("ATTUNE_CACHE_DIR", "/proc/none", 1);
    assert_int_equal(keep(&args, 32, 64), ATTUNE_UNAVAILABLE);
}

static void test_loading_leaves_the_sentence(void **state) {
    (void)state;
    const attune_forward_args args = args_of(1024, 64);
    assert_int_equal(attune_tile_keep(&fake.device, ATTUNE_OP_FORWARD, &args, 1, 1), ATTUNE_INVALID_ARGUMENT);
    load();
    assert_contains(attune_last_error(), "tile_rows = 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_tile_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_classes_stay_automatic, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_asked_for_goes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_tile_that_does_not_fit_is_passed_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_architecture_has_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_another_row_has_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_hold_something_else, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_errors, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_loading_leaves_the_sentence, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
