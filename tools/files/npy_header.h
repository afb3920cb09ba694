/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_NPY_HEADER_H
#define ATTUNE_TOOLS_FILES_NPY_HEADER_H

#include "array.h"

/* The header of a .npy file, as numpy's format text (numpy/lib/format.py) defines it: magic string,
 * version, little-endian length, and a Python dictionary that ends with a newline. */
enum {
    NPY_PREFIX_BYTES = 12,        /* magic, version and the longer of the two lengths */
    NPY_HEADER_MAX_BYTES = 65535, /* what version 1.0 can say; ours needs 300 at the most */
    NPY_FORMAT_BYTES = 384,       /* what npy_header_format may write */
};

/* Reads the first bytes of a file: NPY_PREFIX_BYTES of them, or all if the file is shorter. Gives
 * where the dictionary starts and how long it is; that lies within `file_bytes`. */
enum files_status npy_prefix_parse(const unsigned char *bytes, int64_t file_bytes, const struct files_report *report,
                                   int64_t *out_dictionary_offset, int64_t *out_dictionary_bytes);

/* Reads the dictionary. *out_array gets everything but the data. */
enum files_status npy_dictionary_parse(const char *text, int64_t text_bytes, const struct files_report *report,
                                       struct array *out_array, bool *out_fortran_order);

/* Writes a header of version 1.0 in C order, padded so that the data starts at a multiple of 64.
 * FILES_INVALID for a type that .npy has no name for: bf16 and e4m3. */
enum files_status npy_header_format(const struct array *array, const struct files_report *report,
                                    char out_text[NPY_FORMAT_BYTES], size_t *out_text_bytes);

#endif
