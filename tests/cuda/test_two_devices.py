"""Two cards: a handle on one while the other is current, both at once, and memory of the wrong one.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes

import pytest
import torch
from attune import Error
from problem import Problem, assert_right

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="this machine has one device")


@pytest.fixture
def devices(library):
    with contextlib.closing(library.open("cuda:0")) as first, contextlib.closing(library.open("cuda:1")) as second:
        yield first, second


@pytest.mark.parametrize("head_dim", [64, 256])
def test_handle_on_1_while_0_is_current(devices, head_dim):
    """The larger head size needs more shared memory than a kernel has by default, on each device anew."""
    torch.cuda.set_device(0)
    for ordinal, device in enumerate(devices):
        problem = Problem(head_dim=head_dim, device=f"cuda:{ordinal}")
        torch.cuda.synchronize(ordinal)
        device.forward(**problem.tensors())
        device.synchronize()
        assert torch.cuda.current_device() == 0
        assert_right(problem)


def test_both_at_once(devices):
    problems = [Problem(rows=300, keys=700, device=f"cuda:{ordinal}") for ordinal in range(2)]
    streams = [device.create_stream() for device in devices]
    for ordinal in range(2):
        torch.cuda.synchronize(ordinal)
    for _ in range(20):
        for device, stream, problem in zip(devices, streams, problems):
            device.forward(stream, causal=True, **problem.tensors())
    for device, stream, problem in zip(devices, streams, problems):
        device.synchronize(stream)
        stream.close()
        assert_right(problem, causal=True)


def test_memory_of_the_other_device(devices):
    problem = Problem(device="cuda:0")
    with pytest.raises(Error) as caught:
        devices[1].forward(**problem.tensors())
    assert caught.value.status == "INVALID_ARGUMENT" and "device 0" in caught.value.sentence


def test_peer_copy(devices):
    size = 1 << 20
    source = torch.randint(0, 256, (size,), dtype=torch.uint8, device="cuda:0")
    torch.cuda.synchronize(0)
    there = devices[1].alloc(size)
    result = torch.zeros(size, dtype=torch.uint8)
    zero, bytes_ = ctypes.c_uint64(0), ctypes.c_uint64(size)
    devices[1].library.call("attune_memory_copy_peer", devices[1].handle, None, there, zero, devices[0].handle,
                            ctypes.c_void_p(source.data_ptr()), zero, bytes_)
    devices[1].copy("DEVICE_TO_HOST", ctypes.c_void_p(result.data_ptr()), there, size)
    devices[1].synchronize()
    devices[1].free(there)
    assert torch.equal(result, source.cpu())
