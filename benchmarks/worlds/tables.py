"""Tables of the shares of right answers, as Markdown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.default.tables import table
from benchmarks.worlds.streams import Stream

ONEBIT, VW = "OneBit", "Vowpal Wabbit"
BEFORE = "OneBit before"  # of an earlier revision
Shares = Mapping[tuple[str, str], Mapping[str, float]]  # by stream and learner, then by setting


class Cell(NamedTuple):
    """One run, and the share of right answers that is expected of what was said."""

    stream: str
    learner: str
    setting: dict[str, Any]
    order: int
    drawn: str  # a digest of what is right
    revision: str  # of the code; "" for learners whose code is settled
    share: float

    @property
    def key(self) -> str:
        return json.dumps(self[:-1], sort_keys=True)


class Reference(NamedTuple):
    """What is known of a stream without playing it."""

    stream: Stream
    drawn: dict[int, str]  # by order: a digest of what is right
    best_fixed: float
    ceiling: float


def shares_of(cells: Iterable[Cell], known: Iterable[Reference], orders: int) -> Shares:
    """Mean shares over the orders, of the settings that were played in the most orders."""
    drawn = {reference.stream.name: reference.drawn for reference in known}
    runs: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        if cell.order < orders and drawn.get(cell.stream, {}).get(cell.order) == cell.drawn:
            setting = json.dumps(cell.setting, sort_keys=True)
            runs[cell.stream, cell.learner][setting].append(cell.share)
    return {
        key: {
            setting: float(np.mean(shares))
            for setting, shares in settings.items()
            if len(shares) == max(map(len, settings.values()))
        }
        for key, settings in runs.items()
    }


def report(
    cells: Iterable[Cell], known: Sequence[Reference], learners: Sequence[str], orders: int
) -> str:
    cells = list(cells)
    shares = shares_of(cells, known, orders)
    return "\n".join(
        [
            f"Right answers in %, mean of at most {orders} orders. OneBit has no settings; a rival "
            "has the setting of its grid with the most right answers on this stream and these "
            "orders. Ratio: OneBit over the best rival. Bold: the best.\n",
            shares_table(shares, known, learners),
            "## In brief\n",
            brief_table(shares, known, learners),
            "## Settings\n",
            settings_table(shares, known, learners),
            "## The same setting on every stream\n",
            "Right answers over those of the learner's best setting in order 0: the geometric mean "
            "over the streams above, by group, and the least.\n",
            grids_table(cells, known),
        ]
    )


def percent(share: float) -> str:
    return f"{100 * share:.1f}" if share >= 0.1 else f"{100 * share:.3g}"


def geometric_mean(ratios: Sequence[float]) -> str:
    """The mean, and of how many."""
    return f"{np.exp(np.mean(np.log(ratios))):.3f} ({len(ratios)})" if ratios else ""


def best_shares(shares: Shares, stream: str, learners: Sequence[str]) -> dict[str, float]:
    """The share of each learner that was played, with its best setting."""
    return {
        learner: max(shares[stream, learner].values())
        for learner in learners
        if (stream, learner) in shares
    }


def brief_table(shares: Shares, known: Sequence[Reference], learners: Sequence[str]) -> str:
    """OneBit, as it was, and its best rival."""
    rows = []
    for reference in known:
        stream = reference.stream
        best = best_shares(shares, stream.name, learners)
        before, own = (best.pop(name, None) for name in (BEFORE, ONEBIT))
        if own is None or not best:
            continue
        rival = max(best, key=lambda learner: best[learner])
        shown = [percent(before) if before is not None else "", percent(own), percent(best[rival])]
        known_of = [percent(reference.best_fixed), percent(reference.ceiling)]
        ratio = f"{own / best[rival]:.3f}"
        rows.append([stream.name, stream.group, *shown, rival, *known_of, ratio])
    head = ["", "group", "before", ONEBIT, "best rival", "which", "best label", "ceiling", "ratio"]
    return table(head, rows)


def shares_table(shares: Shares, known: Sequence[Reference], learners: Sequence[str]) -> str:
    rows, groups = [], defaultdict(list)
    for reference in known:
        name = reference.stream.name
        best = best_shares(shares, name, learners)
        rivals = [share for learner, share in best.items() if learner not in (ONEBIT, BEFORE)]
        ratio = best[ONEBIT] / max(rivals) if rivals and ONEBIT in best else None
        if ratio:
            groups[reference.stream.group].append(ratio)
        marked = {
            learner: f"**{percent(share)}**" if share == max(best.values()) else percent(share)
            for learner, share in best.items()
        }
        row = [name, reference.stream.group, *(marked.get(learner, "") for learner in learners)]
        row += [percent(reference.best_fixed), percent(reference.ceiling)]
        rows.append([*row, f"{ratio:.3f}" if ratio else ""])
    blank = [""] * (len(learners) + 3)
    means = {**groups, "all": [ratio for group in groups.values() for ratio in group]}
    rows += [[f"geometric mean, {g}", *blank, geometric_mean(means[g])] for g in means]
    return table(["", "group", *learners, "best label", "ceiling", "ratio"], rows)


def settings_table(shares: Shares, known: Sequence[Reference], learners: Sequence[str]) -> str:
    rows = []
    for reference in known:
        for learner in learners:
            found = shares.get((reference.stream.name, learner), {})
            if learner not in (ONEBIT, BEFORE) and found:
                best = max(found, key=lambda setting: found[setting])
                rows.append([reference.stream.name, learner, f"`{best}`"])
    return table(["", "learner", "setting"], rows)


def grids_table(cells: Sequence[Cell], known: Sequence[Reference]) -> str:
    """How much each setting loses if it is taken for every stream that it was played on."""
    groups = {reference.stream.name: reference.stream.group for reference in known}
    ratios: dict[tuple[str, str], list[tuple[str, float]]] = defaultdict(list)
    for (name, learner), settings in shares_of(cells, known, orders=1).items():
        for setting, share in settings.items() if learner not in (ONEBIT, BEFORE, VW) else ():
            ratios[learner, setting].append((groups[name], share / max(settings.values())))
    head = list(dict.fromkeys(groups.values()))
    rows = []
    for (learner, setting), found in sorted(ratios.items()):
        by_group = [[ratio for group, ratio in found if group == wanted] for wanted in head]
        means = [geometric_mean(part) for part in [*by_group, [ratio for _, ratio in found]]]
        rows.append([learner, f"`{setting}`", *means, f"{min(r for _, r in found):.3f}"])
    return table(["learner", "setting", *head, "all", "least"], rows)
