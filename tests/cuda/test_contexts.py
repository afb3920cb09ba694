"""Contexts: wrapped ones, the caller's left as it was, and a fork.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes
import os
import threading

import driver
import pytest
import torch
from attune import Error, tensor
from problem import Problem, assert_right


def test_wrapped_primary_context(library):
    torch.cuda.init()
    problem = Problem()
    with contextlib.closing(library.wrap("cuda", driver.current_context())) as device:
        with contextlib.closing(device.wrap_stream(torch.cuda.Stream().cuda_stream)) as stream:
            torch.cuda.synchronize()
            device.forward(stream, **problem.tensors())
            device.synchronize(stream)
    assert_right(problem)


def test_context_of_its_own(library):
    """Memory, a stream and a kernel in a context that the framework does not know."""
    problem = Problem()
    host = {name: each.cpu() for name, each in problem.tensors().items()}
    before = driver.current_context()
    with driver.new_context() as context, contextlib.closing(library.wrap("cuda", context)) as device:
        stream = device.create_stream()
        there = {}
        for name, each in host.items():
            there[name] = tensor(each)
            there[name].data = device.alloc(each.nbytes).value
            device.copy("HOST_TO_DEVICE", ctypes.c_void_p(there[name].data), ctypes.c_void_p(each.data_ptr()),
                        each.nbytes, stream)
        device.forward(stream, **there)
        for name in ("o", "lse"):
            device.copy("DEVICE_TO_HOST", ctypes.c_void_p(host[name].data_ptr()), ctypes.c_void_p(there[name].data),
                        host[name].nbytes, stream)
        device.synchronize(stream)
        stream.close()
        for each in there.values():
            device.free(ctypes.c_void_p(each.data))
    assert driver.current_context() == before
    problem.o, problem.lse = host["o"].cuda(), host["lse"].cuda()
    assert_right(problem)


def test_stream_of_another_context(library):
    with driver.new_context() as context, contextlib.closing(library.wrap("cuda", context)) as other:
        with pytest.raises(Error) as caught:
            other.wrap_stream(torch.cuda.Stream().cuda_stream)
    assert caught.value.status == "INVALID_ARGUMENT"


def test_thread_without_context(device):
    """A thread that has none gets none."""
    problem = Problem()
    torch.cuda.synchronize()
    seen = []

    def work():
        seen.append(driver.current_context())
        device.forward(**problem.tensors())
        device.synchronize()
        seen.append(driver.current_context())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [None, None]
    assert_right(problem)


def test_host_memory_is_refused(device):
    problem = Problem()
    tensors = problem.tensors() | {"k": problem.k.cpu()}
    with pytest.raises(Error) as caught:
        device.forward(**tensors)
    assert caught.value.status == "INVALID_ARGUMENT" and "k" in caught.value.sentence


def test_fork(device):
    problem = Problem()
    child = os.fork()
    if child == 0:
        try:
            device.forward(**problem.tensors())
            os._exit(1)
        except Error as error:
            os._exit(0 if error.status == "DEVICE_LOST" else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    device.forward(**problem.tensors())
    device.synchronize()
    assert_right(problem)
