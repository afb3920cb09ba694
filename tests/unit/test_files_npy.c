/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing of .npy: what is right comes back as it was, what lies is refused. */
#define _XOPEN_SOURCE 700

#include "files/npy.h"
#include "files_scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char message[FILES_MESSAGE_BYTES];

static enum files_status parse(const struct file_bytes *file, struct array *out_array) {
    unsigned char *exact = exact_copy(file);
    const enum files_status status = npy_parse(exact, file->size_bytes, out_array, message, sizeof message);
    free(exact);
    return status;
}

/* Refused as INVALID with that reason, and the output is not touched. */
static void assert_refused(const struct file_bytes *file, const char *reason) {
    struct array array = {.rank = 77};
    memset(message, 0, sizeof message);
    assert_int_equal(parse(file, &array), FILES_INVALID);
    assert_int_equal(array.rank, 77);
    assert_null(array.data);
    assert_told(message, reason);
}

static void written_files_come_back(void **state) {
    (void)state;
    static const enum array_type types[] = {ARRAY_F64, ARRAY_F32, ARRAY_F16, ARRAY_I64, ARRAY_I32, ARRAY_I16,
                                            ARRAY_I8,  ARRAY_U64, ARRAY_U32, ARRAY_U16, ARRAY_U8,  ARRAY_BOOL};
    static const int64_t shape[ARRAY_MAX_RANK] = {2, 3, 1, 2, 1, 3, 2, 2};
    const char *path = scratch_path("a.npy");
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int rank = 0; rank <= ARRAY_MAX_RANK; rank++) {
            struct array written = scratch_array(types[t], rank, shape);
            struct array read = {0};
            assert_int_equal(scratch_write_npy(path, &written, message, sizeof message), FILES_OK);
            assert_int_equal(npy_read(path, &read, message, sizeof message), FILES_OK);
            assert_arrays_equal(&written, &read);
            array_release(&read);
            array_release(&written);
        }
    }
    assert_int_equal(scratch_count(), 1);
}

static void zero_sizes_come_back(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{0, 3, 4}, {3, 0, 4}, {0, 0, 0}};
    const char *path = scratch_path("a.npy");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct array written = scratch_array(ARRAY_F32, 3, shapes[i]);
        struct array read = {0};
        assert_int_equal(scratch_write_npy(path, &written, message, sizeof message), FILES_OK);
        assert_int_equal(npy_read(path, &read, message, sizeof message), FILES_OK);
        assert_int_equal(read.count, 0);
        assert_arrays_equal(&written, &read);
    }
}

/* The 128 bytes that numpy 1.24 writes for np.zeros((2, 3), 'f4'), its own padding included. */
static void header_is_numpy_s(void **state) {
    (void)state;
    struct array array = scratch_array(ARRAY_F32, 2, (const int64_t[]){2, 3});
    const char *path = scratch_path("a.npy");
    assert_int_equal(scratch_write_npy(path, &array, message, sizeof message), FILES_OK);
    array_release(&array);

    static const char head[] = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, "
                               "'shape': (2, 3), }";
    char expected[128];
    memset(expected, ' ', sizeof expected);
    memcpy(expected, head, sizeof head - 1);
    expected[127] = '\n';
    char found[128];
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(found, 1, sizeof found, file), sizeof found);
    fclose(file);
    assert_memory_equal(found, expected, sizeof expected);
}

static void versions_are_read(void **state) {
    (void)state;
    for (int version = 1; version <= 3; version++) {
        const struct file_bytes file =
            compose_npy(version, "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }     \n", 8);
        struct array array = {0};
        assert_int_equal(parse(&file, &array), FILES_OK);
        assert_int_equal(array.type, ARRAY_I32);
        assert_int_equal(array.count, 2);
        assert_int_equal(((const int32_t *)array.data)[1], 0x07060504);
        array_release(&array);
    }
}

static void header_spellings_are_read(void **state) {
    (void)state;
    static const char *const spellings[] = {
        "{'descr':'<f4','fortran_order':False,'shape':(2,3)}\n",
        "{\"shape\": (2, 3), \"descr\": \"<f4\", \"fortran_order\": False}\n",
        "  {  'fortran_order' : False , 'shape' : ( 2 , 3 , ) , 'descr' : '=f4' , }  \n",
        "{'descr': '|f4',\n 'fortran_order': False,\n\t'shape': (2, 3)}\r\n\n",
    };
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        const struct file_bytes file = compose_npy(1, spellings[i], 24);
        struct array array = {0};
        assert_int_equal(parse(&file, &array), FILES_OK);
        assert_int_equal(array.type, ARRAY_F32);
        assert_int_equal(array.rank, 2);
        assert_int_equal(array.shape[0], 2);
        assert_int_equal(array.shape[1], 3);
        array_release(&array);
    }
}

/* Element (i, j, k, l) of the file, which holds 0, 1, 2, ... in Fortran order. */
static int64_t fortran_position(const int64_t *index, const int64_t *shape) {
    return index[0] + shape[0] * (index[1] + shape[1] * (index[2] + shape[2] * index[3]));
}

static void check_fortran(const char *descr, int element_bytes) {
    static const int64_t shape[4] = {3, 1, 4, 5};
    char header[128];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': True, 'shape': (3, 1, 4, 5), }\n", descr);
    const size_t start = 10 + strlen(header);
    const struct file_bytes file = compose_npy(1, header, (size_t)(60 * element_bytes));
    struct array array = {0};
    assert_int_equal(parse(&file, &array), FILES_OK);
    const unsigned char *element = array.data;
    int64_t index[4];
    for (index[0] = 0; index[0] < shape[0]; index[0]++) {
        for (index[1] = 0; index[1] < shape[1]; index[1]++) {
            for (index[2] = 0; index[2] < shape[2]; index[2]++) {
                for (index[3] = 0; index[3] < shape[3]; index[3]++) {
                    const int64_t from = fortran_position(index, shape) * element_bytes;
                    assert_memory_equal(element, file.bytes + start + from, (size_t)element_bytes);
                    element += element_bytes;
                }
            }
        }
    }
    array_release(&array);
}

static void fortran_order_becomes_c_order(void **state) {
    (void)state;
    check_fortran("|u1", 1);
    check_fortran("<f2", 2);
    check_fortran("<f4", 4);
    check_fortran("<i8", 8);
}

static void fortran_order_without_elements(void **state) {
    (void)state;
    const struct file_bytes file = compose_npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 0, 2), }\n", 0);
    struct array array = {0};
    assert_int_equal(parse(&file, &array), FILES_OK);
    assert_int_equal(array.count, 0);
    assert_null(array.data);
}

#define DESCR   "'descr': '<f4', "
#define FORTRAN "'fortran_order': False, "

static const struct {
    const char *header;
    const char *reason;
} lying_headers[] = {
    {"", "header ends at byte 0 where '{'"},
    {"\n", "where '{'"},
    {"{}\n", "no key 'descr'"},
    {"{" DESCR FORTRAN "}\n", "no key 'shape'"},
    {"{" DESCR "'shape': (6,)}\n", "no key 'fortran_order'"},
    {"{" FORTRAN "'shape': (6,)}\n", "no key 'descr'"},
    {"{" DESCR DESCR FORTRAN "'shape': (6,)}\n", "key 'descr' twice"},
    {"{" DESCR FORTRAN "'shape': (6,), 'extra': 1}\n", "key 'extra'; known are"},
    {"{" DESCR FORTRAN "'shape': (6,)\n", "where ',' or '}'"},
    {"{" DESCR FORTRAN "'shape': (6,)}", "does not end with a newline"},
    {"{" DESCR FORTRAN "'shape': (6,)} x\n", "where nothing but spaces"},
    {"{" DESCR FORTRAN "'shape': (6,)}}\n", "where nothing but spaces"},
    {"{,}\n", "a key or '}'"},
    {"{" DESCR FORTRAN "'shape': (6,),,}\n", "a key or '}'"},
    {"{'descr' '<f4'}\n", "where ':'"},
    {"{descr: '<f4'}\n", "a key or '}'"},
    {"{'descr: '<f4'}\n", "key 'descr: '"},
    {"{'de\\x73cr': '<f4'}\n", "without escapes"},
    {"{'descr': '<f4}", "a closing quote"},
    {"{'descr': 'a type of a very, very long name'}\n", "a short string"},
    {"{'descr': [('x', '<f4')]}\n", "no structured types"},
    {"{'descr': None}\n", "no structured types"},
    {"{'descr': '>f4'}\n", "'>f4' is big-endian"},
    {"{'descr': '<c8'}\n", "descr '<c8' is not"},
    {"{'descr': '<V2'}\n", "descr '<V2' is not"},
    {"{'descr': '<f16'}\n", "descr '<f16' is not"},
    {"{'descr': 'f4'}\n", "descr 'f4' is not"},
    {"{'descr': '<f'}\n", "descr '<f' is not"},
    {"{'descr': ''}\n", "descr '' is not"},
    {"{'fortran_order': 0}\n", "True or False"},
    {"{'fortran_order': 'True'}\n", "True or False"},
    {"{'fortran_order': Falsehood}\n", "',' or '}'"},
    {"{'shape': 6}\n", "the shape as a tuple"},
    {"{'shape': [6]}\n", "the shape as a tuple"},
    {"{'shape': (6)}\n", "where ','"},
    {"{'shape': (,)}\n", "a size"},
    {"{'shape': (6,,)}\n", "a size"},
    {"{'shape': (6", "','"},
    {"{'shape': (6,", "a size"},
    {"{'shape': (2 3)}\n", "','"},
    {"{'shape': (2, 3 4)}\n", "',' or ')'"},
    {"{'shape': (-6,)}\n", "negative size"},
    {"{'shape': (2, -3)}\n", "negative size"},
    {"{'shape': (6.0,)}\n", "','"},
    {"{'shape': (6L,)}\n", "','"},
    {"{'shape': (06,)}\n", "leading zeros"},
    {"{'shape': (0x6,)}\n", "','"},
    {"{'shape': (9223372036854775808,)}\n", "a size past 2^63 - 1"},
    {"{'shape': (99999999999999999999999,)}\n", "a size past 2^63 - 1"},
    {"{'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1)}\n", "more than 8 sizes"},
    {"{" DESCR FORTRAN "'shape': (9223372036854775807,)}\n", "more than 2^63 - 1 bytes"},
    {"{" DESCR FORTRAN "'shape': (4294967296, 4294967296)}\n", "more than 2^63 - 1 bytes"},
    {"{" DESCR FORTRAN "'shape': (0, 4294967296, 4294967296)}\n", "more than 2^63 - 1"},
    {"{" DESCR FORTRAN "'shape': (2305843009213693951,)}\n", "takes 9223372036854775804 bytes"},
    {"{" DESCR FORTRAN "'shape': (5,)}\n", "(5,) of f32 takes 20 bytes, but 24 follow"},
    {"{" DESCR FORTRAN "'shape': (7,)}\n", "takes 28 bytes, but 24 follow"},
    {"{" DESCR FORTRAN "'shape': ()}\n", "() of f32 takes 4 bytes, but 24 follow"},
    {"{" DESCR FORTRAN "'shape': (0,)}\n", "takes 0 bytes, but 24 follow"},
};

static void lying_headers_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lying_headers / sizeof lying_headers[0]; i++) {
        const struct file_bytes file = compose_npy(1, lying_headers[i].header, 24);
        assert_refused(&file, lying_headers[i].reason);
    }
}

#define RIGHT "{" DESCR FORTRAN "'shape': (2, 3), }\n"

static void lying_prefixes_are_refused(void **state) {
    (void)state;
    struct file_bytes file = compose_npy(1, RIGHT, 24);
    file.bytes[0] = 0x92;
    assert_refused(&file, "does not start as .npy does");

    file = compose_npy(1, RIGHT, 24);
    file.bytes[7] = 1;
    assert_refused(&file, "version 1.1");
    file.bytes[7] = 0;
    file.bytes[6] = 4;
    assert_refused(&file, "version 4.0");
    file.bytes[6] = 0;
    assert_refused(&file, "version 0.0");

    /* The header is said to be one byte longer than it is, and then one byte shorter. */
    file = compose_npy(1, RIGHT, 0);
    file.bytes[8]++;
    assert_refused(&file, "bytes are left in the file");
    file.bytes[8] = (unsigned char)(file.bytes[8] - 2);
    assert_refused(&file, "does not end with a newline");

    file = compose_npy(2, RIGHT, 24);
    file.bytes[10] = 1;
    assert_refused(&file, "at most 65535 are read");
    file.bytes[11] = 0xff;
    assert_refused(&file, "at most 65535 are read");
}

static void every_truncation_is_refused(void **state) {
    (void)state;
    for (int version = 1; version <= 3; version++) {
        struct file_bytes file = compose_npy(version, RIGHT, 24);
        struct array array = {0};
        assert_int_equal(parse(&file, &array), FILES_OK);
        array_release(&array);
        while (file.size_bytes-- > 0) {
            assert_refused(&file, "");
        }
    }
    struct file_bytes longer = compose_npy(1, RIGHT, 25);
    assert_refused(&longer, "but 25 follow");
}

static void every_truncated_file_is_refused(void **state) {
    (void)state;
    const struct file_bytes file = compose_npy(1, RIGHT, 24);
    for (size_t size_bytes = 0; size_bytes < file.size_bytes; size_bytes++) {
        const char *path = scratch_file("short.npy", file.bytes, size_bytes);
        struct array array = {0};
        assert_int_equal(npy_read(path, &array, message, sizeof message), FILES_INVALID);
        assert_told(message, path);
    }
}

static void control_characters_are_not_repeated(void **state) {
    (void)state;
    const struct file_bytes file = compose_npy(1, "{'descr': '<f4'\x1b]0;x\a}\n", 0);
    assert_refused(&file, "header has '?' at byte 15");
}

static void short_message_buffers_are_respected(void **state) {
    (void)state;
    const struct file_bytes file = compose_npy(1, "{}\n", 0);
    struct array array = {0};
    char small[24];
    for (size_t size = 0; size < sizeof small; size++) {
        memset(small, 'x', sizeof small);
        assert_int_equal(npy_parse(file.bytes, file.size_bytes, &array, small, size), FILES_INVALID);
        if (size > 0) {
            assert_true(strlen(small) < size);
        }
        for (size_t i = size; i < sizeof small; i++) {
            assert_int_equal(small[i], 'x');
        }
    }
    assert_int_equal(npy_parse(file.bytes, file.size_bytes, &array, NULL, 0), FILES_INVALID);
}

static void assert_unreadable(const char *path, const char *reason) {
    struct array array = {.rank = 77};
    assert_int_equal(npy_read(path, &array, message, sizeof message), FILES_INVALID);
    assert_int_equal(array.rank, 77);
    assert_told(message, path);
    assert_told(message, reason);
}

static void paths_that_are_no_files_are_refused(void **state) {
    (void)state;
    assert_unreadable(scratch_path("missing.npy"), "No such file");
    assert_unreadable(scratch_path("missing/a.npy"), "No such file");
    assert_unreadable(scratch_path(""), "is a directory");
    assert_unreadable("/dev/zero", "a device or a pipe");
    assert_unreadable("", "No such file");

    const char *pipe_path = scratch_path("pipe.npy");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_unreadable(pipe_path, "a device or a pipe");

    const char *dangling = scratch_path("dangling.npy");
    assert_int_equal(symlink("nowhere.npy", dangling), 0);
    assert_unreadable(dangling, "No such file");
    const char *loop = scratch_path("loop.npy");
    assert_int_equal(symlink("loop.npy", loop), 0);
    assert_unreadable(loop, "symbolic links");
}

static void links_are_followed(void **state) {
    (void)state;
    const struct file_bytes file = compose_npy(1, RIGHT, 24);
    scratch_file("real.npy", file.bytes, file.size_bytes);
    const char *link = scratch_path("link.npy");
    assert_int_equal(symlink("real.npy", link), 0);
    struct array array = {0};
    assert_int_equal(npy_read(link, &array, message, sizeof message), FILES_OK);
    assert_int_equal(array.count, 6);
    array_release(&array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_files_come_back),
        cmocka_unit_test(zero_sizes_come_back),
        cmocka_unit_test(header_is_numpy_s),
        cmocka_unit_test(versions_are_read),
        cmocka_unit_test(header_spellings_are_read),
        cmocka_unit_test(fortran_order_becomes_c_order),
        cmocka_unit_test(fortran_order_without_elements),
        cmocka_unit_test(lying_headers_are_refused),
        cmocka_unit_test(lying_prefixes_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_truncated_file_is_refused),
        cmocka_unit_test(control_characters_are_not_repeated),
        cmocka_unit_test(short_message_buffers_are_respected),
        cmocka_unit_test(paths_that_are_no_files_are_refused),
        cmocka_unit_test(links_are_followed),
    };
    scratch_open();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close();
    return failed;
}
