"""The rows of a log as they are written -> checked columns. Errors name the row and the remedy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from onebit.core.settings import argument
from onebit.datasets.blocks import bad
from onebit.datasets.tables import whole_number
from onebit.evidence.log_files import RawBlock
from onebit.evidence.rows import NOBODY, RIGHT, UNANSWERED, WRONG, LogBlock
from onebit.learner.labels import LabelSet

_BITS = {"1": RIGHT, "true": RIGHT, "1.0": RIGHT, "0": WRONG, "false": WRONG, "0.0": WRONG}
_ROUNDING = 1e-3  # of the sum of probabilities, written with few digits


class Checks:
    """What the checks of a file need from block to block."""

    def __init__(self, path: str, right_cost: float = 0.0, last_time: float = -math.inf) -> None:
        self.path, self.right_cost, self.last_time = path, right_cost, last_time

    def error(self, line: int, problem: str, remedy: str) -> ValueError:
        return bad(self.path, line, problem, remedy)


def block_of(raw: RawBlock, labels: LabelSet, checks: Checks) -> LogBlock:
    """The checked rows of a block."""
    columns, lines = raw.columns, raw.lines
    said = _places(columns["label"], labels, lines, checks, "label")
    if (said == NOBODY).any():
        line = int(lines[np.argmax(said == NOBODY)])
        raise checks.error(line, "the row has no label", "write the label that was said")
    truth = _places(columns.get("true_label"), labels, lines, checks, "true_label")
    right = _answers(columns, said, truth, lines, checks)
    allowed = _allowed(columns.get("among"), labels, lines, checks)
    if len(allowed):
        _check_possible(allowed, said, lines, checks)
    shares = _shares(columns.get("propensities"), labels, lines, checks)
    if len(allowed) and shares.shape[1]:
        _check_shares_possible(allowed, shares, labels, lines, checks)
    propensity = _propensity(columns.get("propensity"), shares, said, lines, checks)
    sources = ["" if x is None else str(x) for x in columns.get("source", ())]
    return LogBlock(
        raw.contexts, said, right, truth, propensity, shares, allowed, lines,
        _times(columns.get("time"), lines, checks), sources,
    )  # fmt: skip


def _is_missing(x: Any) -> bool:
    return x is None or x != x or (isinstance(x, str) and not x.strip())


def _places(
    column: Sequence[Any] | None, labels: LabelSet, lines: np.ndarray, checks: Checks, role: str
) -> np.ndarray:
    """The places of labels; NOBODY where there is none."""
    made = np.full(len(lines), NOBODY)
    known: dict[Any, int] = {}
    for i, written in enumerate(column if column is not None else ()):
        if _is_missing(written):
            continue
        if not isinstance(written, Hashable):
            problem = f"the {role} {str(written)[:40]} is no name or number"
            raise checks.error(int(lines[i]), problem, "write a single label per row")
        if written not in known:
            try:
                known[written] = labels.place(_label(written, labels))
            except ValueError:
                names = ", ".join(map(str, labels.names[:8])) + (", ..." if len(labels) > 8 else "")
                problem = f"the {role} {written!r} is not among the {len(labels)}: {names}"
                remedy = f"name it in {argument('labels')}, of the learner too, or mend the row"
                raise checks.error(int(lines[i]), problem, remedy) from None
        made[i] = known[written]
    return made


def _label(written: Any, labels: LabelSet) -> Any:
    """A label as it is written in a file, as it is among the labels."""
    if isinstance(labels.names[0], int):
        return whole_number(written)
    return str(written).strip()


def _answers(
    columns: Mapping[str, Sequence[Any]],
    said: np.ndarray,
    truth: np.ndarray,
    lines: np.ndarray,
    checks: Checks,
) -> np.ndarray:
    named = truth != NOBODY
    right = np.where(named, np.where(truth == said, RIGHT, WRONG), UNANSWERED)
    if "right" in columns:
        bits = np.array([_bit(x, line, checks) for x, line in _numbered(columns["right"], lines)])
        wrong = np.flatnonzero(named & (bits != UNANSWERED) & (bits != right))
        if len(wrong):
            told = "right" if bits[wrong[0]] else "wrong"
            problem = f"the answer is {told}, and the true label says the opposite"
            raise checks.error(int(lines[wrong[0]]), problem, "mend one of them")
        right = np.where(named, right, bits) if len(bits) else right
    if "cost" in columns:
        right = np.array(
            [_of_cost(x, line, checks) for x, line in _numbered(columns["cost"], lines)]
        )
    return right.astype(np.int8)


def _numbered(column: Sequence[Any], lines: np.ndarray) -> Any:
    return zip(column, lines.tolist(), strict=True)


def _bit(written: Any, line: int, checks: Checks) -> int:
    if _is_missing(written):
        return UNANSWERED
    found = _BITS.get(str(written).strip().lower())
    if found is None:
        problem = f"{written!r} is not an answer"
        raise checks.error(
            line, problem, "write 1 or true, 0 or false, or nothing without an answer"
        )
    return found


def _of_cost(written: Any, line: int, checks: Checks) -> int:
    if _is_missing(written):
        return UNANSWERED
    cost = _number(written)
    if cost == checks.right_cost:
        return RIGHT
    if cost == checks.right_cost + 1:
        return WRONG
    problem = f"the cost {written!r} is neither {checks.right_cost:g} nor {checks.right_cost + 1:g}"
    remedy = f"{argument('right_cost')} says the cost of a right label; a wrong one costs 1 more"
    raise checks.error(line, problem, remedy)


def _number(written: Any) -> float:
    try:
        return math.nan if isinstance(written, bool) else float(written)
    except (TypeError, ValueError):
        return math.nan


def _allowed(
    column: Sequence[Any] | None, labels: LabelSet, lines: np.ndarray, checks: Checks
) -> np.ndarray:
    """Which labels were possible, [row, label]; no rows if all of them always were."""
    if column is None or all(x is None for x in column):
        return np.zeros((0, len(labels)), bool)
    made = np.ones((len(lines), len(labels)), bool)
    for i, names in enumerate(column):
        if names is None:
            continue
        if not isinstance(names, list | tuple) or not names:
            problem = f"the possible labels are {names!r}"
            raise checks.error(int(lines[i]), problem, 'write a list such as ["a", "b"]')
        here = lines[i : i + 1].repeat(len(names))
        made[i] = False
        made[i, _places(names, labels, here, checks, "possible label")] = True
    return made


def _check_possible(
    allowed: np.ndarray, said: np.ndarray, lines: np.ndarray, checks: Checks
) -> None:
    outside = np.flatnonzero(~allowed[np.arange(len(said)), said])
    if len(outside):
        problem = "the label that was said is not among the possible ones"
        raise checks.error(int(lines[outside[0]]), problem, "mend one of them")


def _check_shares_possible(
    allowed: np.ndarray, shares: np.ndarray, labels: LabelSet, lines: np.ndarray, checks: Checks
) -> None:
    outside = np.argwhere(~allowed & (shares > 0))
    if len(outside):
        row, place = outside[0]
        problem = f"the label {labels.names[place]!r} has a probability, and was not possible"
        raise checks.error(int(lines[row]), problem, "mend one of them")


def _shares(column: Any, labels: LabelSet, lines: np.ndarray, checks: Checks) -> np.ndarray:
    """The probabilities of all labels, [row, label]; no columns if none are known."""
    if column is None or (not hasattr(column, "dtype") and all(x is None for x in column)):
        return np.zeros((len(lines), 0))
    if hasattr(column, "dtype"):
        made = np.array(column, float)
        if made.shape != (len(lines), len(labels)):
            raise ValueError(
                f"propensities have the shape {made.shape}: they need a row for each of "
                f"{len(lines)} rounds, and a column for each of {len(labels)} labels"
            )
    else:
        made = np.full((len(lines), len(labels)), np.nan)
        for i, shares in enumerate(column):
            if shares is None:
                continue
            if not isinstance(shares, Mapping):
                problem = f"the probabilities are {str(shares)[:40]}"
                raise checks.error(int(lines[i]), problem, 'write an object such as {"a": 0.9}')
            shares = {label: share for label, share in shares.items() if share is not None}
            here = lines[i : i + 1].repeat(len(shares))
            made[i] = 0.0
            places = _places(list(shares), labels, here, checks, "label with a probability")
            made[i, places] = [_number(share) for share in shares.values()]
            if np.isnan(made[i]).any():
                raise checks.error(int(lines[i]), "a probability is no number", "mend it")
    given = ~np.isnan(made).all(axis=1)
    outside = np.flatnonzero(given & ~((made >= 0) & (made <= 1)).all(axis=1))
    if len(outside):
        problem = f"the probabilities are {made[outside[0]].tolist()}"
        raise checks.error(int(lines[outside[0]]), problem, "they must lie between 0 and 1")
    totals = made.sum(axis=1)
    wrong = np.flatnonzero(given & (np.abs(totals - 1) > _ROUNDING))
    if len(wrong):
        problem = f"the probabilities of the labels sum to {totals[wrong[0]]:.6g}, not to 1"
        remedy = "write those by which the label was drawn, at that time"
        raise checks.error(int(lines[wrong[0]]), problem, remedy)
    return made / totals[:, None]


def _propensity(
    column: Sequence[Any] | None,
    shares: np.ndarray,
    said: np.ndarray,
    lines: np.ndarray,
    checks: Checks,
) -> np.ndarray:
    """The probability of the said label; NaN where it is not known."""
    each = np.arange(len(said))
    of_all = shares[each, said] if shares.shape[1] else np.full(len(said), np.nan)
    never = np.flatnonzero(of_all == 0)
    if len(never):
        problem = "the label that was said has the probability 0"
        remedy = "write the probabilities of the time when it was said"
        raise checks.error(int(lines[never[0]]), problem, remedy)
    if column is None:
        return of_all
    missing = np.array([_is_missing(x) for x in column])
    made = np.array([_number(x) for x in column])
    wrong = np.flatnonzero(~missing & ~((made > 0) & (made <= 1)))
    if len(wrong):
        written = column[wrong[0]]
        remedy = "it is the probability, above 0 and at most 1, with which the label was said then"
        if made[wrong[0]] > 1:
            remedy += "; divide percentages by 100"
        elif made[wrong[0]] == 0:
            remedy += "; leave it empty if it is not known"
        raise checks.error(int(lines[wrong[0]]), f"the propensity is {written!r}", remedy)
    known = ~missing & ~np.isnan(of_all)
    differ = np.flatnonzero(known & (np.abs(made - of_all) > _ROUNDING))
    if len(differ):
        i = differ[0]
        problem = f"the propensity is {made[i]:.6g}, and {of_all[i]:.6g} among those of all labels"
        raise checks.error(int(lines[i]), problem, "mend one of them")
    return np.where(np.isnan(of_all), made, of_all)


def _times(column: Sequence[Any] | None, lines: np.ndarray, checks: Checks) -> np.ndarray:
    """Seconds, which never run backwards."""
    if column is None:
        return np.zeros(0)
    made = np.array([_seconds(x, line, checks) for x, line in _numbered(column, lines)])
    last = np.maximum.accumulate(
        np.concatenate([[checks.last_time], np.nan_to_num(made, nan=-np.inf)])
    )
    back = np.flatnonzero(made < last[:-1])
    if len(back):
        problem = f"the time {column[back[0]]!r} is before that of an earlier row"
        remedy = "sort the rows by time, and name the files of a log in their order"
        raise checks.error(int(lines[back[0]]), problem, remedy)
    checks.last_time = float(last[-1])
    return made


def _seconds(written: Any, line: int, checks: Checks) -> float:
    if _is_missing(written):
        return math.nan
    seconds = _number(written)
    if not math.isnan(seconds):
        return seconds
    try:
        moment = datetime.fromisoformat(str(written).strip())
    except ValueError:
        remedy = "write seconds, or a moment as in 2026-01-31T12:00:00"
        raise checks.error(line, f"the time is {written!r}", remedy) from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
