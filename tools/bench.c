/*
 * attune bench: how fast.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#define _POSIX_C_SOURCE 200809L /* open_memstream */

#include <stdio.h>
#include <stdlib.h>

#include "backend.h"
#include "bench_plot.h"
#include "bench_report.h"
#include "commands.h"
#include "outputs.h"
#include "progress.h"

static const char usage[] = "attune bench - how fast: time, speed and share of the ceiling\n"
                            "\n"
                            "Usage: attune bench --shape B,Sq,Sk,Hq,Hkv,D[,Dv] [flags]\n"
                            "\n"
                            "Runs a problem on random normal inputs: once, checked, and held to the CPU's\n"
                            "reference kernel; then to warm up; then timed by the device's own events, run\n"
                            "after run. Prints the median, the spread between a tenth of the runs from either\n"
                            "end, TFLOP/s and GB/s of the problem itself (causal and windowed problems are\n"
                            "credited with the pairs that are visible, backward with 2.5 times forward; each\n"
                            "tensor is moved once), the share of what the device could do at best (by its\n"
                            "limits, if they tell it; of a CPU f32 multiply-adds and reads of memory are\n"
                            "measured), and the error. Flags of outputs say that they are wanted; no tensor\n"
                            "is written. What cannot be run in a sweep is listed as such; the exit status is\n"
                            "0 if anything ran and nothing was wrong.\n";

static const char examples[] = "\n"
                               "Examples:\n"
                               "  attune bench --shape 1,4096,4096,16,4,128 --causal --dtype bf16\n"
                               "  attune bench --op bwd --shape 1,0,0,16,16,64 --lengths 512,1k,2k,4k \\\n"
                               "      --backends cpu,cuda --plot bwd.svg --csv bwd.csv\n"
                               "  attune bench --op decode --shape 32,1,8192,32,8,128 --page-size 64\n";

enum { POINTS_MAX = 1024 };

struct bench {
    struct options options;
    attune_device *reference; /* NULL: nothing is verified */
    struct point *points;
    int count;
    int total;
    struct outputs outputs;
};

/* ---- The sweep ---- */

static int at_least_one(int count) {
    return count > 0 ? count : 1;
}

static struct point *add_point(struct bench *bench, int backend, int length, int kernel) {
    const struct options *options = &bench->options;
    struct point *point = &bench->points[bench->count++];
    *point = (struct point){
        .work = options->work,
        .asked_backend = options->backends.count ? options->backends.item[backend] : options->backend,
        .asked_kernel = options->kernels.count ? options->kernels.item[kernel] : options->kernel,
        .length = options->lengths.count ? options->lengths.item[length] : options->shape.keys,
    };
    progress_count(bench->count - 1, bench->total);
    return point;
}

/* device NULL: it could not be had, with this status. */
static void run_kernels(struct bench *bench, attune_device *device, enum tool_exit status, int backend, int length) {
    const struct options *options = &bench->options;
    struct workload workload = {0};
    if (!status) {
        status =
            workload_create(options, device, options->lengths.count ? options->lengths.item[length] : 0, &workload);
    }
    for (int kernel = 0; kernel < at_least_one(options->kernels.count); kernel++) {
        struct point *point = add_point(bench, backend, length, kernel);
        if (status) {
            point_fail(point, status);
        } else {
            point_run(point, &workload, bench->reference, options->repeat);
        }
    }
    workload_release(&workload);
}

static void run_backend(struct bench *bench, int backend) {
    const struct options *options = &bench->options;
    attune_device *device = NULL;
    const char *selector = options->backends.count ? options->backends.item[backend] : options->backend;
    enum tool_exit status = backend_open(selector, &device);
    for (int length = 0; length < at_least_one(options->lengths.count); length++) {
        run_kernels(bench, device, status, backend, length);
    }
    attune_device_close(device);
}

static enum tool_exit run(struct bench *bench) {
    const struct options *options = &bench->options;
    int backends = at_least_one(options->backends.count);
    bench->total = backends * at_least_one(options->lengths.count) * at_least_one(options->kernels.count);
    if (bench->total > POINTS_MAX) {
        return tool_fail(TOOL_BAD_INPUT, "--lengths, --backends, --kernels: %d points in all, at most %d", bench->total,
                         POINTS_MAX);
    }
    bench->points = calloc((size_t)bench->total, sizeof *bench->points);
    if (!bench->points) {
        return tool_fail_memory();
    }
    if (!options->no_verify) {
        enum tool_exit status = backend_open("cpu", &bench->reference);
        if (status) {
            return status;
        }
    }
    progress_stage("measuring");
    for (int backend = 0; backend < backends; backend++) {
        run_backend(bench, backend);
    }
    return TOOL_OK;
}

/* ---- What comes of it ---- */

typedef void (*writer)(FILE *stream, const struct point *points, int count);

static enum tool_exit stage(struct bench *bench, const char *flag, const char *path, writer write) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = path ? open_memstream(&text, &size) : NULL;
    if (!path) {
        return TOOL_OK;
    }
    if (!stream) {
        return tool_fail_memory();
    }
    write(stream, bench->points, bench->count);
    bool is_whole = !ferror(stream);
    is_whole = fclose(stream) == 0 && is_whole;
    enum tool_exit status = is_whole ? outputs_add_text(&bench->outputs, flag, path, text, size) : tool_fail_memory();
    free(text);
    return status;
}

/* A wrong result before all; success if anything ran; else the first failure. */
static enum tool_exit judge(const struct bench *bench) {
    bool has_run = false;
    for (int i = 0; i < bench->count; i++) {
        const struct point *point = &bench->points[i];
        if (point->is_verified && !point->verdict.is_right) {
            return TOOL_FAILED;
        }
        has_run = has_run || point->status == TOOL_OK;
    }
    return has_run ? TOOL_OK : bench->points[0].status;
}

static enum tool_exit report(struct bench *bench) {
    const struct options *options = &bench->options;
    enum tool_exit status = stage(bench, "--csv", options->csv, bench_write_csv);
    if (!status) {
        status = stage(bench, "--plot", options->plot, bench_write_plot);
    }
    if (!status && options->json) {
        status = bench_print_json(bench->points, bench->count);
    } else if (!status) {
        bench_print(bench->points, bench->count);
    }
    if (!status) {
        status = tool_flush();
    }
    if (!status) {
        status = judge(bench);
    }
    if (!status) {
        status = outputs_commit(&bench->outputs);
    }
    return status;
}

int attune_tool_bench(int argc, char **argv) {
    struct bench bench = {0};
    enum tool_exit status = options_parse(COMMAND_BENCH, argc, argv, &bench.options);
    if (!status && bench.options.help) {
        options_print_help(COMMAND_BENCH, usage, examples);
    } else if (!status) {
        progress_start();
        status = run(&bench);
        progress_stop();
        if (!status) {
            status = report(&bench);
        }
    }
    outputs_release(&bench.outputs);
    attune_device_close(bench.reference);
    free(bench.points);
    options_release(&bench.options);
    return status;
}
