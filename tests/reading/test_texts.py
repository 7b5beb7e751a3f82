"""Texts, dicts with texts and data frames as contexts: each by its stated rule."""

import collections
import csv
import math
import re
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onebit as ob
from onebit.reading import texts as onebit_texts
from onebit.reading.contexts import encode, encode_rows
from onebit.reading.dicts import HASHED
from onebit.reading.hashing import murmur3
from onebit.reading.texts import NGRAMS, Text, text_columns
from onebit.testing import model_bytes

F32 = np.dtype("float32")
quick = settings(deadline=None, database=None, max_examples=60)
TICKETS = ["my invoice is wrong", "the screen stays black", "I love it", "wrong invoice, again"]
TOPICS = ["billing", "bug", "praise", "billing"]
ROW = {"body": "the screen stays black", "team": "A", "age": 33, "price": 1.5}


def words_of(text):
    """The words of a text, character by character."""
    words, is_open = [], False  # is_open: the last word goes on
    for sign in unicodedata.normalize("NFC", text.lower()):
        kind = unicodedata.category(sign)
        if kind[0] == "M":
            if words and is_open is not None:
                words[-1] += sign
            continue
        is_symbol = sign > "\x7f" and kind in ("So", "Sm", "Sc")
        if "\u4e00" <= sign <= "\u9fff" or "\u0e00" <= sign <= "\u0e7f" or is_symbol:
            words.append(sign)
            is_open = False
        elif sign.isalnum() or sign == "_":
            if is_open:
                words[-1] += sign
            else:
                words.append(sign)
            is_open = True
        else:
            is_open = None  # neither a letter nor a mark belongs to the last word
    return words


def features_of(text, prefix="", ngrams=NGRAMS):
    """The names of a text's features and their values, from the rule alone."""
    words = words_of(text) or [""]
    counts = collections.Counter(
        (prefix + " ".join(words[i : i + length]), length)
        for length in range(1, ngrams + 1)
        for i in range(len(words) - length + 1)
    )
    values = {name: math.log(1 + count) / length for (name, length), count in counts.items()}
    length = math.sqrt(sum(value**2 for value in values.values()))
    return {name: value / length for name, value in values.items()}


def alike(rows, expected):
    for found, wanted in zip(rows[:3], expected[:3], strict=True):
        np.testing.assert_array_equal(found, wanted)


def nearly(row, expected):
    np.testing.assert_array_equal(row[0], expected[0])
    np.testing.assert_allclose(row[1], expected[1], rtol=1e-6)


@given(
    st.text(st.sampled_from("aAbß9_ .\n-éЯ中ทक🙂€\u0301\u0e35"), max_size=40),
    st.sampled_from(["", "body=", "größe="]),
    st.sampled_from([1, 7, HASHED, 2**31 - 1]),
    st.integers(1, 4),
)
@quick
def test_a_text_gives_the_hashed_counts_of_its_words(text, prefix, columns, ngrams):
    sums = {}
    for name, value in features_of(text, prefix, ngrams).items():
        column = abs(murmur3(name)) % columns
        sums[column] = sums.get(column, 0.0) + (value if murmur3(name) >= 0 else -value)
    found, values = text_columns(text, columns, prefix, ngrams)
    assert found.tolist() == sorted(sums)
    np.testing.assert_allclose(values, [sums[column] for column in sorted(sums)], atol=1e-12)


@pytest.mark.parametrize("features", [None, 50])
def test_a_text_is_the_dict_of_its_words(features):
    text = "Wrong, wrong: my invoice!"
    nearly(encode(text, F32, features), encode(features_of(text), F32, features))
    row = {"body": text, "age": 3}
    expected = {**features_of(text, "body="), "age": 3}
    nearly(encode(row, F32, features), encode(expected, F32, features))


def test_a_text_has_length_1_and_counts_grow_slowly():
    for text in TICKETS:
        assert np.linalg.norm(encode(text, F32, None)[1]) == pytest.approx(1)
    row = features_of("no no no yes", ngrams=1)
    assert row["no"] / row["yes"] == pytest.approx(2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("ที่ ๑๒", ["ที่", "๑๒"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("我喜欢 abc中文", ["我", "喜", "欢", "abc", "中", "文"]),
        ("とカー", ["と", "カ", "ー"]),
        ("ខ្មែរ", ["ខ្", "មែ", "រ"]),
        ("cafe\u0301 CAFÉ", ["café", "café"]),
        ("👍🏽🙂🙂 👩\u200d💻 🇩🇪🇫🇷 ❤\ufe0f", ["👍🏽", "🙂", "🙂", "👩\u200d💻", "🇩🇪", "🇫🇷", "❤"]),
        ("می\u200cخواهم\u200c", ["می\u200cخواهم"]),
        ("“Straße” – Ωμέγα, don’t … 한국어", ["straße", "ωμέγα", "don", "t", "한국어"]),
        ("5 €, $3 + 1", ["5", "€", "3", "1"]),
    ],
)
def test_words_of_other_scripts(text, words):
    assert onebit_texts.words_of(text) == words == onebit_texts.words_of(" ".join(words))


@given(st.text(st.characters(max_codepoint=127), max_size=60))
@quick
def test_words_in_ascii_are_runs_of_letters_and_digits(text):
    assert onebit_texts.words_of(text) == re.findall(r"[a-z0-9_]+", text.lower())


def test_in_a_dict_letters_without_spaces_make_a_text():
    assert all(map(onebit_texts.is_text, ["我喜欢", "ภาษา", "かな", "A中文"]))
    assert not any(map(onebit_texts.is_text, ["我", "A", "Größe", "می\u200cخواهم", "한국어", "🙂"]))
    row = encode({"body": "我喜"}, F32, None)
    nearly(row, encode(features_of("我喜", "body="), F32, None))


@pytest.mark.parametrize("text", ["", " ", "?!", "\n", "…—"])
def test_a_text_without_words_is_a_context_to_learn_from(text):
    alike(encode(text, F32, None), encode({"": 1}, F32, None))
    alike(encode({"body": Text(text)}, F32, None), encode({"body": None}, F32, None))
    for learner in (ob.UCWL(labels=3), ob.OneBit(labels=3), ob.OneBit(labels=2)):
        said = []
        for _ in range(30):
            decision = learner.decide(text)
            said.append(decision.label)
            learner.learn(decision, right=decision.label == 1)
        assert said[-20:] == [1] * 20
        assert not learner.explain(text).parts


def test_in_a_dict_white_space_makes_a_text_and_anything_else_a_category():
    alike(encode({"city": "Oslo"}, F32, None), encode({"city=Oslo": 1}, F32, None))
    alike(encode({"city": " Oslo"}, F32, None), encode({"city= Oslo": 1}, F32, None))
    alike(encode({"mail": "me@home.no"}, F32, None), encode({"mail=me@home.no": 1}, F32, None))
    for text in ("New York", "New\nYork", "New\u00a0York"):
        expected = encode(features_of("new york", "city="), F32, None)
        nearly(encode({"city": text}, F32, None), expected)
    grades = [encode({"grade": f"class {letter}"}, F32, None) for letter in "AB"]
    assert grades[0][0].tolist() != grades[1][0].tolist()


@pytest.mark.parametrize("learner", [ob.OneBit, ob.UCWL])
def test_texts_teach_in_a_stream_what_they_teach_in_rounds(learner):
    texts, y = TICKETS * 12, TOPICS * 12
    whole, single = (learner(labels=["billing", "bug", "praise"], features=512) for _ in range(2))
    trace = ob.simulate(whole, texts, y)
    for text, topic in zip(texts, y, strict=True):
        decision = single.decide(text)
        single.learn(decision, right=decision.label == topic)
    assert model_bytes(whole) == model_bytes(single)
    assert trace.mistakes[-1] < 24
    assert whole.predict(TICKETS).tolist() == TOPICS


def test_a_column_of_texts_may_be_a_list_an_array_or_a_series():
    polars = pytest.importorskip("polars")
    expected = encode_rows([encode(text, F32, None) for text in TICKETS], F32, None)
    for texts in (
        TICKETS,
        np.array(TICKETS),
        np.array(TICKETS, object),
        polars.Series(TICKETS),
        polars.Series(TICKETS, dtype=polars.Categorical),
    ):
        alike(encode_rows(texts, F32, None), expected)
    missing = [None, *TICKETS, math.nan]
    alike(encode_rows(missing, F32, None), encode_rows(["", *TICKETS, ""], F32, None))
    alike(
        encode_rows(polars.Series(missing[:-1]), F32, None), encode_rows(["", *TICKETS], F32, None)
    )


def test_a_tuple_of_texts_is_many_contexts():
    by_list, by_tuple = ob.UCWL(["billing", "bug", "praise"]), ob.UCWL(["billing", "bug", "praise"])
    ob.simulate(by_list, TICKETS, TOPICS)
    ob.simulate(by_tuple, tuple(TICKETS), TOPICS)
    assert np.array_equal(by_tuple.scores(tuple(TICKETS)), by_list.scores(TICKETS))
    for texts in (("a text", "another"), ("a text", None, "another")):
        assert len(by_list.predict(texts)) == len(texts)
        with pytest.raises(TypeError, match="one context is one text, not a tuple of texts"):
            by_list.decide(texts)


def test_sweep_and_tune_take_texts():
    texts, y = TICKETS * 6, TOPICS * 6
    settings = {"labels": sorted(set(TOPICS)), "features": 64}
    run = ob.sweep(ob.Banditron, texts, y, gamma=[0.1], **settings)[0]
    trace = ob.simulate(ob.Banditron(gamma=0.1, **settings), texts, y)
    assert run.trace.mistakes.tolist() == trace.mistakes.tolist()
    tuned = ob.tune(ob.Banditron, texts, y, grid={"gamma": [0.1, 0.2]}, repeats=1)
    assert tuned.found.error < 0.75


def test_prepared_texts_are_texts():
    steps = ob.datasets.Steps(["binary"])
    data = ob.datasets.prepare(np.array(TICKETS), ["binary"])
    for text, row in zip(TICKETS, data, strict=True):
        alike(steps(text), encode(row, F32, None))
        assert set(row.data.tolist()) == {1}


# Tables and frames.

DICTS = [
    ROW,
    {"body": "no", "team": None, "age": -2, "price": math.nan},
    {"body": "I love, love it", "team": "B 2", "age": 0, "price": 1e3},
]


@pytest.fixture
def frame():
    polars = pytest.importorskip("polars")
    return polars.DataFrame(DICTS)


def test_a_row_of_csv_of_parquet_of_a_frame_and_its_dict_are_one_context(frame, tmp_path):
    labelled = [{**row, "label": topic} for row, topic in zip(DICTS, TOPICS, strict=False)]
    with open(tmp_path / "a.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, labelled[0])
        writer.writeheader()
        writer.writerows(labelled)
    frame.with_columns(label=np.array(TOPICS[:3])).write_parquet(tmp_path / "a.parquet")
    expected = encode_rows(DICTS, F32, None)
    for rows in (
        [encode(row, F32, None) for row in DICTS],
        frame,
        frame.to_dicts(),
        [frame[i] for i in range(3)],
        ob.datasets.read(tmp_path / "a.csv").X,
        ob.datasets.read(tmp_path / "a.parquet").X,
    ):
        alike(encode_rows(rows, F32, None), expected)


def test_a_frame_of_numbers_is_a_matrix(frame):
    numbers = frame.select("age").with_columns(height=np.array([1.5, 2.5, 0.0]))
    alike(encode_rows(numbers, F32, None), encode_rows(numbers.to_numpy(), F32, None))
    learner = ob.UCWL(labels=2)
    ob.simulate(learner, numbers, [0, 1, 0])
    assert learner.predict(numbers).shape == (3,)
    with pytest.raises(ValueError, match=r"row 1: .* index 0 is nan; put a number"):
        learner.predict(numbers.with_columns(age=np.array([1, math.nan, 2])))


def test_frames_that_cannot_be_read_change_nothing(frame):
    polars = pytest.importorskip("polars")
    learner = ob.UCWL(labels=3, features=64)
    ob.simulate(learner, frame, [0, 1, 2])
    before = model_bytes(learner)
    for column, says in (
        (polars.Series([b"a", b"b", b"c"]), "row 0: feature 'age' must be a number or a string"),
        (polars.Series([[1], [2], [3]]), "row 0: feature 'age' must be a number or a string"),
        (polars.Series([1.0, 2.0, math.inf]), "row 2: feature 'age' is inf; leave it out"),
    ):
        wrong = frame.with_columns(age=column)
        for call in (learner.predict, lambda X: ob.simulate(learner, X, [0, 1, 2])):
            with pytest.raises((TypeError, ValueError), match=says):
                call(wrong)
    for call in (learner.decide, learner.propensities):
        with pytest.raises(ValueError, match="one context is one row, not 3"):
            call(frame)
    assert model_bytes(learner) == before


def test_rows_of_pandas_are_contexts():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(DICTS)
    expected = encode_rows(table.to_dict("records"), F32, None)
    alike(encode_rows(table, F32, None), expected)
    alike(encode_rows([row for _, row in table.iterrows()], F32, None), expected)
    alike(encode_rows([table.iloc[[i]] for i in range(3)], F32, None), expected)
    whole = table.assign(team=["A", "B", "C"], age=table["age"].astype("Int64"))
    alike(encode(whole.iloc[0], F32, None), encode(ROW, F32, None))
    alike(
        encode({**ROW, "price": pandas.NA}, F32, None),
        encode({**ROW, "price": math.nan}, F32, None),
    )
    alike(
        encode_rows(table["body"], F32, None),
        encode_rows([row["body"] for row in DICTS], F32, None),
    )
    numbers = table[["age"]].assign(height=1.5)
    alike(encode_rows(numbers, F32, None), encode_rows(numbers.to_numpy(), F32, None))
    learner = ob.UCWL(labels=2)
    learner.decide(numbers.iloc[0])
    with pytest.raises(ValueError, match="has 3 columns, and rows before it had 2"):
        learner.predict(numbers.assign(weight=1))
    twice = table.rename(columns={"team": "body"})
    with pytest.raises(ValueError, match="two columns of the frame have the same name"):
        learner.predict(twice)


def test_a_column_of_strings_that_are_all_missing_is_a_column_of_texts():
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    learner = ob.OneBit(2)
    learner.learn(learner.decide("a text"), right=True)
    wanted = learner.scores(["", ""])
    for column in (
        polars.Series([None, None], dtype=polars.String),
        pandas.Series([None, None], dtype="string"),
        pandas.Series([None, None], dtype="str"),
    ):
        assert np.array_equal(learner.scores(column), wanted)
