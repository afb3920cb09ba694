/*
 * Numbers that look random and are the same every time.
 *
 * Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators (2014): SplitMix64; Box and Muller (1958).
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_RANDOM_H
#define ATTUNE_TOOLS_RANDOM_H

#include <math.h>
#include <stdint.h>

/* Any value begins a sequence. */
struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random) {
    uint64_t x = random->state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* 0 to count - 1; count 1 or more. */
static inline int64_t random_below(struct random *random, int64_t count) {
    return (int64_t)(random_next(random) % (uint64_t)count);
}

/* In (0, 1). */
static inline double random_uniform(struct random *random) {
    return ((double)(random_next(random) >> 11) + 0.5) * 0x1p-53;
}

static inline double random_normal(struct random *random) {
    double radius = sqrt(-2 * log(random_uniform(random)));
    return radius * cos(6.283185307179586 * random_uniform(random));
}

#endif
