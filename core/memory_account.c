/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/memory_account.h"

#include "attune/backend_util.h"
#include "core/args.h"
#include "core/device_internal.h"

static void raise_peak(_Atomic uint64_t *peak, uint64_t bytes) {
    uint64_t before = atomic_load(peak);
    while (before < bytes && !atomic_compare_exchange_weak(peak, &before, bytes)) {
    }
}

static uint64_t add_saturated(uint64_t a, uint64_t b) {
    uint64_t sum = UINT64_MAX;
    (void)attune_add_checked(a, b, &sum);
    return sum;
}

void attune_memory_account_keep(struct attune_memory_account *account, uint64_t bytes) {
    const uint64_t kept = atomic_fetch_add(&account->kept_bytes, bytes) + bytes;
    raise_peak(&account->workspace_peak_bytes, kept);
}

void attune_memory_account_free(struct attune_memory_account *account, uint64_t bytes) {
    atomic_fetch_sub(&account->kept_bytes, bytes);
}

void attune_memory_account_run(struct attune_memory_account *account, uint64_t tensor_bytes, uint64_t lent_bytes) {
    const uint64_t scratch = add_saturated(atomic_load(&account->kept_bytes), lent_bytes);
    raise_peak(&account->tensor_peak_bytes, tensor_bytes);
    raise_peak(&account->workspace_peak_bytes, scratch);
    raise_peak(&account->peak_bytes, add_saturated(tensor_bytes, scratch));
}

attune_status attune_device_get_memory(const attune_device *device, attune_memory_report *out_report) {
    if (device == NULL) {
        return attune_args_refuse_null("device");
    }
    const struct attune_memory_account *account = &device->memory;
    const attune_memory_report report = {
        .tensor_bytes = atomic_load(&account->tensor_peak_bytes),
        .workspace_bytes = atomic_load(&account->kept_bytes),
        .workspace_peak_bytes = atomic_load(&account->workspace_peak_bytes),
        .peak_bytes = atomic_load(&account->peak_bytes),
    };
    return attune_args_export("attune_memory_report", &report, sizeof report, out_report);
}
