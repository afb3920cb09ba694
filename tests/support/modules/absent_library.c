/*
 * A library under a name (its soname) that no file has: what is linked with it cannot be opened.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
int absent_value(void);

int absent_value(void) {
    return 1;
}
