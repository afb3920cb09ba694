/*
 * What the API does not allow, on any backend: INVALID_ARGUMENT, a sentence, and no byte written.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "check.h"

#define FORWARD  ATTUNE_OP_FORWARD
#define BACKWARD ATTUNE_OP_BACKWARD

/* ---- Numbers out of range ---- */

static void scale_nan(attune_attention_args *a) {
    a->scale = NAN;
}
static void scale_infinite(attune_attention_args *a) {
    a->scale = -INFINITY;
}
static void softcap_negative(attune_attention_args *a) {
    a->softcap = -1;
}
static void softcap_nan(attune_attention_args *a) {
    a->softcap = NAN;
}
static void window_below(attune_attention_args *a) {
    a->window = ATTUNE_WINDOW(-2, 0);
}
static void window_below_right(attune_attention_args *a) {
    a->window = ATTUNE_WINDOW(0, INT64_MIN);
}
static void rate_one(attune_attention_args *a) {
    a->dropout_rate = 1;
}
static void rate_negative(attune_attention_args *a) {
    a->dropout_rate = -0.1;
}
static void rate_nan(attune_attention_args *a) {
    a->dropout_rate = NAN;
}
static void diagonal_far(attune_attention_args *a) {
    a->causal = true;
    a->align = ATTUNE_ALIGN_DIAGONAL;
    a->diagonal = INT64_MAX;
}
static void align_unknown(attune_attention_args *a) {
    a->causal = true;
    a->align = (attune_align)3;
}
static void tile_small(attune_attention_args *a) {
    a->tile_rows = 8;
}
static void tile_large(attune_attention_args *a) {
    a->tile_keys = 129;
}
static void splits_negative(attune_attention_args *a) {
    a->splits = -1;
}
static void origin_negative(attune_attention_args *a) {
    a->dropout_rate = 0.5;
    a->row_origin = -1;
}
static void head_origin_outside(attune_attention_args *a) {
    a->dropout_rate = 0.5;
    a->head_origin = 1;
    a->heads_total = a->q.shape[2];
}
static void max_seqlen_wrong(attune_attention_args *a) {
    a->max_seqlen_q = a->q.shape[1] + 1;
}
static void struct_size_zero(attune_attention_args *a) {
    a->struct_size = 0;
}

/* ---- Options without what they need ---- */

static void page_size_alone(attune_attention_args *a) {
    a->page_size = 16;
}
static void block_rows_alone(attune_attention_args *a) {
    a->block_rows = 16;
    a->block_keys = 16;
}
/* A table over bytes of q: it is refused before they are read. */
static void add_table(attune_attention_args *a) {
    const int64_t shape[] = {a->q.shape[0], 1};
    a->block_table = attune_tensor_contiguous(a->q.data, ATTUNE_DTYPE_I32, 2, shape);
    a->block_table.byte_offset = a->q.byte_offset;
}
static void table_alone(attune_attention_args *a) {
    add_table(a);
}
static void table_without_lengths(attune_attention_args *a) {
    add_table(a);
    a->page_size = a->k.shape[1];
}
static void table_in_backward(attune_attention_args *a) {
    table_without_lengths(a);
    const int64_t shape[] = {a->q.shape[0]};
    a->seqused_k = attune_tensor_contiguous(a->q.data, ATTUNE_DTYPE_I32, 1, shape);
    a->seqused_k.byte_offset = a->q.byte_offset;
}
static void descale_of_halves(attune_attention_args *a) {
    const int64_t shape[] = {1};
    a->descale_k = attune_tensor_contiguous(a->k.data, ATTUNE_DTYPE_F32, 1, shape);
    a->descale_k.byte_offset = a->k.byte_offset;
}
static void gradient_in_forward(attune_attention_args *a) {
    a->dq = a->o;
    memset(&a->o, 0, sizeof a->o);
}
static void probs_in_backward(attune_attention_args *a) {
    const int64_t shape[] = {a->q.shape[0], a->q.shape[2], a->q.shape[1], a->k.shape[1]};
    a->probs = attune_tensor_contiguous(a->dq.data, ATTUNE_DTYPE_F32, 4, shape);
}
static void no_lse_in_backward(attune_attention_args *a) {
    memset(&a->lse, 0, sizeof a->lse);
}
static void no_dout(attune_attention_args *a) {
    memset(&a->dout, 0, sizeof a->dout);
}
static void nothing_to_write(attune_attention_args *a) {
    memset(&a->dq, 0, sizeof a->dq);
    memset(&a->dk, 0, sizeof a->dk);
    memset(&a->dv, 0, sizeof a->dv);
}
static void no_q(attune_attention_args *a) {
    memset(&a->q, 0, sizeof a->q);
}
static void no_o(attune_attention_args *a) {
    memset(&a->o, 0, sizeof a->o);
}

/* ---- Tensors ---- */

static void data_null(attune_attention_args *a) {
    a->k.data = NULL;
}
static void dtype_differs(attune_attention_args *a) {
    a->v.dtype = ATTUNE_DTYPE_BF16;
}
static void dtype_of_lse(attune_attention_args *a) {
    a->lse.dtype = ATTUNE_DTYPE_F16;
}
static void dtype_of_o(attune_attention_args *a) {
    a->o.dtype = ATTUNE_DTYPE_BF16;
}
static void rank_wrong(attune_attention_args *a) {
    a->q.rank = 3;
    a->q.shape[3] = a->q.stride[3] = 0;
}
static void heads_not_multiple(attune_attention_args *a) {
    a->k.shape[2] = a->v.shape[2] = 3;
}
static void head_dims_differ(attune_attention_args *a) {
    a->k.shape[3] -= 1;
}
static void keys_differ(attune_attention_args *a) {
    a->v.shape[1] -= 1;
}
static void batch_differs(attune_attention_args *a) {
    a->k.shape[0] -= 1;
}
static void last_stride_two(attune_attention_args *a) {
    a->q.shape[3] = a->k.shape[3] = a->q.shape[3] / 2;
    a->q.stride[3] = 2;
}
static void extent_negative(attune_attention_args *a) {
    a->k.shape[1] = a->v.shape[1] = -1;
}
static void stride_negative(attune_attention_args *a) {
    a->q.stride[1] = -a->q.stride[1];
}
static void size_overflows(attune_attention_args *a) {
    a->q.shape[1] = a->o.shape[1] = a->lse.shape[2] = INT64_C(1) << 61;
}
static void offset_odd(attune_attention_args *a) {
    a->q.byte_offset += 1;
}
static void reserved_set(attune_attention_args *a) {
    a->v.reserved[1] = 1;
}
static void output_stride_zero(attune_attention_args *a) {
    a->o.stride[1] = 0;
}
static void gradient_stride_zero(attune_attention_args *a) {
    a->dk.stride[2] = 0;
}

/* ---- Overlaps ---- */

static void o_over_k(attune_attention_args *a) {
    a->o.data = a->k.data;
    a->o.byte_offset = a->k.byte_offset;
}
static void o_over_q_shifted(attune_attention_args *a) {
    a->o.data = a->q.data;
    a->o.byte_offset = a->q.byte_offset;
    a->q.byte_offset += (uint64_t)a->q.stride[1] * attune_dtype_size_bytes(a->q.dtype);
    a->q.shape[1] = a->o.shape[1] = a->lse.shape[2] = a->q.shape[1] - 1;
    a->q.shape[0] = a->k.shape[0] = a->v.shape[0] = a->o.shape[0] = a->lse.shape[0] = 1;
}
static void lse_over_o(attune_attention_args *a) {
    a->lse.data = a->o.data;
    a->lse.byte_offset = a->o.byte_offset / 4 * 4;
}
static void dk_over_dv(attune_attention_args *a) {
    a->dk.data = a->dv.data;
    a->dk.byte_offset = a->dv.byte_offset;
}
static void dq_over_q(attune_attention_args *a) {
    a->dq.data = a->q.data;
    a->dq.byte_offset = a->q.byte_offset;
}
static void o_over_itself(attune_attention_args *a) {
    a->o.stride[1] = 1;
}

struct refusal {
    const char *name;
    attune_op op;
    void (*spoil)(attune_attention_args *args);
};

static const struct refusal refusals[] = {
    {"scale_nan", FORWARD, scale_nan},
    {"scale_infinite", BACKWARD, scale_infinite},
    {"softcap_negative", FORWARD, softcap_negative},
    {"softcap_nan", BACKWARD, softcap_nan},
    {"window_below", FORWARD, window_below},
    {"window_below_right", BACKWARD, window_below_right},
    {"rate_one", FORWARD, rate_one},
    {"rate_negative", BACKWARD, rate_negative},
    {"rate_nan", FORWARD, rate_nan},
    {"diagonal_far", FORWARD, diagonal_far},
    {"align_unknown", BACKWARD, align_unknown},
    {"tile_small", FORWARD, tile_small},
    {"tile_large", BACKWARD, tile_large},
    {"splits_negative", FORWARD, splits_negative},
    {"origin_negative", FORWARD, origin_negative},
    {"head_origin_outside", FORWARD, head_origin_outside},
    {"max_seqlen_wrong", FORWARD, max_seqlen_wrong},
    {"struct_size_zero", FORWARD, struct_size_zero},
    {"page_size_alone", FORWARD, page_size_alone},
    {"block_rows_alone", BACKWARD, block_rows_alone},
    {"table_alone", FORWARD, table_alone},
    {"table_without_lengths", FORWARD, table_without_lengths},
    {"table_in_backward", BACKWARD, table_in_backward},
    {"descale_of_halves", FORWARD, descale_of_halves},
    {"gradient_in_forward", FORWARD, gradient_in_forward},
    {"probs_in_backward", BACKWARD, probs_in_backward},
    {"no_lse_in_backward", BACKWARD, no_lse_in_backward},
    {"no_dout", BACKWARD, no_dout},
    {"nothing_to_write", BACKWARD, nothing_to_write},
    {"no_q", FORWARD, no_q},
    {"no_o", FORWARD, no_o},
    {"data_null", FORWARD, data_null},
    {"dtype_differs", FORWARD, dtype_differs},
    {"dtype_of_lse", FORWARD, dtype_of_lse},
    {"dtype_of_o", FORWARD, dtype_of_o},
    {"rank_wrong", FORWARD, rank_wrong},
    {"heads_not_multiple", FORWARD, heads_not_multiple},
    {"head_dims_differ", BACKWARD, head_dims_differ},
    {"keys_differ", FORWARD, keys_differ},
    {"batch_differs", BACKWARD, batch_differs},
    {"last_stride_two", FORWARD, last_stride_two},
    {"extent_negative", FORWARD, extent_negative},
    {"stride_negative", FORWARD, stride_negative},
    {"size_overflows", FORWARD, size_overflows},
    {"offset_odd", FORWARD, offset_odd},
    {"reserved_set", FORWARD, reserved_set},
    {"output_stride_zero", FORWARD, output_stride_zero},
    {"gradient_stride_zero", BACKWARD, gradient_stride_zero},
    {"o_over_k", FORWARD, o_over_k},
    {"o_over_q_shifted", FORWARD, o_over_q_shifted},
    {"lse_over_o", FORWARD, lse_over_o},
    {"dk_over_dv", BACKWARD, dk_over_dv},
    {"dq_over_q", BACKWARD, dq_over_q},
    {"o_over_itself", FORWARD, o_over_itself},
};

const int64_t conform_refusal_count = sizeof refusals / sizeof refusals[0];

const char *conform_refusal_name(int64_t variant) {
    return refusals[variant].name;
}

static attune_status call(struct conform_run *run, attune_op op) {
    attune_device *device = run->subject->device;
    return op == BACKWARD ? attune_backward(device, run->stream, &run->args)
                          : attune_forward(device, run->stream, &run->args);
}

void conform_check_refusal(struct conform_context *context) {
    const struct refusal *refusal = &refusals[context->test->variant];
    struct conform_options options = conform_options_make(refusal->op, ATTUNE_DTYPE_F16);
    options.heads_q = 4;
    struct conform_problem *problem = conform_problem_make(&options, context->seed);
    struct conform_run run;
    if (conform_run_begin(context->subject, problem, &run, context->outcome)) {
        refusal->spoil(&run.args);
        attune_status status = call(&run, refusal->op);
        if (conform_outcome_expect(context->outcome, "the call", status, ATTUNE_INVALID_ARGUMENT) &&
            conform_run_fetch(&run, context->outcome)) {
            (void)conform_run_check_untouched(&run, context->outcome);
        }
        if (context->outcome->status == CONFORM_PASSED && attune_last_error()[0] == '\0') {
            conform_outcome_fail(context->outcome, "the call was refused without a sentence");
        }
    }
    conform_run_end(&run);
    conform_problem_free(problem);
}
