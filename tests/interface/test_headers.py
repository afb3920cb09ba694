# SPDX-License-Identifier: Apache-2.0
"""Each public header stands alone, in C11 and in C++17, and leaves nothing public undocumented."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ["SOURCE_ROOT"])
HEADERS = sorted((ROOT / "include/attune").glob("*.h"))
LANGUAGES = {
    "c11": [*os.environ["C_COMPILER"].split(), "-std=c11", "-x", "c"],
    "c++17": ["g++", "-std=c++17", "-x", "c++"],
    "clang++17": ["clang++", "-std=c++17", "-x", "c++"],
}
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-fsyntax-only"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_alone(header, language):
    text = f'#include "attune/{header.name}"\nint attune_nothing_else;\n'
    command = [*LANGUAGES[language], *STRICT, f"-I{ROOT / 'include'}", f"-I{ROOT}", "-"]
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_there_are_headers():
    assert len(HEADERS) >= 10


@pytest.mark.parametrize("header", HEADERS, ids=lambda path: path.name)
def test_every_function_has_a_contract(header):
    """A comment that ends on the line above, and says which threads and errors there are."""
    text = header.read_text()
    for match in re.finditer(r"^ATTUNE_API [^;]*?\b(attune_\w+)\(", text, re.M):
        above = text[: match.start()].rstrip()
        assert above.endswith("*/"), f"{match[1]} has no comment"
        comment = above[above.rindex("/*") :]
        inherits = re.search(r"\b(The rest as|as) attune_\w+", comment)
        for part in ("Threads", "Errors"):
            assert re.search(part, comment, re.I) or inherits, f"{match[1]} does not speak of {part}"
