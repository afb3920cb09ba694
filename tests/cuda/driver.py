"""The CUDA driver's own calls, for what a framework hides: contexts.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes

CALLS = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(CALLS, name)(*arguments)
    assert result == 0, f"{name}: error {result}"


def current_context():
    """The calling thread's, None if it has none."""
    context = ctypes.c_void_p()
    call("cuCtxGetCurrent", ctypes.byref(context))
    return context.value


@contextlib.contextmanager
def new_context(ordinal=0):
    """A context of its own, not the primary one; current nowhere."""
    context = ctypes.c_void_p()
    popped = ctypes.c_void_p()
    call("cuCtxCreate_v2", ctypes.byref(context), 0, ordinal)
    call("cuCtxPopCurrent_v2", ctypes.byref(popped))
    yield context.value
    call("cuCtxDestroy_v2", context)
