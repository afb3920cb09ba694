/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */

#include "ceiling.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECONDS 0.05 /* of each of the two; the best part of it counts, as other processes may take the rest */

enum { THREADS_MAX = 1024, ACCUMULATORS = 12, STEPS = 10000 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- Multiply-adds ----
 *
 * As many registers as hide the latency of two units of 4 to 5 cycles. This file is compiled with contraction, so that
 * a product and a sum become one instruction where the target has it. */

#define DEFINE_MULTIPLY(name, bytes)                                                                                   \
    static double name(float start) {                                                                                  \
        typedef float lanes __attribute__((vector_size(bytes)));                                                       \
        const lanes zero = {0};                                                                                        \
        const lanes factor = zero + (1.0F - start);                                                                    \
        lanes sum[ACCUMULATORS];                                                                                       \
        for (int i = 0; i < ACCUMULATORS; i++)                                                                         \
            sum[i] = zero + (float)i;                                                                                  \
        for (int step = 0; step < STEPS; step++) {                                                                     \
            for (int i = 0; i < ACCUMULATORS; i++)                                                                     \
                sum[i] = sum[i] * factor + start;                                                                      \
        }                                                                                                              \
        volatile float used = 0;                                                                                       \
        for (int i = 0; i < ACCUMULATORS; i++)                                                                         \
            used = used + sum[i][0];                                                                                   \
        return 2.0 * STEPS * ACCUMULATORS * (bytes) / sizeof(float);                                                   \
    }

DEFINE_MULTIPLY(multiply, 16)

typedef double (*multiply_fn)(float start);

#if defined(__x86_64__)
__attribute__((target("fma"))) DEFINE_MULTIPLY(multiply_fma, 32);
__attribute__((target("avx512f"))) DEFINE_MULTIPLY(multiply_avx512, 64);

static multiply_fn choose_multiply(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) {
        return multiply_avx512;
    }
    return __builtin_cpu_supports("fma") ? multiply_fma : multiply;
}
#else
static multiply_fn choose_multiply(void) {
    return multiply;
}
#endif

/* ---- Threads ---- */

struct worker {
    uint64_t bytes; /* to read */
    struct ceiling rate;
};

static double multiply_rate(void) {
    const multiply_fn function = choose_multiply();
    const double began = now();
    double best = 0;
    for (double start = began; start - began < SECONDS;) {
        const double done = function(1e-6F);
        const double end = now();
        best = end > start ? fmax(best, done / (end - start)) : best;
        start = end;
    }
    return best;
}

static uint64_t read_all(const uint64_t *words, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        sum += words[i];
    }
    return sum;
}

static double read_rate(uint64_t bytes) {
    uint64_t *words = malloc(bytes);
    if (!words) {
        return 0;
    }
    memset(words, 1, bytes);
    volatile uint64_t used = 0;
    const double began = now();
    double best = 0;
    for (double start = began; start - began < SECONDS;) {
        used = used + read_all(words, bytes / sizeof *words);
        const double end = now();
        best = end > start ? fmax(best, (double)bytes / (end - start)) : best;
        start = end;
    }
    free(words);
    return best;
}

static void *work(void *context) {
    struct worker *worker = context;
    worker->rate = (struct ceiling){multiply_rate(), read_rate(worker->bytes)};
    return NULL;
}

/* Much more than what the caches hold, and not all of the memory. */
static uint64_t bytes_to_read(const attune_device_limits *limits) {
    uint64_t bytes = 4 * (uint64_t)(limits->l2_cache_bytes > 0 ? limits->l2_cache_bytes : 0);
    bytes = bytes < 128 << 20 ? 128 << 20 : bytes;
    return bytes > UINT64_C(2) << 30 ? UINT64_C(2) << 30 : bytes;
}

static struct ceiling measure(const attune_device_limits *limits) {
    static struct worker workers[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    struct ceiling sum = {0, 0};
    int count = 0;
    int wanted = limits->processors < THREADS_MAX ? limits->processors : THREADS_MAX;
    for (; count < wanted; count++) {
        workers[count].bytes = bytes_to_read(limits) / (uint64_t)wanted;
        if (pthread_create(&threads[count], NULL, work, &workers[count]) != 0) {
            break;
        }
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        sum.flops_per_second += workers[i].rate.flops_per_second;
        sum.bytes_per_second += workers[i].rate.bytes_per_second;
    }
    return count == wanted ? sum : (struct ceiling){0, 0};
}

struct ceiling ceiling_of(const attune_device_limits *limits) {
    static struct ceiling measured;
    static int32_t measured_processors;
    if (!limits->is_cpu || limits->peak_flops > 0 || limits->peak_bytes_per_second > 0) {
        return (struct ceiling){limits->peak_flops, limits->peak_bytes_per_second};
    }
    if (measured_processors != limits->processors) {
        measured = measure(limits);
        measured_processors = limits->processors;
    }
    return measured;
}
