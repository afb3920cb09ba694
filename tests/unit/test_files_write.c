/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs appear whole under their names, or not at all. */
#define _XOPEN_SOURCE 700

#include "files/npy.h"
#include "files_scratch.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char message[FILES_MESSAGE_BYTES];

/* Each test has a folder of its own, so that what is left in it can be counted. */
static int open_folder(void **state) {
    (void)state;
    scratch_open();
    return 0;
}

static int close_folder(void **state) {
    (void)state;
    scratch_close();
    return 0;
}

static struct array small_array(void) {
    return scratch_array(ARRAY_F32, 2, (const int64_t[]){2, 3});
}

static void assert_write_fails(const char *path, enum files_status status, const char *reason) {
    struct array array = small_array();
    assert_int_equal(scratch_write_npy(path, &array, message, sizeof message), status);
    assert_told(message, path);
    assert_told(message, reason);
    array_release(&array);
}

static void assert_file_is(const char *path, const struct array *expected) {
    struct array read = {0};
    assert_int_equal(npy_read(path, &read, message, sizeof message), FILES_OK);
    assert_arrays_equal(expected, &read);
    array_release(&read);
}

static void missing_folder_is_refused(void **state) {
    (void)state;
    assert_write_fails(scratch_path("missing/a.npy"), FILES_INVALID, "No such file");
    assert_write_fails(scratch_path("missing/"), FILES_INVALID, "No such file");
    const char *file = scratch_file("file", "", 0);
    assert_write_fails(scratch_path("file/a.npy"), FILES_INVALID, "Not a directory");
    assert_int_equal(remove(file), 0);
    assert_int_equal(scratch_count(), 0);
}

/* A pipe stands for /dev/null, which a failure of this test must not replace. */
static void what_is_no_regular_file_is_not_replaced(void **state) {
    (void)state;
    assert_write_fails(scratch_path(""), FILES_INVALID, "is a directory");
    const char *pipe_path = scratch_path("pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_write_fails(pipe_path, FILES_INVALID, "a device or a pipe");
    struct stat about;
    assert_int_equal(stat(pipe_path, &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
    assert_int_equal(scratch_count(), 1);
}

static void types_without_a_name_are_refused(void **state) {
    (void)state;
    static const enum array_type types[] = {ARRAY_BF16, ARRAY_E4M3};
    for (int i = 0; i < 2; i++) {
        struct array array = scratch_array(types[i], 1, (const int64_t[]){3});
        assert_int_equal(scratch_write_npy(scratch_path("a.npy"), &array, message, sizeof message), FILES_INVALID);
        assert_told(message, "has no type for");
        array_release(&array);
    }
    assert_int_equal(scratch_count(), 0);
}

static void longest_name_is_written(void **state) {
    (void)state;
    char name[256];
    memset(name, 'n', sizeof name - 1);
    name[255] = '\0';
    struct array array = small_array();
    assert_int_equal(scratch_write_npy(scratch_path(name), &array, message, sizeof message), FILES_OK);
    assert_int_equal(scratch_count(), 1);
    assert_file_is(scratch_path(name), &array);
    array_release(&array);
}

static void a_name_too_long_is_refused(void **state) {
    (void)state;
    char name[257];
    memset(name, 'n', sizeof name - 1);
    name[256] = '\0';
    assert_write_fails(scratch_path(name), FILES_INVALID, "too long");
    assert_int_equal(scratch_count(), 0);
}

static void umask_decides_who_may_read(void **state) {
    (void)state;
    const char *path = scratch_path("a.npy");
    const mode_t before = umask(027);
    struct array array = small_array();
    const enum files_status status = scratch_write_npy(path, &array, message, sizeof message);
    umask(before);
    array_release(&array);
    assert_int_equal(status, FILES_OK);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
}

static void old_content_is_replaced(void **state) {
    (void)state;
    const char *path = scratch_file("a.npy", "old", 3);
    struct array array = small_array();
    assert_int_equal(scratch_write_npy(path, &array, message, sizeof message), FILES_OK);
    assert_file_is(path, &array);
    array_release(&array);
    assert_int_equal(scratch_count(), 1);
}

static void link_stays_and_its_file_is_replaced(void **state) {
    (void)state;
    const char *real = scratch_file("real.npy", "old", 3);
    const char *link = scratch_path("link.npy");
    assert_int_equal(symlink("real.npy", link), 0);
    struct array array = small_array();
    assert_int_equal(scratch_write_npy(link, &array, message, sizeof message), FILES_OK);
    struct stat about;
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_file_is(real, &array);
    array_release(&array);
    assert_int_equal(scratch_count(), 2);
}

/* A limit on the size of files stands for a full disk. */
static void full_disk_leaves_nothing(void **state) {
    (void)state;
    const char *path = scratch_file("a.npy", "old", 3);
    struct array array = scratch_array(ARRAY_F32, 1, (const int64_t[]){100000});
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit limit = {.rlim_cur = 4096, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const enum files_status status = scratch_write_npy(path, &array, message, sizeof message);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    array_release(&array);

    assert_int_equal(status, FILES_IO_ERROR);
    assert_told(message, "cannot be written");
    assert_int_equal(scratch_count(), 1);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_size, 3);
}

static void staged_files_wait_for_the_commit(void **state) {
    (void)state;
    const char *first = scratch_file("first.npy", "old", 3);
    const char *second = scratch_path("second.npy");
    struct array array = small_array();
    struct staged_file staged[2] = {{0}};
    assert_int_equal(npy_stage(first, &array, &staged[0], message, sizeof message), FILES_OK);
    assert_int_equal(npy_stage(second, &array, &staged[1], message, sizeof message), FILES_OK);
    struct stat about;
    assert_int_equal(stat(first, &about), 0);
    assert_int_equal(about.st_size, 3);
    assert_int_not_equal(access(second, F_OK), 0);
    assert_int_equal(scratch_count(), 3);

    int failed = -1;
    assert_int_equal(staged_files_commit(&(struct staged_file *){&staged[0]}, 1, message, sizeof message, &failed),
                     FILES_OK);
    assert_int_equal(failed, -1);
    assert_file_is(first, &array);
    staged_file_discard(&staged[1]);
    assert_int_not_equal(access(second, F_OK), 0);
    assert_int_equal(scratch_count(), 1);

    /* Both are spent: discarding them again harms nothing. */
    staged_file_discard(&staged[0]);
    staged_file_discard(&staged[1]);
    assert_file_is(first, &array);
    array_release(&array);
}

static void failed_commit_leaves_nothing(void **state) {
    (void)state;
    const char *path = scratch_path("a.npy");
    struct array array = small_array();
    struct staged_file staged = {0};
    assert_int_equal(npy_stage(path, &array, &staged, message, sizeof message), FILES_OK);
    array_release(&array);
    assert_int_equal(mkdir(path, 0700), 0);
    int failed = -1;
    assert_int_equal(staged_files_commit(&(struct staged_file *){&staged}, 1, message, sizeof message, &failed),
                     FILES_IO_ERROR);
    assert_int_equal(failed, 0);
    assert_told(message, "cannot take its name");
    assert_int_equal(scratch_count(), 1);
}

static void assert_content_is(const char *path, const char *content) {
    char bytes[64] = "";
    FILE *stream = fopen(path, "r");
    assert_non_null(stream);
    assert_int_equal(fread(bytes, 1, sizeof bytes - 1, stream), strlen(content));
    fclose(stream);
    assert_string_equal(bytes, content);
}

/* The name of one of several has become a directory's: those before it get back what they had, and those behind it are
 * not touched. */
static void one_that_cannot_be_named_undoes_the_others(void **state) {
    (void)state;
    static const char *const names[] = {"old.npy", "new.npy", "directory.npy", "last.npy"};
    enum { COUNT = 4 };
    const char *old = scratch_file(names[0], "old", 3);
    const char *last = scratch_file(names[3], "last", 4);
    struct array array = small_array();
    struct staged_file files[COUNT] = {{0}};
    struct staged_file *staged[COUNT];
    for (int i = 0; i < COUNT; i++) {
        staged[i] = &files[i];
        assert_int_equal(npy_stage(scratch_path(names[i]), &array, staged[i], message, sizeof message), FILES_OK);
    }
    array_release(&array);
    assert_int_equal(mkdir(scratch_path(names[2]), 0700), 0);

    int failed = -1;
    assert_int_equal(staged_files_commit(staged, COUNT, message, sizeof message, &failed), FILES_IO_ERROR);
    assert_int_equal(failed, 2);
    assert_told(message, "directory.npy: cannot take its name");
    assert_content_is(old, "old");
    assert_content_is(last, "last");
    assert_int_equal(scratch_count(), 3); /* and the directory, but nothing that is new */
}

static void all_are_named(void **state) {
    (void)state;
    const char *old = scratch_file("old.npy", "old", 3);
    const char *new = scratch_path("new.npy");
    struct array array = small_array();
    struct staged_file files[2] = {{0}};
    assert_int_equal(npy_stage(old, &array, &files[0], message, sizeof message), FILES_OK);
    assert_int_equal(npy_stage(new, &array, &files[1], message, sizeof message), FILES_OK);
    int failed = -1;
    assert_int_equal(
        staged_files_commit((struct staged_file *[]){&files[0], &files[1]}, 2, message, sizeof message, &failed),
        FILES_OK);
    assert_file_is(old, &array);
    assert_file_is(new, &array);
    array_release(&array);
    assert_int_equal(scratch_count(), 2);
}

/* Names that another run left behind are stepped over. */
static void leftovers_do_not_block(void **state) {
    (void)state;
    char name[64];
    for (int attempt = 0; attempt < 3; attempt++) {
        snprintf(name, sizeof name, ".attune-%ld-%d.tmp", (long)getpid(), attempt);
        scratch_file(name, "", 0);
    }
    struct array array = small_array();
    assert_int_equal(scratch_write_npy(scratch_path("a.npy"), &array, message, sizeof message), FILES_OK);
    array_release(&array);
    assert_int_equal(scratch_count(), 4);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, open_folder, close_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(missing_folder_is_refused),
        IN_FOLDER(what_is_no_regular_file_is_not_replaced),
        IN_FOLDER(types_without_a_name_are_refused),
        IN_FOLDER(longest_name_is_written),
        IN_FOLDER(a_name_too_long_is_refused),
        IN_FOLDER(umask_decides_who_may_read),
        IN_FOLDER(old_content_is_replaced),
        IN_FOLDER(link_stays_and_its_file_is_replaced),
        IN_FOLDER(full_disk_leaves_nothing),
        IN_FOLDER(staged_files_wait_for_the_commit),
        IN_FOLDER(failed_commit_leaves_nothing),
        IN_FOLDER(leftovers_do_not_block),
        IN_FOLDER(one_that_cannot_be_named_undoes_the_others),
        IN_FOLDER(all_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
