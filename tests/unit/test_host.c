/*
 * What core lends a backend: memory, variables, cache files.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/host.h"

#define KEY "sm_90-0123abcd.cubin"

struct scratch {
    char folder[64];
    char cache[128]; /* folder/a/b: made by the first write */
};

static int make_scratch(void **state) {
    static struct scratch scratch;
    strcpy(scratch.folder, "/tmp/attune_host_XXXXXX");
    if (mkdtemp(scratch.folder) == NULL) {
        return -1;
    }
    snprintf(scratch.cache, sizeof scratch.cache, "%s/a/b", scratch.folder);
    setenv("ATTUNE_CACHE_DIR", scratch.cache, 1);
    *state = &scratch;
    return 0;
}

static int remove_scratch(void **state) {
    struct scratch *scratch = *state;
    char command[256];
    unsetenv("ATTUNE_CACHE_DIR");
    snprintf(command, sizeof command, "chmod -R u+rwx %s && rm -r %s", scratch->folder, scratch->folder);
    return system(command);
}

static int count_files(const char *folder) {
    int count = 0;
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    }
    closedir(files);
    return count;
}

static void assert_reads(const char *key, const void *expected, size_t expected_size) {
    const attune_host_services *host = attune_host_services_get();
    void *bytes = NULL;
    size_t size = 0;
    assert_int_equal(host->cache_read(key, &bytes, &size), ATTUNE_OK);
    assert_int_equal(size, expected_size);
    assert_memory_equal(bytes, expected, size);
    host->free(bytes);
}

static void assert_not_found(const char *key) {
    void *bytes = (void *)key;
    size_t size = 77;
    assert_int_equal(attune_host_services_get()->cache_read(key, &bytes, &size), ATTUNE_NOT_FOUND);
    assert_ptr_equal(bytes, key);
    assert_int_equal(size, 77);
}

static void write_and_read(void **state) {
    struct scratch *scratch = *state;
    const attune_host_services *host = attune_host_services_get();
    assert_not_found(KEY);
    assert_int_equal(host->cache_write(KEY, "first", 5), ATTUNE_OK);
    assert_reads(KEY, "first", 5);
    assert_int_equal(host->cache_write(KEY, "a longer second", 15), ATTUNE_OK);
    assert_reads(KEY, "a longer second", 15);
    assert_int_equal(host->cache_write("empty", NULL, 0), ATTUNE_OK);
    assert_reads("empty", "", 0);
    assert_int_equal(count_files(scratch->cache), 2);
    struct stat info;
    assert_int_equal(stat(scratch->cache, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0700);
}

static void keys_are_checked(void **state) {
    (void)state;
    const attune_host_services *host = attune_host_services_get();
    char long_key[300];
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    const char *const keys[] = {"",      ".",         "..",        ".hidden", "a/b", "../up",
                                "Upper", "space bar", "new\nline", long_key,  NULL};
    for (size_t index = 0; index < sizeof keys / sizeof keys[0]; index++) {
        void *bytes;
        size_t size;
        assert_int_equal(host->cache_write(keys[index], "x", 1), ATTUNE_INVALID_ARGUMENT);
        assert_int_equal(host->cache_read(keys[index], &bytes, &size), ATTUNE_INVALID_ARGUMENT);
        assert_contains(attune_last_error(), "key = \"");
    }
}

/* Every way in which a file can be damaged that takes one byte: changed, missing or too many. */
static void damaged_files_are_not_found(void **state) {
    struct scratch *scratch = *state;
    const attune_host_services *host = attune_host_services_get();
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch->cache, KEY);
    assert_int_equal(host->cache_write(KEY, "content", 7), ATTUNE_OK);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    for (long at = 0; at < info.st_size; at++) {
        FILE *file = fopen(path, "r+");
        assert_non_null(file);
        fseek(file, at, SEEK_SET);
        int byte = fgetc(file);
        fseek(file, at, SEEK_SET);
        fputc(byte ^ 0x10, file);
        fclose(file);
        assert_not_found(KEY);
        assert_int_equal(host->cache_write(KEY, "content", 7), ATTUNE_OK);
        assert_int_equal(truncate(path, at), 0);
        assert_not_found(KEY);
        assert_int_equal(host->cache_write(KEY, "content", 7), ATTUNE_OK);
    }
    FILE *file = fopen(path, "a");
    fputc(0, file);
    fclose(file);
    assert_not_found(KEY);
}

static void a_file_under_another_key_is_not_found(void **state) {
    struct scratch *scratch = *state;
    char from[256];
    char to[256];
    snprintf(from, sizeof from, "%s/one", scratch->cache);
    snprintf(to, sizeof to, "%s/two", scratch->cache);
    assert_int_equal(attune_host_services_get()->cache_write("one", "x", 1), ATTUNE_OK);
    assert_int_equal(rename(from, to), 0);
    assert_not_found("two");
}

/* A pipe would keep its reader waiting for a writer. */
static void what_is_no_file_is_not_waited_for(void **state) {
    struct scratch *scratch = *state;
    char path[256];
    snprintf(path, sizeof path, "%s/%s", scratch->cache, KEY);
    assert_int_equal(attune_host_services_get()->cache_write(KEY, "x", 1), ATTUNE_OK);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_not_found(KEY);
}

static void a_folder_that_cannot_be_made_is_unavailable(void **state) {
    struct scratch *scratch = *state;
    const attune_host_services *host = attune_host_services_get();
    char path[256];
    snprintf(path, sizeof path, "%s/x/y/z", scratch->folder);
    setenv("ATTUNE_CACHE_DIR", path, 1);
    assert_int_equal(host->cache_write(KEY, "x", 1), ATTUNE_UNAVAILABLE);
    assert_contains(attune_last_error(), path);
    snprintf(path, sizeof path, "%s/file", scratch->folder);
    FILE *file = fopen(path, "w");
    fclose(file);
    setenv("ATTUNE_CACHE_DIR", path, 1);
    assert_int_equal(host->cache_write(KEY, "x", 1), ATTUNE_UNAVAILABLE);
    assert_not_found(KEY);
}

static void the_users_own_folder_is_the_default(void **state) {
    struct scratch *scratch = *state;
    const attune_host_services *host = attune_host_services_get();
    char path[256];
    unsetenv("ATTUNE_CACHE_DIR");
    setenv("HOME", scratch->folder, 1);
    unsetenv("XDG_CACHE_HOME");
    assert_int_equal(host->cache_write(KEY, "x", 1), ATTUNE_OK);
    snprintf(path, sizeof path, "%s/.cache/attune/" KEY, scratch->folder);
    assert_int_equal(access(path, R_OK), 0);
    snprintf(path, sizeof path, "%s/xdg", scratch->folder);
    setenv("XDG_CACHE_HOME", path, 1);
    assert_int_equal(host->cache_write(KEY, "x", 1), ATTUNE_OK);
    snprintf(path, sizeof path, "%s/xdg/attune/" KEY, scratch->folder);
    assert_int_equal(access(path, R_OK), 0);

    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    assert_not_found(KEY);
    assert_int_equal(host->cache_write(KEY, "x", 1), ATTUNE_UNAVAILABLE);
}

static void *write_often(void *argument) {
    char content[5000];
    memset(content, *(const char *)argument, sizeof content);
    for (int index = 0; index < 50; index++) {
        if (attune_host_services_get()->cache_write(KEY, content, sizeof content) != ATTUNE_OK) {
            return argument;
        }
    }
    return NULL;
}

static void readers_see_whole_files_only(void **state) {
    (void)state;
    const attune_host_services *host = attune_host_services_get();
    pthread_t writers[2];
    char letters[2] = {'a', 'b'};
    for (int index = 0; index < 2; index++) {
        assert_int_equal(pthread_create(&writers[index], NULL, write_often, &letters[index]), 0);
    }
    int found = 0;
    for (int index = 0; index < 200 || found == 0; index++) {
        char *bytes;
        size_t size;
        if (host->cache_read(KEY, (void **)&bytes, &size) == ATTUNE_OK) {
            found++;
            assert_int_equal(size, 5000);
            assert_int_equal(bytes[0], bytes[size - 1]);
            host->free(bytes);
        }
    }
    for (int index = 0; index < 2; index++) {
        void *failed;
        pthread_join(writers[index], &failed);
        assert_null(failed);
    }
}

static void memory_is_zeroed_and_can_be_made_to_fail(void **state) {
    (void)state;
    const attune_host_services *host = attune_host_services_get();
    char *memory = host->alloc(100);
    for (int index = 0; index < 100; index++) {
        assert_int_equal(memory[index], 0);
    }
    host->free(memory);
    void *nothing = host->alloc(0);
    assert_non_null(nothing);
    host->free(nothing);
    host->free(NULL);

    attune_host_limit_allocations(1);
    void *last = host->alloc(1);
    void *none = host->alloc(1);
    attune_host_limit_allocations(-1);
    assert_non_null(last);
    assert_null(none);
    host->free(last);

    assert_int_equal(host->cache_write(KEY, "x", 1), ATTUNE_OK);
    size_t size;
    attune_host_limit_allocations(0);
    attune_status status = host->cache_read(KEY, &none, &size);
    attune_host_limit_allocations(-1);
    assert_int_equal(status, ATTUNE_OUT_OF_MEMORY);
}

static void variables_come_from_the_table(void **state) {
    (void)state;
    const attune_host_services *host = attune_host_services_get();
    assert_int_equal(host->struct_size, sizeof *host);
    setenv("ATTUNE_CPU_ISA", "generic", 1);
    assert_string_equal(host->config_get("ATTUNE_CPU_ISA"), "generic");
    unsetenv("ATTUNE_CPU_ISA");
    assert_string_equal(host->config_get("ATTUNE_CPU_ISA"), "");
    assert_string_equal(host->config_get("HOME"), "");
}

static void limits_come_from_the_variable(void **state) {
    (void)state;
    const attune_host_services *host = attune_host_services_get();
    attune_device_limits limits = {.processors = 3, .shared_memory_bytes = 4, .work_group_size_max = 5};
    host->limits_override(&limits);
    assert_int_equal(limits.processors, 3);
    setenv("ATTUNE_DEVICE_LIMITS", "Shared=16KiB,workgroup=64", 1);
    host->limits_override(&limits);
    unsetenv("ATTUNE_DEVICE_LIMITS");
    assert_int_equal(limits.processors, 3);
    assert_int_equal(limits.shared_memory_bytes, 16384);
    assert_int_equal(limits.work_group_size_max, 64);
}

#define scratch_test(test) cmocka_unit_test_setup_teardown(test, make_scratch, remove_scratch)

int main(void) {
    const struct CMUnitTest tests[] = {
        scratch_test(write_and_read),
        scratch_test(keys_are_checked),
        scratch_test(damaged_files_are_not_found),
        scratch_test(a_file_under_another_key_is_not_found),
        scratch_test(what_is_no_file_is_not_waited_for),
        scratch_test(a_folder_that_cannot_be_made_is_unavailable),
        scratch_test(the_users_own_folder_is_the_default),
        scratch_test(readers_see_whole_files_only),
        scratch_test(memory_is_zeroed_and_can_be_made_to_fail),
        cmocka_unit_test(variables_come_from_the_table),
        cmocka_unit_test(limits_come_from_the_variable),
    };
    return cmocka_run_group_tests_name("host", tests, NULL, NULL);
}
