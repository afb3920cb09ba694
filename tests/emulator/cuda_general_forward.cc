/*
 * The general forward, compiled for this processor as the build compiles it for a device: ATTUNE_STORAGE is its element
 * type, ATTUNE_SYMBOL its name.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/emulator/cuda_threads.h"

/* The name that it gives to all of its shared memory. */
#define weights emulator_shared
#include "backends/cuda/sm80/fwd.cu"

#define TEXT_OF(symbol) #symbol
#define TEXT(symbol)    TEXT_OF(symbol)

static void run(void *parameters) {
    ATTUNE_SYMBOL(*static_cast<const attune_cuda_forward_params *>(parameters));
}

static const emulator_kernel listed(TEXT(ATTUNE_SYMBOL), run);
