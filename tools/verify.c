/* SPDX-License-Identifier: Apache-2.0 */
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "closeness.h"
#include "random.h"
#include "sample.h"
#include "tests/conformance/number.h"

/* Multiplications that a check may take: well under a second on two cores. */
#define BUDGET 5e8

enum { SAMPLES_MAX = 32, SAMPLES_LEAST = 2, BLOCK_MAX = 32 };

/* ---- Where samples are taken ---- */

/* The first one from the beginning, the second from the end, others from anywhere. */
static int64_t choose(int number, int64_t count, struct random *random) {
    if (number < 2) {
        return number == 0 ? 0 : count - 1;
    }
    return random_below(random, count);
}

/* Of the sequences with rows; -1 if there is none. */
static int64_t choose_sequence(int number, const struct sequences *sequences, struct random *random) {
    if (sequences->count == 0) {
        return -1;
    }
    int64_t first = choose(number, sequences->count, random);
    int64_t step = number == 1 ? sequences->count - 1 : 1;
    for (int64_t i = 0; i < sequences->count; i++) {
        int64_t at = (first + i * step) % sequences->count;
        const attune_mask *mask = &sequences->item[at].mask;
        if (mask->rows > 0 && mask->keys > mask->leftpad) {
            return at;
        }
    }
    return -1;
}

/* Rows or keys of a block such that SAMPLES_LEAST of them stay in the budget. */
static int64_t choose_extent(int64_t extent, double cost_each) {
    double most = BUDGET / SAMPLES_LEAST / (cost_each > 1 ? cost_each : 1);
    int64_t chosen = extent < BLOCK_MAX ? extent : BLOCK_MAX;
    return most >= (double)chosen ? chosen : most >= 1 ? (int64_t)most : 1;
}

static double pair_cost(const attune_attention_args *args) {
    return (double)(args->q.shape[args->q.rank - 1] + args->v.shape[args->v.rank - 1]);
}

/* A block of rows of one head against all keys that are in the sequence. */
static bool place_rows(const struct sample_source *source, int number, struct random *random,
                       struct sample_place *out_place) {
    const attune_attention_args *args = source->args;
    int64_t at = choose_sequence(number, source->sequences, random);
    if (at < 0) {
        return false;
    }
    attune_mask mask = source->sequences->item[at].mask;
    int64_t keys = mask.keys - mask.leftpad;
    int64_t rows = choose_extent(mask.rows, (double)keys * pair_cost(args));
    *out_place = (struct sample_place){
        .sequence = at,
        .first_head = choose(number, args->q.shape[args->q.rank - 2], random),
        .heads = 1,
        .first_row = choose(number, mask.rows - rows + 1, random),
        .rows = rows,
        .first_key = mask.leftpad,
        .keys = keys,
    };
    return true;
}

/* A block of keys of one head against all rows of its group. */
static bool place_keys(const struct sample_source *source, int number, struct random *random,
                       struct sample_place *out_place) {
    const attune_attention_args *args = source->args;
    int64_t at = choose_sequence(number, source->sequences, random);
    if (at < 0) {
        return false;
    }
    attune_mask mask = source->sequences->item[at].mask;
    int64_t heads_kv = args->k.shape[args->k.rank - 2];
    int64_t group = args->q.shape[args->q.rank - 2] / heads_kv;
    int64_t in_sequence = mask.keys - mask.leftpad;
    int64_t keys = choose_extent(in_sequence, (double)(mask.rows * group) * 2.5 * pair_cost(args));
    *out_place = (struct sample_place){
        .sequence = at,
        .first_head = choose(number, heads_kv, random) * group,
        .heads = group,
        .first_row = 0,
        .rows = mask.rows,
        .first_key = mask.leftpad + choose(number, in_sequence - keys + 1, random),
        .keys = keys,
    };
    return true;
}

/* ---- One sample ---- */

enum result { RESULT_O, RESULT_LSE, RESULT_DQ, RESULT_DK, RESULT_DV, RESULT_COUNT };

typedef void (*reader)(const struct sample_source *source, const struct sample_place *place,
                       const attune_tensor *tensor, float *out_values);

static const struct {
    const char *name;
    size_t member; /* of attune_attention_args */
    reader read;
} results[RESULT_COUNT] = {
    [RESULT_O] = {"o", offsetof(attune_attention_args, o), sample_read_rows},
    [RESULT_LSE] = {"lse", offsetof(attune_attention_args, lse), sample_read_lines},
    [RESULT_DQ] = {"dq", offsetof(attune_attention_args, dq), sample_read_rows},
    [RESULT_DK] = {"dk", offsetof(attune_attention_args, dk), sample_read_keys},
    [RESULT_DV] = {"dv", offsetof(attune_attention_args, dv), sample_read_keys},
};

static attune_tensor *tensor_of(attune_attention_args *args, enum result result) {
    return (attune_tensor *)((char *)args + results[result].member);
}

struct verification {
    struct sample_source source;
    attune_device *reference;
    struct closeness closeness[RESULT_COUNT];
};

/* The shape that a result has in a sample. */
static int shape_result(const struct sample *sample, enum result result, int64_t out_shape[4]) {
    const int64_t *q = sample->args.q.shape;
    const int64_t *kv = result == RESULT_DK ? sample->args.k.shape : sample->args.v.shape;
    bool is_of_keys = result == RESULT_DK || result == RESULT_DV;
    out_shape[0] = 1;
    out_shape[1] = result == RESULT_LSE ? q[2] : is_of_keys ? kv[1] : q[1];
    out_shape[2] = result == RESULT_LSE ? q[1] : is_of_keys ? 1 : q[2];
    out_shape[3] = result == RESULT_DQ ? q[3] : kv[3];
    return result == RESULT_LSE ? 3 : 4;
}

static enum tool_exit compute(struct verification *verification, struct sample *sample) {
    bool is_backward = verification->source.op == ATTUNE_OP_BACKWARD;
    attune_status status;
    sample->args.kernel = is_backward ? "reference_backward" : "reference_forward";
    status = is_backward ? attune_backward(verification->reference, NULL, &sample->args)
                         : attune_forward(verification->reference, NULL, &sample->args);
    return status == ATTUNE_OK ? TOOL_OK : tool_fail_library(status);
}

static enum tool_exit compare(struct verification *verification, const struct sample_place *place,
                              struct sample *sample, enum result result) {
    const attune_tensor *exact = tensor_of(&sample->args, result);
    attune_attention_args got = *verification->source.args;
    int64_t count = tensor_count(exact);
    float *values = malloc((size_t)(count > 0 ? count : 1) * sizeof *values);
    if (!values) {
        return tool_fail_memory();
    }
    results[result].read(&verification->source, place, tensor_of(&got, result), values);
    closeness_add(&verification->closeness[result], values, exact->data, count);
    free(values);
    return TOOL_OK;
}

/* wanted: results that the place has; of them those that the problem has are compared. */
static enum tool_exit verify_place(struct verification *verification, const struct sample_place *place,
                                   const enum result *wanted, int wanted_count) {
    attune_attention_args got = *verification->source.args;
    struct sample sample;
    enum tool_exit status = sample_take(&verification->source, place, &sample);
    int64_t shape[4];
    for (int i = 0; !status && i < wanted_count; i++) {
        if (tensor_of(&got, wanted[i])->dtype != ATTUNE_DTYPE_NONE) {
            int rank = shape_result(&sample, wanted[i], shape);
            status = sample_add_result(&sample, rank, shape, tensor_of(&sample.args, wanted[i]));
        }
    }
    if (!status) {
        status = compute(verification, &sample);
    }
    for (int i = 0; !status && i < wanted_count; i++) {
        if (tensor_of(&got, wanted[i])->dtype != ATTUNE_DTYPE_NONE) {
            status = compare(verification, place, &sample, wanted[i]);
        }
    }
    sample_release(&sample);
    return status;
}

/* ---- All samples ---- */

typedef bool (*placer)(const struct sample_source *source, int number, struct random *random,
                       struct sample_place *out_place);

static enum tool_exit verify_places(struct verification *verification, placer place_one, const enum result *wanted,
                                    int wanted_count) {
    struct random random = {.state = 2};
    double spent = 0;
    enum tool_exit status = TOOL_OK;
    for (int number = 0; !status && number < SAMPLES_MAX; number++) {
        struct sample_place place;
        if ((spent > BUDGET && number >= SAMPLES_LEAST) || !place_one(&verification->source, number, &random, &place)) {
            break;
        }
        status = verify_place(verification, &place, wanted, wanted_count);
        spent += (double)place.rows * (double)place.keys * (double)place.heads * pair_cost(verification->source.args);
    }
    return status;
}

static enum tool_exit verify_forward(struct verification *verification) {
    static const enum result wanted[] = {RESULT_O, RESULT_LSE};
    return verify_places(verification, place_rows, wanted, 2);
}

static enum tool_exit verify_backward(struct verification *verification) {
    static const enum result of_rows[] = {RESULT_DQ};
    static const enum result of_keys[] = {RESULT_DK, RESULT_DV};
    const attune_attention_args *args = verification->source.args;
    bool has_keys = args->dk.dtype != ATTUNE_DTYPE_NONE || args->dv.dtype != ATTUNE_DTYPE_NONE;
    enum tool_exit status = TOOL_OK;
    if (args->dq.dtype != ATTUNE_DTYPE_NONE) {
        status = verify_places(verification, place_rows, of_rows, 1);
    }
    if (!status && has_keys) {
        status = verify_places(verification, place_keys, of_keys, 2);
    }
    return status;
}

static double error_of(const struct closeness *all, enum result result, attune_dtype dtype) {
    static const struct closeness none = {0};
    if (result == RESULT_LSE) {
        return closeness_lse(&all[result], dtype);
    }
    if (result == RESULT_DQ || result == RESULT_DK) {
        return closeness_score_gradient(&all[result], result == RESULT_DK ? &all[RESULT_DV] : &none);
    }
    return closeness_norm(&all[result]);
}

static void judge_results(const struct verification *verification, struct verdict *verdict) {
    attune_dtype dtype = verification->source.args->q.dtype;
    *verdict = (struct verdict){.is_right = true, .limit = 1, .result = "nothing"};
    for (int result = 0; result < RESULT_COUNT; result++) {
        if (verification->closeness[result].count == 0) {
            continue;
        }
        verdict_add(verdict, results[result].name, error_of(verification->closeness, result, dtype),
                    result == RESULT_LSE ? closeness_lse_limit(dtype) : conform_number_norm_limit(dtype));
    }
}

static enum tool_exit verify_attention(struct workload *workload, attune_device *reference,
                                       struct verdict *out_verdict) {
    struct host_memory memory = {0};
    attune_attention_args args;
    struct sequences sequences = {0};
    enum tool_exit status = mirror_attention(&workload->tensors, &workload->attention, &memory, &args);
    if (!status) {
        status = sequences_read(&workload->tensors, &workload->attention, &sequences);
    }
    struct verification verification = {.source = {&args, &sequences, workload->op}, .reference = reference};
    if (!status) {
        status = workload->op == ATTUNE_OP_BACKWARD ? verify_backward(&verification) : verify_forward(&verification);
    }
    if (!status) {
        judge_results(&verification, out_verdict);
    }
    sequences_release(&sequences);
    host_memory_release(&memory);
    return status;
}

enum tool_exit verify(struct workload *workload, attune_device *reference, struct verdict *out_verdict) {
    return workload->op == ATTUNE_OP_APPEND ? verify_append(workload, reference, out_verdict)
                                            : verify_attention(workload, reference, out_verdict);
}
