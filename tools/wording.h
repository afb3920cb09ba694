/*
 * The library speaks of arguments, the command of flags.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_TOOLS_WORDING_H
#define ATTUNE_TOOLS_WORDING_H

#include <stdio.h>

/* Prints a sentence of the library with each argument that is spelled otherwise on the command line as its flag. */
void wording_print(FILE *stream, const char *sentence);

#endif
