/*
 * A sign of life on stderr from whatever takes longer than two seconds.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_PROGRESS_H
#define ATTUNE_TOOLS_PROGRESS_H

#include <stdint.h>

/* Starts watching. A line is printed after 2 s, and then each time that the time has doubled, so that a log stays
 * short. Nothing is printed if there is no thread to be had. */
void progress_start(void);

/* What is being done from now on: "forward". A constant string. */
void progress_stage(const char *stage);

/* How much of the stage is done. */
void progress_count(int64_t done, int64_t total);

/* Stops watching. */
void progress_stop(void);

#endif
