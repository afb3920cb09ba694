/*
 * What each element of an input is, before it is rounded to its dtype.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_VALUES_H
#define CONFORM_VALUES_H

#include "problem.h"

/* The value of a float input at an element. It depends on seed, operand and place alone: not on layout, paging, page
 * size or what other tensors there are. */
double conform_value(const struct conform_problem *problem, attune_operand operand,
                     const struct conform_element *element);

/* The value of an integer input. */
uint64_t conform_value_integer(const struct conform_problem *problem, attune_operand operand,
                               const struct conform_element *element);

#endif
