/*
 * Tiles that were found by measuring, and outlive the process: one cache file for each kind of device.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_CORE_TUNED_TILE_H
#define ATTUNE_CORE_TUNED_TILE_H

#include "core/device_internal.h"
#include "core/tile.h"

/* Reads what was kept for devices of this kind into device->tuned_tiles; NULL if there is nothing, or it cannot be
 * read. Freed by attune_host_free. Leaves the thread's sentence as it was. */
void attune_tuned_tiles_load(attune_device *device);

/* The tile that was kept for a row and problems like this one; false if there is none. */
bool attune_tuned_tile_find(const attune_device *device, const attune_problem *problem, const attune_kernel_row *row,
                            struct attune_tile *out_tile);

#endif
