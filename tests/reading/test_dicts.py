"""Dicts as contexts: names are composed, and hashed as by scikit-learn."""

import unicodedata
from enum import Enum
from fractions import Fraction

import numpy as np
import pytest
from helpers.arrays import alike, same
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.utils import murmurhash3_32

from onebit.reading import dicts as module
from onebit.reading.contexts import encode, encode_rows
from onebit.reading.dicts import HASHED
from onebit.reading.hashing import murmur3
from onebit.reading.texts import is_text

F32, F64 = np.dtype("float32"), np.dtype("float64")

names = st.text(max_size=12).filter(lambda text: text.isprintable())
numbers = st.one_of(st.integers(-64, 64), st.booleans(), st.sampled_from([0.5, -1.25, 0.0]))
categories = names.filter(lambda text: not is_text(text))


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
@settings(deadline=None, database=None, max_examples=300)
def test_murmur3_is_that_of_scikit_learn(text):
    assert murmur3(text) == murmurhash3_32(text.encode(), seed=0)


@pytest.mark.parametrize("size", range(18))
def test_murmur3_is_right_for_every_length_of_tail(size):
    text = "abcdefghijklmnopqrstuvwxyz"[:size]
    assert murmur3(text) == murmurhash3_32(text, seed=0)


def composed_pairs(named):
    """The features of a dict, with composed names."""
    features = ((f"{n}={v}", 1) if isinstance(v, str) else (n, v) for n, v in named.items())
    return [(unicodedata.normalize("NFC", name), value) for name, value in features]


@given(
    st.lists(
        st.dictionaries(names, st.one_of(numbers, categories), max_size=12), min_size=1, max_size=4
    ),
    st.sampled_from([None, 1, 2, 7, 64, 1000, 2**31 - 1]),
    st.sampled_from([F32, F64]),
)
@settings(deadline=None, database=None, max_examples=200)
def test_dicts_are_hashed_as_by_the_feature_hasher(dicts, n, dtype):
    # The numbers are sums of few powers of two, so their order does not matter to rounding.
    hasher = FeatureHasher(n_features=HASHED if n is None else n, input_type="pair")
    hashed = hasher.transform(map(composed_pairs, dicts))
    alike(encode_rows(dicts, dtype, n), encode_rows(hashed, dtype, n))
    for i, one in enumerate(dicts):
        alike(encode(one, dtype, n), encode(hashed[i], dtype, n))


def test_a_thousand_random_dicts_with_foreign_names_are_hashed_as_by_the_feature_hasher():
    rng = np.random.default_rng(5)
    letters = list("abcxyz =:_äßçйяλ한국🙂")  # two Han letters would be a text
    dicts = []
    for _ in range(1000):
        words = {"".join(rng.choice(letters, rng.integers(1, 9))) for _ in range(8)}
        dicts.append(
            {
                w: ("".join(w[::-1].split()) if rng.random() < 0.3 else int(rng.integers(-9, 9)))
                for w in sorted(words)
            }
        )
    for n in (3, 50, 2**20):
        hashed = FeatureHasher(n_features=n).transform(dicts)
        alike(encode_rows(dicts, F64, n), encode_rows(hashed, F64, n))


def test_names_that_cancel_each_other_in_one_column_leave_nothing():
    positive = next(f"f{i}" for i in range(99) if murmur3(f"f{i}") >= 0)
    negative = next(f"f{i}" for i in range(99) if murmur3(f"f{i}") < 0)
    same(encode({positive: 2, negative: 2}, F32, 1), [], [])
    same(encode({positive: 2, negative: 0.5}, F32, 1), [0], [1.5])


def test_the_kept_hashes_stay_bounded_and_forgetting_them_changes_nothing(monkeypatch):
    monkeypatch.setattr(module, "_HASHES_KEPT", 8)
    monkeypatch.setattr(module, "_hashes", {})
    many = {f"name{i}": i + 1 for i in range(50)}
    first = encode(many, F32, None)
    assert len(module._hashes) <= 8
    alike(encode(many, F32, None), first)
    hashed = FeatureHasher().transform([many])
    alike(encode(hashed, F32, None), first)


def test_any_kind_of_real_number_may_be_a_value_of_a_dict():
    for value in (2, 2.0, np.float32(2), np.int8(2), Fraction(4, 2)):
        alike(encode({"a": value}, F32, None), encode({"a": 2}, F32, None))
    alike(encode({"a": np.bool_(True)}, F32, None), encode({"a": 1}, F32, None))


def test_what_is_missing_in_a_dict_is_a_name_of_its_own_or_absent():
    missing = {"age": np.nan, "height": np.float32("nan"), "colour": None, "a": 1}
    alike(encode(missing, F32, None), encode({"colour": "", "a": 1}, F32, None))
    alike(encode({"age": float("nan")}, F32, None), encode({}, F32, None))


class Team(str, Enum):  # noqa: UP042, its str() is not its value
    RED = "red"
    BIG = "the big one"


def test_members_of_an_enum_are_their_strings():
    for n in (None, 64):
        alike(encode({"team": Team.RED}, F32, n), encode({"team": "red"}, F32, n))
        alike(encode({"team": Team.BIG}, F32, n), encode({"team": "the big one"}, F32, n))
        alike(
            encode({Team.RED: "a", "b": Team.RED}, F32, n), encode({"red": "a", "b": "red"}, F32, n)
        )
        alike(encode({Team.RED: 2}, F32, n), encode({"red": 2}, F32, n))
        alike(encode(Team.BIG, F32, n), encode("the big one", F32, n))
        alike(
            encode_rows([Team.BIG, Team.RED], F32, n), encode_rows(["the big one", "red"], F32, n)
        )
        alike(encode({"team": np.str_("red")}, F32, n), encode({"team": "red"}, F32, n))


def test_a_number_that_is_too_large_has_a_remedy():
    with pytest.raises(ValueError, match=r"at most 1e\+15; scale the feature down"):
        encode({"a": 1e16}, F32, None)
