/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/check.h"

#include <inttypes.h>

#include "core/check_rules.h"
#include "core/host.h"
#include "core/overlap.h"
#include "core/status_internal.h"

static const attune_operand tables_of_values[] = {
    ATTUNE_OPERAND_CU_SEQLENS_Q,  ATTUNE_OPERAND_CU_SEQLENS_K,  ATTUNE_OPERAND_SEQUSED_Q,
    ATTUNE_OPERAND_SEQUSED_K,     ATTUNE_OPERAND_LEFTPAD_K,     ATTUNE_OPERAND_BLOCK_TABLE,
    ATTUNE_OPERAND_BLOCK_ROW_PTR, ATTUNE_OPERAND_BLOCK_COL_IDX,
};
#define TABLE_COUNT (sizeof tables_of_values / sizeof tables_of_values[0])

/* From its first element to its last, gaps included: one copy. */
static uint64_t span_bytes(const attune_layout *layout) {
    struct attune_strided bytes = attune_strided_make(layout);
    return (uint64_t)attune_strided_span_bytes(&bytes);
}

static attune_status read_tables(attune_device *device, void *stream, const struct attune_call *call, char *memory,
                                 struct attune_tables *out_tables) {
    uint64_t used = 0;
    for (size_t n = 0; n < TABLE_COUNT; n++) {
        attune_operand operand = tables_of_values[n];
        uint64_t bytes = span_bytes(&call->problem.operand[operand]);
        if (bytes == 0) {
            continue;
        }
        attune_pointer destination = {.data = memory + used};
        attune_status status = device->backend->memory_copy(device->handle, stream, ATTUNE_COPY_DEVICE_TO_HOST,
                                                            destination, call->bindings.operand[operand], bytes);
        if (status != ATTUNE_OK) {
            return status;
        }
        out_tables->values[operand] = (const int32_t *)(const void *)(memory + used);
        used += bytes;
    }
    return device->backend->stream_sync(device->handle, stream);
}

static attune_status check_tables(attune_device *device, void *stream, const struct attune_call *call, uint64_t bytes) {
    char *memory = attune_host_alloc(bytes);
    if (memory == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "no memory to check %" PRIu64 " bytes of lengths and tables", bytes);
    }
    struct attune_tables tables = {0};
    attune_status status = read_tables(device, stream, call, memory, &tables);
    if (status == ATTUNE_OK) {
        status = attune_tables_check(&call->problem, &tables);
    }
    attune_host_free(memory);
    return status;
}

attune_status attune_call_check_values(attune_device *device, attune_stream *stream, const struct attune_call *call) {
    void *handle;
    attune_status status = attune_stream_resolve(device, stream, &handle);
    bool capturing = false;
    if (status == ATTUNE_OK) {
        status = attune_stream_is_capturing(device, stream, &capturing);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    if (capturing) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT, "check = true while the stream is being captured: must be false, "
                                                    "as a check waits for the stream, to read lengths and tables");
    }
    uint64_t bytes = 0;
    for (size_t n = 0; n < TABLE_COUNT; n++) {
        bytes += span_bytes(&call->problem.operand[tables_of_values[n]]);
    }
    return bytes == 0 ? ATTUNE_OK : check_tables(device, handle, call, bytes);
}
