/*
 * What the OpenCL kernels are measured beside: a loop of multiply-adds, which shows what a device can do, and attention
 * that is not fused: a tiled matrix product, softmax by rows, and their gradients, with scores in memory between.
 *
 * STORAGE is float or half, of all tensors. A matrix product is compiled with TILE_COLUMNS, A_IS_TRANSPOSED (a is K x
 * M) and B_IS_TRANSPOSED (b is N x K). Extents are multiples of the tiles: this is a yardstick, no library.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#if STORAGE_IS_HALF
#    define STORAGE                  half
#    define LOAD(array, at)          vload_half(at, array)
#    define LOAD4(array, at)         vloada_half4(0, (array) + (at))
#    define STORE(value, at, array)  vstore_half(value, at, array)
#    define STORE4(value, at, array) vstorea_half4(value, 0, (array) + (at))
#else
#    define STORAGE                  float
#    define LOAD(array, at)          ((array)[at])
#    define LOAD4(array, at)         (*(__global const float4 *)((array) + (at)))
#    define STORE(value, at, array)  ((array)[at] = (value))
#    define STORE4(value, at, array) (*(__global float4 *)((array) + (at)) = (value))
#endif

/* ---- Multiply-adds ---- */

#define CHAINS 16

/* count: of steps, each with CHAINS multiply-adds of a work-item. */
__kernel void fma_loop(__global float *out, int count, float factor, float term) {
    float sum[CHAINS];
    for (int chain = 0; chain < CHAINS; chain++) {
        sum[chain] = (float)(get_local_id(0) + chain);
    }
    for (int step = 0; step < count; step++) {
#pragma unroll
        for (int chain = 0; chain < CHAINS; chain++) {
            sum[chain] = fma(sum[chain], factor, term);
        }
    }
    float total = 0.0f;
    for (int chain = 0; chain < CHAINS; chain++) {
        total += sum[chain];
    }
    if (total == 12345.0f) { /* never, but no compiler knows */
        out[get_global_id(0)] = total;
    }
}

/* ---- Matrix product ---- */

#ifdef TILE_COLUMNS

#    define TILE_ROWS   128
#    define THREADS     256
#    define OWN_ROWS    8
#    define OWN_COLUMNS (TILE_COLUMNS / 16)
#    define PADDING     4 /* of a tile's lines, against conflicts of banks */

/* Fours of a tile that a work-item carries. */
#    define FOURS(extent) (((extent)*TILE_DEPTH / 4 + THREADS - 1) / THREADS)

/* Where a work-item's four of a tile is: along the depth if the matrix has that axis last. */
static inline int four_depth(int piece, int extent, bool depth_is_last) {
    return depth_is_last ? piece % (TILE_DEPTH / 4) * 4 : piece / (extent / 4);
}

static inline int four_place(int piece, int extent, bool depth_is_last) {
    return depth_is_last ? piece / (TILE_DEPTH / 4) : piece % (extent / 4) * 4;
}

/* From memory, ahead of time. */
static inline void fetch(float4 *out, int extent, __global const STORAGE *matrix, long stride, bool depth_is_last,
                         int depth, int item) {
#    pragma unroll
    for (int own = 0; own < FOURS(extent); own++) {
        const int piece = item + own * THREADS;
        if (piece < extent * TILE_DEPTH / 4) {
            const int at = depth + four_depth(piece, extent, depth_is_last);
            const int place = four_place(piece, extent, depth_is_last);
            out[own] = LOAD4(matrix, depth_is_last ? place * stride + at : at * stride + place);
        }
    }
}

/* Into a tile [depth][extent]. */
static inline void put(__local float *tile, const float4 *fours, int extent, bool depth_is_last, int item) {
    const int line = extent + PADDING;
#    pragma unroll
    for (int own = 0; own < FOURS(extent); own++) {
        const int piece = item + own * THREADS;
        const int at = four_depth(piece, extent, depth_is_last);
        const int place = four_place(piece, extent, depth_is_last);
        if (piece < extent * TILE_DEPTH / 4) {
            if (depth_is_last) {
                tile[(at + 0) * line + place] = fours[own].s0;
                tile[(at + 1) * line + place] = fours[own].s1;
                tile[(at + 2) * line + place] = fours[own].s2;
                tile[(at + 3) * line + place] = fours[own].s3;
            } else {
                *(__local float4 *)(tile + at * line + place) = fours[own];
            }
        }
    }
}

/* c = alpha * a b for each head of a batch; strides in elements, of rows, of heads and of batches. While one pair of
 * tiles is multiplied, the next is on its way. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
matrix_product(__global const STORAGE *a, long a_row, long a_head, long a_batch, __global const STORAGE *b, long b_row,
               long b_head, long b_batch, __global STORAGE *c, long c_row, long c_head, long c_batch, int depth,
               int heads, float alpha) {
    __local float a_tile[2][TILE_DEPTH * (TILE_ROWS + PADDING)] __attribute__((aligned(16)));
    __local float b_tile[2][TILE_DEPTH * (TILE_COLUMNS + PADDING)] __attribute__((aligned(16)));
    const int item = (int)get_local_id(0);
    const long head = get_group_id(2) % heads;
    const long batch = get_group_id(2) / heads;
    const long row = get_group_id(1) * TILE_ROWS;
    const long column = get_group_id(0) * TILE_COLUMNS;
    const int own_row = item / 16 * 4;
    const int own_column = item % 16 * 4;
    float4 a_next[FOURS(TILE_ROWS)];
    float4 b_next[FOURS(TILE_COLUMNS)];
    float4 sum[OWN_ROWS][OWN_COLUMNS / 4];

    a += batch * a_batch + head * a_head + row * (A_IS_TRANSPOSED ? 1 : a_row);
    b += batch * b_batch + head * b_head + column * (B_IS_TRANSPOSED ? b_row : 1);
#    pragma unroll
    for (int i = 0; i < OWN_ROWS; i++) {
#    pragma unroll
        for (int j = 0; j < OWN_COLUMNS / 4; j++) {
            sum[i][j] = 0.0f;
        }
    }
    fetch(a_next, TILE_ROWS, a, a_row, !A_IS_TRANSPOSED, 0, item);
    fetch(b_next, TILE_COLUMNS, b, b_row, B_IS_TRANSPOSED, 0, item);
    put(a_tile[0], a_next, TILE_ROWS, !A_IS_TRANSPOSED, item);
    put(b_tile[0], b_next, TILE_COLUMNS, B_IS_TRANSPOSED, item);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int at = 0; at < depth; at += TILE_DEPTH) {
        const int now = at / TILE_DEPTH % 2;
        const bool has_next = at + TILE_DEPTH < depth;
        if (has_next) {
            fetch(a_next, TILE_ROWS, a, a_row, !A_IS_TRANSPOSED, at + TILE_DEPTH, item);
            fetch(b_next, TILE_COLUMNS, b, b_row, B_IS_TRANSPOSED, at + TILE_DEPTH, item);
        }
#    pragma unroll
        for (int k = 0; k < TILE_DEPTH; k++) {
            __local const float *a_line = a_tile[now] + k * (TILE_ROWS + PADDING) + own_row;
            __local const float *b_line = b_tile[now] + k * (TILE_COLUMNS + PADDING) + own_column;
            float left[OWN_ROWS];
            float4 right[OWN_COLUMNS / 4];
            vstore4(*(__local const float4 *)a_line, 0, left);
            vstore4(*(__local const float4 *)(a_line + 64), 1, left);
#    pragma unroll
            for (int j = 0; j < OWN_COLUMNS / 4; j++) {
                right[j] = *(__local const float4 *)(b_line + 64 * j);
            }
#    pragma unroll
            for (int i = 0; i < OWN_ROWS; i++) {
#    pragma unroll
                for (int j = 0; j < OWN_COLUMNS / 4; j++) {
                    sum[i][j] = fma((float4)(left[i]), right[j], sum[i][j]);
                }
            }
        }
        if (has_next) {
            put(a_tile[!now], a_next, TILE_ROWS, !A_IS_TRANSPOSED, item);
            put(b_tile[!now], b_next, TILE_COLUMNS, B_IS_TRANSPOSED, item);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c += batch * c_batch + head * c_head;
#    pragma unroll
    for (int i = 0; i < OWN_ROWS; i++) {
#    pragma unroll
        for (int j = 0; j < OWN_COLUMNS / 4; j++) {
            const long to = (row + own_row + i % 4 + i / 4 * 64) * c_row + column + own_column + 64 * j;
            STORE4(alpha * sum[i][j], to, c);
        }
    }
}

#endif

/* ---- Rows ---- */

#define ROW_THREADS 256

static inline float reduce(__local float *shared, float own, bool is_sum) {
    const int item = (int)get_local_id(0);
    shared[item] = own;
    for (int half_size = ROW_THREADS / 2; half_size > 0; half_size /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < half_size) {
            const float other = shared[item + half_size];
            shared[item] = is_sum ? shared[item] + other : fmax(shared[item], other);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    own = shared[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return own;
}

/* Softmax of each row in place; a work-group for each. causal: a row sees the keys up to its own number. */
__kernel __attribute__((reqd_work_group_size(ROW_THREADS, 1, 1))) void softmax_rows(__global STORAGE *score,
                                                                                    int columns, int rows, int causal) {
    __local float shared[ROW_THREADS];
    __global STORAGE *line = score + (long)get_group_id(0) * columns;
    const int row = (int)(get_group_id(0) % rows);
    const int seen = causal ? row + 1 : columns;
    float most = -INFINITY;
    float sum = 0.0f;
    for (int column = (int)get_local_id(0); column < seen; column += ROW_THREADS) {
        most = fmax(most, LOAD(line, column));
    }
    most = reduce(shared, most, false);
    for (int column = (int)get_local_id(0); column < seen; column += ROW_THREADS) {
        sum += native_exp(LOAD(line, column) - most);
    }
    const float inverse = 1.0f / reduce(shared, sum, true);
    for (int column = (int)get_local_id(0); column < columns; column += ROW_THREADS) {
        const float weight = column < seen ? native_exp(LOAD(line, column) - most) * inverse : 0.0f;
        STORE(weight, column, line);
    }
}

/* dS = P (dP - sum of P dP) * scale, in dP's place. */
__kernel __attribute__((reqd_work_group_size(ROW_THREADS, 1, 1))) void
softmax_gradient(__global const STORAGE *weight, __global STORAGE *gradient, int columns, float scale) {
    __local float shared[ROW_THREADS];
    weight += (long)get_group_id(0) * columns;
    gradient += (long)get_group_id(0) * columns;
    float sum = 0.0f;
    for (int column = (int)get_local_id(0); column < columns; column += ROW_THREADS) {
        sum += LOAD(weight, column) * LOAD(gradient, column);
    }
    sum = reduce(shared, sum, true);
    for (int column = (int)get_local_id(0); column < columns; column += ROW_THREADS) {
        STORE(LOAD(weight, column) * (LOAD(gradient, column) - sum) * scale, column, gradient);
    }
}
