/*
 * What a queue does, one command after another.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "tests/support/opaque.h"

static int32_t find_places(const struct opaque_command *command, struct opaque_place places[OPAQUE_PLACES_MAX]) {
    int32_t count = 0;
    if (command->kind == OPAQUE_EXECUTE) {
        return opaque_plan_places(command, places);
    }
    if (command->kind == OPAQUE_COPY_IN || command->kind == OPAQUE_COPY_WITHIN || command->kind == OPAQUE_FILL) {
        places[count++] = (struct opaque_place){command->device, command->destination, command->bytes};
    }
    if (command->kind == OPAQUE_COPY_OUT || command->kind == OPAQUE_COPY_WITHIN) {
        places[count++] = (struct opaque_place){command->source_device, command->source, command->bytes};
    }
    return count;
}

attune_status opaque_command_hold(const struct opaque_command *command) {
    struct opaque_place places[OPAQUE_PLACES_MAX];
    attune_status status = opaque_memory_hold(places, find_places(command, places));
    if (status != ATTUNE_OK) {
        return status;
    }
    if (command->plan != NULL) {
        opaque_plan_retain(command->plan);
    }
    if (command->event != NULL) {
        opaque_event_retain(command->event);
    }
    return ATTUNE_OK;
}

void opaque_command_let_go(const struct opaque_command *command) {
    struct opaque_place places[OPAQUE_PLACES_MAX];
    opaque_memory_let_go(places, find_places(command, places));
    if (command->event != NULL) {
        opaque_event_release(command->event);
    }
    if (command->plan != NULL) {
        opaque_plan_let_go(command->plan);
    }
}

static void *host_address(attune_pointer pointer) {
    return (char *)pointer.data + pointer.byte_offset;
}

static void copy(const struct opaque_command *command) {
    const bool is_out = command->kind == OPAQUE_COPY_OUT;
    const bool is_in = command->kind == OPAQUE_COPY_IN;
    void *to = is_out ? host_address(command->destination) : opaque_memory_address(command->destination);
    const void *from = is_in ? host_address(command->source) : opaque_memory_address(command->source);
    memcpy(to, from, (size_t)command->bytes);
}

void opaque_command_run(const struct opaque_command *command) {
    switch (command->kind) {
    case OPAQUE_COPY_IN:
    case OPAQUE_COPY_OUT:
    case OPAQUE_COPY_WITHIN:
        copy(command);
        break;
    case OPAQUE_FILL:
        memset(opaque_memory_address(command->destination), command->value, (size_t)command->bytes);
        break;
    case OPAQUE_RECORD:
        opaque_event_reach(command->event, command->ticket);
        break;
    case OPAQUE_WAIT:
        opaque_event_await(command->event, command->ticket);
        break;
    case OPAQUE_EXECUTE:
        opaque_plan_run(command);
        break;
    }
}
