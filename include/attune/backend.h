/*
 * What a backend is. An application never needs this header.
 *
 * A backend gives core one `struct attune_backend`: a name and at most 32 functions. Core has validated everything
 * before it calls them: a backend sees canonical problems and pointers that are aligned as its row declares, checks
 * what only it can know, and launches. It calls nothing of attune but the host services it was handed, includes this
 * header, backend_util.h and core/portable, and links nothing of ours. See backends/README.md.
 *
 * Every function may be called from several threads at once, unless it says otherwise. A function that fails calls
 * host->fail with the status and a sentence, and returns that status; its outputs are then not read.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_BACKEND_H
#define ATTUNE_BACKEND_H

#include "attune/device.h"
#include "attune/log.h"
#include "attune/plan.h"
#include "attune/types.h"

ATTUNE_EXTERN_C_BEGIN

/* ---- The canonical problem ---- */

/* Every tensor that any operation takes. The order is that of the args structs. */
typedef enum attune_operand {
    ATTUNE_OPERAND_Q,
    ATTUNE_OPERAND_K,
    ATTUNE_OPERAND_V,
    ATTUNE_OPERAND_O,
    ATTUNE_OPERAND_LSE,
    ATTUNE_OPERAND_PROBS,
    ATTUNE_OPERAND_DOUT,
    ATTUNE_OPERAND_DLSE,
    ATTUNE_OPERAND_DQ,
    ATTUNE_OPERAND_DK,
    ATTUNE_OPERAND_DV,
    ATTUNE_OPERAND_DBIAS,
    ATTUNE_OPERAND_DSINK,
    ATTUNE_OPERAND_BIAS,
    ATTUNE_OPERAND_MASK,
    ATTUNE_OPERAND_ALIBI_SLOPES,
    ATTUNE_OPERAND_SINK,
    ATTUNE_OPERAND_CU_SEQLENS_Q,
    ATTUNE_OPERAND_CU_SEQLENS_K,
    ATTUNE_OPERAND_SEQUSED_Q,
    ATTUNE_OPERAND_SEQUSED_K,
    ATTUNE_OPERAND_LEFTPAD_K,
    ATTUNE_OPERAND_BLOCK_TABLE,
    ATTUNE_OPERAND_BLOCK_ROW_PTR,
    ATTUNE_OPERAND_BLOCK_COL_IDX,
    ATTUNE_OPERAND_DESCALE_Q,
    ATTUNE_OPERAND_DESCALE_K,
    ATTUNE_OPERAND_DESCALE_V,
    ATTUNE_OPERAND_DROPOUT_SEED,
    ATTUNE_OPERAND_DROPOUT_OFFSET,
    /* append: Q, K (the cache), V, SEQUSED_K, BLOCK_TABLE, DESCALE_K and DESCALE_V from above, and */
    ATTUNE_OPERAND_K_NEW,
    ATTUNE_OPERAND_V_NEW,
    ATTUNE_OPERAND_ROTARY_COS,
    ATTUNE_OPERAND_ROTARY_SIN,
    ATTUNE_OPERAND_Q_OUT,
    /* merge: O and LSE from above for the result, and one layout for all parts */
    ATTUNE_OPERAND_PART_O,
    ATTUNE_OPERAND_PART_LSE,
    /* quantize */
    ATTUNE_OPERAND_X,
    ATTUNE_OPERAND_Y,
    ATTUNE_OPERAND_DESCALE,
    ATTUNE_OPERAND_COUNT
} attune_operand;

/* How an operand lies in memory: four axes, strides in elements.
 *
 *   q, k, v, o and their kind   (b, s, h, d)
 *   lse, dlse                   (b, h, s, 1)
 *   bias, dbias, mask, probs    (b, h, i, j)
 *   alibi_slopes                (b, h, 1, 1)
 *   sink, dsink                 (h, 1, 1, 1)
 *   block_table                 (b, n, 1, 1)
 *   block_row_ptr               (h, nq + 1, 1, 1)
 *   descale_*                   (b, hkv, block of 128, 1)
 *   rotary_*                    (position, t, 1, 1)
 *   others                      (n, 1, 1, 1)
 *
 * With cu_seqlens, b of q, k and their kind and of lse has extent 1, and s is the row in the packed batch. With a block
 * table, b of k and v is the page and s the slot in it. An axis that a tensor lacks or broadcasts has extent 1. The d
 * axis has stride 1; any other axis of extent 1 or 0 has stride 0, whatever the caller's was. */
typedef struct attune_layout {
    attune_dtype dtype; /* ATTUNE_DTYPE_NONE: absent */
    attune_memory memory;
    int64_t shape[ATTUNE_RANK_MAX];
    int64_t stride[ATTUNE_RANK_MAX];
} attune_layout;

/* What a problem asks for, and what a kernel row can do. A row is chosen only if it has every bit of the problem. */
#define ATTUNE_FEATURE_CAUSAL        (UINT64_C(1) << 0) /* left open, right 0 */
#define ATTUNE_FEATURE_WINDOW        (UINT64_C(1) << 1) /* any other window */
#define ATTUNE_FEATURE_DIAGONAL      (UINT64_C(1) << 2) /* shift is the caller's or 0, where that differs from Sk - Sq */
#define ATTUNE_FEATURE_SOFTCAP       (UINT64_C(1) << 3)
#define ATTUNE_FEATURE_ALIBI         (UINT64_C(1) << 4)
#define ATTUNE_FEATURE_BIAS          (UINT64_C(1) << 5)
#define ATTUNE_FEATURE_MASK          (UINT64_C(1) << 6)
#define ATTUNE_FEATURE_SINK          (UINT64_C(1) << 7)
#define ATTUNE_FEATURE_DROPOUT       (UINT64_C(1) << 8)
#define ATTUNE_FEATURE_GQA           (UINT64_C(1) << 9)  /* Hq > Hkv */
#define ATTUNE_FEATURE_VARLEN_Q      (UINT64_C(1) << 10) /* cu_seqlens_q */
#define ATTUNE_FEATURE_VARLEN_K      (UINT64_C(1) << 11) /* cu_seqlens_k */
#define ATTUNE_FEATURE_SEQUSED_Q     (UINT64_C(1) << 12)
#define ATTUNE_FEATURE_SEQUSED_K     (UINT64_C(1) << 13)
#define ATTUNE_FEATURE_LEFTPAD_K     (UINT64_C(1) << 14)
#define ATTUNE_FEATURE_PAGED         (UINT64_C(1) << 15)
#define ATTUNE_FEATURE_BLOCK_SPARSE  (UINT64_C(1) << 16)
#define ATTUNE_FEATURE_DESCALE       (UINT64_C(1) << 17)
#define ATTUNE_FEATURE_LSE           (UINT64_C(1) << 18) /* forward writes it */
#define ATTUNE_FEATURE_PROBS         (UINT64_C(1) << 19)
#define ATTUNE_FEATURE_DLSE          (UINT64_C(1) << 20)
#define ATTUNE_FEATURE_DBIAS         (UINT64_C(1) << 21)
#define ATTUNE_FEATURE_DSINK         (UINT64_C(1) << 22)
#define ATTUNE_FEATURE_F32_OUT       (UINT64_C(1) << 23) /* an o, dout, dq, dk or dv of f32 where q is not */
#define ATTUNE_FEATURE_F64_OUT       (UINT64_C(1) << 24) /* an output of f64: the reference's rows only */
#define ATTUNE_FEATURE_O_IS_Q        (UINT64_C(1) << 25) /* o aliases q */
#define ATTUNE_FEATURE_DETERMINISTIC (UINT64_C(1) << 26)
#define ATTUNE_FEATURE_ROTARY        (UINT64_C(1) << 27)
#define ATTUNE_FEATURE_CONVERT       (UINT64_C(1) << 28) /* append: the new rows' dtype is not the cache's */
#define ATTUNE_FEATURE_COUNT         29

/* What only rows declare, for the schedule: without the bit a row is given no tile but its own, one split, no pack. */
#define ATTUNE_FEATURE_OWN_SPLITS (UINT64_C(1) << 60) /* as many splits as row_splits says, in workspace of its own */
#define ATTUNE_FEATURE_ANY_TILE   (UINT64_C(1) << 61) /* honours any tile_rows and tile_keys, 4 to 128 */
#define ATTUNE_FEATURE_SPLITS     (UINT64_C(1) << 62) /* leaves partial results and merges them, if splits > 1 */
#define ATTUNE_FEATURE_PACK       (UINT64_C(1) << 63) /* shares a tile's rows among pack query heads of a group */

/* A validated problem: nothing in it contradicts docs/semantics.md or itself, and no product of its extents overflows.
 * It holds no pointer and no value that may change from run to run, so two equal problems share a plan. Padding is
 * zero. */
typedef struct attune_problem {
    attune_op op;
    attune_dtype dtype; /* of q, of the cache, of the parts, of x */
    uint64_t features;
    int64_t batch;      /* B */
    int64_t rows;       /* Sq: of a sequence at most. append, merge, quantize: rows of the new keys, the parts, x */
    int64_t keys;       /* Sk: of a sequence at most; with a block table columns * page_size. append: the capacity */
    int64_t heads_q;    /* merge, quantize: the heads. append without q: 0 */
    int64_t heads_kv;   /* quantize: the groups. merge: 0 */
    int64_t head_dim;   /* D. merge: 0 */
    int64_t head_dim_v; /* Dv. quantize: 0 */
    int64_t page_size;  /* 0: not paged */
    int64_t block_rows; /* of block_row_ptr; 0: none */
    int64_t block_keys;
    int64_t parts;           /* merge */
    int64_t rotary_dim;      /* append: 0: no rotation */
    int32_t alignment_bytes; /* every operand's first element is aligned to this, 1 to 16; an operand of fewer bytes in
                                all, to the largest power of two in them. Strides are the backend's to look at */

    attune_align align;
    int64_t diagonal;
    int64_t window_left;  /* -1: open. At most 2^62, so that i + shift +- a side cannot overflow */
    int64_t window_right; /* -1: open; causal is 0 */
    double softcap;       /* 0: off */
    double dropout_rate;  /* 0: off */
    int64_t batch_origin; /* origins, as far as the dropout counter sees them: below 2^32, key_origin below 2^34 */
    int64_t head_origin;
    int64_t row_origin;
    int64_t key_origin;
    int64_t heads_total; /* never 0 */
    bool rotary_interleaved;
    bool descale_given;
    bool deterministic;

    attune_layout operand[ATTUNE_OPERAND_COUNT];
} attune_problem;

/* ---- A planned run ---- */

/* How the work is cut. grid is row tiles x splits x (batch * heads / pack), a row without tiles having one for each
 * row; a backend folds it into what its device can launch. backend_util.h has the arithmetic. */
typedef struct attune_schedule {
    int32_t tile_rows; /* 0: the row has no tiles */
    int32_t tile_keys;
    int32_t splits; /* 1 to ATTUNE_MERGE_PARTS_MAX; a split past the last key tile is empty */
    int32_t pack;   /* query heads of a group that share a tile's rows; 1: none */
    int64_t grid[3];
} attune_schedule;

/* Where each piece of scratch begins in the workspace, in bytes; size 0 if the plan has none. */
typedef struct attune_workspace_region {
    uint64_t offset;
    uint64_t size_bytes;
} attune_workspace_region;

typedef struct attune_workspace_map {
    attune_workspace_region partial_o;   /* f32 (split, batch * heads, row, Dv), for splits > 1 that are not its own */
    attune_workspace_region partial_lse; /* f32 (split, batch * heads, row), likewise */
    attune_workspace_region own;         /* what the backend's workspace_bytes asked for */
    uint64_t size_bytes;
} attune_workspace_map;

typedef struct attune_plan_request {
    const attune_problem *problem;
    int32_t row; /* index into the backend's rows */
    attune_schedule schedule;
    attune_workspace_map workspace;
} attune_plan_request;

typedef struct attune_pointer {
    void *data; /* as the caller gave it: a handle, for all that core knows */
    uint64_t byte_offset;
    attune_memory memory; /* what a tensor says of it; DEFAULT where there is no tensor */
} attune_pointer;

/* What changes from run to run. */
typedef struct attune_bindings {
    attune_pointer operand[ATTUNE_OPERAND_COUNT];
    const attune_pointer *part_o; /* merge: problem.parts of each; valid during the call */
    const attune_pointer *part_lse;
    attune_pointer workspace;
    double scale;
    uint64_t dropout_seed; /* where the problem has no ATTUNE_OPERAND_DROPOUT_SEED */
    uint32_t dropout_offset;
} attune_bindings;

/* ---- Kernel rows ---- */

/* A line of kernels.def. The order of rows is the order in which they are tried. */
typedef struct attune_kernel_row {
    const char *name;
    attune_op op;
    uint64_t dtypes; /* bit 1 << dtype for each problem.dtype */
    uint64_t features;
    int32_t head_dim_max;
    int32_t head_dim_v_max;
    int32_t head_dim_multiple; /* of D and Dv; 1: any */
    int32_t rows_max;          /* most rows of a sequence; 0: any */
    const char *architecture;  /* "any", or what the backend compares with its device */
    int32_t tile_rows;         /* 0: none, or ATTUNE_FEATURE_ANY_TILE */
    int32_t tile_keys;
    int32_t stages;
    int32_t threads;
    int32_t shared_bytes;
    attune_dtype p_dtype;
    int32_t spill_bytes;     /* declared: more is a build error */
    int32_t alignment_bytes; /* of every operand's pointer; 0: of its element */
    const char *isa;         /* instruction set flags, "" if none */
    bool flushes_subnormals;
    const void *kernel; /* the backend's own: a function, an image and a symbol */
} attune_kernel_row;

/* ---- Host services ---- */

/* What core lends a backend. Valid until the process ends. */
typedef struct attune_host_services {
    size_t struct_size;
    /* One line to the log. */
    void (*log)(attune_log_level level, const char *format, ...) ATTUNE_PRINTF(2, 3);
    /* Sets this thread's attune_last_error to a sentence, and returns the status. */
    attune_status (*fail)(attune_status status, const char *format, ...) ATTUNE_PRINTF(2, 3);
    /* Host memory, zeroed; NULL if there is none. Tests make it fail. */
    void *(*alloc)(size_t bytes);
    void (*free)(void *memory);
    /* The value of a variable of env.c's table by its name, "ATTUNE_CUDA_LIBRARY"; "" if it is unset. Valid for the
     * process's life. The only way a backend may read the environment. */
    const char *(*config_get)(const char *name);
    /* A file of ATTUNE_CACHE_DIR by its key ([a-z0-9_.-]+). read gives memory from alloc and returns NOT_FOUND for a
     * key that is not there or damaged; write replaces the whole file or nothing. */
    attune_status (*cache_read)(const char *key, void **out_bytes, size_t *out_size);
    attune_status (*cache_write)(const char *key, const void *bytes, size_t size);
    /* Puts what ATTUNE_DEVICE_LIMITS says in the place of a device's own limits, for a backend that builds its kernels
     * for them. Core does so to what device_limits gives, and has refused a value that cannot be read. */
    void (*limits_override)(attune_device_limits *limits);
} attune_host_services;

/* ---- The vtable ---- */

/* The alignment of what memory_alloc gives where a backend leaves it NULL: its limits say so. */
#define ATTUNE_HOST_MEMORY_ALIGNMENT_BYTES 256

/* Handles of the backend. A NULL stream handle is the device's default stream. A struct that a function fills in has
 * its struct_size set by core, and the function writes no further. Sentences need not name the backend: core does.
 *
 * An entry must be there unless its comment says what NULL means. Memory, streams and events are three groups; of a
 * group either no entry is NULL or all are, besides those that have a meaning of their own. */
typedef struct attune_backend {
    size_t struct_size;
    int32_t abi_major; /* ATTUNE_BACKEND_ABI_MAJOR */
    int32_t abi_minor;
    size_t kernel_row_size; /* sizeof(attune_kernel_row) as the backend was compiled */
    const char *name;
    const char *description;
    int32_t priority; /* higher is tried earlier by "auto"; negative: never. cuda 40, hip 30, opencl 20, cpu 10 */

    /* Looks for devices. index 0 and up; returns NOT_FOUND past the last, UNAVAILABLE (index 0) when the driver is
     * missing. Sets name, driver, is_cpu, is_emulation, memory_bytes; core writes the selector. */
    attune_status (*enumerate)(int32_t index, attune_device_info *out_info);
    attune_status (*device_open)(int32_t index, void **out_device);
    /* NULL: there is nothing to wrap. */
    attune_status (*device_wrap)(void *native, int32_t *out_index, void **out_device);
    /* NULL: there is nothing to close. */
    void (*device_close)(void *device);
    attune_status (*device_limits)(void *device, attune_device_limits *out_limits);

    /* Memory. All NULL: the device's memory is the host's, a pointer's data an address. Core allocates with
     * ATTUNE_HOST_MEMORY_ALIGNMENT_BYTES, copies and fills before the call returns, and takes all memory for one space
     * in which offsets are addresses. For devices whose streams are NULL too. */
    attune_status (*memory_alloc)(void *device, attune_memory kind, uint64_t bytes, void **out_data);
    void (*memory_free)(void *device, void *data);
    attune_status (*memory_copy)(void *device, void *stream, attune_copy_direction direction,
                                 attune_pointer destination, attune_pointer source, uint64_t bytes);
    /* NULL: no peer copies. */
    attune_status (*memory_copy_peer)(void *destination_device, void *stream, attune_pointer destination,
                                      void *source_device, attune_pointer source, uint64_t bytes);
    attune_status (*memory_fill)(void *device, void *stream, attune_pointer data, uint64_t bytes, uint8_t value);
    /* kind: as attune_pointer.memory. */
    attune_status (*memory_range)(void *device, attune_memory kind, const void *data, attune_memory_range *out_range);

    /* Streams. All NULL: the device has no queue; whatever the stream, execute and memory_copy return when their work
     * is done. A stream that an application creates is then another name of the default stream. */
    attune_status (*stream_open)(void *device, void **out_stream);
    /* NULL: there is nothing to wrap. */
    attune_status (*stream_wrap)(void *device, void *native, void **out_stream);
    void (*stream_close)(void *device, void *stream);
    attune_status (*stream_sync)(void *device, void *stream);
    /* NULL: streams cannot be captured. */
    attune_status (*stream_capturing)(void *device, void *stream, bool *out_capturing);

    /* Events. All NULL, for devices whose streams are NULL: an event is the host's time when it was recorded. */
    attune_status (*event_open)(void *device, void **out_event);
    void (*event_close)(void *device, void *event);
    attune_status (*event_record)(void *device, void *event, void *stream);
    attune_status (*event_wait)(void *device, void *event, void *stream);
    attune_status (*event_elapsed)(void *device, void *start, void *end, double *out_seconds);

    /* The rows of kernels.def, as compiled in. The same for all devices. */
    const attune_kernel_row *(*kernels)(int32_t *out_count);
    /* Whether the device can run the row at all: architecture, instructions, limits. reason: one sentence if not. NULL:
     * every device runs every row. */
    bool (*row_runnable)(void *device, int32_t row, char reason[ATTUNE_REASON_MAX]);
    /* What the columns cannot say, such as strides that a copy engine cannot describe. NULL: nothing. */
    bool (*row_accepts)(void *device, int32_t row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]);
    /* Scratch besides the partial results of splits. NULL: none. */
    uint64_t (*workspace_bytes)(void *device, int32_t row, const attune_problem *problem,
                                const attune_schedule *schedule);
    /* Loads the row's kernel and bakes in what does not change. request is valid during the call. */
    attune_status (*plan_build)(void *device, const attune_plan_request *request, void **out_plan);
    /* Runs of the plan may still be queued, or recorded in a graph: the backend keeps what they need. */
    void (*plan_release)(void *device, void *plan);
    /* Launches: allocates nothing and does not block. bindings is valid during the call. */
    attune_status (*execute)(void *device, void *plan, void *stream, const attune_bindings *bindings);

    /* A backend's own additions by name; returns NULL for what it does not know. NULL: none. */
    void *(*extension)(const char *name);

    /* Parts that a row with ATTUNE_FEATURE_OWN_SPLITS processes the keys in: of those tiles that it cuts at all, at
     * most. What they leave is in what workspace_bytes asks for. 1: none, and the row is passed over unless it was
     * asked for by name. request: the caller's, which may be ignored; 0: automatic. NULL: no row has the bit. */
    int32_t (*row_splits)(void *device, int32_t row, const attune_problem *problem, int32_t request);
} attune_backend;

/* The one symbol that a module, attune_<name>.so, exports. Returns NULL, after host->fail with INCOMPATIBLE, when it
 * cannot serve host_abi_major. What it returns stays valid for the process's life. It is called once in a process, and
 * opens no library: that is for enumerate and later. */
typedef const attune_backend *(*attune_backend_query_fn)(int32_t host_abi_major, const attune_host_services *host);
#define ATTUNE_BACKEND_QUERY_SYMBOL "attune_backend_query"

/* A backend defines its query under this name. For one that is linked into the library, the build sets the macro to
 * attune_<name>_backend_query, and the function stays hidden. */
#ifdef ATTUNE_BACKEND_QUERY
#    define ATTUNE_BACKEND_EXPORT
#else
#    define ATTUNE_BACKEND_QUERY  attune_backend_query
#    define ATTUNE_BACKEND_EXPORT ATTUNE_API
#endif
ATTUNE_BACKEND_EXPORT const attune_backend *ATTUNE_BACKEND_QUERY(int32_t host_abi_major,
                                                                 const attune_host_services *host);

ATTUNE_EXTERN_C_END

#endif
