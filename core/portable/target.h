/*
 * What core/portable needs of a language: one text compiles as C11, C++17, CUDA, HIP (with or without its headers) and
 * OpenCL C 1.2. OpenCL gets no system header, and HIP none either.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef ATTUNE_PORTABLE_TARGET_H
#define ATTUNE_PORTABLE_TARGET_H

/* Offline clang defines the first, drivers the second. */
#if defined(__OPENCL_C_VERSION__) || defined(__OPENCL_VERSION__)
#    define ATTUNE_TARGET_OPENCL 1
#elif defined(__HIP__) || defined(__CUDA__) || defined(__CUDACC__)
#    define ATTUNE_TARGET_GPU 1
#else
#    define ATTUNE_TARGET_HOST 1
#endif

#if defined(ATTUNE_TARGET_HOST)
#    include <math.h>
#    include <stdbool.h>
#    include <stdint.h>
typedef uint8_t attune_u8;
typedef uint16_t attune_u16;
typedef uint32_t attune_u32;
typedef int64_t attune_i64;
typedef uint64_t attune_u64;
#elif defined(ATTUNE_TARGET_OPENCL)
typedef uchar attune_u8;
typedef ushort attune_u16;
typedef uint attune_u32;
typedef long attune_i64; /* 64 bits in OpenCL C on every device */
typedef ulong attune_u64;
#else
typedef unsigned char attune_u8;
typedef unsigned short attune_u16;
typedef unsigned int attune_u32;
typedef long long attune_i64;
typedef unsigned long long attune_u64;
#endif

#if defined(ATTUNE_TARGET_GPU)
#    define ATTUNE_FN static inline __attribute__((device))
#else
#    define ATTUNE_FN static inline
#endif

#if defined(ATTUNE_TARGET_OPENCL)
#    define ATTUNE_INFINITY INFINITY
#    define ATTUNE_NAN      NAN
#    define attune_exp2f(x) exp2((float)(x))
#    define attune_logf(x)  log((float)(x))
#    define attune_fmaxf    fmax
#elif defined(__CUDACC__) && !defined(__clang__)
#    define ATTUNE_INFINITY __int_as_float(0x7f800000)
#    define ATTUNE_NAN      __int_as_float(0x7fc00000)
#    define attune_exp2f    exp2f
#    define attune_logf     logf
#    define attune_fmaxf    fmaxf
#else
#    define ATTUNE_INFINITY __builtin_inff()
#    define ATTUNE_NAN      __builtin_nanf("")
#    define attune_exp2f    __builtin_exp2f
#    define attune_logf     __builtin_logf
#    define attune_fmaxf    __builtin_fmaxf
#endif

#endif
