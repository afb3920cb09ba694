"""attention forward through bench/cuda_rows.c on torch tensors: what the scripts beside this one share.

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import dataclasses

import torch

DTYPES = {torch.float32: 1, torch.float16: 2, torch.bfloat16: 3, torch.int32: 6}
OPERANDS = {"q": 0, "k": 1, "v": 2, "o": 3, "lse": 4, "sink": 16, "cu_q": 17, "cu_k": 18, "used_q": 19, "used_k": 20,
            "table": 22}
BOTTOM_RIGHT, TOP_LEFT, DIAGONAL = 0, 1, 2
OPEN = -1


@dataclasses.dataclass
class Options:
    """What an attune_problem holds besides its tensors."""
    batch: int
    rows: int
    keys: int
    heads_q: int
    heads_kv: int
    head_dim: int
    head_dim_v: int
    page_size: int = 0
    align: int = BOTTOM_RIGHT
    diagonal: int = 0
    left: int = OPEN
    right: int = OPEN
    softcap: float = 0.0
    scale: float = 1.0


def layout_of(name, tensor):
    """Extents and strides over four axes, as attune_layout has them."""
    shape, stride = list(tensor.shape), list(tensor.stride())
    if name in ("q", "k", "v", "o") and len(shape) == 3:  # packed sequences: an axis b of extent 1
        shape, stride = [1] + shape, [0] + stride
    if name == "lse":
        shape, stride = ([1] + shape, [0] + stride) if len(shape) == 2 else (shape, stride)
    missing = 4 - len(shape)
    return shape + [1] * missing, stride + [0] * missing


class Rows:
    """The backend, opened on device 0."""

    def __init__(self, path):
        torch.zeros(1, device="cuda")
        self.library = ctypes.CDLL(path)
        for name in ("rows_error", "rows_chosen"):
            getattr(self.library, name).restype = ctypes.c_char_p
        for name in ("rows_plan", "rows_stream"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.rows_workspace.restype = ctypes.c_int64
        if self.library.rows_open() != 0:
            raise RuntimeError(self.error())
        self.streams = {}

    def error(self):
        return self.library.rows_error().decode()

    def stream(self):
        native = torch.cuda.current_stream().cuda_stream
        if native not in self.streams:
            self.streams[native] = self.library.rows_stream(ctypes.c_void_p(native))
        return ctypes.c_void_p(self.streams[native])

    def plan(self, options, tensors, row=None):
        return Plan(self, options, tensors, row)


class Plan:
    """A chosen row for some tensors, which it keeps alive. run() may be given others of the same layouts."""

    def __init__(self, rows, options, tensors, row):
        self.rows, self.options, self.tensors = rows, options, tensors
        numbers = [DTYPES[tensors["q"].dtype], options.batch, options.rows, options.keys, options.heads_q,
                   options.heads_kv, options.head_dim, options.head_dim_v, options.page_size, options.align,
                   options.diagonal, options.left, options.right]
        layouts = []
        for name, tensor in tensors.items():
            shape, stride = layout_of(name, tensor)
            layouts += [OPERANDS[name], DTYPES[tensor.dtype]] + shape + stride
        self.handle = ctypes.c_void_p(rows.library.rows_plan(
            (ctypes.c_int64 * len(numbers))(*numbers), ctypes.c_double(options.softcap), len(tensors),
            (ctypes.c_int64 * len(layouts))(*layouts), row.encode() if row else None))
        if not self.handle:
            raise RuntimeError(rows.error())
        self.row = rows.library.rows_chosen(self.handle).decode()
        self.workspace = torch.full((max(256, rows.library.rows_workspace(self.handle)),), 255, dtype=torch.uint8,
                                    device="cuda")
        self.operands = (ctypes.c_int64 * len(tensors))(*(OPERANDS[name] for name in tensors))

    def run(self, tensors=None, workspace=None):
        tensors = self.tensors if tensors is None else tensors
        workspace = self.workspace if workspace is None else workspace
        data = (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors.values()))
        status = self.rows.library.rows_run(
            self.handle, self.rows.stream(), ctypes.c_double(self.options.scale), len(tensors), self.operands, data,
            ctypes.c_void_p(workspace.data_ptr()))
        if status != 0:
            raise RuntimeError(self.rows.error())

    def close(self):
        self.rows.library.rows_close(self.handle)
