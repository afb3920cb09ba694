"""The cuda backend beside a framework on one card: what `attune conform` cannot see, since it has no CUDA of its own.

TEST_LIBRARY is the path of libattune.so.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import attune  # noqa: E402


@pytest.fixture(scope="session")
def library():
    return attune.Library(os.environ["TEST_LIBRARY"])


@pytest.fixture
def device(library):
    with contextlib.closing(library.open("cuda:0")) as opened:
        yield opened
