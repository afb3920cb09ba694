"""The opencl backend beside an application's own OpenCL: what `attune conform` cannot see, since it has none.

TEST_LIBRARY is the path of libattune.so, TEST_DEVICE the beginning of a device's name, "" for the first.

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import ctypes
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import attune  # noqa: E402
from opencl_driver import Driver  # noqa: E402


@pytest.fixture(scope="session")
def library():
    return attune.Library(os.environ["TEST_LIBRARY"])


@pytest.fixture(scope="session")
def driver():
    """The application's context and queue."""
    return Driver(os.environ.get("TEST_DEVICE", ""))


@pytest.fixture
def device(library, driver):
    """attune in them."""
    with contextlib.closing(library.wrap("opencl", ctypes.addressof(driver.native))) as wrapped:
        yield wrapped
