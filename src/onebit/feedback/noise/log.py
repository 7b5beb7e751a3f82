"""Logs of said labels and heard feedback, and the rates that are estimated from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from onebit.core.settings import bit, whole
from onebit.learner.decision import Decision
from onebit.reading.contexts import encode_rows
from onebit.reading.rows import Rows

_MOST_LABELS = 10**6
_MOST_FEATURES = 2**32  # indices of decisions that are numbers of dicts have the highest bit
_DENSE_BYTES = 2**28  # contexts up to this size are stored as a dense array
FLOAT = np.dtype(np.float32)


class NotIdentified(ValueError):
    """The log does not determine the rates; the message says why, and what would help."""


@dataclass(frozen=True, eq=False)
class Log:
    """Said labels and heard feedback, one entry per answer.

    X: contexts, in any form that learners accept (matrix, sparse matrix, list of dicts or pairs).
    said: the said labels, as places from 0 to labels - 1.
    right: whether right was heard.
    propensities: the probabilities with which the labels were said, if known. They are not needed
    for the estimate, and are used to check it.
    labels: how many labels there are.
    """

    X: Any
    said: Any
    right: Any
    propensities: Any = None
    labels: int = 0

    def __post_init__(self) -> None:
        labels = whole("labels", self.labels, least=2, most=_MOST_LABELS)
        rows = encode_rows(self.X, FLOAT, None)
        said, right = np.asarray(self.said), np.asarray(self.right)
        answers = len(rows.indptr) - 1
        _same_length("said", said, answers)
        _same_length("right", right, answers)
        if said.dtype.kind not in "iu" and answers:
            raise TypeError(f"said must hold places of labels, whole numbers, not {said.dtype}")
        if right.dtype.kind in "iu" and np.isin(right, (0, 1)).all():
            right = right.astype(bool)
        if right.dtype != bool and answers:
            raise TypeError(f"right must hold True or False, not {right.dtype}: say right == 1")
        if answers and not 0 <= said.min() <= said.max() < labels:
            raise ValueError(f"said must hold places from 0 to {labels - 1}, the labels' places")
        kept = None
        if self.propensities is not None:
            kept = np.array(self.propensities, np.float64)
            _same_length("propensities", kept, answers)
            if not ((kept > 0) & (kept <= 1)).all():
                raise ValueError("propensities must be above 0 and at most 1")
        checked = (rows, said.astype(np.int64), right.astype(bool), kept, labels)
        for name, value in zip(self.__match_args__, checked, strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def of(cls, pairs: Iterable[tuple[Decision, bool]], *, labels: int | None = None) -> Log:
        """The log of pairs (decision, whether right was heard). Contexts are not copied."""
        decisions, right = [], []
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], Decision)):
                raise TypeError(f"a log is made of pairs (decision, right), not {pair!r}")
            decisions.append(pair[0])
            right.append(bit("right", pair[1]))
        if not decisions:
            raise ValueError("this log is empty: it needs pairs (decision, right), one per answer")
        return cls(
            encode_rows([d.row for d in decisions], FLOAT, _MOST_FEATURES),
            np.array([d.place for d in decisions], np.int64),
            np.array(right, bool),
            [d.propensity for d in decisions],
            max(d.size for d in decisions) if labels is None else labels,
        )

    def __len__(self) -> int:
        return len(self.said)

    def __repr__(self) -> str:
        heard = f"{np.mean(self.right):.1%} heard right" if len(self) else "no answers"
        return f"Log({len(self):,} answers, {self.labels} labels, {heard})"


def _same_length(name: str, values: np.ndarray, answers: int) -> None:
    if values.shape != (answers,):
        raise ValueError(f"{name} of shape {values.shape} does not fit {answers} contexts in X")


def matrix_of(rows: Rows) -> Any:
    """Contexts as an array if it is small or mostly non-zero, else as a CSR matrix.

    The CSR matrix leaves out columns that no context uses, so they need no weights.
    """
    answers, columns, width = len(rows.indptr) - 1, rows.indices.view(np.int32), max(rows.width, 1)
    if answers * width * FLOAT.itemsize > _DENSE_BYTES:
        used, columns = np.unique(rows.indices, return_inverse=True)
        columns, width = columns.astype(np.int32), max(len(used), 1)
    made = sparse.csr_matrix((rows.values, columns, rows.indptr), shape=(answers, width))
    size = answers * width
    small = size * FLOAT.itemsize <= _DENSE_BYTES
    return made.toarray() if small or 4 * made.nnz >= size else made


@dataclass(frozen=True)
class Rates:
    """Estimated rates of flips, with intervals.

    An interval holds the share `confidence` of the estimates from resampled answers. What is
    resampled, and what the interval does not cover, depends on the method: see `estimate_rates`.
    """

    rho0: float  # wrong heard as right
    rho1: float  # right heard as wrong
    rho0_low: float
    rho0_high: float
    rho1_low: float
    rho1_high: float
    confidence: float
    method: str
    answers: int  # how many were used

    def __repr__(self) -> str:
        return (
            f"Rates(rho0={self.rho0:.3f} [{self.rho0_low:.3f}, {self.rho0_high:.3f}], "
            f"rho1={self.rho1:.3f} [{self.rho1_low:.3f}, {self.rho1_high:.3f}], "
            f"{self.method}, {self.answers:,} answers)"
        )


def rates_of(
    found: np.ndarray, resampled: np.ndarray, confidence: float, method: str, answers: int
) -> Rates:
    """Rates from an estimate (rho0, rho1) and one such row per resample."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=0)
    low, high = np.minimum(low, found).tolist(), np.maximum(high, found).tolist()
    rho0, rho1 = found.tolist()
    return Rates(rho0, rho1, low[0], high[0], low[1], high[1], confidence, method, answers)
