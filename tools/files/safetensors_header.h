/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTUNE_TOOLS_FILES_SAFETENSORS_HEADER_H
#define ATTUNE_TOOLS_FILES_SAFETENSORS_HEADER_H

#include "array.h"

/* The header of a .safetensors file, as the format's own text defines it
 * (https://huggingface.co/docs/safetensors): 8 bytes of little-endian length, then JSON, then the
 * tensors' bytes without holes or overlap. */
enum {
    SAFETENSORS_PREFIX_BYTES = 8,
    SAFETENSORS_HEADER_MAX_BYTES = 100 * 1000 * 1000, /* the format's own bound */
    SAFETENSORS_NAMES_TOLD = 10,                      /* when the wanted name is missing */
};

/* Reads the first bytes of a file, SAFETENSORS_PREFIX_BYTES of them or all if it is shorter. The
 * header that they announce lies within `file_bytes`. */
enum files_status safetensors_prefix_parse(const unsigned char *bytes, int64_t file_bytes,
                                           const struct files_report *report, int64_t *out_header_bytes);

/* Finds tensor `name` in a header of `header_bytes` bytes, which a NUL follows; `data_bytes` is
 * what the file holds after it. The whole header is checked, not that entry alone. *out_array gets
 * everything but the data, *out_data_offset where the data starts, counted from the header's end.
 * FILES_INVALID with the rule that is broken, or with names that exist if `name` does not. */
enum files_status safetensors_find(const char *header, int64_t header_bytes, int64_t data_bytes, const char *name,
                                   const struct files_report *report, struct array *out_array,
                                   int64_t *out_data_offset);

#endif
