/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/plan_cache.h"

#include <string.h>

#include "core/fork_guard.h"
#include "core/host.h"
#include "core/plan.h"
#include "core/status_internal.h"
#include "core/workspace_pool.h"

struct entry {
    uint64_t hash;
    attune_plan *plan; /* NULL: free */
    int32_t users;     /* calls that have the plan now */
    uint64_t last_use;
};

struct attune_plan_cache {
    struct attune_fork_guard guard; /* first: guards the entries */
    struct entry entries[ATTUNE_PLAN_CACHE_SIZE];
    uint64_t uses;
    struct attune_workspace_pool workspaces;
};

/* A plan for the time of one call. */
struct lease {
    attune_plan *plan;
    struct entry *entry; /* NULL: the plan is the call's own, since all entries were in use */
};

static void lock(struct attune_plan_cache *cache) {
    pthread_mutex_lock(&cache->guard.mutex);
}

static void unlock(struct attune_plan_cache *cache) {
    pthread_mutex_unlock(&cache->guard.mutex);
}

/* ---- The key: all that a plan has baked in ---- */

/* Mixes eight bytes into a hash. The multiplier is odd, so that nothing is lost; the shift brings the high bits, which
 * all others reach, to where they count next. */
static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t hash_call(const struct attune_call *call) {
    const unsigned char *bytes = (const unsigned char *)&call->problem;
    uint64_t hash = 0;
    size_t at = 0;
    for (; at + sizeof hash <= sizeof call->problem; at += sizeof hash) {
        uint64_t word;
        memcpy(&word, bytes + at, sizeof word);
        hash = mix(hash, word);
    }
    for (; at < sizeof call->problem; at++) {
        hash = mix(hash, bytes[at]);
    }
    for (const char *letter = call->request.kernel; letter != NULL && *letter != '\0'; letter++) {
        hash = mix(hash, (unsigned char)*letter);
    }
    hash = mix(hash, (uint64_t)call->request.splits);
    return mix(mix(hash, (uint64_t)call->request.tile_rows), (uint64_t)call->request.tile_keys);
}

static bool same_kernel(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool is_plan_of(const attune_plan *plan, const struct attune_call *call) {
    const struct attune_request *planned = &plan->request;
    const struct attune_request *asked = &call->request;
    return planned->splits == asked->splits && planned->tile_rows == asked->tile_rows &&
           planned->tile_keys == asked->tile_keys && same_kernel(planned->kernel, asked->kernel) &&
           memcmp(&plan->problem, &call->problem, sizeof plan->problem) == 0;
}

/* ---- Entries; the cache is locked ---- */

static struct entry *find(struct attune_plan_cache *cache, const struct attune_call *call, uint64_t hash) {
    for (int i = 0; i < ATTUNE_PLAN_CACHE_SIZE; i++) {
        struct entry *entry = &cache->entries[i];
        if (entry->plan != NULL && entry->hash == hash && is_plan_of(entry->plan, call)) {
            return entry;
        }
    }
    return NULL;
}

/* A free entry, else the one that was used longest ago and is not in use now; NULL if all are. */
static struct entry *find_room(struct attune_plan_cache *cache) {
    struct entry *room = NULL;
    for (int i = 0; i < ATTUNE_PLAN_CACHE_SIZE; i++) {
        struct entry *entry = &cache->entries[i];
        if (entry->plan == NULL) {
            return entry;
        }
        if (entry->users == 0 && (room == NULL || entry->last_use < room->last_use)) {
            room = entry;
        }
    }
    return room;
}

static void use(struct attune_plan_cache *cache, struct entry *entry, struct lease *out_lease) {
    entry->users++;
    entry->last_use = ++cache->uses;
    out_lease->plan = entry->plan;
    out_lease->entry = entry;
}

/* ---- Leases ---- */

static bool lease_existing(struct attune_plan_cache *cache, const struct attune_call *call, uint64_t hash,
                           struct lease *out_lease) {
    lock(cache);
    struct entry *entry = find(cache, call, hash);
    if (entry != NULL) {
        use(cache, entry, out_lease);
    }
    unlock(cache);
    return entry != NULL;
}

/* Enters a new plan, unless another thread has entered its like meanwhile: then that one is leased. */
static void lease_new(struct attune_plan_cache *cache, const struct attune_call *call, uint64_t hash, attune_plan *plan,
                      struct lease *out_lease) {
    attune_plan *superfluous = NULL;
    lock(cache);
    struct entry *entry = find(cache, call, hash);
    if (entry != NULL) {
        superfluous = plan;
    } else {
        entry = find_room(cache);
        if (entry != NULL) {
            superfluous = entry->plan;
            entry->plan = plan;
            entry->hash = hash;
        }
    }
    out_lease->plan = plan;
    out_lease->entry = NULL;
    if (entry != NULL) {
        use(cache, entry, out_lease);
    }
    unlock(cache);
    attune_plan_close(superfluous);
}

/* A plan is built without a lock: that may load modules and compile programs. */
static attune_status lease(attune_device *device, const struct attune_call *call, struct lease *out_lease) {
    struct attune_plan_cache *cache = device->plan_cache;
    uint64_t hash = hash_call(call);
    attune_plan *plan;
    if (lease_existing(cache, call, hash, out_lease)) {
        return ATTUNE_OK;
    }
    attune_status status = attune_plan_build(device, call, &plan);
    if (status == ATTUNE_OK) {
        lease_new(cache, call, hash, plan, out_lease);
    }
    return status;
}

static void end_lease(struct attune_plan_cache *cache, const struct lease *lease) {
    if (lease->entry == NULL) {
        attune_plan_close(lease->plan);
        return;
    }
    lock(cache);
    lease->entry->users--;
    unlock(cache);
}

/* ---- Running ---- */

static attune_status launch_with_workspace(const attune_plan *plan, attune_stream *stream, void *stream_handle,
                                           struct attune_call *call) {
    struct attune_workspace_pool *pool = &plan->device->plan_cache->workspaces;
    struct attune_workspace *workspace;
    attune_status status = attune_workspace_pool_lend(pool, stream, plan->workspace.size_bytes, &workspace);
    if (status == ATTUNE_OK) {
        status = attune_plan_launch(plan, stream, stream_handle, call, attune_workspace_pointer(workspace), 0);
        attune_workspace_pool_give_back(pool, workspace);
    }
    return status;
}

attune_status attune_plan_cache_run(attune_device *device, attune_stream *stream, struct attune_call *call) {
    const attune_pointer none = {.data = NULL};
    void *stream_handle;
    struct lease current;
    attune_status status = attune_stream_resolve(device, stream, &stream_handle);
    if (status == ATTUNE_OK) {
        status = lease(device, call, &current);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    status = current.plan->workspace.size_bytes == 0
                 ? attune_plan_launch(current.plan, stream, stream_handle, call, none, 0)
                 : launch_with_workspace(current.plan, stream, stream_handle, call);
    end_lease(device->plan_cache, &current);
    return status;
}

/* ---- The cache ---- */

/* Calls of threads that a forked child does not have will never end their leases. */
static void forget_threads(struct attune_fork_guard *guard) {
    struct attune_plan_cache *cache = (struct attune_plan_cache *)guard;
    for (int i = 0; i < ATTUNE_PLAN_CACHE_SIZE; i++) {
        cache->entries[i].users = 0;
    }
}

attune_status attune_plan_cache_create(attune_device *device, struct attune_plan_cache **out_cache) {
    struct attune_plan_cache *cache = attune_host_alloc(sizeof *cache);
    if (cache == NULL) {
        return attune_fail(ATTUNE_OUT_OF_MEMORY, "plan cache: no host memory for %zu bytes", sizeof *cache);
    }
    attune_workspace_pool_init(&cache->workspaces, device);
    attune_fork_guard_init(&cache->guard, forget_threads);
    *out_cache = cache;
    return ATTUNE_OK;
}

void attune_plan_cache_destroy(struct attune_plan_cache *cache) {
    if (cache == NULL) {
        return;
    }
    struct attune_sentence sentence;
    attune_sentence_save(&sentence);
    attune_fork_guard_destroy(&cache->guard);
    attune_workspace_pool_destroy(&cache->workspaces);
    for (int i = 0; i < ATTUNE_PLAN_CACHE_SIZE; i++) {
        attune_plan_close(cache->entries[i].plan);
    }
    attune_host_free(cache);
    attune_sentence_restore(&sentence);
}

void attune_plan_cache_forget_stream(struct attune_plan_cache *cache, attune_stream *stream, bool capturing) {
    if (cache != NULL) {
        attune_workspace_pool_forget_stream(&cache->workspaces, stream, capturing);
    }
}
