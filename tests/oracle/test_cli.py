# SPDX-License-Identifier: Apache-2.0
"""Every option of `attune run` alone, in both passes, and every way to write its files."""

import dataclasses
import json

import numpy as np
import pytest

import tensorfile
from command import BACKEND, Request, call, judge, words_of
from draws import coin, dense, normal
from formats import round_to
from semantics import Problem, forward

ALONE = {
    "nothing": {},
    "scale": {"scale": 0.3},
    "scale_zero": {"scale": 0.0},
    "scale_negative": {"scale": -1.25},
    "softcap": {"softcap": 0.5},
    "causal": {"causal": True},
    "causal_top_left": {"causal": True, "align": "top-left"},
    "causal_rows_without_keys": {"causal": True, "Sq": 9, "Sk": 4},
    "causal_diagonal_negative": {"causal": True, "diagonal": -2},
    "causal_diagonal_large": {"causal": True, "diagonal": 2**40},
    "window_both": {"window": (2, 1)},
    "window_left_open": {"window": (-1, 0)},
    "window_right_open": {"window": (1, -1)},
    "window_open": {"window": (-1, -1)},
    "window_diagonal": {"window": (1, 1), "diagonal": 4},
    "window_top_left": {"window": (1, 2), "align": "top-left"},
    "window_and_causal": {"window": (3, 3), "causal": True},
    "bias": {"bias": normal(1, 2, 4, 5, 7)},
    "bias_of_batch": {"bias": normal(2, 2, 1, 1, 1)},
    "bias_of_heads": {"bias": normal(3, 1, 4, 1, 1)},
    "bias_of_rows": {"bias": normal(4, 1, 1, 5, 1)},
    "bias_of_keys": {"bias": normal(5, 1, 1, 1, 7)},
    "bias_one": {"bias": normal(6, 1, 1, 1, 1)},
    "bias_rank_2": {"bias": normal(7, 5, 7)},
    "mask": {"mask": coin(8, 2, 4, 5, 7)},
    "mask_of_keys": {"mask": coin(9, 2, 1, 1, 7)},
    "mask_rank_2": {"mask": coin(10, 5, 7)},
    "mask_none": {"mask": np.zeros((1, 1, 1, 1))},
    "alibi": {"alibi": normal(11, 4) ** 2},
    "alibi_per_batch": {"alibi": normal(12, 2, 4) ** 2},
    "alibi_top_left": {"alibi": normal(13, 4) ** 2, "align": "top-left"},
    "alibi_diagonal": {"alibi": normal(14, 4) ** 2, "diagonal": -3},
    "sink": {"sink": normal(15, 4)},
    "sink_and_rows_without_keys": {"sink": normal(16, 4), "causal": True, "Sq": 9, "Sk": 4},
    "sink_minus_infinity": {"sink": np.array([-np.inf, 0, -np.inf, 1])},
    "dropout": {"dropout": 0.3},
    "dropout_seed": {"dropout": 0.5, "seed": 2**64 - 1, "offset": 2**32 - 1},
    "dropout_nearly_all": {"dropout": 0.999, "causal": True, "Sq": 20, "Sk": 20},
    "dropout_all": {"dropout": 1 - 2.0**-53},
    "seqused_q": {"seqused_q": np.array([0, 3])},
    "seqused_k": {"seqused_k": np.array([4, 0])},
    "seqused_causal": {
        "seqused_q": np.array([5, 2]),
        "seqused_k": np.array([4, 7]),
        "causal": True,
    },
    "leftpad": {"leftpad_k": np.array([3, 0])},
    "leftpad_all": {"leftpad_k": np.array([7, 2]), "causal": True},
    "block_sparse": {"block_sparse": (np.array([0, 2, 2, 3]), np.array([0, 2, 1]), 2, 3)},
    "block_sparse_per_head": {
        "block_sparse": (
            np.array([[0, 1, 2], [2, 4, 4], [4, 5, 7], [7, 8, 9]]),
            np.array([0, 1, 0, 1, 1, 0, 1, 0, 1]),
            3,
            4,
        )
    },
    "block_sparse_and_causal": {
        "block_sparse": (np.array([1, 2, 3]), np.array([9, 0, 0]), 3, 5),
        "causal": True,
    },
    "heads_alone": {"Hkv": 4},
    "heads_all_of_one": {"Hq": 6, "Hkv": 1},
    "heads_by_three": {"Hq": 21, "Hkv": 7, "D": 3},
    "head_size_one": {"D": 1, "Dv": 1},
    "head_size_odd": {"D": 33, "Dv": 20},
    "head_size_256": {"D": 256, "Dv": 256, "B": 1},
    "long_rows": {"Sq": 150, "Sk": 201, "B": 1, "Hq": 2, "causal": True},
    "no_keys": {"Sk": 0},
    "no_keys_under_a_sink": {"Sk": 0, "sink": normal(17, 4)},
    "no_rows": {"Sq": 0},
    "no_batch": {"B": 0},
    "nothing_at_all": {"B": 0, "Sq": 0, "Sk": 0},
}


@pytest.mark.parametrize("name", ALONE)
def test_option(name, tmp_path):
    request = dense(**ALONE[name])
    request.outputs += ("probs",)
    judge(request, tmp_path)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "e4m3"])
@pytest.mark.parametrize("out_dtype", [None, "f32"])
@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_dtype_and_layout(dtype, out_dtype, layout, tmp_path):
    judge(dense(dtype=dtype, out_dtype=out_dtype, layout=layout, causal=True), tmp_path)


@pytest.mark.parametrize("out_dtype", ["f16", "bf16"])
def test_quarter_precision_in_half_out(out_dtype, tmp_path):
    judge(dense(dtype="e4m3", out_dtype=out_dtype), tmp_path)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "e4m3"])
def test_conversion_of_files(dtype, tmp_path):
    """Ties, subnormals and overflow, on their way through v to one row that copies it."""
    largest = {"f16": 6e4, "bf16": 1e38, "e4m3": 448.0}[dtype]
    spread = np.outer(2.0 ** np.arange(-30, 10), 1 + np.arange(64) / 64).ravel()
    values = np.concatenate([spread, -spread, [0.0, -0.0, largest, -largest]])
    values = values[np.abs(values) <= largest].reshape(1, 1, 1, -1)
    for n in range(0, values.shape[-1], 256):
        v = values[..., n : n + 256]
        p = Problem(np.zeros((1, 1, 1, 1)), np.zeros((1, 1, 1, 1)), v)
        outputs = judge(Request(p, dtype=dtype, out_dtype="f32"), tmp_path)
        np.testing.assert_array_equal(outputs["o"], round_to(v, dtype))


@pytest.mark.parametrize("dtype", ["f32", "f16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_half_files(dtype, order, tmp_path):
    judge(dense(dtype=dtype, floats="<f2", order=order), tmp_path)


def test_dtype_is_that_of_the_file_of_q(tmp_path):
    request = dense(dtype="f16", floats="<f2")
    assert "--dtype" not in words_of(request, tmp_path)
    assert "--dtype" not in words_of(dense(), tmp_path)
    judge(request, tmp_path)


@pytest.mark.parametrize("integers", ["<i4", "<i8"])
@pytest.mark.parametrize("masks", ["u1", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_kinds_of_files(integers, masks, order, tmp_path):
    request = dense(mask=coin(20, 2, 1, 5, 7), seqused_k=np.array([6, 7]), layout="bhsd")
    request.p.block_sparse = np.array([0, 2, 3]), np.array([0, 1, 1]), 3, 4
    request.integers, request.masks, request.order = integers, masks, order
    judge(request, tmp_path)


def test_any_nonzero_byte_of_a_mask_is_visible(tmp_path):
    judge(dense(mask=coin(21, 1, 1, 5, 7) * 254), tmp_path)


@pytest.mark.parametrize("kind,dtype", [("F16", "f16"), ("BF16", "bf16"), ("F8_E4M3", "e4m3")])
def test_safetensors(kind, dtype, tmp_path):
    """q, k, v from one file in its own dtype, which is then that of the call."""
    request = dense(dtype=dtype, mask=coin(22, 2, 1, 5, 7), seqused_k=np.array([7, 5]))
    words = words_of(request, tmp_path)
    file, p = tmp_path / "all.safetensors", request.p
    tensorfile.save(
        file,
        {
            "layer.0.q": (kind, p.q),
            "layer.0.k": (kind, p.k),
            "layer.0.v": (kind, p.v),
            "mask": ("BOOL", p.mask),
            "used": ("I64", p.seqused_k),
        },
    )
    inside = {"--q": "layer.0.q", "--k": "layer.0.k", "--v": "layer.0.v", "--mask": "mask"}
    for flag, name in (inside | {"--seqused-k": "used"}).items():
        words[words.index(flag) + 1] = f"{file}:{name}"
    at = words.index("--dtype")
    call(words_of(request, tmp_path))
    plain = {name: (tmp_path / f"{name}.npy").read_bytes() for name in request.outputs}
    assert call(words[:at] + words[at + 2 :]).returncode == 0
    for name in request.outputs:
        assert (tmp_path / f"{name}.npy").read_bytes() == plain[name]
    judge(request, tmp_path)


# ---------------------------------------------------------------------------------------------
# Requests that change nothing, the summary


@pytest.mark.parametrize(
    "words",
    [
        ("--splits", "1"),
        ("--splits", "7"),
        ("--splits", "1000"),
        ("--tile", "16x128"),
        ("--tile", "128x16"),
        ("--deterministic",),
        ("--check",),
        ("--repeat", "3"),
    ],
)
def test_requests_that_change_no_result(words, tmp_path):
    judge(dense(55, causal=True, words=words), tmp_path)


def test_outputs_one_at_a_time(tmp_path):
    whole = dense(56, sink=normal(57, 4), bias=normal(58, 1, 4, 5, 7))
    for output in whole.outputs:
        folder = tmp_path / output
        folder.mkdir()
        judge(dataclasses.replace(whole, outputs=(output,)), folder)
        assert [path.stem for path in folder.iterdir() if path.stem[:3] != "in_"] == [output]


def test_summary_in_place_of_a_file(tmp_path):
    words = words_of(dense(59, False, outputs=()), tmp_path)
    result = call(words)
    assert result.returncode == 0 and "kernel" in result.stdout.lower()
    result = call([*words, "--json"])
    assert result.returncode == 0 and isinstance(json.loads(result.stdout), dict)
    assert not [path for path in tmp_path.iterdir() if path.stem[:3] != "in_"]


# ---------------------------------------------------------------------------------------------
# Infinity, NaN and rubbish outside


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, -1e30])
def test_one_score(value, tmp_path):
    request = dense(60, bias=np.zeros((2, 4, 5, 7)))
    request.p.bias[1, 2, 3, 4] = value
    request.p.bias[0, 0, 1, :] = value
    judge(request, tmp_path)


def test_nan_in_a_query_row(tmp_path):
    request = dense(61, causal=True)
    request.p.q[1, 2, 3, 0] = np.nan
    outputs = judge(request, tmp_path)
    assert np.isnan(outputs["o"][1, 2, 3]).all() and np.isnan(outputs["dq"][1, 2, 3]).all()
    assert np.isnan(outputs["o"]).sum() == 5 and np.isnan(outputs["dq"]).sum() == 6


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_dout_that_is_not_finite(value, tmp_path):
    request = dense(64, causal=True)
    request.do[1, 2, 3, 0] = value
    outputs = judge(request, tmp_path)
    assert np.isfinite(outputs["dv"][1, 5:]).all() and np.isfinite(outputs["dk"][1, 5:]).all()
    assert not np.isfinite(outputs["dv"][1, :5, :, 0]).all(axis=0).all()


@pytest.mark.parametrize("operand", ["q", "k"])
def test_infinity_under_softcap(operand, tmp_path):
    request = dense(65, causal=True, softcap=3.0)
    getattr(request.p, operand)[1, 2, 0, 0] = np.inf
    outputs = judge(request, tmp_path)
    assert np.isfinite(outputs["o"]).all() and np.isnan(outputs["dq" if operand == "k" else "dk"]).any()


@pytest.mark.parametrize("rubbish", [np.nan, np.inf, 1e30])
def test_bytes_outside_a_sequence(rubbish, tmp_path):
    request = dense(62, seqused_q=np.array([3, 5]), seqused_k=np.array([5, 7]), causal=True)
    p = request.p
    p.leftpad_k = np.array([1, 2])
    p.q[0, 3:] = request.do[0, 3:] = rubbish
    request.dlse[0, :, 3:] = rubbish
    for x in (p.k, p.v):
        x[0, :1] = x[0, 5:] = x[1, :2] = rubbish
    outputs = judge(request, tmp_path)
    assert all(np.isfinite(x).all() for x in outputs.values())


def test_nan_codes_of_e4m3_outside(tmp_path):
    request = dense(63, dtype="e4m3", seqused_k=np.array([5, 6]))
    for x in (request.p.k, request.p.v):
        x[0, 5:] = x[1, 6:] = np.nan
    outputs = judge(request, tmp_path)
    assert all(np.isfinite(x).all() for x in outputs.values())


# ---------------------------------------------------------------------------------------------
# Hand-worked results, by the command alone


def flat(tmp_path, Sq, Sk, **options):
    """lse of a call whose scores are all 0 before its options act."""
    p = Problem(*(np.zeros((1, n, 1, 4)) for n in (Sq, Sk, Sk)), **options)
    return judge(Request(p), tmp_path)["lse"][0, 0]


def test_lse_by_hand(tmp_path):
    np.testing.assert_allclose(flat(tmp_path, 2, 5, causal=True), np.log([4, 5]), rtol=1e-7)
    top_left = flat(tmp_path, 2, 5, causal=True, align="top-left")
    np.testing.assert_allclose(top_left, np.log([1, 2]), rtol=1e-7)
    np.testing.assert_allclose(flat(tmp_path, 1, 8), np.log(8), rtol=1e-7)
    for left in (0, 1, 127):
        lse = flat(tmp_path, 150, 150, causal=True, window=(left, -1))
        counts = np.minimum(np.arange(150) + 1, left + 1)
        np.testing.assert_allclose(lse, np.log(counts), rtol=1e-7)
    slope = np.array([np.float32(np.log(2))])
    np.testing.assert_allclose(flat(tmp_path, 1, 3, alibi=slope), np.log(1.75), rtol=1e-6)


def test_dropout_leaves_lse(tmp_path):
    request = dense(64, False, Sq=64, Sk=64, causal=True)
    whole = judge(request, tmp_path)
    request.p.dropout = 0.999
    dropped = judge(request, tmp_path)
    np.testing.assert_array_equal(whole["lse"], dropped["lse"])
    np.testing.assert_array_equal(forward(request.stored()).o == 0, dropped["o"] == 0)


# ---------------------------------------------------------------------------------------------
# Choice of backend


def without_backend(tmp_path):
    words = words_of(dense(70, False), tmp_path)
    at = words.index("--backend")
    return words[:at] + words[at + 2 :]


def test_strict_choice_of_an_absent_backend(tmp_path):
    missing = str(tmp_path / "libcuda-absent.so.1")
    result = call(without_backend(tmp_path), ATTUNE_BACKEND="cuda", ATTUNE_CUDA_LIBRARY=missing)
    assert result.returncode == 4 and "libcuda-absent.so.1" in result.stderr
    assert not (tmp_path / "o.npy").exists() and not (tmp_path / "lse.npy").exists()


def test_list_of_backends_falls_through(tmp_path):
    missing = str(tmp_path / "libcuda-absent.so.1")
    words = without_backend(tmp_path)
    judge(dense(70, False), tmp_path)
    named = {name: (tmp_path / f"{name}.npy").read_bytes() for name in ("o", "lse")}
    result = call(words, ATTUNE_BACKEND="cuda,cpu", ATTUNE_CUDA_LIBRARY=missing)
    assert result.returncode == 0 and len(result.stderr.splitlines()) == 1 and "opens cpu:0" in result.stderr
    if BACKEND == "cpu":
        for name in ("o", "lse"):
            assert (tmp_path / f"{name}.npy").read_bytes() == named[name]
