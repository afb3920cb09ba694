/*
 * backends/cuda/sm80/mma.h for any processor: copies are done at once, and a product is computed from what all lanes
 * hold.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CUDA_SM80_MMA_H
#define ATTUNE_CUDA_SM80_MMA_H

#include <cstring>

#include "backends/cuda/sm80/element.h"

namespace {

using shared_address = char *;

shared_address address_of(void *shared) {
    return static_cast<char *>(shared);
}

void copy_16(shared_address to, const void *from) {
    std::memcpy(to, from, 16);
}

void copy_16_or_0(shared_address to, const void *from, bool is_there) {
    std::memset(to, 0, 16);
    if (is_there) {
        copy_16(to, from);
    }
}

void commit_copies() {
}

template <int PENDING> void wait_for_copies() {
}

struct fragments {
    uint32_t a[4], b[2];
};

/* Half of a word, as f32. */
template <typename T> float half_of(uint32_t word, int upper) {
    const uint16_t bits = static_cast<uint16_t>(upper != 0 ? word >> 16 : word);
    T x;
    static_assert(sizeof x == sizeof bits, "elements of 16 bits");
    std::memcpy(&x, &bits, sizeof x);
    return value(x);
}

/* Row, and column of b, of the lane that computes; k counts to 15. */
template <typename T> float a_at(const fragments (&lanes)[32], int row, int k) {
    const uint32_t *a = lanes[row % 8 * 4 + k % 8 / 2].a;
    return half_of<T>(a[k / 8 * 2 + row / 8], k % 2);
}

template <typename T> float b_at(const fragments (&lanes)[32], int k, int column) {
    return half_of<T>(lanes[column * 4 + k % 8 / 2].b[k / 8], k % 2);
}

template <typename T> void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, T) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    fragments lanes[32];
    const fragments own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    emulator_gather(&own, sizeof own, lanes);
    for (int e = 0; e < 4; e++) {
        for (int k = 0; k < 16; k++) {
            c[e] += a_at<T>(lanes, lane / 4 + e / 2 * 8, k) * b_at<T>(lanes, k, lane % 4 * 2 + e % 2);
        }
    }
}

uint32_t lower_halves(uint32_t a, uint32_t b) {
    return (a & 0xFFFFu) | b << 16;
}
uint32_t upper_halves(uint32_t a, uint32_t b) {
    return a >> 16 | (b & 0xFFFF0000u);
}

float exp2_flushed(float x) {
    return exp2f(x);
}

bool any_lane(bool x) {
    bool lanes[32];
    emulator_gather(&x, sizeof x, lanes);
    for (bool each : lanes) {
        if (each) {
            return true;
        }
    }
    return false;
}

} // namespace

#endif
