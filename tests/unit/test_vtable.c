/*
 * Which entries a backend may leave out, and what core puts there.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/support/cmocka_all.h"

#include "attune/status.h"
#include "core/builtin.h"
#include "core/host.h"
#include "core/vtable.h"
#include "tests/support/stub_backend.h"

const struct attune_builtin_backend attune_builtin_backends[] = {{NULL, NULL}};

static attune_backend imported;

/* Whether a table without one entry is taken; if it is not, the sentence begins with the entry's name. */
#define assert_without(entry, is_taken)                                                                                \
    do {                                                                                                               \
        attune_backend backend = stub_backend("stub", 1);                                                              \
        backend.entry = NULL;                                                                                          \
        if (is_taken) {                                                                                                \
            assert_int_equal(attune_vtable_import(&backend, &imported), ATTUNE_OK);                                    \
        } else {                                                                                                       \
            assert_int_equal(attune_vtable_import(&backend, &imported), ATTUNE_INCOMPATIBLE);                          \
            assert_contains(attune_last_error(), #entry " = NULL");                                                    \
        }                                                                                                              \
    } while (0)

static void entries_that_must_be_there(void **state) {
    (void)state;
    assert_without(enumerate, false);
    assert_without(device_open, false);
    assert_without(device_limits, false);
    assert_without(kernels, false);
    assert_without(plan_build, false);
    assert_without(plan_release, false);
    assert_without(execute, false);
    assert_without(device_close, true);
    assert_non_null(imported.device_close);
    assert_without(device_wrap, true);
    assert_without(memory_copy_peer, true);
    assert_without(extension, true);
    assert_null(imported.extension);
}

static void a_group_is_there_as_a_whole(void **state) {
    (void)state;
    assert_without(memory_alloc, false);
    assert_without(memory_free, false);
    assert_without(memory_copy, false);
    assert_without(memory_fill, false);
    assert_without(memory_range, false);
    assert_without(stream_open, false);
    assert_without(stream_close, false);
    assert_without(stream_sync, false);
    assert_without(event_open, false);
    assert_without(event_close, false);
    assert_without(event_record, false);
    assert_without(event_wait, false);
    assert_without(event_elapsed, false);
}

static void leave_out_memory(attune_backend *backend) {
    backend->memory_alloc = NULL;
    backend->memory_free = NULL;
    backend->memory_copy = NULL;
    backend->memory_fill = NULL;
    backend->memory_range = NULL;
}

static void leave_out_streams(attune_backend *backend) {
    backend->stream_open = NULL;
    backend->stream_close = NULL;
    backend->stream_sync = NULL;
}

static void leave_out_events(attune_backend *backend) {
    backend->event_open = NULL;
    backend->event_close = NULL;
    backend->event_record = NULL;
    backend->event_wait = NULL;
    backend->event_elapsed = NULL;
}

/* Core's memory and events are done when a call returns, which a queue does not wait for. */
static void queues_need_memory_and_events_of_their_own(void **state) {
    (void)state;
    attune_backend backend = stub_backend("stub", 1);
    leave_out_memory(&backend);
    assert_int_equal(attune_vtable_import(&backend, &imported), ATTUNE_INCOMPATIBLE);
    assert_contains(attune_last_error(), "memory_alloc = NULL: must be there, as stream_open is");
    backend = stub_backend("stub", 1);
    leave_out_events(&backend);
    assert_int_equal(attune_vtable_import(&backend, &imported), ATTUNE_INCOMPATIBLE);
    assert_contains(attune_last_error(), "event_open = NULL: must be there, as stream_open is");
}

static void what_is_there_is_kept(void **state) {
    (void)state;
    attune_backend backend = stub_backend("stub", 1);
    leave_out_streams(&backend);
    leave_out_events(&backend);
    assert_int_equal(attune_vtable_import(&backend, &imported), ATTUNE_OK);
    assert_true(imported.memory_alloc == stub_memory_alloc && imported.memory_range == stub_memory_range);
    assert_true(imported.stream_sync != NULL && imported.event_wait != NULL);
    backend = stub_backend("stub", 1);
    leave_out_streams(&backend);
    assert_int_equal(attune_vtable_import(&backend, &imported), ATTUNE_OK);
    assert_true(imported.event_record == stub_event_and_stream);
}

static void lent_memory_and_events_can_run_out(void **state) {
    (void)state;
    void *data = NULL;
    void *event = NULL;
    attune_backend backend = stub_backend("stub", 1);
    leave_out_memory(&backend);
    leave_out_streams(&backend);
    leave_out_events(&backend);
    assert_int_equal(attune_vtable_import(&backend, &imported), ATTUNE_OK);
    attune_host_limit_allocations(0);
    attune_status of_memory = imported.memory_alloc(NULL, ATTUNE_MEMORY_DEFAULT, 16, &data);
    attune_status of_event = imported.event_open(NULL, &event);
    attune_host_limit_allocations(-1);
    assert_int_equal(of_memory, ATTUNE_OUT_OF_MEMORY);
    assert_int_equal(of_event, ATTUNE_OUT_OF_MEMORY);
    assert_null(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_that_must_be_there),
        cmocka_unit_test(a_group_is_there_as_a_whole),
        cmocka_unit_test(queues_need_memory_and_events_of_their_own),
        cmocka_unit_test(what_is_there_is_kept),
        cmocka_unit_test(lent_memory_and_events_can_run_out),
    };
    return cmocka_run_group_tests_name("vtable", tests, NULL, NULL);
}
