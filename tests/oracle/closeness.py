# SPDX-License-Identifier: Apache-2.0
"""How near the golden kernel's files must come to the oracle: the one place that says so.

The kernel works in float64 and rounds once, to the output's dtype. What may differ is that
rounding, when float64's own noise moves a value across a tie; so the bound is half a unit in the
last place and a little noise, never a tolerance chosen to pass.
"""

import numpy as np

from formats import FORMATS, round_to

NOISE = 1e-11  # of float64 sums in another order, relative to the largest value around


def limit(expected, dtype):
    form = FORMATS[dtype]
    finite = np.abs(expected[np.isfinite(expected)])
    largest = finite.max(initial=1.0)
    return form.half_ulp * np.abs(expected) + form.smallest_step / 2 + NOISE * largest


def check(name, got, expected, dtype):
    """Shape, NaN and infinities as expected, every other element within the limit."""
    assert got.shape == expected.shape, f"{name}: shape {got.shape}, not {expected.shape}"
    got = got.astype(np.float64)
    rounded = round_to(expected, dtype)
    with np.errstate(invalid="ignore"):
        near = np.abs(got - expected) <= limit(expected, dtype)
    right = (got == rounded) | (np.isnan(got) & np.isnan(rounded)) | (near & np.isfinite(rounded))
    if not right.all():
        at = tuple(int(n) for n in np.argwhere(~right)[0])
        wrong = f"{np.count_nonzero(~right)} of {right.size} elements of {name} are wrong"
        raise AssertionError(f"{wrong}; first at {at}: {got[at]!r}, not {expected[at]!r}")
