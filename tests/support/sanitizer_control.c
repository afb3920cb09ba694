/*
 * What a sanitizer has to end a program for: if one of these passes, so does every test that meets its like.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept; /* what the compiler must not see through */

static int overflow(int number) {
    return number + INT_MAX;
}

static int read_behind(int number) {
    int *freed = malloc(sizeof *freed);
    kept = freed;
    free(freed);
    return number + *(int *)kept;
}

static int leak(int number) {
    kept = malloc(16);
    kept = NULL;
    return number;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        return 0; /* the tests expect a failure */
    }
    int result = 0;
    if (strcmp(argv[1], "undefined") == 0) {
        result = overflow(argc);
    } else if (strcmp(argv[1], "address") == 0) {
        result = read_behind(argc);
    } else if (strcmp(argv[1], "leak") == 0) {
        result = leak(argc);
    }
    return printf("%d\n", result) > 0 ? 0 : 1;
}
