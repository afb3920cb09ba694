/*
 * The judge of the conformance suite on trial: what lies just within a bound of docs/semantics.md passes, what lies
 * just past it does not, and neither does anything else that a wrong kernel leaves behind. The bounds are computed here
 * anew, from the page's text.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/cmocka_all.h"

#include <math.h>
#include <stdlib.h>

#include "tests/conformance/case.h"
#include "tests/conformance/judge.h"
#include "tests/conformance/number.h"

#define WITHIN 0.95 /* of a bound; storing in f32 moves a value by a fiftieth of it at most */
#define PAST   1.05
#define UNIT   0x1p-24

static struct conform_subject subject;
static struct conform_solved solved;
static struct conform_outcome outcome;

/* ---- Problems ---- */

/* Small, with what widens bounds: GQA, ALiBi, bias and sink. */
static struct conform_options options_make(attune_op op, enum conform_values values) {
    struct conform_options options = conform_options_make(op, ATTUNE_DTYPE_F32);
    options.rows = 5;
    options.keys = 9;
    options.heads_q = 4;
    options.head_dim = 8;
    options.head_dim_v = 6;
    options.values = values;
    options.causal = true;
    options.slopes = CONFORM_SLOPES_BATCH_HEADS;
    options.bias.axes = "bhij";
    options.sink = true;
    options.probs = op == ATTUNE_OP_FORWARD;
    options.dlse = op == ATTUNE_OP_BACKWARD;
    conform_options_settle(&options);
    return options;
}

static void solve(const struct conform_options *options) {
    struct conform_context context = {.subject = &subject, .seed = 7, .outcome = &outcome};
    memset(&outcome, 0, sizeof outcome);
    if (!conform_solve(&context, options, &solved)) {
        fail_msg("%s", outcome.reason);
    }
}

static int start(void **state) {
    (void)state;
    return conform_subject_open("cpu", &subject) == ATTUNE_OK ? 0 : -1;
}

static int stop(void **state) {
    (void)state;
    conform_subject_close(&subject);
    return 0;
}

static bool is_right(void) {
    memset(&outcome, 0, sizeof outcome);
    return conform_judge_run(&solved.oracle, &solved.run, &outcome);
}

static uint8_t *element_at(attune_operand operand, const struct conform_element *element) {
    return solved.run.after[solved.problem->tensor[operand].buffer] + element->byte;
}

/* Whether the results are right with value in place of one element. */
static bool is_right_with(attune_operand operand, const struct conform_element *element, double value) {
    attune_dtype dtype = solved.problem->tensor[operand].view.dtype;
    uint8_t *at = element_at(operand, element);
    double before = conform_number_load(dtype, at);
    conform_number_store(dtype, value, at);
    bool right = is_right();
    conform_number_store(dtype, before, at);
    return right;
}

/* ---- Bounds, in the words of docs/semantics.md ---- */

static double input(attune_operand operand, int64_t b, int64_t s, int64_t h, int64_t d) {
    const int64_t *extent = solved.problem->tensor[operand].extent;
    return (
        double)((const float *)solved.oracle.stored[operand])[((b * extent[1] + s) * extent[2] + h) * extent[3] + d];
}

static double prob(int64_t b, int64_t h, int64_t i, int64_t j) {
    const struct conform_options *options = &solved.problem->options;
    return solved.oracle
        .exact[ATTUNE_OPERAND_PROBS][((b * options->heads_q + h) * options->rows + i) * options->keys + j];
}

static double dot_size(attune_operand x, int64_t s, int64_t h, attune_operand y, int64_t j, int64_t h_kv, int64_t b,
                       int64_t width) {
    double sum = 0;
    for (int64_t d = 0; d < width; d++) {
        sum += fabs(input(x, b, s, h, d) * input(y, b, j, h_kv, d));
    }
    return sum;
}

static double alibi(int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t shift = solved.problem->options.keys - solved.problem->options.rows;
    return input(ATTUNE_OPERAND_ALIBI_SLOPES, b, h, 0, 0) * (double)llabs(i + shift - j);
}

struct row_size {
    double sigma;
    double mean_alibi;
};

static struct row_size row_size(int64_t b, int64_t h, int64_t i) {
    const struct conform_options *options = &solved.problem->options;
    struct row_size size = {0, 0};
    for (int64_t j = 0; j <= i + options->keys - options->rows; j++) {
        double terms = dot_size(ATTUNE_OPERAND_Q, i, h, ATTUNE_OPERAND_K, j, h / 2, b, options->head_dim);
        size.sigma = fmax(size.sigma, terms / sqrt((double)options->head_dim));
        size.mean_alibi += prob(b, h, i, j) * alibi(b, h, i, j);
    }
    return size;
}

static double weight_error(int64_t b, int64_t h, int64_t i, double own_alibi) {
    struct row_size size = row_size(b, h, i);
    return 6 * UNIT * (8 + 2 * size.sigma + own_alibi + size.mean_alibi);
}

static double key_error(int64_t b, int64_t h, int64_t i, int64_t j) {
    return 1.5 * UNIT + weight_error(b, h, i, alibi(b, h, i, j));
}

/* Forward. The element's axes are those of its operand. */
static double forward_slack(attune_operand operand, const int64_t axis[4]) {
    const struct conform_options *options = &solved.problem->options;
    int64_t b = axis[0];
    if (operand == ATTUNE_OPERAND_PROBS) {
        return prob(b, axis[1], axis[2], axis[3]) *
               weight_error(b, axis[1], axis[2], alibi(b, axis[1], axis[2], axis[3]));
    }
    double sum = 0;
    for (int64_t j = 0; operand == ATTUNE_OPERAND_O && j < options->keys; j++) {
        double weight = key_error(b, axis[2], axis[1], j) * prob(b, axis[2], axis[1], j);
        sum += weight * fabs(input(ATTUNE_OPERAND_V, b, j, axis[2] / 2, axis[3]));
    }
    return sum;
}

static double lse_bound(const int64_t axis[4], double g) {
    struct row_size size = row_size(axis[0], axis[1], axis[2]);
    return 1e-5 * fmax(1, fabs(g)) + 6 * UNIT * (size.sigma + size.mean_alibi);
}

/* |dlse| + sum_d |do o| */
static double row_terms(int64_t b, int64_t h, int64_t i) {
    return fabs(input(ATTUNE_OPERAND_DLSE, b, h, i, 0)) +
           dot_size(ATTUNE_OPERAND_DOUT, i, h, ATTUNE_OPERAND_O, i, h, b, solved.problem->options.head_dim_v);
}

static double pair_terms(int64_t b, int64_t h, int64_t i, int64_t j) {
    double dp = dot_size(ATTUNE_OPERAND_DOUT, i, h, ATTUNE_OPERAND_V, j, h / 2, b, solved.problem->options.head_dim_v);
    return key_error(b, h, i, j) * prob(b, h, i, j) * (dp + row_terms(b, h, i));
}

static double key_slack(attune_operand operand, const int64_t axis[4]) {
    const struct conform_options *options = &solved.problem->options;
    double sum = 0;
    for (int64_t h = 2 * axis[2]; h < 2 * axis[2] + 2; h++) {
        for (int64_t i = 0; i < options->rows; i++) {
            double weight = key_error(axis[0], h, i, axis[1]) * prob(axis[0], h, i, axis[1]);
            sum += operand == ATTUNE_OPERAND_DV
                       ? weight * fabs(input(ATTUNE_OPERAND_DOUT, axis[0], i, h, axis[3]))
                       : pair_terms(axis[0], h, i, axis[1]) * fabs(input(ATTUNE_OPERAND_Q, axis[0], i, h, axis[3]));
        }
    }
    return operand == ATTUNE_OPERAND_DV ? sum : sum / sqrt((double)options->head_dim);
}

static double sink_slack(int64_t h) {
    const struct conform_options *options = &solved.problem->options;
    double sum = 0;
    for (int64_t b = 0; b < options->batch; b++) {
        for (int64_t i = 0; i < options->rows; i++) {
            double weight = exp(input(ATTUNE_OPERAND_SINK, h, 0, 0, 0) - input(ATTUNE_OPERAND_LSE, b, h, i, 0));
            sum += (1.5 * UNIT + weight_error(b, h, i, 0)) * weight * row_terms(b, h, i);
        }
    }
    return sum;
}

static double backward_slack(attune_operand operand, const int64_t axis[4]) {
    const struct conform_options *options = &solved.problem->options;
    double sum = 0;
    switch (operand) {
    case ATTUNE_OPERAND_DQ:
        for (int64_t j = 0; j < options->keys; j++) {
            sum += pair_terms(axis[0], axis[2], axis[1], j) *
                   fabs(input(ATTUNE_OPERAND_K, axis[0], j, axis[2] / 2, axis[3]));
        }
        return sum / sqrt((double)options->head_dim);
    case ATTUNE_OPERAND_DBIAS:
        return pair_terms(axis[0], axis[1], axis[2], axis[3]);
    case ATTUNE_OPERAND_DSINK:
        return sink_slack(axis[0]);
    default:
        return key_slack(operand, axis);
    }
}

static double bound_of(attune_operand operand, const int64_t axis[4], double g) {
    if (operand == ATTUNE_OPERAND_LSE) {
        return lse_bound(axis, g) + 0x1p-126;
    }
    bool is_forward = solved.problem->options.op == ATTUNE_OP_FORWARD;
    double slack = is_forward ? forward_slack(operand, axis) : backward_slack(operand, axis);
    return slack == 0 ? 0 : UNIT * fabs(g) + slack + 0x1p-126;
}

/* ---- Just within, just past; not on normal inputs, whose norm is limited besides ---- */

static void try_element(void *context, const struct conform_element *element) {
    attune_operand operand = *(const attune_operand *)context;
    double g = solved.oracle.exact[operand][element->compact];
    double bound = bound_of(operand, element->axis, g);
    for (int side = -1; side <= 1; side += 2) {
        if (bound > 0 && !is_right_with(operand, element, g + side * WITHIN * bound)) {
            fail_msg("refused within the bound %g: %s", bound, outcome.reason);
        }
        if (is_right_with(operand, element, g + side * fmax(PAST * bound, 0x1p-140))) {
            fail_msg("%s at %lld: an error past the bound %g is let through", conform_operand_name(operand),
                     (long long)element->compact, bound);
        }
    }
    if (is_right_with(operand, element, NAN) || is_right_with(operand, element, INFINITY) ||
        is_right_with(operand, element, -INFINITY)) {
        fail_msg("%s at %lld: no number is let through", conform_operand_name(operand), (long long)element->compact);
    }
}

static void try_outputs(const struct conform_options *options) {
    solve(options);
    for (int n = 0; n < CONFORM_OPERANDS; n++) {
        attune_operand operand = (attune_operand)n;
        if (conform_problem_has(solved.problem, operand) && conform_problem_writes(solved.problem, operand)) {
            conform_problem_visit(solved.problem, operand, try_element, &operand);
        }
    }
    conform_solved_free(&solved);
}

static void bounds_are_those_of_the_page_forward(void **state) {
    (void)state;
    const struct conform_options ordinary = options_make(ATTUNE_OP_FORWARD, CONFORM_VALUES_OUTLIERS);
    const struct conform_options large = options_make(ATTUNE_OP_FORWARD, CONFORM_VALUES_LARGE);
    try_outputs(&ordinary);
    try_outputs(&large);
}

static void bounds_are_those_of_the_page_backward(void **state) {
    (void)state;
    const struct conform_options ordinary = options_make(ATTUNE_OP_BACKWARD, CONFORM_VALUES_OUTLIERS);
    const struct conform_options large = options_make(ATTUNE_OP_BACKWARD, CONFORM_VALUES_LARGE);
    try_outputs(&ordinary);
    try_outputs(&large);
}

/* ---- What a wrong kernel leaves behind ---- */

struct row_change {
    attune_operand operand;
    int64_t row; /* of q */
    double value;
    bool is_unwritten; /* the bytes of before the call, in place of value */
};

static void change_row(void *context, const struct conform_element *element) {
    const struct row_change *change = context;
    const struct conform_tensor *tensor = &solved.problem->tensor[change->operand];
    bool is_row_third = change->operand == ATTUNE_OPERAND_LSE;
    if (element->axis[is_row_third ? 2 : 1] != change->row) {
        return;
    }
    uint8_t *at = element_at(change->operand, element);
    if (change->is_unwritten) {
        memcpy(at, solved.problem->buffer[tensor->buffer].image + element->byte,
               attune_dtype_size_bytes(tensor->view.dtype));
    } else {
        conform_number_store(tensor->view.dtype, change->value, at);
    }
}

static bool is_right_with_row(struct row_change change) {
    int buffer = solved.problem->tensor[change.operand].buffer;
    uint64_t bytes = solved.problem->buffer[buffer].size_bytes;
    uint8_t *before = malloc((size_t)bytes);
    assert_non_null(before);
    memcpy(before, solved.run.after[buffer], (size_t)bytes);
    conform_problem_visit(solved.problem, change.operand, change_row, &change);
    bool right = is_right();
    memcpy(solved.run.after[buffer], before, (size_t)bytes);
    free(before);
    return right;
}

static void a_row_that_was_not_written_is_found(void **state) {
    (void)state;
    const struct conform_options options = options_make(ATTUNE_OP_FORWARD, CONFORM_VALUES_NORMAL);
    solve(&options);
    for (int64_t row = 0; row < options.rows; row++) {
        assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_O, row, 0, true}));
        assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_O, row, 0, false}));
        assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_LSE, row, 0, true}));
    }
    assert_true(is_right());
    conform_solved_free(&solved);
}

/* Row 1 sees no key: o is 0 and lse -inf, exactly. */
static void a_row_that_sees_nothing_is_exact(void **state) {
    (void)state;
    struct conform_options options = options_make(ATTUNE_OP_FORWARD, CONFORM_VALUES_NORMAL);
    options.sink = false;
    options.mask.axes = "bhij";
    options.inject = CONFORM_INJECT_MASK_ROW;
    solve(&options);
    assert_true(is_right_with_row((struct row_change){ATTUNE_OPERAND_O, 1, -0.0, false}));
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_O, 1, 0x1p-140, false}));
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_O, 1, NAN, false}));
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_LSE, 1, -3e38, false}));
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_LSE, 1, INFINITY, false}));
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_LSE, 1, NAN, false}));
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_LSE, 2, -INFINITY, false}));
    conform_solved_free(&solved);
}

/* NaN in row 1 of q: that row is NaN, and no other may be. */
static void nan_is_where_the_reference_has_it(void **state) {
    (void)state;
    struct conform_options options = options_make(ATTUNE_OP_FORWARD, CONFORM_VALUES_NORMAL);
    options.heads_q = options.heads_kv = 1;
    options.inject = CONFORM_INJECT_Q_NAN;
    solve(&options);
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_O, 1, 0, false}));
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_LSE, 1, 0, false}));
    assert_false(is_right_with_row((struct row_change){ATTUNE_OPERAND_O, 2, NAN, false}));
    conform_solved_free(&solved);
}

static void scale_element(void *context, const struct conform_element *element) {
    attune_operand operand = *(const attune_operand *)context;
    float *at = (float *)(void *)element_at(operand, element);
    *at *= 1 + 0x1p-19f; /* 1.9e-6 */
}

/* Errors that each element may have, but that all have in one direction. */
static void the_norm_finds_what_no_element_shows(void **state) {
    (void)state;
    struct conform_options options = conform_options_make(ATTUNE_OP_FORWARD, ATTUNE_DTYPE_F32);
    attune_operand operand = ATTUNE_OPERAND_O;
    solve(&options);
    conform_problem_visit(solved.problem, operand, scale_element, &operand);
    assert_false(is_right());
    assert_contains(outcome.reason, "in norm");
    conform_solved_free(&solved);
}

static void a_byte_of_nobody_is_guarded(void **state) {
    (void)state;
    const struct conform_options options = options_make(ATTUNE_OP_FORWARD, CONFORM_VALUES_NORMAL);
    solve(&options);
    for (int n = 0; n < solved.problem->buffer_count; n++) {
        const struct conform_buffer *buffer = &solved.problem->buffer[n];
        for (uint64_t byte = 0; byte < buffer->size_bytes; byte++) {
            if (buffer->owner[byte] == CONFORM_OWNER_OUTPUT || buffer->owner[byte] == CONFORM_OWNER_EITHER) {
                continue;
            }
            solved.run.after[n][byte] ^= 1;
            assert_false(conform_run_check_guard(&solved.run, &outcome));
            solved.run.after[n][byte] ^= 1;
        }
    }
    memset(&outcome, 0, sizeof outcome);
    assert_true(conform_run_check_guard(&solved.run, &outcome));
    conform_solved_free(&solved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_those_of_the_page_forward), cmocka_unit_test(bounds_are_those_of_the_page_backward),
        cmocka_unit_test(a_row_that_was_not_written_is_found),  cmocka_unit_test(a_row_that_sees_nothing_is_exact),
        cmocka_unit_test(nan_is_where_the_reference_has_it),    cmocka_unit_test(the_norm_finds_what_no_element_shows),
        cmocka_unit_test(a_byte_of_nobody_is_guarded),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
