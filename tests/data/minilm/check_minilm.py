#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the kept files to exact attention in f64; exits 1 if a file is not what README.md says.

Needs numpy alone. Per layer it prints the relative Frobenius error of exact attention against the
framework's output: over every row with the lengths given as seqused_k, over the rows that a text
owns, and, to show that the mask matters, without the lengths.
"""

import json
import sys
from pathlib import Path

import numpy as np

DTYPES = {"F32": "<f4", "I32": "<i4"}
LAYERS = ("layer0", "layer5")
HEADS, HEAD_DIM, EMBEDDING = 12, 32, 384
# A right f32 kernel may differ by 2e-6 in all; the framework may use up a quarter of it.
LIMIT = 5e-7


def load_safetensors(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        flat = np.frombuffer(data[start + begin : start + end], DTYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors


def exact_attention(q, k, v, lengths):
    """In f64, seqused_k = lengths: keys past a length do not exist, query rows past it attend."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    score = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
    hidden = np.arange(k.shape[1]) >= lengths[:, None]
    score = np.where(hidden[:, None, None, :], -np.inf, score)
    p = np.exp(score - score.max(-1, keepdims=True))
    return np.einsum("bhij,bjhd->bihd", p / p.sum(-1, keepdims=True), v)


def require(condition, message):
    if not condition:
        sys.exit(f"check_minilm: {message}")


def relative_error(value, reference):
    return np.linalg.norm(value - reference) / np.linalg.norm(reference)


def check_layer(tensors, text_lengths):
    q, k, v, out, lengths = (tensors[name] for name in ("q", "k", "v", "out", "lengths"))
    batch, rows = len(lengths), int(lengths.max())
    require(lengths.tolist() == text_lengths[:batch], "lengths are not those of texts.json")
    for x in (q, k, v, out):
        require(x.shape == (batch, rows, HEADS, HEAD_DIM), "shape")
        require(x.dtype == np.float32, "dtype")
        require(np.isfinite(x).all(), "not finite")

    exact = exact_attention(q, k, v, lengths)
    unmasked = exact_attention(q, k, v, np.full_like(lengths, rows))
    owned = np.arange(rows) < lengths[:, None]
    every_row = relative_error(exact, out)
    owned_rows = relative_error(exact[owned], out[owned])
    no_mask = relative_error(unmasked[owned], out[owned])
    print(f"  every row {every_row:.2e}, owned rows {owned_rows:.2e}, no lengths {no_mask:.2e}")
    require(max(every_row, owned_rows) < LIMIT, f"exact attention differs by more than {LIMIT}")
    require(no_mask > 1e-3, "the padding mask makes no difference")


def check_embeddings(tensors, text_lengths):
    embeddings = tensors["embeddings"]
    require(tensors["lengths"].tolist() == text_lengths, "lengths are not those of texts.json")
    require(embeddings.shape == (len(text_lengths), EMBEDDING), "shape")
    norms = np.linalg.norm(embeddings.astype(np.float64), axis=1)
    require(np.abs(norms - 1).max() < 1e-6, "not normalised")


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    texts = json.loads((folder / "texts.json").read_text())
    text_lengths = [text["length"] for text in texts]
    for text in texts:
        require(len(text["token_ids"]) == text["length"], "token_ids and length disagree")
    for layer in LAYERS:
        print(layer)
        check_layer(load_safetensors(folder / f"{layer}.safetensors"), text_lengths)
    check_embeddings(load_safetensors(folder / "embeddings.safetensors"), text_lengths)
    print("embeddings: right")


if __name__ == "__main__":
    main()
