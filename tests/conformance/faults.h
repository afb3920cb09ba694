/*
 * The rows of tests/faults.md that need no GPU, in two lists.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef CONFORM_FAULTS_H
#define CONFORM_FAULTS_H

#include "case.h"

void conform_list_faults_score(struct conform_list *list); /* scores, masks, lse, gradients */
void conform_list_faults_shape(struct conform_list *list); /* lengths, layouts, pages, sizes, splits, memory */

#endif
