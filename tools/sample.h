/*
 * A few rows and keys of a problem as a problem of their own: dense, in f32, on the host, so that the reference can
 * compute a part of what would take it hours.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_SAMPLE_H
#define ATTUNE_TOOLS_SAMPLE_H

#include "attune/plan.h"
#include "mirror.h"
#include "sequences.h"

/* Which part: rows and keys within the sequence, query heads of one group. */
struct sample_place {
    int64_t sequence;
    int64_t first_head;
    int64_t heads;
    int64_t first_row;
    int64_t rows;
    int64_t first_key;
    int64_t keys;
};

struct sample {
    attune_attention_args args; /* for the reference; results in f64 */
    struct host_memory memory;
};

/* What samples are taken from: args on the host, with all results. */
struct sample_source {
    const attune_attention_args *args;
    const struct sequences *sequences;
    attune_op op;
};

/* The sample without results. Released also after an error. */
enum tool_exit sample_take(const struct sample_source *source, const struct sample_place *place,
                           struct sample *out_sample);
void sample_release(struct sample *sample);

/* Gives the sample a result to be computed, of the shape that the source's tensor has at the place. */
enum tool_exit sample_add_result(struct sample *sample, int rank, const int64_t *shape, attune_tensor *out_result);

/* Elements of a tensor of the source at a place: rows of q and what is shaped as it, (rows, heads, last extent); keys
 * of k and its kind, (keys, last extent) of the group's head; (heads, rows) of lse. */
void sample_read_rows(const struct sample_source *source, const struct sample_place *place, const attune_tensor *tensor,
                      float *out_values);
void sample_read_keys(const struct sample_source *source, const struct sample_place *place, const attune_tensor *tensor,
                      float *out_values);
void sample_read_lines(const struct sample_source *source, const struct sample_place *place,
                       const attune_tensor *tensor, float *out_values);

#endif
