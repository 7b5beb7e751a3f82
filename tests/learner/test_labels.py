"""Labels outside, places inside."""

import enum
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit as ob
from onebit.learner import labels as labels_of
from onebit.learner.labels import MOST, LabelSet
from onebit.service.configuration import check
from onebit.testing import model_bytes

quick = settings(deadline=None, database=None, max_examples=80)


def test_a_number_of_labels_counts_them_from_zero():
    labels = LabelSet(3)
    assert labels.names == [0, 1, 2] and len(labels) == 3 and labels.counted
    assert [labels.place(label) for label in (0, 1, 2)] == [0, 1, 2]


def test_a_numpy_number_of_labels_counts_them_just_the_same():
    labels = LabelSet(np.int64(3))
    assert labels.names == [0, 1, 2] and labels.counted
    assert all(type(name) is int for name in labels.names)
    labels.add()
    assert labels.names == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "given",
    [
        ["b", "a", "c"],
        ("b", "a", "c"),
        np.array(["b", "a", "c"]),
        np.array(["b", "a", "c"], object),
        iter(["b", "a", "c"]),
        {"b": 1, "a": 2, "c": 3},
        [np.str_("b"), "a", "c"],
    ],
)
def test_strings_keep_their_order_and_become_plain_strings(given):
    labels = LabelSet(given)
    assert labels.names == ["b", "a", "c"] and not labels.counted
    assert all(type(name) is str for name in labels.names)
    assert labels.place("a") == 1 and labels.place(np.str_("c")) == 2


@pytest.mark.parametrize(
    "given", [[30, -10, 20], np.array([30, -10, 20]), [np.int8(30), -10, np.int64(20)]]
)
def test_ints_keep_their_order_and_become_plain_ints(given):
    labels = LabelSet(given)
    assert labels.names == [30, -10, 20] and not labels.counted
    assert all(type(name) is int for name in labels.names)
    for label in (-10, np.int64(-10), np.int8(-10)):
        assert labels.place(label) == 1


signs = st.characters(exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp"])  # all that can be seen
texts = st.text(signs, max_size=5).filter(str.strip)


@given(
    st.lists(texts, min_size=2, unique=True)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, unique=True)
)
@quick
def test_place_is_the_inverse_of_names(names):
    labels = LabelSet(names)
    assert [labels.place(name) for name in names] == list(range(len(names)))
    np.testing.assert_array_equal(labels.places(names[::-1]), np.arange(len(names))[::-1])


REFUSED = {
    "one": (1, ValueError, f"between 2 and {MOST}, not 1"),
    "none": (0, ValueError, f"between 2 and {MOST}, not 0"),
    "negative": (-3, ValueError, "between 2 and"),
    "too many": (MOST + 1, ValueError, f"between 2 and {MOST}"),
    "empty": ([], ValueError, "between 2 and .* labels, not 0"),
    "a single string": (["a"], ValueError, "between 2 and .* labels, not 1"),
    "too many in a list": (range(MOST + 1), ValueError, f"not {MOST + 1}"),
    "twice": (["a", "b", "a"], ValueError, "label 'a' occurs twice"),
    "int twice": ([1, 2, 2], ValueError, "label 2 occurs twice"),
    "numpy twice": ([1, 2, np.int64(2)], ValueError, "label 2 occurs twice"),
    "mixed": (["a", 1], TypeError, "all strings or all ints"),
    "bool": (True, TypeError, "not True"),
    "bools": ([True, False], TypeError, "a string or an int, not True"),
    "numpy bools": (np.array([True, False]), TypeError, "a string or an int, not True"),
    "floats": ([0.0, 1.0], TypeError, "a string or an int, not 0.0"),
    "None inside": (["a", None], TypeError, "a string or an int, not None"),
    "bytes inside": ([b"a", b"b"], TypeError, "a string or an int, not b'a'"),
    "a string": ("abc", TypeError, "a number or a list of labels, not 'abc'"),
    "bytes": (b"abc", TypeError, "a number or a list of labels"),
    "a float": (3.0, TypeError, "a number or a list of labels, not 3.0"),
    "None": (None, TypeError, "a number or a list of labels, not None"),
    "no dimension": (np.array(3), TypeError, "a number or a list of labels"),
    "too large": ([0, 2**63], ValueError, "does not fit 64 bits"),
    "too small": ([0, -(2**63) - 1], ValueError, "does not fit 64 bits"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_are_no_labels_is_refused(case):
    labels, error, words = REFUSED[case]
    with pytest.raises(error, match=words):
        LabelSet(labels)


def test_the_most_labels_are_allowed():
    assert len(LabelSet(MOST)) == len(LabelSet(range(MOST))) == MOST


@pytest.mark.parametrize("label", [3, -1, "1", None, True, np.True_, 0.5, [1], {}, np.nan])
def test_an_unknown_label_is_refused_with_those_there_are(label):
    with pytest.raises(ValueError, match=r"no label .*(there are 3: 0, 1, 2|did you mean)"):
        LabelSet(3).place(label)


def test_a_misspelt_label_is_answered_with_the_near_one():
    labels = LabelSet(["sport", "politics", "tech"])
    with pytest.raises(ValueError, match=r"no label 'sports'; did you mean 'sport'\?"):
        labels.place("sports")
    with pytest.raises(
        ValueError, match="no label 'xyz'; there are 3: 'sport', 'politics', 'tech'"
    ):
        labels.place("xyz")
    with pytest.raises(ValueError, match="row 2: no label 'politic'; did you mean 'politics'"):
        labels.places(["tech", "sport", "politic"])


def test_a_string_for_an_int_label_is_answered_with_the_int():
    with pytest.raises(ValueError, match=r"no label '1'; .*1") as refused:
        LabelSet(3).place("1")
    assert "did you mean '1'" not in str(refused.value)


def test_many_labels_are_shown_in_part():
    with pytest.raises(ValueError, match=r"there are 99: 0, 1, 2, 3, 4, 5, 6, 7, \.\.\.$"):
        LabelSet(99).place(99)


@pytest.mark.parametrize(
    "given",
    [
        [2, 0, 1, 0],
        np.array([2, 0, 1, 0], np.uint8),
        np.array([2, 0, 1, 0], np.uint64),
        np.array([2, 9, 0, 9, 1, 9, 0, 9])[::2],
        np.array([2, 0, 1, 0], object),
    ],
)
def test_places_of_counted_labels_are_the_labels(given):
    places = LabelSet(3).places(given)
    assert places.dtype == np.int64 and places.flags.c_contiguous
    np.testing.assert_array_equal(places, [2, 0, 1, 0])


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda x: np.array(x, object)])
def test_places_of_names_are_where_they_stand(kind):
    places = LabelSet(["b", "c", "a"]).places(kind(["a", "b", "a", "c"]))
    assert places.dtype == np.int64
    np.testing.assert_array_equal(places, [2, 0, 2, 1])
    np.testing.assert_array_equal(LabelSet([7, -7]).places(kind([-7, 7, 7])), [1, 0, 0])


def test_no_labels_have_no_places():
    for labels in (LabelSet(3), LabelSet(["a", "b"])):
        assert labels.places([]).shape == (0,) and labels.places([]).dtype == np.int64


BAD_PLACES = {
    "too large": (3, [0, 2, 3, -1], "row 2: no label 3; there are 3: 0, 1, 2"),
    "negative": (3, np.array([0, -1]), "row 1: no label -1"),
    "uint64": (3, np.array([0, 2**64 - 1], np.uint64), "row 1: no label"),
    "bools": (3, [True, False], "a label cannot be True or False"),
    "strings": (3, ["0", "1"], "row 0: no label '0'"),
    "unknown": (["a", "b"], ["a", "c"], "row 1: no label 'c'"),
    "the first of many": (["a", "b"], ["a", "z", "c"], "row 1: no label 'z'"),
    "missing": (["a", "b"], ["a", None], "row 1: no label None"),
    "mixed": (["a", "b"], np.array(["a", 1], object), "row 1: no label 1"),
    "not a number": (3, [0.0, np.nan], "row 1: no label nan"),
    "not whole": ([1, 2], [1.0, 1.5], "row 1: no label 1.5"),
    "two columns": (3, [[0, 1]], r"one column, not an array of shape \(1, 2\)"),
    "no column": (3, 1, "one column, as in a list, not int"),
}


@pytest.mark.parametrize("case", BAD_PLACES)
def test_an_unknown_label_among_many_is_named_with_its_row(case):
    labels, given, words = BAD_PLACES[case]
    with pytest.raises(ValueError, match=words):
        LabelSet(labels).places(given)


def test_a_counted_label_more_is_the_next_number():
    labels = LabelSet(2)
    labels.add()
    labels.add(3)
    assert labels.names == [0, 1, 2, 3] and labels.place(3) == 3
    for wrong in (3, 5, "a", -1):
        with pytest.raises(ValueError, match="the next one is 4"):
            labels.add(wrong)
    assert labels.names == [0, 1, 2, 3] and len(labels) == 4


@pytest.mark.parametrize(
    ("names", "label", "plain"),
    [
        (["a", "b"], "c", "c"),
        (["a", "b"], np.str_("c"), "c"),
        ([5, 7], 6, 6),
        ([5, 7], np.int64(6), 6),
        (2, np.int64(2), 2),
    ],
)
def test_a_named_label_more_comes_last_as_a_plain_value(names, label, plain):
    labels = LabelSet(names)
    labels.add(label)
    assert labels.names[-1] == plain and type(labels.names[-1]) is type(plain)
    assert labels.place(plain) == 2 and labels.place(label) == 2


@pytest.mark.parametrize(
    ("names", "label", "error", "words"),
    [
        (["a", "b"], "a", ValueError, "a label 'a' already"),
        ([5, 7], 7, ValueError, "a label 7 already"),
        (["a", "b"], None, TypeError, "not None"),
        (["a", "b"], 3, TypeError, "all strings or all ints"),
        ([5, 7], "a", TypeError, "all strings or all ints"),
        ([5, 7], True, TypeError, "not True"),
        ([5, 7], 8.0, TypeError, "not 8.0"),
        ([5, 7], 2**63, ValueError, "64 bits"),
        ([5, 7], [8], TypeError, r"list|label"),
        (MOST, None, ValueError, f"between 2 and {MOST}"),
    ],
)
def test_a_refused_label_is_not_added(names, label, error, words):
    labels = LabelSet(names)
    before = list(labels.names)
    with pytest.raises(error, match=words):
        labels.add(label)
    assert labels.names == before and len(labels._place) == len(before)


def test_a_learner_with_a_numpy_label_more_can_be_saved(tmp_path):
    learner = ob.Banditron([5, 7], features=2)
    learner.add_label(np.int64(9))
    learner.save(tmp_path / "m")
    assert ob.load(tmp_path / "m").labels == [5, 7, 9]


def test_a_refused_label_leaves_the_learner_as_it_was():
    learner = ob.Banditron(["a", "b"], features=2)
    learner.learn(learner.decide([1.0, 2.0]), right=True)
    before = model_bytes(learner)
    for label in ("a", 3, None):
        with pytest.raises((TypeError, ValueError)):
            learner.add_label(label)
        assert model_bytes(learner) == before


# Labels of their own kinds.


class Topic(str, enum.Enum):  # noqa: UP042 as written before Python 3.11
    SPORT = "sport"
    TECH = "tech"
    NEWS = "news"


class Plain(enum.StrEnum):
    SPORT = "sport"
    TECH = "tech"
    NEWS = "news"


class Grade(enum.IntEnum):
    GOOD = 3
    FAIR = 1
    POOR = 2


class Shouted(str):
    __slots__ = ()

    def __str__(self):
        return self.upper()

    __repr__ = __str__


KINDS = {
    "str, Enum": list(Topic),
    "the Enum itself": Topic,
    "StrEnum": list(Plain),
    "IntEnum": list(Grade),
    "str of one's own": [Shouted("sport"), Shouted("tech")],
    "numpy's str": [np.str_("sport"), np.str_("tech")],
    "numpy's int": [np.int8(3), np.int64(1)],
}


@pytest.mark.parametrize("case", KINDS)
def test_labels_of_other_kinds_are_their_exact_values(case, tmp_path):
    members = list(KINDS[case])
    kind = str if isinstance(members[0], str) else int
    names = [kind.__str__(m) if kind is str else int(m) for m in members]
    learner = ob.UCWL(KINDS[case], seed=1)
    assert learner.labels == names == members
    assert all(type(label) is kind for label in learner.labels)
    assert repr(learner) == repr(ob.UCWL(names, seed=1))
    for t in range(12):
        member = members[t % len(members)]
        d = learner.decide([1.0, t], among=members)
        assert type(d.label) is kind and type(ob.Decision.from_bytes(d.to_bytes()).label) is kind
        learner.learn(d, label=member)
    assert d.label in members
    learner.save(tmp_path / "m")
    again = ob.load(tmp_path / "m")
    assert again.labels == names and repr(again) == repr(learner)
    rows = np.eye(2)
    assert set(again.predict(rows).tolist()) <= set(names)
    twins = [ob.UCWL(KINDS[case]), ob.UCWL(names)]
    traces = [ob.simulate(twins[0], rows, members[:2]), ob.simulate(twins[1], rows, names[:2])]
    assert (traces[0].mistakes == traces[1].mistakes).all()
    array = np.empty(2, object)
    array[:] = members[:2]
    ob.simulate(learner, rows, array)


def test_a_member_of_an_enum_is_added_as_its_exact_value():
    learner = ob.UCWL(list(Topic)[:2])
    learner.add_label(Topic.NEWS)
    assert learner.labels == ["sport", "tech", "news"] and type(learner.labels[2]) is str
    with pytest.raises(ValueError, match="a label 'news' already"):
        learner.add_label(Plain.NEWS)
    ints = ob.UCWL([Grade.GOOD, Grade.FAIR])
    ints.add_label(Grade.POOR)
    assert ints.labels == [3, 1, 2] and {type(label) for label in ints.labels} == {int}


def test_an_enum_without_values_that_are_labels_is_refused():
    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    with pytest.raises(TypeError, match=r"a label is a string or an int, not <Colour\.RED: 1>"):
        ob.UCWL(Colour)
    with pytest.raises(ValueError, match=r"no label <Colour\.RED: 1>"):
        ob.UCWL([1, 2]).learn(ob.UCWL([1, 2]).decide([1.0]), label=Colour.RED)


def test_a_label_for_which_there_is_no_memory_is_not_added(monkeypatch):
    learner = ob.Confidit(2, form="full", features=8)
    learner.learn(learner.decide(np.ones(8)), right=True)
    before = learner.scores(np.eye(8))
    monkeypatch.setattr("onebit.learner.table._physical_memory", lambda: 1000.0)
    with pytest.raises(MemoryError):
        learner.add_label()
    monkeypatch.undo()
    assert learner.labels == [0, 1] and np.array_equal(learner.scores(np.eye(8)), before)
    learner.copy().add_label()


@pytest.mark.parametrize("label", [["d"], {}, 1.5, True])
def test_what_is_no_label_cannot_be_added(label):
    learner = ob.OneBit(["a", "b"])
    with pytest.raises(TypeError, match="a label is a string or an int, not"):
        learner.add_label(label)
    assert learner.labels == ["a", "b"]


# Labels that nobody could read.

UNREADABLE = {
    "": "label '' is blank",
    " \u3000": "is blank",
    "\u200b": "is blank",
    "\ufeff \u2060": "is blank",
    "\u202e": "is blank",
    "a\nb": "has a line break or another control character",
    "a\r": "has a line break or another control character",
    "a\u2028b": "has a line break or another control character",
    "a\0b": "has a line break or another control character",
    "x" * 201: "has 201 characters; at most 200 are possible",
    "x" * 100_000: "has 100,000 characters; at most 200 are possible",
}


@pytest.mark.parametrize("label", UNREADABLE, ids=lambda label: ascii(label)[:12])
def test_labels_that_nobody_could_read_are_refused_everywhere(tmp_path, label):
    said = UNREADABLE[label]
    with pytest.raises(ValueError, match=said) as refused:
        ob.Banditron(["a", label])
    assert len(str(refused.value)) < 200
    for learner in (ob.Banditron(["a", "b"]), ob.OneBit(["a", "b"])):
        with pytest.raises(ValueError, match=said):
            learner.add_label(label)
        assert learner.labels == ["a", "b"]
    file = tmp_path / "x.toml"
    file.write_text(f"[models.news]\nlabels = {json.dumps(['a', label])}\n")
    with pytest.raises(ValueError, match=said):
        check(file)


@pytest.mark.parametrize("label", ["x" * 200, "👩‍👧", "e\u0301", "می‌خواهم", "not sure", "0"])
def test_readable_labels(label):
    assert ob.Banditron(["a", label]).labels == ["a", label]


def test_a_label_that_is_not_known_is_not_repeated_at_length():
    with pytest.raises(ValueError, match="no label 'xxx") as refused:
        LabelSet(["a", "b"]).place("x" * 100_000)
    assert len(str(refused.value)) < 200


def test_labels_of_earlier_versions_are_kept(tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(labels_of, "check_texts", lambda names: None)
        learner = ob.Banditron(["a", "b\nc", ""])
    learner.save(tmp_path / "m")
    assert ob.load(tmp_path / "m").labels == learner.copy().labels == ["a", "b\nc", ""]
