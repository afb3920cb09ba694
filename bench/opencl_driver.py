"""OpenCL by ctypes, as far as opencl_bench.py needs it: a device, a queue, memory, programs, launches.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import os

import numpy

DEVICE_TYPE_ALL = 0xFFFFFFFF
DEVICE_NAME, DEVICE_COMPUTE_UNITS, DEVICE_CLOCK = 0x102B, 0x1002, 0x100C
PROGRAM_BUILD_LOG = 0x1183
BLOCKING = 1


class NativeDevice(ctypes.Structure):
    """What attune_device_wrap takes."""

    _fields_ = [("context", ctypes.c_void_p), ("device", ctypes.c_void_p)]


class Driver:
    """One device and a queue in order: the first device whose name begins as given."""

    def __init__(self, name=""):
        self.calls = ctypes.CDLL(os.environ.get("ATTUNE_OPENCL_LIBRARY") or "libOpenCL.so.1")
        for call in ("clCreateContext", "clCreateCommandQueue", "clCreateBuffer", "clCreateProgramWithSource",
                     "clCreateKernel"):
            getattr(self.calls, call).restype = ctypes.c_void_p
        self.device = self._find(name)
        self.context = self._create("clCreateContext", None, 1, ctypes.byref(self.device), None, None)
        self.queue = self._create("clCreateCommandQueue", self.context, self.device, ctypes.c_uint64(0))
        self.native = NativeDevice(self.context.value, self.device.value)
        self.name = self._text(self.device, DEVICE_NAME)
        self.compute_units = self._number(DEVICE_COMPUTE_UNITS)
        self.clock_hz = 1e6 * self._number(DEVICE_CLOCK)
        self.kernels = {}

    def _call(self, name, *arguments):
        result = getattr(self.calls, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: {ctypes.c_int32(result).value}")

    def _create(self, name, *arguments):
        result = ctypes.c_int32()
        made = getattr(self.calls, name)(*arguments, ctypes.byref(result))
        if result.value != 0:
            raise RuntimeError(f"{name}: {result.value}")
        return ctypes.c_void_p(made)

    def _devices(self):
        count = ctypes.c_uint32()
        self._call("clGetPlatformIDs", 0, None, ctypes.byref(count))
        platforms = (ctypes.c_void_p * count.value)()
        self._call("clGetPlatformIDs", count, platforms, None)
        devices = []
        for platform in platforms:
            found = (ctypes.c_void_p * 64)()
            if self.calls.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_uint64(DEVICE_TYPE_ALL), 64, found,
                                         ctypes.byref(count)) == 0:
                devices += found[:count.value]
        return devices

    def _find(self, name):
        for device in map(ctypes.c_void_p, self._devices()):
            if self._text(device, DEVICE_NAME).lower().startswith(name.lower()):
                return device
        raise SystemExit(f"no OpenCL device has a name that begins with {name!r}")

    def _text(self, device, fact):
        text = ctypes.create_string_buffer(256)
        self._call("clGetDeviceInfo", device, fact, ctypes.c_size_t(256), text, None)
        return text.value.decode().strip()

    def _number(self, fact):
        number = ctypes.c_uint32()
        self._call("clGetDeviceInfo", self.device, fact, ctypes.c_size_t(4), ctypes.byref(number), None)
        return number.value

    # ---- Memory ----

    def buffer(self, size_bytes):
        return self._create("clCreateBuffer", self.context, ctypes.c_uint64(1), ctypes.c_size_t(size_bytes), None)

    def free(self, buffer):
        self._call("clReleaseMemObject", buffer)

    def write(self, buffer, array):
        array = numpy.ascontiguousarray(array)
        self._call("clEnqueueWriteBuffer", self.queue, buffer, BLOCKING, ctypes.c_size_t(0),
                   ctypes.c_size_t(array.nbytes), ctypes.c_void_p(array.ctypes.data), 0, None, None)

    def read(self, buffer, shape, dtype, offset_bytes=0):
        array = numpy.empty(shape, dtype)
        self._call("clEnqueueReadBuffer", self.queue, buffer, BLOCKING, ctypes.c_size_t(offset_bytes), ctypes.c_size_t(array.nbytes),
                   ctypes.c_void_p(array.ctypes.data), 0, None, None)
        return array

    # ---- Kernels ----

    def kernel(self, text, name, options):
        """A kernel of a text; the same one for the same options."""
        key = text, name, options
        if key not in self.kernels:
            self.kernels[key] = self._build(text, name, options)
        return self.kernels[key]

    def _build(self, text, name, options):
        source = ctypes.c_char_p(text.encode())
        program = self._create("clCreateProgramWithSource", self.context, 1, ctypes.byref(source), None)
        if self.calls.clBuildProgram(program, 1, ctypes.byref(self.device), options.encode(), None, None) != 0:
            log = ctypes.create_string_buffer(1 << 16)
            self.calls.clGetProgramBuildInfo(program, self.device, PROGRAM_BUILD_LOG, ctypes.c_size_t(len(log)), log, None)
            raise RuntimeError(f"{name}: {log.value.decode()}")
        return self._create("clCreateKernel", program, name.encode())

    def launch(self, kernel, groups, threads, *arguments):
        """groups along x, y, z; work-groups are threads along x. Integers are int; c_long where the kernel has long."""
        for index, argument in enumerate(arguments):
            if isinstance(argument, int):
                argument = ctypes.c_int32(argument)
            elif isinstance(argument, float):
                argument = ctypes.c_float(argument)
            self._call("clSetKernelArg", kernel, index, ctypes.c_size_t(ctypes.sizeof(argument)), ctypes.byref(argument))
        sizes = (ctypes.c_size_t * 3)(groups[0] * threads, groups[1], groups[2])
        local = (ctypes.c_size_t * 3)(threads, 1, 1)
        self._call("clEnqueueNDRangeKernel", self.queue, kernel, 3, None, sizes, local, 0, None, None)

    def finish(self):
        self._call("clFinish", self.queue)
