# SPDX-License-Identifier: Apache-2.0
"""The attune command as an outside script sees it: a Request becomes files and words, and the files
that the command wrote become arrays again.

TEST_COMMAND is the command's path, TEST_BACKEND the backend to judge (cpu).
"""

import dataclasses
import os
import shlex
import subprocess
from dataclasses import dataclass

import numpy as np

import kvcache
from closeness import check
from formats import round_to
from semantics import Problem, backward, forward

BACKEND = os.environ.get("TEST_BACKEND", "cpu")
NATIVE = {"<f4": "f32", "<f2": "f16"}

STORED = ("q", "k", "v")
APPENDED = ("knew", "vnew")
FLOATS = ("bias", "alibi", "sink", "descale_q", "descale_k", "descale_v")
INTEGERS = ("cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k", "leftpad_k", "block_table")
NUMBERS = ("scale", "diagonal", "max_seqlen_q", "max_seqlen_k", "page_size")
FLAG_OF = {"o": "-o"}
GRADIENTS = ("dq", "dk", "dv", "dbias", "dsink")


@dataclass
class Request:
    """A problem whose q, k and v are what the files hold, and how to say it to the command."""

    p: Problem
    dtype: str = "f32"
    out_dtype: str = None
    layout: str = "bshd"
    do: np.ndarray = None
    dlse: np.ndarray = None
    knew: np.ndarray = None
    vnew: np.ndarray = None
    cos: np.ndarray = None
    sin: np.ndarray = None
    interleaved: bool = False
    outputs: tuple = ("o", "lse")
    words: tuple = ()
    floats: str = "<f4"  # of the files that --dtype rounds
    integers: str = "<i4"
    masks: str = "u1"
    order: str = "C"

    @property
    def o_dtype(self):
        return self.out_dtype or ("bf16" if self.dtype == "e4m3" else self.dtype)

    def dtype_of(self, output):
        if output in ("o", "dq", "dk", "dv"):
            return self.o_dtype
        return self.dtype if output in ("k_out", "v_out") else "f32"

    def rounded(self, values, dtype):
        """What the command makes of a file: the file's own rounding, then --dtype's."""
        return round_to(round_to(values, NATIVE[self.floats]), dtype)

    def stored(self):
        """The problem of the values that the call is given, before any append."""
        parts = {name: self.rounded(getattr(self.p, name), self.dtype) for name in STORED}
        for name in FLOATS:
            if getattr(self.p, name) is not None:
                parts[name] = round_to(getattr(self.p, name), "f32")
        return dataclasses.replace(self.p, **parts)


# ---------------------------------------------------------------------------------------------
# Words and files


def words_of(request, folder):
    """Writes the input files; the words after `attune`."""
    p, words = request.p, ["run", "--backend", BACKEND]
    for name in STORED:
        words += tensor(request, folder, name, getattr(p, name), request.floats)
    for name in APPENDED + ("do",):
        words += tensor(request, folder, name, getattr(request, name), request.floats)
    for name in ("dlse", "cos", "sin"):
        words += tensor(request, folder, name, getattr(request, name), "<f4")
    for name in FLOATS:
        words += tensor(request, folder, name, getattr(p, name), "<f4")
    for name in INTEGERS:
        words += tensor(request, folder, name, getattr(p, name), request.integers)
    words += tensor(request, folder, "mask", p.mask, request.masks)
    words += block_sparse_words(request, folder) + number_words(p) + how_words(request)
    for output in request.outputs:
        words += [flag(output), str(folder / f"{output}.npy")]
    return words + [str(word) for word in request.words]


def flag(name):
    return FLAG_OF.get(name, "--" + name.replace("_", "-"))


def tensor(request, folder, name, values, kind):
    if values is None:
        return []
    path = folder / f"in_{name}.npy"
    if is_dense(request, name) and request.layout == "bhsd":
        values = np.swapaxes(values, 1, 2)
    save(path, values, kind, request.order)
    return [flag(name), str(path)]


def is_dense(request, name):
    """Whether --layout speaks of this tensor: it has the four axes B, S, H, D."""
    p = request.p
    if name in ("q", "o", "do", "dq"):
        return p.cu_seqlens_q is None
    if name in ("k", "v", "dk", "dv", "k_out", "v_out"):
        return p.cu_seqlens_k is None and p.block_table is None
    return name in APPENDED


def save(path, values, kind, order="C"):
    with np.errstate(over="ignore"):
        np.save(path, np.asarray(values).astype(kind, order=order))


def block_sparse_words(request, folder):
    if request.p.block_sparse is None:
        return []
    row_ptr, col_idx, block_q, block_k = request.p.block_sparse
    paths = [str(folder / f"in_{name}.npy") for name in ("row_ptr", "col_idx")]
    save(paths[0], row_ptr, request.integers, request.order)
    save(paths[1], col_idx, request.integers, request.order)
    return ["--block-sparse", f"{paths[0]},{paths[1]},{block_q},{block_k}"]


def number_words(p):
    words = []
    for name in NUMBERS:
        if getattr(p, name) is not None:
            words += [flag(name), repr(getattr(p, name))]
    if p.softcap > 0:
        words += ["--softcap", repr(p.softcap)]
    if p.dropout > 0:
        words += ["--dropout", repr(p.dropout), "--seed", str(p.seed), "--offset", str(p.offset)]
    if p.window is not None:
        words += ["--window", f"{p.window[0]},{p.window[1]}"]
    if p.causal:
        words += ["--causal"]
    if p.align != "bottom-right":
        words += ["--align", p.align]
    return words


def how_words(request):
    words = []
    if request.dtype != NATIVE[request.floats]:
        words += ["--dtype", request.dtype]
    if request.out_dtype is not None:
        words += ["--out-dtype", request.out_dtype]
    if request.layout != "bshd":
        words += ["--layout", request.layout]
    if request.interleaved:
        words += ["--rotary-interleaved"]
    return words


# ---------------------------------------------------------------------------------------------
# Running


def call(words, **variables):
    """Runs the command, and prints a line that can be pasted; pytest shows it when a test fails."""
    if "TEST_COMMAND" not in os.environ:
        raise RuntimeError("TEST_COMMAND must be the path of the attune command")
    environment = {name: value for name, value in os.environ.items() if name != "ATTUNE_BACKEND"}
    environment.setdefault("ATTUNE_CPU_ISA", "reference")
    line = [os.environ["TEST_COMMAND"], *map(str, words)]
    settings = "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items())
    print(settings + shlex.join(line))
    result = subprocess.run(
        line, env=environment | variables, capture_output=True, text=True, timeout=60
    )
    print(result.stdout, result.stderr, f"exit status {result.returncode}", sep="\n")
    return result


def run(request, folder):
    """The request's outputs by name, in the oracle's layout."""
    result = call(words_of(request, folder))
    assert result.returncode == 0, result.stderr
    return {output: read(request, folder, output) for output in request.outputs}


def read(request, folder, output):
    values = np.load(folder / f"{output}.npy")
    kind = "<f2" if request.dtype_of(output) == "f16" else "<f4"
    assert values.dtype == np.dtype(kind), f"{output} is {values.dtype}, not {kind}"
    dense = is_dense(request, output) and request.layout == "bhsd"
    return (np.swapaxes(values, 1, 2) if dense else values).astype(np.float64)


def judge(request, folder):
    """Runs the request and holds every output to the oracle; returns the outputs."""
    outputs = run(request, folder)
    for name, expected in expect(request, outputs).items():
        if name in outputs:
            check(name, outputs[name], expected, request.dtype_of(name))
    return outputs


def expect(request, outputs):
    """The oracle's outputs. Backward starts from the o and lse that the command's forward gave."""
    p = request.stored()
    expected = {}
    if request.knew is not None:
        p, expected = after_append(request, p)
    state = forward(p)
    expected |= {"o": state.o, "lse": state.lse, "probs": state.probs}
    if request.do is not None:
        o = outputs.get("o", round_to(state.o, request.o_dtype))
        lse = outputs.get("lse", round_to(state.lse, "f32"))
        do = request.rounded(request.do, request.o_dtype)
        grad = backward(p, o, lse, do, request.dlse)
        expected |= {name: getattr(grad, name) for name in GRADIENTS}
    return expected


def after_append(request, p):
    """New rows are f32 values under an e4m3 cache, else of the cache's dtype."""
    dtype = "f32" if request.dtype == "e4m3" else request.dtype
    rows = (request.rounded(getattr(request, name), dtype) for name in APPENDED)
    turn = {"cos": request.cos, "sin": request.sin, "interleaved": request.interleaved}
    q, k, v, used = kvcache.append(p, *rows, request.dtype, **turn)
    return dataclasses.replace(p, q=q, k=k, v=v, seqused_k=used), {"k_out": k, "v_out": v}
