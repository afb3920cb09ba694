"""A row of kernels.def that declares less than the compiler reports is a build error.

SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import subprocess

import pytest

COMPILE = pathlib.Path(os.environ["SOURCE_ROOT"]) / "scripts" / "cuda_compile"

KERNEL = """
extern "C" __global__ void attune_{name}(const float *x, float *y, int n) {{
    {body}
}}
"""
# Elements at places that only the launch knows are in local memory.
LOCAL_BYTES = 256
LOCAL = """float kept[64];
    for (int k = 0; k < 64; k++) kept[k * n % 64] = x[k];
    y[threadIdx.x] = kept[threadIdx.x % 64];"""
SHARED_BYTES = 2048
SHARED = """__shared__ float kept[512];
    kept[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = kept[n];"""
# All that is read is alive at once.
MANY = """float kept[100];
    #pragma unroll
    for (int k = 0; k < 100; k++) kept[k] = static_cast<const volatile float *>(x)[k * n];
    #pragma unroll
    for (int k = 0; k < 100; k++) y[k] = kept[99 - k];"""


def compile_row(folder, body, name="row", threads=128, shared=0, spill=0):
    (folder / "kernel.cu").write_text(KERNEL.format(name=name, body=body))
    row = (f"ATTUNE_ROW(row, FORWARD, f16, general_forward, 64, 64, 8, 0, sm_80, 0, 0, 1, {threads}, {shared}, F32, "
           f"{spill}, 0, none, 0, f16)")
    return subprocess.run(
        [COMPILE, "--row", row, "--output", folder / "row.fatbin", "--depfile", folder / "row.d", "--",
         os.environ["NVCC"], "-fatbin", "-std=c++17", "-gencode=arch=compute_80,code=sm_80", folder / "kernel.cu"],
        capture_output=True, text=True)


def test_what_is_declared_passes_and_leaves_its_report(tmp_path):
    for declared in ({"body": LOCAL, "spill": LOCAL_BYTES}, {"body": SHARED, "shared": SHARED_BYTES},
                     {"body": MANY, "threads": 256}):
        compiled = compile_row(tmp_path, **declared)
        assert compiled.returncode == 0, compiled.stderr
        assert "attune_row" in (tmp_path / "row.fatbin.txt").read_text()


@pytest.mark.parametrize("declared, fault", [
    ({"body": LOCAL, "spill": LOCAL_BYTES - 1}, f"{LOCAL_BYTES} bytes of local memory, more than {LOCAL_BYTES - 1}"),
    ({"body": SHARED, "shared": SHARED_BYTES - 1},
     f"{SHARED_BYTES} bytes of static shared memory, more than {SHARED_BYTES - 1}"),
    ({"body": MANY, "threads": 1024}, "registers of a work-group, more than 65536"),
    ({"body": "", "name": "another_row"}, "a kernel attune_another_row"),
])
def test_what_is_more_than_declared_fails(tmp_path, declared, fault):
    compiled = compile_row(tmp_path, **declared)
    assert compiled.returncode != 0
    assert fault in compiled.stderr
