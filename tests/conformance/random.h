/*
 * Random numbers by index: the value at a place depends on the seed and the place alone, not on what was drawn before.
 *
 * Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators (2014): SplitMix64; Fowler, Noll, Vo:
 * FNV-1a; Box and Muller (1958).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_RANDOM_H
#define CONFORM_RANDOM_H

#include <math.h>
#include <stdint.h>

#define CONFORM_RANDOM_GAMMA UINT64_C(0x9E3779B97F4A7C15)

static inline uint64_t conform_random_mix(uint64_t x) {
    x += CONFORM_RANDOM_GAMMA;
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static inline uint64_t conform_random_hash_text(const char *text) {
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (; *text; text++) {
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001B3);
    }
    return hash;
}

/* In (0, 1). */
static inline double conform_random_uniform(uint64_t key) {
    return ((double)(conform_random_mix(key) >> 11) + 0.5) * 0x1p-53;
}

static inline double conform_random_normal(uint64_t key) {
    double radius = sqrt(-2.0 * log(conform_random_uniform(key)));
    return radius * cos(6.283185307179586 * conform_random_uniform(key ^ UINT64_C(0xA5A5A5A5A5A5A5A5)));
}

/* A sequence, for choices made one after the other. */
struct conform_random {
    uint64_t state;
};

static inline uint64_t conform_random_next(struct conform_random *random) {
    random->state += CONFORM_RANDOM_GAMMA;
    return conform_random_mix(random->state);
}

/* 0 to count - 1; count 1 or more. */
static inline int64_t conform_random_below(struct conform_random *random, int64_t count) {
    return (int64_t)(conform_random_next(random) % (uint64_t)count);
}

#endif
