/*
 * Prints core's table of environment variables: the README has it, and the man page is made of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "core/env.h"
#include "core/host.h"

int main(void) {
    char *text = attune_env_format();
    if (text == NULL) {
        return 1;
    }
    fputs(text, stdout);
    attune_host_free(text);
    return 0;
}
