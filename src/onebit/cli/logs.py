"""Shared by the commands that read logs: how a log is read, and which policies are judged."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from onebit._version import __version__
from onebit.cli.options import Flag, Repeated, names_in

if TYPE_CHECKING:
    from onebit.evidence.evaluation import Evaluation
    from onebit.evidence.log import Log

Files = Annotated[list[Path], Parameter(negative=(), consume_multiple=True)]
_JOURNAL = b"SQLite format 3\0"
_EXCLUSIVE: dict[str, Any] = {"yes": True, "no": False, "at-most-one": "at most one"}


@Parameter(
    name="*", group="Logs (.csv, .tsv, .parquet, .jsonl, .vw, .dsjson, journals)",
    show_default=False, negative=(),
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """How a log is read: the arguments of `onebit.Log`. A column has the role of its name.

    Parameters
    ----------
    label
        The column of the label that was said. Default: label.
    right
        The column of whether it was right: 1 or 0, true or false, empty. Default: right.
    true_label
        The column of the label that somebody named as right. Default: true_label.
    propensity
        The column of the probability with which the label was said. Default: propensity.
    propensities
        The column of the probabilities of all labels, as JSON. Default: propensities.
    among
        The column of the labels that were possible, as JSON. Default: among.
    time
        The column of the time: seconds or ISO 8601. Default: time.
    source
        The column of who said the label. Default: source.
    context
        The column of the context as JSON. Default: context, else all columns without a role.
    labels
        The labels that could be said: a,b,c (or repeat it). Default: those in the log.
    model
        A model of a journal. Default: the only one.
    right_cost
        The cost of a right label in .vw (default: 0) and .dsjson (default: -1).
    text
        A column of text, even where it is a single word.
    categories
        Columns of names that look like numbers or texts: zip,age (or repeat it).
    drop
        Columns to leave out: id,created (or repeat it).
    delimiter
        The field separator: ';' or '\\t'. Default: a comma; a tab in .tsv.
    encoding
        The encoding of text: cp1252, latin-1. Default: utf-8.
    format
        The format, for a file whose ending does not show it.
    """

    label: str | None = None
    right: str | None = None
    true_label: str | None = None
    propensity: str | None = None
    propensities: str | None = None
    among: str | None = None
    time: str | None = None
    source: str | None = None
    context: str | None = None
    labels: list[str] | None = None
    model: str | None = None
    right_cost: float | None = None
    text: str | None = None
    categories: list[str] | None = None
    drop: list[str] | None = None
    delimiter: str | None = None
    encoding: str | None = None
    format: Literal["csv", "tsv", "parquet", "jsonl", "vw", "dsjson"] | None = None

    def open(self, paths: Sequence[Path]) -> Log:
        """The log in these files."""
        from onebit.datasets.tables import names_of
        from onebit.evidence.log import Log

        given = {name: value for name, value in asdict(self).items() if value is not None}
        model = given.pop("model", None)
        if len(paths) == 1 and _is_journal(paths[0]):
            from onebit.service.upkeep.logs import journal_log

            if given:
                named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
                raise ValueError(f"{paths[0]} is a journal, which needs no {named}")
            return journal_log(paths[0], model)
        if model is not None:
            raise ValueError("--model is for journals of the service")
        for name in given.keys() & {"labels", "categories", "drop"}:
            given[name] = names_in(given[name])
        if "labels" in given:
            given["labels"] = names_of(given["labels"])
        if given.get("delimiter") == "\\t":
            given["delimiter"] = "\t"
        return Log(list(paths), **given)


def _is_journal(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(_JOURNAL)) == _JOURNAL


@Parameter(name="*", group="What is assumed", negative=())
@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """What is assumed: the arguments of `onebit.evaluate`.

    Parameters
    ----------
    exclusive
        Whether exactly one label is right in each round, or at most one, or each by itself (no).
    steady
        The value of a policy is the same in all rounds, which makes the interval narrower.
    silence
        What a round without an answer says: nothing (it is left out), wrong, or unknown (its
        absence may depend on the answer).
    flips
        How often wrong is heard as right, and right as wrong: 0.1,0.05.
    alpha
        The chance that the interval ever misses.
    workers
        How many files of a log are read at once.
    """

    exclusive: Literal["yes", "no", "at-most-one"] = "yes"
    steady: Flag = False
    silence: Literal["nothing", "wrong", "unknown"] = "nothing"
    flips: str = "0,0"
    alpha: float = 0.05
    workers: int = 1

    def given(self) -> dict[str, Any]:
        """The arguments of `evaluate` and `compare`."""
        try:
            flips = tuple(float(rate) for rate in self.flips.split(","))
        except ValueError:
            wanted = "--flips is two chances such as 0.1,0.05"
            raise ValueError(f"{wanted}, not {self.flips!r}") from None
        return {
            "exclusive": _EXCLUSIVE[self.exclusive],
            "drifts": not self.steady,
            "silence": self.silence,
            "flips": flips,
            "alpha": self.alpha,
            "workers": self.workers,
        }


def write_page(
    out: Path, title: str, results: Sequence[tuple[str, Evaluation]], log: Sequence[Path]
) -> None:
    """A page with the curves of these results."""
    from onebit.learner.files import write_bytes
    from onebit.pages.evidence import Judged as Shown
    from onebit.pages.evidence import Moment, evidence_page

    shown = [
        Shown(
            name,
            [Moment(*point) for point in found.curve],
            found.bracket,
            found.effective_sample_size,
            found.notes,
        )
        for name, found in results
    ]
    first = results[0][1]
    command = shlex.join(["onebit", *sys.argv[1:]])
    facts = {"log": ", ".join(map(str, log))}
    is_difference = first.question.is_difference
    page = evidence_page(title, shown, is_difference, first.summary, command, __version__, facts)
    write_bytes(out, page.encode(errors="replace"))  # file names may not be valid text
    print(f"The curves are in {out}")


class Judged:
    """A policy of a command line."""

    def __init__(self, name: str, policy: Any, learns: bool) -> None:
        self.name, self.policy, self.learns = name, policy, learns


def policies_of(
    log: Log, learners: Repeated, always: Repeated, learns: bool, seed: int
) -> list[Judged]:
    """The policies of --learner and --always. A learner that is not a saved one starts anew, and
    learns from the log as it goes."""
    from onebit.algorithms import load
    from onebit.datasets.tables import whole_number
    from onebit.registry.recipes import recipe_of

    made = []
    for text in learners or ():
        if text.endswith(".onebit"):
            made.append(Judged(text, load(text), learns))
            continue
        recipe = recipe_of(text)
        if recipe.prepare:
            raise ValueError(
                f"{text} prepares its rows, and a log is read as it is; name a learner that needs "
                "no preparation, such as OneBit"
            )
        made.append(Judged(recipe.name, recipe.make(log.labels, seed=seed), True))
    for text in always or ():
        label = whole_number(text) if isinstance(log.labels[0], int) else text
        made.append(Judged(f"always {text}", label, False))
    return made
