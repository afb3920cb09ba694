/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TESTS_FUZZ_FILES_H
#define ATTUNE_TESTS_FUZZ_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What the fuzzers of file formats share. The first byte of an input chooses how the rest is taken:
 * as a whole file, or as the header of a file with as many bytes of data as the second byte says.
 * So a fuzzer need not learn to keep lengths in step before it reaches what lies behind them. */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t max_bytes, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size_bytes, size_t max_bytes);

enum { FUZZ_FILE, FUZZ_HEADER, FUZZ_MEANINGS };

/* Headers that are right for this many bytes of data. */
enum { FUZZ_DATA_BYTES = 24, FUZZ_HEADERS = 4 };

struct fuzz_format {
    void (*check_file)(const uint8_t *bytes, size_t size_bytes);
    void (*check_header)(const uint8_t *text, size_t text_bytes, size_t data_bytes);
    const char *headers[FUZZ_HEADERS];
};

static inline void require(int condition) {
    if (!condition) {
        abort();
    }
}

static inline void fuzz_run(const struct fuzz_format *format, const uint8_t *bytes, size_t size_bytes) {
    if (size_bytes < 2) {
        return;
    }
    if (bytes[0] % FUZZ_MEANINGS == FUZZ_FILE) {
        format->check_file(bytes + 1, size_bytes - 1);
    } else {
        format->check_header(bytes + 2, size_bytes - 2, bytes[1]);
    }
}

/* Starts from right headers, now and then anew: short runs without a corpus go deep too. */
static inline size_t fuzz_mutate(const struct fuzz_format *format, uint8_t *bytes, size_t size_bytes, size_t max_bytes,
                                 unsigned int seed) {
    const char *header = format->headers[seed % FUZZ_HEADERS];
    const size_t length = strlen(header);
    if ((size_bytes < 2 || seed / FUZZ_HEADERS % 64 == 0) && length + 2 <= max_bytes) {
        bytes[0] = FUZZ_HEADER;
        bytes[1] = FUZZ_DATA_BYTES;
        memcpy(bytes + 2, header, length);
        size_bytes = length + 2;
    }
    return LLVMFuzzerMutate(bytes, size_bytes, max_bytes);
}

#endif
