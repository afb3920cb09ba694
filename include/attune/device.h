/*
 * Devices, and their memory, streams and events.
 *
 * An application opens a device by a selector, or wraps what it has already. Everything made from a device is closed
 * before the device is. Handles may be used from several threads at once, except that nothing may be closed while
 * another thread uses it.
 *
 * A call that asks the driver may fail with OUT_OF_MEMORY, DEVICE_LOST or INTERNAL, as the driver answers, where its
 * list of errors does not name them, too.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_DEVICE_H
#define ATTUNE_DEVICE_H

#include "attune/types.h"

ATTUNE_EXTERN_C_BEGIN

typedef struct attune_device attune_device;
typedef struct attune_stream attune_stream;
typedef struct attune_event attune_event;

#define ATTUNE_NAME_MAX   64
#define ATTUNE_REASON_MAX 256

/* ---- What is there ---- */

typedef struct attune_backend_info {
    size_t struct_size;
    char name[ATTUNE_NAME_MAX];          /* what selectors use: "cpu", "cuda", "hip", "opencl", or a module's own */
    char description[ATTUNE_REASON_MAX]; /* one line for people */
    int32_t priority;                    /* higher is tried earlier by "auto"; negative: never by "auto" */
    int32_t device_count;                /* 0 if status is not ATTUNE_OK */
    attune_status status;                /* ATTUNE_OK, or why it cannot be used on this machine */
    char reason[ATTUNE_REASON_MAX];      /* for status other than ATTUNE_OK: a sentence, with the library looked for */
} attune_backend_info;

typedef struct attune_device_info {
    size_t struct_size;
    char selector[ATTUNE_NAME_MAX]; /* opens this device: "cuda:1" */
    char name[ATTUNE_NAME_MAX];     /* the vendor's name for it */
    char driver[ATTUNE_NAME_MAX];   /* driver or runtime and its version; "" if there is none */
    bool is_cpu;
    bool is_emulation; /* results are right, speed says nothing; "auto" never picks it */
    uint64_t memory_bytes;
} attune_device_info;

/* What the planner may count on. A value that a device has no notion of is 0. */
typedef struct attune_device_limits {
    size_t struct_size;
    char architecture[ATTUNE_NAME_MAX]; /* "sm_90", "gfx942", "x86-64-v4", ... */
    int32_t processors;                 /* multiprocessors, compute units or threads that run at once */
    int32_t warp_width;
    int64_t shared_memory_bytes; /* on-chip memory that one work-group can have; of a CPU a thread's own cache */
    int64_t register_file_bytes; /* of one processor */
    int64_t l2_cache_bytes;
    int64_t work_group_size_max;
    int64_t memory_bytes;
    int32_t alignment_bytes; /* of what memory_alloc gives */
    bool is_cpu;
    bool is_emulation;
    /* For the cost model and the roofline of `explain`; 0 if unknown. */
    double peak_flops;            /* f32 multiply-adds, counted as two, per second */
    double peak_bytes_per_second; /* device memory */
} attune_device_limits;

/* The number of backends that were built in or found as modules, usable or not. The first call looks for modules.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL, or a variable of the README's table that holds what it must not);
 * OUT_OF_MEMORY. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_backend_count(int32_t *out_count);

/* Describes one backend, and looks for its devices. A backend that cannot run here is described too, with the reason;
 * that is not an error of this call, and does not disturb the others.
 *
 * index: 0 to count - 1, in the order in which "auto" would try them. out_info->struct_size is set by the caller.
 * Threads: any. Errors: INVALID_ARGUMENT (NULL, struct_size); NOT_FOUND (index). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_backend_get(int32_t index, attune_backend_info *out_info);

/* Describes one device of one backend without opening it.
 *
 * device_index: 0 to device_count - 1. out_info->struct_size is set by the caller. Threads: any.
 * Errors: INVALID_ARGUMENT (NULL, struct_size); NOT_FOUND (an index); what the driver says. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_backend_get_device(int32_t index, int32_t device_index,
                                                                     attune_device_info *out_info);

/* ---- Devices ---- */

/* Opens a device.
 *
 * selector: "auto"; or "BACKEND" (its device 0), "BACKEND:INDEX" or "BACKEND:NAME" (a device's name or the beginning of
 * one name only, in any case of letters; of several devices with that name, the first); or several, separated by
 * commas, of which the first that works is opened (the log tells which ones were passed over). A single selector is
 * strict: nothing else is opened in its place. NULL or "": the variable ATTUNE_BACKEND, and if that is unset, "auto".
 * "auto" takes GPUs before the CPU and skips OpenCL devices that are CPUs and everything that calls itself an
 * emulation. Ownership: closed with attune_device_close. Opening a device twice gives two handles. Threads: any.
 * Errors: INVALID_ARGUMENT (NULL, a malformed selector, a NAME that several devices' names begin with, a variable that
 * holds what it must not); NOT_FOUND (no such backend or device); UNAVAILABLE (the driver or its library, which the
 * sentence names, is missing; or several selectors failed, not all alike); INCOMPATIBLE; OUT_OF_MEMORY. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_device_open(const char *selector, attune_device **out_device);

/* Opens a device over what the caller has made with the driver already.
 *
 * backend: its name. native: for "cuda" a CUcontext, for "hip" a pointer to an int with the ordinal, for "opencl" a
 * pointer to {cl_context, cl_device_id}; the CPU has nothing to wrap and refuses.
 * Ownership: native stays the caller's and must outlive the device. Threads: any.
 * Errors: INVALID_ARGUMENT (NULL, refused by the driver, or a variable that holds what it must not); NOT_FOUND
 * (backend); UNSUPPORTED (nothing to wrap); UNAVAILABLE; INCOMPATIBLE; OUT_OF_MEMORY. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_device_wrap(const char *backend, void *native,
                                                              attune_device **out_device);

/* Closes a device, with its cached plans and workspaces. NULL is ignored. Waits for work that one-call functions
 * started on it. Streams, events, plans and memory of the device must be gone already.
 *
 * Threads: no other thread may use the device. Errors: none. */
ATTUNE_API void attune_device_close(attune_device *device);

/* Describes an open device. out_info->struct_size is set by the caller.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL, struct_size). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_device_get_info(const attune_device *device,
                                                                  attune_device_info *out_info);

/* The limits that plans are made by: the device's own, or what ATTUNE_DEVICE_LIMITS put in their place.
 * out_limits->struct_size is set by the caller.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL, struct_size). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_device_get_limits(const attune_device *device,
                                                                    attune_device_limits *out_limits);

/* Finds what a backend offers beyond this API, by the name that its documentation gives it.
 *
 * out_extension: what it is, says that documentation. Ownership: the backend's; valid while the process lives.
 * Threads: any. Errors: INVALID_ARGUMENT (NULL); NOT_FOUND (the device's backend has nothing of that name). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_device_get_extension(attune_device *device, const char *name,
                                                                       void **out_extension);

/* ---- Memory ---- */

typedef enum attune_copy_direction {
    ATTUNE_COPY_HOST_TO_DEVICE = 1,
    ATTUNE_COPY_DEVICE_TO_HOST = 2,
    ATTUNE_COPY_DEVICE_TO_DEVICE = 3
} attune_copy_direction;

/* Where a tensor's data lies, as the backend knows it. Two pointers share memory only if their spaces are equal. */
typedef struct attune_memory_range {
    uint64_t space;      /* an allocation, or an address space in which offsets are addresses */
    uint64_t offset;     /* of the pointer asked about, in bytes, within the space */
    uint64_t size_bytes; /* from that pointer to the end of the allocation; UINT64_MAX if the backend cannot know */
} attune_memory_range;

/* Allocates memory of the device. An application's own memory serves as well.
 *
 * kind: ATTUNE_MEMORY_DEFAULT, or a kind that the backend has (pinned host memory, SVM). bytes: 0 gives NULL.
 * Ownership: freed with attune_memory_free on the same device. The content is undefined. Threads: any.
 * Errors: INVALID_ARGUMENT (NULL, no kind of the enum); UNSUPPORTED (a kind that the device does not have);
 * OUT_OF_MEMORY; DEVICE_LOST. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_memory_alloc(attune_device *device, attune_memory kind,
                                                               uint64_t bytes, void **out_data);

/* Frees memory that attune_memory_alloc gave for the same device. NULL is ignored. No work may still use it.
 *
 * Threads: any. Errors: none. */
ATTUNE_API void attune_memory_free(attune_device *device, void *data);

/* Copies bytes between host and device, or within the device, in the order of the stream.
 *
 * destination, source: a host pointer where the direction says host, else the device's memory, but for what an
 * application got from clSVMAlloc itself: nothing tells it from a cl_mem. Offsets are in bytes. The two ranges must not
 * overlap. stream: NULL is the device's default stream (see attune_stream_create).
 * Visibility: on a stream, when the stream has got there; host memory must stay valid until then.
 * Threads: any. Errors: INVALID_ARGUMENT (NULL with bytes > 0, direction, no memory of the device's, a range outside
 * its allocation where that is known); DEVICE_LOST; INTERNAL (the driver's error). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_memory_copy(attune_device *device, attune_stream *stream,
                                                              attune_copy_direction direction, void *destination,
                                                              uint64_t destination_offset, const void *source,
                                                              uint64_t source_offset, uint64_t bytes);

/* Copies bytes from one device of a backend to another of the same backend, in the order of destination's stream.
 *
 * Threads: any. Errors: as attune_memory_copy; UNSUPPORTED (two backends, or no such path). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_memory_copy_peer(attune_device *destination_device,
                                                                   attune_stream *stream, void *destination,
                                                                   uint64_t destination_offset,
                                                                   attune_device *source_device, const void *source,
                                                                   uint64_t source_offset, uint64_t bytes);

/* Sets bytes to a value, in the order of the stream.
 *
 * Threads: any. Errors: as attune_memory_copy. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_memory_fill(attune_device *device, attune_stream *stream, void *data,
                                                              uint64_t byte_offset, uint64_t bytes, uint8_t value);

/* Tells where data lies; what attune itself uses to find overlaps.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL, or the driver does not know the pointer). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_memory_get_range(attune_device *device, const void *data,
                                                                   attune_memory_range *out_range);

/* What the calls on a device took of its memory, since the device was opened. */
typedef struct attune_memory_report {
    size_t struct_size;
    uint64_t tensor_bytes;         /* of the run with the most: its tensors, each counted once */
    uint64_t workspace_bytes;      /* scratch memory that one-call functions keep for streams now */
    uint64_t workspace_peak_bytes; /* the most scratch at any moment, with the workspace that a plan's run was given */
    uint64_t peak_bytes;           /* the most that the tensors of a run and all scratch took together */
} attune_memory_report;

/* Tells what the calls on a device took of its memory. What a single call will take is known before it runs:
 * attune_explanation has tensor_bytes and workspace_bytes.
 *
 * Tensors are counted by their shapes, whoever allocated them: a run's own, not those that the caller keeps besides.
 * What a driver takes for itself (contexts, code) is not known here. out_report->struct_size is set by the caller.
 * Threads: any; of runs at the same time on several threads each is counted for itself.
 * Errors: INVALID_ARGUMENT (NULL, struct_size). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_device_get_memory(const attune_device *device,
                                                                    attune_memory_report *out_report);

/* ---- Streams ---- */

/* Creates a stream: a queue whose work runs in order.
 *
 * Everywhere a stream is taken, NULL is the device's default stream: CUDA and HIP the context's per-thread default
 * stream, OpenCL a queue that attune keeps for the device, on the CPU "now" (a call returns when its work is done).
 * Ownership: closed with attune_stream_close. Threads: any.
 * Errors: INVALID_ARGUMENT (NULL); OUT_OF_MEMORY; DEVICE_LOST. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_stream_create(attune_device *device, attune_stream **out_stream);

/* Makes a stream of the driver's own: a CUstream, hipStream_t or cl_command_queue, which must belong to the device.
 *
 * Ownership: native stays the caller's and must outlive the handle. Threads: any.
 * Errors: INVALID_ARGUMENT (NULL, or native belongs to another device); UNSUPPORTED (the CPU has none). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_stream_wrap(attune_device *device, void *native,
                                                              attune_stream **out_stream);

/* Closes a stream after its work is done. NULL is ignored. Threads: no other thread may use it. Errors: none. */
ATTUNE_API void attune_stream_close(attune_stream *stream);

/* Waits until all work queued so far is done. stream NULL: the default stream of the device.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL device, the stream is another device's, or it is being captured);
 * DEVICE_LOST; INTERNAL (what the work failed with). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_stream_synchronize(attune_device *device, attune_stream *stream);

/* Tells whether work queued now is recorded into a graph instead of run.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL, another device's stream). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_stream_is_capturing(attune_device *device, attune_stream *stream,
                                                                      bool *out_capturing);

/* ---- Events ---- */

/* Creates an event: a point in a stream that can be waited for and timed.
 *
 * Ownership: closed with attune_event_close. Threads: any. Errors: INVALID_ARGUMENT (NULL); OUT_OF_MEMORY. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_event_create(attune_device *device, attune_event **out_event);

/* Closes an event. NULL is ignored. Threads: no other thread may use it. Errors: none. */
ATTUNE_API void attune_event_close(attune_event *event);

/* Sets the event to the point that the stream has reached now.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL event, another device's stream); INTERNAL. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_event_record(attune_event *event, attune_stream *stream);

/* Makes the stream wait for the event; the caller does not wait. An event that was never recorded is passed already.
 *
 * Threads: any. Errors: as attune_event_record. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_event_wait(attune_event *event, attune_stream *stream);

/* The time between two recorded events of one device; waits for both.
 *
 * out_seconds: device time where the driver measures it. Threads: any.
 * Errors: INVALID_ARGUMENT (NULL, two devices, never recorded); UNSUPPORTED (OpenCL, recorded on a queue without
 * CL_QUEUE_PROFILING_ENABLE); INTERNAL. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_event_elapsed(const attune_event *start, const attune_event *end,
                                                                double *out_seconds);

ATTUNE_EXTERN_C_END

#endif
