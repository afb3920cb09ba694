# SPDX-License-Identifier: Apache-2.0
"""Random combinations of options in both passes, each told by its seed alone.

The number in a test's name is the seed, so that `pytest test_cli_random.py::test_combination[7]`
draws the same request again; TEST_SEEDS=1000:1200 draws others.
"""

import os

import pytest

from combinations import draw_request
from command import judge

FIRST, LAST = map(int, os.environ.get("TEST_SEEDS", "0:200").split(":"))


@pytest.mark.parametrize("seed", range(FIRST, LAST))
def test_combination(seed, tmp_path):
    judge(draw_request(seed), tmp_path)
