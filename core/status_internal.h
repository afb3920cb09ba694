/*
 * How core reports an error: it sets this thread's sentence and returns the status.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_STATUS_INTERNAL_H
#define ATTUNE_CORE_STATUS_INTERNAL_H

#include "attune/status.h"

#define ATTUNE_SENTENCE_MAX 8192

/* Also host->fail of backend.h. The sentence is cut at ATTUNE_SENTENCE_MAX. status must not be ATTUNE_OK. The last
 * sentence may be part of the new one. */
attune_status attune_fail(attune_status status, const char *format, ...) ATTUNE_PRINTF(2, 3);

/* A failure that was dealt with: the sentence as it was before, to be put back. */
struct attune_sentence {
    char text[ATTUNE_SENTENCE_MAX];
};

void attune_sentence_save(struct attune_sentence *out_saved);
void attune_sentence_restore(const struct attune_sentence *saved);

/* Before a backend's function is called: what it leaves in the sentence is then its own. */
void attune_sentence_clear(void);

#endif
