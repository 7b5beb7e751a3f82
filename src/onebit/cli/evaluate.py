"""onebit evaluate: how often policies would have been right, by a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.cli import options
from onebit.cli.logs import Assumptions, Files, LogOptions, policies_of, write_page
from onebit.cli.options import Flag, Imports, Repeated, Seed

if TYPE_CHECKING:
    from onebit.evidence.evaluation import Evaluation


def evaluate(
    log: Files,
    /,
    *,
    learner: Repeated = None,
    always: Repeated = None,
    learns: Flag = False,
    imports: Imports = None,
    seed: Seed = 0,
    out: Path | None = None,
    assumptions: Assumptions | None = None,
    columns: LogOptions | None = None,
) -> None:
    """Estimate how often learners would have been right, by a log of what another system said.

    The log tells what was said, whether it was right, and, if known, with which probability it was
    said. The first row of the table is whoever wrote the log. Without probabilities, a bracket is
    shown: the ends between which the log leaves the value.

    ```
    onebit evaluate tickets.csv --label said --right ok --propensity p --learner OneBit
    onebit evaluate onebit.journal --learner UCWL --learner tuned.toml
    onebit evaluate log.parquet --label said --right ok --always billing
    onebit evaluate log.parquet --learner OneBit --learner UCWL --out evidence.html
    onebit evaluate new.jsonl --learner news.onebit
    onebit evaluate monday.csv tuesday.csv --learner news.onebit --workers 2
    ```

    Parameters
    ----------
    log
        A file, or several that follow one another; or the journal of a service.
    learner
        A learner, with settings if need be: UCWL:eta=0.9, or a file that `onebit tune` wrote. It
        learns from the log as it goes: each round judges it, then teaches it. Or a saved learner,
        news.onebit, which is judged as it is (repeat for several).
    always
        A label that is always said (repeat for several).
    learns
        Saved learners go on learning from the log, too.
    out
        A file for a page with the curves over time. Default: none is written.
    """
    from onebit.evidence.judging import evaluate as judge

    options.import_all(imports)
    if out is not None:
        options.check_out(out)
    opened = (columns or LogOptions()).open(log)
    given = (assumptions or Assumptions()).given()
    results = [("the logger", judge(opened, **given))]
    for judged in policies_of(opened, learner, always, learns, seed):
        how: dict[str, Any] = given | ({"workers": 1} if judged.learns else {})
        results.append((judged.name, judge(opened, judged.policy, learns=judged.learns, **how)))
    _print(results)
    if out is not None:
        write_page(out, "onebit evaluate", results, log)


def _print(results: list[tuple[str, Evaluation]]) -> None:
    table = options.table_of("policy", ("right %", "interval", "bracket", "worth"))
    notes: dict[str, list[str]] = {}
    for name, found in results:
        estimate = "none" if found.estimate is None else options.percent(found.estimate)
        worth = f"{found.effective_sample_size:,.0f}"
        table.add_row(name, estimate, _ends(found.interval), _ends(found.bracket), worth)
        for note in found.notes:
            notes.setdefault(note, []).append(name)
    console = options.console(width=120)
    console.print(table)
    first = results[0][1]
    console.print(first.summary, soft_wrap=True)
    for note, names in notes.items():
        console.print(f"{', '.join(names)}: {note}", soft_wrap=True, markup=False)


def _ends(ends: tuple[float, float]) -> str:
    return " to ".join(options.percent(end) for end in ends)
