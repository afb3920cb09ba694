# SPDX-License-Identifier: Apache-2.0
"""Small problems and requests drawn from a seed."""

import dataclasses

import numpy as np

from command import Request
from formats import round_to
from semantics import Problem


def draw(draw_seed, /, B=2, Sq=5, Sk=7, Hq=4, Hkv=2, D=6, Dv=5, **options):
    """A dense problem of normal values, and its (do, dlse)."""
    rng = np.random.default_rng(draw_seed)
    p = Problem(
        rng.normal(size=(B, Sq, Hq, D)),
        rng.normal(size=(B, Sk, Hkv, D)),
        rng.normal(size=(B, Sk, Hkv, Dv)),
        **options,
    )
    return p, rng.normal(size=(B, Sq, Hq, Dv)), rng.normal(size=(B, Hq, Sq))


def flat(draw_seed, /, Sq, Sk, Hq=1, Hkv=1, **options):
    """A problem whose scores are all 0 before its options act."""
    rng = np.random.default_rng(draw_seed)
    q = np.zeros((1, Sq, Hq, 4))
    return Problem(q, np.zeros((1, Sk, Hkv, 4)), rng.normal(size=(1, Sk, Hkv, 3)), **options)


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape)


def coin(seed, *shape):
    return np.random.default_rng(seed).random(shape) < 0.6


def dense(number=50, backward=True, **options):
    """A dense request of normal values in f32. Options of Request and of Problem, by name."""
    fields = {field.name for field in dataclasses.fields(Request)}
    how = {name: options.pop(name) for name in fields & set(options)}
    p, do, dlse = draw(number, **options)
    request = Request(p, **how)
    if backward:
        request.do, request.dlse = round_to(do, "f32"), round_to(dlse, "f32")
        request.outputs += ("dq", "dk", "dv")
        request.outputs += tuple(f"d{n}" for n in ("bias", "sink") if getattr(p, n) is not None)
    return request
