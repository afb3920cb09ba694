/*
 * Tensors and arguments: plain values that the caller fills in.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TYPES_H
#define ATTUNE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attune/status.h"
#include "attune/version.h"

ATTUNE_EXTERN_C_BEGIN

typedef enum attune_dtype {
    ATTUNE_DTYPE_NONE = 0, /* the tensor is absent */
    ATTUNE_DTYPE_F32 = 1,
    ATTUNE_DTYPE_F16 = 2,  /* IEEE binary16 */
    ATTUNE_DTYPE_BF16 = 3, /* the upper half of binary32 */
    ATTUNE_DTYPE_E4M3 = 4, /* OCP E4M3FN: largest value 448, NaN 0x7F and 0xFF, no infinity */
    ATTUNE_DTYPE_U8 = 5,   /* masks: nonzero is visible */
    ATTUNE_DTYPE_I32 = 6,  /* lengths, tables, indices */
    ATTUNE_DTYPE_U32 = 7,  /* a dropout offset in device memory */
    ATTUNE_DTYPE_U64 = 8,  /* a dropout seed in device memory */
    ATTUNE_DTYPE_F64 = 9   /* results only, and only from rows that say so: what other kernels are judged by */
} attune_dtype;

typedef enum attune_memory {
    ATTUNE_MEMORY_DEFAULT = 0, /* the device's own: host memory for a CPU, device memory for a GPU, cl_mem for OpenCL */
    ATTUNE_MEMORY_HOST = 1,
    ATTUNE_MEMORY_PINNED = 2, /* host memory that the device's driver locked, from attune_memory_alloc or the driver */
    ATTUNE_MEMORY_DEVICE = 3,
    ATTUNE_MEMORY_SVM = 4 /* OpenCL shared virtual memory: data is what clSVMAlloc or attune_memory_alloc gave */
} attune_memory;

#define ATTUNE_RANK_MAX 4

/* A view of the caller's memory. It owns nothing, and this struct never grows.
 *
 * Element (i0, i1, ...) lies at data + byte_offset + size(dtype) * sum(i_k * stride[k]). A tensor that is zero in all
 * fields is absent. data may be NULL only where the element count is 0. The extents, each taken as 1 where it is 0,
 * multiply to at most 2^60, and the last element ends at most 2^60 bytes from data. */
typedef struct attune_tensor {
    void *data;           /* host pointer, CUDA or HIP device pointer, SVM pointer, or a cl_mem cast to void * */
    uint64_t byte_offset; /* from data to the first element; a multiple of the element's size */
    attune_dtype dtype;
    attune_memory memory;
    int32_t rank;                    /* 1 to 4 */
    int32_t reserved0;               /* 0 */
    int64_t shape[ATTUNE_RANK_MAX];  /* elements along each axis, 0 or more; unused entries are 0 */
    int64_t stride[ATTUNE_RANK_MAX]; /* elements from one index to the next, 0 or more; unused entries are 0 */
    uint64_t reserved[2];            /* 0 */
} attune_tensor;

/* The size of one element in bytes; 0 for ATTUNE_DTYPE_NONE and for values outside the enum.
 *
 * Threads: any. Errors: none. */
ATTUNE_API size_t attune_dtype_size_bytes(attune_dtype dtype);

/* The dtype's name, as "bf16"; "unknown" for a value outside the enum.
 *
 * Ownership: a constant of the library. Threads: any. Errors: none. */
ATTUNE_API const char *attune_dtype_name(attune_dtype dtype);

/* A tensor over data whose last axis is contiguous and whose other axes follow without gaps (C order).
 *
 * shape: rank extents. A rank outside 1 to 4 gives an absent tensor. Nothing is checked here; the call that the tensor
 * is passed to does that. Threads: any. Errors: none. */
ATTUNE_API attune_tensor attune_tensor_contiguous(void *data, attune_dtype dtype, int32_t rank, const int64_t *shape);

/* Every call with options takes a pointer to a struct whose first field, struct_size, is sizeof of that struct as the
 * caller was compiled. Zero in a field always means its default. A smaller struct_size than the library's is read as if
 * the rest were zero; a larger one is accepted only if all that the library does not know is zero.
 *
 * C:    attune_forward(device, stream, ATTUNE_ARGS(attune_forward_args, .q = q, .k = k, .v = v, .o = o));
 * C++:  attune_forward_args args = attune_forward_args_init(); args.q = q; ...
 *
 * A struct that a call fills in ("out_info") has its struct_size set by the caller in the same way; the call writes no
 * further than that. */
#define ATTUNE_ARGS(type, ...) (&(const type){.struct_size = sizeof(type), __VA_ARGS__})

ATTUNE_EXTERN_C_END

#endif
