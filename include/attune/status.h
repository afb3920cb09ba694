/*
 * What every call returns, and the sentence behind it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_STATUS_H
#define ATTUNE_STATUS_H

#include "attune/version.h"

ATTUNE_EXTERN_C_BEGIN

/* An error that is found before anything is launched leaves every output as it was. */
typedef enum attune_status {
    ATTUNE_OK = 0,
    /* The caller's mistake: no backend could ever accept this. The sentence names argument, value and rule. */
    ATTUNE_INVALID_ARGUMENT = 1,
    /* Valid, but no kernel of this device computes it. The sentence has one line for each kernel row refused. */
    ATTUNE_UNSUPPORTED = 2,
    /* The driver, its library or the hardware is missing. */
    ATTUNE_UNAVAILABLE = 3,
    /* No such backend, device, kernel row or extension. */
    ATTUNE_NOT_FOUND = 4,
    /* A backend module speaks another ABI, or does not fit this library. */
    ATTUNE_INCOMPATIBLE = 5,
    /* Host or device memory ran out. Nothing was leaked; the call may be tried again. */
    ATTUNE_OUT_OF_MEMORY = 6,
    /* The device no longer answers, or this process is a fork of the one that opened it. Close it. */
    ATTUNE_DEVICE_LOST = 7,
    /* A fault of attune or of a driver. */
    ATTUNE_INTERNAL = 8
} attune_status;

/* The name of a status, as "INVALID_ARGUMENT"; "UNKNOWN" for a value outside the enum.
 *
 * Ownership: a constant of the library. Threads: any. Errors: none. */
ATTUNE_API const char *attune_status_name(attune_status status);

/* The sentence for the last call on this thread that did not return ATTUNE_OK; "" before the first one. A call that
 * succeeds leaves it as it was.
 *
 * Ownership: the library's, valid until the next failing call on this thread. Threads: each has its own. Errors: none.
 */
ATTUNE_API const char *attune_last_error(void);

ATTUNE_EXTERN_C_END

#endif
