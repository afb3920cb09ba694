/*
 * A shared library that is no module.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
int no_symbol_value(void);

int no_symbol_value(void) {
    return 1;
}
