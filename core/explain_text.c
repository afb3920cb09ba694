/*
 * An explanation as text for people.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/args.h"
#include "core/status_internal.h"

/* Text that goes on to be counted when it no longer fits. */
struct writer {
    char *text;
    size_t capacity;
    size_t length;
};

ATTUNE_PRINTF(2, 0) static void vwrite(struct writer *writer, const char *format, va_list arguments) {
    bool fits = writer->length < writer->capacity;
    char *end = fits ? writer->text + writer->length : NULL;
    int length = vsnprintf(end, fits ? writer->capacity - writer->length : 0, format, arguments);
    writer->length += length > 0 ? (size_t)length : 0;
}

ATTUNE_PRINTF(2, 3) static void write_text(struct writer *writer, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vwrite(writer, format, arguments);
    va_end(arguments);
}

/* One line: a label, and what is to be said of it. An empty label goes on with the one above. */
ATTUNE_PRINTF(3, 4) static void write_line(struct writer *writer, const char *label, const char *format, ...) {
    va_list arguments;
    write_text(writer, "%-11s ", label);
    va_start(arguments, format);
    vwrite(writer, format, arguments);
    va_end(arguments);
    write_text(writer, "\n");
}

static void write_schedule(struct writer *writer, const attune_explanation *explanation) {
    if (explanation->tile_rows > 0) {
        write_line(writer, "tile", "%" PRId32 " rows x %" PRId32 " keys%s", explanation->tile_rows,
                   explanation->tile_keys, explanation->tile_is_tuned ? ", tuned" : "");
    } else {
        write_line(writer, "tile", "none");
    }
    write_line(writer, "splits", "%" PRId32, explanation->splits);
    write_line(writer, "pack", "%" PRId32 " query heads a tile", explanation->pack);
    write_line(writer, "grid", "%" PRId64 " row tiles x %" PRId64 " splits x %" PRId64 " batches and heads",
               explanation->grid[0], explanation->grid[1], explanation->grid[2]);
    write_line(writer, "alignment", "%" PRId32 " bytes", explanation->alignment_bytes);
    write_line(writer, "workspace", "%" PRIu64 " bytes", explanation->workspace_bytes);
}

static void write_cost(struct writer *writer, const attune_explanation *explanation) {
    write_line(writer, "tensors", "%" PRIu64 " bytes", explanation->tensor_bytes);
    write_line(writer, "pairs", "%.6g visible%s", explanation->visible_pairs,
               explanation->pairs_are_bound ? " at most: lengths, masks and block lists lie in device memory" : "");
    write_line(writer, "flops", "%.6g%s", explanation->flops, explanation->pairs_are_bound ? " at most" : "");
    write_line(writer, "bytes", "%.6g moved", explanation->bytes);
    write_line(writer, "intensity", "%.4g flops a byte", explanation->intensity);
    if (explanation->seconds_at_peak > 0) {
        write_line(writer, "roofline", "%.4g s at best, bound by %s", explanation->seconds_at_peak,
                   explanation->compute_bound ? "compute" : "memory");
    } else {
        write_line(writer, "roofline", "unknown: the device does not tell its peaks");
    }
}

static void write_refusals(struct writer *writer, const attune_explanation *explanation) {
    int32_t listed = explanation->refusals == NULL ? 0 : explanation->refusal_capacity;
    listed = listed < explanation->refusal_count ? listed : explanation->refusal_count;
    for (int32_t i = 0; i < listed; i++) {
        write_line(writer, i == 0 ? "refused" : "", "%s: %s", explanation->refusals[i].kernel,
                   explanation->refusals[i].reason);
    }
    if (listed < explanation->refusal_count) {
        write_line(writer, listed == 0 ? "refused" : "", "%" PRId32 "%s rows", explanation->refusal_count - listed,
                   listed == 0 ? "" : " more");
    }
}

attune_status attune_explanation_format(const attune_explanation *explanation, char *text, size_t capacity,
                                        size_t *out_length) {
    attune_explanation own;
    attune_status status = attune_args_import("attune_explanation", explanation, sizeof own, &own);
    if (status != ATTUNE_OK) {
        return status;
    }
    if (out_length == NULL || (text == NULL && capacity > 0)) {
        return attune_args_refuse_null(out_length == NULL ? "out_length" : "text");
    }
    struct writer writer = {text, capacity, 0};
    write_line(&writer, "problem", "%s", own.problem);
    write_line(&writer, "device", "%s", own.device);
    write_line(&writer, "kernel", "%s", own.status == ATTUNE_OK ? own.kernel : "none: UNSUPPORTED");
    if (own.status == ATTUNE_OK) {
        write_schedule(&writer, &own);
    }
    write_cost(&writer, &own);
    write_refusals(&writer, &own);
    *out_length = writer.length;
    return ATTUNE_OK;
}
