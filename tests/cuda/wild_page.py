"""One call whose block table names a page far outside of the pool: a sanitizer that watches the kernels reports what
they then read. It is the caller's fault, and nothing that a right program does.

    compute-sanitizer python3 tests/cuda/wild_page.py build/libattune.so KERNEL

SPDX-License-Identifier: Apache-2.0
"""
import ctypes
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import attune  # noqa: E402

ROWS, PAGES, KEYS, HEAD_DIM = 1, 2, 16, 64
WILD_PAGE = 1 << 20  # 2 GiB from the first one


def make_tensor(device, dtype, *shape, content=None):
    """A tensor on the device: of zeros, or of the integers in content."""
    elements = 1
    made = attune.Tensor(dtype=attune.CONSTANTS["ATTUNE_DTYPE_" + dtype], rank=len(shape))
    for axis in reversed(range(len(shape))):
        made.shape[axis], made.stride[axis] = shape[axis], elements
        elements *= shape[axis]
    size_bytes = elements * (4 if dtype == "I32" else 2)
    data = device.alloc(size_bytes)
    made.data = data.value
    device.fill(data, size_bytes, 0)
    if content is not None:
        device.copy("HOST_TO_DEVICE", data, ctypes.create_string_buffer(struct.pack("i", content)), size_bytes)
    return made


def main():
    library, kernel = sys.argv[1:]
    device = attune.Library(library).open("cuda:0")
    pool = make_tensor(device, "F16", PAGES, KEYS, 1, HEAD_DIM)
    try:
        device.forward(q=make_tensor(device, "F16", 1, ROWS, 1, HEAD_DIM), k=pool, v=pool,
                       o=make_tensor(device, "F16", 1, ROWS, 1, HEAD_DIM),
                       seqused_k=make_tensor(device, "I32", 1, content=KEYS),
                       block_table=make_tensor(device, "I32", 1, 1, content=WILD_PAGE), page_size=KEYS, kernel=kernel)
        device.synchronize()
    except attune.Error as error:
        print(error)


main()
