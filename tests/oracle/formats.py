# SPDX-License-Identifier: Apache-2.0
"""Storage formats: rounding of float64 to f32, f16, bf16 and e4m3, and the codes of e4m3.

Every format is described by the same four numbers, so that one rounding text serves all of them
and no value is rounded twice on its way.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Format:
    digits: int  # binary digits of the significand, the hidden one included
    exponent_min: int  # exponent of the smallest normal number
    largest: float  # largest finite number
    saturates: bool  # past the largest: the largest, else infinity

    @property
    def half_ulp(self):
        """u of the accuracy bound: half a unit in the last place, relative to a power of two."""
        return 2.0**-self.digits

    @property
    def smallest_step(self):
        return 2.0 ** (self.exponent_min - self.digits + 1)


FORMATS = {
    "f32": Format(24, -126, (2 - 2.0**-23) * 2.0**127, False),
    "f16": Format(11, -14, 65504.0, False),
    "bf16": Format(8, -126, (2 - 2.0**-7) * 2.0**127, False),
    "e4m3": Format(4, -6, 448.0, True),
}


def round_to(values, dtype):
    """The nearest value of the format, ties to even, as float64. NaN stays NaN."""
    form = FORMATS[dtype]
    values = np.asarray(values, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        exponent = np.frexp(values)[1] - 1
        step = np.ldexp(1.0, np.maximum(exponent, form.exponent_min) - form.digits + 1)
        rounded = np.where(np.isfinite(values), np.rint(values / step) * step, values)
        past = np.abs(rounded) > form.largest
    limit = form.largest if form.saturates else np.inf
    return np.where(past, np.copysign(limit, rounded), rounded)


def e4m3_decode(codes):
    """OCP E4M3FN: sign, 4 exponent bits of bias 7, 3 mantissa bits; 0x7F and 0xFF are NaN."""
    codes = np.asarray(codes, np.uint8).astype(np.int64)
    exponent = (codes >> 3) & 15
    mantissa = codes & 7
    normal = np.ldexp(1.0 + mantissa / 8, exponent - 7)
    subnormal = np.ldexp(mantissa / 8, np.full_like(exponent, -6))
    magnitude = np.where(exponent == 0, subnormal, normal)
    magnitude = np.where((codes & 0x7F) == 0x7F, np.nan, magnitude)
    return np.where(codes >= 128, -magnitude, magnitude)


def e4m3_encode(values):
    """Rounded to nearest even and saturated; NaN becomes 0x7F with its sign."""
    rounded = round_to(values, "e4m3")
    magnitude = np.abs(rounded)
    sign = np.where(np.signbit(rounded), 128, 0)
    table = e4m3_decode(np.arange(0x7F, dtype=np.uint8))  # ascending: the code is the position
    code = np.searchsorted(table, np.where(np.isnan(magnitude), 0.0, magnitude))
    return (sign | np.where(np.isnan(magnitude), 0x7F, code)).astype(np.uint8)


def bf16_bits(values):
    """The 16 bits of each bf16 value, as a .safetensors file holds them."""
    exact = round_to(values, "bf16").astype(np.float32)
    return (exact.view(np.uint32) >> 16).astype(np.uint16)
