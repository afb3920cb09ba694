/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "bench_report.h"
#include "json.h"

static const char *const work_names[] = {
    [WORK_FORWARD] = "fwd", [WORK_BACKWARD] = "bwd", [WORK_DECODE] = "decode", [WORK_APPEND] = "append"};

/* A field is a word or a number; one that is not there is NULL and NAN. */
struct value {
    const char *word;
    double number;
};

static struct value word(const char *text) {
    return (struct value){text, NAN};
}

static struct value number(double number) {
    return (struct value){NULL, number};
}

static double if_timed(const struct point *point, double number) {
    return point->spread.runs > 0 ? number : NAN;
}

static double if_verified(const struct point *point, double number) {
    return point->is_verified ? number : NAN;
}

enum { FIELDS_MAX = 32 };

struct field {
    const char *name;
    struct value value;
};

static int list_fields(const struct point *point, struct field fields[FIELDS_MAX]) {
    const attune_explanation *explanation = &point->explanation;
    const struct spread *spread = &point->spread;
    double share = point_ceiling_share(point);
    const struct field all[] = {
        {"op", word(work_names[point->work])},
        {"length", number((double)point->length)},
        {"device", word(point->device[0] ? point->device : point->asked_backend)},
        {"kernel", word(explanation->kernel[0] ? explanation->kernel : point->asked_kernel)},
        {"status", word(point_status_word(point))},
        {"reason", word(point->reason[0] ? point->reason : NULL)},
        {"tile_rows", number(explanation->tile_rows)},
        {"tile_keys", number(explanation->tile_keys)},
        {"tile_is_tuned", number(explanation->tile_is_tuned)},
        {"splits", number(explanation->splits)},
        {"tensor_bytes", number((double)explanation->tensor_bytes)},
        {"workspace_bytes", number((double)explanation->workspace_bytes)},
        {"runs", number((double)spread->runs)},
        {"fastest_seconds", number(if_timed(point, spread->fastest))},
        {"low_seconds", number(if_timed(point, spread->low))},
        {"median_seconds", number(if_timed(point, spread->median))},
        {"high_seconds", number(if_timed(point, spread->high))},
        {"flops", number(point->cost.flops)},
        {"bytes", number(point->cost.bytes)},
        {"is_bound", number(point->cost.is_bound)},
        {"flops_per_second", number(if_timed(point, point_flops_per_second(point)))},
        {"bytes_per_second", number(if_timed(point, point_bytes_per_second(point)))},
        {"ceiling_share", number(share > 0 ? share : NAN)},
        {"error", number(if_verified(point, point->verdict.error))},
        {"error_limit", number(if_verified(point, point->verdict.limit))},
        {"error_result", word(point->is_verified ? point->verdict.result : NULL)},
        {"problem", word(explanation->problem[0] ? explanation->problem : NULL)},
    };
    memcpy(fields, all, sizeof all);
    return sizeof all / sizeof all[0];
}

/* As RFC 4180 has it: a word with commas, quotes or line breaks is quoted. */
static void write_word(FILE *stream, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    for (; *text; text++) {
        if (*text == '"') {
            fputc('"', stream);
        }
        fputc(*text, stream);
    }
    fputc('"', stream);
}

static void write_value(FILE *stream, const struct value *value) {
    if (value->word) {
        write_word(stream, value->word);
    } else if (isfinite(value->number)) {
        fprintf(stream, "%.9g", value->number);
    }
}

void bench_write_csv(FILE *stream, const struct point *points, int count) {
    struct field fields[FIELDS_MAX];
    for (int row = -1; row < count; row++) {
        int field_count = list_fields(&points[row < 0 ? 0 : row], fields);
        for (int i = 0; i < field_count; i++) {
            fputs(i > 0 ? "," : "", stream);
            if (row < 0) {
                write_word(stream, fields[i].name);
            } else {
                write_value(stream, &fields[i].value);
            }
        }
        fputc('\n', stream);
    }
}

enum tool_exit bench_print_json(const struct point *points, int count) {
    struct field fields[FIELDS_MAX];
    cJSON *root = json_root();
    cJSON *list = json_add_array(root, "points");
    for (int row = 0; row < count; row++) {
        cJSON *object = json_add_object(list, NULL);
        int field_count = list_fields(&points[row], fields);
        for (int i = 0; i < field_count; i++) {
            const struct value *value = &fields[i].value;
            if (value->word) {
                json_add_text(object, fields[i].name, value->word);
            } else {
                json_add_number(object, fields[i].name, value->number);
            }
        }
    }
    return json_print(root);
}
