# SPDX-License-Identifier: Apache-2.0
"""The attune command's manners: exit status, what goes to stdout and stderr, JSON, and files that
appear together or not at all. Its numbers are tests/oracle's business."""

import json
import os
import re
import select
import subprocess
import time

import numpy as np
import pytest

from calls import BACKEND, COMMAND, ENVIRONMENT, RUN_FLAGS, attune, expect, folder, run_words, write_problem

SUBCOMMANDS = ["devices", "run", "plan", "bench", "tune", "merge", "conform"]


# ---------------------------------------------------------------------------------------------
# Usage


def test_without_arguments_usage_is_an_error():
    result = expect(2)
    assert "Usage: attune COMMAND" in result.stderr and not result.stdout


@pytest.mark.parametrize("words", [["help"], ["--help"]])
def test_help(words):
    result = expect(0, *words)
    assert all(re.search(rf"^  {name} ", result.stdout, re.M) for name in SUBCOMMANDS)
    assert not result.stderr


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_help_of_each(name):
    result = expect(0, name, "--help")
    assert f"attune {name}" in result.stdout and "--help" in result.stdout and not result.stderr
    assert expect(0, "help", name).stdout == result.stdout


def test_help_of_run_has_the_whole_contract():
    text = expect(0, "run", "--help").stdout
    assert [flag for flag in RUN_FLAGS if not re.search(rf"^  {flag} ", text, re.M)] == []


def test_version():
    assert re.fullmatch(r"attune \d+\.\d+\.\d+\n", expect(0, "--version").stdout)


@pytest.mark.parametrize("words", [["walk"], ["help", "walk"], ["--causal"]])
def test_unknown_command(words):
    result = expect(2, *words)
    assert words[-1] in result.stderr and result.stderr.count("\n") == 1 and not result.stdout


# ---------------------------------------------------------------------------------------------
# devices


def test_devices_table():
    result = expect(0, "devices")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("DEVICE")
    assert any(line.startswith("cpu") for line in lines)


def test_devices_json():
    backends = json.loads(expect(0, "devices", "--json").stdout)["backends"]
    by_name = {backend["name"]: backend for backend in backends}
    assert by_name["cpu"]["status"] == "OK" and by_name["cpu"]["devices"][0]["is_cpu"]
    for backend in backends:
        if backend["status"] == "OK":
            assert backend["reason"] is None
            assert all(re.fullmatch(rf"{backend['name']}:\d+", d["selector"]) for d in backend["devices"])
        else:
            assert backend["reason"] and backend["devices"] == []


def test_devices_says_which_library_is_missing():
    absent = "/no/such/libcuda.so"
    backends = json.loads(expect(0, "devices", "--json", ATTUNE_CUDA_LIBRARY=absent).stdout)["backends"]
    cuda = [backend for backend in backends if backend["name"] == "cuda"]
    assert cuda and cuda[0]["status"] == "UNAVAILABLE" and absent in cuda[0]["reason"]


def test_devices_verbose():
    backends = json.loads(expect(0, "devices", "--json", "--verbose").stdout)["backends"]
    cpu = next(backend for backend in backends if backend["name"] == "cpu")["devices"][0]
    assert cpu["limits"]["processors"] >= 1
    assert {"forward", "backward", "append", "merge"} <= {kernel["op"] for kernel in cpu["kernels"]}
    text = expect(0, "devices", "--verbose").stdout
    assert all(kernel["name"] in text for kernel in cpu["kernels"])


# ---------------------------------------------------------------------------------------------
# What run prints


def test_with_an_output_run_is_silent():
    write_problem()
    result = expect(0, *run_words("-o", "o.npy"))
    assert not result.stdout and not result.stderr
    assert np.load("o.npy").shape == (2, 5, 4, 8)


def test_without_an_output_run_prints_a_summary():
    write_problem()
    before = folder()
    result = expect(0, *run_words())
    for word in ("(2, 5, 4, 8)", "f32", "forward", "kernel", " ms", "checksum"):
        assert word in result.stdout
    assert folder() == before and not result.stderr


def fnv1a(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def test_json_summary():
    write_problem()
    words = run_words("--json", "--repeat", 3, "--do", "do.npy", "-o", "o.npy", "--lse", "lse.npy", "--dq", "dq.npy")
    summary = json.loads(expect(0, *words).stdout)
    assert summary["shape"] == {"q": [2, 5, 4, 8], "k": [2, 7, 2, 8], "v": [2, 7, 2, 8]}
    assert summary["dtype"] == summary["out_dtype"] == "f32"
    assert summary["device"].startswith(BACKEND)
    assert [p["op"] for p in summary["passes"]] == ["forward", "backward"]
    for pass_ in summary["passes"]:
        assert pass_["runs"] == 3 and pass_["kernel"]
        assert 0 < pass_["fastest_seconds"] <= pass_["median_seconds"]
    assert set(summary["outputs"]) == {"o", "lse", "dq"}
    for name, output in summary["outputs"].items():
        assert output == {"file": f"{name}.npy", "checksum": fnv1a(np.load(f"{name}.npy").tobytes())}


def test_memory_report():
    write_problem()
    words = run_words("--memory", "-o", "o.npy")
    memory = json.loads(expect(0, *words, "--json").stdout)["memory"]
    q, k = 2 * 5 * 4 * 8 * 4, 2 * 7 * 2 * 8 * 4
    assert memory["tensor_bytes"] == 2 * q + 2 * k
    assert memory["peak_bytes"] == memory["tensor_bytes"] + memory["workspace_bytes"]
    assert memory["process_peak_bytes"] > memory["peak_bytes"]
    assert re.search(r"^memory +tensors 4.25 KiB, workspace ", expect(0, *words).stdout, re.M)
    assert "memory" not in json.loads(expect(0, *run_words("--json")).stdout)


def test_layout_changes_no_result():
    write_problem()
    plain = json.loads(expect(0, *run_words("--json", "-o", "o.npy")).stdout)
    for name in "qkv":
        np.save(f"{name}.npy", np.load(f"{name}.npy").swapaxes(1, 2))
    turned = json.loads(expect(0, *run_words("--json", "--layout", "bhsd", "-o", "t.npy")).stdout)
    assert turned["shape"] == plain["shape"]
    assert (np.load("t.npy").swapaxes(1, 2) == np.load("o.npy")).all()


def test_long_runs_show_progress():
    write_problem()
    line = [COMMAND, *map(str, run_words("--repeat", 1000000, "-o", "o.npy"))]
    with subprocess.Popen(line, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        start = time.monotonic()
        told, _, _ = select.select([process.stderr], [], [], 20)
        waited = time.monotonic() - start
        text = process.stderr.readline() if told else ""
        process.kill()
    assert re.fullmatch(r"attune run: forward, \d+ of 1000000 done, 2 s\n", text)
    assert waited > 1.5
    assert not os.path.exists("o.npy")


# ---------------------------------------------------------------------------------------------
# Exit status, and nothing written


def refuse(status, words, *names, **variables):
    before = folder()
    result = expect(status, *words, **variables)
    for name in names:
        assert name in result.stderr, f"{name!r} is not in {result.stderr!r}"
    assert result.stderr.startswith("attune ") and folder() == before
    return result


def test_missing_library_is_unavailable():
    write_problem()
    words = run_words("-o", "o.npy")
    del words[1:3]  # --backend
    absent = "/no/such/libcuda.so"
    refuse(4, words, absent, ATTUNE_BACKEND="cuda", ATTUNE_CUDA_LIBRARY=absent)


def test_a_list_falls_back_and_says_so_once():
    write_problem()
    words = run_words("-o", "o.npy")
    del words[1:3]
    result = expect(0, *words, ATTUNE_BACKEND="cuda,cpu", ATTUNE_CUDA_LIBRARY="/no/such/libcuda.so")
    assert result.stderr.count("cuda") >= 1 and result.stderr.count("\n") == 1
    assert os.path.exists("o.npy")


@pytest.mark.parametrize("selector", ["abacus", "cpu:99"])
def test_no_such_device(selector):
    write_problem()
    words = run_words("-o", "o.npy")
    words[2] = selector
    refuse(4, words, selector.split(":")[0])


def test_malformed_selector_is_bad_input():
    write_problem()
    words = run_words("-o", "o.npy")
    words[2] = "cpu:"
    refuse(2, words, "cpu:")


def test_a_problem_that_no_kernel_computes():
    write_problem(head_dim=1000)
    result = refuse(3, run_words("-o", "o.npy"), "1000", "576")
    assert "forward" in result.stderr


def test_no_such_kernel_row():
    write_problem()
    refuse(2, run_words("-o", "o.npy", "--kernel", "no_such_row"), "no_such_row")


def test_unreadable_variable_is_bad_input():
    write_problem()
    refuse(2, run_words("-o", "o.npy"), "ATTUNE_DETERMINISTIC", ATTUNE_DETERMINISTIC="maybe")


@pytest.mark.parametrize("flag", ["k", "v"])
def test_dtype_mismatch(flag):
    write_problem()
    np.save(f"{flag}.npy", np.load(f"{flag}.npy").astype("f2"))
    refuse(2, run_words("-o", "o.npy"), f"--{flag} {flag}.npy", "dtype mismatch", "f16", "f32")
    expect(0, *run_words("-o", "o.npy", "--dtype", "f16"))
    assert np.load("o.npy").dtype == np.float16


def test_f64_needs_dtype():
    write_problem()
    for name in "qkv":
        np.save(f"{name}.npy", np.load(f"{name}.npy").astype("f8"))
    refuse(2, run_words("-o", "o.npy"), "--q q.npy", "f64", "--dtype")
    expect(0, *run_words("-o", "o.npy", "--dtype", "f32"))


def test_all_outputs_or_none():
    write_problem()
    refuse(2, run_words("-o", "o.npy", "--lse", "no/such/folder/lse.npy"), "--lse", "no/such/folder/lse.npy")


def test_an_error_leaves_the_old_output():
    write_problem()
    np.save("o.npy", np.arange(3))
    np.save("do.npy", np.zeros((2, 5, 4, 9), "f4"))  # found out after forward has run
    refuse(2, run_words("-o", "o.npy", "--do", "do.npy", "--dq", "dq.npy"), "--do")
    assert (np.load("o.npy") == np.arange(3)).all()


def test_gradients_need_do():
    write_problem()
    refuse(2, run_words("--dq", "dq.npy"), "--dq", "--do")


def test_do_alone_runs_backward():
    write_problem()
    summary = json.loads(expect(0, *run_words("--do", "do.npy", "--json")).stdout)
    assert [p["op"] for p in summary["passes"]] == ["forward", "backward"]


def test_sentences_name_flags():
    write_problem()
    np.save("lengths.npy", np.array([3, -1]))
    refuse(2, run_words("--seqused-k", "lengths.npy", "-o", "o.npy"), "--seqused-k", "-1")
    np.save("offsets.npy", np.array([0, 2**40]))
    refuse(2, run_words("--seqused-k", "offsets.npy", "-o", "o.npy"), "--seqused-k offsets.npy", str(2**40), "32 bits")


def test_closed_stdout_is_a_failure():
    write_problem()
    before = folder()
    with open("/dev/full", "w") as full:
        result = attune(*run_words("--json", "-o", "o.npy"), stdout=full)
    assert result.returncode == 1 and result.stderr.count("standard output") == 1
    assert folder() == before


# ---------------------------------------------------------------------------------------------
# Files


def test_safetensors_and_int64(tmp_path):
    write_problem()
    entries, data = {}, b""
    for name, values in (("q", np.load("q.npy")), ("lengths", np.array([7, 3], "i8"))):
        kind = "F32" if values.dtype == np.float32 else "I64"
        offsets = [len(data), len(data) + values.nbytes]
        entries[name] = {"dtype": kind, "shape": values.shape, "data_offsets": offsets}
        data += values.tobytes()
    header = json.dumps(entries).encode()
    (tmp_path / "a.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    words = run_words("-o", "o.npy", "--seqused-k", "a.safetensors:lengths")
    words[4] = "a.safetensors:q"
    expect(0, *words)
    np.save("lengths.npy", np.array([7, 3], "i4"))
    expect(0, *run_words("-o", "p.npy", "--seqused-k", "lengths.npy"))
    assert (np.load("o.npy") == np.load("p.npy")).all()


def test_a_name_that_starts_with_a_dash():
    write_problem()
    expect(0, *run_words("-o", "-o.npy", "--scale", "-0.5"))
    assert os.path.exists("-o.npy")


# ---------------------------------------------------------------------------------------------
# merge


@pytest.mark.parametrize("other", ["./x.npy", "folder/../x.npy", "link.npy"])
def test_outputs_are_not_one_file_by_two_names(other):
    write_problem()
    os.mkdir("folder")
    refuse(2, run_words("-o", "x.npy", "--lse", "folder/../x.npy"), "one file")
    np.save("x.npy", np.zeros(1))
    os.symlink("x.npy", "link.npy")
    before = sorted(os.listdir())
    refuse(2, run_words("-o", "x.npy", "--lse", other), f"--lse {other}", "one file")
    assert sorted(os.listdir()) == before and np.load("x.npy").shape == (1,)


def test_merge_needs_files_of_its_own():
    write_problem()
    expect(0, *run_words("-o", "o.npy", "--lse", "lse.npy"))
    words = ["merge", "--backend", BACKEND, "--o", "o.npy,o.npy", "--lse", "lse.npy,lse.npy"]
    refuse(2, [*words, "-o", "x.npy", "--lse-out", "x.npy"], "-o and --lse-out", "x.npy")
    refuse(2, words, "-o")
    refuse(2, [*words, "-o", "x.npy", "--lse-out", "no/such/folder.npy"], "--lse-out")
    refuse(2, ["merge", "--o", "o.npy,", "--lse", "lse.npy", "-o", "x.npy"], "--o o.npy,")
    assert not expect(0, *words, "-o", "x.npy").stdout


# ---------------------------------------------------------------------------------------------
# conform


def test_conform_lists_the_same_cases_as_text_and_as_json():
    words = ["conform", "--backend", BACKEND, "--case", "edge/no_rows*", "--list"]
    names = expect(0, *words).stdout.split()
    cases = json.loads(expect(0, *words, "--json").stdout)["cases"]
    assert len(names) > 10 and cases == [{"name": name} for name in names]
