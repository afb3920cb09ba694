"""B128: implementations have compiled a barrier under a condition wrongly, though it is legal where all work-items agree.
So none of ours is under a condition, after a return, or in a loop that is left early. Loops themselves run the same for
all of a work-group.

SPDX-License-Identifier: Apache-2.0
"""
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "backends/opencl/generic").glob("*.cl"))
INCLUDE = re.compile(r'#\s*include\s+"(backends/opencl/[^"]+)"')
CONDITIONS = ("if", "else", "switch", "while", "do")


def folded(path, seen):
    """The text of a source and of what it includes of this backend, without comments."""
    if path in seen:
        return ""
    seen.add(path)
    text = path.read_text(encoding="ascii")
    before = "".join(folded(ROOT / name, seen) for name in INCLUDE.findall(text))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    lines = (line for line in text.replace("\\\n", " ").split("\n"))
    return before + "\n".join(line for line in lines if not line.lstrip().startswith("#")) + "\n" + macros(text)


def macros(text):
    """Macros that are pieces of code, as functions of the same name."""
    joined = text.replace("\\\n", " ")
    found = re.findall(r"^\s*#\s*define\s+(\w+)\(([^)]*)\)\s+(.*\{.*\})\s*$", joined, flags=re.M)
    return "".join(f"void {name}({parameters}) {{ {body} }}\n" for name, parameters, body in found)


def functions(text):
    """Name and body of each function."""
    found = []
    depth = 0
    begin = head = 0
    for at, sign in enumerate(text):
        if sign == "{":
            if depth == 0:
                begin = at
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                name = re.search(r"(\w+)\s*\([^{}]*\)\s*$", text[head:begin])
                if name is not None:
                    found.append((name[1], text[begin + 1:at]))
                head = at + 1
        elif sign == ";" and depth == 0:
            head = at + 1
    return found


def with_barriers(bodies):
    """Names of what reaches a barrier."""
    names = {"barrier", "BARRIER", "BARRIER_ALL"}
    while True:
        more = {name for name, body in bodies if any(re.search(rf"\b{each}\(", body) for each in names)}
        if more <= names:
            return names
        names |= more


def faults_of(body, waits):
    """What is wrong in one function."""
    faults = []
    blocks = []
    returned = False
    statement = ""
    for token in re.findall(r"\w+|[^\w\s]", body):
        if token in "{};":
            returned = returned or re.match(r"\s*return\b", statement) is not None
            if token == "{":
                blocks.append((statement.split() or [""])[0])
            elif token == "}" and blocks:
                blocks.pop()
            statement = ""
            continue
        statement += token + " "
        if token in waits:
            if returned:
                faults.append(f"{token} after a return")
            if any(block in CONDITIONS for block in blocks) or statement.split()[0] in CONDITIONS or "?" in statement:
                faults.append(f"{token} under a condition")
    return faults


def leaves_loop(body, waits):
    """Whether a loop that waits is left early."""
    return any(re.search(rf"\b{name}\(", body) for name in waits) and re.search(r"\b(break|continue|goto)\b", body)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_barriers_are_in_straight_control_flow(path):
    bodies = functions(folded(path, set()))
    waits = with_barriers(bodies)
    assert bodies, path
    for name, body in bodies:
        assert not faults_of(body, waits), name
        assert not leaves_loop(body, waits), name


@pytest.mark.parametrize("stem, names", [
    ("fwd", {"walk_depth", "walk_columns", "WALK_ALL_COLUMNS"}),
    ("bwd", {"walk_depth", "walk_columns", "WALK_ALL_COLUMNS"}),
    ("bwd_chunks", {"multiply_pairs", "multiply_keys", "multiply_rows"}),
])
def test_the_attention_kernels_have_barriers_to_look_at(stem, names):
    bodies = functions(folded(ROOT / f"backends/opencl/generic/{stem}.cl", set()))
    assert names <= with_barriers(bodies)


@pytest.mark.parametrize("body", [
    "if (a) { BARRIER(); }", "if (a) { b(); } else { BARRIER(); }", "if (a) { return; } BARRIER();",
    "for (;;) { if (a) { walk(); } }", "switch (a) { case 1: BARRIER(); }", "while (a) { BARRIER(); }",
])
def test_a_wrong_barrier_is_found(body):
    assert faults_of(body, {"BARRIER", "walk"})
