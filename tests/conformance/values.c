/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include <math.h>

#include "number.h"
#include "random.h"

static uint64_t key_of(const struct conform_problem *problem, attune_operand operand,
                       const struct conform_element *element) {
    uint64_t place = 0;
    for (int k = 0; k < 4; k++) {
        place = place * UINT64_C(0xD1342543DE82EF95) + (uint64_t)element->axis[k];
    }
    return conform_random_mix(problem->seed ^ (uint64_t)(operand + 1) * CONFORM_RANDOM_GAMMA) ^ place;
}

static double flat_value(const struct conform_options *options, attune_operand operand, double normal) {
    return operand == ATTUNE_OPERAND_Q && options->values >= CONFORM_VALUES_FLAT ? 0.0 : normal;
}

static bool is_heavy(const struct conform_options *options, int64_t key) {
    return options->values == CONFORM_VALUES_HEAVIEST ? key == 0 : key % 50 == 0;
}

static double value_of_v(const struct conform_options *options, const struct conform_element *element, double normal) {
    int64_t j = element->axis[1];
    switch (options->values) {
    case CONFORM_VALUES_TINY:
        return 2 * normal * conform_number_smallest_normal(options->dtype);
    case CONFORM_VALUES_HEAD:
        return 1.0 + (double)element->axis[2];
    case CONFORM_VALUES_ONES:
        return 1.0;
    case CONFORM_VALUES_ALTERNATING:
        return j % 2 ? -999.0 : 1000.0;
    case CONFORM_VALUES_STEP:
        return j == 0 ? 0.0 : options->dtype == ATTUNE_DTYPE_E4M3 ? 256.0 : 1e4;
    default:
        return normal;
    }
}

/* What the score of a key moves by from key to key, whatever the row; 0 where values do not say. */
static double level_of_key(const struct conform_problem *problem, const struct conform_element *element) {
    static const double levels[] = {-300, -100, -60, -25, -9, 0, 5, 40};
    const int64_t j = element->axis[1];
    switch (problem->options.values) {
    case CONFORM_VALUES_RISING:
        return (element->axis[2] % 2 ? -0.3 : 0.3) * (double)j;
    case CONFORM_VALUES_JUMPING:
        return levels[conform_random_mix(problem->seed + (uint64_t)(j / 64)) % 8];
    case CONFORM_VALUES_HEAVY:
        return is_heavy(&problem->options, j) ? 17 : 0;
    case CONFORM_VALUES_HEAVIER:
        return is_heavy(&problem->options, j) ? 30 : 0;
    case CONFORM_VALUES_HEAVIEST:
        return is_heavy(&problem->options, j) ? 60 : 0;
    default:
        return 0;
    }
}

/* Values whose scores move with the key: by the first element of q, which is 1, and of k. */
static double moving_value(const struct conform_problem *problem, attune_operand operand,
                           const struct conform_element *element, double normal) {
    const struct conform_options *options = &problem->options;
    const bool is_first = element->axis[3] == 0;
    switch (operand) {
    case ATTUNE_OPERAND_Q:
        return is_first ? 1 : normal;
    case ATTUNE_OPERAND_K:
        return is_first ? level_of_key(problem, element) * sqrt((double)options->head_dim) : normal;
    case ATTUNE_OPERAND_V:
        return options->values >= CONFORM_VALUES_HEAVY && is_heavy(options, element->axis[1]) ? 0 : normal;
    default:
        return normal;
    }
}

/* q, k, v and dout. */
static double main_value(const struct conform_problem *problem, attune_operand operand,
                         const struct conform_element *element) {
    const struct conform_options *options = &problem->options;
    uint64_t key = key_of(problem, operand, element);
    double normal = conform_random_normal(key);
    switch (options->values) {
    case CONFORM_VALUES_NORMAL:
        return normal;
    case CONFORM_VALUES_OUTLIERS:
        return conform_random_uniform(~key) < 0.001 ? 10 * normal : normal;
    case CONFORM_VALUES_LARGE:
        return operand == ATTUNE_OPERAND_Q || operand == ATTUNE_OPERAND_K ? 10 * normal : normal;
    case CONFORM_VALUES_TINY:
    case CONFORM_VALUES_HEAD:
        return operand == ATTUNE_OPERAND_V ? value_of_v(options, element, normal) : normal;
    case CONFORM_VALUES_RISING:
    case CONFORM_VALUES_JUMPING:
    case CONFORM_VALUES_HEAVY:
    case CONFORM_VALUES_HEAVIER:
    case CONFORM_VALUES_HEAVIEST:
        return moving_value(problem, operand, element, normal);
    default:
        return operand == ATTUNE_OPERAND_V ? value_of_v(options, element, normal)
                                           : flat_value(options, operand, normal);
    }
}

/* Infinite scores of row 1, all of one sign: k's first elements are positive. */
static double hiding_row(attune_operand operand, const int64_t axis[4], double value) {
    if (axis[3] != 0) {
        return value;
    }
    if (operand == ATTUNE_OPERAND_Q && axis[1] == 1) {
        return -INFINITY;
    }
    return operand == ATTUNE_OPERAND_K ? 1 + fabs(value) : value;
}

static double hiding_dout(attune_operand operand, const int64_t axis[4], double value) {
    if (operand == ATTUNE_OPERAND_BIAS) {
        return axis[2] == 1 || axis[3] == 0 ? -INFINITY : value;
    }
    return operand == ATTUNE_OPERAND_DOUT && axis[1] <= 1 && axis[3] == 0 ? NAN : value;
}

/* Whether the element lies in what the injection is about, and what it becomes. */
static double injected(const struct conform_problem *problem, attune_operand operand,
                       const struct conform_element *element, double value) {
    const int64_t *axis = element->axis;
    bool is_bias = operand == ATTUNE_OPERAND_BIAS;
    int64_t heads = problem->options.sink ? 3 : 1;                    /* one with each kind of sink */
    bool is_in_row = axis[1] == 1 && axis[2] < heads && axis[3] == 0; /* of q or dout */
    bool is_last_key = operand <= ATTUNE_OPERAND_V && axis[1] == problem->sequence[axis[0]].keys - 1 && axis[3] == 0;
    switch (problem->options.inject) {
    case CONFORM_INJECT_Q_NAN:
        return operand == ATTUNE_OPERAND_Q && is_in_row ? NAN : value;
    case CONFORM_INJECT_Q_INFINITE:
        return operand == ATTUNE_OPERAND_Q && is_in_row ? INFINITY : value;
    case CONFORM_INJECT_Q_HIDES_ROW:
        return hiding_row(operand, axis, value);
    case CONFORM_INJECT_DOUT_NAN:
        return operand == ATTUNE_OPERAND_DOUT && is_in_row ? NAN : value;
    case CONFORM_INJECT_DOUT_INFINITE:
        return operand == ATTUNE_OPERAND_DOUT && is_in_row ? INFINITY : value;
    case CONFORM_INJECT_DLSE_NAN: /* whose heads come before its rows */
        return operand == ATTUNE_OPERAND_DLSE && axis[1] < heads && axis[2] == 1 ? NAN : value;
    case CONFORM_INJECT_BIAS_INFINITE:
        return is_bias && axis[2] == 1 && axis[3] == 0 ? INFINITY : value;
    case CONFORM_INJECT_BIAS_HIDES_KEY:
        return is_bias && axis[3] == 0 ? -INFINITY : value;
    case CONFORM_INJECT_BIAS_HIDES_ROW:
        return is_bias && axis[2] == 1 ? -INFINITY : value;
    case CONFORM_INJECT_BIAS_HIDES_DOUT:
        return hiding_dout(operand, axis, value);
    case CONFORM_INJECT_BIAS_LOW:
        return is_bias && axis[2] == 1 ? -1e30 : value;
    case CONFORM_INJECT_K_HIDDEN_NAN:
        return operand == ATTUNE_OPERAND_K && is_last_key ? NAN : value;
    case CONFORM_INJECT_K_HIDDEN_INFINITE:
        return operand == ATTUNE_OPERAND_K && is_last_key ? INFINITY : value;
    case CONFORM_INJECT_V_HIDDEN_NAN:
        return operand == ATTUNE_OPERAND_V && is_last_key ? NAN : value;
    case CONFORM_INJECT_V_HIDDEN_INFINITE:
        return operand == ATTUNE_OPERAND_V && is_last_key ? INFINITY : value;
    case CONFORM_INJECT_ZERO_SIGNED:
        return operand <= ATTUNE_OPERAND_V && axis[3] % 3 == 0 ? (axis[1] % 2 ? -0.0 : 0.0) : value;
    default:
        return value;
    }
}

/* Rows that flush subnormals are not judged on them, except where tiny values are what the case is about. */
static double without_subnormals(const struct conform_options *options, double value) {
    bool keeps = options->dtype == ATTUNE_DTYPE_E4M3 || options->values == CONFORM_VALUES_TINY;
    return !keeps && fabs(value) < conform_number_smallest_normal(options->dtype) ? copysign(0.0, value) : value;
}

static double slope_value(const struct conform_options *options, const struct conform_element *element) {
    if (options->slopes == CONFORM_SLOPES_LN2) {
        return log(2.0);
    }
    return ldexp(1.0 + 0.25 * (double)element->axis[0], -2 - (int)(element->axis[1] % 6));
}

/* Of two heads one has no sink, of more each third; of one f32 does not tell the weight from 0. */
static double sink_value(const struct conform_problem *problem, const struct conform_element *element) {
    const struct conform_options *options = &problem->options;
    const int64_t head = element->axis[0];
    const int64_t kinds = options->heads_q == 2 ? 2 : 3;
    if (options->inject == CONFORM_INJECT_DOUT_NAN && head % 3 == 1) {
        return -200;
    }
    return head % kinds == kinds - 1 ? -INFINITY : conform_random_normal(key_of(problem, ATTUNE_OPERAND_SINK, element));
}

static double descale_value(const struct conform_problem *problem, attune_operand operand,
                            const struct conform_element *element) {
    bool is_zero = problem->options.descale == CONFORM_DESCALE_ZERO && operand == ATTUNE_OPERAND_DESCALE_V;
    if (is_zero && element->axis[1] == 0) {
        return 0.0;
    }
    return 0.5 + 1.5 * conform_random_uniform(key_of(problem, operand, element));
}

double conform_value(const struct conform_problem *problem, attune_operand operand,
                     const struct conform_element *element) {
    const struct conform_options *options = &problem->options;
    switch (operand) {
    case ATTUNE_OPERAND_Q:
    case ATTUNE_OPERAND_K:
    case ATTUNE_OPERAND_V:
    case ATTUNE_OPERAND_DOUT: {
        double value = without_subnormals(options, main_value(problem, operand, element));
        return injected(problem, operand, element, value);
    }
    case ATTUNE_OPERAND_DLSE:
    case ATTUNE_OPERAND_BIAS:
        return injected(problem, operand, element, conform_random_normal(key_of(problem, operand, element)));
    case ATTUNE_OPERAND_ALIBI_SLOPES:
        return slope_value(options, element);
    case ATTUNE_OPERAND_SINK:
        return sink_value(problem, element);
    case ATTUNE_OPERAND_DESCALE_Q:
    case ATTUNE_OPERAND_DESCALE_K:
    case ATTUNE_OPERAND_DESCALE_V:
        return descale_value(problem, operand, element);
    default:
        return conform_random_normal(key_of(problem, operand, element));
    }
}

static uint64_t mask_value(const struct conform_problem *problem, const struct conform_element *element) {
    if (problem->options.inject == CONFORM_INJECT_MASK_ROW && element->axis[2] == 1) {
        return 0;
    }
    uint64_t drawn = conform_random_mix(key_of(problem, ATTUNE_OPERAND_MASK, element));
    return drawn % 4 == 0 ? 0 : 1 + (drawn >> 8) % 255; /* any nonzero byte is visible */
}

uint64_t conform_value_integer(const struct conform_problem *problem, attune_operand operand,
                               const struct conform_element *element) {
    int64_t n = element->axis[0];
    int64_t m = element->axis[1];
    switch (operand) {
    case ATTUNE_OPERAND_MASK:
        return mask_value(problem, element);
    case ATTUNE_OPERAND_CU_SEQLENS_Q:
        return (uint32_t)problem->cu_seqlens[0][n];
    case ATTUNE_OPERAND_CU_SEQLENS_K:
        return (uint32_t)problem->cu_seqlens[1][n];
    case ATTUNE_OPERAND_SEQUSED_Q:
        return (uint32_t)problem->seqused[0][n];
    case ATTUNE_OPERAND_SEQUSED_K:
        return (uint32_t)problem->seqused[1][n];
    case ATTUNE_OPERAND_LEFTPAD_K:
        return (uint32_t)problem->leftpad[n];
    case ATTUNE_OPERAND_BLOCK_TABLE:
        return (uint32_t)problem->block_table[n * problem->columns + m];
    case ATTUNE_OPERAND_BLOCK_ROW_PTR:
        return (uint32_t)problem->block_row_ptr[n * (problem->block_rows_count + 1) + m];
    case ATTUNE_OPERAND_BLOCK_COL_IDX:
        return (uint32_t)problem->block_col_idx[n];
    case ATTUNE_OPERAND_DROPOUT_SEED:
        return problem->dropout_seed;
    default:
        return problem->dropout_offset;
    }
}
