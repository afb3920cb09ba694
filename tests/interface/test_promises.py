# SPDX-License-Identifier: Apache-2.0
"""What the README and the rules of the house promise."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(os.environ["SOURCE_ROOT"])
README = (ROOT / "README.md").read_text()
FINITE_MATH = re.compile(r"-ffast-math|-ffinite-math|-cl-fast-relaxed|-cl-finite-math|-use_fast_math|--use_fast_math|-Ofast")


def tracked(*suffixes):
    for path in ROOT.rglob("*"):
        hidden = any(part.startswith((".", "build")) for part in path.relative_to(ROOT).parts[:-1])
        if path.is_file() and not hidden and (path.suffix in suffixes or path.name in suffixes):
            yield path


def test_the_readme_lists_the_variables_of_the_table():
    table = subprocess.run([os.environ["PRINT_ENV"]], capture_output=True, text=True, check=True).stdout
    assert "ATTUNE_BACKEND" in table
    assert f"<!-- env -->\n{table}<!-- /env -->" in README


def test_the_readme_shows_the_quickstart_as_it_is_compiled():
    shown = [line.strip() for line in re.search(r"```c\n(.*?)```", README, re.S)[1].splitlines()]
    whole = [line.strip() for line in (ROOT / "examples/quickstart.c").read_text().splitlines()]
    assert len(shown) > 5 and "\n".join(shown) in "\n".join(whole)


def test_no_finite_math_flag_anywhere():
    builds = [*tracked(".build", "meson.build", "Makefile", "meson_options.txt"), *(ROOT / "scripts").iterdir()]
    assert len(builds) > 5
    for path in builds:
        assert not FINITE_MATH.search(path.read_text()), path


def test_what_is_read_does_not_depend_on_the_locale():
    """In some locales 'I' is no capital of 'i', and a number's point is a comma."""
    sources = [path for folder in ("core", "backends") for path in (ROOT / folder).rglob("*.[ch]")]
    assert len(sources) > 100
    for path in sources:
        found = re.search(r"\b(strn?casecmp|is(alnum|alpha|cntrl|lower|print|space|upper)|tolower|strto[df]|atof)\(",
                          path.read_text())
        assert not found, f"{path}: {found[0]}"


def test_links_in_the_documents_lead_somewhere():
    for path in tracked(".md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path}: {target}"


def test_no_file_is_too_long():
    for path in tracked(".c", ".h", ".py"):
        assert len(path.read_text().splitlines()) <= 500, path
    for path in tracked(".cu", ".cuh", ".cl", ".hip"):
        assert len(path.read_text().splitlines()) <= 800, path


def test_every_source_names_its_licence():
    for path in tracked(".c", ".h", ".cpp", ".cc", ".cu", ".cl", ".py", ".sh"):
        assert "SPDX-License-Identifier: Apache-2.0" in path.read_text(), path


def test_sources_are_formatted():
    sources = [str(path) for path in tracked(".c", ".h", ".cu", ".cuh", ".cl", ".hip")]
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *sources], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[:2000]


def test_branches_and_loops_have_braces():
    """Which clang-format 14 cannot add."""
    for path in tracked(".c", ".h", ".cpp", ".cc", ".cu", ".cuh", ".cl", ".hip"):
        bare = re.search(r"^ *(}? ?else|(if|for|while) \(.*\))$", path.read_text(), re.M)
        assert not bare, f"{path}: {bare[0]}"
