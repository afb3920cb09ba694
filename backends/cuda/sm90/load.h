/*
 * The producer: one warp of the first warpgroup, of which one thread runs the copy engine.
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

/* ---- The producer ---- */

/* All threads that run it, one or the lanes of a warp, wait alike; the first of them acts. */
struct producer {
    const attune_sm90_forward_params &p;
    const bool leads;
    uint64_t read_again, read_once;
    ring<Q_BUFFERS> q;
    ring<STAGES> k, v;
    tile_search search;
    int number = blockIdx.x; /* of the tile that is looked for next */

    INLINE explicit producer(const attune_sm90_forward_params &params)
        : p(params), leads(!GENERAL || threadIdx.x % LANES == 0), search(params) {
        asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(read_again));
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(read_once));
    }

    /* ---- Tiles ---- */

    INLINE void find_tile(int slot) {
        if constexpr (GENERAL) {
            __syncwarp(); /* all lanes are past their last look at the slot */
            search.find(p, number, &tile_in_slot(slot));
            __syncwarp();
        } else {
            set_numbered_tile(p, number, &tile_in_slot(slot));
        }
    }

    /* The first tiles are dealt out; where tiles differ in length, the others go to who is free. Nothing waits for the
     * counter yet. */
    INLINE void fetch_number() {
        if constexpr (FULL) {
            number += gridDim.x;
        } else if (leads) {
            number = gridDim.x + atomicAdd(p.tile_counter, 1);
        }
    }

    INLINE void find_next_tile(int slot) {
        if constexpr (GENERAL) {
            number = __shfl_sync(ALL_LANES, number, 0);
        }
        find_tile(slot);
    }

    /* ---- Q ---- */

    INLINE void wait_q() {
        mbarrier_wait(barrier_address(Q_EMPTY, q.buffer()), q.parity() ^ 1);
    }

    /* Q of the tile in a slot. The barrier releases the slot to the consumers, too, and without a tile that alone. */
    INLINE void load_q(int slot) {
        const tile &at = tile_in_slot(slot);
        const uint32_t full = barrier_address(Q_FULL, q.buffer());
        const uint32_t to = shared_address(q.buffer() * Q_BYTES);
        q.count++;
        if (!leads) {
            return;
        }
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

    /* ---- K and V ---- */

    /* Division is slow enough to hold up the loads. */
    INLINE int column_of_key(int key) const {
        return p.page_shift >= 0 ? key >> p.page_shift : key / p.page_size;
    }

    INLINE int place_in_page(int key) const {
        return p.page_shift >= 0 ? key & (p.page_size - 1) : key % p.page_size;
    }

    /* The page of a box of a key tile. An entry is not read where no row sees a key of it: the page after the last one
     * is zeros. */
    INLINE int find_page(const tile &at, int key_tile, int box) const {
        const int key = key_tile * TILE_KEYS + box * p.page_box;
        const bool is_seen = box * p.page_box < TILE_KEYS && key + p.page_box > at.keys_begin && key < at.keys_end;
        const int32_t *table = static_cast<const int32_t *>(p.block_table.data) + at.batch * p.block_table.stride[0];
        return is_seen ? table[column_of_key(key) * p.block_table.stride[1]] : p.pages;
    }

    /* Each lane looks up the box of its number, ahead of need, so that the table's latency is not in the way. */
    INLINE int find_pages(const tile &at, int key_tile) const {
        return GENERAL && p.page_size != 0 ? find_page(at, key_tile, threadIdx.x % LANES) : 0;
    }

    /* A key tile of several boxes. pages: what find_pages has found. */
    INLINE void copy_pages(uint32_t to, const CUtensorMap &map, uint32_t barrier, int panels, const tile &at,
                           int key_tile, int pages, int head) {
        int in_page = place_in_page(key_tile * TILE_KEYS);
        for (int box = 0; box * p.page_box < TILE_KEYS; box++) {
            if (box > 0 && box % LANES == 0) {
                pages = find_page(at, key_tile, box + threadIdx.x % LANES);
            }
            const int page = __shfl_sync(ALL_LANES, pages, box % LANES);
            for (int panel = 0; leads && panel < panels; panel++) {
                copy_box(to + (panel * TILE_KEYS + box * p.page_box) * PANEL_BYTES, map, barrier, panel * PANEL,
                         in_page, head, page, read_again);
            }
            in_page = in_page + p.page_box == p.page_size ? 0 : in_page + p.page_box;
        }
    }

    INLINE void copy_keys(uint32_t to, const CUtensorMap &map, uint32_t barrier, int panels, const tile &at,
                          int key_tile, int pages, attune_sm90_steps step) {
        const int head = at.kv_head * step.head;
        if (leads) {
            mbarrier_expect(barrier, panels * TILE_KEYS * PANEL_BYTES);
        }
        int row = key_tile * TILE_KEYS + (GENERAL ? at.key_begin : 0);
        int batch = at.batch * step.batch;
        if (GENERAL && p.page_size != 0) {
            if (p.page_box < TILE_KEYS) {
                copy_pages(to, map, barrier, panels, at, key_tile, pages, head);
                return;
            }
            row = place_in_page(row);
            batch = pages; /* of the leading lane */
        }
        for (int panel = 0; leads && panel < panels; panel++) {
            copy_box(to + panel * TILE_KEYS * PANEL_BYTES, map, barrier, panel * PANEL, row, head, batch, read_again);
        }
    }

    INLINE void load_k(const tile &at, int key_tile, int pages) {
        const int buffer = k.buffer();
        mbarrier_wait(barrier_address(K_EMPTY, buffer), k.parity() ^ 1);
        k.count++;
        copy_keys(shared_address(K_OFFSET) + buffer * K_BYTES, p.k, barrier_address(K_FULL, buffer), PANELS, at,
                  key_tile, pages, p.k_step);
    }

    INLINE void load_v(const tile &at, int key_tile, int pages) {
        const int buffer = v.buffer();
        mbarrier_wait(barrier_address(V_EMPTY, buffer), v.parity() ^ 1);
        v.count++;
        copy_keys(shared_address(V_OFFSET) + buffer * V_BYTES, p.v, barrier_address(V_FULL, buffer), PANELS_V, at,
                  key_tile, pages, p.v_step);
    }

    /* ---- The order ---- */

    /* K one tile ahead of V, from the last key tile down: the diagonal comes first, where there is one. The next tile
     * is looked for once the first loads are on their way. With two Q buffers its Q follows as soon as its buffer can
     * be free, when the consumers are a step into this tile. */
    INLINE void load_tile(int slot) {
        const tile &at = tile_in_slot(slot);
        const int begin = key_tiles_begin_of(at);
        const int last = at.key_tiles_end - 1;
        const int next_slot = (slot + 1) % TILE_SLOTS;
        int pages_of_k = find_pages(at, last);
        int pages_ahead = find_pages(at, last - 1);
        fetch_number();
        load_k(at, last, pages_of_k);
        if (Q_BUFFERS == 1) {
            wait_q();
            load_q(slot);
        }
        for (int key_tile = last; key_tile >= begin; key_tile--) {
            const int pages_of_v = pages_of_k;
            if (key_tile > begin) {
                pages_of_k = pages_ahead;
                pages_ahead = find_pages(at, key_tile - 2);
                load_k(at, key_tile - 1, pages_of_k);
            }
            load_v(at, key_tile, pages_of_v);
            if (key_tile == last) {
                find_next_tile(next_slot);
            }
            if (Q_BUFFERS == 2 && key_tile == min(begin + 1, last)) {
                wait_q();
                load_q(next_slot);
            }
        }
    }

    INLINE void run() {
        int slot = 0;
        find_tile(slot);
        if (Q_BUFFERS == 2) {
            load_q(slot);
        }
        while (tile_in_slot(slot).row != NO_TILE) {
            load_tile(slot);
            slot = (slot + 1) % TILE_SLOTS;
        }
        if (Q_BUFFERS == 1) {
            wait_q();
            load_q(slot);
        }
    }
};

} // namespace

#endif
