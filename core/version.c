/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "attune/version.h"

#define TEXT(number)    #number
#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

const char *attune_version(void) {
    return DOTTED(ATTUNE_VERSION_MAJOR, ATTUNE_VERSION_MINOR, ATTUNE_VERSION_PATCH);
}
