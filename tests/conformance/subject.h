/*
 * The backend under test, through the public API alone: its memory may be handles, its streams asynchronous.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_SUBJECT_H
#define CONFORM_SUBJECT_H

#include "outcome.h"
#include "problem.h"

/* Asked for wherever a case leaves the choice to the planner; 0: left to it. */
struct conform_forced {
    int32_t splits;
    int32_t tile_rows;
    int32_t tile_keys;
};

struct conform_subject {
    attune_device *device;
    attune_stream *stream;
    attune_device *cpu; /* for the oracle */
    attune_device_limits limits;
    attune_kernel_info *kernels;
    int64_t *kernel_hits; /* times that each row ran */
    int32_t kernel_count;
    struct conform_forced forced;
};

/* Opens the device that selector names (as attune_device_open) and the CPU. Close it in any case. */
ATTUNE_MUST_CHECK attune_status conform_subject_open(const char *selector, struct conform_subject *out_subject);
void conform_subject_close(struct conform_subject *subject);

/* The row of that name; NULL if there is none. */
const attune_kernel_info *conform_subject_find_kernel(const struct conform_subject *subject, const char *name);

/* Whether the row's columns hold all that the problem asks for, and the device can run it. */
bool conform_subject_row_claims(const attune_kernel_info *row, const struct conform_options *options);

/* Counts a run of the row that explanation names, and notes it in the outcome. */
void conform_subject_note_kernel(struct conform_subject *subject, const char *kernel, struct conform_outcome *outcome);

/* Waits for a stream, so that what it uses can be freed. That work there failed is known already. */
void conform_subject_wait(struct conform_subject *subject, attune_stream *stream);

/* Asks for what is forced. */
void conform_forced_apply(const struct conform_forced *forced, attune_attention_args *args);

/* A problem's buffers on the device. */
struct conform_run {
    struct conform_subject *subject;
    const struct conform_problem *problem;
    attune_stream *stream; /* NULL: the default stream */
    void *data[CONFORM_OPERANDS];
    uint8_t *after[CONFORM_OPERANDS]; /* what lies there when it has run */
    attune_attention_args args;
    attune_explanation explanation;
};

/* Allocates and uploads. False: the outcome says why. End it in any case. */
bool conform_run_begin(struct conform_subject *subject, const struct conform_problem *problem,
                       struct conform_run *out_run, struct conform_outcome *outcome);
void conform_run_end(struct conform_run *run);

/* Copies the problem's bytes to the device again. */
bool conform_run_upload(struct conform_run *run, struct conform_outcome *outcome);

/* Explains, so that it is known which row will run. False: no row takes it, and the outcome is skipped, or failed where
 * a row claims it; or the call failed. */
bool conform_run_explain(struct conform_run *run, struct conform_outcome *outcome);

/* Runs as the options say: one call, or a plan with exactly its workspace. Returns at once where streams do. */
bool conform_run_launch(struct conform_run *run, struct conform_outcome *outcome);

/* Waits, and copies all buffers back. */
bool conform_run_fetch(struct conform_run *run, struct conform_outcome *outcome);

/* Fails unless all bytes that the problem does not own are what they were. */
bool conform_run_check_guard(const struct conform_run *run, struct conform_outcome *outcome);

/* Fails unless no byte at all was written. */
bool conform_run_check_untouched(const struct conform_run *run, struct conform_outcome *outcome);

/* Begin to check_guard in one. */
bool conform_run_whole(struct conform_subject *subject, const struct conform_problem *problem,
                       struct conform_run *out_run, struct conform_outcome *outcome);

/* An output's elements by compact index, in f64; those of no sequence are 0. The caller frees it. */
double *conform_run_result(const struct conform_run *run, attune_operand operand);

/* Fails unless both runs wrote the same bits into the elements that belong to sequences, wherever they lie. */
bool conform_run_check_same_bits(const struct conform_run *a, const struct conform_run *b, attune_operand operand,
                                 const char *what, struct conform_outcome *outcome);

/* Whether both runs used one row with the same tiles and splits, so that their bits must agree. */
bool conform_run_is_same_way(const struct conform_run *a, const struct conform_run *b);

/* Memory whose address is a multiple of 256 bytes at out_offset. */
ATTUNE_MUST_CHECK attune_status conform_subject_alloc_aligned(struct conform_subject *subject, uint64_t bytes,
                                                              void **out_data, uint64_t *out_offset);

#endif
