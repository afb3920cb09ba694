/*
 * A kernel, KERNEL_SOURCE, compiled for this processor as the build compiles it for a device: ATTUNE_STORAGE is its
 * element type, ATTUNE_SYMBOL its name, and ATTUNE_SYMBOL_BESIDE that of a second kernel, if the source has one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/emulator/cuda_threads.h"

/* The names that kernels give to all of their shared memory. */
#define weights       emulator_shared
#define shared_memory emulator_shared
#include KERNEL_SOURCE

#define TEXT_OF(symbol) #symbol
#define TEXT(symbol)    TEXT_OF(symbol)

template <typename Params> static void call(void (*kernel)(Params), void *parameters) {
    kernel(*static_cast<const Params *>(parameters));
}

static void run(void *parameters) {
    call(ATTUNE_SYMBOL, parameters);
}

static const emulator_kernel listed(TEXT(ATTUNE_SYMBOL), run);

#ifdef ATTUNE_SYMBOL_BESIDE
static void run_beside(void *parameters) {
    call(ATTUNE_SYMBOL_BESIDE, parameters);
}

static const emulator_kernel listed_beside(TEXT(ATTUNE_SYMBOL_BESIDE), run_beside);
#endif
