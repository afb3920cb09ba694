/*
 * The producers: three warps of the first warpgroup, of each of which one thread runs the copy engine.
 *
 * Source: PTX ISA 9.0, "cp.async.bulk.tensor". What lies outside of a tensor is written as zeros, and counts as bytes.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM90_LOAD_H
#define ATTUNE_CUDA_SM90_LOAD_H

#include "backends/cuda/sm90/copy.h"
#include "backends/cuda/sm90/schedule.h"

namespace {

/* All members of a pack of heads. */
INLINE void copy_pack(uint32_t to, const CUtensorMap &map, uint32_t barrier, int column, int row, int head, int batch,
                      uint64_t cache_policy) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1, {%3, %4, %5, %6, %7}], [%2], %8;" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(column), "r"(0), "r"(row), "r"(head), "r"(batch), "l"(cache_policy)
                 : "memory");
}

/* ---- Tiles, and their Q ---- */

/* Finds tiles and loads their Q. All threads that run it, one or the lanes of a warp, wait alike; the first acts. */
struct scout {
    const attune_sm90_forward_params &p;
    const bool leads;
    uint64_t read_once;
    ring<TILE_SLOTS> tiles;
    tile_search search;
    int number = blockIdx.x; /* of the tile that is looked for next */

    INLINE explicit scout(const attune_sm90_forward_params &params)
        : p(params), leads(threadIdx.x % LANES == 0), search(params) {
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(read_once));
    }

    /* Each time anew: a warp that loads has no register to keep it in. */
    static INLINE int work_groups() {
        int found;
        asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(found));
        return found;
    }

    /* The first tiles are dealt out; where tiles differ in length, or are cut, the others go to who is free. */
    INLINE void fetch_number() {
        if constexpr (FULL && !SPLITS) {
            number += work_groups();
        } else if (leads) {
            number = work_groups() + atomicAdd(p.tile_counter, 1);
        }
        if constexpr (GENERAL) {
            number = __shfl_sync(ALL_LANES, number, 0);
        }
    }

    INLINE void find_tile(int slot) {
        if constexpr (GENERAL) {
            __syncwarp(); /* all lanes are past their last look at the slot */
            search.find(p, number, &tile_in_slot(slot), &state_in_slot(slot));
            __syncwarp();
        } else if constexpr (SPLITS) {
            set_numbered_part(p, number, &tile_in_slot(slot), &state_in_slot(slot));
        } else {
            set_numbered_tile(p, number, &tile_in_slot(slot));
        }
        if (leads) {
            mbarrier_arrive(barrier_address(TILE_FOUND, slot));
        }
    }

    /* The barrier releases the slot to the consumers, too, and without a tile that alone. */
    INLINE void load_q(int slot) {
        const tile &at = tile_in_slot(slot);
        const int buffer = slot % Q_BUFFERS;
        mbarrier_wait(barrier_address(Q_EMPTY, buffer), tiles.count / Q_BUFFERS & 1 ^ 1);
        if (!leads) {
            return;
        }
        const uint32_t full = barrier_address(Q_FULL, buffer);
        const uint32_t to = shared_address(buffer * Q_BYTES);
        if (at.row == NO_TILE) {
            mbarrier_arrive(full);
            return;
        }
        const int head = at.head * p.q_step.head;
        const int batch = at.batch * p.q_step.batch;
        mbarrier_expect(full, GENERAL ? PANELS * p.tile_places * p.pack * PANEL_BYTES : Q_BYTES);
        for (int panel = 0; panel < PANELS; panel++) {
            const uint32_t panel_to = to + panel * TILE_ROWS * PANEL_BYTES;
            if constexpr (GENERAL) {
                copy_pack(panel_to, p.q, full, panel * PANEL, at.row_begin + at.row / p.pack, head, batch, read_once);
            } else {
                copy_box(panel_to, p.q, full, panel * PANEL, at.row, head, batch, read_once);
            }
        }
    }

    /* Looks for a tile once the K of the one before is nearly loaded: a work-group that took tiles long before it needs
     * them would keep them from others that are free. */
    INLINE void run() {
        while (true) {
            const int slot = tiles.buffer();
            find_tile(slot);
            load_q(slot);
            if (tile_in_slot(slot).row == NO_TILE) {
                return;
            }
            mbarrier_wait(barrier_address(TILE_ENDS, 0), tiles.count & 1);
            tiles.count++;
            fetch_number();
        }
    }
};

/* ---- Pages ---- */

/* Each lane looks up a box, of as many key tiles as have all their boxes in a warp's lanes: downwards from a key tile,
 * or if that has more boxes than there are lanes, upwards from a box of it. An entry is not read where no row sees a
 * key of it: the page after the last one is zeros. */
INLINE int find_pages(const attune_sm90_forward_params &p, const tile &at, int key_tile, int first_box) {
    const int lane = threadIdx.x % LANES;
    const int box = first_box + lane % p.page_boxes;
    const int key = (key_tile - lane / p.page_boxes) * TILE_KEYS + box * p.page_box;
    const bool is_seen = box < p.page_boxes && key + p.page_box > at.keys_begin && key < at.keys_end;
    const int32_t *table = static_cast<const int32_t *>(p.block_table.data) + at.batch * p.block_table.stride[0];
    return is_seen ? table[key / p.page_size * p.block_table.stride[1]] : p.pages;
}

/* ---- K and V ---- */

/* Key tiles of a tile that are still to load when the next one is looked for, which with its Q takes some 3,000 clocks.
 * Where Q has one buffer, short tiles lose by less. */
constexpr int KEY_TILES_AHEAD = Q_BUFFERS == 2 ? 3 : 16;

/* Loads K, or V, of tile after tile, each from the last key tile down: the diagonal comes first, where there is one.
 * The scout's warp and these two wait apart, so that none holds up another; and they share their schedulers with busy
 * warps, so what is between two loads is counted in instructions. */
template <bool IS_K> struct key_loader {
    static constexpr int PANELS_OF = IS_K ? PANELS : PANELS_V;
    static constexpr int BYTES = IS_K ? K_BYTES : V_BYTES;
    const attune_sm90_forward_params &p;
    const CUtensorMap &map;
    const bool leads;
    uint64_t read_again;
    ring<STAGES> keys;

    INLINE explicit key_loader(const attune_sm90_forward_params &params)
        : p(params), map(IS_K ? params.k : params.v), leads(!GENERAL || threadIdx.x % LANES == 0) {
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(read_again));
    }

    INLINE uint32_t full() const {
        return barrier_address(IS_K ? K_FULL : V_FULL, keys.buffer());
    }

    INLINE uint32_t shared_tile() const {
        return shared_address(IS_K ? K_OFFSET : V_OFFSET) + keys.buffer() * BYTES;
    }

    INLINE void wait_empty() {
        mbarrier_wait(barrier_address(IS_K ? K_EMPTY : V_EMPTY, keys.buffer()), keys.parity() ^ 1);
        if (leads) {
            mbarrier_expect(full(), BYTES);
        }
    }

    INLINE void copy_keys(uint32_t to, int row, int head, int batch) {
#pragma unroll
        for (int panel = 0; panel < PANELS_OF; panel++) {
            copy_box(to + panel * TILE_KEYS * PANEL_BYTES, map, full(), panel * PANEL, row, head, batch, read_again);
        }
    }

    INLINE void let_next_be_found() {
        if (IS_K && leads) {
            mbarrier_arrive(barrier_address(TILE_ENDS, 0));
        }
    }

    INLINE void load_tile(const tile &at, int head) {
        const int batch = at.batch * (IS_K ? p.k_step : p.v_step).batch;
        const int first = GENERAL ? at.key_begin : 0;
        const int begin = first + key_tiles_begin_of(at) * TILE_KEYS;
        int row = first + at.key_tiles_end * TILE_KEYS;
        const int ends_at = min(row, begin + KEY_TILES_AHEAD * TILE_KEYS);
#pragma unroll 1
        while (row > begin) {
            if (row == ends_at) {
                let_next_be_found();
            }
            row -= TILE_KEYS;
            wait_empty();
            if (leads) {
                copy_keys(shared_tile(), row, head, batch);
            }
            keys.count++;
        }
    }

    /* pages: what find_pages has found, the first box in the numbered lane. in_page: where that lies in its page. */
    INLINE void copy_boxes(int pages, int lane, int in_page, const tile &at, int key_tile, int head) {
#pragma unroll 1
        for (int box = 0; box < p.page_boxes; box++) {
            if (box > 0 && box % LANES == 0) {
                pages = find_pages(p, at, key_tile, box);
            }
            const int page = __shfl_sync(ALL_LANES, pages, (lane + box) % LANES);
            if (leads) {
                copy_keys(shared_tile() + box * p.page_box * PANEL_BYTES, in_page, head, page);
            }
            in_page = in_page + p.page_box == p.page_size ? 0 : in_page + p.page_box;
        }
    }

    /* Look-ups are ahead of need, so that the table's latency is not in the way. */
    INLINE void load_paged_tile(const tile &at, int head) {
        int key_tile = at.key_tiles_end - 1;
        int pages = find_pages(p, at, key_tile, 0);
        int pages_ahead = find_pages(p, at, key_tile - p.page_tiles, 0);
        int lane = 0;
        int in_page = key_tile * TILE_KEYS % p.page_size;
#pragma unroll 1
        for (; key_tile >= at.key_tiles_begin; key_tile--) {
            if (key_tile == min(at.key_tiles_end, at.key_tiles_begin + KEY_TILES_AHEAD) - 1) {
                let_next_be_found();
            }
            if (lane == p.page_tiles * p.page_boxes) {
                pages = pages_ahead;
                pages_ahead = find_pages(p, at, key_tile - p.page_tiles, 0);
                lane = 0;
            }
            wait_empty();
            copy_boxes(pages, lane, in_page, at, key_tile, head);
            lane += p.page_boxes;
            in_page -= p.page_step;
            in_page += in_page < 0 ? p.page_size : 0;
            keys.count++;
        }
    }

    INLINE void run() {
        ring<TILE_SLOTS> tiles;
        while (true) {
            mbarrier_wait(barrier_address(TILE_FOUND, tiles.buffer()), tiles.parity());
            const tile &at = tile_in_slot(tiles.buffer());
            if (at.row == NO_TILE) {
                return;
            }
            const int head = at.kv_head * (IS_K ? p.k_step : p.v_step).head;
            if (GENERAL && p.page_size != 0) {
                load_paged_tile(at, head);
            } else {
                load_tile(at, head);
            }
            tiles.count++;
        }
    }
};

INLINE void load(const attune_sm90_forward_params &p, int warp) {
    if (warp == 0) {
        key_loader<true>(p).run();
    } else if (warp == 1) {
        key_loader<false>(p).run();
    } else if (warp == 2) {
        scout(p).run();
    }
}

} // namespace

#endif
