/*
 * Modules: good ones, bad ones, and files that are none. TEST_MODULE_DIR holds those of tests/support/modules.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/host.h"
#include "core/inventory.h"
#include "core/registry.h"
#include "tests/support/log_capture.h"
#include "tests/support/stub_backend.h"

const struct attune_builtin_backend attune_builtin_backends[] = {{NULL, NULL}};

static struct log_capture capture;

struct world {
    char folder[64];
    struct attune_registry *registry;
};

static int start(void **state) {
    static struct world world;
    memset(&world, 0, sizeof world);
    strcpy(world.folder, "/tmp/attune_loader_XXXXXX");
    log_capture_start(&capture, ATTUNE_LOG_DEBUG);
    *state = &world;
    return mkdtemp(world.folder) == NULL;
}

static int stop(void **state) {
    struct world *world = *state;
    char command[256];
    log_capture_stop(&capture);
    attune_host_free(world->registry);
    snprintf(command, sizeof command, "chmod u+rwx %s && rm -r %s", world->folder, world->folder);
    return system(command);
}

static void build(struct world *world, const struct attune_builtin_backend *builtins, const char *search_path) {
    struct attune_module_list modules;
    assert_int_equal(attune_loader_open_modules(search_path, &modules), ATTUNE_OK);
    assert_int_equal(attune_registry_build(builtins, &modules, &world->registry), ATTUNE_OK);
    attune_loader_free_list(&modules);
}

static void put_file(const struct world *world, const char *name, const char *content, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", world->folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, size, file), size);
    fclose(file);
}

static void assert_entry(const struct world *world, const char *name, attune_status status, const char *reason) {
    const struct attune_backend_entry *entry = attune_registry_find(world->registry, name);
    if (entry == NULL) {
        fail_msg("no entry %s", name);
        return;
    }
    assert_int_equal(entry->status, status);
    assert_contains(entry->reason, reason);
    assert_int_equal(attune_entry_check(entry), status);
    if (status != ATTUNE_OK) {
        assert_true(entry->priority < 0);
        assert_contains(attune_last_error(), reason);
        assert_contains(entry->description, name);
    }
}

static void each_module_is_listed_with_what_is_wrong(void **state) {
    struct world *world = *state;
    build(world, attune_builtin_backends, TEST_MODULE_DIR);
    assert_entry(world, "good", ATTUNE_OK, "");
    assert_entry(world, "longer", ATTUNE_OK, "");
    assert_entry(world, "newer", ATTUNE_INCOMPATIBLE, "abi_major = 2: must be 1");
    assert_entry(world, "no_symbol", ATTUNE_INCOMPATIBLE, "no symbol attune_backend_query");
    assert_entry(world, "refuses", ATTUNE_INCOMPATIBLE, "must be 77");
    assert_entry(world, "silent", ATTUNE_INCOMPATIBLE, "no reason");
    assert_entry(world, "truncated", ATTUNE_INCOMPATIBLE, "struct_size = ");
    assert_entry(world, "incomplete", ATTUNE_INCOMPATIBLE, "event_wait = NULL");
    assert_entry(world, "missing", ATTUNE_UNAVAILABLE, "libattune_absent.so.0: cannot open shared object file");

    int32_t count;
    assert_int_equal(attune_entry_count_devices(attune_registry_find(world->registry, "good"), &count), ATTUNE_OK);
    assert_int_equal(count, STUB_DEVICE_COUNT);
    assert_contains(capture.text, "backend truncated (" TEST_MODULE_DIR "/attune_truncated.so) cannot be used: ");
}

static void files_that_are_no_libraries(void **state) {
    struct world *world = *state;
    put_file(world, "attune_text.so", "this is not a library, but long enough to hold an ELF header or two\n", 69);
    put_file(world, "attune_nothing.so", "", 0);
    put_file(world, "attune_cut.so", "\177ELF\2\1\1", 7);
    put_file(world, "libattune_other.so", "x", 1);
    put_file(world, "attune_.so", "x", 1);
    put_file(world, "attune_Upper.so", "x", 1);
    put_file(world, "attune_version.so.1", "x", 1);
    char folder[256];
    snprintf(folder, sizeof folder, "%s/attune_folder.so", world->folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    build(world, attune_builtin_backends, world->folder);
    assert_entry(world, "text", ATTUNE_UNAVAILABLE, "attune_text.so");
    assert_entry(world, "nothing", ATTUNE_UNAVAILABLE, "attune_nothing.so");
    assert_entry(world, "cut", ATTUNE_UNAVAILABLE, "attune_cut.so");
    assert_entry(world, "folder", ATTUNE_UNAVAILABLE, "attune_folder.so");
    assert_int_equal(world->registry->count, 4 + 3); /* and three vendors */
}

static void folders_that_cannot_be_read_are_passed_over(void **state) {
    struct world *world = *state;
    char path[512];
    snprintf(path, sizeof path, "%s/absent:tests:.:./x::%s/attune_file", world->folder, world->folder);
    put_file(world, "attune_file", "x", 1);
    build(world, attune_builtin_backends, path);
    assert_int_equal(world->registry->count, 3);
    assert_contains(capture.text, "/absent: No such file or directory");
    assert_contains(capture.text, "/attune_file: Not a directory");
    assert_contains(capture.text, "ATTUNE_BACKEND_PATH: \"tests\" is passed over: must be an absolute path");
    assert_contains(capture.text, "\".\" is passed over");
    assert_contains(capture.text, "\"./x\" is passed over");
}

/* With the modules in the working directory, nothing finds them. */
static void the_working_directory_is_never_searched(void **state) {
    struct world *world = *state;
    char before[1024];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(TEST_MODULE_DIR), 0);
    build(world, attune_builtin_backends, ".:");
    assert_int_equal(chdir(before), 0);
    assert_null(attune_registry_find(world->registry, "longer"));
}

static const attune_backend *query_builtin_longer(int32_t abi, const attune_host_services *services) {
    static attune_backend backend;
    (void)abi;
    (void)services;
    backend = stub_backend("longer", 7);
    return &backend;
}

static const attune_backend *query_refused(int32_t abi, const attune_host_services *services) {
    (void)abi;
    (void)services->fail(ATTUNE_INCOMPATIBLE, "not today");
    return NULL;
}

static void the_first_of_a_name_is_kept(void **state) {
    struct world *world = *state;
    static const struct attune_builtin_backend builtins[] = {{"longer", query_builtin_longer}, {NULL, NULL}};
    char path[512];
    snprintf(path, sizeof path, "%s:%s", TEST_MODULE_DIR, world->folder);
    put_file(world, "attune_longer.so", "x", 1);
    put_file(world, "attune_newer.so", "x", 1);
    build(world, builtins, path);
    assert_int_equal(attune_registry_find(world->registry, "longer")->priority, 7);
    assert_entry(world, "newer", ATTUNE_INCOMPATIBLE, "abi_major");
    assert_contains(capture.text, "/attune_longer.so: passed over: there is a backend longer already");
}

static void what_does_not_fit_hides_nothing(void **state) {
    struct world *world = *state;
    static const struct attune_builtin_backend builtins[] = {{"longer", query_refused}, {NULL, NULL}};
    build(world, builtins, TEST_MODULE_DIR);
    assert_entry(world, "longer", ATTUNE_OK, "");
    assert_int_equal(attune_registry_find(world->registry, "longer")->priority, -6);
}

static void a_folder_named_twice_is_read_once(void **state) {
    struct world *world = *state;
    build(world, attune_builtin_backends, TEST_MODULE_DIR ":" TEST_MODULE_DIR "/:" TEST_MODULE_DIR "/../modules");
    assert_null(strstr(capture.text, "there is a backend longer already"));
}

static void a_module_of_a_vendor_takes_its_name(void **state) {
    struct world *world = *state;
    put_file(world, "attune_cuda.so", "x", 1);
    build(world, attune_builtin_backends, world->folder);
    const struct attune_backend_entry *entry = attune_registry_find(world->registry, "cuda");
    assert_null(entry->vendor);
    assert_contains(entry->reason, "attune_cuda.so");
    assert_int_equal(world->registry->count, 3);
}

static void nothing_leaks_when_memory_runs_out(void **state) {
    struct world *world = *state;
    attune_status status = ATTUNE_OUT_OF_MEMORY;
    int64_t count = 0;
    for (; status == ATTUNE_OUT_OF_MEMORY && count < 100; count++) {
        struct attune_module_list modules = {NULL, 0, 0};
        attune_host_limit_allocations(count);
        status = attune_loader_open_modules(TEST_MODULE_DIR, &modules);
        if (status == ATTUNE_OK) {
            status = attune_registry_build(attune_builtin_backends, &modules, &world->registry);
        }
        attune_host_limit_allocations(-1);
        attune_loader_free_list(&modules);
    }
    assert_int_equal(status, ATTUNE_OK);
    assert_true(count > 2);
}

#define loader_test(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(void) {
    const struct CMUnitTest tests[] = {
        loader_test(each_module_is_listed_with_what_is_wrong), /* first: "good" lets itself be asked only once */
        loader_test(files_that_are_no_libraries),
        loader_test(folders_that_cannot_be_read_are_passed_over),
        loader_test(the_working_directory_is_never_searched),
        loader_test(the_first_of_a_name_is_kept),
        loader_test(what_does_not_fit_hides_nothing),
        loader_test(a_folder_named_twice_is_read_once),
        loader_test(a_module_of_a_vendor_takes_its_name),
        loader_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests_name("loader", tests, NULL, NULL);
}
