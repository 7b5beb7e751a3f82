"""onebit.sklearn: scikit-learn's own checks, and that the game gives away one bit per row."""

from __future__ import annotations

import importlib
import math
import pickle
import re
import subprocess
import sys
from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from helpers.waiting import PATIENCE
from scipy import sparse

import onebit as ob
from onebit.registry.recipes import Recipe

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install '.[sklearn]'")

from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from onebit.sklearn import OneBitClassifier

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
SHUFFLED = np.random.default_rng(0).permutation(len(Y))


@parametrize_with_checks([OneBitClassifier("Banditron", epochs=5)])
def test_checks_of_sklearn(estimator, check):
    check(estimator)


@pytest.mark.thorough
@parametrize_with_checks([OneBitClassifier()])
def test_checks_of_sklearn_on_the_default_learner(estimator, check):
    check(estimator)


# The game.


def test_a_row_is_decided_and_then_answered_right_or_wrong():
    rows, names = X[SHUFFLED], NAMES[SHUFFLED]
    model = OneBitClassifier("UCWL", seed=3).partial_fit(rows[:70], names[:70], np.unique(NAMES))
    model.partial_fit(rows[70:], names[70:])
    by_hand, mistakes = ob.UCWL(labels=model.classes_.tolist(), seed=3), 0
    for x, name in zip(rows, names, strict=True):
        decision = by_hand.decide(x)
        by_hand.learn(decision, right=decision.label == name)
        mistakes += decision.label != name
    assert np.array_equal(model.learner_.weights, by_hand.weights)
    assert model.learner_.round == len(rows)
    assert model.mistakes_ == mistakes > 0
    assert np.array_equal(model.predict(rows), by_hand.predict(rows))


def test_onebit_learns_iris_though_its_rows_are_sorted_by_label():
    model = OneBitClassifier().fit(X, NAMES)
    assert isinstance(model.learner_, ob.OneBit)
    assert model.score(X, NAMES) > 0.9
    assert model.learner_.round == len(X) and model.n_features_in_ == 4
    forecasts = np.maximum(model.learner_.scores(X).astype(float), 0)
    shares = model.predict_proba(X)
    assert np.allclose(shares, forecasts / forecasts.sum(axis=1, keepdims=True))
    assert np.array_equal(model.classes_[shares.argmax(axis=1)], model.predict(X))


def test_a_row_without_any_forecast_has_equal_probabilities():
    model = OneBitClassifier("FastCB").partial_fit(
        sparse.csr_array(X[:2]), Y[:2], classes=[0, 1, 2]
    )
    assert np.allclose(model.predict_proba(sparse.csr_array((1, 4))), 1 / 3)


def test_probabilities_of_scores_without_a_unit_are_their_softmax():
    model = OneBitClassifier("Banditron").fit(X, Y)
    odds = np.exp(model.learner_.scores(X[:5]).astype(float))
    assert np.allclose(model.predict_proba(X[:5]), odds / odds.sum(axis=1, keepdims=True))


def test_a_reference_is_told_the_true_labels():
    model = OneBitClassifier("AROW", epochs=3).fit(X, NAMES)
    assert model.score(X, NAMES) > 0.9 and model.learner_.round == 3 * len(X)


def test_sparse_rows_are_the_same_rows():
    dense = OneBitClassifier("Banditron").fit(X, Y)
    other = OneBitClassifier("Banditron").fit(sparse.csc_array(X), Y)
    assert np.array_equal(dense.predict_proba(X), other.predict_proba(sparse.coo_array(X)))


def test_fit_starts_anew_and_the_seed_decides_the_order():
    model = OneBitClassifier("Banditron").fit(X, Y)
    first = model.predict_proba(X)
    assert np.array_equal(model.fit(X, Y).predict_proba(X), first)
    assert not np.array_equal(clone(model).set_params(seed=1).fit(X, Y).predict_proba(X), first)


# Labels.


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["no", "yes"], ["no", "yes"]),
        (np.array(["no", "yes"], object), ["no", "yes"]),
        ([-1, 7], [-1, 7]),
        ([False, True], [0, 1]),
        ([0.0, 1.0], [0, 1]),
    ],
    ids=["str", "object", "int", "bool", "float"],
)
def test_labels_of_all_kinds(labels, names):
    y = np.asarray(labels)[(Y > 0).astype(int)]
    model = OneBitClassifier("UCWL", epochs=2).fit(X, y)
    assert model.learner_.labels == names
    assert model.predict(X).dtype == y.dtype and model.score(X, y) > 0.9


def test_labels_that_come_later_are_named_in_the_first_call():
    model = OneBitClassifier("UCWL").partial_fit(X[:50], NAMES[:50], classes=np.unique(NAMES))
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    model.partial_fit(X[50:], NAMES[50:], classes=["virginica", "versicolor", "setosa"])
    assert model.predict_proba(X).shape == (150, 3)


# In scikit-learn's machinery.


def test_pipeline_search_and_cross_validation():
    model = make_pipeline(StandardScaler(), OneBitClassifier("Banditron", epochs=5))
    assert cross_val_score(model, X, NAMES, scoring="roc_auc_ovr").mean() > 0.8
    learners = ["UniformRandom", "UCWL:eta=0.9", partial(ob.Banditron, gamma=0.1)]
    search = GridSearchCV(model, {"onebitclassifier__learner": learners}, cv=3).fit(X, NAMES)
    chance, *learned = search.cv_results_["mean_test_score"]
    assert chance < 0.4 and min(learned) > 0.7
    assert search.best_score_ == max(learned) and search.score(X, NAMES) > 0.7


def test_texts_in_a_pipeline():
    texts = ["goal and match", "vote and law", "match and cup", "law and court"] * 10
    topics = ["sport", "politics"] * 20
    model = make_pipeline(TfidfVectorizer(), OneBitClassifier("UCWL")).fit(texts, topics)
    assert model.predict(["a cup match", "the court"]).tolist() == ["sport", "politics"]


TICKETS = ["the goal of the match", "the vote on the law", "a cup match", "the court reads the law"]
TOPICS = np.array(["sport", "politics"] * 20)


def as_array(rows):
    return np.array(rows, object)


def as_dicts(rows):
    return [{"body": text, "team": "A", "age": 3.0} for text in rows]


def as_polars(rows):
    return pytest.importorskip("polars").DataFrame(as_dicts(rows))


def as_pandas(rows):
    return pytest.importorskip("pandas").DataFrame(as_dicts(rows))


def as_column(rows):
    return pytest.importorskip("pandas").Series(rows)


@pytest.mark.parametrize("form", [list, as_array, as_dicts, as_polars, as_pandas, as_column])
def test_texts_and_tables_are_read_by_onebit(form):
    rows = form(TICKETS * 10)
    model = OneBitClassifier("UCWL").fit(rows, TOPICS)
    unseen = form(["a match of the cup", "the vote of the court"])
    assert model.predict(unseen).tolist() == ["sport", "politics"]
    assert model.predict_proba(unseen).shape == (2, 2)
    by_hand = ob.UCWL(labels=["politics", "sport"])
    ob.simulate(by_hand, rows, TOPICS, order="shuffled")
    assert np.array_equal(model.learner_.weights, by_hand.weights)
    again = OneBitClassifier("UCWL").partial_fit(rows, TOPICS, classes=["sport", "politics"])
    assert again.partial_fit(rows, TOPICS).score(rows, TOPICS) == 1
    assert cross_val_score(OneBitClassifier("UCWL"), rows, TOPICS, cv=3).min() > 0.8


def test_a_text_or_a_dict_is_decided_on():
    model = OneBitClassifier("UCWL").fit(TICKETS * 10, TOPICS)
    decision = model.decide("a match of the cup")
    model.learn(decision, right=True)
    assert decision.label == "sport" and not hasattr(model, "n_features_in_")
    table = OneBitClassifier("UCWL").fit(as_dicts(TICKETS * 10), TOPICS)
    assert table.decide(as_dicts(["the court"])[0]).label == "politics"
    frame = as_polars(TICKETS * 10)
    table = OneBitClassifier("UCWL").fit(frame, TOPICS)
    assert table.n_features_in_ == 3 and list(table.feature_names_in_) == ["body", "team", "age"]
    assert table.decide(frame.row(0, named=True)).label == "sport"
    assert np.array_equal(table.predict(frame.to_dicts()), table.predict(frame))
    table.partial_fit(frame.to_dicts(), TOPICS)
    with pytest.raises(ValueError, match="feature names"):
        table.predict(frame.rename({"body": "text"}))


def test_texts_and_matrices_do_not_mix():
    model = OneBitClassifier("UCWL").fit(TICKETS * 10, TOPICS)
    for call in (model.predict, lambda rows: model.decide(rows[0])):
        with pytest.raises(ValueError, match=r"X is a matrix, and .* fitted with texts or dicts"):
            call(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(TICKETS, TOPICS)
    assert model.predict(["the law"]) == ["politics"]
    model.fit(X, NAMES)
    for call in (lambda rows: model.predict(rows), lambda rows: model.decide(rows[0])):
        with pytest.raises(ValueError, match=r"X is texts or dicts, and .* with a matrix"):
            call(TICKETS)
    model.fit(TICKETS * 10, TOPICS)
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(("rows", "kind"), [("the law", "text"), ({"a": 1}, "dict")])
def test_a_single_context_is_to_be_put_into_a_list(rows, kind):
    for fitted in (TICKETS * 10, np.ones((len(TOPICS), 2))):
        model = OneBitClassifier("UCWL").fit(fitted, TOPICS)
        calls = (
            model.predict,
            model.predict_proba,
            lambda rows: OneBitClassifier("UCWL").fit(rows, ["a"]),
        )
        for call in calls:
            with pytest.raises(ValueError, match=f"X is a single {kind}, .* put it into a list"):
                call(rows)


@pytest.mark.parametrize("form", [list, as_array, as_column])
def test_no_texts_have_no_labels(form):
    model = OneBitClassifier().fit(TICKETS * 10, TOPICS)
    none = form(TICKETS)[:0]
    assert model.predict(none).shape == (0,) and model.predict(none).dtype == model.classes_.dtype
    assert model.predict_proba(none).shape == (0, len(model.classes_))
    with pytest.raises(ValueError, match="X has no rows: partial_fit needs at least one"):
        model.partial_fit(none, [])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_model_of_a_frame_wants_its_columns(library):
    make = pytest.importorskip(library).DataFrame
    numbers = make({f"x{j}": np.arange(40.0) + j for j in range(7)})
    frames = [
        (make(as_dicts(TICKETS * 10)), "'body', 'team', 'age'"),
        (numbers, "'x0', 'x1', 'x2', 'x3', 'x4', ..."),
    ]
    for frame, columns in frames:
        model = OneBitClassifier("UCWL").fit(frame, TOPICS)
        calls = (
            model.predict,
            lambda rows, model=model: model.partial_fit(rows, ["politics"]),
            lambda rows, model=model: model.decide(rows[0]),
        )
        for call in calls:
            message = (
                f"fitted with a data frame: give a frame or dicts with its columns ({columns})"
            )
            with pytest.raises(ValueError, match=re.escape(message)):
                call(["the law"])


def test_a_pickled_model_goes_on():
    model = OneBitClassifier("Banditron").fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    for same in (model, again):
        same.partial_fit(X[:20], Y[:20])
    assert np.array_equal(model.predict_proba(X), again.predict_proba(X))
    assert model.mistakes_ == again.mistakes_


@pytest.mark.parametrize(
    "learner",
    ["banditron:gamma=0.2", Recipe(ob.Banditron, {"gamma": 0.2}), partial(ob.Banditron, gamma=0.2)],
    ids=["name", "recipe", "function"],
)
def test_forms_of_a_learner(learner):
    model = clone(OneBitClassifier(learner, seed=5)).fit(X, Y)
    assert model.learner_.settings["gamma"] == 0.2 and model.learner_.seed == 5


def test_a_class_is_a_learner():
    assert isinstance(OneBitClassifier(ob.UCWL).fit(X, Y).learner_, ob.UCWL)


# Live.


@pytest.mark.parametrize(
    "row",
    [X[0], X[0].tolist(), X[:1], sparse.csr_array(X[:1]), sparse.coo_array(X[0])],
    ids=["array", "list", "matrix", "sparse", "sparse, one dimension"],
)
def test_decide_and_learn(row):
    model = OneBitClassifier("UCWL").fit(X, NAMES)
    before = model.learner_.weights
    decision = model.decide(row, among=["setosa", "virginica"])
    assert decision.label in ("setosa", "virginica")
    model.learn(decision, right=decision.label != "setosa")
    assert model.learner_.round == len(X) + 1
    assert not np.array_equal(model.learner_.weights, before)


def test_a_live_label_may_be_named():
    model = OneBitClassifier("UCWL").fit(X, NAMES)
    for _ in range(20):
        model.learn(model.decide(X[0]), label="virginica")
    assert model.predict(X[:1]) == ["virginica"]


# Refusals.


def test_before_fit():
    for call in (lambda m: m.decide(X[0]), lambda m: m.learn(None), lambda m: m.predict_proba(X)):
        with pytest.raises(NotFittedError):
            call(OneBitClassifier())


def test_decide_wants_one_row_of_the_width_of_fit():
    model = OneBitClassifier("Banditron").fit(X, Y)
    with pytest.raises(ValueError, match="3 features, but OneBitClassifier is expecting 4"):
        model.decide(X[0, :3])
    with pytest.raises(ValueError, match="one context is one row"):
        model.decide(X[:2])


@pytest.mark.parametrize(
    ("learner", "error", "message"),
    [
        ("Banditon", ValueError, "no learner 'Banditon'"),
        ("Banditron:gama=1", ValueError, "gama"),
        (3, TypeError, "learner must be a name"),
        (lambda labels, seed: "mine", TypeError, "made 'mine'"),
        (Recipe(ob.UCWL, {}, ("unit_norm",)), ValueError, "rows prepared by unit_norm"),
    ],
)
def test_what_is_no_learner(learner, error, message):
    with pytest.raises(error, match=message):
        OneBitClassifier(learner).fit(X, Y)


def test_wrong_labels():
    with pytest.raises(ValueError, match="at least two classes, and there is one class: 0"):
        OneBitClassifier().fit(X[:50], Y[:50])
    model = OneBitClassifier("Banditron")
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"not in classes: \[2\]"):
        model.partial_fit(X, Y, classes=[0, 1])
    model.partial_fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match="not the same as on the first call"):
        model.partial_fit(X, Y, classes=[0, 1, 2])


def test_without_sklearn_the_import_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "onebit.sklearn")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match=r"onebit\.sklearn needs scikit-learn.*pip install"):
        importlib.import_module("onebit.sklearn")


def test_onebit_itself_imports_neither_library():
    code = "import sys, onebit; sys.exit(bool({'sklearn', 'river', 'numba'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=PATIENCE).returncode == 0


def test_rows_of_a_table_keep_their_numbers_in_splits(tmp_path):
    rng = np.random.default_rng(0)
    ages = rng.normal(5000, 1000, 300).round(1)
    body = rng.choice(["some words", "other words"], len(ages))
    y = np.where(ages > 5000, "old", "new")
    rows = [f"{text},{age},{label}" for text, age, label in zip(body, ages, y, strict=True)]
    (tmp_path / "ages.csv").write_text("\n".join(["body,age,label", *rows]) + "\n")
    data = ob.datasets.read(tmp_path / "ages.csv")
    X_train, X_test, y_train, y_test = train_test_split(data.X, y, random_state=0)
    assert OneBitClassifier().fit(X_train, y_train).score(X_test, y_test) > 0.9
    assert cross_val_score(OneBitClassifier(), data.X, y, cv=3).min() > 0.9


def test_a_named_tuple_is_a_row_of_a_matrix():
    Point = namedtuple("Point", "a b")
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = OneBitClassifier().fit(X, (X[:, 0] > 0).astype(int))
    for row in X[:5]:
        assert model.decide(Point(*row)).greedy == model.predict([row])[0]


def test_a_model_of_a_frame_of_numbers_reads_its_rows_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    model = OneBitClassifier().fit(frame, NAMES)
    assert model.learner_.reader.names == ("a", "b", "c", "d")
    dicts = frame.iloc[:9].to_dict("records")
    assert model.predict(dicts).tolist() == model.predict(frame.iloc[:9]).tolist()
    wanted = model.decide(frame.iloc[:1]).row
    for x in (frame.iloc[0], dicts[0], dict(reversed(dicts[0].items()))):
        decision = model.decide(x)
        assert all(map(np.array_equal, decision.row, wanted))
        model.learn(decision, right=True)
    with pytest.raises(ValueError, match="knows no column 'e'"):
        model.decide({**dicts[0], "e": 1})
    model.partial_fit(frame.iloc[:3], NAMES[:3])
    of_array = OneBitClassifier().fit(X, NAMES)
    with pytest.raises(ValueError, match="was fitted with a matrix"):
        of_array.decide(dicts[0])


def test_an_array_that_mixes_texts_and_numbers_has_a_remedy():
    rows, y = [["A", 1.0], ["B", 2.0]] * 10, [0, 1] * 10
    fitted = OneBitClassifier("Banditron").fit(np.eye(20)[:, :2], y)
    for X in (np.array(rows, object), np.array(rows), rows):
        for call in (
            lambda X: OneBitClassifier().fit(X, y),
            lambda X: OneBitClassifier().partial_fit(X, y, classes=[0, 1]),
            fitted.predict,
            lambda X: fitted.decide(X[0]),
        ):
            with pytest.raises(ValueError, match="X must be a data frame or a list of dicts"):
                call(X)


def test_an_array_of_objects_is_rows_of_the_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"team": ["A", "B"] * 20, "age": [3.0, 5.0] * 20})
    model = OneBitClassifier().fit(frame, ["old", "new"] * 20)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert model.predict(frame.to_numpy()).tolist() == model.predict(frame).tolist()
    with pytest.raises(ValueError, match="was fitted with texts or dicts"):
        model.predict(frame.to_numpy()[:, :1])


def test_missing_texts_have_no_words():
    model = OneBitClassifier().fit(["a goal", "a vote"] * 20, ["sport", "politics"] * 20)
    assert model.predict([None, math.nan]).tolist() == model.predict(["", ""]).tolist()
    with pytest.raises(ValueError, match="Expected 2D array"):
        OneBitClassifier().fit(X, NAMES).predict([None])
