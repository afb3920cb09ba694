/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a .safetensors file: tensor "a" is refused with a reason, or is what it says. */
#include "files/safetensors.h"

#include "fuzz_files.h"

static void check(const uint8_t *bytes, size_t size_bytes) {
    struct array array = {0};
    char message[FILES_MESSAGE_BYTES] = "";
    if (safetensors_parse(bytes, size_bytes, "a", &array, message, sizeof message) != FILES_OK) {
        require(message[0] != '\0' && array.data == NULL);
        return;
    }
    require(message[0] == '\0');
    require(array.bytes >= 0 && (uint64_t)array.bytes < size_bytes);
    require(array.bytes == array.count * array_type_bytes(array.type));
    struct array measured = array;
    require(array_measure(&measured));
    require(measured.count == array.count && measured.bytes == array.bytes);
    array_release(&array);
}

static void check_header(const uint8_t *text, size_t text_bytes, size_t data_bytes) {
    const size_t size_bytes = 8 + text_bytes + data_bytes;
    unsigned char *file = calloc(1, size_bytes);
    require(file != NULL);
    for (int i = 0; i < 8; i++) {
        file[i] = (unsigned char)((uint64_t)text_bytes >> (8 * i));
    }
    if (text_bytes > 0) {
        memcpy(file + 8, text, text_bytes);
    }
    check(file, size_bytes);
    free(file);
}

static const struct fuzz_format format = {
    check,
    check_header,
    {
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
        "{\"b\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[8,24]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[1,4],\"data_offsets\":[0,8]}}  ",
        "{\"__metadata__\":{\"format\":\"pt\"},"
        "\"a\":{\"data_offsets\":[24,24],\"shape\":[0],\"dtype\":\"BOOL\"},"
        "\"\\u00e9\":{\"data_offsets\":[0,24],\"shape\":[],\"dtype\":\"X\"}}",
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[24],\"data_offsets\":[0,24]}}",
    },
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    fuzz_run(&format, bytes, size_bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t max_bytes, unsigned int seed) {
    return fuzz_mutate(&format, bytes, size_bytes, max_bytes, seed);
}
