/*
 * The one-call functions.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/attention.h"

#include "attune/kvcache.h"
#include "core/plan.h"
#include "core/plan_cache.h"

static attune_status run_once(attune_device *device, attune_stream *stream, attune_op op, const void *args) {
    struct attune_call call;
    attune_status status = attune_call_prepare(device, op, args, false, &call);
    return status == ATTUNE_OK ? attune_plan_cache_run(device, stream, &call) : status;
}

attune_status attune_forward(attune_device *device, attune_stream *stream, const attune_forward_args *args) {
    return run_once(device, stream, ATTUNE_OP_FORWARD, args);
}

attune_status attune_backward(attune_device *device, attune_stream *stream, const attune_backward_args *args) {
    return run_once(device, stream, ATTUNE_OP_BACKWARD, args);
}

attune_status attune_merge(attune_device *device, attune_stream *stream, const attune_merge_args *args) {
    return run_once(device, stream, ATTUNE_OP_MERGE, args);
}

attune_status attune_kvcache_append(attune_device *device, attune_stream *stream,
                                    const attune_kvcache_append_args *args) {
    return run_once(device, stream, ATTUNE_OP_APPEND, args);
}

attune_status attune_quantize(attune_device *device, attune_stream *stream, const attune_quantize_args *args) {
    return run_once(device, stream, ATTUNE_OP_QUANTIZE, args);
}
