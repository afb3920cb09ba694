/*
 * Which attune this is, and how its symbols are seen.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_VERSION_H
#define ATTUNE_VERSION_H

/* The build reads the library's version and soname from these three lines. While the major version is 0, a new
 * minor version may break the ABI and carries a new soname. */
#define ATTUNE_VERSION_MAJOR 0
#define ATTUNE_VERSION_MINOR 1
#define ATTUNE_VERSION_PATCH 0

/* What a backend module and its host must agree on; see backend.h. Major: layouts changed, refuse each other. Minor:
 * something was added at the end of a struct. */
#define ATTUNE_BACKEND_ABI_MAJOR 1
#define ATTUNE_BACKEND_ABI_MINOR 1

#if defined(__GNUC__)
#    define ATTUNE_API                               __attribute__((visibility("default")))
#    define ATTUNE_MUST_CHECK                        __attribute__((warn_unused_result))
#    define ATTUNE_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))
#else
#    define ATTUNE_API
#    define ATTUNE_MUST_CHECK
#    define ATTUNE_PRINTF(format_index, first_index)
#endif

#ifdef __cplusplus
#    define ATTUNE_EXTERN_C_BEGIN extern "C" {
#    define ATTUNE_EXTERN_C_END   }
#else
#    define ATTUNE_EXTERN_C_BEGIN
#    define ATTUNE_EXTERN_C_END
#endif

ATTUNE_EXTERN_C_BEGIN

/* The version of the library that is loaded, as "major.minor.patch". The macros above tell the version that the caller
 * was compiled against.
 *
 * Ownership: a constant of the library. Threads: any. Errors: none. */
ATTUNE_API const char *attune_version(void);

ATTUNE_EXTERN_C_END

#endif
