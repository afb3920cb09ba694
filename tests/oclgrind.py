"""Runs a command on Oclgrind, which interprets kernels: oclgrind.py COMMAND...

Fails if the command does, or if Oclgrind has anything to say: an access outside of memory, a race between work-items, a
barrier that not all reach, a call of the API that is not right. SPDX-License-Identifier: Apache-2.0
"""
import os
import pathlib
import subprocess
import sys
import tempfile

DRIVER = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        log = folder / "log"
        (folder / "oclgrind.icd").write_text(DRIVER + "\n")
        environment = os.environ | {"OCL_ICD_VENDORS": f"{folder}/", "ATTUNE_CACHE_DIR": f"{folder}/cache",
                                    "OCLGRIND_LOG": str(log), "OCLGRIND_DATA_RACES": "1", "OCLGRIND_CHECK_API": "1",
                                    # Its own 32 KiB of local memory are too few for some rows, and it counts what all
                                    # kernels of a program have together: https://github.com/jrprice/Oclgrind/issues/162
                                    "OCLGRIND_LOCAL_MEM_SIZE": "196608", "ATTUNE_DEVICE_LIMITS": "shared=48K",
                                    # Of functions put in line its compiler makes what its interpreter does not know.
                                    "OCLGRIND_BUILD_OPTIONS": "-DFN=static -cl-opt-disable"}
        status = subprocess.run(sys.argv[1:], env=environment, check=False).returncode
        said = log.read_text() if log.exists() else ""
    print(said[:10000])
    return status or (1 if said else 0)


sys.exit(main())
