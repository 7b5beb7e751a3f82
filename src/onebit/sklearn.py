"""OneBitClassifier: any learner of onebit as a classifier of scikit-learn.

from onebit.sklearn import OneBitClassifier

model = OneBitClassifier()
model.fit(texts, topics)            # or a matrix, or a data frame
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from onebit.core.extras import how_to_install

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        f"onebit.sklearn needs scikit-learn 1.6 or newer: {how_to_install('sklearn')}"
    ) from error

from onebit.adapters import LearnerMaker, label_probabilities, make_learner
from onebit.lab.simulation import simulate_rows, warn_of_columns
from onebit.lab.truth import TrueLabels
from onebit.learner.decision import Decision
from onebit.reading.frames import NamedColumns, dicts_of, listed, names_of, row_of_frame
from onebit.reading.rows import is_missing

_ROWS: dict[str, Any] = {"accept_sparse": "csr", "dtype": (np.float64, np.float32)}


def _read_by_onebit(X: Any) -> list[Any] | None:
    """Texts or dicts as a list, and the rows of a frame with strings as dicts; None: a matrix."""
    if isinstance(X, str | Mapping) and not hasattr(X, "tocsr"):
        kind = "text" if isinstance(X, str) else "dict"
        raise ValueError(f"X is a single {kind}, and should be many rows: put it into a list")
    rows = listed(X)
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        return None
    return list(rows) if any(isinstance(row, str | Mapping) for row in rows) else None


def _are_missing(X: Any) -> bool:
    """Whether X is a list or column of missing texts."""
    rows = listed(X)
    return isinstance(rows, list) and len(rows) > 0 and all(map(is_missing, rows))


def _is_empty(X: Any) -> bool:
    """Whether X is a list, a column or a frame with strings, without any row."""
    rows = listed(X)
    return isinstance(rows, list) and not rows


def _are_dicts(X: Any) -> bool:
    """Whether X is a list of dicts. A dict names its values, so there are no columns to compare."""
    return isinstance(X, Sequence) and all(isinstance(row, Mapping) for row in X)


class OneBitClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that learns from one-bit feedback, simulated from the true labels.

    For every row the learner says a label and learns whether that label is right. Only references
    such as AROW receive the true label.

    X is a matrix, or rows that onebit reads itself: a list or column of texts, a list of dicts, or
    a data frame that has columns of strings.

    learner: a learner's name, with settings if need be ("UCWL:eta=0.9"); a recipe or its file; or a
    class or function that is called as learner(labels, seed=seed). epochs: how often `fit` plays
    all rows, each time in a new random order. seed: of the learner and of the order of rows.

    After `fit` or `partial_fit` there are `classes_` (the labels, sorted), `n_features_in_` (unless
    rows are texts or dicts), `learner_` (the learner itself) and `mistakes_` (how many labels it
    said that were wrong). The learner's labels are `classes_` if these are strings or ints, and
    else places in `classes_`.
    """

    classes_: np.ndarray
    feature_names_in_: np.ndarray  # of a frame

    def __init__(self, learner: LearnerMaker = "OneBit", *, epochs: int = 1, seed: int = 0) -> None:
        self.learner = learner
        self.epochs = epochs
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._takes_gaps()
        return tags

    def _takes_gaps(self) -> bool:
        """Whether `fit` takes a matrix with NaN: the learner reads it as missing."""
        try:
            return make_learner(self.learner, 2, 0).reader.way.takes_gaps
        except Exception:  # of the user's code, or a setting: `fit` says what is wrong
            return False

    def _validated(self, *given: Any, reset: bool) -> Any:
        """X, or X and y, checked by scikit-learn."""
        takes_gaps = self._takes_gaps() if reset else self.learner_.reader.way.takes_gaps
        finite = "allow-nan" if takes_gaps else True
        try:
            return validate_data(self, *given, reset=reset, ensure_all_finite=finite, **_ROWS)
        except ValueError as error:
            if "could not convert string to float" not in str(error):
                raise
            raise ValueError(
                f"{error}; an array holds numbers alone: with texts or categories beside them, X "
                "must be a data frame or a list of dicts"
            ) from None

    def fit(self, X: Any, y: Any) -> OneBitClassifier:
        """Learn all rows with a new learner, in random order."""
        X, y = self._rows_and_labels(X, y, is_first=True)
        check_classification_targets(y)
        self._start(np.unique(y))
        return self._play(X, y, self.epochs, "shuffled")

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> OneBitClassifier:
        """Learn more rows, in the given order.

        classes: all labels that may come, wanted in the first call unless `fit` came before.
        """
        is_first = not hasattr(self, "learner_")
        if is_first and classes is None:
            raise ValueError("classes must be passed on the first call to partial_fit.")
        X, y = self._rows_and_labels(X, y, is_first)
        check_classification_targets(y)
        if is_first:
            self._start(unique_labels(classes))
        elif classes is not None and not np.array_equal(self.classes_, unique_labels(classes)):
            raise ValueError(
                f"classes={classes!r} is not the same as on the first call to partial_fit, "
                f"{self.classes_!r}"
            )
        return self._play(X, y, 1, "given")

    def _start(self, classes: np.ndarray) -> None:
        if len(classes) < 2:
            raise ValueError(
                f"OneBitClassifier needs at least two classes, and there is one class: {classes[0]}"
            )
        names = classes.tolist()
        is_named = all(type(name) in (str, int) for name in names)
        self.learner_ = make_learner(self.learner, names if is_named else len(names), self.seed)
        self.classes_ = classes
        self.mistakes_ = 0

    def _play(self, X: Any, y: np.ndarray, epochs: int, order: str) -> OneBitClassifier:
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y has labels that are not in classes: {unknown}")
        places = np.searchsorted(self.classes_, y)
        names = getattr(self, "feature_names_in_", None)
        if isinstance(X, np.ndarray) and names is not None:
            X = NamedColumns(X, names.tolist())
        truths = TrueLabels(places)
        trace = simulate_rows(self.learner_, X, truths, epochs, order, None, (), None)
        self.mistakes_ += int(trace.mistakes[-1])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The labels with the highest scores: no exploration, no change."""
        rows = self._rows(X)
        return self.classes_[self.learner_.scores(rows).argmax(axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities of the labels, in the order of `classes_`.

        Of OneBit and the regressions, the estimated chances that a label is right
        (`Learner.probabilities`), divided by their sum. Of the remaining learners, the softmax of
        their scores, which is not calibrated.
        """
        rows = self._rows(X)
        return label_probabilities(self.learner_, rows)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        rows = _read_by_onebit(X)
        if rows is None and not self._reads_matrices and _is_empty(X):
            return []
        if rows is None and not self._reads_matrices and _are_missing(X):
            return [""] * len(X)
        if rows is None and not self._reads_matrices and self._are_cells(X):
            rows = dicts_of(NamedColumns(X, self.feature_names_in_.tolist()))
        if rows is not None and self._reads_as_columns(rows):
            return rows
        if rows is None:
            self._check_kind(is_matrix=True)
            return self._validated(X, reset=False)
        self._check_has_columns(rows)
        self._check_kind(is_matrix=False)
        if not _are_dicts(X):
            validate_data(self, X, reset=False, skip_check_array=True)
        return rows

    def _are_cells(self, X: Any) -> bool:
        """Whether X is an array of objects, as wide as the frame that the model was fitted with."""
        if not isinstance(X, np.ndarray) or X.dtype.kind != "O" or X.ndim != 2:
            return False
        return X.shape[1] == len(getattr(self, "feature_names_in_", ()))

    def _reads_as_columns(self, rows: Sequence[Any]) -> bool:
        """Whether these are dicts or rows with names, for a model of a frame of numbers."""
        has_names = self._reads_matrices and hasattr(self, "feature_names_in_")
        return has_names and all(isinstance(row, Mapping) or names_of(row) for row in rows)

    def _rows_and_labels(self, X: Any, y: Any, is_first: bool) -> tuple[Any, np.ndarray]:
        rows = _read_by_onebit(X)
        warn_of_columns(X)
        if not is_first:
            if _is_empty(X):
                raise ValueError("X has no rows: partial_fit needs at least one")
            self._check_has_columns(rows or ())
            self._check_kind(is_matrix=rows is None)
        if rows is None:
            rows, y = self._validated(X, y, reset=is_first)
            self._reads_matrices = True
            return rows, y
        y = column_or_1d(y, warn=True)
        check_consistent_length(rows, y)
        if is_first:
            vars(self).pop("n_features_in_", None)  # of an earlier fit; a frame has it again
        if is_first or not _are_dicts(X):
            validate_data(self, X, y, reset=is_first, skip_check_array=True)
        self._reads_matrices = False
        return rows, y

    def _check_kind(self, is_matrix: bool) -> None:
        if is_matrix != self._reads_matrices:
            before, now = "texts or dicts", "a matrix"
            if self._reads_matrices:
                before, now = now, before
            raise ValueError(f"X is {now}, and OneBitClassifier was fitted with {before}")

    def _check_has_columns(self, rows: Iterable[Any]) -> None:
        """Refuse texts if the model was fitted with a data frame."""
        names = getattr(self, "feature_names_in_", None)
        if names is not None and any(isinstance(row, str) for row in rows):
            columns = ", ".join(map(repr, names[:5].tolist())) + (len(names) > 5) * ", ..."
            raise ValueError(
                "X is texts, and OneBitClassifier was fitted with a data frame: give a frame or "
                f"dicts with its columns ({columns})"
            )

    # Live use, where the feedback on a decision comes later.

    def decide(self, x: Any, *, among: Any = None) -> Decision:
        """Say a label for one row, and explore where the learner does. See `Learner.decide`."""
        check_is_fitted(self)
        if hasattr(x, "tocsr"):
            row = x.reshape(1, -1) if x.ndim == 1 else x
        elif self._reads_as_columns([x]):
            return self.learner_.decide(x, among=among)
        elif isinstance(x, tuple) and self._reads_matrices:  # a named tuple is a row, too
            row = [x]
        elif isinstance(row_of_frame(x), str | Mapping):
            self._check_has_columns([x])
            self._check_kind(is_matrix=False)
            return self.learner_.decide(x, among=among)
        else:
            row = x if getattr(x, "ndim", 1) == 2 else [x]
        row = self._rows(row)
        return self.learner_.decide(row, among=among)

    def learn(self, decision: Decision, **feedback: Any) -> None:
        """Feedback on a decision: right=True, right=False or label=... See `Learner.learn`."""
        check_is_fitted(self)
        self.learner_.learn(decision, **feedback)
