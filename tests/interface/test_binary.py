# SPDX-License-Identifier: Apache-2.0
"""What the library exports and what it is linked to."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(os.environ["SOURCE_ROOT"])
LIBRARY = Path(os.environ["LIBRARY"])
DRIVERS = re.compile(r"cuda|nvidia|amdhip|hsa-runtime|opencl", re.I)


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def declared():
    text = "".join(path.read_text() for path in (ROOT / "include/attune").glob("*.h"))
    return set(re.findall(r"^ATTUNE_API [^;]*?\b(attune_\w+)\(", text, re.M))


def exported():
    if LIBRARY.suffix == ".a":
        lines = output("nm", "-g", "--defined-only", str(LIBRARY))
    else:
        lines = output("nm", "-D", "--defined-only", str(LIBRARY))
    return {line.split()[-1] for line in lines.splitlines() if re.match(r"[0-9a-f]+ [A-TV-Z] ", line)}


def test_only_attune_is_visible():
    names = exported()
    assert names and all(name.startswith("attune_") for name in names), sorted(names)[:20]


def test_exactly_the_public_functions_are_exported():
    names = exported()
    assert declared() <= names, sorted(declared() - names)
    if LIBRARY.suffix != ".a":
        assert names == declared(), sorted(names - declared())


def test_no_driver_is_linked():
    for path in (LIBRARY, Path(os.environ["COMMAND"])):
        if path.suffix != ".a":
            libraries = [line.split()[0] for line in output("ldd", str(path)).splitlines()]
            assert not [name for name in libraries if DRIVERS.search(name)]


def test_the_soname_is_of_version_h():
    if LIBRARY.suffix == ".a":
        return
    text = (ROOT / "include/attune/version.h").read_text()
    major, minor = (re.search(rf"#define ATTUNE_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR"))
    assert f"libattune.so.{major}.{minor}]" in output("readelf", "-d", str(LIBRARY))
