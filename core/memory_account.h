/*
 * What the calls on a device took of its memory: kept in the device, told by attune_device_get_memory.
 *
 * Counting takes no lock: it is exact where calls follow each other, and no less than any one moment where they do not.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_MEMORY_ACCOUNT_H
#define ATTUNE_CORE_MEMORY_ACCOUNT_H

#include <stdatomic.h>
#include <stdint.h>

/* All zeros is a device on which nothing has run. */
struct attune_memory_account {
    _Atomic uint64_t kept_bytes; /* scratch of the one-call functions, now */
    _Atomic uint64_t tensor_peak_bytes;
    _Atomic uint64_t workspace_peak_bytes;
    _Atomic uint64_t peak_bytes;
};

/* The one-call functions keep more, or less, scratch memory. */
void attune_memory_account_keep(struct attune_memory_account *account, uint64_t bytes);
void attune_memory_account_free(struct attune_memory_account *account, uint64_t bytes);

/* A run, with what its tensors take and the workspace that the caller lent it. */
void attune_memory_account_run(struct attune_memory_account *account, uint64_t tensor_bytes, uint64_t lent_bytes);

#endif
