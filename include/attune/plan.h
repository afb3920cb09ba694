/*
 * Plans: everything that can be decided before the data is there, and why it was decided so.
 *
 * attune_forward and the other one-call functions make and keep plans by themselves. A caller who wants no allocation
 * and no blocking when it runs, or captures into a graph, makes the plan first, gives it a workspace, and runs it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_PLAN_H
#define ATTUNE_PLAN_H

#include <string.h>

#include "attune/attention.h"
#include "attune/device.h"
#include "attune/kvcache.h"
#include "attune/types.h"

ATTUNE_EXTERN_C_BEGIN

typedef struct attune_plan attune_plan;

/* What can be planned, and the struct that its args are. */
typedef enum attune_op {
    ATTUNE_OP_FORWARD = 1,  /* attune_forward_args */
    ATTUNE_OP_BACKWARD = 2, /* attune_backward_args */
    ATTUNE_OP_APPEND = 3,   /* attune_kvcache_append_args */
    ATTUNE_OP_MERGE = 4,    /* attune_merge_args */
    ATTUNE_OP_QUANTIZE = 5  /* attune_quantize_args */
} attune_op;

/* ---- Kernel rows ---- */

/* One compiled kernel, as its line in the backend's kernels.def declares it. What is declared is what is dispatched and
 * what the conformance suite holds it to. */
typedef struct attune_kernel_info {
    size_t struct_size;
    char name[ATTUNE_NAME_MAX];         /* for attune_attention_args.kernel */
    char architecture[ATTUNE_NAME_MAX]; /* what it is compiled for, "any" where that does not matter */
    attune_op op;
    uint64_t dtypes;   /* bit 1 << dtype for each dtype of q (of the cache, the parts, x) that it reads */
    uint64_t features; /* what it can do: ATTUNE_FEATURE_* of backend.h */
    int32_t head_dim_max;
    int32_t head_dim_v_max;
    int32_t head_dim_multiple;
    int32_t rows_max;  /* most rows of a sequence; 0: any */
    int32_t tile_rows; /* 0: it has no tiles, or any */
    int32_t tile_keys;
    attune_dtype p_dtype;           /* what P and dS are rounded to before their matrix products */
    bool flushes_subnormals;        /* subnormal inputs may be read as 0 */
    bool runnable;                  /* this device has the architecture and instructions that it needs */
    char reason[ATTUNE_REASON_MAX]; /* why not, if it is not */
} attune_kernel_info;

/* The number of kernel rows that the device's backend has, runnable here or not.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_device_count_kernels(attune_device *device, int32_t *out_count);

/* Describes one kernel row, in the order in which they are tried. out_info->struct_size is set by the caller.
 *
 * index: 0 to count - 1. Threads: any. Errors: INVALID_ARGUMENT (NULL, struct_size); NOT_FOUND (index). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_device_get_kernel(attune_device *device, int32_t index,
                                                                    attune_kernel_info *out_info);

/* ---- Plans ---- */

/* Makes a plan: validates args, chooses the kernel row, tiles and splits, and loads the kernel.
 *
 * args: the struct that op names. Fixed by it: shapes, strides, dtypes, options other than those that attune_plan_run
 * lists, and that each pointer is aligned to attune_explanation.alignment_bytes. Shapes are capacities: sequences get
 * shorter by the lengths in device memory (seqused, cu_seqlens). Tensors' data is not read, may be NULL, and is not
 * kept; then overlaps are checked when the plan is run, and every pointer is taken to be aligned to 16 bytes.
 * Ownership: closed with attune_plan_close, before its device is closed. args may go at once.
 * Threads: any. A plan may run on many streams at once, each with its own workspace.
 * Errors: INVALID_ARGUMENT; UNSUPPORTED; NOT_FOUND (args.kernel); UNAVAILABLE; OUT_OF_MEMORY; DEVICE_LOST; INTERNAL. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_plan_create(attune_device *device, attune_op op, const void *args,
                                                              attune_plan **out_plan);

/* Closes a plan. NULL is ignored. No run of it may be in flight. Threads: no other thread may use it. Errors: none. */
ATTUNE_API void attune_plan_close(attune_plan *plan);

/* Scratch memory of the device that a run needs, in bytes; often 0. Enough for every shorter length too.
 *
 * Threads: any. Errors: INVALID_ARGUMENT (NULL). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_plan_get_workspace(const attune_plan *plan, uint64_t *out_bytes);

/* Runs a plan: allocates nothing, does not block, and can be captured into a graph.
 *
 * args: as for attune_plan_create. May differ from the plan's: pointers and byte offsets (aligned as planned), scale,
 * dropout_seed, dropout_offset, and all that lies in device memory. Everything else must be equal. check (or
 * ATTUNE_CHECK=1) makes it read lengths and tables first, which blocks and is refused during capture.
 * workspace: device memory, as attune_memory_copy takes it, of workspace_bytes from workspace_offset on, aligned to 256
 * bytes, for this run alone until the stream has got past it; its bytes are undefined on entry and after. NULL where
 * attune_plan_get_workspace gave 0.
 * Visibility: in the order of the stream. Threads: any.
 * Errors: INVALID_ARGUMENT (args differ from the plan's; workspace too small or misaligned; a pointer less aligned than
 * planned; an overlap; check during capture, or what it found); OUT_OF_MEMORY (of check alone); DEVICE_LOST; INTERNAL.
 * Nothing is written on an error found before the launch. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_plan_run(attune_plan *plan, attune_stream *stream, const void *args,
                                                           void *workspace, uint64_t workspace_offset,
                                                           uint64_t workspace_bytes);

/* ---- Why ---- */

typedef struct attune_refusal {
    char kernel[ATTUNE_NAME_MAX];
    char reason[ATTUNE_REASON_MAX];
} attune_refusal;

/* What would be done for a problem, and what it costs. */
typedef struct attune_explanation {
    size_t struct_size;

    attune_status status;            /* ATTUNE_OK or ATTUNE_UNSUPPORTED */
    char kernel[ATTUNE_NAME_MAX];    /* the chosen row; "" if there is none */
    char device[ATTUNE_NAME_MAX];    /* the selector that opens the device */
    char problem[ATTUNE_REASON_MAX]; /* what was asked for: operation, dtype, sizes, options */
    int32_t tile_rows;               /* Br x Bc; 0 if the kernel has no tiles */
    int32_t tile_keys;
    bool tile_is_tuned; /* attune_tile_keep has kept it */
    int32_t splits;
    int32_t pack;             /* query heads of a group that share a tile's rows; 1: none */
    int64_t grid[3];          /* work-groups: row tiles, splits, batches x heads; folded where the device has limits */
    int32_t alignment_bytes;  /* that the plan holds its pointers to */
    uint64_t workspace_bytes; /* scratch */
    uint64_t tensor_bytes;    /* of all tensors given, each counted once */

    /* The work of the problem itself, whatever computes it. */
    double visible_pairs;   /* (row, key) pairs over batches and heads that have to be computed */
    bool pairs_are_bound;   /* visible_pairs is an upper bound: lengths, a mask or a table in device memory decide */
    double flops;           /* 4 D-wide operations a pair in forward; 2.5 times that in backward */
    double bytes;           /* each tensor moved once */
    double intensity;       /* flops / bytes */
    double seconds_at_peak; /* the roofline: max(flops / peak, bytes / bandwidth); 0 if the peaks are unknown */
    bool compute_bound;     /* which of the two it was */

    attune_refusal *refusals; /* set by the caller, with refusal_capacity; or NULL */
    int32_t refusal_capacity;
    int32_t refusal_count; /* rows that were refused, however many fit */
} attune_explanation;

static inline attune_explanation attune_explanation_init(void) {
    attune_explanation explanation;
    memset(&explanation, 0, sizeof explanation);
    explanation.struct_size = sizeof explanation;
    return explanation;
}

/* Explains what attune would do with args, without loading a kernel. That no row fits is not an error of this call.
 *
 * args: as for attune_plan_create; data may be NULL. out_explanation: struct_size, refusals and refusal_capacity are
 * set by the caller. Ownership: the caller's. Threads: any. Errors: INVALID_ARGUMENT; NOT_FOUND (args.kernel);
 * OUT_OF_MEMORY. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_explain(attune_device *device, attune_op op, const void *args,
                                                          attune_explanation *out_explanation);

/* Explains a plan that was made.
 *
 * out_explanation: as in attune_explain. Ownership: the caller's. Threads: any.
 * Errors: INVALID_ARGUMENT (NULL, struct_size, refusal_capacity). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_plan_explain(const attune_plan *plan,
                                                               attune_explanation *out_explanation);

/* Writes an explanation as text for people, several lines.
 *
 * text: capacity bytes, ended by 0 and cut if they are too few; NULL with capacity 0 to learn the length.
 * out_length: characters of the whole text, without the 0. Threads: any. Errors: INVALID_ARGUMENT (NULL). */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_explanation_format(const attune_explanation *explanation, char *text,
                                                                     size_t capacity, size_t *out_length);

/* ---- Tuning ---- */

/* Keeps a tile that was found to be the best, in a file of ATTUNE_CACHE_DIR: devices of the same backend and
 * architecture that are opened from now on, by whatever process, take it for problems of the same class. `attune tune`
 * measures and calls this.
 *
 * A class is: the kernel row, dtype, D, Dv, rows (times the query heads of a group) and keys up to 128 or more, and
 * those options that change the work of a tile (causal, window, softcap, ALiBi, bias, mask, dropout, paging, block
 * sparsity, descales, determinism). A tile that a call or ATTUNE_TILE asks for goes first; one that does not fit the
 * device is passed over. Of two processes that keep tiles at the same moment the later one wins, for all classes. args:
 * as for attune_plan_create, the row as it would be chosen for them; data may be NULL. tile_rows, tile_keys: 16 to 128.
 * Threads: any. Errors: INVALID_ARGUMENT; UNSUPPORTED (no row, or one with a tile of its own); NOT_FOUND (args.kernel);
 * UNAVAILABLE (no cache folder, or it cannot be written to); OUT_OF_MEMORY. */
ATTUNE_API ATTUNE_MUST_CHECK attune_status attune_tile_keep(attune_device *device, attune_op op, const void *args,
                                                            int32_t tile_rows, int32_t tile_keys);

ATTUNE_EXTERN_C_END

#endif
