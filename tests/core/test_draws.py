"""Draws are pure functions of seed, round and stream, and look random."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from onebit.core.draws import _mix, bits_by, key_of, limit_of, uniform, uniforms
from onebit.core.jit import COMPILED, entry

pytestmark = pytest.mark.compiled
HIGHEST = 2**63 - 1
counts = st.integers(0, HIGHEST)
N = 20_000 if COMPILED else 2000


@entry
def _draws(seeds, rounds, streams, out):
    for i in range(len(out)):
        out[i] = uniform(seeds[i], rounds[i], streams[i])


@entry
def _stream(seed, stream, out):
    for i in range(len(out)):
        out[i] = uniform(seed, i, stream)


@entry
def _one(seed, round, stream):
    return uniform(seed, round, stream)


def many(seed, stream, size=N):
    out = np.empty(size)
    _stream(seed, stream, out)
    return out


def test_many_at_once_are_the_same_numbers():
    rounds = np.array([0, 1, 7, 2**31, 2**62])
    for seed, stream in ((0, 0), (3, 2), (2**63 - 1, 2**40 + 5)):
        expected = [uniform(seed, round, stream) for round in rounds.tolist()]
        assert uniforms(seed, rounds, stream).tolist() == expected


def test_the_mixer_is_that_of_splitmix64():
    # The published first outputs of SplitMix64 from the seed 1234567.
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    golden, mask = 0x9E3779B97F4A7C15, 2**64 - 1
    assert [_mix((1234567 + (i + 1) * golden) & mask) for i in range(3)] == expected


@given(counts, counts, st.integers(0, 100))
@settings(deadline=None, database=None, max_examples=300)
def test_a_draw_is_in_the_unit_interval_and_always_the_same(seed, round, stream):
    draw = uniform(seed, round, stream)
    assert type(draw) is float and 0 <= draw < 1
    assert uniform(seed, round, stream) == draw
    assert uniform(np.int64(seed), np.int64(round), np.int64(stream)) == draw
    assert (draw * 2**53).is_integer()


@given(counts, counts, st.integers(0, 100))
@settings(deadline=None, database=None, max_examples=300)
def test_a_compiled_draw_is_the_plain_one(seed, round, stream):
    assert _one(seed, round, stream) == uniform(seed, round, stream)


def test_many_compiled_draws_are_the_plain_ones():
    rng = np.random.default_rng(0)
    seeds = rng.integers(0, HIGHEST, 4000, endpoint=True)
    rounds = rng.integers(0, HIGHEST, 4000, endpoint=True)
    streams = rng.integers(0, 1000, 4000)
    seeds[:9], rounds[::7], streams[::5] = HIGHEST, np.arange(len(rounds[::7])), 0
    rounds[1], seeds[20:40] = HIGHEST, np.arange(20)
    out = np.empty(4000)
    _draws(seeds, rounds, streams, out)
    plain = [
        uniform(*args)
        for args in zip(seeds.tolist(), rounds.tolist(), streams.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(out, plain)


def test_the_largest_draw_stays_below_one():
    assert ((2**64 - 1) >> 11) * 2.0**-53 < 1
    assert 0 <= uniform(HIGHEST, HIGHEST, 1000) < 1


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**62, HIGHEST])
@pytest.mark.parametrize("stream", [0, 1, 7])
def test_draws_are_uniform(seed, stream):
    draws = many(seed, stream)
    assert draws.min() >= 0 and draws.max() < 1
    assert stats.chisquare(np.histogram(draws, 100, (0, 1))[0]).pvalue > 1e-4
    # The low bits too: the place within the hundredth.
    assert stats.chisquare(np.histogram(draws * 2**20 % 1, 100, (0, 1))[0]).pvalue > 1e-4


@pytest.mark.parametrize("seed", [0, 5, HIGHEST])
def test_draws_do_not_depend_on_those_before_them(seed):
    draws = many(seed, 0)
    for lag in (1, 2, 3, 100):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < 5 / np.sqrt(N)
    pairs = np.histogram2d(draws[:-1:2], draws[1::2], 10, ((0, 1), (0, 1)))[0]
    assert stats.chisquare(pairs.ravel()).pvalue > 1e-4


def test_streams_and_seeds_next_to_each_other_are_unrelated():
    draws = [many(seed, stream) for seed in (0, 1, 2) for stream in (0, 1, 2, 3)]
    related = np.corrcoef(draws) - np.eye(len(draws))
    assert abs(related).max() < 5 / np.sqrt(N)
    assert len(np.unique(np.concatenate(draws))) == len(draws) * N


def test_streams_are_not_each_other_shifted():
    draws = [many(3, stream, 2000) for stream in range(4)] + [many(4, 0, 2000)]
    for i, one in enumerate(draws):
        for other in draws[:i]:
            assert not np.isin(one, other).any()


@given(counts, st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 100), st.floats(0, 1))
@settings(deadline=None, database=None)
def test_bits_by_key_are_those_of_the_draw(seed, first, round, stream, chance):
    draw = uniform(seed, first + round, stream)
    bits = bits_by(key_of(seed, stream, first), round)
    assert bits * 2**-53 == draw
    for one in (chance, draw, np.nextafter(draw, 1)):
        assert (bits < limit_of(float(one))) == (draw < one)
