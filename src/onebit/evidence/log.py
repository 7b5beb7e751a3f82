"""A log: what somebody said in each round, with which probability, and whether it was right."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onebit.core.settings import argument, choice_of, real, shown
from onebit.datasets.blocks import AnyPath, Options, endings
from onebit.datasets.tables import names_of
from onebit.evidence.checking import Checks, block_of
from onebit.evidence.log_files import (
    ENDINGS,
    READERS,
    RIGHT_COST,
    ROLES,
    RawBlock,
    check_is_no_journal,
)
from onebit.evidence.rows import NOBODY, LogBlock
from onebit.learner.labels import LabelSet
from onebit.reading.frames import NamedColumns, listed
from onebit.reading.frames import names_of as names_of_columns


class Log:
    """The rounds of a log, read in blocks as often as needed, in constant memory.

    path: a file, or a list of files that follow one another: .csv, .tsv, .parquet; .jsonl (an
    object per line); .vw (contextual-bandit text, `action:cost:probability | features`) or .dsjson.
    Text may be compressed as .gz or .bz2.

    labels: the labels that could be said; default: those found in the file. label: the column of
    the label that was said. right: of whether it was right: 1 or 0, true or false, empty without an
    answer. true_label: of the label that somebody named as right. propensity: of the probability
    with which the label was said, at that time. propensities: of the probabilities of all labels, a
    JSON object. among: of the labels that were possible, a JSON list. time: seconds or ISO 8601.
    source: of who said the label. context: of the context as JSON. By default, a column has the
    role whose name it has; all columns without a role are the context, if there is no column
    `context`.

    right_cost: the cost of a right label in Vowpal Wabbit's files; a wrong one costs 1 more
    (default: 0 in text, -1 in dsjson). format: the format, if the ending does not tell it. Other
    options: as for `datasets.read`.
    """

    def __init__(
        self,
        path: AnyPath | Sequence[AnyPath],
        *,
        labels: Sequence[str] | Sequence[int] | int | None = None,
        label: str | None = None,
        right: str | None = None,
        true_label: str | None = None,
        propensity: str | None = None,
        propensities: str | None = None,
        among: str | None = None,
        time: str | None = None,
        source: str | None = None,
        context: str | None = None,
        right_cost: float | None = None,
        format: str | None = None,
        **options: Any,
    ) -> None:
        is_single = isinstance(path, str | os.PathLike)
        if not (is_single or isinstance(path, Iterable)):
            raise TypeError(f"a log needs a file, or a list of files, not {shown(path)}")
        self.paths = [os.fspath(p) for p in ([path] if is_single else path)]  # type: ignore[list-item]
        if not self.paths:
            raise ValueError("a log needs a file")
        named = (label, right, true_label, propensity, propensities, among, time, source, context)
        self._roles = {r: n for r, n in zip(ROLES, named, strict=True) if n is not None}
        self._options = options
        self._right_cost = None if right_cost is None else real("right_cost", right_cost)
        self._formats = [_format_of(p, format) for p in self.paths]
        for p in self.paths:
            Options(p, **self._options)
        self._labels = None if labels is None else LabelSet(labels)
        self._make: Callable[[LabelSet], Iterator[LogBlock]] = self._read

    @classmethod
    def of(
        cls,
        X: Any,
        label: Sequence[Any],
        right: Sequence[Any] | None = None,
        *,
        labels: Sequence[str] | Sequence[int] | int | None = None,
        true_label: Sequence[Any] | None = None,
        propensity: Any = None,
        propensities: Any = None,
        among: Sequence[Sequence[Any] | None] | None = None,
        time: Sequence[Any] | None = None,
        source: Sequence[str] | None = None,
    ) -> Log:
        """A log of contexts, labels and answers in memory; the arguments are columns.

        A number for propensity holds for every row. propensities: an array [row, label], in the
        order of `labels`, or a dict for each row.
        """
        columns: dict[str, Any] = {"label": label, "right": right, "true_label": true_label}
        given = {"propensities": propensities, "among": among, "time": time, "source": source}
        if isinstance(X, str | bytes | Mapping):
            raise TypeError("a log has many contexts: put a single one into a list")
        if not hasattr(label, "__len__") or isinstance(label, str | bytes):
            raise TypeError(f"label is a column, as in a list, not {shown(label)}")
        size = len(label)
        if propensity is not None:
            columns["propensity"] = np.broadcast_to(propensity, size)
        columns = {**columns, **given}
        columns = {name: column for name, column in columns.items() if column is not None}
        for name, column in columns.items():
            if len(column) != size:
                raise ValueError(f"{name} has {len(column)} rows, and label has {size}")
        log = cls.__new__(cls)
        log.paths, log._labels = [], None if labels is None else LabelSet(labels)
        columns = {n: c.tolist() if hasattr(c, "tolist") and n != "propensities" else c
                   for n, c in columns.items()}  # fmt: skip
        raw = RawBlock(_contexts(X), columns, np.arange(size) + 1)
        log._make = lambda labels: iter([block_of(raw, labels, Checks("the log"))])
        if log._labels is None:
            log._labels = _label_set("the log", _labels_in(raw))
        return log

    @classmethod
    def of_blocks(cls, labels: LabelSet, make: Callable[[LabelSet], Iterator[LogBlock]]) -> Log:
        """A log whose blocks a function makes, from the first whenever it is called."""
        log = cls.__new__(cls)
        log.paths, log._labels, log._make = [], labels, make
        return log

    @property
    def labels(self) -> list[Any]:
        """The labels that could be said; if they were not given, the file is read to find them."""
        return list(self._label_set().names)

    def _label_set(self) -> LabelSet:
        if self._labels is None:
            found: dict[str, None] = {}
            for raw, _ in self._raw_blocks(only_roles=True):
                found |= dict.fromkeys(_labels_in(raw))
            self._labels = _label_set(self.paths[0], found)
        return self._labels

    def blocks(self, labels: Any = None) -> Iterator[LogBlock]:
        """The rows in blocks. labels: in whose order labels have their places."""
        wanted = self._label_set() if labels is None else LabelSet(labels)
        return self._make(wanted)

    def parts(self) -> list[Log]:
        """A log for each file."""
        if len(self.paths) < 2:
            return [self]
        made = []
        for path, format in zip(self.paths, self._formats, strict=True):
            part = Log(path, labels=self.labels, right_cost=self._right_cost, format=format)
            part._roles, part._options = self._roles, self._options
            made.append(part)
        return made

    def _read(self, labels: LabelSet) -> Iterator[LogBlock]:
        for raw, checks in self._raw_blocks(only_roles=False):
            yield block_of(raw, labels, checks)

    def _raw_blocks(self, only_roles: bool) -> Iterator[tuple[RawBlock, Checks]]:
        last_time = -math.inf
        for path, format in zip(self.paths, self._formats, strict=True):
            options = Options(path, **self._options)
            options.format = format
            cost = RIGHT_COST.get(format, 0.0) if self._right_cost is None else self._right_cost
            checks = Checks(path, cost, last_time)
            rows = 0
            for raw in READERS[format](options, self._roles, only_roles):
                rows += len(raw.lines)
                yield raw, checks
            last_time = checks.last_time
            if not rows:
                raise ValueError(f"{path}: there are no rows in this file")

    def __repr__(self) -> str:
        what = ", ".join(Path(path).name for path in self.paths) or "rows in memory"
        return f"Log({what})"


def _format_of(path: str, format: str | None) -> str:
    if format is not None:
        return choice_of("format", format, tuple(READERS))
    check_is_no_journal(path)
    ending = endings(path)[0]
    if ending not in ENDINGS:
        raise ValueError(
            f"{path}: no format of logs has the ending {ending!r}; rename the file to one of "
            f"{', '.join(ENDINGS)} (text also with .gz or .bz2), or pass "
            f"{argument('format', 'csv')}, or another of {', '.join(READERS)}"
        )
    return ENDINGS[ending]


def _contexts(X: Any) -> Any:
    """Contexts in memory. A data frame is a matrix with names of columns, or a list of dicts."""
    X = listed(X)
    names = names_of_columns(X)
    return NamedColumns(np.asarray(X), names) if names else X


def _labels_in(raw: RawBlock) -> Iterator[Any]:
    """The labels of a block, as they are written."""
    for role in ("label", "true_label"):
        yield from (str(x) for x in raw.columns.get(role, ()) if not _is_missing(x))
    for shares in _given(raw.columns.get("propensities")):
        yield from shares if isinstance(shares, Mapping) else ()
    for names in _given(raw.columns.get("among")):
        yield from map(str, names)


def _given(column: Any) -> Iterable[Any]:
    return (
        () if column is None or hasattr(column, "dtype") else (x for x in column if x is not None)
    )


def _is_missing(x: Any) -> bool:
    return x is None or x != x or (isinstance(x, str) and not x.strip())


def _label_set(path: str, found: Iterable[Any]) -> LabelSet:
    names = np.unique(np.array([str(label).strip() for label in found], str)).tolist()
    if len(names) < 2:
        only = f"only the label {names[0]!r} was" if names else "no label was"
        raise ValueError(
            f"{path}: {only} ever said, and there is nothing to compare it with; name all labels "
            f"that could have been said with {argument('labels')}"
        )
    return LabelSet(sorted(names_of(names)))


__all__ = ["NOBODY", "Log"]
