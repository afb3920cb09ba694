/*
 * The shape of bwd_chunks.cl's work-groups, for C and OpenCL C alike.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_OPENCL_GENERIC_BWD_CHUNKS_H
#define ATTUNE_OPENCL_GENERIC_BWD_CHUNKS_H

#define ATTUNE_CHUNK_ROWS     64 /* of a tile */
#define ATTUNE_CHUNK_KEYS     128
#define ATTUNE_CHUNK_THREADS  128
#define ATTUNE_CHUNK_SLICE    16 /* elements of a vector, rows or keys that are in local memory at once */
#define ATTUNE_CHUNK_HEAD_DIM 64 /* what head_dim and head_dim_v are rounded up to a multiple of */

/* Local memory, in floats: slices of rows and of keys, by depth, with eight floats behind each four lines; then a tile
 * of pairs, a line for each row with four floats behind it. */
#define ATTUNE_CHUNK_SLICE_OF(count) (ATTUNE_CHUNK_SLICE * (count) + ATTUNE_CHUNK_SLICE / 4 * 8)
#define ATTUNE_CHUNK_LINE            (ATTUNE_CHUNK_KEYS + 4)
#define ATTUNE_CHUNK_FLOATS                                                                                            \
    (ATTUNE_CHUNK_SLICE_OF(ATTUNE_CHUNK_ROWS) + ATTUNE_CHUNK_SLICE_OF(ATTUNE_CHUNK_KEYS) +                             \
     ATTUNE_CHUNK_ROWS * ATTUNE_CHUNK_LINE)
#define ATTUNE_CHUNK_INTS  (2 * ATTUNE_CHUNK_ROWS + 2)
#define ATTUNE_CHUNK_FRAME 768 /* bytes; of struct frame at most */

#endif
