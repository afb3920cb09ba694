/*
 * Running an emulated kernel, for the driver that launches it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TESTS_EMULATOR_CUDA_RUN_H
#define ATTUNE_TESTS_EMULATOR_CUDA_RUN_H

#ifdef __cplusplus
extern "C" {
#endif

/* Runs a kernel in every thread of every work-group, one work-group after the other. Ends the process if
 * threads wait for each other for ever, if a byte past shared_bytes is written, or if there is no such kernel. From one
 * thread at a time. */
void emulator_run(const char *kernel, unsigned blocks, unsigned threads, unsigned shared_bytes, void *parameters);

#ifdef __cplusplus
}
#endif

#endif
