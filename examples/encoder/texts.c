/* SPDX-License-Identifier: Apache-2.0 */
#include "texts.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

static int add_text(const cJSON *ids, int32_t words, struct texts *texts) {
    int length = cJSON_GetArraySize(ids);
    const cJSON *id;
    if (texts->count == TEXTS_MAX || length < 1 || length > TEXT_TOKENS_MAX) {
        return -1;
    }
    int32_t next = texts->offsets[texts->count];
    cJSON_ArrayForEach(id, ids) {
        if (!cJSON_IsNumber(id) || id->valueint < 0 || id->valueint >= words) {
            return -1;
        }
        texts->token[next++] = id->valueint;
    }
    texts->offsets[++texts->count] = next;
    texts->longest = length > texts->longest ? length : texts->longest;
    return 0;
}

int texts_load(const char *path, int32_t words, struct texts *out_texts) {
    static char json[1 << 20];
    const cJSON *text;
    FILE *stream = fopen(path, "rb");
    size_t size = stream ? fread(json, 1, sizeof json, stream) : 0;
    if (stream) {
        fclose(stream);
    }
    memset(out_texts, 0, sizeof *out_texts);
    cJSON *list = cJSON_ParseWithLength(json, size);
    int failed = !cJSON_IsArray(list);
    cJSON_ArrayForEach(text, list) failed |=
        add_text(cJSON_GetObjectItemCaseSensitive(text, "token_ids"), words, out_texts);
    cJSON_Delete(list);
    if (!failed) {
        return 0;
    }
    fprintf(stderr, "%s: a list of up to %d texts with up to %d \"token_ids\" each is needed\n", path, TEXTS_MAX,
            TEXT_TOKENS_MAX);
    return -1;
}
