# SPDX-License-Identifier: Apache-2.0
"""attune plan: what it tells of a problem without running it."""

import json
import re

import numpy as np
import pytest

from calls import BACKEND, RUN_FLAGS, expect, folder, run_words, write_problem


def plan(status, *words):
    return expect(status, "plan", "--backend", BACKEND, *words)


def test_plan_text():
    text = plan(0, "--shape", "2,5,7,4,2,8", "--causal").stdout
    assert json.loads(plan(0, "--shape", "2,5,7,4,2,8", "--causal", "--json").stdout)["kernel"] in text


PLAN_FIELDS = """
op problem status kernel device tile_rows tile_keys tile_is_tuned splits pack grid alignment_bytes workspace_bytes tensor_bytes
visible_pairs pairs_are_bound flops bytes intensity seconds_at_peak compute_bound refusals
""".split()


def test_plan_json():
    fields = json.loads(plan(0, "--shape", "2,5,7,4,2,8", "--json").stdout)
    assert list(fields) == PLAN_FIELDS
    assert fields["op"] == "fwd" and fields["status"] == "OK"
    assert fields["problem"].startswith("forward f32, B 2, Sq 5")
    assert fields["visible_pairs"] == 2 * 4 * 5 * 7 and fields["pairs_are_bound"] is False
    assert fields["flops"] == 2 * 2 * 8 * fields["visible_pairs"]


def test_plan_backward():
    fields = json.loads(plan(0, "--shape", "2,5,7,4,2,8", "--op", "bwd", "--json").stdout)
    assert fields["op"] == "bwd" and fields["kernel"]
    implied = json.loads(plan(0, "--shape", "2,5,7,4,2,8", "--do", "x", "--dq", "y", "--json").stdout)
    assert implied["op"] == "bwd"


def write_blocks(offsets, blocks):
    np.save("offsets.npy", np.array(offsets, "i4"))
    np.save("blocks.npy", np.array(blocks, "i4"))


def test_plan_tells_what_is_left_of_dense():
    write_blocks([0, 1, 3], [1, 0, 2])
    words = ["--shape", "2,5,7,4,2,8", "--block-sparse", "offsets.npy,blocks.npy,3,3"]
    assert "3 of 6 computed, 48.57% of dense" in plan(0, *words).stdout
    fields = json.loads(plan(0, *words, "--json").stdout)
    assert fields["block_list"] == {"blocks": 3, "blocks_dense": 6, "share": pytest.approx(17 / 35)}
    write_blocks([[0, 1, 3]] * 3 + [[3, 3, 3]], [1, 0, 2])
    assert json.loads(plan(0, *words, "--json").stdout)["block_list"]["blocks"] == 9
    write_blocks([0, 1, 3], [1, 2, 2])
    assert "col_idx[2] = 2" in plan(2, *words).stderr


def test_plan_makes_pages_of_its_own():
    words = ["--shape", "2,1,100,4,2,8", "--page-size", "16"]
    fields = json.loads(plan(0, *words, "--json").stdout)
    assert "block_table" in plan(0, *words).stdout and fields["visible_pairs"] == 2 * 4 * 112


def test_plan_is_the_plan_of_run():
    write_problem()
    np.save("offsets.npy", np.array([0, 2, 5], "i4"))
    np.save("q.npy", np.load("q.npy")[0])
    words = ["--cu-seqlens-q", "offsets.npy", "--dtype", "bf16", "--causal"]
    summary = json.loads(expect(0, *run_words(*words, "--json")).stdout)
    fields = json.loads(plan(0, "--shape", "2,3,7,4,2,8", *words, "--json").stdout)
    assert fields["kernel"] == summary["passes"][0]["kernel"]
    assert plan(2, "--shape", "2,2,7,4,2,8", *words).stderr.count("--cu-seqlens-q") == 1
    assert plan(2, "--shape", "3,3,7,4,2,8", *words).stderr.count("--cu-seqlens-q") == 1


def test_plan_reads_no_more_than_shapes_and_writes_nothing():
    before = folder()
    plan(0, "--shape", "2,5,7,4,2,8", "-o", "o.npy", "--lse", "lse.npy", "--probs", "p.npy")
    assert folder() == before
    np.save("new.npy", np.zeros((2, 1, 2, 8), "f4"))
    before = folder()
    words = ["--knew", "new.npy", "--vnew", "new.npy", "--k-out", "k.npy", "--v-out", "v.npy", "--repeat", 3]
    plan(0, "--shape", "2,5,7,4,2,8", *words)
    assert folder() == before


def test_plan_of_a_packed_batch_shorter_than_the_maximal_length():
    np.save("cu.npy", np.array([0, 2, 5], "i4"))
    words = ["--shape", "2,9,7,4,2,8", "--cu-seqlens-q", "cu.npy", "--cu-seqlens-k", "cu.npy"]
    plan(0, *words)
    plan(0, *words, "--max-seqlen-q", 8, "--max-seqlen-k", 6)


def test_plan_takes_each_option_of_run():
    taken = set(re.findall(r"^  (-o|--[a-z-]+)", expect(0, "plan", "--help").stdout, re.MULTILINE))
    assert set(RUN_FLAGS) - taken == {"--q", "--k", "--v"}


def test_plan_of_a_refused_problem():
    result = plan(3, "--shape", "2,5,7,4,2,1000")
    assert "1000" in result.stdout and result.stderr.startswith("attune plan: ")
    fields = json.loads(plan(3, "--shape", "2,5,7,4,2,1000", "--json").stdout)
    assert fields["status"] == "UNSUPPORTED" and fields["kernel"] is None
    assert all(refusal["kernel"] and refusal["reason"] for refusal in fields["refusals"]) and fields["refusals"]


@pytest.mark.parametrize("shape", ["2,5,7,4,3,8", "2,5,7,4,2", "9223372036854775807,9223372036854775807,1,1,1,1"])
def test_plan_of_nonsense(shape):
    assert plan(2, "--shape", shape).stderr.startswith("attune plan: ")
