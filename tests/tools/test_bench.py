# SPDX-License-Identifier: Apache-2.0
"""attune bench and tune: what they print and write, and that bench's check passes for every kind of option.

The check takes samples of the problem as small problems of their own. On the reference itself it compares the same sums
with themselves, so that a sample that was cut wrongly shows as an error.

TEST_COMMAND is the command's path, TEST_BACKEND the backend that runs (cpu).
"""

import csv
import json
import os
import subprocess
import xml.etree.ElementTree

import numpy as np
import pytest

COMMAND = os.environ["TEST_COMMAND"]
BACKEND = os.environ.get("TEST_BACKEND", "cpu")
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ATTUNE_")}

B, ROWS, KEYS, HEADS, HEADS_KV, HEAD_DIM, HEAD_DIM_V = 3, 70, 90, 4, 2, 16, 24
SHAPE = f"{B},{ROWS},{KEYS},{HEADS},{HEADS_KV},{HEAD_DIM},{HEAD_DIM_V}"


def attune(status, *words, **variables):
    line = [COMMAND, *map(str, words)]
    environment = ENVIRONMENT | {"ATTUNE_CACHE_DIR": os.getcwd() + "/cache"} | variables
    result = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == status, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result


def bench(status, *words, **variables):
    return attune(status, "bench", "--repeat", 1, *words, **variables)


def point(*words, **variables):
    [only] = json.loads(bench(0, "--backend", BACKEND, "--json", *words, **variables).stdout)["points"]
    return only


# ---------------------------------------------------------------------------------------------
# Options, each checked against the reference

RNG = np.random.default_rng(0)


def block_lists(heads):
    """Offsets and blocks of a random pattern in blocks of 16 x 32, for each head or for all."""
    seen = RNG.random((heads, -(-ROWS // 16), -(-KEYS // 32))) < 0.6
    ends = seen.reshape(heads, -1, seen.shape[2]).sum(2).cumsum().reshape(heads, -1)
    offsets = np.concatenate([np.concatenate([[0], ends[:-1, -1]])[:, None], ends], axis=1)
    return (offsets if heads > 1 else offsets[0]), np.nonzero(seen)[2]


FILES = {
    "bias": RNG.standard_normal((1, HEADS, ROWS, KEYS)).astype("f4"),
    "column": RNG.standard_normal((ROWS, 1)).astype("f4"),
    "mask": RNG.random((B, 1, ROWS, KEYS)) < 0.6,
    "slopes": RNG.random((B, HEADS)).astype("f4"),
    "sink": RNG.standard_normal(HEADS).astype("f4"),
    "used_q": np.array([70, 33, 0], "i4"),
    "used_k": np.array([90, 1, 40], "i4"),
    "padding": np.array([0, 0, 17], "i4"),
    "packed_q": np.array([0, 70, 90, 90], "i4"),
    "packed_k": np.array([0, 50, 50, 140], "i4"),
    "table": RNG.permutation(B * 6).reshape(B, 6).astype("i4"),
    "descale": (RNG.random((B, HEADS_KV)) + 0.5).astype("f4"),
    "descales": (RNG.random((B, HEADS_KV, 1)) + 0.5).astype("f4"),
    "cos": np.cos(RNG.random((200, 4))).astype("f4"),
    "sin": np.sin(RNG.random((200, 4))).astype("f4"),
}
FILES["offsets"], FILES["blocks"] = (x.astype("i4") for x in block_lists(1))
FILES["offsets_head"], FILES["blocks_head"] = (x.astype("i4") for x in block_lists(HEADS))

ATTENTION = """

--causal
--window 5,9 --softcap 2
--causal --align top-left --lse lse
--diagonal 13 --window 20,3 --scale 0.3
--bias bias.npy
--bias column.npy --scale 0
--mask mask.npy --sink sink.npy
--alibi slopes.npy --causal
--dropout 0.3 --seed 5 --offset 7
--seqused-q used_q.npy --seqused-k used_k.npy --causal
--leftpad-k padding.npy --seqused-k used_k.npy --dropout 0.2
--cu-seqlens-q packed_q.npy --cu-seqlens-k packed_k.npy --causal
--cu-seqlens-q packed_q.npy --lse lse
--cu-seqlens-k packed_k.npy --dropout 0.2
--block-sparse offsets.npy,blocks.npy,16,32
--block-sparse offsets_head.npy,blocks_head.npy,16,32 --causal
--layout bhsd --causal
--dtype bf16 --lse lse
--dtype f16 --out-dtype f32
--dtype e4m3 --descale-q descale.npy --descale-k descales.npy --descale-v descale.npy
""".splitlines()[1:]
PAGED = """
--page-size 16
--page-size 7 --causal --dropout 0.3
--block-table table.npy --page-size 16 --seqused-k used_k.npy --causal
--page-size 16 --dtype e4m3 --descale-k descales.npy --layout bhsd
""".splitlines()[1:]
APPEND = """

--cos cos.npy --sin sin.npy
--cos cos.npy --sin sin.npy --rotary-interleaved --layout bhsd --dtype bf16
--page-size 16
--dtype e4m3 --descale-k descale.npy
""".splitlines()[1:]
UNITS = {"bf16": 2**-8, "f16": 2**-11, "e4m3": 2**-4}
CASES = [
    *(("fwd", line) for line in ATTENTION + PAGED),
    *(("bwd", line) for line in [*ATTENTION, "--dlse dlse --causal"]),
    *(("decode", line) for line in ["--causal", "--window 30,0", *PAGED]),
    *(("append", line) for line in APPEND),
]


@pytest.mark.parametrize("op, line", CASES)
def test_every_option_is_verified(op, line):
    for name, values in FILES.items():
        if f"{name}.npy" in line:
            np.save(f"{name}.npy", values)
    got = point("--shape", SHAPE, "--op", op, *line.split(), ATTUNE_CPU_ISA="reference")
    assert got["status"] == "ok" and got["median_seconds"] > 0
    # Half a unit in the last place of each output, the reference being exact.
    unit = next((unit for dtype, unit in UNITS.items() if f" {dtype}" in line), 2**-24)
    assert got["error"] <= 4 * unit and got["error"] < got["error_limit"]


# ---------------------------------------------------------------------------------------------
# Work


def test_work_of_lengths_is_counted():
    np.save("used.npy", np.array([3, 5], "i4"))
    words = ["--shape", "2,4,8,2,1,16", "--seqused-k", "used.npy"]
    assert point(*words)["flops"] == 2 * (3 + 5) * 4 * 2 * 16 * 2
    causal = point(*words, "--causal")  # the last row's own key is the last key
    assert causal["flops"] == 4 * 16 * 2 * ((0 + 1 + 2 + 3) + (2 + 3 + 4 + 5))
    assert point(*words)["bytes"] == 4 * 16 * (2 * 2 * 4 * 2 + 2 * (3 + 5)) + 8
    window = point("--op", "decode", "--shape", "1,1,100,2,1,16", "--window", "9,0")
    assert window["bytes"] == 4 * 16 * (2 * 2 + 2 * 10) + 4


@pytest.mark.skipif(BACKEND != "cpu", reason="others know their peaks, or nothing")
def test_a_share_of_what_the_cpu_could_do():
    words = ["--shape", "1,512,512,2,2,64", "--dtype", "bf16"]
    assert 0 < point(*words)["ceiling_share"] < 2  # the machine may be busy while its peak is measured
    assert 0 < point(*words, "--op", "decode")["ceiling_share"] < 2


def test_work_of_blocks_is_counted():
    np.save("offsets.npy", np.array([0, 1, 3], "i4"))
    np.save("blocks.npy", np.array([1, 0, 2], "i4"))
    words = ["--shape", "2,5,7,4,2,8", "--block-sparse", "offsets.npy,blocks.npy,3,3"]
    assert point(*words)["flops"] == 4 * 8 * 2 * 4 * 17 and not point(*words)["is_bound"]


def test_work_under_a_mask_is_a_bound():
    np.save("mask.npy", np.ones((5, 7), bool))
    assert point("--shape", "2,5,7,4,2,8", "--mask", "mask.npy")["is_bound"] == 1


# ---------------------------------------------------------------------------------------------
# A sweep


def sweep(*words):
    backends = ["--backends", f"{BACKEND},nobody"]
    return bench(0, "--shape", "1,1,1,2,1,8", "--lengths", "16,32,1k", *backends, "--no-verify", *words)


def test_a_sweep_is_one_table():
    result = sweep()
    lines = result.stdout.splitlines()
    assert "D 8" in lines[0] and "Sq" not in lines[0]
    assert lines[2].split()[:3] == ["LENGTH", "DEVICE", "KERNEL"] and "ERROR" not in lines[2]
    assert [line.split()[0] for line in lines[3:]] == ["16", "32", "1024"] * 2
    assert all(line.endswith("unavailable") for line in lines[6:]) and not any(line != line.rstrip() for line in lines)
    assert result.stderr.count("nobody") == 1
    end = lines[2].index("MEDIAN ms") + len("MEDIAN ms")
    assert all(line[:end].split()[-1] == line[: end + 1].split()[-1] for line in lines[3:6])


def test_a_sweep_as_files():
    sweep("--csv", "b.csv", "--plot", "b.svg")
    with open("b.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["length"] for row in rows] == ["16", "32", "1024"] * 2
    assert all(float(row["median_seconds"]) > 0 and row["status"] == "ok" for row in rows[:3])
    assert all(row["median_seconds"] == "" and row["status"] == "unavailable" for row in rows[3:])
    assert rows[0]["problem"].endswith("Hq > Hkv")
    svg = xml.etree.ElementTree.parse("b.svg").getroot()
    texts = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"16", "32", "1k", "length", "GFLOP/s"} <= set(texts)
    assert sum(text.startswith(f"{BACKEND}:0 ") for text in texts) == 1
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}circle"))) == 3


def test_kernels_are_compared():
    words = ["--shape", "1,8,8,2,1,8", "--backend", "cpu", "--kernels", "reference_forward,nothing", "--json"]
    right, wrong = json.loads(bench(0, *words).stdout)["points"]
    assert right["kernel"] == "reference_forward" and right["error"] < 1e-6
    assert wrong["kernel"] == "nothing" and wrong["status"] == "refused" and "nothing" in wrong["reason"]
    assert wrong["median_seconds"] is None


def test_gradients_that_cancel_are_not_wrong():
    words = ["--backend", BACKEND, "--op", "bwd"]
    bench(0, *words, "--shape", "2,5,1,3,1,64")
    bench(0, *words, "--shape", "1,40,40,2,2,32", "--window", "0,0")


def test_where_nothing_runs():
    assert "unavailable" in bench(4, "--shape", "1,8,8,2,1,8", "--backend", "nobody").stdout
    words = ["--shape", "1,80,8,2,1,800", "--backend", BACKEND, "--csv", "b.csv", "--plot", "b.svg"]
    assert "unsupported" in bench(3, *words).stdout
    bench(2, "--shape", "1,8,8,3,2,8", "--backend", BACKEND)
    assert bench(2, "--shape", "1,9,8,2,2,8", "--op", "append", "--backend", BACKEND).stderr.count("\n") == 1
    bench(2, "--shape", "1,8,8,2,2,8", "--backend", BACKEND, "--csv", "no/such/folder.csv")
    words = ["--shape", "1,8,8,2,2,8", "--backend", BACKEND]
    assert "one file" in bench(2, *words, "--csv", "b.csv", "--plot", "./b.csv").stderr
    assert os.listdir() == []


# ---------------------------------------------------------------------------------------------
# tune


def test_the_best_tile_is_kept_and_taken():
    shape = ["--backend", "cpu", "--shape", "1,256,256,2,2,16"]
    kernel = {"ATTUNE_CPU_ISA": "generic"}
    before = json.loads(attune(0, "plan", *shape, "--causal", "--json", **kernel).stdout)
    assert not before["tile_is_tuned"]
    tuned = json.loads(attune(0, "tune", *shape, "--causal", "--repeat", 1, "--json", **kernel).stdout)
    assert len(tuned["tiles"]) == 16 and tuned["kernel"] == before["kernel"]
    fastest = min(tuned["tiles"], key=lambda tile: tile["median_seconds"])
    best = fastest["tile_rows"], fastest["tile_keys"]
    assert best == (tuned["tile_rows"], tuned["tile_keys"])
    longer = ["plan", "--backend", "cpu", "--shape", "2,1000,2000,2,2,16", "--json"]
    after = json.loads(attune(0, *longer, "--causal", **kernel).stdout)
    assert after["tile_is_tuned"] and (after["tile_rows"], after["tile_keys"]) == best
    asked = json.loads(attune(0, *longer, "--causal", "--tile", "16x128", **kernel).stdout)
    assert not asked["tile_is_tuned"] and (asked["tile_rows"], asked["tile_keys"]) == (16, 128)
    named = json.loads(attune(0, *longer, "--causal", ATTUNE_TILE="128x16", **kernel).stdout)
    assert not named["tile_is_tuned"] and (named["tile_rows"], named["tile_keys"]) == (128, 16)
    assert not json.loads(attune(0, *longer, **kernel).stdout)["tile_is_tuned"]
    assert os.listdir("cache") == [name for name in os.listdir("cache") if name.startswith("tiles-cpu-")]


def test_there_may_be_nothing_to_tune():
    words = ["tune", "--backend", "cpu", "--shape", "1,64,64,2,2,8"]
    result = attune(3, *words, ATTUNE_CPU_ISA="reference")
    assert "reference_forward has a tile of its own" in result.stderr
    attune(2, *words, "--op", "append")
    assert os.listdir() == []
