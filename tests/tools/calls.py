# SPDX-License-Identifier: Apache-2.0
"""Calls of the attune command. TEST_COMMAND is its path, TEST_BACKEND the backend that runs (cpu)."""

import os
import subprocess

import numpy as np

COMMAND = os.environ["TEST_COMMAND"]
BACKEND = os.environ.get("TEST_BACKEND", "cpu")

# `run`'s flags as outside scripts use them, from the contract.
RUN_FLAGS = """
--q --k --v -o --lse --do --dlse --dq --dk --dv --dbias --dsink --probs --backend --dtype --out-dtype --layout --scale
--causal --align --diagonal --window --softcap --alibi --bias --mask --sink --dropout --seed --offset --cu-seqlens-q
--cu-seqlens-k --max-seqlen-q --max-seqlen-k --seqused-q --seqused-k --leftpad-k --block-table --page-size
--block-sparse --descale-q --descale-k --descale-v --knew --vnew --cos --sin --rotary-interleaved --k-out --v-out
--splits --tile --kernel --deterministic --check --repeat --json
""".split()


ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ATTUNE_")}


def attune(*words, stdout=subprocess.PIPE, **variables):
    line = [COMMAND, *map(str, words)]
    return subprocess.run(
        line, env=ENVIRONMENT | variables, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60
    )


def expect(status, *words, **variables):
    result = attune(*words, **variables)
    assert result.returncode == status, f"{words}: {result.returncode}\n{result.stdout}{result.stderr}"
    return result


def write_problem(rows=5, keys=7, heads=4, heads_kv=2, head_dim=8):
    rng = np.random.default_rng(1)
    for name, length, count in (("q", rows, heads), ("k", keys, heads_kv), ("v", keys, heads_kv), ("do", rows, heads)):
        np.save(f"{name}.npy", rng.standard_normal((2, length, count, head_dim)).astype("f4"))


def run_words(*more):
    return ["run", "--backend", BACKEND, "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", *more]


def folder():
    return {name: os.path.getsize(name) for name in os.listdir()}
