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
#    define STORAGE                 half
#    define LOAD(array, at)         vload_half(at, array)
#    define LOAD4(array, at)        vload_half4(0, (array) + (at))
#    define STORE(value, at, array) vstore_half(value, at, array)
#else
#    define STORAGE                 float
#    define LOAD(array, at)         ((array)[at])
#    define LOAD4(array, at)        vload4(0, (array) + (at))
#    define STORE(value, at, array) ((array)[at] = (value))
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
#    define TILE_DEPTH  16
#    define THREADS     256
#    define OWN_ROWS    8
#    define OWN_COLUMNS (TILE_COLUMNS / 16)

/* Four neighbours of a matrix into a tile [depth][extent]: along the depth if the matrix has that axis last. */
void load_tile(__local float *tile, int extent, __global const STORAGE *matrix, long stride, bool depth_is_last,
               int depth, int item) {
    for (int piece = item; piece < extent * TILE_DEPTH / 4; piece += THREADS) {
        if (depth_is_last) {
            const int place = piece / (TILE_DEPTH / 4);
            const int at = piece % (TILE_DEPTH / 4) * 4;
            const float4 four = LOAD4(matrix, place * stride + depth + at);
            tile[(at + 0) * extent + place] = four.s0;
            tile[(at + 1) * extent + place] = four.s1;
            tile[(at + 2) * extent + place] = four.s2;
            tile[(at + 3) * extent + place] = four.s3;
        } else {
            const int at = piece / (extent / 4);
            const int place = piece % (extent / 4) * 4;
            vstore4(LOAD4(matrix, (depth + at) * stride + place), 0, tile + at * extent + place);
        }
    }
}

/* c = alpha * a b for each head of a batch; strides in elements, of rows, of heads and of batches. */
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
matrix_product(__global const STORAGE *a, long a_row, long a_head, long a_batch, __global const STORAGE *b, long b_row,
               long b_head, long b_batch, __global STORAGE *c, long c_row, long c_head, long c_batch, int depth,
               int heads, float alpha) {
    __local float a_tile[TILE_DEPTH * TILE_ROWS];
    __local float b_tile[TILE_DEPTH * TILE_COLUMNS];
    const int item = (int)get_local_id(0);
    const long head = get_group_id(2) % heads;
    const long batch = get_group_id(2) / heads;
    const long row = get_group_id(1) * TILE_ROWS;
    const long column = get_group_id(0) * TILE_COLUMNS;
    const int own_row = item / 16 * 4;
    const int own_column = item % 16 * 4;
    float sum[OWN_ROWS][OWN_COLUMNS] = {{0.0f}};

    a += batch * a_batch + head * a_head + row * (A_IS_TRANSPOSED ? 1 : a_row);
    b += batch * b_batch + head * b_head + column * (B_IS_TRANSPOSED ? b_row : 1);
    for (int at = 0; at < depth; at += TILE_DEPTH) {
        load_tile(a_tile, TILE_ROWS, a, a_row, !A_IS_TRANSPOSED, at, item);
        load_tile(b_tile, TILE_COLUMNS, b, b_row, B_IS_TRANSPOSED, at, item);
        barrier(CLK_LOCAL_MEM_FENCE);
#    pragma unroll
        for (int k = 0; k < TILE_DEPTH; k++) {
            float left[OWN_ROWS];
            float right[OWN_COLUMNS];
            vstore4(vload4(0, a_tile + k * TILE_ROWS + own_row), 0, left);
            vstore4(vload4(0, a_tile + k * TILE_ROWS + own_row + 64), 1, left);
            for (int part = 0; part < OWN_COLUMNS / 4; part++) {
                vstore4(vload4(0, b_tile + k * TILE_COLUMNS + own_column + 64 * part), part, right);
            }
            for (int i = 0; i < OWN_ROWS; i++) {
                for (int j = 0; j < OWN_COLUMNS; j++) {
                    sum[i][j] = fma(left[i], right[j], sum[i][j]);
                }
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c += batch * c_batch + head * c_head;
    for (int i = 0; i < OWN_ROWS; i++) {
        for (int j = 0; j < OWN_COLUMNS; j++) {
            const long to_row = row + own_row + i % 4 + i / 4 * 64;
            STORE(alpha * sum[i][j], to_row * c_row + column + own_column + j % 4 + j / 4 * 64, c);
        }
    }
}

#endif

/* ---- Rows ---- */

#define ROW_THREADS 256

float reduce(__local float *shared, float own, bool is_sum) {
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
