/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a .npy file: refused with a reason, or an array that is what it says and comes back
 * the same from our own header. */
#include "files/npy.h"
#include "files/npy_header.h"

#include "fuzz_files.h"

static void check_reparse(const struct array *array) {
    const struct files_report silent = {"", NULL, 0};
    char header[NPY_FORMAT_BYTES];
    size_t header_bytes = 0;
    require(npy_header_format(array, &silent, header, &header_bytes) == FILES_OK);
    require(header_bytes % 64 == 0);

    const size_t data_bytes = (size_t)array->bytes;
    unsigned char *file = malloc(header_bytes + data_bytes);
    require(file != NULL);
    memcpy(file, header, header_bytes);
    if (data_bytes > 0) {
        memcpy(file + header_bytes, array->data, data_bytes);
    }
    struct array again = {0};
    require(npy_parse(file, header_bytes + data_bytes, &again, NULL, 0) == FILES_OK);
    require(again.type == array->type && again.rank == array->rank);
    require(again.count == array->count && again.bytes == array->bytes);
    require(memcmp(again.shape, array->shape, sizeof again.shape) == 0);
    require(data_bytes == 0 || memcmp(again.data, array->data, data_bytes) == 0);
    array_release(&again);
    free(file);
}

static void check(const uint8_t *bytes, size_t size_bytes) {
    struct array array = {0};
    char message[FILES_MESSAGE_BYTES] = "";
    if (npy_parse(bytes, size_bytes, &array, message, sizeof message) != FILES_OK) {
        require(message[0] != '\0' && array.data == NULL);
        return;
    }
    require(message[0] == '\0');
    require(array.bytes >= 0 && (uint64_t)array.bytes < size_bytes);
    require(array.bytes == array.count * array_type_bytes(array.type));
    check_reparse(&array);
    array_release(&array);
}

static void check_dictionary(const uint8_t *text, size_t text_bytes, size_t data_bytes) {
    const size_t length = text_bytes + 1;
    const size_t size_bytes = 12 + length + data_bytes;
    unsigned char *file = calloc(1, size_bytes);
    require(file != NULL);
    memcpy(file, "\x93NUMPY\2", 7);
    for (int i = 0; i < 4; i++) {
        file[8 + i] = (unsigned char)(length >> (8 * i));
    }
    if (text_bytes > 0) {
        memcpy(file + 12, text, text_bytes);
    }
    file[12 + text_bytes] = '\n';
    check(file, size_bytes);
    free(file);
}

static const struct fuzz_format format = {
    check,
    check_dictionary,
    {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
        "{'descr': '<f2', 'fortran_order': True, 'shape': (2, 3, 2), }",
        "{\"shape\": (24,), \"descr\": \"|u1\", \"fortran_order\": False}",
        "{'descr':'=i8','fortran_order':True,'shape':(3,1)}",
    },
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    fuzz_run(&format, bytes, size_bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t max_bytes, unsigned int seed) {
    return fuzz_mutate(&format, bytes, size_bytes, max_bytes, seed);
}
