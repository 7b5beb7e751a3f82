"""MurmurHash3 in its three forms, against published values and against each other."""

import numpy as np
import pytest

from onebit.core.jit import plain
from onebit.reading.hashing import murmur3, murmur3_of_bytes, murmur3_of_numbers

TEXTS = ["", "a", "ab", "abc", "abcd", "price", "naïve", "the quick brown fox", "日本語"]


def test_published_values():
    assert [murmur3(text) for text in ("", "a", "abc")] == [0, 0x3C2569B2, 0xB3DD93FA - 2**32]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("prefix", ["", "city=", "x"])
def test_bytes_after_a_prefix_have_the_hash_of_the_text(text, prefix):
    data = np.frombuffer((prefix + "|" + text).encode(), np.uint8)
    size = len(prefix)
    assert (
        plain(murmur3_of_bytes)(data, size, size + 1, len(data)) == murmur3(prefix + text) % 2**32
    )


def test_numbers_have_the_hashes_of_their_bytes():
    numbers = np.random.default_rng(0).integers(0, 2**32, 100, np.uint32)
    numbers &= np.uint32(0x7F7F7F7F)  # bytes below 128 are texts of as many bytes
    expected = [murmur3(number.tobytes().decode()) for number in numbers]
    assert murmur3_of_numbers(numbers).tolist() == expected
