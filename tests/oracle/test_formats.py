# SPDX-License-Identifier: Apache-2.0
"""Rounding and dropout bits against published values, and exhaustively where that is small."""

import numpy as np
import pytest

import philox
from formats import bf16_bits, e4m3_decode, e4m3_encode, round_to

CODES = np.arange(256, dtype=np.uint8)


def test_e4m3_codes_round_trip():
    values = e4m3_decode(CODES)
    np.testing.assert_array_equal(e4m3_encode(values), CODES)
    np.testing.assert_array_equal(round_to(values, "e4m3"), values)


def test_e4m3_published_values():
    # OCP 8-bit Floating Point Specification, revision 1.0, table 1
    named = {0x00: 0, 0x01: 2**-9, 0x07: 0.875 * 2**-6, 0x08: 2**-6, 0x38: 1, 0x7E: 448, 0xFE: -448}
    for code, value in named.items():
        assert e4m3_decode(code) == value
    assert np.isnan(e4m3_decode([0x7F, 0xFF])).all()
    assert np.signbit(e4m3_decode(0x80)) and e4m3_decode(0x80) == 0


def test_e4m3_ties_and_neighbours():
    values = e4m3_decode(CODES[:0x7F])
    middle = (values[:-1] + values[1:]) / 2
    even = np.where(CODES[:0x7E] % 2 == 0, values[:-1], values[1:])
    for sign in (1, -1):
        np.testing.assert_array_equal(round_to(sign * middle, "e4m3"), sign * even)
        below, above = np.nextafter(middle, 0), np.nextafter(middle, np.inf)
        np.testing.assert_array_equal(round_to(sign * below, "e4m3"), sign * values[:-1])
        np.testing.assert_array_equal(round_to(sign * above, "e4m3"), sign * values[1:])


def test_e4m3_saturates():
    np.testing.assert_array_equal(round_to([449, 464, 465, 1e9, np.inf], "e4m3"), 448)
    np.testing.assert_array_equal(round_to([-480, -np.inf], "e4m3"), -448)
    assert np.isnan(round_to(np.nan, "e4m3"))


@pytest.mark.parametrize("dtype,kind", [("f16", np.float16), ("f32", np.float32)])
def test_rounding_is_that_of_numpy(dtype, kind):
    rng = np.random.default_rng(1)
    values = rng.normal(size=200000) * 2.0 ** rng.integers(-160, 140, 200000)
    values = np.concatenate(
        [values, [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.99, 65520, 2.0**-25]]
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(round_to(values, dtype), values.astype(kind).astype(float))


def test_every_f16_stays():
    values = np.arange(65536, dtype=np.uint16).view(np.float16).astype(float)
    np.testing.assert_array_equal(round_to(values, "f16"), values)


def test_every_bf16_stays_and_ties_go_to_even():
    bits = np.arange(0x7F80, dtype=np.uint32)
    values = (bits << 16).view(np.float32).astype(float)
    np.testing.assert_array_equal(round_to(values, "bf16"), values)
    np.testing.assert_array_equal(bf16_bits(values), bits)
    middle = (values[:-1] + values[1:]) / 2
    even = np.where(bits[:-1] % 2 == 0, values[:-1], values[1:])
    np.testing.assert_array_equal(round_to(middle, "bf16"), even)
    np.testing.assert_array_equal(round_to(np.nextafter(middle, 0), "bf16"), values[:-1])
    np.testing.assert_array_equal(round_to(-np.nextafter(middle, 1e39), "bf16"), -values[1:])
    assert round_to((2 - 2.0**-8) * 2.0**127, "bf16") == np.inf


def test_bf16_is_not_rounded_twice():
    value = 1 + 2.0**-8 + 2.0**-40  # f32 would make it a tie
    assert round_to(value, "bf16") == 1 + 2.0**-7


# Random123 (Salmon et al.), kat_vectors, "philox4x32 10": counter, key, result
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize("counter,key,result", VECTORS)
def test_philox_known_answers(counter, key, result):
    assert tuple(int(word) for word in philox.philox4x32(counter, key)) == result


def test_dropout_counter_and_key():
    seed, offset = 0x299F31D0A4093822, 0x243F6A88
    word = philox.philox4x32((offset, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0))
    columns = 0x03707344 * 4 + np.arange(4)
    for n in range(4):
        rate = (int(word[n]) + 1) / 2**32  # its own word is just below the threshold
        kept = philox.keep(rate, seed, offset, 0x85A308D3 + 2**32, [0x13198A2E], columns)
        np.testing.assert_array_equal(kept[0], word > word[n])
        rate = int(word[n]) / 2**32  # now just at it
        kept = philox.keep(rate, seed, offset, 0x85A308D3, [0x13198A2E], columns)
        np.testing.assert_array_equal(kept[0], word >= word[n])


def test_dropout_threshold():
    assert philox.threshold(0.0) == 0
    assert philox.threshold(0.5) == 2**31
    assert philox.threshold(2.0**-40) == 1
    assert philox.threshold(1 - 2.0**-53) == 2**32
    assert not philox.keep(1 - 2.0**-53, 1, 2, 3, range(50), range(50)).any()
    share = philox.keep(0.25, 1, 2, 3, range(300), range(300)).mean()
    assert abs(share - 0.75) < 0.01
