"""bench/cuda_rows_build.sh makes a library of one architecture's rows.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import subprocess

SCRIPT = pathlib.Path(os.environ["SOURCE_ROOT"]) / "bench" / "cuda_rows_build.sh"
CUDA = pathlib.Path(os.environ["NVCC"]).resolve().parent.parent


def test_one_row_and_what_merges_splits(tmp_path):
    built = subprocess.run([SCRIPT, tmp_path, "sm_90a", "1", "_forward_f16_d64_full_short"],
                           env=os.environ | {"CUDA_HOME": str(CUDA)}, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert [line.split()[0] for line in (tmp_path / "rows").read_text().splitlines()] == [
        "sm90_forward_f16_d64_full_short", "sm80_merge"]
    exported = subprocess.run(["nm", "-D", "--defined-only", tmp_path / "cuda_rows.so"], capture_output=True, text=True)
    assert " T rows_plan" in exported.stdout
