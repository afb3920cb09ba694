# SPDX-License-Identifier: Apache-2.0
"""PyTorch's float64 vectors (tests/data/golden) against the oracle, and against the command."""

import json
import pathlib

import numpy as np
import pytest

import tensorfile
from command import BACKEND, FLOATS, GRADIENTS, INTEGERS, NUMBERS, call, flag
from formats import round_to
from semantics import Problem, backward, forward

GOLDEN = pathlib.Path(__file__).parent.parent / "data" / "golden"
CASES = sorted(path.stem for path in GOLDEN.glob("*.safetensors") if path.stem != "rounding")
F32_NOISE = 2e-6  # the command's o and lse are f32 when its backward reads them


def load(name):
    tensors, metadata = tensorfile.load(GOLDEN / f"{name}.safetensors")
    case = json.loads(metadata["case"])
    options = {field: tensors[field] for field in FLOATS + INTEGERS + ("mask",) if field in tensors}
    options |= case["options"]
    if "row_ptr" in tensors:
        options["block_sparse"] = (tensors["row_ptr"], tensors["col_idx"], *options["block_sparse"])
    values = (tensors[name].astype(np.float64) for name in "qkv")
    return Problem(*values, **options), tensors, case


def test_all_cases_are_there():
    assert len(CASES) == 26


@pytest.mark.parametrize("name", CASES)
def test_oracle(name):
    p, tensors, _ = load(name)
    state = forward(p)
    np.testing.assert_allclose(state.o, tensors["o"], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(state.lse, tensors["lse"], rtol=1e-12, atol=1e-13)
    if "do" in tensors:
        grad = backward(p, state.o, state.lse, tensors["do"], tensors["dlse"].astype(np.float64))
        for output in GRADIENTS:
            assert (output in tensors) == (getattr(grad, output) is not None)
            if output in tensors:
                got = getattr(grad, output)
                np.testing.assert_allclose(got, tensors[output], rtol=1e-11, atol=1e-12)


def test_rounding():
    tensors, _ = tensorfile.load(GOLDEN / "rounding.safetensors")
    for dtype in ("f16", "bf16", "e4m3"):
        np.testing.assert_array_equal(round_to(tensors["values"], dtype), tensors[dtype])


@pytest.mark.parametrize("name", CASES)
def test_command(name, tmp_path):
    """The command reads the case straight from its .safetensors file and answers in f32."""
    p, tensors, case = load(name)
    outputs = [output for output in ("o", "lse") + GRADIENTS if output in tensors]
    words = ["run", "--backend", BACKEND, "--out-dtype", "f32"]
    for field in ("q", "k", "v", "do", "dlse", "mask") + FLOATS + INTEGERS:
        if field in tensors:
            words += [flag(field), f"{GOLDEN / name}.safetensors:{field}"]
    words += option_words(case["options"], GOLDEN / f"{name}.safetensors")
    for output in outputs:
        words += [flag(output), tmp_path / f"{output}.npy"]
    assert call(words).returncode == 0
    for output in outputs:
        got, expected = np.load(tmp_path / f"{output}.npy"), tensors[output]
        size = np.abs(expected[np.isfinite(expected)]).max()
        np.testing.assert_allclose(got, expected, rtol=2.0**-23, atol=F32_NOISE * size)


def option_words(options, path):
    words = []
    for name, value in options.items():
        if name in NUMBERS + ("softcap", "align"):
            words += [flag(name), value]
        elif name == "causal":
            words += ["--causal"]
        elif name == "window":
            words += ["--window", f"{value[0]},{value[1]}"]
        else:
            block_q, block_k = value
            csr = f"{path}:row_ptr,{path}:col_idx,{block_q},{block_k}"
            words += ["--block-sparse", csr]
    return words
