"""Streams and threads: order on one stream, several at once, and the caller's thread as it was.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import math
import threading

import driver
import pytest
import torch
from attune import BACKWARD, FORWARD
from problem import Problem, assert_right

DELAY_CYCLES = 50_000_000  # some 30 ms


def test_between_producer_and_consumer(device):
    """Inputs that are written late, and a copy of the output taken early, on the same stream as attention."""
    problem = Problem()
    drawn = [each.clone() for each in (problem.q, problem.k, problem.v)]
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    for each in (problem.q, problem.k, problem.v):
        each.zero_()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), contextlib.closing(device.wrap_stream(stream.cuda_stream)) as wrapped:
        torch.cuda._sleep(DELAY_CYCLES)
        for each, late in zip((problem.q, problem.k, problem.v), drawn):
            each.copy_(late)
        device.forward(wrapped, **problem.tensors())
        consumed = problem.o.clone()
        problem.o.fill_(math.nan)
    torch.cuda.synchronize()
    problem.o = consumed
    assert_right(problem)


def test_calls_do_not_wait(device):
    """A call behind a long delay returns before the delay is over."""
    problem = Problem()
    plan = device.plan(**problem.tensors())
    workspace = torch.empty(plan.workspace_bytes + 1, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream), contextlib.closing(device.wrap_stream(stream.cuda_stream)) as wrapped:
        torch.cuda._sleep(10 * DELAY_CYCLES)
        plan.run(wrapped, workspace.data_ptr())
        assert not stream.query(), "the delay is still running"
    torch.cuda.synchronize()
    assert_right(problem)
    plan.close()


def test_two_streams_at_once(device):
    problems = [Problem(rows=200, keys=500, seed=seed) for seed in range(2)]
    streams = [torch.cuda.Stream() for _ in problems]
    torch.cuda.synchronize()
    with contextlib.ExitStack() as opened:
        wrapped = [opened.enter_context(contextlib.closing(device.wrap_stream(each.cuda_stream))) for each in streams]
        for _ in range(20):
            for stream, problem in zip(wrapped, problems):
                device.forward(stream, causal=True, **problem.tensors())
    torch.cuda.synchronize()
    for problem in problems:
        assert_right(problem, causal=True)


class Planned:
    """A problem, its plan on a stream of its own, and a workspace that is dirty before each run."""

    def __init__(self, device, op, problem, **fields):
        self.problem = problem
        self.native = torch.cuda.Stream()
        self.stream = device.wrap_stream(self.native.cuda_stream)
        self.plan = device.plan(op, **fields)
        self.workspace = torch.empty(self.plan.workspace_bytes + 1, dtype=torch.uint8, device="cuda")

    def run(self):
        with torch.cuda.stream(self.native):
            self.workspace.fill_(255)
            self.plan.run(self.stream, self.workspace.data_ptr())

    def close(self):
        self.plan.close()
        self.stream.close()


@pytest.mark.parametrize("rows, keys", [(1500, 1500), (200, 8000)], ids=["tiles", "parts of tiles"])
def test_plans_side_by_side(device, rows, keys):
    """Kernels that draw tiles, or parts of them, from a counter, several in flight: the bits that each gives alone."""
    with contextlib.ExitStack() as opened:
        every = []
        for seed in range(4):
            problem = Problem(rows=rows, keys=keys, heads_q=8, heads_kv=8, seed=seed)
            every.append(Planned(device, FORWARD, problem, causal=True, **problem.tensors()))
            opened.enter_context(contextlib.closing(every[-1]))
            torch.cuda.synchronize()
            every[-1].run()
            torch.cuda.synchronize()
            assert_right(problem, causal=True)
        alone = [each.problem.o.clone() for each in every]
        torch.cuda.synchronize()
        for _ in range(10):
            for each in every:
                with torch.cuda.stream(each.native):
                    each.problem.o.fill_(math.nan)
                each.run()
        torch.cuda.synchronize()
        assert all(torch.equal(each.problem.o, o) for each, o in zip(every, alone))


@pytest.mark.parametrize("options", [{}, {"causal": True}, {"window": (700, 100)}], ids=["full", "causal", "window"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
def test_deterministic_backward_on_two_streams(device, head_dim, options):
    problem = Problem(batch=8, rows=2048, keys=2048, heads_q=2048 // head_dim, heads_kv=2048 // head_dim,
                      head_dim=head_dim)
    torch.cuda.synchronize()
    device.forward(**options, **problem.tensors())
    device.synchronize()
    dout = torch.randn_like(problem.q)
    with contextlib.ExitStack() as opened:
        every, first = [], None
        for _ in range(2):
            gradients = {"d" + name: torch.empty_like(getattr(problem, name)) for name in "qkv"}
            every.append((Planned(device, BACKWARD, problem, **options, deterministic=True, dout=dout,
                                  **problem.tensors(), **gradients), gradients.values()))
            opened.enter_context(contextlib.closing(every[-1][0]))
        torch.cuda.synchronize()
        for _ in range(20):
            for planned, _ in every:
                planned.run()
            torch.cuda.synchronize()
            first = first or [x.clone() for x in every[0][1]]
            for _, gradients in every:
                assert all(torch.equal(x, expected) for x, expected in zip(gradients, first))


@pytest.mark.parametrize("own_streams", [True, False])
def test_eight_threads(device, own_streams):
    """Each with problems of its own, on a stream of its own or on the default one; no thread is left with a context."""
    failures = []

    def work(number):
        try:
            problems = [Problem(rows=40 + number, keys=90 + 10 * turn, seed=number) for turn in range(4)]
            torch.cuda.synchronize()
            before = driver.current_context()
            stream = device.create_stream() if own_streams else None
            for _ in range(10):
                for problem in problems:
                    device.forward(stream, causal=True, **problem.tensors())
            device.synchronize(stream)
            if stream:
                stream.close()
            assert driver.current_context() == before
            for problem in problems:
                assert_right(problem, causal=True)
        except BaseException as failure:  # told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_events(device):
    """Through the library's own events: one stream waits for the other."""
    library = device.library
    problem = Problem()
    torch.cuda.synchronize()
    event = driver.ctypes.c_void_p()
    library.call("attune_event_create", device.handle, driver.ctypes.byref(event))
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    drawn = problem.q.clone()
    problem.q.zero_()
    torch.cuda.synchronize()
    with contextlib.closing(device.wrap_stream(first.cuda_stream)) as one:
        with contextlib.closing(device.wrap_stream(second.cuda_stream)) as two:
            with torch.cuda.stream(first):
                torch.cuda._sleep(DELAY_CYCLES)
                problem.q.copy_(drawn)
            library.call("attune_event_record", event, one.handle)
            library.call("attune_event_wait", event, two.handle)
            device.forward(two, **problem.tensors())
    library.calls.attune_event_close(event)
    torch.cuda.synchronize()
    assert_right(problem)
