/*
 * The file is text: a line that names the kind of device, then a line for each problem class, "KEY BRxBC".
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/tuned_tile.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/plan.h"
#include "core/args.h"
#include "core/cache_file.h"
#include "core/describe.h"
#include "core/host.h"
#include "core/kernel_table.h"
#include "core/log_internal.h"
#include "core/plan.h"
#include "core/status_internal.h"
#include "core/text.h"

#define LINE_BYTES      256
#define FILE_BYTES_MAX  (1 << 20)
#define ROWS_THAT_COUNT 65536 /* beyond, a product of rows and heads changes nothing */

/* ---- Keys ---- */

/* What changes the work of a tile. Lengths, left padding, sinks and extra outputs do not. */
#define FEATURES_OF_CLASS                                                                                              \
    (ATTUNE_FEATURE_CAUSAL | ATTUNE_FEATURE_WINDOW | ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI |                   \
     ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_MASK | ATTUNE_FEATURE_DROPOUT | ATTUNE_FEATURE_PAGED |                       \
     ATTUNE_FEATURE_BLOCK_SPARSE | ATTUNE_FEATURE_DESCALE | ATTUNE_FEATURE_DETERMINISTIC)

/* The cache file's name: keys of cache files are lower-case letters, digits and a few signs. */
static void format_file_key(const attune_device *device, char out_key[LINE_BYTES]) {
    snprintf(out_key, LINE_BYTES, "tiles-%.*s-%.*s", ATTUNE_NAME_MAX, device->backend->name, ATTUNE_NAME_MAX,
             device->limits.architecture);
    for (char *at = out_key; *at != '\0'; at++) {
        const char lower = attune_lower(*at);
        *at = strchr("abcdefghijklmnopqrstuvwxyz0123456789-.", lower) != NULL ? lower : '_';
    }
}

/* Two architectures may share a file's name; they do not share this. */
static void format_device_line(const attune_device *device, char out_line[LINE_BYTES]) {
    snprintf(out_line, LINE_BYTES, "%.*s %.*s\n", ATTUNE_NAME_MAX, device->backend->name, ATTUNE_NAME_MAX,
             device->limits.architecture);
}

static void format_class(const attune_problem *problem, const attune_kernel_row *row, char out_key[LINE_BYTES]) {
    const int64_t group = problem->heads_kv > 0 ? problem->heads_q / problem->heads_kv : 1;
    const int64_t rows = attune_min(problem->rows, ROWS_THAT_COUNT) * attune_min(group, ROWS_THAT_COUNT);
    snprintf(out_key, LINE_BYTES, "%.*s %s d%" PRId64 " dv%" PRId64 " rows%" PRId32 " keys%" PRId32 " features%" PRIx64,
             ATTUNE_NAME_MAX, row->name, attune_dtype_name(problem->dtype), problem->head_dim, problem->head_dim_v,
             attune_tile_side_limit(rows), attune_tile_side_limit(problem->keys),
             problem->features & FEATURES_OF_CLASS);
}

/* ---- Reading ---- */

static bool side_is_valid(long side) {
    return side >= ATTUNE_TILE_SIDE_MIN && side <= ATTUNE_TILE_SIDE_MAX;
}

static bool read_tile(const char *text, struct attune_tile *out_tile) {
    char *end;
    const long rows = strtol(text, &end, 10);
    const long keys = *end == 'x' ? strtol(end + 1, &end, 10) : 0;
    out_tile->rows = (int32_t)rows;
    out_tile->keys = (int32_t)keys;
    return side_is_valid(rows) && side_is_valid(keys) && *end == '\n';
}

/* The line of a key, and where its tile begins; NULL if there is none. */
static const char *find_line(const char *text, const char *key, const char **out_value) {
    const size_t length = strlen(key);
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            *out_value = line + length + 1;
            return line;
        }
    }
    return NULL;
}

/* Text of whole lines, the first of which is the device's; NULL if that is not what the bytes are. */
static char *copy_text(const attune_device *device, const char *bytes, size_t size) {
    char device_line[LINE_BYTES];
    format_device_line(device, device_line);
    const size_t length = strlen(device_line);
    const bool is_right = size >= length && size <= FILE_BYTES_MAX && bytes[size - 1] == '\n' &&
                          memcmp(bytes, device_line, length) == 0 && memchr(bytes, '\0', size) == NULL;
    char *text = is_right ? attune_host_alloc(size + 1) : NULL;
    if (text != NULL) {
        memcpy(text, bytes, size);
    }
    return text;
}

void attune_tuned_tiles_load(attune_device *device) {
    struct attune_sentence before;
    char key[LINE_BYTES];
    void *bytes;
    size_t size;
    attune_sentence_save(&before);
    format_file_key(device, key);
    if (attune_cache_file_read(key, &bytes, &size) == ATTUNE_OK) {
        device->tuned_tiles = copy_text(device, bytes, size);
        attune_host_free(bytes);
        if (device->tuned_tiles == NULL) {
            attune_log_write(ATTUNE_LOG_WARN, "cache file %s is not what attune tune writes: not used", key);
        }
    }
    attune_sentence_restore(&before);
}

bool attune_tuned_tile_find(const attune_device *device, const attune_problem *problem, const attune_kernel_row *row,
                            struct attune_tile *out_tile) {
    char key[LINE_BYTES];
    const char *value;
    if (device->tuned_tiles == NULL || (row->features & ATTUNE_FEATURE_ANY_TILE) == 0) {
        return false;
    }
    format_class(problem, row, key);
    return find_line(device->tuned_tiles, key, &value) != NULL && read_tile(value, out_tile);
}

/* ---- Keeping ---- */

/* The lines of text without that of the key, and one for the key. From attune_host_alloc. */
static char *replace_line(const char *text, const char *key, struct attune_tile tile) {
    const char *value;
    const char *old = find_line(text, key, &value);
    const size_t before = old == NULL ? strlen(text) : (size_t)(old - text);
    const char *rest = old == NULL ? "" : strchr(old, '\n') + 1;
    const size_t capacity = strlen(text) + 2 * LINE_BYTES;
    char *replaced = attune_host_alloc(capacity);
    if (replaced != NULL) {
        snprintf(replaced, capacity, "%.*s%s%s %" PRId32 "x%" PRId32 "\n", (int)before, text, rest, key, tile.rows,
                 tile.keys);
    }
    return replaced;
}

/* Reads what there is now, not when the device was opened: another process may have kept something since. */
static attune_status keep(attune_device *device, const char *key, struct attune_tile tile) {
    attune_device now = {.backend = device->backend, .limits = device->limits};
    char device_line[LINE_BYTES];
    char file_key[LINE_BYTES];
    format_device_line(device, device_line);
    format_file_key(device, file_key);
    attune_tuned_tiles_load(&now);
    char *text = replace_line(now.tuned_tiles == NULL ? device_line : now.tuned_tiles, key, tile);
    attune_status status = text == NULL ? attune_fail(ATTUNE_OUT_OF_MEMORY, "no host memory for %s", file_key)
                                        : attune_cache_file_write(file_key, text, strlen(text));
    attune_host_free(text);
    attune_host_free(now.tuned_tiles);
    return status;
}

/* Chooses the row that is to take the tile. */
static attune_status choose_row(const attune_device *device, const struct attune_call *call,
                                struct attune_choice *out_choice) {
    struct attune_refusal_list uncollected = {NULL, 0, 0};
    attune_status status = attune_kernel_choose(device, &call->problem, &call->request, &uncollected, out_choice);
    if (status == ATTUNE_OK && out_choice->row < 0) {
        return attune_kernel_fail_unsupported(device, &call->problem, &call->request);
    }
    if (status == ATTUNE_OK && (out_choice->kernel.features & ATTUNE_FEATURE_ANY_TILE) == 0) {
        return attune_fail(ATTUNE_UNSUPPORTED, "kernel %s has a tile of its own", out_choice->kernel.name);
    }
    return status;
}

attune_status attune_tile_keep(attune_device *device, attune_op op, const void *args, int32_t tile_rows,
                               int32_t tile_keys) {
    struct attune_call call;
    struct attune_choice choice;
    char key[LINE_BYTES];
    if (!side_is_valid(tile_rows) || !side_is_valid(tile_keys)) {
        return attune_fail(ATTUNE_INVALID_ARGUMENT,
                           "tile_rows = %" PRId32 ", tile_keys = %" PRId32 ": must each be %d to %d", tile_rows,
                           tile_keys, ATTUNE_TILE_SIDE_MIN, ATTUNE_TILE_SIDE_MAX);
    }
    attune_status status = attune_call_prepare(device, op, args, true, &call);
    if (status == ATTUNE_OK) {
        status = choose_row(device, &call, &choice);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    format_class(&call.problem, &choice.kernel, key);
    return keep(device, key, (struct attune_tile){tile_rows, tile_keys});
}
