"""Memory: kinds, copies, ranges, and tensors whose elements lie far apart.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes

import pytest
import torch
from problem import Problem, assert_right


def test_round_trip(device):
    size = 1 << 20
    source = torch.randint(0, 256, (size,), dtype=torch.uint8)
    result = torch.zeros_like(source)
    pinned, first, second = device.alloc(size, "PINNED"), device.alloc(size), device.alloc(size, "DEVICE")
    stream = device.create_stream()
    ctypes.memmove(pinned, source.data_ptr(), size)
    device.copy("HOST_TO_DEVICE", first, pinned, size, stream)
    device.copy("DEVICE_TO_DEVICE", second, first, size, stream)
    device.fill(first, size, 7, stream)
    device.copy("DEVICE_TO_HOST", ctypes.c_void_p(result.data_ptr()), second, size, stream)
    device.synchronize(stream)
    assert torch.equal(result, source)
    device.copy("DEVICE_TO_HOST", pinned, first, size, stream)
    device.synchronize(stream)
    assert ctypes.string_at(pinned, size) == b"\x07" * size
    stream.close()
    for each in (pinned, first, second):
        device.free(each)


def test_ranges(device):
    size = 3 << 20
    for kind in ("DEVICE", "PINNED"):
        data = device.alloc(size, kind)
        inside = device.range_of(ctypes.c_void_p(data.value + 4096))
        assert inside.offset == data.value + 4096
        assert inside.size_bytes >= size - 4096  # the driver may round up; UINT64_MAX where it does not tell
        device.free(data)


@pytest.fixture
def expandable_segments():
    """A framework's allocator that maps memory from pieces of 20 MiB."""
    torch.cuda.empty_cache()
    torch.cuda.memory._set_allocator_settings("expandable_segments:True")
    yield
    torch.cuda.empty_cache()
    torch.cuda.memory._set_allocator_settings("expandable_segments:False")


def test_pieces_mapped_side_by_side(expandable_segments, device):
    """A tensor over several pieces: the end of the first is not the end of the memory."""
    problem = Problem(batch=64, rows=16, keys=4096, heads_q=8, heads_kv=8)
    torch.cuda.synchronize()
    device.forward(**problem.tensors())
    device.synchronize()
    assert_right(problem)


def test_offsets_past_32_bits(device):
    """Batch entries 2^31 elements apart in K."""
    problem = Problem()
    apart = (1 << 31) + 8
    far = torch.empty(apart + problem.k[0].numel(), dtype=problem.k.dtype, device="cuda")
    k = far.as_strided(problem.k.shape, (apart, *problem.k.stride()[1:]))
    k.copy_(problem.k)
    torch.cuda.synchronize()
    device.forward(**problem.tensors() | {"k": k})
    device.synchronize()
    assert_right(problem)
