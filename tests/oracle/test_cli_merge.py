# SPDX-License-Identifier: Apache-2.0
"""`attune merge`: states of (o, lse) over disjoint keys."""

import re

import numpy as np
import pytest

from closeness import check
from command import call
from draws import normal
from formats import round_to
from semantics import merge


def files(folder, states):
    """Writes the states; the words that merge them."""
    names = {"o": [], "lse": []}
    for n, state in enumerate(states):
        for name, values in zip(("o", "lse"), state, strict=True):
            names[name].append(str(folder / f"in_{name}_{n}.npy"))
            np.save(names[name][-1], values.astype("<f4"))
    inputs = ["--o", ",".join(names["o"]), "--lse", ",".join(names["lse"])]
    return ["merge", *inputs, "-o", folder / "o.npy", "--lse-out", folder / "lse.npy"]


def judge_merge(folder, states):
    assert call(files(folder, states)).returncode == 0
    got = np.load(folder / "o.npy"), np.load(folder / "lse.npy")
    for name, values, expected in zip(("o", "lse"), got, merge(states), strict=True):
        assert values.dtype == np.float32
        check(name, values, expected, "f32")
    return got


def state(number, shape=(2, 5, 3, 4)):
    o = round_to(normal(number, *shape), "f32")
    return o, round_to(3 * normal(number + 100, *shape[:-3], shape[-2], shape[-3]), "f32")


def empty(shape=(2, 5, 3, 4)):
    return np.zeros(shape), np.full((*shape[:-3], shape[-2], shape[-3]), -np.inf)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_merge(count, tmp_path):
    judge_merge(tmp_path, [state(n) for n in range(count)])


def test_merge_of_packed_states(tmp_path):
    judge_merge(tmp_path, [state(n, (6, 3, 4)) for n in range(2)])


def test_merge_with_empty_states_is_the_identity(tmp_path):  # B006
    o, lse = state(1)
    lse[0, 0, :2] = -(2.0**100), 2.0**100
    for states in ([empty(), (o, lse)], [(o, lse), empty()], [empty(), (o, lse), empty(), empty()]):
        got = judge_merge(tmp_path, states)
        np.testing.assert_array_equal(got[0], o)
        np.testing.assert_array_equal(got[1], lse)
    got = judge_merge(tmp_path, [empty(), empty()])
    assert not got[0].any() and (got[1] == -np.inf).all()


def test_merge_of_distant_states(tmp_path):
    (o, lse), (o2, lse2) = state(2), state(3)
    judge_merge(tmp_path, [(o, lse + 500), (o2, lse2 - 500)])


def test_merge_of_no_rows(tmp_path):
    judge_merge(tmp_path, [empty((2, 0, 3, 4))] * 2)


REFUSED = {
    "counts differ": (lambda o, lse: (o + "," + o, lse), r"lse|--o\b"),
    "shapes differ": (lambda o, lse: (lse, lse), r"\bo\b"),
    "no such file": (lambda o, lse: (o, lse + ".absent"), r"lse"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_merge_refuses(name, tmp_path):
    words = files(tmp_path, [state(4)])
    change, pattern = REFUSED[name]
    words[2], words[4] = change(words[2], words[4])
    result = call(words)
    assert result.returncode == 2
    assert re.search(pattern, result.stderr)
    assert not (tmp_path / "o.npy").exists() and not (tmp_path / "lse.npy").exists()
