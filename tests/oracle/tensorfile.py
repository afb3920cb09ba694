# SPDX-License-Identifier: Apache-2.0
"""Reading and writing .safetensors: eight bytes of header length, a JSON header, the raw data."""

import json
import struct

import numpy as np

from formats import bf16_bits, e4m3_decode, e4m3_encode

KINDS = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "F8_E4M3": "u1",
    "I64": "<i8",
    "I32": "<i4",
    "U8": "u1",
    "BOOL": "?",
}


def load(path):
    """The tensors by name, bf16 and e4m3 as float64 values; and the metadata."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    return {name: decode(entry, data) for name, entry in header.items()}, metadata


def decode(entry, data):
    first, last = entry["data_offsets"]
    raw = np.frombuffer(data[first:last], KINDS[entry["dtype"]]).reshape(entry["shape"])
    if entry["dtype"] == "BF16":
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return e4m3_decode(raw) if entry["dtype"] == "F8_E4M3" else raw


def save(path, tensors):
    """tensors: name -> (kind, values)."""
    header, chunks, at = {}, [], 0
    for name, (kind, values) in tensors.items():
        raw = encode(kind, values).tobytes()
        offsets = [at, at + len(raw)]
        header[name] = {"dtype": kind, "shape": list(np.shape(values)), "data_offsets": offsets}
        chunks.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def encode(kind, values):
    if kind == "BF16":
        return bf16_bits(values)
    return e4m3_encode(values) if kind == "F8_E4M3" else np.asarray(values, KINDS[kind])
