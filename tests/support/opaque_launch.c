/*
 * Rows and plans: the CPU's reference kernels, run on the host's memory behind the handles.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "attune/backend_util.h"
#include "backends/cpu/kernel.h"
#include "tests/support/opaque.h"

/* ---- The rows: those of the CPU's reference, under other names ---- */

#define REFERENCE "reference_"

#define ATTUNE_ROW(...) +1
enum {
    CPU_ROW_COUNT = 0
#include "backends/cpu/kernels.def"
};
#undef ATTUNE_ROW

static attune_kernel_row rows[CPU_ROW_COUNT];
static char names[CPU_ROW_COUNT][ATTUNE_NAME_MAX];
static int32_t row_count;

static void make_rows(void) {
    int32_t cpu_count = 0;
    const attune_kernel_row *cpu_rows = attune_cpu_kernels(&cpu_count);
    for (int32_t index = 0; index < cpu_count; index++) {
        if (strncmp(cpu_rows[index].name, REFERENCE, strlen(REFERENCE)) == 0) {
            snprintf(names[row_count], sizeof names[row_count], "opaque_%s", cpu_rows[index].name + strlen(REFERENCE));
            rows[row_count] = cpu_rows[index];
            rows[row_count].name = names[row_count];
            row_count++;
        }
    }
}

const attune_kernel_row *opaque_kernels(int32_t *out_count) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_rows);
    *out_count = row_count;
    return rows;
}

static const struct attune_cpu_kernel *kernel_of(int32_t row) {
    int32_t count = 0;
    return opaque_kernels(&count)[row].kernel;
}

bool opaque_row_accepts(void *device, int32_t row, const attune_problem *problem, char reason[ATTUNE_REASON_MAX]) {
    (void)device, (void)row;
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        const attune_layout *layout = &problem->operand[operand];
        if (layout->dtype != ATTUNE_DTYPE_NONE && layout->memory != ATTUNE_MEMORY_DEFAULT &&
            layout->memory != ATTUNE_MEMORY_DEVICE) {
            snprintf(reason, ATTUNE_REASON_MAX, "a tensor is of memory kind %d: only device memory, %d, is read",
                     (int)layout->memory, (int)ATTUNE_MEMORY_DEVICE);
            return false;
        }
    }
    return true;
}

/* ---- Plans ---- */

struct opaque_plan {
    _Atomic int32_t holders; /* core, commands in queues and in graphs */
    attune_problem problem;
    attune_workspace_map workspace;
    const struct attune_cpu_kernel *kernel;
};

/* A queue's own thread does all of a command's work. */
#define THREADS 1

uint64_t opaque_workspace_bytes(void *device, int32_t row, const attune_problem *problem,
                                const attune_schedule *schedule) {
    (void)device;
    const struct attune_cpu_kernel *kernel = kernel_of(row);
    return kernel->workspace_bytes == NULL ? 0 : kernel->workspace_bytes(problem, schedule, THREADS);
}

attune_status opaque_plan_build(void *device, const attune_plan_request *request, void **out_plan) {
    attune_status status = opaque_device_check(device);
    if (status != ATTUNE_OK) {
        return status;
    }
    struct opaque_plan *plan = opaque_host->alloc(sizeof *plan);
    if (plan == NULL) {
        return opaque_host->fail(ATTUNE_OUT_OF_MEMORY, "no memory for a plan of %zu bytes", sizeof *plan);
    }
    atomic_init(&plan->holders, 1);
    plan->problem = *request->problem;
    plan->workspace = request->workspace;
    plan->kernel = kernel_of(request->row);
    *out_plan = plan;
    return ATTUNE_OK;
}

void opaque_plan_retain(struct opaque_plan *plan) {
    atomic_fetch_add(&plan->holders, 1);
}

void opaque_plan_let_go(struct opaque_plan *plan) {
    if (atomic_fetch_sub(&plan->holders, 1) == 1) {
        opaque_host->free(plan);
    }
}

void opaque_plan_release(void *device, void *plan) {
    (void)device;
    opaque_plan_let_go(plan);
}

/* ---- Execution ---- */

static uint64_t span_bytes(const attune_layout *layout) {
    int64_t last = 0;
    if (attune_layout_elements(layout) == 0) {
        return 0;
    }
    for (int axis = 0; axis < ATTUNE_RANK_MAX; axis++) {
        last += (layout->shape[axis] - 1) * layout->stride[axis];
    }
    return (uint64_t)((last + 1) * attune_element_bytes(layout->dtype));
}

/* Whether the operand has a pointer of its own and anything behind it. */
static bool has_place(const attune_problem *problem, int operand) {
    const bool is_part = operand == ATTUNE_OPERAND_PART_O || operand == ATTUNE_OPERAND_PART_LSE;
    return !is_part && attune_layout_elements(&problem->operand[operand]) > 0;
}

static int32_t part_count(const attune_problem *problem) {
    const bool has_parts = attune_layout_elements(&problem->operand[ATTUNE_OPERAND_PART_LSE]) > 0;
    return has_parts ? (int32_t)problem->parts : 0;
}

int32_t opaque_plan_places(const struct opaque_command *command, struct opaque_place places[OPAQUE_PLACES_MAX]) {
    const attune_problem *problem = &command->plan->problem;
    const int32_t device = command->device;
    int32_t count = 0;
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        if (has_place(problem, operand)) {
            places[count++] = (struct opaque_place){device, command->bindings.operand[operand],
                                                    span_bytes(&problem->operand[operand])};
        }
    }
    for (int32_t part = 0; part < part_count(problem); part++) {
        places[count++] =
            (struct opaque_place){device, command->part_o[part], span_bytes(&problem->operand[ATTUNE_OPERAND_PART_O])};
        places[count++] = (struct opaque_place){device, command->part_lse[part],
                                                span_bytes(&problem->operand[ATTUNE_OPERAND_PART_LSE])};
    }
    if (command->plan->workspace.size_bytes > 0) {
        places[count++] =
            (struct opaque_place){device, command->bindings.workspace, command->plan->workspace.size_bytes};
    }
    return count;
}

attune_status opaque_execute(void *device, void *plan, void *stream, const attune_bindings *bindings) {
    const struct opaque_device *opened = device;
    struct opaque_plan *planned = plan;
    struct opaque_command command = {
        .kind = OPAQUE_EXECUTE, .device = opened->index, .plan = planned, .bindings = *bindings};
    attune_status status = opaque_device_check(opened);
    if (status != ATTUNE_OK) {
        return status;
    }
    for (int32_t part = 0; part < part_count(&planned->problem); part++) {
        command.part_o[part] = bindings->part_o[part];
        command.part_lse[part] = bindings->part_lse[part];
    }
    return opaque_queue_push(opaque_stream_queue(opened, stream), &command);
}

static attune_pointer to_host(attune_pointer pointer) {
    return (attune_pointer){.data = opaque_memory_address(pointer)};
}

/* A kernel may count on nothing that lies in its workspace. */
static char *spoil_workspace(const struct opaque_command *command) {
    const attune_workspace_region *own = &command->plan->workspace.own;
    if (own->size_bytes == 0) {
        return NULL;
    }
    char *workspace = (char *)opaque_memory_address(command->bindings.workspace) + own->offset;
    return memset(workspace, 0xFF, (size_t)own->size_bytes);
}

void opaque_plan_run(const struct opaque_command *command) {
    const struct attune_cpu_team team = {.threads = THREADS, .host = opaque_host};
    const attune_problem *problem = &command->plan->problem;
    attune_pointer part_o[ATTUNE_MERGE_PARTS_MAX];
    attune_pointer part_lse[ATTUNE_MERGE_PARTS_MAX];
    attune_bindings bindings = command->bindings;
    for (int operand = 0; operand < ATTUNE_OPERAND_COUNT; operand++) {
        if (has_place(problem, operand)) {
            bindings.operand[operand] = to_host(bindings.operand[operand]);
        }
    }
    for (int32_t part = 0; part < part_count(problem); part++) {
        part_o[part] = to_host(command->part_o[part]);
        part_lse[part] = to_host(command->part_lse[part]);
    }
    bindings.part_o = part_o;
    bindings.part_lse = part_lse;
    const struct attune_cpu_run run = {
        .problem = problem, .bindings = &bindings, .workspace = spoil_workspace(command), .team = &team};
    command->plan->kernel->execute(&run);
}
