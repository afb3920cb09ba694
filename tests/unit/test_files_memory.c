/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation of the library fails once: the status says so, and nothing is lost or left.
 * Linked with -Wl,--wrap=malloc, which turns the library's calls of malloc into __wrap_malloc. */
#include "files/npy.h"
#include "files/read.h"
#include "files_scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void *__real_malloc(size_t size_bytes);
void *__wrap_malloc(size_t size_bytes);

static int allocations_left = -1;

void *__wrap_malloc(size_t size_bytes) {
    if (allocations_left == 0) {
        return NULL;
    }
    if (allocations_left > 0) {
        --allocations_left;
    }
    return __real_malloc(size_bytes);
}

static char message[FILES_MESSAGE_BYTES];

/* Lets allocation 0, 1, 2, ... fail until reading succeeds; `least` of them must exist. */
static void check_read(const char *spec, int least) {
    enum files_status status = FILES_OUT_OF_MEMORY;
    int failing = 0;
    for (; status != FILES_OK; failing++) {
        struct array array = {.rank = 77};
        allocations_left = failing;
        status = array_read(spec, &array, message, sizeof message);
        allocations_left = -1;
        if (status == FILES_OK) {
            array_release(&array);
        } else {
            assert_int_equal(status, FILES_OUT_OF_MEMORY);
            assert_told(message, "no memory");
            assert_int_equal(array.rank, 77);
        }
    }
    assert_true(failing > least);
}

static void reading_npy(void **state) {
    (void)state;
    const struct file_bytes file = compose_npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2), }\n", 4);
    /* The header, the data, and room to bring it into C order. */
    check_read(scratch_file("a.npy", file.bytes, file.size_bytes), 3);
}

static void reading_safetensors(void **state) {
    (void)state;
    static const char header[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    const struct file_bytes file = compose_safetensors(header, sizeof header - 1, 2);
    char spec[512];
    snprintf(spec, sizeof spec, "%s:a", scratch_file("a.safetensors", file.bytes, file.size_bytes));
    /* The path, the header, its entries, the data, and cJSON's own. */
    check_read(spec, 10);
}

static void writing(void **state) {
    (void)state;
    struct array array = scratch_array(ARRAY_F32, 1, (const int64_t[]){4});
    const char *path = scratch_path("out.npy");
    const int before = scratch_count();
    allocations_left = 0;
    const enum files_status status = scratch_write_npy(path, &array, message, sizeof message);
    allocations_left = -1;
    array_release(&array);
    assert_int_equal(status, FILES_OUT_OF_MEMORY);
    assert_told(message, "no memory");
    assert_int_equal(scratch_count(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_npy),
        cmocka_unit_test(reading_safetensors),
        cmocka_unit_test(writing),
    };
    scratch_open();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    scratch_close();
    return failed;
}
