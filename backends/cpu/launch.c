/*
 * Which rows run here, and running one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/cpu.h"

/* ---- Families ----
 *
 * A row's family is its name up to the first '_': the folder of its kernel. ATTUNE_CPU_ISA names the highest that may
 * be used, in any case of letters; this is the order. */
static const char *const families[] = {"reference", "generic"};
#define FAMILIES ((int32_t)(sizeof families / sizeof *families))

static bool is_family(const char *family, const char *name, size_t length) {
    return strlen(family) == length && attune_begins(name, family);
}

static int32_t family_of(const char *name, size_t length) {
    int32_t family = 0;
    while (family < FAMILIES && !is_family(families[family], name, length)) {
        family++;
    }
    return family;
}

static void list_families(char *text, size_t capacity) {
    size_t used = 0;
    for (int32_t family = 0; family < FAMILIES && used < capacity; family++) {
        used += (size_t)snprintf(text + used, capacity - used, "%s%s", family > 0 ? ", " : "", families[family]);
    }
}

attune_status attune_cpu_family_choose(int32_t *out_family) {
    const char *name = attune_cpu_host->config_get("ATTUNE_CPU_ISA");
    const int32_t family = *name == '\0' ? FAMILIES - 1 : family_of(name, strlen(name));
    if (family == FAMILIES) {
        char known[ATTUNE_REASON_MAX];
        list_families(known, sizeof known);
        return attune_cpu_host->fail(ATTUNE_INVALID_ARGUMENT,
                                     "ATTUNE_CPU_ISA=\"%s\": must be one of this build's kernels: %s", name, known);
    }
    *out_family = family;
    return ATTUNE_OK;
}

bool attune_cpu_row_runnable(void *device, int32_t row, char reason[ATTUNE_REASON_MAX]) {
    const struct attune_cpu_device *cpu = device;
    int32_t count = 0;
    const char *name = attune_cpu_kernels(&count)[row].name;
    if (family_of(name, strcspn(name, "_")) <= cpu->family) {
        return true;
    }
    snprintf(reason, ATTUNE_REASON_MAX, "ATTUNE_CPU_ISA allows nothing above %s", families[cpu->family]);
    return false;
}

/* ---- Plans ---- */

struct plan {
    attune_problem problem;
    const struct attune_cpu_kernel *kernel;
    attune_schedule schedule;
    attune_workspace_map workspace;
};

static const struct attune_cpu_kernel *kernel_of(int32_t row) {
    int32_t count = 0;
    return attune_cpu_kernels(&count)[row].kernel;
}

uint64_t attune_cpu_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                    const attune_schedule *schedule) {
    const struct attune_cpu_device *cpu = device;
    const struct attune_cpu_kernel *kernel = kernel_of(row);
    return kernel->workspace_bytes == NULL ? 0 : kernel->workspace_bytes(problem, schedule, cpu->team.threads);
}

attune_status attune_cpu_plan_build(void *device, const attune_plan_request *request, void **out_plan) {
    (void)device;
    struct plan *plan = attune_cpu_host->alloc(sizeof *plan);
    if (plan == NULL) {
        return attune_cpu_host->fail(ATTUNE_OUT_OF_MEMORY, "a plan of %zu bytes", sizeof *plan);
    }
    plan->problem = *request->problem;
    plan->kernel = kernel_of(request->row);
    plan->schedule = request->schedule;
    plan->workspace = request->workspace;
    *out_plan = plan;
    return ATTUNE_OK;
}

void attune_cpu_plan_release(void *device, void *plan) {
    (void)device;
    attune_cpu_host->free(plan);
}

static void *region_of(const attune_bindings *bindings, const attune_workspace_region *region) {
    return region->size_bytes == 0
               ? NULL
               : (char *)bindings->workspace.data + bindings->workspace.byte_offset + region->offset;
}

attune_status attune_cpu_execute(void *device, void *plan, void *stream, const attune_bindings *bindings) {
    (void)stream;
    const struct attune_cpu_device *cpu = device;
    const struct plan *planned = plan;
    const struct attune_cpu_run run = {
        .problem = &planned->problem,
        .schedule = &planned->schedule,
        .bindings = bindings,
        .workspace = region_of(bindings, &planned->workspace.own),
        .partial_o = region_of(bindings, &planned->workspace.partial_o),
        .partial_lse = region_of(bindings, &planned->workspace.partial_lse),
        .team = &cpu->team,
    };
    planned->kernel->execute(&run);
    return ATTUNE_OK;
}
