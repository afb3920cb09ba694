/*
 * A driver whose device is emulated: the stub's, with kernels that compute. It is an sm_80, since of the kernels for
 * others, instructions are written out.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/emulator/cuda_run.h"
#include "tests/support/stub_cuda_internal.h"

__attribute__((constructor)) static void emulate(void) {
    stub_kernel_run = emulator_run;
    stub_memory_is_reachable = true;
    stub_cuda.compute_capability = 80;
}
