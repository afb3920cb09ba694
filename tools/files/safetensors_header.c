/* SPDX-License-Identifier: Apache-2.0 */
#include "safetensors_header.h"

#include "allocate.h"
#include "safetensors_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum array_type type;
} safetensors_types[] = {
    {"F64", ARRAY_F64}, {"F32", ARRAY_F32}, {"F16", ARRAY_F16}, {"BF16", ARRAY_BF16}, {"F8_E4M3", ARRAY_E4M3},
    {"I64", ARRAY_I64}, {"I32", ARRAY_I32}, {"I16", ARRAY_I16}, {"I8", ARRAY_I8},     {"U64", ARRAY_U64},
    {"U32", ARRAY_U32}, {"U16", ARRAY_U16}, {"U8", ARRAY_U8},   {"BOOL", ARRAY_BOOL},
};

enum { TYPE_COUNT = sizeof safetensors_types / sizeof safetensors_types[0] };

static const char metadata_key[] = "__metadata__";

enum files_status safetensors_prefix_parse(const unsigned char *bytes, int64_t file_bytes,
                                           const struct files_report *report, int64_t *out_header_bytes) {
    if (file_bytes < SAFETENSORS_PREFIX_BYTES) {
        return files_report_fail(report, FILES_INVALID,
                                 "ends after %" PRId64 " bytes; .safetensors starts with 8 bytes "
                                 "of header length",
                                 file_bytes);
    }
    uint64_t length = 0;
    for (int i = SAFETENSORS_PREFIX_BYTES - 1; i >= 0; --i) {
        length = length << 8 | bytes[i];
    }
    const int64_t left_bytes = file_bytes - SAFETENSORS_PREFIX_BYTES;
    if (length > (uint64_t)left_bytes) {
        return files_report_fail(report, FILES_INVALID,
                                 "header of %" PRIu64 " bytes, but %" PRId64 " bytes are left in the file", length,
                                 left_bytes);
    }
    if (length > SAFETENSORS_HEADER_MAX_BYTES) {
        return files_report_fail(report, FILES_INVALID, "header of %" PRIu64 " bytes; the format allows %d", length,
                                 (int)SAFETENSORS_HEADER_MAX_BYTES);
    }
    *out_header_bytes = (int64_t)length;
    return FILES_OK;
}

/* One tensor of the header. Names in messages are cut at 80 bytes: they come from the file. */
struct entry {
    const cJSON *item;
    int64_t begin;
    int64_t end;
};

static int compare_names(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    return strcmp(a->item->string, b->item->string);
}

static int compare_offsets(const void *left, const void *right) {
    const struct entry *a = left, *b = right;
    if (a->begin != b->begin) {
        return a->begin < b->begin ? -1 : 1;
    }
    return (a->end > b->end) - (a->end < b->end);
}

/* The member `key` of a tensor's object: there, once and of the right kind, or NULL with the reason
 * told. */
static const cJSON *get_member(const cJSON *tensor, const char *key, bool is_array, const struct files_report *report) {
    const cJSON *found = NULL;
    const cJSON *member = NULL;
    cJSON_ArrayForEach(member, tensor) {
        if (strcmp(member->string, key) != 0) {
            continue;
        }
        if (found != NULL) {
            files_report_fail(report, FILES_INVALID, "tensor '%.80s' has %s twice", tensor->string, key);
            return NULL;
        }
        found = member;
    }
    if (found == NULL || !(is_array ? cJSON_IsArray(found) : cJSON_IsString(found))) {
        files_report_fail(report, FILES_INVALID, "tensor '%.80s' has no %s that is %s", tensor->string, key,
                          is_array ? "an array" : "a string");
        return NULL;
    }
    return found;
}

static enum files_status parse_offsets(const cJSON *tensor, int64_t data_bytes, const struct files_report *report,
                                       struct entry *out_entry) {
    const cJSON *offsets = get_member(tensor, "data_offsets", true, report);
    if (offsets == NULL) {
        return FILES_INVALID;
    }
    int64_t begin = 0, end = 0;
    if (cJSON_GetArraySize(offsets) != 2 || !safetensors_json_integer(cJSON_GetArrayItem(offsets, 0), &begin) ||
        !safetensors_json_integer(cJSON_GetArrayItem(offsets, 1), &end)) {
        return files_report_fail(report, FILES_INVALID,
                                 "tensor '%.80s' has data_offsets that are not two whole numbers "
                                 "in [0, 2^53)",
                                 tensor->string);
    }
    if (begin > end || end > data_bytes) {
        return files_report_fail(report, FILES_INVALID,
                                 "tensor '%.80s' has data_offsets [%" PRId64 ", %" PRId64
                                 "]; they must rise and lie within the %" PRId64 " bytes after the header",
                                 tensor->string, begin, end, data_bytes);
    }
    *out_entry = (struct entry){tensor, begin, end};
    return FILES_OK;
}

static enum files_status check_metadata(const cJSON *metadata, const struct files_report *report) {
    bool right = cJSON_IsObject(metadata);
    const cJSON *value = NULL;
    cJSON_ArrayForEach(value, metadata) {
        right = right && cJSON_IsString(value);
    }
    if (!right) {
        return files_report_fail(report, FILES_INVALID, "%s is not an object of strings", metadata_key);
    }
    return FILES_OK;
}

static bool is_metadata(const cJSON *item) {
    return strcmp(item->string, metadata_key) == 0;
}

/* `out_entries` has room for all items of the header. */
static enum files_status collect_entries(const cJSON *header, int64_t data_bytes, const struct files_report *report,
                                         struct entry *out_entries, int64_t *out_count) {
    int64_t count = 0, metadata_count = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, header) {
        enum files_status status = FILES_OK;
        if (is_metadata(item)) {
            status = check_metadata(item, report);
            metadata_count++;
        } else if (!cJSON_IsObject(item)) {
            status = files_report_fail(report, FILES_INVALID, "entry '%.80s' is not an object", item->string);
        } else {
            status = parse_offsets(item, data_bytes, report, &out_entries[count++]);
        }
        if (status != FILES_OK) {
            return status;
        }
    }
    if (metadata_count > 1) {
        return files_report_fail(report, FILES_INVALID, "header has %s twice", metadata_key);
    }
    *out_count = count;
    return FILES_OK;
}

static enum files_status check_names(struct entry *entries, int64_t count, const struct files_report *report) {
    qsort(entries, (size_t)count, sizeof *entries, compare_names);
    for (int64_t i = 1; i < count; i++) {
        if (compare_names(&entries[i - 1], &entries[i]) == 0) {
            return files_report_fail(report, FILES_INVALID, "header has tensor '%.80s' twice", entries[i].item->string);
        }
    }
    return FILES_OK;
}

/* The format's rule: the tensors cover the data, one after the other. */
static enum files_status check_cover(struct entry *entries, int64_t count, int64_t data_bytes,
                                     const struct files_report *report) {
    int64_t covered_bytes = 0;
    qsort(entries, (size_t)count, sizeof *entries, compare_offsets);
    for (int64_t i = 0; i < count; i++) {
        if (entries[i].begin != covered_bytes) {
            return files_report_fail(report, FILES_INVALID,
                                     "tensor '%.80s' begins at %" PRId64 ", but the one before ends at %" PRId64
                                     "; no overlap and no hole is allowed",
                                     entries[i].item->string, entries[i].begin, covered_bytes);
        }
        covered_bytes = entries[i].end;
    }
    if (covered_bytes != data_bytes) {
        return files_report_fail(report, FILES_INVALID,
                                 "tensors end at %" PRId64 ", but %" PRId64 " bytes follow the header", covered_bytes,
                                 data_bytes);
    }
    return FILES_OK;
}

static enum files_status parse_type(const cJSON *tensor, const struct files_report *report, enum array_type *out_type) {
    const cJSON *dtype = get_member(tensor, "dtype", false, report);
    if (dtype == NULL) {
        return FILES_INVALID;
    }
    for (int i = 0; i < TYPE_COUNT; i++) {
        if (strcmp(dtype->valuestring, safetensors_types[i].name) == 0) {
            *out_type = safetensors_types[i].type;
            return FILES_OK;
        }
    }
    char known[16 * TYPE_COUNT] = "";
    for (int i = 0; i < TYPE_COUNT; i++) {
        strcat(known, i == 0 ? "" : ", ");
        strcat(known, safetensors_types[i].name);
    }
    return files_report_fail(report, FILES_INVALID, "tensor '%.80s' has dtype '%.32s', which is not one of %s",
                             tensor->string, dtype->valuestring, known);
}

static enum files_status parse_shape(const cJSON *tensor, const struct files_report *report, struct array *array) {
    const cJSON *shape = get_member(tensor, "shape", true, report);
    if (shape == NULL) {
        return FILES_INVALID;
    }
    const cJSON *size = NULL;
    array->rank = 0;
    cJSON_ArrayForEach(size, shape) {
        if (array->rank == ARRAY_MAX_RANK) {
            return files_report_fail(report, FILES_INVALID,
                                     "tensor '%.80s' has more than %d sizes in its shape; at most "
                                     "%d are read",
                                     tensor->string, (int)ARRAY_MAX_RANK, (int)ARRAY_MAX_RANK);
        }
        if (!safetensors_json_integer(size, &array->shape[array->rank])) {
            return files_report_fail(report, FILES_INVALID,
                                     "tensor '%.80s' has a size that is not a whole number in "
                                     "[0, 2^53) at axis %d",
                                     tensor->string, array->rank);
        }
        array->rank++;
    }
    return FILES_OK;
}

static enum files_status parse_tensor(const struct entry *entry, const struct files_report *report,
                                      struct array *out_array) {
    struct array array = {0};
    enum files_status status = parse_type(entry->item, report, &array.type);
    if (status == FILES_OK) {
        status = parse_shape(entry->item, report, &array);
    }
    if (status != FILES_OK) {
        return status;
    }
    char shape[ARRAY_SHAPE_TEXT_BYTES];
    array_shape_format(&array, shape);
    if (!array_measure(&array)) {
        return files_report_fail(report, FILES_INVALID, "tensor '%.80s': shape %s of %s has more than 2^63 - 1 bytes",
                                 entry->item->string, shape, array_type_name(array.type));
    }
    if (array.bytes != entry->end - entry->begin) {
        return files_report_fail(
            report, FILES_INVALID,
            "tensor '%.80s': shape %s of %s takes %" PRId64 " bytes, but data_offsets give it %" PRId64,
            entry->item->string, shape, array_type_name(array.type), array.bytes, entry->end - entry->begin);
    }
    *out_array = array;
    return FILES_OK;
}

static enum files_status report_missing(const cJSON *header, int64_t count, const char *name,
                                        const struct files_report *report) {
    char names[FILES_MESSAGE_BYTES] = "";
    size_t length = 0;
    int told = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, header) {
        if (is_metadata(item)) {
            continue;
        }
        if (told == SAFETENSORS_NAMES_TOLD) {
            break;
        }
        length +=
            (size_t)snprintf(names + length, sizeof names - length, "%s%.80s", told == 0 ? "" : ", ", item->string);
        told++;
    }
    return files_report_fail(report, FILES_INVALID, "has no tensor '%s'; it holds %" PRId64 "%s%s%s", name, count,
                             count == 0 ? "" : ": ", names, count > told ? ", ..." : "");
}

static enum files_status find_entry(const cJSON *header, const struct entry *entries, int64_t count, const char *name,
                                    const struct files_report *report, const struct entry **out_entry) {
    for (int64_t i = 0; i < count; i++) {
        if (strcmp(entries[i].item->string, name) == 0) {
            *out_entry = &entries[i];
            return FILES_OK;
        }
    }
    return report_missing(header, count, name, report);
}

enum files_status safetensors_find(const char *header, int64_t header_bytes, int64_t data_bytes, const char *name,
                                   const struct files_report *report, struct array *out_array,
                                   int64_t *out_data_offset) {
    cJSON *object = NULL;
    void *entries = NULL;
    int64_t count = 0;
    const struct entry *wanted = NULL;
    enum files_status status = safetensors_json_parse(header, header_bytes, report, &object);
    if (status == FILES_OK) {
        const int64_t room = cJSON_GetArraySize(object) + (int64_t)1;
        status = files_allocate(room * (int64_t)sizeof(struct entry), report, &entries);
    }
    if (status == FILES_OK) {
        status = collect_entries(object, data_bytes, report, entries, &count);
    }
    if (status == FILES_OK) {
        status = check_names(entries, count, report);
    }
    if (status == FILES_OK) {
        status = check_cover(entries, count, data_bytes, report);
    }
    if (status == FILES_OK) {
        status = find_entry(object, entries, count, name, report, &wanted);
    }
    if (status == FILES_OK) {
        status = parse_tensor(wanted, report, out_array);
    }
    if (status == FILES_OK) {
        *out_data_offset = wanted->begin;
    }
    free(entries);
    cJSON_Delete(object);
    return status;
}
