/*
 * attune-unfused: attention of this build's portable kernel beside attention without fusion from the same products, and
 * those products beside OpenBLAS's. bench/unfused.py makes a table of what it prints.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attune/attune.h"
#include "bench/unfused/attention.h"
#include "bench/unfused/blas.h"
#include "tools/random.h"

enum { TURNS_MAX = 15, ERROR = 1, BAD_INPUT = 2 };

static const char usage[] =
    "Usage: attune-unfused full|causal THREADS HEADS HEAD_DIM LENGTH TURNS\n"
    "\n"
    "Runs every contender in turn and prints one line of JSON: median seconds, GFLOP/s of whole products,\n"
    "bytes besides q, k, v and o, and the largest difference between the two results. ATTUNE_NUM_THREADS has to\n"
    "be THREADS. The length is a multiple of 128, the head size of 16.\n";

struct bench {
    struct unfused unfused;
    int64_t heads;
    int turns;
    float *q, *k, *v; /* (heads, length, head_dim) */
    float *o;         /* of attune */
    float *o_unfused;
    attune_device *device;
    attune_plan *plan;
    attune_forward_args args;
    void *workspace;
    uint64_t workspace_bytes;
    struct blas *blas; /* NULL: not there */
};

/* ---- Making ---- */

static bool fill(float **out, int64_t count, uint64_t seed) {
    struct random random = {seed};
    *out = aligned_alloc(64, (size_t)count * sizeof(float));
    for (int64_t i = 0; *out != NULL && i < count; i++) {
        (*out)[i] = (float)random_normal(&random);
    }
    return *out != NULL;
}

static attune_tensor tensor_of(const struct bench *bench, float *data) {
    const int64_t length = bench->unfused.length;
    const int64_t head_dim = bench->unfused.head_dim;
    const int64_t shape[4] = {1, length, bench->heads, head_dim};
    attune_tensor tensor = attune_tensor_contiguous(data, ATTUNE_DTYPE_F32, 4, shape);
    tensor.stride[1] = head_dim;
    tensor.stride[2] = length * head_dim;
    return tensor;
}

static attune_status plan(struct bench *bench) {
    bench->args = attune_forward_args_init();
    bench->args.q = tensor_of(bench, bench->q);
    bench->args.k = tensor_of(bench, bench->k);
    bench->args.v = tensor_of(bench, bench->v);
    bench->args.o = tensor_of(bench, bench->o);
    bench->args.causal = bench->unfused.causal;
    bench->args.kernel = "generic_forward";
    attune_status status = attune_device_open("cpu", &bench->device);
    if (status == ATTUNE_OK) {
        status = attune_plan_create(bench->device, ATTUNE_OP_FORWARD, &bench->args, &bench->plan);
    }
    if (status == ATTUNE_OK) {
        status = attune_plan_get_workspace(bench->plan, &bench->workspace_bytes);
    }
    if (status == ATTUNE_OK) {
        status = attune_memory_alloc(bench->device, ATTUNE_MEMORY_DEFAULT, bench->workspace_bytes, &bench->workspace);
    }
    return status;
}

static int create(struct bench *bench) {
    const int64_t count = bench->heads * bench->unfused.length * bench->unfused.head_dim;
    const bool has_all = fill(&bench->q, count, 1) && fill(&bench->k, count, 2) && fill(&bench->v, count, 3) &&
                         fill(&bench->o, count, 4) && fill(&bench->o_unfused, count, 5) &&
                         unfused_create(&bench->unfused);
    if (!has_all) {
        fprintf(stderr, "attune-unfused: no memory\n");
        return ERROR;
    }
    bench->blas = blas_open(bench->unfused.threads);
    if (plan(bench) != ATTUNE_OK) {
        fprintf(stderr, "attune-unfused: %s\n", attune_last_error());
        return ERROR;
    }
    return 0;
}

static void release(struct bench *bench) {
    if (bench->device != NULL) {
        attune_memory_free(bench->device, bench->workspace);
    }
    attune_plan_close(bench->plan);
    attune_device_close(bench->device);
    blas_close(bench->blas);
    unfused_release(&bench->unfused);
    free(bench->q);
    free(bench->k);
    free(bench->v);
    free(bench->o);
    free(bench->o_unfused);
}

/* ---- A turn ---- */

enum { FUSED, UNFUSED, SCORES, SOFTMAX, VALUES, BLAS_SCORES, BLAS_VALUES, TIMES };

static int run_fused(struct bench *bench, double *out_seconds) {
    const double began = unfused_now();
    const attune_status status =
        attune_plan_run(bench->plan, NULL, &bench->args, bench->workspace, 0, bench->workspace_bytes);
    *out_seconds = unfused_now() - began;
    if (status != ATTUNE_OK) {
        fprintf(stderr, "attune-unfused: %s\n", attune_last_error());
    }
    return status == ATTUNE_OK ? 0 : ERROR;
}

static void run_unfused(const struct bench *bench, double seconds[TIMES]) {
    const int64_t head = bench->unfused.length * bench->unfused.head_dim;
    seconds[SCORES] = seconds[SOFTMAX] = seconds[VALUES] = 0;
    for (int64_t h = 0; h < bench->heads; h++) {
        const struct unfused_times times = unfused_run(&bench->unfused, bench->q + h * head, bench->k + h * head,
                                                       bench->v + h * head, bench->o_unfused + h * head);
        seconds[SCORES] += times.scores;
        seconds[SOFTMAX] += times.softmax;
        seconds[VALUES] += times.values;
    }
    seconds[UNFUSED] = seconds[SCORES] + seconds[SOFTMAX] + seconds[VALUES];
}

/* The two products, on the same memory. */
static void run_blas(const struct bench *bench, double seconds[TIMES]) {
    const struct unfused *unfused = &bench->unfused;
    const int64_t head = unfused->length * unfused->head_dim;
    seconds[BLAS_SCORES] = seconds[BLAS_VALUES] = 0;
    for (int64_t h = 0; h < bench->heads && bench->blas != NULL; h++) {
        const double began = unfused_now();
        blas_multiply(bench->blas, true, unfused->length, unfused->length, unfused->head_dim, bench->q + h * head,
                      bench->k + h * head, unfused->score);
        const double scored = unfused_now();
        blas_multiply(bench->blas, false, unfused->length, unfused->head_dim, unfused->length, unfused->score,
                      bench->v + h * head, bench->o_unfused + h * head);
        seconds[BLAS_SCORES] += scored - began;
        seconds[BLAS_VALUES] += unfused_now() - scored;
    }
}

/* ---- What comes of it ---- */

static int compare(const void *left, const void *right) {
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, compare);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static double largest_difference(const struct bench *bench) {
    const int64_t count = bench->heads * bench->unfused.length * bench->unfused.head_dim;
    double largest = 0;
    for (int64_t i = 0; i < count; i++) {
        const double difference = fabs((double)bench->o[i] - (double)bench->o_unfused[i]);
        largest = difference <= largest ? largest : difference; /* NaN is largest */
    }
    return largest;
}

static void print(const struct bench *bench, double seconds[TIMES][TURNS_MAX], double difference) {
    const struct unfused *unfused = &bench->unfused;
    const double product =
        2e-9 * (double)bench->heads * (double)unfused->length * (double)unfused->length * (double)unfused->head_dim;
    double middle[TIMES];
    for (int n = 0; n < TIMES; n++) {
        middle[n] = median(seconds[n], bench->turns);
    }
    printf("{\"mask\": \"%s\", \"length\": %lld, \"fused_seconds\": %.6f, \"unfused_seconds\": %.6f,"
           " \"softmax_seconds\": %.6f, \"scores_gflops\": %.2f, \"values_gflops\": %.2f,",
           unfused->causal ? "causal" : "full", (long long)unfused->length, middle[FUSED], middle[UNFUSED],
           middle[SOFTMAX], product / middle[SCORES], product / middle[VALUES]);
    if (bench->blas != NULL) {
        printf(" \"blas_core\": \"%s\", \"blas_scores_gflops\": %.2f, \"blas_values_gflops\": %.2f,",
               blas_core(bench->blas), product / middle[BLAS_SCORES], product / middle[BLAS_VALUES]);
    }
    printf(" \"fused_bytes\": %llu, \"unfused_bytes\": %llu, \"difference\": %.1e}\n",
           (unsigned long long)bench->workspace_bytes, (unsigned long long)unfused->bytes, difference);
}

static int run(struct bench *bench) {
    double seconds[TIMES][TURNS_MAX];
    double difference = 0;
    int status = 0;
    for (int turn = -1; turn < bench->turns && status == 0; turn++) { /* one to warm up */
        double times[TIMES];
        status = run_fused(bench, &times[FUSED]);
        run_unfused(bench, times);
        difference = largest_difference(bench);
        run_blas(bench, times);
        for (int n = 0; n < TIMES && turn >= 0; n++) {
            seconds[n][turn] = times[n];
        }
    }
    if (status == 0) {
        print(bench, seconds, difference);
        status = difference <= 1e-5 ? 0 : ERROR;
    }
    return status;
}

/* A number from 1 to most, or 0. */
static int64_t number(const char *text, int64_t most) {
    char *end = NULL;
    const long long value = strtoll(text, &end, 10);
    return *end == '\0' && value >= 1 && value <= most ? value : 0;
}

int main(int argc, char **argv) {
    struct bench bench = {0};
    if (argc == 7) {
        bench.unfused.causal = strcmp(argv[1], "causal") == 0;
        bench.unfused.threads = (int)number(argv[2], 256);
        bench.heads = number(argv[3], 256);
        bench.unfused.head_dim = number(argv[4], 256);
        bench.unfused.length = number(argv[5], 32768);
        bench.turns = (int)number(argv[6], TURNS_MAX);
    }
    const bool has_mask = argc == 7 && (bench.unfused.causal || strcmp(argv[1], "full") == 0);
    if (!has_mask || bench.unfused.threads == 0 || bench.heads == 0 || bench.turns == 0 || bench.unfused.length == 0 ||
        bench.unfused.head_dim == 0 || bench.unfused.length % UNFUSED_TILE != 0 || bench.unfused.head_dim % 16 != 0) {
        fprintf(stderr, "%s", usage);
        return BAD_INPUT;
    }
    int status = create(&bench);
    if (status == 0) {
        status = run(&bench);
    }
    release(&bench);
    return status;
}
