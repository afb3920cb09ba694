/*
 * The axes of a problem by name, and the forms of tensors over them: which extents have to agree, and how each tensor
 * is brought to the four canonical axes of attune_layout.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_AXIS_H
#define ATTUNE_CORE_AXIS_H

#include "attune/backend.h"

enum attune_axis {
    ATTUNE_AXIS_B,
    ATTUNE_AXIS_SQ, /* of a sequence at most, as SK */
    ATTUNE_AXIS_SK,
    ATTUNE_AXIS_SNEW,
    ATTUNE_AXIS_HQ,
    ATTUNE_AXIS_HKV,
    ATTUNE_AXIS_D,
    ATTUNE_AXIS_DV,
    ATTUNE_AXIS_TOTAL_Q, /* rows of a packed batch */
    ATTUNE_AXIS_TOTAL_K,
    ATTUNE_AXIS_PAGES,
    ATTUNE_AXIS_PAGE_SIZE,
    ATTUNE_AXIS_COLUMNS,   /* of the block table */
    ATTUNE_AXIS_NQ,        /* blocks of rows in a block-sparse pattern */
    ATTUNE_AXIS_BLOCKS,    /* key blocks that a block-sparse pattern names */
    ATTUNE_AXIS_DESCALE_Q, /* blocks of 128 positions */
    ATTUNE_AXIS_DESCALE_K,
    ATTUNE_AXIS_POSITIONS, /* of the rotary tables */
    ATTUNE_AXIS_ROTARY_PAIRS,
    ATTUNE_AXIS_ONE,
    ATTUNE_AXIS_COUNT
};

enum attune_form {
    ATTUNE_FORM_ROWS_D, /* (B, Sq, Hq, D), packed (total, Hq, D) */
    ATTUNE_FORM_ROWS_DV,
    ATTUNE_FORM_KEYS_D, /* (B, Sk, Hkv, D), packed (total, Hkv, D), paged (pages, page_size, Hkv, D) */
    ATTUNE_FORM_KEYS_DV,
    ATTUNE_FORM_NEW_D, /* (B, Snew, Hkv, D) */
    ATTUNE_FORM_NEW_DV,
    ATTUNE_FORM_LSE,       /* (B, Hq, Sq), packed (Hq, total) */
    ATTUNE_FORM_SCORES,    /* (B, Hq, Sq, Sk) */
    ATTUNE_FORM_BROADCAST, /* broadcastable to that, from the right */
    ATTUNE_FORM_SLOPES,    /* (Hq) or (B, Hq) */
    ATTUNE_FORM_HEADS,     /* (Hq) */
    ATTUNE_FORM_OFFSETS,   /* (B + 1) */
    ATTUNE_FORM_LENGTHS,   /* (B) */
    ATTUNE_FORM_TABLE,     /* (B, columns) */
    ATTUNE_FORM_ROW_PTR,   /* (nq + 1) or (Hq, nq + 1) */
    ATTUNE_FORM_COL_IDX,   /* (blocks) */
    ATTUNE_FORM_DESCALE_Q, /* (1), (B, Hkv) or (B, Hkv, ceil(Sq / 128)) */
    ATTUNE_FORM_DESCALE_K,
    ATTUNE_FORM_ROTARY, /* (positions, rotary_dim / 2) */
    ATTUNE_FORM_ONE     /* (1) */
};

/* The extents of a problem as far as they are known, and who made them so. */
struct attune_extents {
    bool packed_q; /* rows of all sequences in one axis */
    bool packed_k;
    bool paged;
    int64_t value[ATTUNE_AXIS_COUNT];               /* -1: not known yet */
    const char *source[ATTUNE_AXIS_COUNT];          /* an argument's name, or what the extent is computed from */
    const attune_tensor *tensor[ATTUNE_AXIS_COUNT]; /* the tensor of that argument; NULL if it is none */
};

void attune_extents_init(struct attune_extents *out_extents);

/* Sets an extent that no tensor shows. source: "max_seqlen_q", for the sentence when a tensor contradicts. */
void attune_extents_set(struct attune_extents *extents, enum attune_axis axis, int64_t value, const char *source);

/* Checks a tensor against its form: rank, the extents that are known, a last axis without gaps. Sets those that were
 * not known. INVALID_ARGUMENT prints both shapes. */
ATTUNE_MUST_CHECK attune_status attune_extents_bind(struct attune_extents *extents, enum attune_form form,
                                                    const char *argument, const attune_tensor *tensor);

/* The canonical layout of a tensor that has been bound. Axes of extent 1 or less get stride 0, or 1 where the form has
 * no gaps in its last axis, so that equal problems are equal in their bytes. */
void attune_extents_lay_out(const struct attune_extents *extents, enum attune_form form, const attune_tensor *tensor,
                            attune_layout *out_layout);

#endif
