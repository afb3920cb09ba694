"""Planned runs in a graph: replayed with other inputs and lengths at the same addresses.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import math

import pytest
import torch
from problem import Problem, assert_right


def capture(device, run):
    """A graph of what run(stream) queues. The wrapped stream is closed before the capture ends, which must not wait."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        with contextlib.closing(device.wrap_stream(torch.cuda.current_stream().cuda_stream)) as stream:
            run(stream)
    return graph


def replay(graph, problem, **options):
    problem.o.fill_(math.nan)
    problem.lse.fill_(math.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert_right(problem, **options)


CHUNK = {"rows": 200, "keys": 8000}  # of a prompt: so few tiles that some rows cut them along the keys


@pytest.mark.parametrize("sizes", [{"rows": 70, "keys": 130}, {"rows": 1500, "keys": 1560}, CHUNK])
def test_planned_run_with_other_inputs(device, sizes):
    problem = Problem(**sizes, heads_q=8)
    plan = device.plan(causal=True, **problem.tensors())
    workspace = torch.empty(plan.workspace_bytes + 1, dtype=torch.uint8, device="cuda")
    graph = capture(device, lambda stream: plan.run(stream, workspace.data_ptr()))
    assert problem.o.isnan().all(), "captured, not run"
    for _ in range(3):
        problem.redraw()
        workspace.fill_(255)
        replay(graph, problem, causal=True)
    del graph
    plan.close()


@pytest.mark.parametrize("rows, unit", [(1, 1), (200, 20)])
def test_planned_run_with_other_lengths(device, rows, unit):
    problem = Problem(batch=3, rows=rows, keys=300 * unit)
    lengths = unit * torch.tensor([1, 200, 300], dtype=torch.int32, device="cuda")
    plan = device.plan(seqused_k=lengths, causal=True, **problem.tensors())
    workspace = torch.empty(plan.workspace_bytes + 1, dtype=torch.uint8, device="cuda")
    graph = capture(device, lambda stream: plan.run(stream, workspace.data_ptr()))
    for next_lengths in ([1, 200, 300], [2, 201, 299], [300, 17, 1], [128, 129, 127]):
        lengths.copy_(unit * torch.tensor(next_lengths, dtype=torch.int32))
        replay(graph, problem, causal=True, lengths=lengths)
    del graph
    plan.close()


def test_paged_run_with_other_pages(device):
    problem = Problem(batch=2, rows=1, keys=64)
    page_size = 16
    columns = 64 // page_size
    pool = torch.full((2, 4 * columns, page_size, 2, 64), math.nan, dtype=torch.bfloat16, device="cuda")
    table = torch.zeros((2, columns), dtype=torch.int32, device="cuda")
    lengths = torch.tensor([64, 40], dtype=torch.int32, device="cuda")

    def scatter(pages):
        pool.fill_(math.nan)
        table.copy_(pages.view(2, columns))
        pool[0, pages.long()] = problem.k.view(2 * columns, page_size, 2, 64)
        pool[1, pages.long()] = problem.v.view(2 * columns, page_size, 2, 64)

    args = problem.tensors() | {"k": pool[0], "v": pool[1]}
    plan = device.plan(block_table=table, page_size=page_size, seqused_k=lengths, **args)
    workspace = torch.empty(plan.workspace_bytes + 1, dtype=torch.uint8, device="cuda")
    graph = capture(device, lambda stream: plan.run(stream, workspace.data_ptr()))
    for seed in range(3):
        order = torch.randperm(4 * columns, generator=torch.Generator().manual_seed(seed))
        problem.redraw()
        scatter(order[: 2 * columns].to("cuda", torch.int32))
        replay(graph, problem, lengths=lengths)
    del graph
    plan.close()


def test_one_call_function(device):
    """Once before the capture, on the stream that is captured, so that its plan and scratch memory are there."""
    problem = Problem(rows=33)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with contextlib.closing(device.wrap_stream(stream.cuda_stream)) as wrapped:
        device.forward(wrapped, **problem.tensors())
        device.synchronize(wrapped)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            device.forward(wrapped, **problem.tensors())
        problem.redraw()
        replay(graph, problem)
        del graph
