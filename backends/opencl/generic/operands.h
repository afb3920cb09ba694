/*
 * The tensors that kernels are called with, in the order of the host's lists, generic/operands.c.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_OPERANDS_H
#define ATTUNE_OPENCL_GENERIC_OPERANDS_H

/* Where operand number n of the kernel begins; NULL if it is absent. */
#define OPERAND(n, pointer) ((pointer) == 0 ? 0 : (pointer) + run.offset[n])

#if ATTUNE_GENERAL
#    define OPTION_OPERANDS                                                                                            \
        __global uchar *sink, __global uchar *bias, __global uchar *mask, __global uchar *alibi_slopes,                \
            __global uchar *cu_seqlens_q, __global uchar *cu_seqlens_k, __global uchar *seqused_q,                     \
            __global uchar *seqused_k, __global uchar *leftpad_k, __global uchar *block_row_ptr,                       \
            __global uchar *block_col_idx, __global uchar *descale_q, __global uchar *descale_k,                       \
            __global uchar *descale_v, __global uchar *dropout_seed, __global uchar *dropout_offset,                   \
            __global uchar *block_table, __global uchar *probs
/* first: the number of the first of them. */
#    define OPTIONS_FROM(first)                                                                                        \
        {                                                                                                              \
            .sink = (__global const float *)OPERAND((first) + 0, sink), .bias = OPERAND((first) + 1, bias),            \
            .mask = OPERAND((first) + 2, mask),                                                                        \
            .alibi_slopes = (__global const float *)OPERAND((first) + 3, alibi_slopes),                                \
            .cu_seqlens_q = (__global const int *)OPERAND((first) + 4, cu_seqlens_q),                                  \
            .cu_seqlens_k = (__global const int *)OPERAND((first) + 5, cu_seqlens_k),                                  \
            .seqused_q = (__global const int *)OPERAND((first) + 6, seqused_q),                                        \
            .seqused_k = (__global const int *)OPERAND((first) + 7, seqused_k),                                        \
            .leftpad_k = (__global const int *)OPERAND((first) + 8, leftpad_k),                                        \
            .block_row_ptr = (__global const int *)OPERAND((first) + 9, block_row_ptr),                                \
            .block_col_idx = (__global const int *)OPERAND((first) + 10, block_col_idx),                               \
            .descale_q = (__global const float *)OPERAND((first) + 11, descale_q),                                     \
            .descale_k = (__global const float *)OPERAND((first) + 12, descale_k),                                     \
            .descale_v = (__global const float *)OPERAND((first) + 13, descale_v),                                     \
            .dropout_seed = (__global const ulong *)OPERAND((first) + 14, dropout_seed),                               \
            .dropout_offset = (__global const uint *)OPERAND((first) + 15, dropout_offset),                            \
            .block_table = (__global const int *)OPERAND((first) + 16, block_table),                                   \
            .probs = (__global float *)OPERAND((first) + 17, probs),                                                   \
        }
#else
#    define OPTION_OPERANDS __global uchar *sink
#    define OPTIONS_FROM(first)                                                                                        \
        { .sink = (__global const float *)OPERAND((first) + 0, sink) }
#endif

#define FORWARD_OPERANDS                                                                                               \
    __global uchar *q, __global uchar *k, __global uchar *v, __global uchar *o, __global uchar *lse, OPTION_OPERANDS
#define FORWARD_OPTIONS OPTIONS_FROM(5)

#endif
