/*
 * Quantisation to e4m3: docs/semantics.md, "FP8". Each cell's largest is found, then those of a descale are put
 * together, then each cell is stored. ATTUNE_DTYPE: of x, as attune_dtype.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/opencl/generic/divide.h"
#include "backends/opencl/generic/quantize.h"
#include "backends/opencl/run.h"
#include "core/portable/convert.h"

#define E4M3_LARGEST 448.0f

typedef __constant const attune_opencl_quantize *shape_pointer;

/* ---- Elements ---- */

#if ATTUNE_DTYPE == 1
typedef float storage;
#    define attune_load(code) (code)
#elif ATTUNE_DTYPE == 2
typedef ushort storage;
#    define attune_load attune_f32_from_f16
#else
typedef ushort storage;
#    define attune_load attune_f32_from_bf16
#endif

typedef struct cell {
    long batch;
    long group;
    long block;
    long elements; /* position slowest, then head, then d */
} cell;

ATTUNE_FN cell cell_at(shape_pointer shape, long index) {
    cell at;
    at.block = index % shape->blocks;
    at.group = index / shape->blocks % shape->groups;
    at.batch = index / shape->blocks / shape->groups;
    const long positions =
        min((long)ATTUNE_OPENCL_QUANTIZE_POSITIONS, shape->positions - at.block * ATTUNE_OPENCL_QUANTIZE_POSITIONS);
    at.elements = positions * shape->heads * shape->head_dim;
    return at;
}

/* Where a cell's element is in a tensor of these strides. */
ATTUNE_FN long place_of(shape_pointer shape, __constant const attune_i64 *stride, cell at, long element) {
    const long d = element % shape->head_dim;
    const long head = element / shape->head_dim % shape->heads;
    const long position = element / shape->head_dim / shape->heads;
    return at.batch * stride[0] + (at.block * ATTUNE_OPENCL_QUANTIZE_POSITIONS + position) * stride[1] +
           (at.group * shape->heads + head) * stride[2] + d;
}

/* The descale that serves a cell; an axis of 1 serves all. */
ATTUNE_FN long descale_place(shape_pointer shape, cell at) {
    const long batch = shape->descale_batches == 1 ? 0 : at.batch;
    const long block = shape->descale_blocks == 1 ? 0 : at.block;
    return batch * shape->descale_stride[0] + at.group * shape->descale_stride[1] + block * shape->descale_stride[2];
}

/* ---- Kernels ---- */

/* A work-group for each cell, or for every so many. Numbers that are not finite are passed over. */
__kernel void quantize_largest(shape_pointer shape, attune_opencl_run run, __global uchar *workspace,
                               __global uchar *x_object, __global uchar *y_object, __global uchar *descale_object) {
    __local float found[ATTUNE_OPENCL_QUANTIZE_THREADS];
    __global const storage *x = (__global const storage *)(x_object + run.offset[0]);
    __global float *largest = (__global float *)(workspace + run.workspace + shape->largest);
    const long cells = shape->batches * shape->groups * shape->blocks;
    const int item = (int)get_local_id(0);
    for (long index = get_group_id(0); index < cells; index += get_num_groups(0)) {
        const cell at = cell_at(shape, index);
        float own = 0.0f;
        for (long element = item; element < at.elements; element += ATTUNE_OPENCL_QUANTIZE_THREADS) {
            const float magnitude = fabs(attune_load(x[place_of(shape, shape->x_stride, at, element)]));
            own = magnitude > own && magnitude < INFINITY ? magnitude : own;
        }
        found[item] = own;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item == 0) {
            for (int other = 1; other < ATTUNE_OPENCL_QUANTIZE_THREADS; other++) {
                own = fmax(own, found[other]);
            }
            largest[index] = own;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* A work-item for each descale: the largest of its cells / 448, or 1 where there is nothing but 0. */
__kernel void quantize_descale(shape_pointer shape, attune_opencl_run run, __global uchar *workspace,
                               __global uchar *x_object, __global uchar *y_object, __global uchar *descale_object) {
    __global float *descale = (__global float *)(descale_object + run.offset[2]);
    __global const float *largest = (__global const float *)(workspace + run.workspace + shape->largest);
    const long cells = shape->batches * shape->groups * shape->blocks;
    const long descales = shape->descale_batches * shape->groups * shape->descale_blocks;
    for (long index = get_global_id(0); index < descales; index += get_global_size(0)) {
        const long block = index % shape->descale_blocks;
        const long group = index / shape->descale_blocks % shape->groups;
        const long batch = index / shape->descale_blocks / shape->groups;
        const long place =
            batch * shape->descale_stride[0] + group * shape->descale_stride[1] + block * shape->descale_stride[2];
        float most = 0.0f;
        for (long cell_index = 0; cell_index < cells; cell_index++) {
            const cell at = cell_at(shape, cell_index);
            if (at.group == group && descale_place(shape, at) == place) {
                most = fmax(most, largest[cell_index]);
            }
        }
        descale[place] = most == 0.0f ? 1.0f : divide(most, E4M3_LARGEST);
    }
}

__kernel void quantize_store(shape_pointer shape, attune_opencl_run run, __global uchar *workspace,
                             __global uchar *x_object, __global uchar *y_object, __global uchar *descale_object) {
    __global const storage *x = (__global const storage *)(x_object + run.offset[0]);
    __global uchar *y = y_object + run.offset[1];
    __global const float *descale = (__global const float *)(descale_object + run.offset[2]);
    const long cells = shape->batches * shape->groups * shape->blocks;
    for (long index = get_group_id(0); index < cells; index += get_num_groups(0)) {
        const cell at = cell_at(shape, index);
        const float divisor = descale[descale_place(shape, at)];
        for (long element = get_local_id(0); element < at.elements; element += ATTUNE_OPENCL_QUANTIZE_THREADS) {
            const float value = attune_load(x[place_of(shape, shape->x_stride, at, element)]);
            y[place_of(shape, shape->y_stride, at, element)] =
                attune_e4m3_from_f32(divisor == 0.0f ? 0.0f : divide(value, divisor));
        }
    }
}
