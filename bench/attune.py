"""attune's C API by ctypes, for scripts that measure and check it on torch or numpy tensors.

Structs and constants are read out of include/attune, and compared with the library when it is opened.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes
import pathlib
import re

INCLUDE = pathlib.Path(__file__).resolve().parent.parent / "include" / "attune"
HEADERS = ["version.h", "status.h", "types.h", "device.h", "attention.h", "kvcache.h", "plan.h"]

SCALARS = {"size_t": ctypes.c_size_t, "bool": ctypes.c_bool, "char": ctypes.c_char, "double": ctypes.c_double,
           "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64,
           "uint64_t": ctypes.c_uint64}

# ---- The headers ----


class Api:
    """Constants by name, and ctypes classes of the structs by name."""

    def __init__(self):
        text = "".join((INCLUDE / header).read_text() for header in HEADERS)
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        self.constants = {name: int(value) for name, value in re.findall(r"#define (ATTUNE_\w+) +(\d+)\s*$", text, re.M)}
        self.structs = {}
        self.enums = set()
        for kind, body, name in re.findall(r"typedef (enum|struct) \w+ \{(.*?)\} (\w+);", text, re.S):
            (self._add_enum if kind == "enum" else self._add_struct)(name, " ".join(body.split()))

    def _add_enum(self, name, body):
        self.enums.add(name)
        for member, value in re.findall(r"(ATTUNE_\w+) = (-?\d+)", body):
            self.constants[member] = int(value)

    def _add_struct(self, name, body):
        fields = [self._field(field.strip()) for field in body.split(";") if field.strip()]
        self.structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})

    def _field(self, text):
        match = re.fullmatch(r"(?:const )?(\w+) (\*?)(\w+)(?:\[(\w+)\])?", text)
        if match is None:
            raise ValueError(f"not a field that this reads: {text}")
        base, pointer, name, extent = match.groups()
        if pointer:
            return name, ctypes.c_char_p if base == "char" else ctypes.c_void_p
        kind = ctypes.c_int if base in self.enums else self.structs.get(base) or SCALARS[base]
        if extent:
            kind *= int(extent) if extent.isdigit() else self.constants[extent]
        return name, kind


API = Api()
CONSTANTS = API.constants
Tensor = API.structs["attune_tensor"]
ForwardArgs = API.structs["attune_attention_args"]
DeviceInfo = API.structs["attune_device_info"]
KernelInfo = API.structs["attune_kernel_info"]
Explanation = API.structs["attune_explanation"]
MemoryRange = API.structs["attune_memory_range"]

FORWARD, BACKWARD = CONSTANTS["ATTUNE_OP_FORWARD"], CONSTANTS["ATTUNE_OP_BACKWARD"]
STATUS = {CONSTANTS[name]: name.removeprefix("ATTUNE_") for name in
          ("ATTUNE_OK", "ATTUNE_INVALID_ARGUMENT", "ATTUNE_UNSUPPORTED", "ATTUNE_UNAVAILABLE", "ATTUNE_NOT_FOUND",
           "ATTUNE_INCOMPATIBLE", "ATTUNE_OUT_OF_MEMORY", "ATTUNE_DEVICE_LOST", "ATTUNE_INTERNAL")}

# ---- Tensors and arguments ----

DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "E4M3", "uint8": "U8",
          "int32": "I32", "uint32": "U32", "uint64": "U64", "int64": "U64", "float64": "F64"}


def tensor(of):
    """The attune_tensor over a torch tensor or a numpy array; one that attune made is returned as it is."""
    if isinstance(of, Tensor):
        return of
    made = Tensor()
    made.dtype = CONSTANTS["ATTUNE_DTYPE_" + DTYPES[str(of.dtype).removeprefix("torch.")]]
    made.rank = len(of.shape)
    if hasattr(of, "data_ptr"):
        made.data = of.data_ptr()
        strides = of.stride()
    else:
        made.data = of.ctypes.data
        strides = [stride // of.itemsize for stride in of.strides]
    for axis in range(made.rank):
        made.shape[axis] = of.shape[axis]
        made.stride[axis] = strides[axis]
    return made


def attention_args(**fields):
    """attune_attention_args with the fields given: tensors of torch or numpy, numbers, a window as a pair."""
    args = ForwardArgs(struct_size=ctypes.sizeof(ForwardArgs))
    kinds = dict(ForwardArgs._fields_)
    for name, value in fields.items():
        if value is None:
            continue
        if kinds[name] is Tensor:
            value = tensor(value)
        elif name == "window":
            value = API.structs["attune_window"](True, *value)
        elif kinds[name] is ctypes.c_char_p:
            value = value.encode()
        setattr(args, name, value)
    return args


# ---- The library ----


class Error(Exception):
    """A call's status and sentence."""

    def __init__(self, status, sentence):
        super().__init__(f"{STATUS.get(status, status)}: {sentence}")
        self.status = STATUS.get(status, status)
        self.sentence = sentence


class Library:
    def __init__(self, path):
        self.calls = ctypes.CDLL(str(path))
        self.calls.attune_last_error.restype = ctypes.c_char_p
        for name in ("attune_device_close", "attune_stream_close", "attune_event_close", "attune_plan_close",
                     "attune_memory_free"):
            getattr(self.calls, name).restype = None
        self._compare_sizes()

    def call(self, name, *arguments):
        """Calls a function that returns a status."""
        status = getattr(self.calls, name)(*arguments)
        if status != 0:
            raise Error(status, self.calls.attune_last_error().decode())

    def open(self, selector="cuda:0"):
        return Device(self, "attune_device_open", selector.encode())

    def wrap(self, backend, native):
        return Device(self, "attune_device_wrap", backend.encode(), ctypes.c_void_p(native))

    def _compare_sizes(self):
        """A struct with a byte set past what the library knows is refused with the number of bytes that it knows."""
        size = 4096
        args = ctypes.create_string_buffer(size)
        ctypes.c_size_t.from_buffer(args).value = size
        args[size - 1] = 1
        with contextlib.closing(self.open("cpu")) as device:
            try:
                self.call("attune_forward", device.handle, None, args)
                known = None
            except Error as error:
                known = re.search(r"knows the first (\d+) bytes", error.sentence)
        if known is None or int(known[1]) != ctypes.sizeof(ForwardArgs):
            raise ValueError(f"{self.calls._name}: attune_attention_args is not that of {INCLUDE}")


class Device:
    def __init__(self, library, call, *arguments):
        self.library = library
        self.handle = ctypes.c_void_p()
        library.call(call, *arguments, ctypes.byref(self.handle))

    def close(self):
        self.library.calls.attune_device_close(self.handle)

    def info(self):
        info = DeviceInfo(struct_size=ctypes.sizeof(DeviceInfo))
        self.library.call("attune_device_get_info", self.handle, ctypes.byref(info))
        return info

    def kernels(self):
        count = ctypes.c_int32()
        self.library.call("attune_device_count_kernels", self.handle, ctypes.byref(count))
        rows = [KernelInfo(struct_size=ctypes.sizeof(KernelInfo)) for _ in range(count.value)]
        for index, row in enumerate(rows):
            self.library.call("attune_device_get_kernel", self.handle, index, ctypes.byref(row))
        return rows

    def wrap_stream(self, native):
        return Stream(self, "attune_stream_wrap", ctypes.c_void_p(native))

    def create_stream(self):
        return Stream(self, "attune_stream_create")

    def forward(self, stream=None, **fields):
        self.run_once("attune_forward", stream, attention_args(**fields))

    def backward(self, stream=None, **fields):
        self.run_once("attune_backward", stream, attention_args(**fields))

    def run_once(self, call, stream, args):
        self.library.call(call, self.handle, stream and stream.handle, ctypes.byref(args))

    def plan(self, op=FORWARD, **fields):
        return Plan(self, op, attention_args(**fields))

    def alloc(self, size_bytes, kind="DEFAULT"):
        data = ctypes.c_void_p()
        self.library.call("attune_memory_alloc", self.handle, CONSTANTS["ATTUNE_MEMORY_" + kind],
                          ctypes.c_uint64(size_bytes), ctypes.byref(data))
        return data

    def free(self, data):
        self.library.calls.attune_memory_free(self.handle, data)

    def copy(self, direction, destination, source, size_bytes, stream=None):
        self.library.call("attune_memory_copy", self.handle, stream and stream.handle,
                          CONSTANTS["ATTUNE_COPY_" + direction], destination, ctypes.c_uint64(0), source,
                          ctypes.c_uint64(0), ctypes.c_uint64(size_bytes))

    def fill(self, data, size_bytes, value, stream=None):
        self.library.call("attune_memory_fill", self.handle, stream and stream.handle, data, ctypes.c_uint64(0),
                          ctypes.c_uint64(size_bytes), ctypes.c_uint8(value))

    def range_of(self, data):
        found = MemoryRange()
        self.library.call("attune_memory_get_range", self.handle, data, ctypes.byref(found))
        return found

    def synchronize(self, stream=None):
        self.library.call("attune_stream_synchronize", self.handle, stream and stream.handle)


class Stream:
    def __init__(self, device, call, *arguments):
        self.device = device
        self.handle = ctypes.c_void_p()
        device.library.call(call, device.handle, *arguments, ctypes.byref(self.handle))

    def close(self):
        self.device.library.calls.attune_stream_close(self.handle)


class Plan:
    """A plan and the args that it was made from, which a run takes unless it is given others."""

    def __init__(self, device, op, args):
        self.device = device
        self.args = args
        self.handle = ctypes.c_void_p()
        device.library.call("attune_plan_create", device.handle, op, ctypes.byref(args), ctypes.byref(self.handle))
        size = ctypes.c_uint64()
        device.library.call("attune_plan_get_workspace", self.handle, ctypes.byref(size))
        self.workspace_bytes = size.value

    def close(self):
        self.device.library.calls.attune_plan_close(self.handle)

    def run(self, stream=None, workspace=None, args=None):
        """workspace: an address of workspace_bytes."""
        self.device.library.call("attune_plan_run", self.handle, stream and stream.handle,
                                 ctypes.byref(args or self.args), ctypes.c_void_p(workspace), ctypes.c_uint64(0),
                                 ctypes.c_uint64(self.workspace_bytes))

    def kernel(self):
        explanation = Explanation(struct_size=ctypes.sizeof(Explanation))
        self.device.library.call("attune_plan_explain", self.handle, ctypes.byref(explanation))
        return explanation.kernel.decode()
