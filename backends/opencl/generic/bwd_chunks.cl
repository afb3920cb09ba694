/*
 * The backward with five products: scores and dP of a pair of tiles are made once, for dq, dk and dv.
 *
 * A work-group owns a chunk of a key-value head's tiles of keys, and walks the tiles of rows along each. A work-item
 * has 8 by 8 elements of one product at a time in registers, and nothing else: what is summed over tiles, dk and dv of
 * the tile of keys and the chunk's part of dq, lies in the workspace, each element for the same work-item every time. A
 * last kernel adds up the chunks' parts of dq, so that no sum depends on the order in which work-groups end. Source:
 * arXiv 2307.08691, algorithm 2.
 *
 * Operands that are not in a tile of pairs pass through local memory in slices; while one is multiplied, the next is on
 * its way. The build sets ATTUNE_HEAD_DIM and ATTUNE_HEAD_DIM_V, rounded up, and ATTUNE_DOUT_DTYPE.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/run.h"

#include "backends/opencl/generic/bwd_chunks.h"
#include "backends/opencl/generic/bwd_rows.h"
#include "backends/opencl/generic/unseen.h"

#define ROWS    ATTUNE_CHUNK_ROWS
#define KEYS    ATTUNE_CHUNK_KEYS
#define THREADS ATTUNE_CHUNK_THREADS
#define SLICE   ATTUNE_CHUNK_SLICE
#define PITCH   ATTUNE_CHUNK_LINE

#define FOR_OWN    _Pragma("unroll")
#define FOR_STEPS  _Pragma("unroll 8") /* of more the cache of instructions has no room for all loops */
#define AT4(place) (*(__local float4 *)(place))
#define BARRIER()  barrier(CLK_LOCAL_MEM_FENCE)

/* ---- Which elements are whose ---- */

/* Work-items are a grid of width columns. 32 neighbours are 8 columns by 4 rows of it, in Z order: of two that differ
 * in one of the lowest bits, one pair reads the same rows and the other the same columns, which NVIDIA's local memory
 * then reads for 16 of them at once. */
FN int column_of(int thread, int width) {
    return ((thread & 1) | (thread >> 1 & 2) | (thread >> 2 & 4)) + 8 * (thread / 32 % (width / 8));
}

FN int line_of(int thread, int width) {
    return ((thread >> 1 & 1) | (thread >> 2 & 2)) + 4 * (thread / 32 / (width / 8));
}

/* Where element i of a work-item lies along an axis: the first four beside each other, the others half of the axis
 * further on, so that neighbours read neighbouring fours. */
FN int element_at(int index, int i, int length) {
    return index * 4 + i % 4 + i / 4 * (length / 2);
}

/* Lines and columns of a work-item in each product, but for dq of vectors of 64, where there are only 4 columns for
 * each. dk, dv and dq are made in parts of so many elements of a vector. */
#define OWN         8
#define ROW_COLUMNS (ATTUNE_HEAD_DIM % 128 == 0 ? OWN : 4)

#define PAIR_WIDTH (KEYS / OWN)
#define KEY_WIDTH  (THREADS / (KEYS / OWN))
#define ROW_WIDTH  (THREADS / (ROWS / OWN))

#define KEY_PART (KEY_WIDTH * OWN)
#define ROW_PART (ROW_WIDTH * ROW_COLUMNS)

/* Four or eight floats from local memory. */
#define READ_BLOCK(from, count, length, to)                                                                            \
    {                                                                                                                  \
        const float4 first_ = AT4(from);                                                                               \
        (to)[0] = first_.x;                                                                                            \
        (to)[1] = first_.y;                                                                                            \
        (to)[2] = first_.z;                                                                                            \
        (to)[3] = first_.w;                                                                                            \
        if ((count) == 8) {                                                                                            \
            const float4 second_ = AT4((from) + (length) / 2);                                                         \
            (to)[4] = second_.x;                                                                                       \
            (to)[5] = second_.y;                                                                                       \
            (to)[6] = second_.z;                                                                                       \
            (to)[7] = second_.w;                                                                                       \
        }                                                                                                              \
    }

/* ---- Local memory ---- */

/* A tile of pairs has a line for each row, and behind it four floats, which keep apart what a column of rows reads. Two
 * of them are the row's lse, -inf where there is no row, and its dlse_i - D_i. */
#define LSE_AT  KEYS
#define REST_AT (KEYS + 1)

/* What stays while a tile of keys and a head are walked. In local memory, as registers are for products. */
typedef struct frame {
    place at;
    vectors of_rows[2]; /* q and dout */
    vectors of_keys[2]; /* k and v */
    __global const float *lse;
    __global const float *rests;
    __global float *dq;
} frame;

typedef char frame_fits[sizeof(frame) <= ATTUNE_CHUNK_FRAME ? 1 : -1];

typedef struct tiles {
    __local float *pairs; /* P, then dS */
    __local float *slice; /* of what is multiplied */
    __local int *begin;   /* the keys that each row sees */
    __local int *end;
    __local frame *held;
    volatile __local int *found; /* whether q, k or dout has had anything that is not finite */
} tiles;

#define LOCAL_TILES()                                                                                                  \
    __local float pool[ATTUNE_CHUNK_FLOATS] __attribute__((aligned(64)));                                              \
    __local int pool_seen[ATTUNE_CHUNK_INTS];                                                                          \
    __local frame pool_held;                                                                                           \
    tiles local_;                                                                                                      \
    local_.pairs = pool + ATTUNE_CHUNK_SLICE_OF(ROWS) + ATTUNE_CHUNK_SLICE_OF(KEYS);                                   \
    local_.slice = pool;                                                                                               \
    local_.begin = pool_seen;                                                                                          \
    local_.end = pool_seen + ROWS;                                                                                     \
    local_.held = &pool_held;                                                                                          \
    local_.found = pool_seen + 2 * ROWS;                                                                               \
    if (get_local_id(0) == 0) {                                                                                        \
        local_.found[0] = local_.found[1] = 0;                                                                         \
    }

/* Read one by one: a copy of the whole would have an address. The dtype is a constant wherever it can be one. */
FN vectors held_vectors(__local const vectors *from) {
    vectors held;
    held.data = from->data;
    held.dtype = ATTUNE_DOUT_DTYPE == ATTUNE_DTYPE ? ATTUNE_DTYPE : from->dtype;
    held.length = from->length;
    held.exist_begin = from->exist_begin;
    held.exist_end = from->exist_end;
    held.stride = from->stride;
#if ATTUNE_GENERAL
    held.pack = from->pack;
    held.stride_head = from->stride_head;
    held.table = 0;
    held.descale = from->descale;
    held.stride_descale = from->stride_descale;
#endif
    return held;
}

/* ---- Slices ---- */

/* A slice by depth has element d of vector n at line_at(d, count) + n, so that work-items that store neighbouring d do
 * not meet in a bank. */
FN int line_at(int d, int count) {
    return d * count + d / 4 * 8;
}

#define FETCHES(count) ((count)*SLICE / 4 / THREADS)

/* What is on its way from memory: four elements of 16 bits stay so until they are put into local memory, as to turn
 * them into floats is to wait for them. Two whole registers, as to put halves of one together is to wait, too. */
#if ATTUNE_ALIGNED && !ATTUNE_GENERAL && (ATTUNE_DTYPE == ATTUNE_OPENCL_F16 || ATTUNE_DTYPE == ATTUNE_OPENCL_BF16)
typedef uint2 fetched;

FN fetched fetch(const vectors *of, POSITION position, int d) {
    fetched codes = (fetched)0;
    if (position >= of->exist_begin && position < of->exist_end && d < of->length) {
        codes = *(__global const fetched *)((__global const ushort *)of->data + vector_index(of, position) + d);
    }
    return codes;
}

FN float4 floats_of(fetched codes) {
#    if ATTUNE_DTYPE == ATTUNE_OPENCL_F16
    return vload_half4(0, (const half *)&codes);
#    else
    return as_float4(convert_uint4(as_ushort4(codes)) << 16);
#    endif
}
#else
typedef float4 fetched;

FN fetched fetch(const vectors *of, POSITION position, int d) {
    return load_from(of, position, d);
}

FN float4 floats_of(fetched values) {
    return values;
}
#endif

/* Elements first_d to first_d + SLICE - 1 of count vectors, ahead of time. Macros, as loops that index private arrays
 * must be unrolled before anything is inlined. */
#define FETCH_BY_DEPTH(of, first, count, first_d, out)                                                                 \
    FOR_OWN                                                                                                            \
    for (int n_ = 0; n_ < FETCHES(count); n_++) {                                                                      \
        const int at_ = (int)get_local_id(0) + n_ * THREADS;                                                           \
        (out)[n_] = fetch(of, (first) + at_ / (SLICE / 4), (first_d) + at_ % (SLICE / 4) * 4);                         \
    }

#define PUT_BY_DEPTH(in, count, slice)                                                                                 \
    FOR_OWN                                                                                                            \
    for (int n_ = 0; n_ < FETCHES(count); n_++) {                                                                      \
        const int at_ = (int)get_local_id(0) + n_ * THREADS;                                                           \
        const int d_ = at_ % (SLICE / 4) * 4;                                                                          \
        const float4 values_ = floats_of((in)[n_]);                                                                    \
        __local float *to_ = (slice) + line_at(d_, count) + at_ / (SLICE / 4);                                         \
        to_[0] = values_.x;                                                                                            \
        to_[count] = values_.y;                                                                                        \
        to_[2 * (count)] = values_.z;                                                                                  \
        to_[3 * (count)] = values_.w;                                                                                  \
    }

/* Elements first_d to first_d + columns - 1 of SLICE vectors, vector by vector. */
#define FETCH_BY_LINE(of, first, columns, first_d, out)                                                                \
    FOR_OWN                                                                                                            \
    for (int n_ = 0; n_ < FETCHES(columns); n_++) {                                                                    \
        const int at_ = (int)get_local_id(0) + n_ * THREADS;                                                           \
        (out)[n_] = fetch(of, (first) + at_ / ((columns) / 4), (first_d) + at_ % ((columns) / 4) * 4);                 \
    }

/* found: set where one is not finite. */
#define PUT_BY_LINE(in, columns, found, slice)                                                                         \
    {                                                                                                                  \
        float4 zeros_ = (float4)0.0f;                                                                                  \
        FOR_OWN                                                                                                        \
        for (int n_ = 0; n_ < FETCHES(columns); n_++) {                                                                \
            const float4 values_ = floats_of((in)[n_]);                                                                \
            zeros_ += 0.0f * values_;                                                                                  \
            AT4((slice) + ((int)get_local_id(0) + n_ * THREADS) * 4) = values_;                                        \
        }                                                                                                              \
        if (any(zeros_ != (float4)0.0f)) {                                                                             \
            *(found) = 1;                                                                                              \
        }                                                                                                              \
    }

/* ---- Products ---- */

#define CLEAR(columns, sum)                                                                                            \
    FOR_OWN                                                                                                            \
    for (int i_ = 0; i_ < OWN; i_++) {                                                                                 \
        FOR_OWN                                                                                                        \
        for (int j_ = 0; j_ < (columns); j_++) {                                                                       \
            (sum)[i_][j_] = 0.0f;                                                                                      \
        }                                                                                                              \
    }

#define MULTIPLY(factor, vector, columns, sum)                                                                         \
    FOR_OWN                                                                                                            \
    for (int i_ = 0; i_ < OWN; i_++) {                                                                                 \
        FOR_OWN                                                                                                        \
        for (int j_ = 0; j_ < (columns); j_++) {                                                                       \
            (sum)[i_][j_] += (factor)[i_] * (vector)[j_];                                                              \
        }                                                                                                              \
    }

/* The same over what is seen. */
#define MULTIPLY_SEEN(factor, vector, columns, sum)                                                                    \
    FOR_OWN                                                                                                            \
    for (int i_ = 0; i_ < OWN; i_++) {                                                                                 \
        FOR_OWN                                                                                                        \
        for (int j_ = 0; j_ < (columns); j_++) {                                                                       \
            (sum)[i_][j_] += is_seen((factor)[i_]) ? (factor)[i_] * (vector)[j_] : 0.0f;                               \
        }                                                                                                              \
    }

#define READ_PAIR(d, row, key)                                                                                         \
    READ_BLOCK(row_slice + line_at(d, ROWS), OWN, ROWS, row);                                                          \
    READ_BLOCK(key_slice + line_at(d, KEYS), OWN, KEYS, key)

/* pair(row, key) = row's vector . key's vector, over length elements. */
FN void multiply_pairs(int pass, POSITION first_row, POSITION first_key, const tiles *local_, float pair[OWN][OWN]) {
    const vectors rows = held_vectors(&local_->held->of_rows[pass]);
    const vectors keys = held_vectors(&local_->held->of_keys[pass]);
    const int length = pass == 0 ? ATTUNE_HEAD_DIM : ATTUNE_HEAD_DIM_V;
    __local float *slice = local_->slice;
    __local const float *row_slice = slice + line_of((int)get_local_id(0), PAIR_WIDTH) * 4;
    __local const float *key_slice =
        slice + ATTUNE_CHUNK_SLICE_OF(ROWS) + column_of((int)get_local_id(0), PAIR_WIDTH) * 4;
    fetched row_next[FETCHES(ROWS)];
    fetched key_next[FETCHES(KEYS)];
    CLEAR(OWN, pair);
    FETCH_BY_DEPTH(&rows, first_row, ROWS, 0, row_next);
    FETCH_BY_DEPTH(&keys, first_key, KEYS, 0, key_next);
#pragma unroll 1
    for (int first_d = 0; first_d < length; first_d += SLICE) {
        PUT_BY_DEPTH(row_next, ROWS, slice);
        PUT_BY_DEPTH(key_next, KEYS, slice + ATTUNE_CHUNK_SLICE_OF(ROWS));
        BARRIER();
        if (first_d + SLICE < length) {
            FETCH_BY_DEPTH(&rows, first_row, ROWS, first_d + SLICE, row_next);
            FETCH_BY_DEPTH(&keys, first_key, KEYS, first_d + SLICE, key_next);
        }
        FOR_STEPS
        for (int d = 0; d < SLICE; d++) {
            float row[OWN];
            float key[OWN];
            READ_PAIR(d, row, key);
            MULTIPLY(row, key, OWN, pair);
        }
        BARRIER();
    }
}

#define READ_KEYS(row, weight, vector)                                                                                 \
    READ_BLOCK(pairs + (row)*PITCH, OWN, KEYS, weight);                                                                \
    READ_BLOCK(slice + (row)*KEY_PART + column, OWN, KEY_PART, vector)

/* part(key, d) = weight(row, key) x row's vector, for KEY_PART elements from first_d on. */
FN void multiply_keys(int pass, POSITION first_row, int first_d, const tiles *local_, float part[OWN][OWN]) {
    const vectors rows = held_vectors(&local_->held->of_rows[1 - pass]);
    const int thread = get_local_id(0);
    const int key = line_of(thread, KEY_WIDTH) * 4;
    const int column = column_of(thread, KEY_WIDTH) * 4;
    CLEAR(OWN, part);
    fetched next[FETCHES(KEY_PART)];
    FETCH_BY_LINE(&rows, first_row, KEY_PART, first_d, next);
#pragma unroll 1
    for (int first = 0; first < ROWS; first += SLICE) {
        __local float *slice = local_->slice;
        __local float *pairs = local_->pairs + first * PITCH + key;
        volatile __local int *found = local_->found + first / SLICE % 2;
        PUT_BY_LINE(next, KEY_PART, found, slice);
        BARRIER();
        if (first + SLICE < ROWS) {
            FETCH_BY_LINE(&rows, first_row + first + SLICE, KEY_PART, first_d, next);
        }
        if (*found == 0) {
            FOR_STEPS
            for (int row = 0; row < SLICE; row++) {
                float weight[OWN];
                float vector[OWN];
                READ_KEYS(row, weight, vector);
                MULTIPLY(weight, vector, OWN, part);
            }
        } else {
#pragma unroll 1
            for (int row = 0; row < SLICE; row++) {
                float weight[OWN];
                float vector[OWN];
                READ_KEYS(row, weight, vector);
                MULTIPLY_SEEN(weight, vector, OWN, part);
            }
        }
        BARRIER();
    }
}

/* Rows of a work-item in dq: ROWS / OWN apart, as it reads along them. */
FN int row_at(int thread, int i) {
    return line_of(thread, ROW_WIDTH) + i * (ROWS / OWN);
}

/* part(row, d) = gradient(row, key) x key's vector, for ROW_PART elements from first_d on. */
FN void multiply_rows(POSITION first_key, int first_d, const tiles *local_, float part[OWN][ROW_COLUMNS]) {
    const vectors keys = held_vectors(&local_->held->of_keys[0]);
    const int thread = get_local_id(0);
    const int column = column_of(thread, ROW_WIDTH) * 4;
    fetched next[FETCHES(ROW_PART)];
    CLEAR(ROW_COLUMNS, part);
    FETCH_BY_LINE(&keys, first_key, ROW_PART, first_d, next);
#pragma unroll 1
    for (int first = 0; first < KEYS; first += SLICE) {
        __local float *slice = local_->slice;
        volatile __local int *found = local_->found + first / SLICE % 2;
        PUT_BY_LINE(next, ROW_PART, found, slice);
        BARRIER();
        if (first + SLICE < KEYS) {
            FETCH_BY_LINE(&keys, first_key + first + SLICE, ROW_PART, first_d, next);
        }
        if (*found == 0) {
#pragma unroll 1
            for (int key = 0; key < SLICE; key += 4) {
                float weight[4][OWN];
                FOR_OWN
                for (int i = 0; i < OWN; i++) {
                    const float4 four = AT4(local_->pairs + row_at(thread, i) * PITCH + first + key);
                    weight[0][i] = four.x;
                    weight[1][i] = four.y;
                    weight[2][i] = four.z;
                    weight[3][i] = four.w;
                }
                FOR_OWN
                for (int i = 0; i < 4; i++) {
                    float vector[OWN];
                    READ_BLOCK(slice + (key + i) * ROW_PART + column, ROW_COLUMNS, ROW_PART, vector);
                    MULTIPLY(weight[i], vector, ROW_COLUMNS, part);
                }
            }
        } else {
#pragma unroll 1
            for (int key = 0; key < SLICE; key++) {
                float weight[OWN];
                float vector[OWN];
                FOR_OWN
                for (int i = 0; i < OWN; i++) {
                    weight[i] = local_->pairs[row_at(thread, i) * PITCH + first + key];
                }
                READ_BLOCK(slice + key * ROW_PART + column, ROW_COLUMNS, ROW_PART, vector);
                MULTIPLY_SEEN(weight, vector, ROW_COLUMNS, part);
            }
        }
        BARRIER();
    }
}

/* ---- A tile of pairs ---- */

/* What the rows of a tile see, and their lse and rest. */
FN void load_rows(parameters p, attune_i64 first, const tiles *local_) {
    const attune_mask mask = local_->held->at.mask;
    __global const float *lse = local_->held->lse;
    __global const float *rests = local_->held->rests;
    for (int n = get_local_id(0); n < ROWS; n += THREADS) {
        const bool exists = first + n < mask.rows;
        const attune_interval sees = exists ? attune_mask_keys(mask, first + n, 1) : interval(0, 0);
        local_->pairs[n * PITCH + LSE_AT] = exists ? lse[(first + n) * p->lse.axis[2]] : -INFINITY;
        local_->pairs[n * PITCH + REST_AT] = exists ? rests[first + n] : 0.0f;
        local_->begin[n] = (int)sees.begin;
        local_->end[n] = (int)sees.end;
    }
}

/* Whether some row of a tile, or one that does not exist, may not see some key of another. */
FN bool has_hidden(const tiles *local_, attune_i64 first_row, attune_i64 first_key) {
    const attune_mask mask = local_->held->at.mask;
    const attune_interval common = attune_mask_common_keys(mask, first_row, ROWS);
    return first_row + ROWS > mask.rows || first_key < common.begin || first_key + KEYS > common.end;
}

FN void scale_pairs(float scale, float pair[OWN][OWN]) {
    FOR_OWN
    for (int i = 0; i < OWN; i++) {
        FOR_OWN
        for (int j = 0; j < OWN; j++) {
            pair[i][j] *= scale;
        }
    }
}

FN void hide_unseen(const tiles *local_, int first_key, float pair[OWN][OWN]) {
    const int thread = get_local_id(0);
    FOR_OWN
    for (int i = 0; i < OWN; i++) {
        const int row = element_at(line_of(thread, PAIR_WIDTH), i, ROWS);
        FOR_OWN
        for (int j = 0; j < OWN; j++) {
            const int key = first_key + element_at(column_of(thread, PAIR_WIDTH), j, KEYS);
            pair[i][j] = key >= local_->begin[row] && key < local_->end[row] ? pair[i][j] : -INFINITY;
        }
    }
}

FN void store_line(int line, const float pair[OWN], const tiles *local_) {
    const int thread = get_local_id(0);
    __local float *to =
        local_->pairs + element_at(line_of(thread, PAIR_WIDTH), line, ROWS) * PITCH + column_of(thread, PAIR_WIDTH) * 4;
    AT4(to) = (float4)(pair[0], pair[1], pair[2], pair[3]);
    AT4(to + KEYS / 2) = (float4)(pair[4], pair[5], pair[6], pair[7]);
}

/* P from scores, into the tile of pairs. UNSEEN where a row does not see a key, or sees none. */
FN void store_weights(const tiles *local_, float pair[OWN][OWN]) {
    const int thread = get_local_id(0);
    FOR_OWN
    for (int i = 0; i < OWN; i++) {
        const float lse = local_->pairs[element_at(line_of(thread, PAIR_WIDTH), i, ROWS) * PITCH + LSE_AT];
        FOR_OWN
        for (int j = 0; j < OWN; j++) {
            const bool is_unseen = pair[i][j] == -INFINITY || lse == -INFINITY;
            pair[i][j] = is_unseen ? UNSEEN : attune_softmax_weight(pair[i][j], lse);
        }
        store_line(i, pair[i], local_);
    }
}

/* dS from dP and the tile of P, which it takes the place of. */
FN void store_gradients(const tiles *local_, float pair[OWN][OWN]) {
    const int thread = get_local_id(0);
    FOR_OWN
    for (int i = 0; i < OWN; i++) {
        const int row = element_at(line_of(thread, PAIR_WIDTH), i, ROWS);
        const float rest = local_->pairs[row * PITCH + REST_AT];
        float weight[OWN];
        READ_BLOCK(local_->pairs + row * PITCH + column_of(thread, PAIR_WIDTH) * 4, OWN, KEYS, weight);
        FOR_OWN
        for (int j = 0; j < OWN; j++) {
            /* + 0 takes the sign off a 0. */
            pair[i][j] = is_seen(weight[j]) ? weight[j] * (pair[i][j] + rest) + 0.0f : UNSEEN;
        }
        store_line(i, pair[i], local_);
    }
}

/* ---- Sums, in the workspace ---- */

/* dq of a chunk, of a head's row 0 on: ATTUNE_HEAD_DIM floats for each row of its tiles. */
FN __global float *partial_dq(parameters p, const place *at, attune_i64 chunk, __global uchar *workspace) {
    const attune_i64 head = (chunk * p->batch + at->batch) * p->heads_q + at->head;
    return (__global float *)(workspace + p->partial_dq) + head * p->row_tiles * ROWS * ATTUNE_HEAD_DIM;
}

/* dk of the work-group's tile, and behind it dv. */
FN __global float *partial_dkv(parameters p, __global uchar *workspace) {
    return (__global float *)(workspace + p->partial_dkv) +
           (attune_i64)get_group_id(0) * KEYS * (ATTUNE_HEAD_DIM + ATTUNE_HEAD_DIM_V);
}

FN void clear_dq(parameters p, const place *at, attune_i64 heads, attune_i64 chunk, __global uchar *workspace) {
    __global float *partial = partial_dq(p, at, chunk, workspace);
    const attune_i64 count = heads * p->row_tiles * ROWS * ATTUNE_HEAD_DIM;
    for (attune_i64 n = get_local_id(0) * 4; n < count; n += THREADS * 4) {
        *(__global float4 *)(partial + n) = (float4)0.0f;
    }
}

/* A tile's own sum is made first and then added: one long sum of 2^16 terms would be off by several 1e-6. All are read
 * before the first is written, or each would wait for the one before it. */
FN void add_rows(int first_d, const float part[OWN][ROW_COLUMNS], __global float *partial) {
    const int thread = get_local_id(0);
    float4 sum[OWN][ROW_COLUMNS / 4];
    partial += row_at(thread, 0) * ATTUNE_HEAD_DIM + first_d + column_of(thread, ROW_WIDTH) * 4;
    FOR_OWN
    for (int i = 0; i < OWN; i++) {
        FOR_OWN
        for (int j = 0; j < ROW_COLUMNS / 4; j++) {
            sum[i][j] = *(__global const float4 *)(partial + i * (ROWS / OWN) * ATTUNE_HEAD_DIM + j * (ROW_PART / 2));
        }
    }
    FOR_OWN
    for (int i = 0; i < OWN; i++) {
        FOR_OWN
        for (int j = 0; j < ROW_COLUMNS / 4; j++) {
            *(__global float4 *)(partial + i * (ROWS / OWN) * ATTUNE_HEAD_DIM + j * (ROW_PART / 2)) =
                sum[i][j] + (float4)(part[i][4 * j], part[i][4 * j + 1], part[i][4 * j + 2], part[i][4 * j + 3]);
        }
    }
}

FN int key_at(int thread, int i) {
    return element_at(line_of(thread, KEY_WIDTH), i, KEYS);
}

/* length: of a vector of the sum. */
FN void add_keys(bool is_first, int first_d, int length, const float part[OWN][OWN], __global float *partial) {
    const int thread = get_local_id(0);
    float4 sum[OWN][OWN / 4];
    partial += first_d + column_of(thread, KEY_WIDTH) * 4;
    FOR_OWN
    for (int i = 0; i < OWN; i++) {
        FOR_OWN
        for (int j = 0; j < OWN / 4; j++) {
            sum[i][j] = (float4)0.0f;
        }
    }
    if (!is_first) {
        FOR_OWN
        for (int i = 0; i < OWN; i++) {
            FOR_OWN
            for (int j = 0; j < OWN / 4; j++) {
                sum[i][j] = *(__global const float4 *)(partial + key_at(thread, i) * length + j * (KEY_PART / 2));
            }
        }
    }
    FOR_OWN
    for (int i = 0; i < OWN; i++) {
        FOR_OWN
        for (int j = 0; j < OWN / 4; j++) {
            *(__global float4 *)(partial + key_at(thread, i) * length + j * (KEY_PART / 2)) =
                sum[i][j] + (float4)(part[i][4 * j], part[i][4 * j + 1], part[i][4 * j + 2], part[i][4 * j + 3]);
        }
    }
}

/* dk or dv of a tile, times scale; zeros if it has no sum. */
FN void store_keys(const vectors *to, attune_i64 first_key, float scale, bool has_sum, int length,
                   __global const float *partial) {
    const int thread = get_local_id(0);
#pragma unroll 1
    for (int first_d = 0; first_d < length; first_d += KEY_PART) {
#pragma unroll 1
        for (int n = 0; n < OWN * OWN / 4; n++) {
            const int key = key_at(thread, n / (OWN / 4));
            const int d = first_d + element_at(column_of(thread, KEY_WIDTH), n % (OWN / 4) * 4, KEY_PART);
            const float4 sum = has_sum ? *(__global const float4 *)(partial + key * length + d) : (float4)0.0f;
            store_to(to, (POSITION)first_key + key, d, scale * sum);
        }
    }
}

/* ---- A chunk of keys ---- */

/* Tile number n of a chunk, which may be past the last tile. Chunks take turns, to and fro, so that with a causal mask
 * all have much the same to do. */
FN attune_i64 tile_of(attune_i64 n, attune_i64 chunk, attune_i64 chunks) {
    return n * chunks + (n % 2 == 0 ? chunk : chunks - 1 - chunk);
}

/* P and dV, then dS and dK, then dQ, of a tile of rows by one of keys. The first two are one text, which the device's
 * cache of instructions has room for. */
FN void walk_pair(parameters p, float scale, attune_i64 first_row, attune_i64 first_key, bool is_first,
                  __global float *dkv, const tiles *local_) {
    load_rows(p, first_row, local_);
#pragma unroll 1
    for (int pass = 0; pass < 2; pass++) {
        const int length = pass == 0 ? ATTUNE_HEAD_DIM_V : ATTUNE_HEAD_DIM;
        float pair[OWN][OWN];
        multiply_pairs(pass, (POSITION)first_row, (POSITION)first_key, local_, pair);
        if (pass == 0) {
            scale_pairs(scale, pair);
            if (has_hidden(local_, first_row, first_key)) {
                hide_unseen(local_, (int)first_key, pair);
            }
            store_weights(local_, pair);
        } else {
            store_gradients(local_, pair);
        }
        BARRIER();
#pragma unroll 1
        for (int first_d = 0; first_d < length; first_d += KEY_PART) {
            float part[OWN][OWN];
            multiply_keys(pass, (POSITION)first_row, first_d, local_, part);
            add_keys(is_first, first_d, length, part, dkv + (pass == 0 ? KEYS * ATTUNE_HEAD_DIM : 0));
        }
    }
#pragma unroll 1
    for (int first_d = 0; first_d < ATTUNE_HEAD_DIM; first_d += ROW_PART) {
        float part[OWN][ROW_COLUMNS];
        multiply_rows((POSITION)first_key, first_d, local_, part);
        add_rows(first_d, part, local_->held->dq + first_row * ATTUNE_HEAD_DIM);
    }
}

/* dK = scale dS^T Q and dV = P^T dO, summed over the group's query heads, and what a chunk of keys adds to dQ. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
attune_backward_chunks(__constant const attune_opencl_attention *p, const attune_opencl_run run,
                       __global uchar *workspace, BACKWARD_OPERANDS) {
    LOCAL_TILES();
    const options given = BACKWARD_OPTIONS;
    const attune_i64 group = p->heads_q / p->heads_kv;
    const attune_i64 chunk = get_group_id(0) % p->chunks;
    const attune_i64 batch_head = get_group_id(0) / p->chunks;
    const place at = find_place(p, &given, batch_head / p->heads_kv, batch_head % p->heads_kv * group);
    const attune_interval exist = interval(at.mask.leftpad, at.mask.keys);
    __global float *dkv = partial_dkv(p, workspace + run.workspace);

    clear_dq(p, &at, group, chunk, workspace + run.workspace);
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (attune_i64 n = 0; n * p->chunks < p->key_tiles; n++) {
        const attune_i64 first_key = tile_of(n, chunk, p->chunks) * KEYS;
        const attune_interval keys = attune_interval_cut(first_key, first_key + KEYS, exist.begin, exist.end);
        const attune_interval rows =
            keys.begin < keys.end ? attune_mask_rows(at.mask, keys.begin, keys.end - keys.begin) : interval(0, 0);
        const attune_interval row_tiles = attune_interval_tiles(rows, ROWS);
        for (attune_i64 head = 0; head < group; head++) {
            if (get_local_id(0) == 0) {
                place of_head = at;
                of_head.head += head;
                local_.held->at = of_head;
                local_.held->of_rows[0] = q_vectors(p, &given, &of_head, OPERAND(0, q));
                local_.held->of_rows[1] = dout_vectors(p, &of_head, OPERAND(5, dout));
                local_.held->of_keys[0] = k_vectors(p, &given, &of_head, OPERAND(1, k), exist);
                local_.held->of_keys[1] = v_vectors(p, &given, &of_head, OPERAND(2, v), exist);
                local_.held->lse = rows_of(&of_head, OPERAND(4, lse), &p->lse);
                local_.held->rests = rests_of(p, &of_head, workspace + run.workspace);
                local_.held->dq = partial_dq(p, &of_head, chunk, workspace + run.workspace);
            }
            BARRIER();
            for (attune_i64 tile = row_tiles.begin; tile < row_tiles.end; tile++) {
                walk_pair(p, run.scale, tile * ROWS, first_key, head == 0 && tile == row_tiles.begin, dkv, &local_);
            }
            BARRIER();
        }
        const bool has_sum = row_tiles.begin < row_tiles.end;
        const vectors to_dk = key_vectors(&at, OPERAND(7, out), p->dk_dtype, &p->dk, p->head_dim, keys);
        const vectors to_dv = key_vectors(&at, OPERAND(8, out_v), p->dv_dtype, &p->dv, p->head_dim_v, keys);
        store_keys(&to_dk, first_key, run.scale, has_sum, ATTUNE_HEAD_DIM, dkv);
        store_keys(&to_dv, first_key, 1.0f, has_sum, ATTUNE_HEAD_DIM_V, dkv + KEYS * ATTUNE_HEAD_DIM);
    }
}

/* dQ = scale times the sum over the chunks: four elements to a work-item. */
__kernel void attune_backward_chunks_dq(__constant const attune_opencl_attention *p, const attune_opencl_run run,
                                        __global uchar *workspace, BACKWARD_OPERANDS) {
    const options given = BACKWARD_OPTIONS;
    const attune_i64 item = get_global_id(0);
    const int d = item % (ATTUNE_HEAD_DIM / 4) * 4;
    const attune_i64 row = item / (ATTUNE_HEAD_DIM / 4) % p->rows;
    const attune_i64 head = item / (ATTUNE_HEAD_DIM / 4) / p->rows % p->heads_q;
    const attune_i64 batch = item / (ATTUNE_HEAD_DIM / 4) / p->rows / p->heads_q;
    if (batch >= p->batch) {
        return;
    }
    const place at = find_place(p, &given, batch, head);
    const vectors to_dq = row_vectors(p, &at, OPERAND(7, out), p->dq_dtype, &p->dq, p->head_dim);
    float4 sum = (float4)0.0f;
    for (attune_i64 chunk = 0; chunk < p->chunks; chunk++) {
        sum += *(__global const float4 *)(partial_dq(p, &at, chunk, workspace + run.workspace) + row * ATTUNE_HEAD_DIM +
                                          d);
    }
    store_to(&to_dq, (POSITION)row, d, run.scale * sum);
}
