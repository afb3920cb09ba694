/*
 * The sentence behind a status, and the log.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L
#include "tests/support/cmocka_all.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attune/types.h"
#include "core/log_internal.h"
#include "core/status_internal.h"
#include "core/text.h"
#include "tests/support/log_capture.h"

static void statuses_have_names(void **state) {
    (void)state;
    assert_string_equal(attune_status_name(ATTUNE_OK), "OK");
    assert_string_equal(attune_status_name(ATTUNE_INTERNAL), "INTERNAL");
    assert_string_equal(attune_status_name((attune_status)9), "UNKNOWN");
    assert_string_equal(attune_status_name((attune_status)-1), "UNKNOWN");
}

static void dtypes_have_names_and_sizes(void **state) {
    (void)state;
    assert_string_equal(attune_dtype_name(ATTUNE_DTYPE_E4M3), "e4m3");
    assert_string_equal(attune_dtype_name((attune_dtype)99), "unknown");
    assert_int_equal(attune_dtype_size_bytes(ATTUNE_DTYPE_NONE), 0);
    assert_int_equal(attune_dtype_size_bytes(ATTUNE_DTYPE_BF16), 2);
    assert_int_equal(attune_dtype_size_bytes(ATTUNE_DTYPE_F64), 8);
    assert_int_equal(attune_dtype_size_bytes((attune_dtype)-1), 0);
}

static void contiguous_tensors(void **state) {
    (void)state;
    const int64_t shape[] = {2, 0, 3, 4};
    attune_tensor tensor = attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 4, shape);
    assert_int_equal(tensor.rank, 4);
    assert_int_equal(tensor.stride[3], 1);
    assert_int_equal(tensor.stride[2], 4);
    assert_int_equal(tensor.stride[1], 12);
    assert_int_equal(tensor.stride[0], 12);
    const int64_t huge[] = {INT64_MAX, INT64_MAX, INT64_MAX};
    assert_int_equal(attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 3, huge).shape[2], INT64_MAX);
    assert_int_equal(attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 5, shape).dtype, ATTUNE_DTYPE_NONE);
    assert_int_equal(attune_tensor_contiguous(NULL, ATTUNE_DTYPE_F16, 0, shape).dtype, ATTUNE_DTYPE_NONE);
}

static void version_is_that_of_the_header(void **state) {
    (void)state;
    char expected[64];
    snprintf(expected, sizeof expected, "%d.%d.%d", ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR, ATTUNE_VERSION_PATCH);
    assert_string_equal(attune_version(), expected);
}

static void a_sentence_may_hold_the_last_one(void **state) {
    (void)state;
    assert_int_equal(attune_fail(ATTUNE_NOT_FOUND, "no key %d", 7), ATTUNE_NOT_FOUND);
    assert_int_equal(attune_fail(ATTUNE_INTERNAL, "read: %s", attune_last_error()), ATTUNE_INTERNAL);
    assert_string_equal(attune_last_error(), "read: no key 7");
}

static void a_long_sentence_is_cut_visibly(void **state) {
    (void)state;
    for (int width = ATTUNE_SENTENCE_MAX - 2; width <= ATTUNE_SENTENCE_MAX + 1; width++) {
        (void)attune_fail(ATTUNE_INTERNAL, "%*s", width, "end");
        bool fits = width < ATTUNE_SENTENCE_MAX;
        const char *last = attune_last_error() + strlen(attune_last_error()) - 3;
        assert_int_equal(strlen(attune_last_error()), fits ? width : ATTUNE_SENTENCE_MAX - 1);
        assert_string_equal(last, fits ? "end" : "...");
    }
}

static void *fail_in_thread(void *argument) {
    (void)argument;
    bool was_empty = attune_last_error()[0] == '\0';
    (void)attune_fail(ATTUNE_INTERNAL, "other thread");
    return was_empty ? NULL : "the sentence of another thread was seen";
}

static void each_thread_has_its_own_sentence(void **state) {
    (void)state;
    (void)attune_fail(ATTUNE_INTERNAL, "this thread");
    pthread_t thread;
    void *complaint;
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, NULL), 0);
    pthread_join(thread, &complaint);
    assert_null(complaint);
    assert_string_equal(attune_last_error(), "this thread");
}

static void a_sentence_is_put_back(void **state) {
    (void)state;
    struct attune_sentence saved;
    (void)attune_fail(ATTUNE_INTERNAL, "before");
    attune_sentence_save(&saved);
    (void)attune_fail(ATTUNE_INTERNAL, "a longer one that was dealt with");
    attune_sentence_restore(&saved);
    assert_string_equal(attune_last_error(), "before");
}

static void texts_are_appended_and_cut(void **state) {
    (void)state;
    char text[12] = "";
    attune_text_append(text, sizeof text, "%s", "12345");
    attune_text_append(text, sizeof text, "%s", "678");
    assert_string_equal(text, "12345678");
    attune_text_append(text, sizeof text, "%s", "9abcdef");
    assert_string_equal(text, "12345678...");
    attune_text_append(text, sizeof text, "%s", "more");
    assert_string_equal(text, "12345678...");
}

static void distances(void **state) {
    (void)state;
    assert_int_equal(attune_text_distance("", ""), 0);
    assert_int_equal(attune_text_distance("", "abc"), 3);
    assert_int_equal(attune_text_distance("kitten", "sitting"), 3);
    assert_int_equal(attune_text_distance("flaw", "lawn"), 2);
}

static void levels_decide(void **state) {
    (void)state;
    struct log_capture capture;
    log_capture_start(&capture, ATTUNE_LOG_INFO);
    attune_log_write(ATTUNE_LOG_DEBUG, "no");
    attune_log_write(ATTUNE_LOG_INFO, "yes %d", 1);
    attune_log_set_level((attune_log_level)99);
    attune_log_write(ATTUNE_LOG_DEBUG, "now\nin one line");
    attune_log_set_level((attune_log_level)-3);
    attune_log_write(ATTUNE_LOG_ERROR, "no");
    log_capture_stop(&capture);
    assert_string_equal(capture.text, "yes 1\nnow in one line\n");
}

static void once_is_once_for_each_text(void **state) {
    (void)state;
    struct log_capture capture;
    log_capture_start(&capture, ATTUNE_LOG_OFF);
    attune_log_write_once(ATTUNE_LOG_WARN, "said %s", "a");
    attune_log_set_level(ATTUNE_LOG_WARN);
    attune_log_write_once(ATTUNE_LOG_WARN, "said %s", "a");
    attune_log_write_once(ATTUNE_LOG_WARN, "said %s", "b");
    attune_log_write_once(ATTUNE_LOG_WARN, "said %s", "a");
    log_capture_stop(&capture);
    assert_string_equal(capture.text, "said a\nsaid b\n");
}

/* What a child process writes to stderr under ATTUNE_LOG. The child is a fork of a process that has set no level. */
static void read_stderr_of_child(const char *level, char *out_text, size_t capacity) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setenv("ATTUNE_LOG", level, 1);
        attune_log_write(ATTUNE_LOG_WARN, "careful");
        attune_log_write(ATTUNE_LOG_INFO, "by the way");
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t count;
    while ((count = read(ends[0], out_text + used, capacity - used - 1)) > 0) {
        used += (size_t)count;
    }
    out_text[used] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void stderr_by_default(void **state) {
    (void)state;
    char text[256];
    read_stderr_of_child("", text, sizeof text);
    assert_string_equal(text, "attune: warning: careful\n");
    read_stderr_of_child("info", text, sizeof text);
    assert_string_equal(text, "attune: warning: careful\nattune: info: by the way\n");
    read_stderr_of_child("error", text, sizeof text);
    assert_string_equal(text, "");
    read_stderr_of_child("nonsense", text, sizeof text);
    assert_string_equal(text, "attune: warning: careful\n");
}

static void *log_many(void *argument) {
    (void)argument;
    for (int index = 0; index < 1000; index++) {
        attune_log_write(ATTUNE_LOG_WARN, "x");
    }
    return NULL;
}

static void sinks_are_swapped_while_others_log(void **state) {
    (void)state;
    struct log_capture captures[2];
    pthread_t threads[4];
    log_capture_start(&captures[1], ATTUNE_LOG_WARN);
    log_capture_start(&captures[0], ATTUNE_LOG_WARN);
    for (int index = 0; index < 4; index++) {
        assert_int_equal(pthread_create(&threads[index], NULL, log_many, NULL), 0);
    }
    for (int swap = 0; swap < 1000; swap++) {
        attune_log_set_sink(log_capture_sink, &captures[swap % 2]);
    }
    for (int index = 0; index < 4; index++) {
        pthread_join(threads[index], NULL);
    }
    assert_int_equal(captures[0].count + captures[1].count, 4000);
    log_capture_stop(&captures[0]);
    log_capture_stop(&captures[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stderr_by_default), /* first: the others set a level */
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(dtypes_have_names_and_sizes),
        cmocka_unit_test(contiguous_tensors),
        cmocka_unit_test(version_is_that_of_the_header),
        cmocka_unit_test(a_sentence_may_hold_the_last_one),
        cmocka_unit_test(a_long_sentence_is_cut_visibly),
        cmocka_unit_test(each_thread_has_its_own_sentence),
        cmocka_unit_test(a_sentence_is_put_back),
        cmocka_unit_test(texts_are_appended_and_cut),
        cmocka_unit_test(distances),
        cmocka_unit_test(levels_decide),
        cmocka_unit_test(once_is_once_for_each_text),
        cmocka_unit_test(sinks_are_swapped_while_others_log),
    };
    return cmocka_run_group_tests_name("log_status", tests, NULL, NULL);
}
