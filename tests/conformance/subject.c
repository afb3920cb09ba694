/* SPDX-License-Identifier: Apache-2.0 */
#include "subject.h"

#include <stdlib.h>
#include <string.h>

#define WORKSPACE_ALIGNMENT 256

static attune_status read_kernels(struct conform_subject *subject) {
    attune_status status = attune_device_count_kernels(subject->device, &subject->kernel_count);
    if (status != ATTUNE_OK) {
        return status;
    }
    subject->kernels = conform_alloc((uint64_t)subject->kernel_count, sizeof *subject->kernels);
    subject->kernel_hits = conform_alloc((uint64_t)subject->kernel_count, sizeof *subject->kernel_hits);
    for (int32_t n = 0; n < subject->kernel_count && status == ATTUNE_OK; n++) {
        subject->kernels[n].struct_size = sizeof subject->kernels[n];
        status = attune_device_get_kernel(subject->device, n, &subject->kernels[n]);
    }
    return status;
}

attune_status conform_subject_open(const char *selector, struct conform_subject *out_subject) {
    memset(out_subject, 0, sizeof *out_subject);
    attune_status status = attune_device_open(selector, &out_subject->device);
    if (status == ATTUNE_OK) {
        status = attune_device_open("cpu", &out_subject->cpu);
    }
    if (status == ATTUNE_OK) {
        status = attune_stream_create(out_subject->device, &out_subject->stream);
    }
    if (status == ATTUNE_OK) {
        out_subject->limits.struct_size = sizeof out_subject->limits;
        status = attune_device_get_limits(out_subject->device, &out_subject->limits);
    }
    return status == ATTUNE_OK ? read_kernels(out_subject) : status;
}

void conform_subject_close(struct conform_subject *subject) {
    free(subject->kernel_hits);
    free(subject->kernels);
    attune_stream_close(subject->stream);
    attune_device_close(subject->cpu);
    attune_device_close(subject->device);
}

const attune_kernel_info *conform_subject_find_kernel(const struct conform_subject *subject, const char *name) {
    for (int32_t n = 0; n < subject->kernel_count; n++) {
        if (strcmp(subject->kernels[n].name, name) == 0) {
            return &subject->kernels[n];
        }
    }
    return NULL;
}

void conform_subject_note_kernel(struct conform_subject *subject, const char *kernel, struct conform_outcome *outcome) {
    memcpy(outcome->kernel, kernel, sizeof outcome->kernel);
    const attune_kernel_info *info = conform_subject_find_kernel(subject, kernel);
    if (info) {
        subject->kernel_hits[info - subject->kernels]++;
    }
}

void conform_subject_wait(struct conform_subject *subject, attune_stream *stream) {
    attune_status status = attune_stream_synchronize(subject->device, stream);
    (void)status;
}

attune_status conform_subject_alloc_aligned(struct conform_subject *subject, uint64_t bytes, void **out_data,
                                            uint64_t *out_offset) {
    attune_memory_range range;
    attune_status status =
        attune_memory_alloc(subject->device, ATTUNE_MEMORY_DEFAULT, bytes + WORKSPACE_ALIGNMENT, out_data);
    if (status == ATTUNE_OK) {
        status = attune_memory_get_range(subject->device, *out_data, &range);
        *out_offset = status == ATTUNE_OK ? -range.offset % WORKSPACE_ALIGNMENT : 0;
    }
    return status;
}
