# SPDX-License-Identifier: Apache-2.0
"""Bad input: exit status 2, a sentence that names the argument, and nothing written."""

import json
import re
import struct

import numpy as np
import pytest

from command import call, words_of
from draws import dense, normal
from formats import round_to


def refuse(words, folder, pattern):
    """The command must refuse, name what matches the pattern, and leave the folder as it was."""
    before = sorted(folder.iterdir())
    result = call(words)
    assert result.returncode == 2
    assert re.search(pattern, result.stderr, re.IGNORECASE), f"stderr does not name /{pattern}/"
    assert sorted(folder.iterdir()) == before


def argument(name):
    """The argument as the message may write it: --cu-seqlens-q, cu_seqlens_q, cu-seqlens-q."""
    return r"(?<![a-z])" + re.sub("[-_]", "[-_ ]", name) + r"(?![a-z])"


# ---------------------------------------------------------------------------------------------
# Words

WORDS = {
    "unknown flag": (["--casual"], "casual"),
    "unknown word": (["extra"], "extra"),
    "flag without its value": (["--scale"], "scale"),
    "scale nan": (["--scale", "nan"], "scale"),
    "scale infinite": (["--scale", "inf"], "scale"),
    "scale no number": (["--scale", "1.0x"], "scale"),
    "scale empty": (["--scale", ""], "scale"),
    "softcap negative": (["--softcap", "-1"], "softcap"),
    "softcap nan": (["--softcap", "nan"], "softcap"),
    "softcap infinite": (["--softcap", "inf"], "softcap"),
    "window below -1": (["--window", "-2,0"], "window"),
    "window right below -1": (["--window", "0,-2"], "window"),
    "window one side": (["--window", "3"], "window"),
    "window three sides": (["--window", "1,2,3"], "window"),
    "dropout one": (["--dropout", "1.0"], "dropout"),
    "dropout negative": (["--dropout", "-0.1"], "dropout"),
    "dropout nan": (["--dropout", "nan"], "dropout"),
    "seed negative": (["--dropout", "0.5", "--seed", "-1"], "seed"),
    "seed too large": (["--dropout", "0.5", "--seed", str(2**64)], "seed"),
    "offset too large": (["--dropout", "0.5", "--offset", str(2**32)], "offset"),
    "align": (["--align", "middle"], "align"),
    "diagonal no integer": (["--diagonal", "1.5"], "diagonal"),
    "diagonal too large": (["--diagonal", str(2**63)], "diagonal"),
    "dtype": (["--dtype", "f8"], "dtype"),
    "out dtype": (["--out-dtype", "f64"], "out[-_]dtype"),
    "layout": (["--layout", "sbhd"], "layout"),
    "splits negative": (["--splits", "-1"], "splits"),
    "tile": (["--tile", "64"], "tile"),
    "repeat zero": (["--repeat", "0"], "repeat"),
    "page size without a table": (["--page-size", "16"], "page[-_ ]size"),
}


@pytest.mark.parametrize("name", WORDS)
def test_word(name, tmp_path):
    words, pattern = WORDS[name]
    refuse(words_of(dense(80, False), tmp_path) + words, tmp_path, pattern)


@pytest.mark.parametrize("words", [["--backend", "abacus"], ["--kernel", "no_such_row"]])
def test_name_that_nothing_has(words, tmp_path):
    before = words_of(dense(80, False), tmp_path)
    result = call(before + words)
    assert result.returncode in (2, 3, 4) and words[1] in result.stderr
    assert not (tmp_path / "o.npy").exists()


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_tensor_left_out(name, tmp_path):
    words = words_of(dense(80, False), tmp_path)
    at = words.index(f"--{name}")
    refuse(words[:at] + words[at + 2 :], tmp_path, argument(name))


@pytest.mark.parametrize("words,pattern", [([], "run"), (["walk"], "walk")])
def test_verb(words, pattern, tmp_path):
    refuse(words, tmp_path, pattern)


# ---------------------------------------------------------------------------------------------
# Shapes and values


def entry(flag, values, kind=None):
    """An input in place of what the plain request has, or beside it."""
    return lambda folder: add_file(folder, flag, values, kind)


def add_file(folder, flag, values, kind):
    path = folder / f"bad_{flag.strip('-')}.npy"
    np.save(path, np.asarray(values).astype(kind) if kind else values)
    return [flag, str(path)]


def zeros(*shape):
    return np.zeros(shape, np.float32)


# The plain request: q (2, 5, 4, 6), k (2, 7, 2, 6), v (2, 7, 2, 5)
FILES = {
    "q of rank 3": ("q", entry("--q", zeros(5, 4, 6))),
    "q of rank 5": ("q", entry("--q", zeros(1, 2, 5, 4, 6))),
    "k of rank 3": ("k", entry("--k", zeros(7, 2, 6))),
    "v of rank 2": ("v", entry("--v", zeros(2, 5))),
    "q of integers": ("q", entry("--q", zeros(2, 5, 4, 6), "<i4")),
    "q of float64": ("q", entry("--q", zeros(2, 5, 4, 6), "<f8")),
    "k of another batch": ("k", entry("--k", zeros(3, 7, 2, 6))),
    "k of another head size": ("k", entry("--k", zeros(2, 7, 2, 8))),
    "k of other heads than v": ("v|k", entry("--k", zeros(2, 7, 4, 6))),
    "v of another length": ("v", entry("--v", zeros(2, 6, 2, 5))),
    "heads not a multiple": ("q", entry("--q", zeros(2, 5, 3, 6))),
    "mask of floats": ("mask", entry("--mask", zeros(1, 1, 5, 7))),
    "mask that does not broadcast": ("mask", entry("--mask", zeros(1, 3, 5, 7), "u1")),
    "bias of integers": ("bias", entry("--bias", zeros(1, 1, 5, 7), "<i4")),
    "bias that does not broadcast": ("bias", entry("--bias", zeros(1, 1, 5, 6))),
    "bias of rank 5": ("bias", entry("--bias", zeros(1, 1, 1, 5, 7))),
    "alibi of other heads": ("alibi", entry("--alibi", zeros(2))),
    "alibi of another batch": ("alibi", entry("--alibi", zeros(3, 4))),
    "sink of other heads": ("sink", entry("--sink", zeros(2))),
    "sink of rank 2": ("sink", entry("--sink", zeros(2, 4))),
    "seqused_q negative": ("seqused_q", entry("--seqused-q", [-1, 5], "<i4")),
    "seqused_q past the rows": ("seqused_q", entry("--seqused-q", [5, 6], "<i4")),
    "seqused_k past the keys": ("seqused_k", entry("--seqused-k", [8, 7], "<i4")),
    "seqused_k past int32": ("seqused_k", entry("--seqused-k", [2**32 + 1, 7], "<i8")),
    "seqused_k of another batch": ("seqused_k", entry("--seqused-k", [7], "<i4")),
    "seqused_k of floats": ("seqused_k", entry("--seqused-k", [7, 7], "<f4")),
    "leftpad negative": ("leftpad_k", entry("--leftpad-k", [0, -2], "<i4")),
    "leftpad past the keys": ("leftpad_k", entry("--leftpad-k", [0, 8], "<i4")),
    "do left out": ("do|dq", lambda folder: ["--dq", str(folder / "dq.npy")]),
    "do of another shape": ("do", entry("--do", zeros(2, 5, 4, 6))),
    "dlse of another shape": ("dlse", entry("--dlse", zeros(2, 5, 4))),
    "cos without sin": ("sin|cos|knew", entry("--cos", zeros(8, 2))),
    "knew without vnew": ("vnew", entry("--knew", zeros(2, 1, 2, 6))),
}


@pytest.mark.parametrize("name", FILES)
def test_file(name, tmp_path):
    pattern, make = FILES[name]
    words = words_of(dense(81, False), tmp_path)
    for flag, path in [make(tmp_path)]:
        if flag in words:
            words[words.index(flag) + 1] = path
        else:
            words += [flag, path]
    refuse(words, tmp_path, "|".join(argument(part) for part in pattern.split("|")))


def test_gradients_of_what_is_absent(tmp_path):
    for output, needs in (("dbias", "bias"), ("dsink", "sink")):
        request = dense(82)
        request.outputs += (output,)
        refuse(words_of(request, tmp_path), tmp_path, needs)


# ---------------------------------------------------------------------------------------------
# cu_seqlens, pages, append, block-sparse lists, scales


def packed(**changes):
    request = dense(83, False)
    p = request.p
    p.q, p.k, p.v = p.q[0], p.k[0], p.v[0]
    p.cu_seqlens_q, p.cu_seqlens_k = np.array([0, 2, 5]), np.array([0, 4, 7])
    p.max_seqlen_q, p.max_seqlen_k = 3, 4
    for name, value in changes.items():
        setattr(p, name, value)
    return request


PACKED = {
    "decreasing": {"cu_seqlens_q": np.array([0, 3, 2, 5]), "cu_seqlens_k": np.array([0, 4, 4, 7])},
    "decreasing for keys": {"cu_seqlens_k": np.array([0, 4, 3])},
    "negative": {"cu_seqlens_q": np.array([-1, 2, 5])},
    "past the rows": {"cu_seqlens_k": np.array([0, 4, 8])},
    "another batch": {"cu_seqlens_k": np.array([0, 7])},
    "rank 2": {"cu_seqlens_q": np.array([[0, 2, 5]])},
    "longer than its maximum": {"max_seqlen_q": 2},
    "maximum negative": {"max_seqlen_k": -1},
    "seqused past its sequence": {"seqused_k": np.array([5, 3])},
}


@pytest.mark.parametrize("name", PACKED)
def test_packed(name, tmp_path):
    field = next(iter(PACKED[name]))
    named = f"{argument(field)}|{argument(field.replace('max', 'cu').replace('len_', 'lens_'))}"
    refuse(words_of(packed(**PACKED[name]), tmp_path), tmp_path, named)


def test_cu_seqlens_of_floats(tmp_path):
    words = words_of(packed(), tmp_path)
    np.save(words[words.index("--cu-seqlens-q") + 1], np.array([0, 2, 5], np.float32))
    refuse(words, tmp_path, argument("cu_seqlens_q"))


def paged(**changes):
    """Two entries of three pages of four positions, in a pool of seven."""
    request = dense(84, False, Sk=7)
    p = request.p
    p.k, p.v = (round_to(normal(85, 7, 4, 2, d), "f32") for d in (6, 5))
    p.block_table, p.page_size = np.array([[0, 3, 5], [6, 2, 1]]), 4
    p.seqused_k = np.array([12, 5])
    for name, value in changes.items():
        setattr(p, name, value)
    return request


PAGED = {
    "no page size": ("page_size", {"page_size": None}),
    "page size zero": ("page_size", {"page_size": 0}),
    "page size of other pages": ("page_size|k", {"page_size": 8}),
    "no seqused_k": ("seqused_k", {"seqused_k": None}),
    "past the capacity": ("seqused_k", {"seqused_k": np.array([13, 5])}),
    "entry negative": ("block_table", {"block_table": np.array([[0, -1, 5], [6, 2, 1]])}),
    "entry past the pool": ("block_table", {"block_table": np.array([[0, 3, 5], [6, 7, 1]])}),
    "entry past int32": ("block_table", {"block_table": np.array([[0, 2**32, 5], [6, 2, 1]])}),
    "another batch": ("block_table", {"block_table": np.array([[0, 3, 5]])}),
    "rank 1": ("block_table", {"block_table": np.array([0, 3, 5, 6, 2, 1])}),
}


@pytest.mark.parametrize("name", PAGED)
def test_pages(name, tmp_path):
    pattern, changes = PAGED[name]
    request = paged(**changes)
    request.integers = "<i8"
    named = "|".join(argument(part) for part in pattern.split("|"))
    refuse(words_of(request, tmp_path), tmp_path, named)


def test_pages_with_cu_seqlens_k(tmp_path):
    request = paged(cu_seqlens_k=np.array([0, 4, 7]), max_seqlen_k=4)
    refuse(words_of(request, tmp_path), tmp_path, argument("cu_seqlens_k"))


def test_pages_in_backward(tmp_path):
    request = paged()
    request.do = round_to(normal(86, 2, 5, 4, 5), "f32")
    request.outputs += ("dq", "dk", "dv")
    refuse(words_of(request, tmp_path), tmp_path, argument("block_table"))


def appended(**changes):
    request = dense(87, False, Sk=7, seqused_k=np.array([5, 2]))
    request.knew, request.vnew = zeros(2, 2, 2, 6), zeros(2, 2, 2, 5)
    request.cos = request.sin = zeros(12, 3)
    for name, value in changes.items():
        setattr(request.p if name == "seqused_k" else request, name, value)
    return request


APPENDED = {
    "past the capacity": ("seqused_k|knew", {"seqused_k": np.array([6, 2])}),
    "vnew of another length": ("vnew|knew", {"vnew": zeros(2, 1, 2, 5)}),
    "knew of other heads": ("knew", {"knew": zeros(2, 2, 4, 6)}),
    "sin of another shape": ("sin|cos", {"sin": zeros(12, 2)}),
    "turn wider than a head": ("cos|sin|rotary[-_]dim", {"cos": zeros(12, 4), "sin": zeros(12, 4)}),
    "too few positions": ("cos|sin", {"cos": zeros(6, 3), "sin": zeros(6, 3)}),
}


@pytest.mark.parametrize("name", APPENDED)
def test_append(name, tmp_path):
    pattern, changes = APPENDED[name]
    words = words_of(appended(**changes), tmp_path)
    refuse(words, tmp_path, "|".join(argument(part) for part in pattern.split("|")))


LISTS = {
    "too few rows": ([0, 2], [0, 1], 2, 3),
    "decreasing": ([0, 2, 1, 3], [0, 1, 2], 2, 3),
    "past the columns": ([0, 1, 2, 4], [0, 1, 2], 2, 3),
    "negative offset": ([-1, 1, 2, 3], [0, 1, 2], 2, 3),
    "columns do not increase": ([0, 2, 2, 3], [1, 1, 0], 2, 3),
    "column past the keys": ([0, 1, 2, 3], [0, 3, 1], 2, 3),
    "column negative": ([0, 1, 2, 3], [0, -1, 1], 2, 3),
    "block size zero": ([0, 1, 2, 3], [0, 1, 1], 0, 3),
}


@pytest.mark.parametrize("name", LISTS)
def test_block_sparse_list(name, tmp_path):
    row_ptr, col_idx, block_q, block_k = LISTS[name]
    request = dense(88, False)
    request.p.block_sparse = np.array(row_ptr), np.array(col_idx), block_q, block_k
    refuse(words_of(request, tmp_path), tmp_path, r"block[-_ ](sparse|rows)|row_ptr|col_idx")


@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 2, 2), (1, 2, 1)])
def test_descale_shape(shape, tmp_path):
    request = dense(89, False, dtype="e4m3")
    request.p.descale_k = np.ones(shape)
    refuse(words_of(request, tmp_path), tmp_path, argument("descale_k"))


# ---------------------------------------------------------------------------------------------
# Files that are cut short or lie


def npy(header, data=b"", version=(1, 0)):
    text = header.encode("latin1")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H", len(text)) + text + data


def header(shape="(2, 5, 4, 6)", descr="'<f4'", order="False"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"


RIGHT = bytes(2 * 5 * 4 * 6 * 4)

NPY = {
    "empty": b"",
    "magic": b"\x93NUMPX" + npy(header(), RIGHT)[6:],
    "cut in the header": npy(header(), RIGHT)[:40],
    "cut in the data": npy(header(), RIGHT[:-1]),
    "no data": npy(header()),
    "more than it says": npy(header(), RIGHT + bytes(4)),
    "shape larger than the data": npy(header("(2, 5, 4, 60)"), RIGHT),
    "shape that overflows": npy(header("(4294967296, 4294967296, 4, 6)"), RIGHT),
    "shape that overflows to zero": npy(header("(9223372036854775808, 2, 4, 6)"), RIGHT),
    "shape negative": npy(header("(-2, -5, 4, 6)"), RIGHT),
    "shape no tuple": npy(header("'abc'"), RIGHT),
    "shape left out": npy("{'descr': '<f4', 'fortran_order': False, }", RIGHT),
    "objects": npy(header(descr="'|O'"), RIGHT),
    "other byte order": npy(header(descr="'>f4'"), RIGHT),
    "a record": npy(header(descr="[('a', '<f4')]"), RIGHT),
    "order": npy(header(order="Maybe"), RIGHT),
    "header not closed": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 5, 4, ", RIGHT),
    "version": npy(header(), RIGHT, version=(9, 0)),
    "header length past the file": b"\x93NUMPY\x01\x00\xff\xff" + header().encode(),
}


@pytest.mark.parametrize("name", NPY)
def test_npy(name, tmp_path):
    words = words_of(dense(90, False), tmp_path)
    path = tmp_path / "broken.npy"
    path.write_bytes(NPY[name])
    words[words.index("--q") + 1] = str(path)
    refuse(words, tmp_path, rf"{argument('q')}|broken\.npy")


def test_files_that_are_not_there(tmp_path):
    words = words_of(dense(90, False), tmp_path)
    words[words.index("--k") + 1] = str(tmp_path / "absent.npy")
    refuse(words, tmp_path, r"absent\.npy")
    words[words.index("--k") + 1] = str(tmp_path)
    refuse(words, tmp_path, re.escape(str(tmp_path)))


def safetensors(entry, data=RIGHT, length=None):
    text = entry if isinstance(entry, bytes) else json.dumps({"q": entry}).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def tensor(dtype="F32", shape=(2, 5, 4, 6), offsets=(0, 960)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


SAFETENSORS = {
    "empty": b"",
    "length past the file": safetensors(tensor(), length=10**6),
    "length that overflows": safetensors(tensor(), length=2**64 - 8),
    "no json": safetensors(b"{'q': 1}"),
    "json list": safetensors(b"[1, 2]"),
    "another name": safetensors(json.dumps({"p": tensor()}).encode()),
    "offsets past the file": safetensors(tensor(offsets=(4, len(RIGHT) + 4))),
    "offsets reversed": safetensors(tensor(offsets=(len(RIGHT), 0))),
    "offsets negative": safetensors(tensor(offsets=(-8, len(RIGHT) - 8))),
    "offsets of another size": safetensors(tensor(offsets=(0, len(RIGHT) - 4))),
    "offsets no integers": safetensors(tensor(offsets=("a", "b"))),
    "shape that overflows": safetensors(tensor(shape=(2**33, 2**31, 4, 6))),
    "shape of fractions": safetensors(tensor(shape=(2.5, 5, 4, 6))),
    "dtype unknown": safetensors(tensor(dtype="F31")),
    "dtype left out": safetensors({"shape": [2, 5, 4, 6], "data_offsets": [0, len(RIGHT)]}),
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_safetensors(name, tmp_path):
    words = words_of(dense(91, False), tmp_path)
    path = tmp_path / "broken.safetensors"
    path.write_bytes(SAFETENSORS[name])
    words[words.index("--q") + 1] = f"{path}:q"
    refuse(words, tmp_path, rf"{argument('q')}|broken\.safetensors")


def test_output_that_cannot_be_written(tmp_path):
    words = words_of(dense(92, False), tmp_path)
    words[words.index("-o") + 1] = str(tmp_path / "no" / "such" / "o.npy")
    result = call(words)
    assert result.returncode not in (0, 3, 4)
    assert "o.npy" in result.stderr
