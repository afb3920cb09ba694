# SPDX-License-Identifier: Apache-2.0
"""Each fault that another library had, by its id in tests/faults.md, is looked for: in cases of `attune conform` whose
names begin with the id, or, where a case over a device's results cannot show it, in the tests named here."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ["SOURCE_ROOT"]) / "tests"

CASES = """B005 B006 B009 B012 B015 B018 B019 B030 B035 B038 B040 B043 B046 B048 B055 B056 B060 B067 B073 B075 B082 B085
B087 B088 B090 B098 B102 B118""".split()

TESTS = {
    "B014": [("interface/test_promises.py", "test_no_finite_math_flag_anywhere")],
    "B047": [("unit/test_schedule.c", "test_workspace_past_two_to_the_31"),
             ("unit/test_cpu_backend.c", "test_B047_workspace_does_not_wrap")],
    "B068": [("unit/test_tile.c", "test_every_head_size_fits_or_is_refused"),
             ("unit/test_device.c", "the_variable_overrides_limits")],
    "B106": [("unit/test_opaque_calls.c", "a_graph_runs_with_what_lies_in_memory"),
             ("unit/test_opaque_calls.c", "nothing_is_allocated_in_a_capture"),
             ("cuda/test_streams.py", "test_between_producer_and_consumer")],
    "B110": [("unit/test_opaque.c", "devices_are_apart"),
             ("unit/test_cuda_device.c", "a_handle_on_1_while_0_is_current"),
             ("cuda/test_two_devices.py", "test_handle_on_1_while_0_is_current")],
    "B120": [("interface/test_binary.py", "test_no_driver_is_linked"),
             ("unit/test_cuda_stub.c", "missing_library"),
             ("tools/test_command.py", "test_missing_library_is_unavailable")],
    "B121": [("unit/test_cuda_device.c", "chips_without_an_image"),
             ("unit/test_cuda_device.c", "a_driver_that_refuses_the_image")],
    "B122": [("unit/test_env.c", "switches"), ("unit/test_env.c", "every_variable_gets_the_values_of_the_case"),
             ("unit/test_cpu_backend.c", "test_B122_variables")],
    "B128": [("opencl/test_barriers.py", "test_barriers_are_in_straight_control_flow")],
    "B131": [("unit/test_cpu_threads.c", "test_B131_version_2"), ("unit/test_cpu_threads.c", "test_B131_version_1"),
             ("unit/test_cpu_threads.c", "test_B131_affinity")],
}


@pytest.fixture(scope="module")
def names():
    command = [os.environ["COMMAND"], "conform", "--backend", "cpu", "--list"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def is_run(file, name):
    """Whether the file's test is one that its runner calls, not only a function."""
    text = (ROOT / file).read_text()
    if file.endswith(".py"):
        return re.search(rf"^def {name}\(", text, re.M)
    return re.search(rf"^ +(cmocka_unit_test\w*|TEST)\({name}[,)]", text, re.M)


@pytest.mark.parametrize("fault", CASES)
def test_there_are_cases(fault, names):
    assert [name for name in names if name.startswith(fault + "/")]


@pytest.mark.parametrize("fault", TESTS)
def test_there_are_tests(fault):
    for file, name in TESTS[fault]:
        assert is_run(file, name), f"{file}: {name}"


def test_the_page_has_these_and_no_others():
    page = re.findall(r"^\| (B\d+) \|", (ROOT / "faults.md").read_text(), re.M)
    assert page == sorted([*CASES, *TESTS])


def test_the_list_is_of_enough_cases(names):
    assert len(names) == len(set(names)) >= 1500
