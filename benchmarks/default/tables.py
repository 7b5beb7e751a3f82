"""Tables of the cells, as Markdown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.default.contestants import (
    ADDITIVE,
    AROW,
    CONTESTANTS,
    ONEBIT,
    POINTS,
    REFERENCES,
    TOLD,
)
from benchmarks.default.results import Cell
from benchmarks.default.sets import LOADERS

CLEAN = "clean"
AROW_LINES = ("AROW, given rows", "AROW, standardised")
TEXTS = ("20news", "rcv1", "amazon7", "amazon3", "rcv1_rarest", "amazon14", "movielens", "r52")


class Score(NamedTuple):
    """A learner on a set under a condition, with the setting that makes the fewest mistakes."""

    setting: str
    cells: list[Cell]  # one per order, in their order

    @property
    def errors(self) -> dict[str, float]:
        """Means over the orders, at the check points."""
        return {point: float(np.mean(self.at(point))) for point in self.cells[0].errors}

    @property
    def spread(self) -> float:
        """Standard deviation of the error at the end."""
        return float(np.std(self.at("end"), ddof=len(self.cells) > 1))

    def at(self, point: str) -> list[float]:
        return [cell.errors[point] for cell in self.cells]


Scores = dict[tuple[str, str, str], Score]  # by condition, set and line of the table


def line_of(cell: Cell) -> str:
    """The line of the table that a cell belongs to: of AROW there is one per preparation."""
    if cell.learner not in (AROW, ADDITIVE):
        return cell.learner
    return AROW_LINES[cell.prepare == "standard"]


def score_all(cells: Iterable[Cell], most: int, orders: int) -> Scores:
    runs: dict[tuple[str, str, str], dict[str, list[Cell]]] = defaultdict(lambda: defaultdict(list))
    chosen = [cell for cell in cells if cell.rows <= most and cell.order < orders]
    lengths: dict[str, int] = defaultdict(int)  # a set may also have been played with fewer rows
    for cell in chosen:
        lengths[cell.data] = max(lengths[cell.data], cell.rows)
    for cell in chosen:
        if cell.rows == lengths[cell.data]:
            setting = json.dumps([cell.learner, cell.prepare, cell.setting], sort_keys=True)
            runs[cell.condition, cell.data, line_of(cell)][setting].append(cell)
    return {key: _best(settings) for key, settings in runs.items()}


def _best(settings: dict[str, list[Cell]]) -> Score:
    """Of the settings that were played with the most orders, the one with the fewest mistakes."""
    orders = max(map(len, settings.values()))
    complete = [
        Score(setting, sorted(cells, key=lambda cell: cell.order))
        for setting, cells in settings.items()
        if len(cells) == orders
    ]
    return min(complete, key=lambda score: score.errors["end"])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def percent(error: float) -> str:
    return f"{100 * error:.1f}" if error >= 0.1 else f"{100 * error:.2f}"


def report(cells: Iterable[Cell], most: int, orders: int) -> str:
    scores = score_all(cells, most, orders)
    conditions = list(dict.fromkeys(condition for condition, _, _ in scores))
    parts = [
        f"One pass over at most {most:,} rows; played error in %, mean of at most {orders} orders. "
        "Clean feedback: each rival has the setting of its grid, and the preparation of the rows, "
        "with the fewest mistakes on this set and these orders. Other conditions: recommended "
        "settings. Bold: the fewest mistakes of all that hear one bit.\n"
    ]
    for condition in conditions:
        parts += [f"## {condition}\n", errors_table(scores, condition)]
        parts += [early_table(scores, condition)]
    parts += ["## Where OneBit is not the best\n", losses(scores)]
    parts += ["In brackets: in how many of the orders that both played the rival is ahead.\n"]
    parts += ["## Settings\n", settings_table(scores)]
    return "\n".join(parts)


def _lines(scores: Scores, condition: str) -> list[str]:
    """OneBit, the rivals in their order, AROW."""
    found = {line for c, _, line in scores if c == condition}
    rivals = [name for name in CONTESTANTS if name in found and name not in REFERENCES]
    return [*rivals, *sorted(found - set(rivals), reverse=True)]


def _sets(scores: Scores, condition: str) -> list[str]:
    return [name for name in LOADERS if any(key[:2] == (condition, name) for key in scores)]


def one_bit_rivals(scores: Scores, condition: str, data: str) -> dict[str, Score]:
    return {
        line: score
        for (c, name, line), score in scores.items()
        if (c, name) == (condition, data) and line not in (ONEBIT, TOLD, *AROW_LINES)
    }


def errors_table(scores: Scores, condition: str) -> str:
    names = _sets(scores, condition)
    ratios = {"all": names}
    reference = best_on_given_rows(scores)
    if condition == CLEAN:
        ratios |= {"text": [name for name in names if name in TEXTS or name.endswith("_text")]}
    rows = []
    for line in _lines(scores, condition):
        row = [f"**{line}**" if line == ONEBIT else line]
        for name in names:
            score = scores.get((condition, name, line))
            ends = [s.errors["end"] for s in one_bit_scores(scores, condition, name)]
            text = "" if score is None else percent(score.errors["end"])
            is_best = score is not None and score.errors["end"] == min(ends, default=None)
            row.append(f"**{text}**" if is_best else text)
        row += [mean_ratio(scores, condition, line, group, reference) for group in ratios.values()]
        rows.append(row)
    spread = [
        f"{100 * score.spread:.2f}" if (score := scores.get((condition, name, ONEBIT))) else ""
        for name in names
    ]
    rows.append(["OneBit, standard deviation", *spread, *[""] * len(ratios)])
    return table(["", *names, *(f"x AROW, {group}" for group in ratios)], rows)


def one_bit_scores(scores: Scores, condition: str, data: str) -> list[Score]:
    own = scores.get((condition, data, ONEBIT))
    return [*one_bit_rivals(scores, condition, data).values(), *([own] if own else [])]


def best_on_given_rows(scores: Scores) -> dict[str, float]:
    """AROW's error per set, clean, on rows that were not standardised."""
    found: dict[str, float] = {}
    for (condition, data, line), score in scores.items():
        if condition == CLEAN and line == AROW_LINES[0]:
            found[data] = score.errors["end"]
    return found


def mean_ratio(
    scores: Scores, condition: str, line: str, names: Sequence[str], reference: dict[str, float]
) -> str:
    """The geometric mean of the errors over AROW's; with the number of sets if some are missing."""
    ratios = [
        scores[condition, name, line].errors["end"] / reference[name]
        for name in names
        if (condition, name, line) in scores and reference.get(name)
    ]
    if not ratios:
        return ""
    missing = f" ({len(ratios)} sets)" if len(ratios) < len(names) else ""
    return f"{np.exp(np.mean(np.log(ratios))):.3f}{missing}"


def early_table(scores: Scores, condition: str) -> str:
    """OneBit, its best rival and AROW at the check points."""
    rows = []
    for name in _sets(scores, condition):
        own, rivals = scores.get((condition, name, ONEBIT)), one_bit_rivals(scores, condition, name)
        row = [name]
        for point in [*map(str, POINTS), "end"]:
            mine = percent(own.errors[point]) if own and point in own.errors else ""
            at_point = {line: s.errors[point] for line, s in rivals.items() if point in s.errors}
            best = min(at_point, key=lambda line: at_point[line], default=None)
            row += [mine, f"{percent(at_point[best])} {best}" if best else ""]
        rows.append(row)
    head = [f"{who} {point}" for point in [*POINTS, "end"] for who in ("OneBit", "best rival")]
    return "The beginning:\n\n" + table(["", *head], rows)


def losses(scores: Scores) -> str:
    """Every check point where a one-bit rival makes fewer mistakes than OneBit."""
    found = []
    for condition in dict.fromkeys(condition for condition, _, _ in scores):
        for name in _sets(scores, condition):
            own = scores.get((condition, name, ONEBIT))
            rivals = one_bit_rivals(scores, condition, name)
            for point in own.errors if own else ():
                better = [text for line, s in rivals.items() if (text := lead(line, s, own, point))]
                if better:
                    error = percent(own.errors[point])
                    found.append([condition, name, point, error, ", ".join(better)])
    return table(["condition", "set", "rounds", "OneBit", "better"], found)


def lead(line: str, rival: Score, own: Score, point: str) -> str:
    """A rival's error if it is below OneBit's on the orders that both played; else nothing."""
    pairs = list(zip(rival.cells, own.cells, strict=False))
    theirs = np.array([cell.errors.get(point, 1.0) for cell, _ in pairs])
    ours = np.array([cell.errors[point] for _, cell in pairs])
    if theirs.mean() >= ours.mean():
        return ""
    wins = f"{(theirs < ours).sum()} of {len(pairs)}"
    return f"{line} {percent(theirs.mean())} against {percent(ours.mean())} ({wins})"


def settings_table(scores: Scores) -> str:
    rows = [
        [
            condition,
            name,
            line,
            f"`{score.setting}`",
            str(len(score.cells)),
        ]
        for (condition, name, line), score in scores.items()
        if line != ONEBIT
    ]
    return table(["condition", "set", "learner", "setting", "orders"], rows)
