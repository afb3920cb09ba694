#!/usr/bin/env python3
"""Measures attune's opencl backend beside attention that is not fused, and beside what the device can do.

    opencl_bench.py --library build/libattune.so [--device NAME] [--lanes L] [--length N] [--tokens N] [--hidden N]

The kernels of opencl_peers.cl and attune work on the same memory in one queue. Batch x length is constant. FLOPs are
4 B H N N D, half of it for causal, backward 2.5 times that. Both sides are counted so, though the unfused one computes
what a causal mask hides, and drops it. "Most possible" is how many times as fast as the unfused one a kernel would be
that did these FLOPs at the rate of the loop of multiply-adds. The unfused backward is given the weights that its forward
kept, and so is spared one product. Times are medians by the host's clock around a finished queue, in turn.

--lanes: of f32 in a compute unit, 128 on NVIDIA's since 8.6; with it the loop of multiply-adds is held to 90% of
2 x lanes x clock. SPDX-License-Identifier: Apache-2.0
"""
import argparse
import ctypes
import math
import pathlib
import statistics
import time

import attune
import numpy
from opencl_driver import Driver

TURNS_MIN, TURNS_MAX = 3, 20
FMA_STEPS, FMA_CHAINS, FMA_THREADS = 4096, 16, 256
TILE_ROWS, PRODUCT_THREADS, ROW_THREADS = 128, 256, 256
VARIANTS = [(depth, columns) for depth in (8, 16) for columns in (128, 64)]  # of the matrix product's tiles
LIMITS = {"f32": 1.5e-6, "f16": 1.5e-3}  # ||X - G|| / ||G||; the unfused one keeps its scores in f16
NUMPY = {"f32": numpy.float32, "f16": numpy.float16}
SOURCE = (pathlib.Path(__file__).resolve().parent / "opencl_peers.cl").read_text()

Long = ctypes.c_int64

# ---- Time ----


def seconds_of(driver, run):
    driver.finish()
    began = time.perf_counter()
    run()
    driver.finish()
    return time.perf_counter() - began


def medians(driver, runs, seconds):
    """Median seconds of each, measured in turn after each was run once."""
    estimate = sum(seconds_of(driver, run) for run in runs)
    estimate = sum(seconds_of(driver, run) for run in runs)
    turns = max(TURNS_MIN, min(TURNS_MAX, int(seconds / estimate)))
    times = [[seconds_of(driver, run) for run in runs] for _ in range(turns)]
    return [statistics.median(each) for each in zip(*times)]


# ---- What the device can do ----


def fma_rate(driver, seconds):
    """f32 multiply-adds, counted as two, per second."""
    kernel = driver.kernel(SOURCE, "fma_loop", "")
    out = driver.buffer(4)
    groups = driver.compute_units * 64
    taken, = medians(driver, [lambda: driver.launch(kernel, (groups, 1, 1), FMA_THREADS, out, FMA_STEPS, 0.999, 0.5)], seconds)
    driver.free(out)
    return 2.0 * groups * FMA_THREADS * FMA_STEPS * FMA_CHAINS / taken


# ---- Unfused ----


class Problem:
    def __init__(self, dtype, causal, batch, length, heads, head_dim):
        self.dtype, self.causal = dtype, causal
        self.batch, self.length, self.heads, self.head_dim = batch, length, heads, head_dim
        self.shape = (batch, length, heads, head_dim)
        self.scale = 1.0 / math.sqrt(head_dim)

    def flops(self, what):
        forward = 4.0 * self.batch * self.heads * self.length ** 2 * self.head_dim * (0.5 if self.causal else 1.0)
        return forward * (2.5 if what == "backward" else 1.0)


class Unfused:
    """Scores are kept in memory, as are those of all heads from forward to backward."""

    def __init__(self, driver, problem, variant):
        self.driver, self.problem = driver, problem
        self.half = f"-DSTORAGE_IS_HALF={int(problem.dtype == 'f16')} "
        self.tile_depth, self.columns_max = variant
        line_bytes = numpy.dtype(NUMPY[problem.dtype]).itemsize * problem.length ** 2
        self.weights, self.gradient = (driver.buffer(line_bytes * problem.batch * problem.heads) for _ in range(2))
        self.softmax = driver.kernel(SOURCE, "softmax_rows", self.half)
        self.softmax_gradient = driver.kernel(SOURCE, "softmax_gradient", self.half)
        self.to_scores = self.product(128, False, True)
        self.to_rows = self.product(problem.head_dim, False, False)
        self.to_keys = self.product(problem.head_dim, True, False)

    def product(self, columns, a_is_transposed, b_is_transposed):
        columns = min(columns, self.columns_max)
        options = (f"{self.half} -DTILE_DEPTH={self.tile_depth} -DTILE_COLUMNS={columns} -DA_IS_TRANSPOSED={int(a_is_transposed)} "
                   f"-DB_IS_TRANSPOSED={int(b_is_transposed)}")
        return columns, self.driver.kernel(SOURCE, "matrix_product", options)

    def close(self):
        self.driver.free(self.weights)
        self.driver.free(self.gradient)

    def vectors(self, buffer):
        _, length, heads, dim = self.problem.shape
        return buffer, Long(heads * dim), Long(dim), Long(length * heads * dim)

    def scores(self, buffer):
        _, length, heads, _ = self.problem.shape
        return buffer, Long(length), Long(length ** 2), Long(length ** 2 * heads)

    def multiply(self, product, rows, columns, depth, alpha, a, b, c):
        batch, _, heads, _ = self.problem.shape
        tile_columns, kernel = product
        self.driver.launch(kernel, (columns // tile_columns, rows // TILE_ROWS, batch * heads), PRODUCT_THREADS, *a, *b, *c,
                           depth, heads, alpha)

    def by_rows(self, kernel, *arguments):
        batch, length, heads, _ = self.problem.shape
        self.driver.launch(kernel, (batch * heads * length, 1, 1), ROW_THREADS, *arguments)

    def scores_product(self):
        """The tiled product alone, as its rate is asked for."""
        length, dim = self.problem.length, self.problem.head_dim
        return 2.0 * self.problem.batch * self.problem.heads * length ** 2 * dim

    def multiply_scores(self, q, k):
        length, dim = self.problem.length, self.problem.head_dim
        self.multiply(self.to_scores, length, length, dim, self.problem.scale, self.vectors(q), self.vectors(k),
                      self.scores(self.weights))

    def multiply_output(self, v, o):
        length, dim = self.problem.length, self.problem.head_dim
        self.multiply(self.to_rows, length, dim, length, 1.0, self.scores(self.weights), self.vectors(v), self.vectors(o))

    def forward(self, q, k, v, o):
        self.multiply_scores(q, k)
        self.by_rows(self.softmax, self.weights, self.problem.length, self.problem.length, int(self.problem.causal))
        self.multiply_output(v, o)

    def backward(self, q, k, v, dout, dq, dk, dv):
        length, dim = self.problem.length, self.problem.head_dim
        self.multiply(self.to_scores, length, length, dim, 1.0, self.vectors(dout), self.vectors(v),
                      self.scores(self.gradient))
        self.multiply(self.to_keys, length, dim, length, 1.0, self.scores(self.weights), self.vectors(dout),
                      self.vectors(dv))
        self.by_rows(self.softmax_gradient, self.weights, self.gradient, length, self.problem.scale)
        self.multiply(self.to_rows, length, dim, length, 1.0, self.scores(self.gradient), self.vectors(k),
                      self.vectors(dq))
        self.multiply(self.to_keys, length, dim, length, 1.0, self.scores(self.gradient), self.vectors(q),
                      self.vectors(dk))


# ---- attune ----


class Fused:
    def __init__(self, device, problem, memory):
        self.device, self.stream = device, device.wrap_stream(memory.driver.queue.value)
        fields = {name: memory.tensor(name) for name in ("q", "k", "v", "o", "lse")} | {"causal": problem.causal}
        gradients = {name: memory.tensor(name) for name in ("dout", "dq", "dk", "dv")}
        self.plans = [device.plan(attune.FORWARD, **fields)]
        self.missing = None
        try:
            self.plans.append(device.plan(attune.BACKWARD, **fields, **gradients))
        except attune.Error as error:
            self.missing = str(error)
        self.workspace = memory.driver.buffer(max(plan.workspace_bytes for plan in self.plans) + 1)

    def run(self, backward):
        self.plans[backward].run(self.stream, self.workspace.value)

    def close(self):
        for plan in self.plans:
            plan.close()
        self.stream.close()


class Memory:
    """The tensors of a problem; both contenders write the same ones. drawn: as many numbers as are wanted."""

    def __init__(self, driver, problem, drawn):
        self.driver, self.problem = driver, problem
        self.dtype = numpy.dtype(NUMPY[problem.dtype])
        self.host = {name: array.reshape(problem.shape) for name, array in drawn.items()}
        size = math.prod(problem.shape) * self.dtype.itemsize
        self.buffers = {name: driver.buffer(size) for name in ("q", "k", "v", "dout", "o", "dq", "dk", "dv")}
        self.buffers["lse"] = driver.buffer(4 * problem.batch * problem.heads * problem.length)
        for name, array in self.host.items():
            driver.write(self.buffers[name], array)
        self.right = None

    def tensor(self, name):
        made = attune.Tensor(data=self.buffers[name].value)
        batch, length, heads, _ = self.problem.shape
        shape = (batch, heads, length) if name == "lse" else self.problem.shape
        made.dtype = attune.CONSTANTS["ATTUNE_DTYPE_F32" if name == "lse" else "ATTUNE_DTYPE_" + self.problem.dtype.upper()]
        made.rank = len(shape)
        for axis in range(made.rank):
            made.shape[axis] = shape[axis]
            made.stride[axis] = math.prod(shape[axis + 1:])
        return made

    def of(self, *names):
        return [self.buffers[name] for name in names]

    def close(self):
        for buffer in self.buffers.values():
            self.driver.free(buffer)

    # ---- Whether it is right: the last head of the last batch ----

    def worst_error(self, names):
        self.right = self.right or self._expected()
        return max(numpy.linalg.norm(self._last_head(name) - self.right[name]) / numpy.linalg.norm(self.right[name])
                   for name in names)

    def _last_head(self, name):
        shape = self.problem.shape[1:]
        offset = (self.problem.batch - 1) * math.prod(shape) * self.dtype.itemsize
        return self.driver.read(self.buffers[name], shape, self.dtype, offset)[:, -1].astype(numpy.float64)

    def _expected(self):
        """o, dq, dk and dv in float64."""
        q, k, v, dout = (self.host[name][-1, :, -1].astype(numpy.float64) for name in ("q", "k", "v", "dout"))
        score = q @ k.T * self.problem.scale
        if self.problem.causal:
            score = numpy.where(numpy.tri(self.problem.length, dtype=bool), score, -numpy.inf)
        weight = numpy.exp(score - score.max(1, keepdims=True))
        weight /= weight.sum(1, keepdims=True)
        through = dout @ v.T
        gradient = weight * (through - (weight * through).sum(1, keepdims=True)) * self.problem.scale
        return {"o": weight @ v, "dq": gradient @ k, "dk": gradient.T @ q, "dv": weight.T @ dout}


# ---- The table ----

HEADER = ("| pass | dtype | mask | D | attune TFLOP/s | of the loop | unfused TFLOP/s | times as fast | most possible | error |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")


def measure_pass(what, problem, memory, fused, unfused, options, peak):
    backward = what == "backward"
    names = ("dq", "dk", "dv") if backward else ("o",)
    if backward and fused.missing is not None:
        print(f"| {what} | {problem.dtype} | | {problem.head_dim} | {fused.missing.splitlines()[0]} |", flush=True)
        return
    if backward:
        others = lambda: unfused.backward(*memory.of("q", "k", "v", "dout", "dq", "dk", "dv"))
    else:
        others = lambda: unfused.forward(*memory.of("q", "k", "v", "o"))
    errors = []
    for run in (others, lambda: fused.run(backward)):
        run()
        errors.append(memory.worst_error(names))
    wrong = "" if errors[1] <= LIMITS[problem.dtype] else " WRONG"
    theirs, ours = medians(memory.driver, [others, lambda: fused.run(backward)], options.seconds)
    rate, their_rate = (problem.flops(what) / seconds for seconds in (ours, theirs))
    print(f"| {what} | {problem.dtype} | {'causal' if problem.causal else 'full'} | {problem.head_dim} | {rate / 1e12:.3g} "
          f"| {100 * rate / peak:.1f}% | {their_rate / 1e12:.3g} | {rate / their_rate:.2f} | {peak / their_rate:.2f} "
          f"| {errors[1]:.1e} (unfused {errors[0]:.1e}){wrong} |", flush=True)


def measure(driver, device, problem, drawn, options, peak):
    memory = Memory(driver, problem, drawn)
    unfused, fused = Unfused(driver, problem, options.variant), Fused(device, problem, memory)
    for what in options.passes.split(","):
        measure_pass(what, problem, memory, fused, unfused, options, peak)
    product, = medians(driver, [lambda: unfused.multiply_scores(*memory.of("q", "k"))], options.seconds / 4)
    print(f"<!-- tiled product, {problem.dtype}, depth {problem.head_dim}: "
          f"{100 * unfused.scores_product() / product / peak:.1f}% of the loop -->", flush=True)
    for each in (fused, unfused, memory):
        each.close()


def choose_variant(driver, options, peak):
    """The fastest of the unfused one's products where nothing else is in its way: of two large squares."""
    side = options.square
    problem = Problem("f32", False, 1, side, 1, 128)
    square, other = driver.buffer(4 * side * side), driver.buffer(4 * side * side)
    lines = Long(side), Long(0), Long(0)
    rates = {}
    for variant in VARIANTS:
        unfused = Unfused(driver, problem, variant)
        run = lambda: unfused.multiply(unfused.to_rows, side, side, side, 1.0, (square, *lines), (other, *lines),
                                       (unfused.weights, *lines))
        taken, = medians(driver, [run], options.seconds)
        rates[variant] = 2.0 * side ** 3 / taken
        print(f"tiled product of {side} x {side}, tiles of {variant[1]} columns, {variant[0]} deep: "
              f"{rates[variant] / 1e12:.3g} TFLOP/s, {100 * rates[variant] / peak:.1f}% of the loop", flush=True)
        unfused.close()
    driver.free(square)
    driver.free(other)
    return max(rates, key=rates.get)


def draw(options):
    """Normal inputs in f32, of all problems."""
    generator = numpy.random.default_rng(options.seed)
    return {name: generator.standard_normal(options.tokens * options.hidden, numpy.float32)
            for name in ("q", "k", "v", "dout")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--device", default="", help="the beginning of its name")
    parser.add_argument("--lanes", type=int, help="f32 lanes of a compute unit")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--tokens", type=int, default=16384, help="batch x length")
    parser.add_argument("--hidden", type=int, default=2048, help="heads x head_dim")
    parser.add_argument("--square", type=int, default=4096, help="side of the matrices whose product is timed alone")
    parser.add_argument("--dtypes", default="f32,f16")
    parser.add_argument("--head-dims", default="64,128")
    parser.add_argument("--passes", default="forward,backward")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each cell")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    driver = Driver(options.device)
    device = attune.Library(options.library).wrap("opencl", ctypes.addressof(driver.native))
    print(f"{driver.name}, {driver.compute_units} units at {driver.clock_hz / 1e6:.0f} MHz", flush=True)
    peak = fma_rate(driver, options.seconds)
    print(f"loop of multiply-adds: {peak / 1e12:.3g} TFLOP/s f32", end="")
    if options.lanes:
        print(f", {100 * peak / (2.0 * options.lanes * driver.compute_units * driver.clock_hz):.1f}% of 2 x lanes x clock",
              end="")
    print(flush=True)
    options.variant = choose_variant(driver, options, peak)
    print(HEADER, flush=True)
    normal = draw(options)
    for dtype in options.dtypes.split(","):
        drawn = {name: array.astype(NUMPY[dtype]) for name, array in normal.items()}
        for head_dim in map(int, options.head_dims.split(",")):
            for causal in (False, True):
                problem = Problem(dtype, causal, options.tokens // options.length, options.length,
                                  options.hidden // head_dim, head_dim)
                measure(driver, device, problem, drawn, options, peak)
    device.close()


if __name__ == "__main__":
    main()
