/*
 * SPDX-License-Identifier: Apache-2.0
 */
#include "bench/unfused/blas.h"

#include <dlfcn.h>
#include <stdlib.h>

/* cblas.h's enums are ints of these values. */
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

struct blas {
    void *library;
    void (*sgemm)(int order, int transposed_a, int transposed_b, int rows, int columns, int depth, float alpha,
                  const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
    char *(*core)(void);
    void (*set_threads)(int threads);
};

static void *symbol(const struct blas *blas, const char *name) {
    return blas->library == NULL ? NULL : dlsym(blas->library, name);
}

struct blas *blas_open(int threads) {
    struct blas *blas = calloc(1, sizeof *blas);
    if (blas == NULL) {
        return NULL;
    }
    blas->library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    *(void **)&blas->sgemm = symbol(blas, "cblas_sgemm");
    *(void **)&blas->core = symbol(blas, "openblas_get_corename");
    *(void **)&blas->set_threads = symbol(blas, "openblas_set_num_threads");
    if (blas->sgemm == NULL || blas->core == NULL || blas->set_threads == NULL) {
        blas_close(blas);
        return NULL;
    }
    blas->set_threads(threads);
    return blas;
}

void blas_close(struct blas *blas) {
    if (blas != NULL && blas->library != NULL) {
        dlclose(blas->library);
    }
    free(blas);
}

const char *blas_core(const struct blas *blas) {
    return blas->core();
}

void blas_multiply(const struct blas *blas, bool is_transposed, int64_t rows, int64_t columns, int64_t depth,
                   const float *a, const float *b, float *out) {
    blas->sgemm(ROW_MAJOR, AS_IT_IS, is_transposed ? TRANSPOSED : AS_IT_IS, (int)rows, (int)columns, (int)depth, 1.0F,
                a, (int)depth, b, (int)(is_transposed ? depth : columns), 0.0F, out, (int)columns);
}
