"""Memory, queues, events, threads and forks of an application that has its own OpenCL.

SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import contextlib
import ctypes
import math
import os

import attune
import numpy
import pytest
from opencl_driver import NativeDevice

BATCH, ROWS, KEYS, HEADS, HEAD_DIM = 2, 37, 70, 3, 16
SHAPES = {"q": (BATCH, ROWS, HEADS, HEAD_DIM), "k": (BATCH, KEYS, HEADS, HEAD_DIM), "v": (BATCH, KEYS, HEADS, HEAD_DIM),
          "o": (BATCH, ROWS, HEADS, HEAD_DIM)}
NORM_LIMIT = 1.5e-6  # docs/semantics.md, "Accuracy"
READ_WRITE, USE_HOST_PTR, COPY_HOST_PTR, HOST_NO_ACCESS = 1, 8, 32, 512
CREATE_TYPE_REGION = 0x1220
IMAGE_2D, RGBA, FLOAT = 0x10F1, 0x10B5, 0x10DE
SVM = "SVM"


class Region(ctypes.Structure):
    _fields_ = [("origin", ctypes.c_size_t), ("size", ctypes.c_size_t)]


class ImageFormat(ctypes.Structure):
    _fields_ = [("order", ctypes.c_uint32), ("type", ctypes.c_uint32)]


class ImageDescription(ctypes.Structure):
    _fields_ = [("type", ctypes.c_uint32), *((name, ctypes.c_size_t) for name in
                                             ("width", "height", "depth", "array", "row_pitch", "slice_pitch")),
                ("levels", ctypes.c_uint32), ("samples", ctypes.c_uint32), ("buffer", ctypes.c_void_p)]


def part_of(driver, buffer, offset_bytes, size_bytes):
    region = Region(offset_bytes, size_bytes)
    driver.calls.clCreateSubBuffer.restype = ctypes.c_void_p
    return driver._create("clCreateSubBuffer", buffer, ctypes.c_uint64(1), CREATE_TYPE_REGION, ctypes.byref(region))


def tensor(name, data, byte_offset=0, memory="DEFAULT"):
    made = attune.tensor(numpy.empty(SHAPES[name], numpy.float32))
    made.data = data.value
    made.byte_offset = byte_offset
    made.memory = attune.CONSTANTS["ATTUNE_MEMORY_" + memory]
    return made


@pytest.fixture(scope="module")
def inputs():
    generator = numpy.random.default_rng(3)
    return {name: generator.standard_normal(SHAPES[name], numpy.float32) for name in ("q", "k", "v")}


def expected(inputs):
    q, k, v = (inputs[name].astype(numpy.float64).swapaxes(1, 2) for name in ("q", "k", "v"))
    score = q @ k.swapaxes(2, 3) / math.sqrt(HEAD_DIM)
    weight = numpy.exp(score - score.max(3, keepdims=True))
    return (weight / weight.sum(3, keepdims=True) @ v).swapaxes(1, 2)


def assert_right(o, inputs):
    right = expected(inputs)
    assert numpy.linalg.norm(o - right) <= NORM_LIMIT * numpy.linalg.norm(right)


def run_on(driver, device, inputs, stream=None):
    """o of one call, on memory objects made for it."""
    buffers = {name: driver.buffer(4 * math.prod(shape)) for name, shape in SHAPES.items()}
    for name, array in inputs.items():
        driver.write(buffers[name], array)
    device.forward(stream, **{name: tensor(name, buffer) for name, buffer in buffers.items()})
    device.synchronize(stream)
    o = driver.read(buffers["o"], SHAPES["o"], numpy.float32)
    for buffer in buffers.values():
        driver.free(buffer)
    return o


def test_memory_objects_in_the_callers_queue(driver, device, inputs):
    with contextlib.closing(device.wrap_stream(driver.queue.value)) as stream:
        assert_right(run_on(driver, device, inputs, stream), inputs)


def test_one_object_with_offsets_and_parts(driver, device, inputs):
    """q and k by offsets into an object, v in a part of it, o in another part by an offset."""
    step = 1 << 16
    whole = driver.buffer(4 * step)
    image = numpy.full(4 * step, 0x7F, numpy.uint8)
    for index, name in enumerate(("q", "k", "v")):
        at = index * step + (64 if name == "q" else 0)
        image[at:at + inputs[name].nbytes] = inputs[name].view(numpy.uint8).ravel()
    driver.write(whole, image)
    parts = {"v": part_of(driver, whole, 2 * step, step), "o": part_of(driver, whole, 3 * step, step)}
    device.forward(None, q=tensor("q", whole, 64), k=tensor("k", whole, step), v=tensor("v", parts["v"]),
                   o=tensor("o", parts["o"], 256))
    device.synchronize()
    after = driver.read(whole, (4 * step,), numpy.uint8)
    o_bytes = 4 * math.prod(SHAPES["o"])
    begin = 3 * step + 256
    assert_right(after[begin:begin + o_bytes].view(numpy.float32).reshape(SHAPES["o"]), inputs)
    after[begin:begin + o_bytes] = 0x7F
    assert (after == image).all()
    with pytest.raises(attune.Error, match="share"):
        device.forward(None, q=tensor("q", whole, 64), k=tensor("k", whole, step), v=tensor("v", parts["v"]),
                       o=tensor("o", whole, 2 * step + 64))
    for buffer in (*parts.values(), whole):
        driver.free(buffer)


def over_host(driver, array):
    """A memory object that is the array's own memory."""
    return driver._create("clCreateBuffer", driver.context, ctypes.c_uint64(READ_WRITE | USE_HOST_PTR),
                          ctypes.c_size_t(array.nbytes), ctypes.c_void_p(array.ctypes.data))


def skewed(shape, skew_bytes):
    """An array so many bytes past a multiple of 256."""
    size = 4 * math.prod(shape)
    raw = numpy.zeros(size + 512, numpy.uint8)
    begin = -raw.ctypes.data % 256 + skew_bytes
    return raw[begin:begin + size].view(numpy.float32).reshape(shape)


@pytest.mark.parametrize("skew_bytes", [0, 4, 8])
def test_objects_over_host_memory_of_any_alignment(driver, device, inputs, skew_bytes):
    """Of a row that loads vectors where the pointers allow it, as the rows for GPUs do."""
    arrays = {name: skewed(shape, skew_bytes) for name, shape in SHAPES.items()}
    for name, array in inputs.items():
        arrays[name][...] = array
    buffers = {name: over_host(driver, array) for name, array in arrays.items()}
    device.forward(None, kernel="generic_forward", **{name: tensor(name, buffer) for name, buffer in buffers.items()})
    device.synchronize()
    assert_right(driver.read(buffers["o"], SHAPES["o"], numpy.float32), inputs)
    for buffer in buffers.values():
        driver.free(buffer)


def test_two_objects_over_the_same_host_memory(driver, device, inputs):
    whole = skewed((2, *SHAPES["q"]), 0)
    buffers = {"o": over_host(driver, whole), "q": over_host(driver, whole[1])}
    buffers |= {name: driver.buffer(inputs[name].nbytes) for name in ("k", "v")}
    tensors = {name: tensor(name, buffer) for name, buffer in buffers.items()}
    device.forward(None, **tensors)
    device.synchronize()
    tensors["o"].byte_offset = 4 * math.prod(SHAPES["o"]) - 16
    with pytest.raises(attune.Error, match="share"):
        device.forward(None, **tensors)
    for buffer in buffers.values():
        driver.free(buffer)


def test_an_image_is_refused(driver, device, inputs):
    driver.calls.clCreateImage.restype = ctypes.c_void_p
    form = ImageFormat(RGBA, FLOAT)
    description = ImageDescription(type=IMAGE_2D, width=256, height=256)
    try:
        image = driver._create("clCreateImage", driver.context, ctypes.c_uint64(READ_WRITE), ctypes.byref(form),
                               ctypes.byref(description), None)
    except RuntimeError as error:
        pytest.skip(f"the device has no images: {error}")
    buffers = {name: driver.buffer(4 * math.prod(SHAPES[name])) for name in ("k", "v", "o")}
    with pytest.raises(attune.Error, match=r"q\.data: .* no buffer") as raised:
        device.forward(None, q=tensor("q", image), **{name: tensor(name, buffer) for name, buffer in buffers.items()})
    assert raised.value.status == "INVALID_ARGUMENT"
    for buffer in (image, *buffers.values()):
        driver.free(buffer)


def test_shared_virtual_memory(driver, device, inputs):
    try:
        blocks = {name: device.alloc(4 * math.prod(shape), SVM) for name, shape in SHAPES.items()}
    except attune.Error as error:
        assert error.status == "UNSUPPORTED"
        pytest.skip(error.sentence)
    for name, array in inputs.items():
        device.copy("HOST_TO_DEVICE", blocks[name], ctypes.c_void_p(array.ctypes.data), array.nbytes)
    device.forward(None, **{name: tensor(name, block, memory=SVM) for name, block in blocks.items()})
    o = numpy.empty(SHAPES["o"], numpy.float32)
    device.copy("DEVICE_TO_HOST", ctypes.c_void_p(o.ctypes.data), blocks["o"], o.nbytes)
    device.synchronize()
    assert (o == run_on(driver, device, inputs)).all()
    for block in blocks.values():
        device.free(block)


class Shared:
    """The application's own shared virtual memory, which the device may lack."""

    def __init__(self, driver, size_bytes, context=None):
        driver.calls.clSVMAlloc.restype = ctypes.c_void_p
        driver.calls.clSVMFree.restype = None
        self.driver = driver
        self.context = context or driver.context
        data = driver.calls.clSVMAlloc(self.context, ctypes.c_uint64(READ_WRITE), ctypes.c_size_t(size_bytes), 0)
        if data is None:
            pytest.skip(f"{driver.name} has no shared virtual memory")
        self.data = ctypes.c_void_p(data)

    def free(self):
        self.driver.calls.clSVMFree(self.context, self.data)

    def copy(self, destination, source, size_bytes):
        self.driver._call("clEnqueueSVMMemcpy", self.driver.queue, 1, ctypes.c_void_p(destination),
                          ctypes.c_void_p(source), ctypes.c_size_t(size_bytes), 0, None, None)

    def write(self, offset_bytes, array):
        self.copy(self.data.value + offset_bytes, array.ctypes.data, array.nbytes)

    def read(self, offset_bytes, shape):
        array = numpy.empty(shape, numpy.float32)
        self.copy(array.ctypes.data, self.data.value + offset_bytes, array.nbytes)
        return array


STEP = 1 << 16  # of the tensors of one block


@pytest.fixture
def shared(driver, inputs):
    """One block with q, k, v, o, scratch; and its tensors."""
    block = Shared(driver, 8 * STEP)
    for index, name in enumerate(("q", "k", "v")):
        block.write(index * STEP, inputs[name])
    yield block, {name: tensor(name, block.data, index * STEP, SVM) for index, name in enumerate(("q", "k", "v", "o"))}
    block.free()


def test_the_callers_shared_virtual_memory(driver, device, inputs, shared):
    block, tensors = shared
    device.forward(None, **tensors)
    device.synchronize()
    assert (block.read(3 * STEP, SHAPES["o"]) == run_on(driver, device, inputs)).all()
    tensors["o"].memory = attune.CONSTANTS["ATTUNE_MEMORY_DEFAULT"]
    with pytest.raises(attune.Error, match=r"o\.data: .* no cl_mem"):
        device.forward(None, **tensors)
    with pytest.raises(attune.Error, match="no cl_mem"):
        device.range_of(block.data)


def test_a_plan_on_the_callers_shared_virtual_memory(device, inputs, shared):
    """Lengths that are read back, too."""
    block, tensors = shared
    lengths = numpy.full(BATCH, KEYS, numpy.int32)
    block.write(4 * STEP, lengths)
    tensors["seqused_k"] = attune.tensor(lengths)
    tensors["seqused_k"].data = block.data.value
    tensors["seqused_k"].byte_offset = 4 * STEP
    tensors["seqused_k"].memory = attune.CONSTANTS["ATTUNE_MEMORY_SVM"]
    with contextlib.closing(device.plan(**tensors, splits=2, check=True)) as plan:
        workspace = device.alloc(plan.workspace_bytes)
        plan.run(workspace=workspace.value)
        device.synchronize()
        assert_right(block.read(3 * STEP, SHAPES["o"]), inputs)
        block.write(4 * STEP, lengths + 1)
        with pytest.raises(attune.Error, match="seqused_k"):
            plan.run(workspace=workspace.value)
        device.free(workspace)


def test_only_tensors_lie_in_the_callers_shared_virtual_memory(device, inputs, shared):
    block, tensors = shared
    block.write(0, inputs["q"])
    own = device.alloc(STEP)
    with contextlib.closing(device.plan(**tensors, splits=2)) as plan:
        for refused in (lambda: device.copy("DEVICE_TO_DEVICE", own, block.data, 64),
                        lambda: device.copy("DEVICE_TO_HOST", own, block.data, 64),
                        lambda: device.copy("HOST_TO_DEVICE", block.data, own, 64),
                        lambda: device.fill(block.data, 64, 0),
                        lambda: plan.run(workspace=block.data.value)):
            with pytest.raises(attune.Error, match="and for no copy, fill or workspace") as raised:
                refused()
            assert raised.value.status == "INVALID_ARGUMENT"
    device.free(own)


def test_shared_virtual_memory_that_looks_like_an_object(driver, device, inputs, shared):
    """As memory may that nobody has written yet: the driver's own objects have been there."""
    block, tensors = shared
    o = driver.buffer(4 * math.prod(SHAPES["o"]))
    block.write(4 * STEP, inputs["q"])
    tensors["q"].byte_offset = 4 * STEP
    block.copy(block.data.value, o.value, 64)
    device.forward(None, **tensors | {"o": tensor("o", o)})
    device.synchronize()
    assert_right(driver.read(o, SHAPES["o"], numpy.float32), inputs)
    driver.free(o)


def test_an_object_over_shared_virtual_memory(driver, device, inputs, shared):
    """It shares what it lies over."""
    block, tensors = shared
    over = driver._create("clCreateBuffer", driver.context, ctypes.c_uint64(READ_WRITE | USE_HOST_PTR),
                          ctypes.c_size_t(8 * STEP), block.data)
    tensors["o"] = tensor("o", over, 2 * STEP + 16)
    with pytest.raises(attune.Error, match="o at bytes .* share"):
        device.forward(None, **tensors)
    driver.free(over)


def test_shared_virtual_memory_of_another_context(driver, device, shared):
    _, tensors = shared
    context = driver._create("clCreateContext", None, 1, ctypes.byref(driver.device), None, None)
    other = Shared(driver, STEP, context)
    tensors["q"].data = other.data.value
    tensors["q"].byte_offset = 0
    with pytest.raises(attune.Error, match="gave for the device's cl_context") as raised:
        device.forward(None, **tensors)
    assert raised.value.status == "INVALID_ARGUMENT"
    other.free()
    driver._call("clReleaseContext", context)


def test_pinned_host_memory(driver, device, inputs):
    """The host's, for copies: to it a pointer, to the device nothing."""
    sizes = {name: 4 * math.prod(shape) for name, shape in SHAPES.items()}
    pinned = {name: device.alloc(size, "PINNED") for name, size in sizes.items()}
    buffers = {name: device.alloc(size) for name, size in sizes.items()}
    for name, array in inputs.items():
        ctypes.memmove(pinned[name], array.ctypes.data, sizes[name])
        device.copy("HOST_TO_DEVICE", buffers[name], pinned[name], sizes[name])
    device.forward(None, **{name: tensor(name, buffer) for name, buffer in buffers.items()})
    device.copy("DEVICE_TO_HOST", pinned["o"], buffers["o"], sizes["o"])
    device.synchronize()
    o = numpy.frombuffer(ctypes.string_at(pinned["o"], sizes["o"]), numpy.float32).reshape(SHAPES["o"])
    assert (o == run_on(driver, device, inputs)).all()
    with pytest.raises(attune.Error, match=r"o\.data: .* pinned host memory"):
        device.forward(None, **{name: tensor(name, (pinned if name == "o" else buffers)[name]) for name in SHAPES})
    for data in (*pinned.values(), *buffers.values()):
        device.free(data)


def test_no_elements_at_a_pointer_that_is_nothing(driver, device, inputs):
    """A driver that was handed it would take it for an object."""
    anything = (ctypes.c_uint64 * 64)()
    buffers = {name: driver.buffer(4 * math.prod(SHAPES[name])) for name in ("q", "o")}
    driver.write(buffers["q"], inputs["q"])
    tensors = {name: tensor(name, buffer) for name, buffer in buffers.items()}
    for name in ("k", "v"):
        tensors[name] = tensor(name, ctypes.c_void_p(ctypes.addressof(anything)))
        tensors[name].shape[1] = 0
    device.forward(None, **tensors)
    device.synchronize()
    assert (driver.read(buffers["o"], SHAPES["o"], numpy.float32) == 0).all()
    with contextlib.closing(device.plan(**tensors)) as plan:
        assert plan.workspace_bytes == 0
        plan.run(workspace=ctypes.addressof(anything))
    device.synchronize()
    for buffer in buffers.values():
        driver.free(buffer)


@pytest.mark.parametrize("kind, status, sentence", [
    ("DEFAULT", "INVALID_ARGUMENT", "no cl_mem"),
    (SVM, "INVALID_ARGUMENT|UNSUPPORTED", "clSVMAlloc gave|has no shared virtual memory"),
])
def test_host_memory_is_refused(driver, device, inputs, kind, status, sentence):
    o = driver.buffer(4 * math.prod(SHAPES["o"]))
    tensors = {name: tensor(name, ctypes.c_void_p(array.ctypes.data), memory=kind) for name, array in inputs.items()}
    with pytest.raises(attune.Error, match=sentence) as raised:
        device.forward(None, **tensors, o=tensor("o", o))
    assert raised.value.status in status.split("|")
    driver.free(o)


def test_what_is_no_queue_is_refused(driver, device):
    """The address of a queue's handle, say, which the loader would follow."""
    with pytest.raises(attune.Error, match="not a cl_command_queue") as raised:
        device.wrap_stream(ctypes.addressof(driver.queue))
    assert raised.value.status == "INVALID_ARGUMENT"


def test_what_is_no_context_is_refused(library, driver):
    native = NativeDevice(ctypes.addressof(driver.context), driver.device.value)
    with pytest.raises(attune.Error, match="not a cl_context") as raised:
        library.wrap("opencl", ctypes.addressof(native))
    assert raised.value.status == "INVALID_ARGUMENT"


def test_what_is_no_device_is_refused(library, driver):
    native = NativeDevice(driver.context.value, ctypes.addressof(driver.device))
    with pytest.raises(attune.Error, match="not a cl_device_id") as raised:
        library.wrap("opencl", ctypes.addressof(native))
    assert raised.value.status == "INVALID_ARGUMENT"


def test_a_copy_onto_itself(device):
    data = device.alloc(4096)
    with pytest.raises(attune.Error, match="CL_MEM_COPY_OVERLAP") as raised:
        device.copy("DEVICE_TO_DEVICE", data, data, 64)
    assert raised.value.status == "INVALID_ARGUMENT"
    device.free(data)


def test_memory_that_the_host_may_not_reach(driver, device, inputs):
    """A tensor like any other, but for copies."""
    q = driver._create("clCreateBuffer", driver.context, ctypes.c_uint64(READ_WRITE | HOST_NO_ACCESS | COPY_HOST_PTR),
                       ctypes.c_size_t(inputs["q"].nbytes), ctypes.c_void_p(inputs["q"].ctypes.data))
    buffers = {name: driver.buffer(4 * math.prod(SHAPES[name])) for name in ("k", "v", "o")}
    for name in ("k", "v"):
        driver.write(buffers[name], inputs[name])
    device.forward(None, q=tensor("q", q), **{name: tensor(name, buffer) for name, buffer in buffers.items()})
    device.synchronize()
    assert_right(driver.read(buffers["o"], SHAPES["o"], numpy.float32), inputs)
    with pytest.raises(attune.Error, match="no access") as raised:
        device.copy("HOST_TO_DEVICE", q, ctypes.c_void_p(inputs["q"].ctypes.data), 16)
    assert raised.value.status == "INVALID_ARGUMENT"
    for buffer in (q, *buffers.values()):
        driver.free(buffer)


def test_a_queue_waits_for_another(library, driver, device, inputs):
    """The second queue's fill comes after the first one's run, and the event knows when each was."""
    calls = library.calls
    with contextlib.closing(device.create_stream()) as first, contextlib.closing(device.create_stream()) as second:
        events = [ctypes.c_void_p(), ctypes.c_void_p()]
        for event in events:
            library.call("attune_event_create", device.handle, ctypes.byref(event))
        buffers = {name: driver.buffer(4 * math.prod(shape)) for name, shape in SHAPES.items()}
        for name, array in inputs.items():
            driver.write(buffers[name], array)
        library.call("attune_event_record", events[0], first.handle)
        for _ in range(5):
            device.forward(first, **{name: tensor(name, buffer) for name, buffer in buffers.items()})
        library.call("attune_event_record", events[1], first.handle)
        library.call("attune_event_wait", events[1], second.handle)
        device.fill(buffers["o"], 16, 0xFF, second)
        device.synchronize(second)
        seconds = ctypes.c_double()
        library.call("attune_event_elapsed", events[0], events[1], ctypes.byref(seconds))
        o = driver.read(buffers["o"], SHAPES["o"], numpy.float32)
        assert numpy.isnan(o.ravel()[:4]).all() and numpy.isfinite(o.ravel()[4:]).all()
        assert 0.0 < seconds.value < 60.0
        calls.attune_event_close.restype = None
        for event in events:
            calls.attune_event_close(event)
        for buffer in buffers.values():
            driver.free(buffer)


def test_threads_on_queues_of_their_own(driver, device, inputs):
    alone = run_on(driver, device, inputs)

    def work(_):
        with contextlib.closing(device.create_stream()) as stream:
            return all((run_on(driver, device, inputs, stream) == alone).all() for _ in range(10))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_a_fork_is_told(driver, device, inputs):
    run_on(driver, device, inputs)
    child = os.fork()
    if child == 0:
        try:
            device.synchronize()
            os._exit(1)
        except attune.Error as error:
            os._exit(0 if error.status == "DEVICE_LOST" and "fork" in error.sentence else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    run_on(driver, device, inputs)
