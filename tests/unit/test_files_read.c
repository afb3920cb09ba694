/* SPDX-License-Identifier: Apache-2.0 */
/* Which reader a spelling chooses. */
#include "files/npy.h"
#include "files/read.h"
#include "files_scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char message[FILES_MESSAGE_BYTES];

static const char *make_tensors(const char *name) {
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                                 "\"a:b.npy\":{\"dtype\":\"I8\",\"shape\":[3],"
                                 "\"data_offsets\":[2,5]}}";
    const struct file_bytes file = compose_safetensors(header, sizeof header - 1, 5);
    return scratch_file(name, file.bytes, file.size_bytes);
}

static const char *make_npy(const char *name) {
    const char *path = scratch_path(name);
    struct array array = scratch_array(ARRAY_F32, 1, (const int64_t[]){4});
    assert_int_equal(scratch_write_npy(path, &array, message, sizeof message), FILES_OK);
    array_release(&array);
    return path;
}

static void assert_read(const char *path, const char *name, enum array_type type, int64_t count) {
    char spec[512];
    snprintf(spec, sizeof spec, "%s%s", path, name);
    struct array array = {0};
    assert_int_equal(array_read(spec, &array, message, sizeof message), FILES_OK);
    assert_int_equal(array.type, type);
    assert_int_equal(array.count, count);
    array_release(&array);
}

static void assert_refused(const char *spec, const char *reason) {
    struct array array = {.rank = 77};
    assert_int_equal(array_read(spec, &array, message, sizeof message), FILES_INVALID);
    assert_int_equal(array.rank, 77);
    assert_told(message, reason);
}

static void npy_paths_are_read(void **state) {
    (void)state;
    assert_read(make_npy("plain.npy"), "", ARRAY_F32, 4);
    assert_read(make_npy("with:colon.npy"), "", ARRAY_F32, 4);
    assert_read(make_npy(".npy"), "", ARRAY_F32, 4);
}

static void tensors_are_read(void **state) {
    (void)state;
    const char *path = make_tensors("x.safetensors");
    assert_read(path, ":a", ARRAY_U8, 2);
    /* The name goes on to the end, colons and all, while no .npy file has that whole name. */
    assert_read(path, ":a:b.npy", ARRAY_I8, 3);
    make_npy("x.safetensors:a:b.npy");
    assert_read(path, ":a:b.npy", ARRAY_F32, 4);
    assert_read(make_tensors("with:colon.safetensors"), ":a", ARRAY_U8, 2);
}

static void other_spellings_are_refused(void **state) {
    (void)state;
    assert_refused("", "neither FILE.npy nor");
    assert_refused("q.txt", "q.txt: is neither FILE.npy nor FILE.safetensors:NAME");
    assert_refused("q.npy:a", "neither FILE.npy nor");
    assert_refused("q.NPY", "neither FILE.npy nor");
    assert_refused("q.safetensors", "no tensor is named; the spelling is");
    assert_refused("q.safetensors:", "no tensor is named after the ':'");
    assert_refused("missing.npy", "missing.npy: cannot be opened");
    assert_refused("missing.safetensors:a", "missing.safetensors: cannot be opened");
    assert_refused("missing.safetensors:a.npy", "missing.safetensors: cannot be opened");
}

static void content_decides_nothing(void **state) {
    (void)state;
    assert_refused(make_tensors("tensors.npy"), "does not start as .npy does");
    char spec[512];
    snprintf(spec, sizeof spec, "%s:a", make_npy("npy.safetensors"));
    assert_refused(spec, "bytes are left in the file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_paths_are_read),
        cmocka_unit_test(tensors_are_read),
        cmocka_unit_test(other_spellings_are_refused),
        cmocka_unit_test(content_decides_nothing),
    };
    scratch_open();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close();
    return failed;
}
