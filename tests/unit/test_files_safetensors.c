/* SPDX-License-Identifier: Apache-2.0 */
/* Reading of .safetensors: the wanted tensor and nothing else, and no header that lies. */
#define _XOPEN_SOURCE 700

#include "files/safetensors.h"
#include "files/safetensors_header.h"
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

static struct file_bytes file;

static void compose(const char *header, size_t data_bytes) {
    file = compose_safetensors(header, strlen(header), data_bytes);
}

static void set_length(uint64_t length) {
    for (int i = 0; i < 8; i++) {
        file.bytes[i] = (unsigned char)(length >> (8 * i));
    }
}

static enum files_status parse(const char *name, struct array *out_array) {
    unsigned char *exact = exact_copy(&file);
    const enum files_status status =
        safetensors_parse(exact, file.size_bytes, name, out_array, message, sizeof message);
    free(exact);
    return status;
}

static void assert_refused(const char *name, const char *reason) {
    struct array array = {.rank = 77};
    memset(message, 0, sizeof message);
    assert_int_equal(parse(name, &array), FILES_INVALID);
    assert_int_equal(array.rank, 77);
    assert_null(array.data);
    assert_told(message, reason);
}

static void every_type_is_read(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum array_type type;
        int bytes;
    } types[] = {
        {"F64", ARRAY_F64, 8},   {"F32", ARRAY_F32, 4},   {"F16", ARRAY_F16, 2}, {"F8_E4M3", ARRAY_E4M3, 1},
        {"I64", ARRAY_I64, 8},   {"I32", ARRAY_I32, 4},   {"I16", ARRAY_I16, 2}, {"I8", ARRAY_I8, 1},
        {"U64", ARRAY_U64, 8},   {"U32", ARRAY_U32, 4},   {"U16", ARRAY_U16, 2}, {"U8", ARRAY_U8, 1},
        {"BOOL", ARRAY_BOOL, 1}, {"BF16", ARRAY_BF16, 2},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const int bytes = 6 * types[i].bytes;
        char header[256];
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[0,5]},"
                 "\"b.c\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[5,%d]}}   ",
                 types[i].name, 5 + bytes);
        compose(header, (size_t)(5 + bytes));
        struct array array = {0};
        assert_int_equal(parse("b.c", &array), FILES_OK);
        assert_int_equal(array.type, types[i].type);
        assert_int_equal(array.rank, 2);
        assert_int_equal(array.shape[0], 2);
        assert_int_equal(array.shape[1], 3);
        assert_int_equal(array.count, 6);
        assert_int_equal(array.bytes, bytes);
        assert_memory_equal(array.data, file.bytes + 8 + strlen(header) + 5, (size_t)bytes);
        array_release(&array);
    }
}

#define TENSOR(name, type, shape, begin, end)                                                                          \
    "\"" name "\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void shapes_and_orders_are_read(void **state) {
    (void)state;
    /* Out of order in the header, an empty tensor between, a scalar, an unknown type elsewhere. */
    compose("{" TENSOR("last", "F4_NEW", "[3]", 12, 24) "," TENSOR(
                "scalar", "F32", "[]", 0, 4) ","
                                             "\"__metadata__\":{\"format\":\"pt\",\"_\":\"\\\\u0000\"}," TENSOR(
                                                 "empty", "F32", "[0,7]", 4,
                                                 4) "," TENSOR("row", "F32", "[1,1,1,1,1,1,1,2]", 4, 12) "}",
            24);
    struct array array = {0};
    assert_int_equal(parse("scalar", &array), FILES_OK);
    assert_int_equal(array.rank, 0);
    assert_int_equal(array.count, 1);
    array_release(&array);
    assert_int_equal(parse("empty", &array), FILES_OK);
    assert_int_equal(array.count, 0);
    assert_int_equal(array.shape[1], 7);
    assert_null(array.data);
    assert_int_equal(parse("row", &array), FILES_OK);
    assert_int_equal(array.rank, 8);
    assert_int_equal(((const unsigned char *)array.data)[0], 4);
    array_release(&array);
    assert_refused("last", "dtype 'F4_NEW', which is not one of F64, F32");
    assert_refused("__metadata__", "has no tensor '__metadata__'");
}

static void missing_names_list_what_exists(void **state) {
    (void)state;
    compose("{\"__metadata__\":{}}", 0);
    assert_refused("a", "has no tensor 'a'; it holds 0");

    compose("{" TENSOR("one", "U8", "[1]", 0, 1) "," TENSOR("two", "U8", "[1]", 1, 2) "}", 2);
    assert_refused("ONE", "it holds 2: one, two");

    char header[2048] = "{";
    for (int i = 0; i < 12; i++) {
        char entry[128];
        snprintf(entry, sizeof entry, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                 i == 0 ? "" : ",", i, i, i + 1);
        strcat(header, entry);
    }
    strcat(header, "}");
    compose(header, 12);
    assert_refused("t", "it holds 12: t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, ...");
}

/* Ten names of a kilobyte each still leave a sentence. */
static void long_names_are_cut(void **state) {
    (void)state;
    static char header[16384];
    size_t length = (size_t)snprintf(header, sizeof header, "{");
    for (int i = 0; i < 10; i++) {
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   "%s\"%d%01024d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                                   i == 0 ? "" : ",", i, 0, i, i + 1);
    }
    snprintf(header + length, sizeof header - length, "}");
    compose(header, 10);
    assert_refused("t", "it holds 10: 0000");
    assert_true(strlen(message) < sizeof message);
}

#define ENTRY(body) "{\"a\":{" body "}}"

static const struct {
    const char *header;
    const char *reason;
} lying_headers[] = {
    {"", "does not start with '{'"},
    {" {}", "does not start with '{'"},
    {"\xef\xbb\xbf{}", "does not start with '{'"},
    {"[]", "does not start with '{'"},
    {"{", "is not JSON from byte 1 on"},
    {"{}x", "is not JSON from byte 2 on"},
    {"{}{}", "is not JSON from byte 2 on"},
    {"{\"a\":}", "is not JSON"},
    {"{\"a\":1,}", "is not JSON"},
    {"{\"a", "is not JSON"},
    {"{\"a\\", "is not JSON"},
    {"{\"a\\u00", "is not JSON"},
    {"{'a':1}", "is not JSON"},
    {"{\"a\\u0000b\":1}", "NUL character"},
    {"{\"\\\\\\u0000\":1}", "NUL character"},
    {"{\"a\":1}", "entry 'a' is not an object"},
    {"{\"a\":[]}", "entry 'a' is not an object"},
    {"{\"a\":null}", "entry 'a' is not an object"},
    {"{\"__metadata__\":1}", "__metadata__ is not an object of strings"},
    {"{\"__metadata__\":{\"a\":1}}", "__metadata__ is not an object of strings"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", "header has __metadata__ twice"},
    {ENTRY(""), "no data_offsets that is an array"},
    {ENTRY("\"DATA_OFFSETS\":[0,8]"), "no data_offsets that is an array"},
    {ENTRY("\"data_offsets\":8"), "no data_offsets that is an array"},
    {ENTRY("\"data_offsets\":[]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[0]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[0,4,8]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[0,\"8\"]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[0,8.5]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[-8,8]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[0,1e400]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[0,9007199254740993]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[0,18446744073709551624]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[[[0]],8]"), "not two whole numbers"},
    {ENTRY("\"data_offsets\":[8,0]"), "must rise and lie within the 8 bytes"},
    {ENTRY("\"data_offsets\":[0,9]"), "must rise and lie within the 8 bytes"},
    {ENTRY("\"data_offsets\":[9007199254740991,9007199254740991]"), "must rise"},
    {ENTRY("\"data_offsets\":[0,8],\"data_offsets\":[0,8]"), "data_offsets twice"},
    {ENTRY("\"data_offsets\":[0,8],\"shape\":[2]"), "no dtype that is a string"},
    {ENTRY("\"data_offsets\":[0,8],\"dtype\":4,\"shape\":[2]"), "no dtype that is a string"},
    {ENTRY("\"data_offsets\":[0,8],\"dtype\":\"f32\",\"shape\":[2]"), "dtype 'f32', which"},
    {ENTRY("\"data_offsets\":[0,8],\"dtype\":\"F32\",\"dtype\":\"F32\""), "dtype twice"},
    {ENTRY("\"data_offsets\":[0,8],\"dtype\":\"F32\""), "no shape that is an array"},
    {ENTRY("\"data_offsets\":[0,8],\"dtype\":\"F32\",\"shape\":{}"), "no shape that is"},
    {"{" TENSOR("a", "F32", "[-2]", 0, 8) "}", "a size that is not a whole number"},
    {"{" TENSOR("a", "F32", "[2.5]", 0, 8) "}", "a size that is not a whole number"},
    {"{" TENSOR("a", "F32", "[2,null]", 0, 8) "}", "a whole number in [0, 2^53) at axis 1"},
    {"{" TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,2]", 0, 8) "}", "more than 8 sizes"},
    {"{" TENSOR("a", "F32", "[3]", 0, 8) "}", "(3,) of f32 takes 12 bytes, but data_off"},
    {"{" TENSOR("a", "F32", "[1]", 0, 8) "}", "takes 4 bytes, but data_offsets give it 8"},
    {"{" TENSOR("a", "F32", "[]", 0, 8) "}", "takes 4 bytes"},
    {"{" TENSOR("a", "F32", "[4294967296,4294967296]", 0, 8) "}", "more than 2^63 - 1 bytes"},
    {"{" TENSOR("a", "F32", "[0,4294967296,4294967296]", 0, 8) "}", "more than 2^63 - 1"},
    {"{" TENSOR("a", "U8", "[4]", 0, 4) "}", "tensors end at 4, but 8 bytes follow"},
    {"{" TENSOR("a", "U8", "[4]", 4, 8) "}", "begins at 4, but the one before ends at 0"},
    {"{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("b", "U8", "[3]", 5, 8) "}",
     "tensor 'b' begins at 5, but the one before ends at 4"},
    {"{" TENSOR("a", "U8", "[8]", 0, 8) "," TENSOR("b", "U8", "[4]", 4, 8) "}",
     "tensor 'b' begins at 4, but the one before ends at 8"},
    {"{" TENSOR("a", "U8", "[4]", 0, 4) "," TENSOR("a", "U8", "[4]", 4, 8) "}", "header has tensor 'a' twice"},
    {"{}", "tensors end at 0, but 8 bytes follow"},
};

static void lying_headers_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof lying_headers / sizeof lying_headers[0]; i++) {
        compose(lying_headers[i].header, 8);
        assert_refused("a", lying_headers[i].reason);
    }
}

static void deep_nesting_is_refused(void **state) {
    (void)state;
    static char header[20001] = "{\"a\":";
    memset(header + 5, '[', sizeof header - 6);
    compose(header, 0);
    assert_refused("a", "is not JSON");
}

static void raw_nul_is_refused(void **state) {
    (void)state;
    static const char header[] = "{\"a\0b\":1}";
    file = compose_safetensors(header, sizeof header - 1, 0);
    assert_refused("a", "NUL character");
    file = compose_safetensors("{}\0", 3, 0);
    assert_refused("a", "NUL character");
}

static void lying_lengths_are_refused(void **state) {
    (void)state;
    compose("{}", 0);
    set_length(3);
    assert_refused("a", "header of 3 bytes, but 2 bytes are left");
    set_length(UINT64_MAX);
    assert_refused("a", "header of 18446744073709551615 bytes, but 2");
    set_length((uint64_t)1 << 63);
    assert_refused("a", "but 2 bytes are left");
    set_length(0);
    assert_refused("a", "does not start with '{'");
}

/* The format's bound, told from the prefix alone: no such file needs to exist. */
static void too_long_headers_are_refused(void **state) {
    (void)state;
    const struct files_report report = {"x", message, sizeof message};
    const int64_t file_bytes = INT64_C(1) << 40;
    int64_t header_bytes = 0;
    compose("", 0);
    set_length(SAFETENSORS_HEADER_MAX_BYTES);
    assert_int_equal(safetensors_prefix_parse(file.bytes, file_bytes, &report, &header_bytes), FILES_OK);
    assert_int_equal(header_bytes, 100000000);
    set_length(SAFETENSORS_HEADER_MAX_BYTES + 1);
    assert_int_equal(safetensors_prefix_parse(file.bytes, file_bytes, &report, &header_bytes), FILES_INVALID);
    assert_told(message, "header of 100000001 bytes; the format allows 100000000");
}

#define RIGHT "{" TENSOR("a", "F32", "[2]", 0, 8) "}"

static void every_truncation_is_refused(void **state) {
    (void)state;
    compose(RIGHT, 8);
    struct array array = {0};
    assert_int_equal(parse("a", &array), FILES_OK);
    array_release(&array);
    while (file.size_bytes-- > 0) {
        assert_refused("a", "");
    }
    compose(RIGHT, 9);
    assert_refused("a", "tensors end at 8, but 9 bytes follow");
}

static void every_truncated_file_is_refused(void **state) {
    (void)state;
    compose(RIGHT, 8);
    for (size_t size_bytes = 0; size_bytes < file.size_bytes; size_bytes++) {
        const char *path = scratch_file("short.safetensors", file.bytes, size_bytes);
        struct array array = {0};
        assert_int_equal(safetensors_read(path, "a", &array, message, sizeof message), FILES_INVALID);
        assert_told(message, path);
    }
}

static void control_characters_are_not_repeated(void **state) {
    (void)state;
    compose("{" TENSOR("x\\u001b]0;y\\u0007", "U8", "[1]", 0, 1) "}", 1);
    assert_refused("a", "it holds 1: x?]0;y?");
}

static void assert_unreadable(const char *path, const char *reason) {
    struct array array = {.rank = 77};
    assert_int_equal(safetensors_read(path, "a", &array, message, sizeof message), FILES_INVALID);
    assert_int_equal(array.rank, 77);
    assert_told(message, path);
    assert_told(message, reason);
}

static void paths_that_are_no_files_are_refused(void **state) {
    (void)state;
    assert_unreadable(scratch_path("missing.safetensors"), "No such file");
    assert_unreadable(scratch_path(""), "is a directory");
    const char *dangling = scratch_path("dangling.safetensors");
    assert_int_equal(symlink("nowhere", dangling), 0);
    assert_unreadable(dangling, "No such file");
}

/* Five sparse gigabytes lie before the tensor: offsets pass 2^32, and reading them all, or making
 * room for them, would not go unnoticed. */
static void only_the_wanted_tensor_is_read(void **state) {
    (void)state;
    const int64_t begin = INT64_C(5) << 30;
    char header[256];
    snprintf(header, sizeof header,
             "{\"hole\":{\"dtype\":\"U8\",\"shape\":[5368709120],\"data_offsets\":[0,5368709120]},"
             "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5368709120,5368709124]}}");
    compose(header, 0);
    const char *path = scratch_file("large.safetensors", file.bytes, file.size_bytes);
    FILE *large = fopen(path, "r+b");
    assert_non_null(large);
    assert_int_equal(fseeko(large, (off_t)file.size_bytes + begin, SEEK_SET), 0);
    assert_int_equal(fwrite("abcd", 1, 4, large), 4);
    assert_int_equal(fclose(large), 0);

    struct array array = {0};
    assert_int_equal(safetensors_read(path, "a", &array, message, sizeof message), FILES_OK);
    assert_int_equal(array.bytes, 4);
    assert_memory_equal(array.data, "abcd", 4);
    array_release(&array);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read),
        cmocka_unit_test(shapes_and_orders_are_read),
        cmocka_unit_test(missing_names_list_what_exists),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(lying_headers_are_refused),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(raw_nul_is_refused),
        cmocka_unit_test(lying_lengths_are_refused),
        cmocka_unit_test(too_long_headers_are_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_truncated_file_is_refused),
        cmocka_unit_test(control_characters_are_not_repeated),
        cmocka_unit_test(paths_that_are_no_files_are_refused),
        cmocka_unit_test(only_the_wanted_tensor_is_read),
    };
    scratch_open();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close();
    return failed;
}
