/*
 * The merge of (o, lse) states, part by part in index order: attune_merge. Its image has the merge of splits as well.
 *
 * A work-group has a row of one head; its warps share the columns. Each warp weighs the parts anew, four to a lane.
 * Source: arXiv 2112.05682, section 3.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "backends/cuda/sm80/merge.h"

#include "backends/cuda/sm80/element.h"
#include "backends/cuda/sm80/merge_splits_row.h"
#include "backends/cuda/sm80/warp.h"
#include "core/portable/softmax.h"

namespace {

constexpr int WARPS = ATTUNE_CUDA_MERGE_THREADS / LANES;
constexpr int PARTS_OF_LANE = ATTUNE_MERGE_PARTS_MAX / LANES;
static_assert(PARTS_OF_LANE * LANES == ATTUNE_MERGE_PARTS_MAX, "a lane weighs the same number of parts as any other");

constexpr float EMPTY = -1.0f; /* the weight of a part without a key, which is passed over, whatever its o holds */

struct row_of_head {
    int64_t batch, row, head;
};

__device__ attune_softmax load_state(const attune_cuda_merge_params &p, int part, int64_t index) {
    return attune_softmax_from_logit(static_cast<const float *>(p.part_lse[part])[index]);
}

/* Weights of this lane's parts, relative to the state that is returned. */
__device__ attune_softmax weigh(const attune_cuda_merge_params &p, const row_of_head &at, float weight[PARTS_OF_LANE]) {
    const int64_t index =
        at.batch * p.part_lse_stride[0] + at.head * p.part_lse_stride[1] + at.row * p.part_lse_stride[2];
    attune_softmax part_state[PARTS_OF_LANE];
    attune_softmax whole = attune_softmax_empty();
#pragma unroll
    for (int k = 0; k < PARTS_OF_LANE; k++) {
        const int part = k * LANES + threadIdx.x % LANES;
        part_state[k] = part < p.parts ? load_state(p, part, index) : attune_softmax_empty();
        whole.max = fmaxf(whole.max, part_state[k].max);
    }
    whole.max = warp_max(whole.max);
    const float base = attune_softmax_base(whole.max);
#pragma unroll
    for (int k = 0; k < PARTS_OF_LANE; k++) {
        const float raised = attune_softmax_weight(part_state[k].max, base);
        whole.sum += part_state[k].sum * raised;
        weight[k] = part_state[k].sum == 0.0f ? EMPTY : raised;
    }
    whole.sum = warp_sum(whole.sum);
    return whole;
}

/* The sum over parts of one column. It begins at -0, which adding leaves every first term as it is: with one part that
 * is not empty, o is that part's, bit for bit. */
template <typename T>
__device__ float add_parts(const attune_cuda_merge_params &p, int64_t index, bool has_column,
                           const float weight[PARTS_OF_LANE]) {
    float sum = -0.0f;
#pragma unroll
    for (int k = 0; k < PARTS_OF_LANE; k++) {
        const int count = p.parts - k * LANES < LANES ? p.parts - k * LANES : LANES;
#pragma unroll 8
        for (int n = 0; n < count; n++) {
            const float of_part = __shfl_sync(ALL_LANES, weight[k], n);
            const bool counts = has_column && of_part != EMPTY;
            const float x = counts ? value(static_cast<const T *>(p.part_o[k * LANES + n])[index]) : -0.0f;
            sum = fmaf(counts ? of_part : 0.0f, x, sum);
        }
    }
    return sum;
}

template <typename T> __device__ void merge_row(const attune_cuda_merge_params &p, const row_of_head &at) {
    const int lane = threadIdx.x % LANES;
    const int64_t part_row = at.batch * p.part_o_stride[0] + at.row * p.part_o_stride[1] + at.head * p.part_o_stride[2];
    float weight[PARTS_OF_LANE];
    const attune_softmax_result result = attune_softmax_finish(weigh(p, at, weight));
    __syncthreads(); /* lse may be a part's own */
    if (p.lse.data != nullptr && threadIdx.x == 0) {
        static_cast<float *>(p.lse.data)[offset(p.lse, at.batch, at.head, at.row)] = result.lse;
    }
    for (int first = threadIdx.x / LANES * LANES; first < p.head_dim_v; first += WARPS * LANES) {
        const int column = first + lane;
        const bool has_column = column < p.head_dim_v;
        const float sum = add_parts<T>(p, part_row + column * p.part_o_stride[3], has_column, weight);
        if (has_column) {
            store_as(p.o.data, offset(p.o, at.batch, at.row, at.head, column), p.o_dtype,
                     result.inverse == 0.0f ? 0.0f : sum * result.inverse);
        }
    }
}

} // namespace

/* Work-groups go round, so that any number of rows fits a launch. */
extern "C" __global__ void __launch_bounds__(WARPS *LANES, 8)
    ATTUNE_SYMBOL(const __grid_constant__ attune_cuda_merge_params p) {
    for (int64_t unit = blockIdx.x; unit < p.batch * p.rows * p.heads; unit += gridDim.x) {
        const row_of_head at = {unit / p.heads / p.rows, unit / p.heads % p.rows, unit % p.heads};
        if (p.part_dtype == ATTUNE_DTYPE_F16) {
            merge_row<f16>(p, at);
        } else if (p.part_dtype == ATTUNE_DTYPE_BF16) {
            merge_row<bf16>(p, at);
        } else {
            merge_row<f32>(p, at);
        }
    }
}

/* ---- Of splits ---- */

#define SPLITS_OF(symbol)     symbol##_splits
#define SPLITS_SYMBOL(symbol) SPLITS_OF(symbol)
#define ATTUNE_SYMBOL_BESIDE  SPLITS_SYMBOL(ATTUNE_SYMBOL)

extern "C" __global__ void __launch_bounds__(SPLIT_WARPS *LANES, 8)
    ATTUNE_SYMBOL_BESIDE(const __grid_constant__ attune_cuda_merge_splits_params p) {
    extern __shared__ float4 shared_memory[];
    merge_splits_rows(p, reinterpret_cast<warp_splits *>(shared_memory));
}
