/*
 * docs/semantics.md, "FP8": what a value is stored as where its descale is given.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_REFERENCE_SCALE_H
#define ATTUNE_REFERENCE_SCALE_H

/* value = stored * descale; a descale of 0 makes every value 0, and is stored as 0. */
static inline double attune_reference_descaled(double value, double descale) {
    return descale == 0 ? 0.0 : value / descale;
}

#endif
