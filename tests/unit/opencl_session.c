/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include "opencl_session.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/builtin.h"
#include "core/cache_file.h"

const struct attune_builtin_backend attune_builtin_backends[] = {{"opencl", ATTUNE_BACKEND_QUERY}, {NULL, NULL}};

struct stub_opencl *stub;
static char cache_folder[] = "/tmp/attune-opencl-XXXXXX";

void assert_nothing_lives(void) {
    static const char *const names[STUB_KINDS] = {"contexts", "queues", "memories", "blocks",
                                                  "mappings", "events", "programs", "kernels"};
    for (int kind = 0; kind < STUB_KINDS; kind++) {
        if (stub->live[kind] != 0) {
            fail_msg("after a failure of %s (call %lld): %d %s live", stub->failed == NULL ? "nothing" : stub->failed,
                     (long long)stub->fail_at, stub->live[kind], names[kind]);
        }
    }
}

/* ---- The cache ---- */

/* Calls visit for each file's name. */
static int visit_cache(void (*visit)(const char *name, const char *bytes, bool flag), const char *bytes, bool flag) {
    int count = 0;
    DIR *folder = opendir(cache_folder);
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.') {
            visit(entry->d_name, bytes, flag);
            count++;
        }
    }
    (void)closedir(folder);
    return count;
}

static void replace_file(const char *name, const char *bytes, bool with_header) {
    if (with_header) {
        assert_ok(attune_cache_file_write(name, bytes, strlen(bytes)));
        return;
    }
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", cache_folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(bytes, file);
    assert_int_equal(fclose(file), 0);
}

int cache_replace(const char *bytes, bool with_header) {
    return visit_cache(replace_file, bytes, with_header);
}

static void remove_file(const char *name, const char *bytes, bool flag) {
    (void)bytes, (void)flag;
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", cache_folder, name);
    assert_int_equal(unlink(path), 0);
}

void cache_clear(void) {
    (void)visit_cache(remove_file, NULL, false);
}

/* ---- Tests ---- */

int stub_start(void **state) {
    (void)state;
    void *library = dlopen(TEST_STUB_OPENCL, RTLD_NOW | RTLD_LOCAL);
    stub = library == NULL ? NULL : dlsym(library, STUB_OPENCL_SYMBOL);
    if (stub == NULL || mkdtemp(cache_folder) == NULL) {
        print_error("%s\n", dlerror());
        return -1;
    }
    return setenv("ATTUNE_CACHE_DIR", cache_folder, 1) + setenv("ATTUNE_OPENCL_LIBRARY", TEST_STUB_OPENCL, 1);
}

int stub_stop(void **state) {
    (void)state;
    cache_clear();
    return rmdir(cache_folder);
}

int stub_begin_test(void **state) {
    (void)state;
    cache_clear();
    stub->platforms = 1;
    stub->devices = STUB_OPENCL_DEVICES;
    stub->calls = stub->fail_at = 0;
    stub->fail_function = stub->failed = stub->build_log = NULL;
    stub->extensions = "cl_stub";
    stub->name = NULL;
    stub->lacking = 0;
    stub->beside = NULL;
    stub->refuses_binaries = stub->raced = false;
    stub->kernel_work_group = 256;
    stub->launches = stub->built_from_source = stub->built_from_binary = 0;
    return 0;
}

int stub_end_test(void **state) {
    (void)state;
    assert_nothing_lives();
    return 0;
}

/* ---- Sessions ---- */

attune_device *session_open_device(const char *selector) {
    attune_device *device = NULL;
    if (attune_device_open(selector, &device) != ATTUNE_OK) {
        fail_msg("%s: %s", selector, attune_last_error());
    }
    return device;
}

struct session session_open(const char *selector) {
    struct session session = {.device = session_open_device(selector)};
    for (int index = 0; index < SESSION_DATA; index++) {
        assert_ok(attune_memory_alloc(session.device, ATTUNE_MEMORY_DEFAULT, SESSION_BYTES, &session.data[index]));
    }
    return session;
}

attune_quantize_args session_args(const struct session *session) {
    const int64_t shape[] = {1, SESSION_POSITIONS, SESSION_HEADS, SESSION_HEAD_DIM};
    const int64_t descales[] = {1, SESSION_HEADS};
    attune_quantize_args args = attune_quantize_args_init();
    args.x = attune_tensor_contiguous(session->data[0], ATTUNE_DTYPE_F16, 4, shape);
    args.y = attune_tensor_contiguous(session->data[1], ATTUNE_DTYPE_E4M3, 4, shape);
    args.descale = attune_tensor_contiguous(session->data[2], ATTUNE_DTYPE_F32, 2, descales);
    return args;
}

void session_close(struct session *session) {
    attune_plan_close(session->plan);
    for (int index = 0; index < 2; index++) {
        attune_event_close(session->events[index]);
    }
    attune_stream_close(session->wrapped_stream);
    attune_stream_close(session->stream);
    for (int index = 0; index < SESSION_DATA; index++) {
        attune_memory_free(session->device, session->data[index]);
    }
    attune_memory_free(session->device, session->shared);
    attune_memory_free(session->device, session->pinned);
    attune_device_close(session->wrapped);
    attune_device_close(session->other);
    attune_device_close(session->device);
    if (session->native_queue != NULL) {
        stub->release(session->native_queue);
    }
    stub->shared_release(session->native_shared);
    if (session->native_context != NULL) {
        stub->release(session->native_context);
    }
}
