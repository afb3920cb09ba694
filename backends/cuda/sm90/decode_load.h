/*
 * The warp that copies K and V to the ring, as far ahead as that has room, across tiles.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_DECODE_LOAD_H
#define ATTUNE_CUDA_SM90_DECODE_LOAD_H

#include "backends/cuda/sm80/decode_tile.h"
#include "backends/cuda/sm90/copy.h"
#include "backends/cuda/sm90/decode_row.h"

namespace {

/* The stages of a tile's keys, which begin at multiples of a stage. */
INLINE int first_stage_key(const tile &in) {
    return in.begin / TILE_KEYS * TILE_KEYS;
}

INLINE int count_stages(const tile &in) {
    return in.end > in.begin ? (in.end - first_stage_key(in) + TILE_KEYS - 1) / TILE_KEYS : 0;
}

constexpr int NO_PAGE = -1;

/* Where a box of keys lies: a page, or none, and the key in it. */
struct box_place {
    int page, key;
};

/* Each lane copies one box of a stage at most: of K or of V a panel of columns, and some keys. */
struct loader {
    static constexpr int BOXES = 2 * PANELS; /* of the same keys */
    const attune_sm90_decode_params &p;
    const int lane = threadIdx.x % LANES;
    const int panel = lane % PANELS;
    const bool is_v = lane / PANELS % 2 != 0;
    const int runs = TILE_KEYS / p.box_keys; /* of keys in a stage */
    const int run = lane / BOXES;            /* this lane's */
    uint64_t read_once;
    ring<STAGES> stages;

    INLINE explicit loader(const attune_sm90_decode_params &params) : p(params) {
        asm volatile("prefetch.tensormap [%0];" ::"l"(lane == 0 ? &p.k : &p.v));
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(read_once));
    }

    /* Of the run of keys that begins at a key. Nothing is read of where no row sees a key, entries of the table
     * neither: what then is in shared memory counts no more than keys of others that are copied with this tile's. */
    INLINE box_place find_box(const tile &in, int key) const {
        const attune_cuda_forward_params &f = p.decode.forward;
        if (key + p.box_keys <= in.begin || key >= in.end) {
            return {NO_PAGE, 0};
        }
        if (f.page_size == 0) {
            return {in.batch, in.key_begin + key};
        }
        const int page_size = static_cast<int>(f.page_size);
        const int column = key / page_size;
        const int32_t *table = static_cast<const int32_t *>(f.block_table.data) + in.batch * f.block_table.stride[0];
        return {table[column * f.block_table.stride[1]], key - column * page_size};
    }

    INLINE void copy(const tile &in, const box_place &box) {
        const bool is_there = run < runs && box.page != NO_PAGE;
        const int boxes = __popc(__ballot_sync(ALL_LANES, is_there));
        const uint32_t full = barrier_address(FULL, stages.buffer());
        mbarrier_wait(barrier_address(EMPTY, stages.buffer()), stages.parity() ^ 1);
        if (lane == 0) {
            mbarrier_expect(full, boxes * p.box_keys * PANEL_BYTES);
        }
        __syncwarp();
        if (is_there) {
            const uint32_t to = shared_address(stages.buffer() * STAGE_BYTES) + (is_v ? K_BYTES : 0) +
                                panel * TILE_KEYS * PANEL_BYTES + run * p.box_keys * PANEL_BYTES;
            const attune_sm90_steps step = is_v ? p.v_step : p.k_step;
            copy_box(to, is_v ? p.v : p.k, full, panel * PANEL, box.key, in.kv_head * step.head, box.page * step.batch,
                     read_once);
        }
        stages.count++;
    }

    /* Lanes look up the next 32 runs of the tile while the ones before are copied. */
    INLINE void load_tile(const tile &in) {
        const int first = first_stage_key(in);
        const int stages_ahead = LANES / runs; /* that a look-up of the warp is good for; a power of 2 */
        box_place found = find_box(in, first + lane * p.box_keys);
        box_place ahead = find_box(in, first + (LANES + lane) * p.box_keys);
        int stage = 0;
#pragma unroll 1
        for (int left = count_stages(in); left > 0; left--) {
            const int from = (stage & (stages_ahead - 1)) * runs + run;
            copy(in, {__shfl_sync(ALL_LANES, found.page, from), __shfl_sync(ALL_LANES, found.key, from)});
            stage++;
            if ((stage & (stages_ahead - 1)) == 0) {
                found = ahead;
                ahead = find_box(in, first + (stage * runs + LANES + lane) * p.box_keys);
            }
        }
    }

    /* The stage after a tile's keys is the consumers' own. */
    INLINE void lend_stage() {
        mbarrier_wait(barrier_address(EMPTY, stages.buffer()), stages.parity() ^ 1);
        if (lane == 0) {
            mbarrier_arrive(barrier_address(FULL, stages.buffer()));
        }
        stages.count++;
    }
};

} // namespace

#endif
