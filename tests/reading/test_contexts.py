"""Every form of a context becomes the same two arrays; what is no context is refused."""

import pickle
from array import array
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from helpers.arrays import alike, same
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit as ob
from onebit.learner import files
from onebit.reading.contexts import encode, encode_rows
from onebit.reading.rows import GROWTH_LIMIT, largest
from onebit.testing import model_bytes, saved_state

F32, F64 = np.dtype("float32"), np.dtype("float64")
quick = settings(deadline=None, database=None, max_examples=60)
both_dtypes = pytest.mark.parametrize("dtype", [F32, F64], ids=str)

ROW = np.array([0.0, 1.5, 0.0, -2.25, 3.0, 0.0])
INDICES, VALUES = [1, 3, 4], [1.5, -2.25, 3.0]


FORMS = {
    "float64 row": lambda: ROW,
    "float32 row": lambda: ROW.astype(np.float32),
    "float16 row": lambda: ROW.astype(np.float16),
    "big-endian row": lambda: ROW.astype(">f8"),
    "strided row": lambda: np.repeat(ROW, 2)[::2],
    "backwards row": lambda: ROW[::-1].copy()[::-1],
    "read-only row": lambda: np.frombuffer(ROW.tobytes()),
    "row of a matrix": lambda: np.vstack([ROW, ROW])[1],
    "column of a matrix": lambda: np.column_stack([ROW, ROW])[:, 1],
    "1 x d": lambda: ROW[None, :],
    "list": lambda: ROW.tolist(),
    "nested list": lambda: [ROW.tolist()],
    "csr matrix": lambda: sp.csr_matrix(ROW),
    "csr array": lambda: sp.csr_array(ROW[None, :]),
    "csr array 1-D": lambda: sp.csr_array(ROW),
    "csc matrix": lambda: sp.csc_matrix(ROW),
    "coo matrix": lambda: sp.coo_matrix(ROW),
    "coo array": lambda: sp.coo_array(ROW[None, :]),
    "coo array 1-D": lambda: sp.coo_array(ROW),
    "lil matrix": lambda: sp.lil_matrix(ROW),
    "dok matrix": lambda: sp.dok_matrix(ROW[None, :]),
    "csr float32": lambda: sp.csr_matrix(ROW.astype(np.float32)),
    "csr row of a matrix": lambda: sp.csr_matrix(np.vstack([ROW * 2, ROW, ROW * 3]))[1],
    "csr unsorted": lambda: sp.csr_matrix(
        (np.array([3.0, 1.5, -2.25]), np.array([4, 1, 3]), np.array([0, 3])), shape=(1, 6)
    ),
    "csr with zeros": lambda: sp.csr_matrix(
        (np.array([0.0, 1.5, -2.25, 3.0, -0.0]), np.array([0, 1, 3, 4, 5]), np.array([0, 5])),
        shape=(1, 6),
    ),
    "csr float32 with zeros": lambda: sp.csr_matrix(
        (
            np.array([0.0, 1.5, -2.25, 3.0, -0.0], np.float32),
            np.array([0, 1, 3, 4, 5], np.int32),
            np.array([0, 5], np.int32),
        ),
        shape=(1, 6),
    ),
    "pair of lists": lambda: (INDICES, VALUES),
    "pair int32": lambda: (np.array(INDICES, np.int32), np.array(VALUES)),
    "pair int64": lambda: (np.array(INDICES, np.int64), np.array(VALUES)),
    "pair uint8": lambda: (np.array(INDICES, np.uint8), np.array(VALUES)),
    "pair uint32": lambda: (np.array(INDICES, np.uint32), np.array(VALUES, np.float32)),
    "pair uint64": lambda: (np.array(INDICES, np.uint64), np.array(VALUES, np.float32)),
    "pair float16": lambda: (INDICES, np.array(VALUES, np.float16)),
    "pair big-endian": lambda: (np.array(INDICES, ">i4"), np.array(VALUES, ">f4")),
    "pair big-endian int64": lambda: (np.array(INDICES, ">i8"), np.array(VALUES, ">f8")),
    "pair unsorted": lambda: ([4, 1, 3], [3.0, 1.5, -2.25]),
    "pair unsorted int32": lambda: (np.array([4, 1, 3], np.int32), np.array([3.0, 1.5, -2.25])),
    "pair unsorted uint64": lambda: (np.array([4, 1, 3], np.uint64), np.array([3.0, 1.5, -2.25])),
    "pair strided": lambda: (np.repeat(INDICES, 2)[::2], np.repeat(VALUES, 2)[::2]),
    "pair read-only": lambda: (
        np.frombuffer(np.array(INDICES, np.int32).tobytes(), np.int32),
        np.frombuffer(np.array(VALUES).tobytes()),
    ),
    "pair with zeros": lambda: ([0, 1, 2, 3, 4], [0.0, 1.5, -0.0, -2.25, 3.0]),
}


@both_dtypes
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_context_gives_the_same_arrays(form, dtype):
    same(encode(FORMS[form](), dtype, None), INDICES, VALUES, dtype)
    same(encode(FORMS[form](), dtype, 6), INDICES, VALUES, dtype)


@both_dtypes
@pytest.mark.parametrize(
    "values", [[0, 1, 0, 7], [False, True, False, True], np.array([0, 1, 0, 255], np.uint8)]
)
def test_whole_numbers_and_truth_values_are_numbers(values, dtype):
    last = int(np.asarray(values)[3])
    for x in (values, np.asarray(values), ([0, 1, 2, 3], values), sp.csr_matrix(values)):
        same(encode(x, dtype, None), [1, 3], [1, last], dtype)


EMPTY = {
    "zeros": lambda: np.zeros(5),
    "no columns": list,
    "pair": lambda: ([], []),
    "pair of arrays": lambda: (np.empty(0, np.int32), np.empty(0, np.float32)),
    "pair of zeros": lambda: ([2, 4], [0.0, -0.0]),
    "dict": dict,
    "dict of zeros": lambda: {"a": 0, "b": 0.0, "c": False},
    "csr": lambda: sp.csr_matrix((1, 5)),
    "coo 1-D": lambda: sp.coo_array((5,)),
    "too small for float32": lambda: [0.0, 1e-60],
    "too small for float32, pair": lambda: ([1], [1e-60]),
    "too small for float32, csr": lambda: sp.csr_matrix([[0.0, 1e-60]]),
}


@pytest.mark.parametrize("form", EMPTY)
def test_an_empty_or_all_zero_row_is_a_legal_context(form):
    same(encode(EMPTY[form](), F32, None), [], [])


@given(
    rows=st.integers(0, 4).flatmap(
        lambda width: st.lists(
            st.lists(
                st.one_of(
                    st.just(0.0),
                    st.floats(-(2.0**49), 2.0**49, width=32).filter(lambda v: abs(v) > 1e-14),
                ),
                min_size=width,
                max_size=width,
            ),
            min_size=1,
            max_size=5,
        )
    ),
    dtype=st.sampled_from([F32, F64]),
)
@quick
def test_a_matrix_in_any_form_gives_the_rows_one_by_one(rows, dtype):
    X = np.array(rows, np.float64).reshape(len(rows), -1)
    found = encode_rows(X, dtype, None)
    assert found.indices.dtype == np.uint32 and found.values.dtype == dtype
    assert found.indptr[0] == 0 and found.indptr[-1] == len(found.indices) == len(found.values)
    assert (found.values != 0).all()
    for i, row in enumerate(X):
        part = slice(found.indptr[i], found.indptr[i + 1])
        nonzero = np.flatnonzero(row.astype(dtype))
        same((found.indices[part], found.values[part]), nonzero, row[nonzero], dtype)
        same(encode(row, dtype, None), nonzero, row[nonzero], dtype)
    assert found.width == (int(found.indices.max()) + 1 if len(found.indices) else 0)
    pairs = [(np.flatnonzero(row)[::-1], row[np.flatnonzero(row)[::-1]]) for row in X]
    others = [
        X.astype(dtype),
        np.asfortranarray(X),
        sp.csr_matrix(X),
        sp.csr_array(X.astype(dtype)),
        sp.csc_array(X),
        sp.coo_matrix(X),
        list(X),
        rows,
        pairs,
        [sp.csr_matrix(row.reshape(1, -1)) for row in X],
    ]
    for other in others:
        alike(encode_rows(other, dtype, None), found)


@both_dtypes
def test_sparse_indices_of_64_bits_are_as_good_as_those_of_32(dtype):
    narrow = sp.random_array((9, 30), density=0.3, rng=3, format="csr", dtype=np.float32)
    wide = narrow.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    alike(encode_rows(wide, dtype, None), encode_rows(narrow, dtype, None))
    alike(encode_rows(narrow, dtype, None), encode_rows(narrow.toarray(), dtype, None))


def test_a_sparse_matrix_with_room_to_spare_is_read_up_to_its_end():
    roomy = sp.csr_matrix(
        (
            np.array([1, 2, np.nan], np.float32),
            np.array([0, 1, 0], np.int32),
            np.array([0, 1, 2], np.int32),
        ),
        shape=(2, 2),
    )
    alike(encode_rows(roomy, F32, None), encode_rows(np.diag([1, 2]).astype(np.float32), F32, None))


def test_a_sparse_matrix_that_is_fit_for_use_is_not_copied():
    X = sp.random_array((20, 30), density=0.3, rng=1, format="csr", dtype=np.float32)
    found = encode_rows(X, F32, None)
    assert np.shares_memory(found.values, X.data)
    assert np.shares_memory(found.indices, X.indices)


def test_a_refused_or_converted_sparse_matrix_is_left_as_it_was():
    X = sp.csr_matrix(
        (np.array([3.0, 0.0, 1.5]), np.array([4, 1, 3], np.int32), np.array([0, 3], np.int32)),
        shape=(1, 6),
    )
    before = [part.copy() for part in (X.data, X.indices, X.indptr)]
    same(encode(X, F64, None), [3, 4], [1.5, 3.0], F64)
    for part, old in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(part, old)


def strided(array):
    """The same numbers, with others between them in memory."""
    spaced = np.full(2 * len(array), 1, array.dtype)
    spaced[::2] = array
    return spaced[::2]


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_strided_sparse_arrays_give_the_same_rows_ready_for_compiled_code(part, kind):
    X = sp.random_array((9, 30), density=0.3, rng=3, format="csr", dtype=np.float32)
    X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    expected = encode_rows(X, F32, None)
    setattr(X, part, strided(getattr(X, part)))
    found = encode_rows(X, F32, None)
    alike(found, expected)
    assert all(array.flags.c_contiguous for array in found[:3])


def test_strided_data_teaches_what_contiguous_data_teaches():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)).astype(np.float32), rng.integers(0, 3, 60)
    rows = sp.csr_matrix(X)
    loose = rows.copy()
    loose.indices, loose.data = strided(rows.indices), strided(rows.data)
    results = set()
    for X_, y_ in ((X, y), (rows, y), (loose, y), (X, strided(y)), (np.asfortranarray(X), y)):
        learner = ob.Banditron(3, gamma=0.5, seed=3)
        mistakes = ob.simulate(learner, X_, y_).mistakes.tolist()
        learned_ = files.pack({}, saved_state(learner)[1])
        results.add((learned_, learner.scores(X_).tobytes(), *mistakes))
    assert len(results) == 1


def test_a_list_may_mix_the_forms_of_contexts():
    found = encode_rows(
        [ROW, sp.csr_matrix(ROW), (INDICES, VALUES), [0.0, 1.5, 0, 0, 0, 0]], F32, None
    )
    same(found, INDICES * 3 + [1], VALUES * 3 + [1.5])
    np.testing.assert_array_equal(found.indptr, [0, 3, 6, 9, 10])


def test_a_list_of_dicts_gives_what_each_dict_gives():
    dicts = [{"a": 1, "b": 2.5}, {}, {"c": "x", "a": True}]
    found = encode_rows(dicts, F32, None)
    for i, one in enumerate(dicts):
        part = slice(found.indptr[i], found.indptr[i + 1])
        alike((found.indices[part], found.values[part]), encode(one, F32, None))


@both_dtypes
def test_no_rows_are_legal_rows(dtype):
    for X in (np.empty((0, 4)), sp.csr_matrix((0, 4)), np.empty((0, 4), np.float32)):
        found = encode_rows(X, dtype, 4)
        assert len(found.indices) == len(found.values) == 0 and found.width == 0
        np.testing.assert_array_equal(found.indptr, [0])


# Refusals.

ONE_REFUSED = {
    "NaN": ([1.0, np.nan], ValueError, "index 1 is nan; put a number in its place, or make a dict"),
    "infinity": (np.array([np.inf, 1.0]), ValueError, "index 0 is inf; put a number in its place"),
    "minus infinity": ([0.0, -np.inf], ValueError, "index 1 is -inf"),
    "float32 NaN": (np.array([np.nan], np.float32), ValueError, "index 0 is nan"),
    "too large": ([0.0, 1e39], ValueError, r"value 1e\+39 at index 1 is too large for float32"),
    "NaN in a pair": (([3, 5], [1.0, np.nan]), ValueError, "index 5 is nan"),
    "inf in an unsorted pair": (([5, 3], [1.0, -np.inf]), ValueError, "index 3 is -inf"),
    "too large in a pair": (([7], [-1e39]), ValueError, r"-1e\+39 at index 7 is too large"),
    "NaN in a sparse row": (sp.csr_matrix([[0, np.nan]]), ValueError, "index 1 is nan"),
    "inf in a sparse row": (sp.csr_array(np.array([0, np.inf])), ValueError, "index 1 is inf"),
    "too large, sparse": (sp.csr_matrix([[0, 0, 1e39]]), ValueError, "index 2 is too large"),
    "float32 NaN, sparse": (
        sp.csr_matrix(np.array([[0, np.nan]], np.float32)),
        ValueError,
        "index 1 is nan",
    ),
    "inf in a dict": ({"b": -np.inf}, ValueError, "feature 'b' is -inf; leave it out"),
    "too large in a dict": ({"b": 1e39}, ValueError, "too large for float32"),
    "no float in a dict": ({"b": 10**400}, ValueError, "'b'"),
    "name without UTF-8": ({"\ud800": 1}, ValueError, "name"),
    "negative index": (([-1, 2], [1.0, 2.0]), ValueError, "index -1 is negative"),
    "negative, unsorted": (([2, -7], [1.0, 2.0]), ValueError, "index -7 is negative"),
    "negative int8": ((np.array([-3], np.int8), [1.0]), ValueError, "index -3 is negative"),
    "twice": (([2, 2], [1.0, 1.0]), ValueError, "index 2 is there twice; add its values up"),
    "twice, unsorted": (([5, 2, 5], [1.0, 1.0, 1.0]), ValueError, "index 5 is there twice"),
    "twice, one of them zero": (([2, 2], [0.0, 1.0]), ValueError, "index 2 is there twice"),
    "twice, sparse": (
        sp.csr_matrix((np.ones(2), np.array([1, 1]), np.array([0, 2])), shape=(1, 3)),
        ValueError,
        "index 1 is there twice",
    ),
    "float indices": (([0.0, 1.0], [1.0, 2.0]), TypeError, "indices must be whole numbers"),
    "boolean indices": (([True], [1.0]), TypeError, "indices must be whole numbers"),
    "string indices": ((["a"], [1.0]), TypeError, "indices must be whole numbers"),
    "string values": (([0], ["a"]), TypeError, "values must be real numbers"),
    "complex values": (([0], [1j]), TypeError, "values must be real numbers"),
    "object values": (([0], [None]), TypeError, "values must be real numbers"),
    "beyond growth": (([GROWTH_LIMIT], [1.0]), ValueError, "pass features= to the learner"),
    "beyond growth, sparse": (
        sp.coo_array(([1.0], ([0], [GROWTH_LIMIT])), shape=(1, GROWTH_LIMIT + 1)),
        ValueError,
        "pass features= to the learner",
    ),
    "beyond all width": ((np.array([2**64 - 1], np.uint64), [1.0]), ValueError, "beyond any width"),
    "beyond int32": (([2**40], [1.0]), ValueError, f"index {2**40} is beyond"),
    "complex": (np.array([1j]), TypeError, "real numbers, not complex"),
    "objects": (np.array([1, None]), ValueError, "index 1 is nan; put .* make a dict of the row"),
    "text and None": (
        np.array([1, None, "a"]),
        TypeError,
        "not NoneType, str: make a dict of a row",
    ),
    "strings": (["a", "b"], TypeError, "real numbers"),
    "bytes": (b"abc", TypeError, "real numbers"),
    "text in bytes": (b"a text", TypeError, "not bytes: decode them to a string; .* a dict or a"),
    "list of texts": (
        ["a text", "a text"],
        TypeError,
        "numbers, not texts or dicts: decide takes one",
    ),
    "text in a pair": (("a text", "a text"), TypeError, "one context is one text, not a tuple"),
    "text of numbers": ({"a": {"b": 1}}, TypeError, "'a' must be a number or a string"),
    "bytes in a dict": ({"a": b"a text"}, TypeError, "not b'a text'; decode it to a string"),
    "text of a name without UTF-8": ({"\ud800": "a text"}, ValueError, "name"),
    "dates": (np.array(["2024-01-01"], "M8[D]"), TypeError, "real numbers"),
    "complex, sparse": (sp.csr_matrix([[1j]]), TypeError, "real numbers, not complex"),
    "None": (None, TypeError, "real numbers, not None;"),
    "a set": ({1, 2}, TypeError, "a context is"),
    "a number": (3.0, ValueError, "one context is one row"),
    "two rows": (np.ones((2, 3)), ValueError, r"one context is one row, not .* \(2, 3\)"),
    "two sparse rows": (sp.csr_matrix(np.ones((2, 3))), ValueError, "one context is one row"),
    "no sparse row": (sp.csr_matrix((0, 3)), ValueError, "one context is one row, not 0"),
    "three dimensions": (np.ones((1, 1, 3)), ValueError, "one context is one row"),
    "ragged": ([[1.0, 2.0], [3.0]], ValueError, "differ in length"),
    "pair of one": (([1],), ValueError, r"a pair is \(indices, values\), not 1"),
    "pair of three": (([1], [1.0], [1.0]), ValueError, "not 3 things"),
    "pair of different lengths": (([1, 2], [1.0]), ValueError, "the same length"),
    "pair of numbers": ((1, 2.0), ValueError, "two rows of the same length"),
    "pair of matrices": (([[1]], [[1.0]]), ValueError, "two rows of the same length"),
    "ragged pair": (([[1], [2, 3]], [1.0, 2.0]), ValueError, "a pair is"),
    "name that is no string": ({1: 2.0}, TypeError, "name must be a string, not 1"),
    "value that is no number": ({"a": b"1"}, TypeError, "'a' must be a number or a string"),
    "list as a value": ({"a": [1]}, TypeError, "'a' must be a number or a string"),
    "complex in a dict": ({"a": 1j}, TypeError, "'a' must be a number or a string"),
}

MANY_REFUSED = {
    "NaN": (np.array([[1, 2], [3, np.nan]]), ValueError, "row 1: .* index 1 is nan; put a number"),
    "float32 inf": (np.array([[1], [np.inf]], np.float32), ValueError, "row 1: .* index 0 is inf"),
    "too large": ([[1.0], [2.0], [1e39]], ValueError, "row 2: .* too large for float32"),
    "NaN, sparse": (sp.csr_matrix([[1.0], [np.nan]]), ValueError, "row 1: .* index 0 is nan"),
    "inf, csc": (sp.csc_matrix([[1.0, 0], [0, np.inf]]), ValueError, "row 1: .* index 1 is inf"),
    "twice, sparse": (
        sp.csr_matrix((np.ones(3), np.array([0, 2, 2]), np.array([0, 1, 3])), shape=(2, 3)),
        ValueError,
        "row 1: index 2 is there twice",
    ),
    "negative in a list": ([([0], [1.0]), ([-1], [1.0])], ValueError, "row 1: index -1"),
    "dict in a list": ([{"a": 1}, {"b": np.inf}], ValueError, "row 1: feature 'b' is inf"),
    "wrong type in a list": ([[1.0], None], TypeError, "row 1: .* real numbers"),
    "name without UTF-8 in a list": ([{"a": 1}, {"\ud800": 1}], ValueError, "row 1: .*name"),
    "no float in a list": ([{"a": 1}, {"b": 10**400}], ValueError, "row 1: .*'b'"),
    "sparse row in a list": (
        [sp.csr_matrix([[1.0]]), sp.csr_matrix([[np.nan]])],
        ValueError,
        "^row 1: the value at index 0 is nan",
    ),
    "strings in a list": ([[1.0], ["a"]], TypeError, "row 1: .* real numbers"),
    "beyond growth": ([([GROWTH_LIMIT], [1.0])], ValueError, "row 0: .* pass features="),
    "one row": (np.ones(3), ValueError, r"a matrix, one row a context, not of shape \(3,\)"),
    "one sparse row": (sp.coo_array(np.ones(3)), ValueError, "a matrix, one row a context"),
    "three dimensions": (np.ones((2, 2, 2)), ValueError, "a matrix, one row a context"),
    "one dict": ({"a": 1}, TypeError, "put a single dict or pair into a list"),
    "one pair": (([0, 1], [1.0, 2.0]), TypeError, "put a single dict or pair into a list"),
    "masked": (np.ma.masked_array([[1.0]], [[True]]), TypeError, "masked"),
    "numbers": ([1.0, 2.0], ValueError, "a matrix, one row a context"),
    "None": (None, TypeError, "X must hold real numbers"),
    "objects": (
        np.array([[1, None], [2, 3]]),
        ValueError,
        "row 0: .* index 1 is nan; put a number",
    ),
    "texts and None": (np.array([[1, None, "a"]]), TypeError, "X must hold real numbers"),
    "complex": (np.ones((2, 2), complex), TypeError, "X must hold real numbers"),
    "text": ("some text", TypeError, "X must hold real numbers, not text: put a single text into"),
    "number among texts": (["a text", 3.0], TypeError, "row 1 is no text but of the type float"),
    "text among numbers": ([1.0, "a text"], TypeError, "row 0 is no text but of the type float"),
    "row among texts": (["a text", None, [1.0]], TypeError, "row 2 is no text .* list; where"),
    "text among rows": ([[1.0, 2.0], "a text"], TypeError, "row 0 is no text .* into a dict"),
    "dict among texts": (["a text", {"a": 1}], TypeError, "row 1 is no text .* type dict"),
    "bytes among texts": (["a text", b"a text"], TypeError, "row 1 is no text .* type bytes"),
    "all bytes": ([b"a text", b"b"], TypeError, "not bytes: decode them to a string"),
    "bytes of an array": (np.array([b"a text"]), TypeError, "decode them to a string"),
}


@pytest.mark.parametrize("case", ONE_REFUSED)
def test_what_is_no_context_is_refused_with_what_to_do(case):
    x, error, words = ONE_REFUSED[case]
    with pytest.raises(error, match=words) as refused:
        encode(x, F32, None)
    assert type(refused.value) is error


@pytest.mark.parametrize("case", MANY_REFUSED)
def test_refused_rows_are_named(case):
    X, error, words = MANY_REFUSED[case]
    with pytest.raises(error, match=words) as refused:
        encode_rows(X, F32, None)
    assert type(refused.value) is error


def test_what_is_too_large_for_float32_fits_float64():
    for x in ([0.0, 1e39], ([1], [1e39]), sp.csr_matrix([[0.0, 1e39]])):
        same(encode(x, F64, None), [1], [1e39], F64)
    same(encode([1e15, -1e15], F32, None), [0, 1], [1e15, -1e15])
    for dtype, beyond in ((F32, 1.1e15), (F64, 1.1e120)):
        with pytest.raises(ValueError, match="scale the features down"):
            encode([beyond], dtype, None)


def test_what_is_too_small_to_count_is_zero():
    for x in ([1e-30, 1.0], ([0, 1], [1e-30, 1.0]), sp.csr_matrix([[1e-30, 1.0]]), [[1e-30, 1.0]]):
        same(encode(x, F32, None), [1], [1.0])


@pytest.mark.parametrize(
    "damage",
    [
        lambda X: X.indptr.__setitem__(2, 10**8),
        lambda X: X.indptr.__setitem__(2, -60),
        lambda X: X.indptr.__setitem__(0, 3),
        lambda X: setattr(X, "data", X.data[:2]),
        lambda X: X.indices.__setitem__(0, 7),
    ],
)
@pytest.mark.parametrize("sorted_already", [True, False])
def test_a_damaged_sparse_matrix_is_refused(damage, sorted_already):
    """scipy does not look; compiled code would follow it out of memory."""
    X = sp.csr_matrix(np.ones((5, 4), np.float32))
    damage(X)
    X.has_sorted_indices = sorted_already
    for call in (ob.UCWL(3).predict, lambda X: ob.simulate(ob.UCWL(3), X, np.zeros(5, int))):
        with pytest.raises(ValueError, match=r"damaged|columns wide"):
            call(X)


@pytest.mark.skipif(
    np.finfo(np.longdouble).maxexp == np.finfo(np.float64).maxexp, reason="there are none here"
)
def test_a_long_double_beyond_float64_is_refused_without_a_warning():
    huge = np.array([np.finfo(np.longdouble).max])
    for x in (huge, ([0], huge)):
        with pytest.raises(ValueError, match="index 0"):
            encode(x, F64, None)


WRONG_WIDTH = {
    "short row": ([1.0, 2.0], "2 columns; features= fixed 3"),
    "long row": (np.ones(4), "4 columns; features= fixed 3"),
    "no columns": ([], "0 columns; features= fixed 3"),
    "sparse": (sp.csr_matrix((1, 4)), "4 columns; features= fixed 3"),
    "pair": (([1, 3], [1.0, 1.0]), "index 3 is beyond the 3 features that features= fixed"),
    "unsorted pair": (([3, 1], [1.0, 1.0]), "index 3 is beyond the 3 features"),
    "pair with a zero": (([3], [0.0]), "index 3 is beyond the 3 features"),
}


@pytest.mark.parametrize("case", WRONG_WIDTH)
def test_a_row_of_another_width_than_the_fixed_one_is_refused(case):
    x, words = WRONG_WIDTH[case]
    with pytest.raises(ValueError, match=words):
        encode(x, F32, 3)
    with pytest.raises(ValueError, match=f"row 1: .*{words}"):
        encode_rows([np.ones(3), x], F32, 3)


def test_a_matrix_of_another_width_than_the_fixed_one_is_refused():
    for X in (np.ones((2, 4)), sp.csr_matrix(np.ones((2, 4)))):
        with pytest.raises(ValueError, match="4 columns; features= fixed 3"):
            encode_rows(X, F32, 3)
    with pytest.raises(ValueError, match=r"row 1: .*1 columns; features= fixed 2"):
        encode_rows([[1.0, 2.0], [3.0]], F32, 2)


def test_a_sparse_row_or_a_pair_may_be_narrower_than_the_fixed_width():
    same(encode(sp.csr_matrix([[0.0, 2.0]]), F32, 3), [1], [2.0])
    same(encode(([1], [2.0]), F32, 3), [1], [2.0])


def test_fixed_features_allow_indices_beyond_where_weights_grow_by_themselves():
    same(encode(([GROWTH_LIMIT], [1.0]), F32, GROWTH_LIMIT + 1), [GROWTH_LIMIT], [1.0])
    same(encode(([GROWTH_LIMIT - 1], [1.0]), F32, None), [GROWTH_LIMIT - 1], [1.0])


@given(
    st.lists(st.integers(-3, 9), max_size=6),
    st.lists(st.sampled_from([0.0, 1.0, -2.5, 1e39, 1e-60, np.nan, np.inf, -np.inf]), max_size=6),
    st.sampled_from([np.int32, np.int64]),
    st.sampled_from([None, 8]),
)
@settings(deadline=None, database=None, max_examples=300)
def test_a_pair_is_canonical_or_refused_and_never_something_else(indices, values, kind, n):
    good = (
        len(indices) == len(values) == len(set(indices))
        and all(0 <= j < (n or GROWTH_LIMIT) for j in indices)
        and all(np.isfinite(v) and abs(v) < 1e38 for v in values)
    )
    pair = (np.array(indices, kind), np.array(values))
    if good:
        kept = sorted((j, v) for j, v in zip(indices, values, strict=True) if np.float32(v))
        same(encode(pair, F32, n), [j for j, _ in kept], [v for _, v in kept])
    else:
        with pytest.raises(ValueError, match=r"index|pair"):
            encode(pair, F32, n)


# Through a learner.


def learned(**settings):
    """A learner that has learned a little."""
    learner = ob.Banditron(3, gamma=0.5, seed=3, **settings)
    for t in range(12):
        d = learner.decide(np.array([1.0, -t, 0.25 * t]))
        learner.learn(d, right=d.label == t % 3)
    return learner


@pytest.fixture(scope="module")
def learner():
    return learned()


@pytest.mark.parametrize("case", ONE_REFUSED)
def test_a_refused_context_leaves_the_learner_byte_for_byte_as_it_was(case, learner):
    x, error, words = ONE_REFUSED[case]
    before = model_bytes(learner)
    with pytest.raises(error, match=words):
        learner.decide(x)
    assert model_bytes(learner) == before
    with pytest.raises(error, match=words):
        learner.propensities(x)
    assert model_bytes(learner) == before


@pytest.mark.parametrize("case", MANY_REFUSED)
def test_refused_rows_leave_the_learner_byte_for_byte_as_it_was(case, learner):
    X, error, words = MANY_REFUSED[case]
    before = model_bytes(learner)
    for call in (learner.predict, learner.scores, lambda X: ob.simulate(learner, X, [0, 1])):
        with pytest.raises(error, match=words):
            call(X)
        assert model_bytes(learner) == before


def test_refused_feedback_leaves_the_learner_byte_for_byte_as_it_was(learner):
    d = learner.decide([1.0, 2.0, 3.0])
    before = model_bytes(learner)
    refused = [
        ({}, TypeError, "pass right=True, right=False, label="),
        ({"right": True, "label": 1}, TypeError, "not both"),
        ({"right": "yes"}, TypeError, "right must be True or False, not 'yes'"),
        ({"right": None}, TypeError, "label=... or silence=True"),
        ({"right": 2}, TypeError, "right must be True or False, not 2"),
        ({"right": 1.0}, TypeError, "right must be True or False, not 1.0"),
        ({"right": -1}, TypeError, "right must be True or False, not -1"),
        ({"label": 3}, ValueError, "no label 3"),
        ({"label": "a"}, ValueError, "no label 'a'"),
        ({"label": True}, ValueError, "no label True"),
    ]
    for feedback, error, words in refused:
        with pytest.raises(error, match=words):
            learner.learn(d, **feedback)
        assert model_bytes(learner) == before


def test_refused_streams_and_choices_leave_the_learner_byte_for_byte_as_it_was(learner):
    X = np.ones((4, 3))
    before = model_bytes(learner)
    refused = [
        (lambda: ob.simulate(learner, X, [0, 1, 2]), ValueError, "4 rows and y 3 labels"),
        (lambda: ob.simulate(learner, X, [0, 1, 2, 3]), ValueError, "row 3: no label 3"),
        (lambda: ob.simulate(learner, X, [0, 1, 2, 0], epochs=0), ValueError, "epochs"),
        (lambda: ob.simulate(learner, X, [0, 1, 2, 0], order=[4]), ValueError, "rows outside"),
        (lambda: ob.simulate(learner, X, [0, 1, 2, 0], order="odd"), ValueError, "order must"),
        (lambda: ob.simulate(learner, X, [0] * 4, checkpoints=[9]), ValueError, "checkpoints"),
        (lambda: learner.decide(X[0], among=[]), ValueError, "among is empty"),
        (lambda: learner.decide(X[0], among=[0, 7]), ValueError, "no label 7"),
        (lambda: learner.decide(X[0], among="ab"), TypeError, "among must be a list"),
    ]
    for call, error, words in refused:
        with pytest.raises(error, match=words):
            call()
        assert model_bytes(learner) == before


MUTABLE = {
    "dense": lambda: (lambda x: (x, [x]))(np.array([1, 2, 3], np.float32)),
    "1 x d": lambda: (lambda x: (x, [x]))(np.array([[1, 2, 3]], np.float32)),
    "csr": lambda: (lambda x: (x, [x.data, x.indices]))(sp.csr_matrix(np.float32([[1, 2, 3]]))),
    "csr 1-D": lambda: (lambda x: (x, [x.data, x.indices]))(sp.csr_array(np.float32([1, 2, 3]))),
    "pair": lambda: (lambda x: (x, list(x)))(
        (np.arange(3, dtype=np.uint32), np.float32([1, 2, 3]))
    ),
    "pair int32": lambda: (lambda x: (x, list(x)))(
        (np.arange(3, dtype=np.int32), np.float32([1, 2, 3]))
    ),
}


@pytest.mark.parametrize("form", MUTABLE)
def test_what_happens_to_the_callers_arrays_later_does_not_change_a_decision(form):
    x, arrays = MUTABLE[form]()
    d = ob.Banditron(3, features=3).decide(x)
    for held in arrays:
        held[...] = 0
    same((d.indices, d.values), [0, 1, 2], [1, 2, 3])


def test_no_rows_are_no_rows():
    assert ob.Banditron(3).predict([]).shape == (0,)
    assert ob.Banditron(3).scores(np.empty((0, 4))).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_counts_as_zero_is_the_same_in_every_form(dtype):
    edge = dtype(1 / largest(np.dtype(dtype)))
    for value in (np.nextafter(edge, dtype(0)), edge, np.nextafter(edge, dtype(1))):
        row = np.array([value, 1], dtype)
        forms = (row, sp.csr_matrix(row), (np.array([0, 1], np.int32), row))
        kept = {len(encode(x, np.dtype(dtype), None)[0]) for x in forms}
        kept |= {len(encode_rows(x[None], np.dtype(dtype), None).indices) for x in forms[:1]}
        assert len(kept) == 1, value


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sparse_matrix_that_only_says_it_is_sorted_is_sorted(dtype):
    indices, values = np.array([4, 1, 2, 0, 3]), np.array([1.0, 2.0, 3.0, 4.0, 5.0], dtype)
    matrix = sp.csr_matrix((values, indices, [0, 3, 5]), shape=(2, 6))
    honest = matrix.sorted_indices()
    matrix.has_sorted_indices = True
    learner = ob.Banditron(3, dtype="float32")
    learner.learn(learner.decide(([0, 1, 2, 3, 4], [1.0, -2.0, 3.0, 0.5, 1.0])), right=True)
    assert np.array_equal(learner.scores(matrix), learner.scores(honest))
    one = matrix[:1]
    one.has_sorted_indices = True
    decision = learner.decide(one)
    assert decision.indices.tolist() == [1, 2, 4] and decision.values.tolist() == [2, 3, 1]
    assert indices.tolist() == [4, 1, 2, 0, 3]  # the matrix stays as it was
    twice = sp.csr_matrix((values[:3], np.array([4, 1, 4]), [0, 3]), shape=(1, 6))
    twice.has_sorted_indices = True
    with pytest.raises(ValueError, match="index 4 is there twice"):
        learner.decide(twice)


# Dense rows have the width of the first one.


def test_dense_rows_have_the_width_of_the_first():
    learner = ob.Banditron(3)
    learner.decide([1.0, 2.0, 3.0])
    before = model_bytes(learner)
    X = np.ones((4, 5))
    says = "has 5 columns, and rows before it had 3; for rows that grow, use dicts, pairs"
    for refused in (
        lambda: learner.decide(X[0]),
        lambda: learner.decide(X[0].tolist()),
        lambda: learner.decide(X[:1]),
        lambda: learner.propensities(X[0]),
        lambda: learner.predict(X),
        lambda: learner.scores([X[0]]),
        lambda: ob.simulate(learner, X, [0, 1, 2, 0]),
        lambda: ob.simulate(learner, [(X, [0, 1, 2, 0])]),
        lambda: ob.sweep([ob.Banditron(3), learner], X, [0, 1, 2, 0]),
        lambda: learner.copy().decide(X[0]),
        lambda: pickle.loads(pickle.dumps(learner)).decide(X[0]),
    ):
        with pytest.raises(ValueError, match=says):
            refused()
        assert model_bytes(learner) == before
    with pytest.raises(ValueError, match="has 2 columns, and rows before it had 3"):
        learner.decide([1.0, 2.0])
    learner.decide([0.5, 0.0, 0.0])


def test_rows_that_are_not_dense_are_free_to_grow():
    learner = ob.Banditron(3)
    learner.decide([1.0, 2.0, 3.0])
    for x in (([9], [1.0]), sp.csr_matrix(np.ones((1, 7))), {"a": 1}, ([], []), {}, []):
        learner.decide(x)
        learner.predict([x])
    ob.simulate(learner, sp.csr_matrix(np.ones((2, 40))), [0, 1])
    learner.decide([1.0, 2.0, 3.0])
    later = ob.Banditron(3)
    for x in (([9], [1.0]), {"a": 1}, sp.csr_matrix((1, 4)), []):
        later.decide(x)
    later.predict(np.eye(2))  # looking fixes nothing
    later.propensities([1.0])
    later.decide([1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="rows before it had 4"):
        later.predict(np.eye(2))


def test_the_width_of_dense_rows_is_kept_in_the_file(tmp_path):
    learner = ob.Banditron(3)
    ob.simulate(learner, np.eye(3), [0, 1, 2])
    learner.save(tmp_path / "m")
    again = ob.load(tmp_path / "m")
    assert model_bytes(again) == model_bytes(learner)
    with pytest.raises(ValueError, match="has 2 columns, and rows before it had 3"):
        again.decide([1.0, 2.0])
    head, arrays = saved_state(learner)
    del head["columns"]  # as in files of before
    files.write(tmp_path / "m", head, arrays)
    old = ob.load(tmp_path / "m")
    old.decide([1.0, 2.0])
    assert saved_state(old)[0]["columns"] == 2


def test_a_refused_row_fixes_no_width():
    learner = ob.Banditron(3)
    for call in (
        lambda: learner.decide([1.0, np.nan]),
        lambda: learner.decide([1.0, 2.0], among=["no such label"]),
        lambda: ob.simulate(learner, np.eye(2), [0, 1, 2]),
        lambda: ob.simulate(learner, np.eye(2), [0, 1], channel=ob.Delay(given=[1])),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            call()
    learner.decide([1.0, 2.0, 3.0])


def test_a_list_of_dense_rows_of_different_widths_is_refused():
    rows = [np.ones(3), np.ones(3), ([1], [2.0]), np.ones(5)]
    learner = ob.Banditron(3)
    for call in (learner.predict, lambda X: ob.simulate(learner, X, [0, 1, 2, 0])):
        with pytest.raises(ValueError, match="row 3: a row has 5 columns, and rows before it had"):
            call(rows)
    with pytest.raises(ValueError, match="has 2 columns, and rows before it had 3"):
        ob.sweep(ob.Banditron, np.eye(3), [0, 1, 2], labels=3, test=(np.eye(2), [0, 1]))


# Things that people have.

ACCEPTED = [
    ([Decimal("1.5"), Decimal(2)], [1.5, 2.0]),
    (np.array([1, 2.5], object), [1.0, 2.5]),
    ([Fraction(1, 2), 3], [0.5, 3.0]),
    (np.matrix([[1.0, 2.0]]), [1.0, 2.0]),
    (np.array([1, 2], np.float16), [1.0, 2.0]),
    (array("d", [1, 2]), [1.0, 2.0]),
    (range(1, 3), [1.0, 2.0]),
    (np.array([True, True]), [1.0, 1.0]),
    ({"a": Decimal("1.5")}, {"a": 1.5}),
    ({"a": np.int8(2), "b": np.bool_(True)}, {"a": 2.0, "b": 1.0}),
    ({"a": Decimal("nan"), "b": 1.0}, {"b": 1.0}),
    (([3], [Decimal(2)]), ([3], [2.0])),
]
REFUSED = [
    ({"a": date(2026, 1, 2)}, "feature 'a' must be .* give what matters as numbers or strings"),
    ({"a": np.timedelta64(3, "s")}, "feature 'a' must be .* give what matters as numbers"),
    ({"a": timedelta(1)}, "feature 'a' must be .* give what matters as numbers"),
    ({"a": [1, 2]}, "feature 'a' must be .* give each of its parts a name of its own"),
    ({"a": np.ones(1)}, r"feature 'a' must be .* value\.item\(\)"),
    ({"a": Decimal("inf")}, "feature 'a' is inf"),
    (np.array(["2026-01-02"], "M8[D]"), r"not datetime64\[D\]: give what matters as numbers"),
    (np.zeros(1, [("a", float)]), "not fields with names: make a dict of them"),
    ({1.0, 2.0}, "not set, which has no order: make a list or a dict"),
    (np.array([1.0, None, {}]), "not NoneType, dict: make a dict of a row with text, gaps"),
    (bytearray(b"x"), "not bytes: decode them"),
    (3.0, "not a number: put it into a list"),
    ((1.0, 2.0), "for a row of numbers use a list, for a row of a table a dict"),
    ([10**400, Fraction(1)], "a number is too large for a float"),
]


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL, partial(ob.UCWL, inputs="auto")])
@pytest.mark.parametrize(("x", "same"), ACCEPTED)
def test_numbers_of_every_sort(make, x, same):
    learner, twin = make(2), make(2)
    found, expected = learner.decide(x), twin.decide(same)
    assert np.array_equal(found.indices, expected.indices)
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(learner.scores([x]), twin.scores([same]))
    ob.simulate(learner, [x], [0])


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL, partial(ob.UCWL, inputs="auto")])
@pytest.mark.parametrize(("x", "words"), REFUSED)
def test_what_is_no_context_is_refused_with_a_remedy(make, x, words):
    for call in (make(2).decide, make(2).propensities):
        with pytest.raises((TypeError, ValueError), match=words):
            call(x)
    if not isinstance(x, float):  # a list of numbers is a row itself
        for call in (lambda: make(2).predict([x]), lambda: ob.simulate(make(2), [x], [0])):
            with pytest.raises((TypeError, ValueError), match=words):
                call()


def test_frames_that_are_not_read_yet_and_decimals():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [Decimal("1.5"), Decimal(3)], "b": [1, 2]})
    for call in (ob.OneBit(2).decide, ob.UCWL(2).predict):
        with pytest.raises(TypeError, match=r"LazyFrame: call \.collect\(\) first"):
            call(frame.lazy())
    expected = ob.UCWL(2).decide([1.5, 1.0])
    for x in (frame[0], frame.row(0, named=True)):
        learner = ob.UCWL(2)
        ob.simulate(learner, frame, [0, 1])
        assert np.array_equal(learner.decide(x).values, expected.values)


def test_a_dictionary_of_keys_is_a_sparse_row():
    X = np.ones((3, 9)) * (np.arange(9) > 2)
    matrices = (sp.csr_matrix(X), sp.csr_array(X))
    rows = [matrix.todok()[0] for matrix in matrices] + [m[:1].todok() for m in matrices]
    for make in (ob.OneBit, ob.UCWL, partial(ob.OneBit, inputs="dense", features=9)):
        for row in rows:
            learner, twin = make(2), make(2)
            assert learner.decide(row).indices.tolist() == [3, 4, 5, 6, 7, 8]
            twin.decide(matrices[0][0])
            assert learner.explain(row) == twin.explain(matrices[0][0])
            assert np.array_equal(learner.scores([row]), twin.scores(matrices[0][:1]))
            ob.simulate(learner, [row, row], [0, 1])
