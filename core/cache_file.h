/*
 * Files that outlive the process: compiled kernels and what was measured. A file is there whole or not at all.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_CACHE_FILE_H
#define ATTUNE_CORE_CACHE_FILE_H

#include <stddef.h>

#include "attune/status.h"

/* host->cache_read of backend.h. out_bytes: freed by attune_host_free.
 * Errors: INVALID_ARGUMENT (key); NOT_FOUND (no folder, no file, or a damaged one); OUT_OF_MEMORY. */
attune_status attune_cache_file_read(const char *key, void **out_bytes, size_t *out_size);

/* host->cache_write of backend.h. Makes the folder if only the last two parts of its path are missing.
 * Errors: INVALID_ARGUMENT (key); UNAVAILABLE (no folder, or it cannot be written to: nothing is left behind). */
attune_status attune_cache_file_write(const char *key, const void *bytes, size_t size);

#endif
