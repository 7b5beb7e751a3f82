"""onebit race: learners against each other."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from onebit._version import __version__
from onebit.cli.options import FileOptions, Flag, Imports, import_all, percent, plus_minus

if TYPE_CHECKING:
    from onebit.pages.race import Panel


def race(
    *,
    data: Annotated[list[str] | None, Parameter(negative=())] = None,
    learner: Annotated[list[str] | None, Parameter(negative=())] = None,
    prepare: Annotated[list[str] | None, Parameter(negative=())] = None,
    imports: Imports = None,
    rounds: int | None = None,
    repeats: int = 5,
    seed: int = 0,
    bounds: Flag = False,
    out: Path = Path("race.html"),
    files: FileOptions | None = None,
) -> None:
    """Run learners against each other and rank them by mistakes.

    Each learner sees a row, says a label and hears right or wrong. References, marked *, are told
    the true label. A table is printed, and a page with the curves is written.

    Examples:

    onebit race

    onebit race --data digits

    onebit race --learner Confidit:eta=0.5 --learner Confidit:eta=0.1 --learner AROW

    onebit race --data mine.csv --label topic --text body --out mine.html

    onebit race --data 20news --prepare log_counts --prepare unit_norm

    onebit race --data mnist --prepare unit_norm --prepare fourier:1000:gamma=2

    onebit race --data mine.csv --label topic --learner tuned.toml --learner UCWL

    onebit race --data synsep --learner Banditron:gamma=0.3 --learner Perceptron --bounds

    onebit race --import mine.py --learner Mine:C=2 --learner UCWL

    Parameters
    ----------
    data
        A name, as `onebit data list` shows them: synsep, digits, ...; or the path of a file: .npz
        with X and y, .svm, .vw, .csv, .tsv, .parquet (repeat for several). Default: synnonsep
        and digits.
    learner
        A learner, with settings if need be: Banditron or PNewtron:gamma=0.01:D=10; or a file that
        `onebit tune` wrote: tuned.toml (repeat for several). Default: all whose rounds take
        time in proportion to the row; Newtron, Confidit:form=full and the like have to be named.
        One of your own is Mine after --import, or module:Mine, which imports the module.
    prepare
        A step that every row goes through: unit_norm, binary, log_counts, tfidf, constant,
        hash:COLUMNS, fourier:COLUMNS:gamma=1 or nystroem:COLUMNS:gamma=1 (repeat for several, from
        first to last).
    rounds
        Rounds of each run. Default: each row of a file or table once, 100,000 rounds on
        synthetic data. With more rounds than rows, rows come again, and the output says how often.
    repeats
        Runs of each learner, on data drawn or shuffled anew.
    seed
        Everything random follows from it.
    bounds
        Draw what is proved of Banditron and the Perceptron as well, as a dashed curve: on synsep
        and synnonsep, where good weights are known. Above 100% it says nothing and is left out.
    out
        Where the page goes.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from onebit.datasets import Steps
    from onebit.lab.race import race
    from onebit.lab.recipes import default_recipes, recipe_of
    from onebit.pages.race import race_page
    from onebit.persist import write_bytes
    from onebit.settings import whole

    if rounds is not None:
        rounds = whole("rounds", rounds, least=1, most=10**9)
    repeats = whole("repeats", repeats, least=1, most=1000)
    steps = Steps(prepare or [])
    import_all(imports)
    sets = data or ["synnonsep", "digits"]
    recipes = [recipe_of(text) for text in learner] if learner else default_recipes()
    if not out.parent.is_dir() or out.is_dir():
        raise ValueError(f"{out} cannot be written: it must be a file in a folder that exists")
    for recipe in recipes:
        if recipe.file and list(recipe.prepare) != steps.names:
            wanted = " ".join(f"--prepare {step}" for step in recipe.prepare) or "no --prepare"
            print(f"onebit: note: {recipe.file} was tuned with {wanted}", file=sys.stderr)
    columns = (
        TextColumn("racing {task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rate="compiling the first time")

        def progress(data: str, done: int, total: int) -> None:
            if data != bar.tasks[0].description:
                bar.reset(task, description=data, total=total)
            speed = bar.tasks[0].speed
            rate = f"{speed / 1e6:.1f} M rounds/s" if speed else ""
            bar.update(task, advance=done, rate=rate or bar.tasks[0].fields["rate"])

        panels = race(
            sets,
            recipes,
            rounds=rounds,
            repeats=repeats,
            seed=seed,
            prepare=steps.names,
            prove=bounds,
            columns=files.given() if files else {},
            progress=progress,
        )
    each = ", ".join(f"{panel.data} {panel.rounds:,}" for panel in panels)
    settings = {"rounds": each, "repeats": str(repeats), "seed": str(seed)}
    if steps.names:
        settings["prepared"] = ", ".join(steps.names)
    command = shlex.join(["onebit", *sys.argv[1:]])
    page = race_page(panels, command, __version__, settings)
    write_bytes(out, page.encode(errors="replace"))  # names of files may not be text
    _print(panels)
    print(f"The curves are in {out}")


def _print(panels: list[Panel]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 120)
    for panel in panels:
        console.print(f"\n[bold]{panel.data}[/bold]: {panel.about}", highlight=False)
        console.print(f"{panel.length}; repeats: {panel.repeats}", highlight=False)
        table = Table(box=box.SIMPLE_HEAD)
        # What is long is cut, not the figures: rich would take from all columns alike.
        names = [line.learner + " *" * line.full_information for line in panel.lines]
        longest = min(max([len(name) for name in names] + [23]), max(console.width - 66, 23))
        rest = max(console.width - longest - 53, 8)
        table.add_column("learner", overflow="ellipsis", no_wrap=True, width=longest)
        for name in ("error %", plus_minus(), "explored %", "rounds/s"):
            table.add_column(name, justify="right", no_wrap=True, min_width=max(len(name), 6))
        table.add_column("settings", overflow="ellipsis", no_wrap=True, max_width=rest)
        for line in sorted(panel.lines, key=lambda line: line.error[-1]):
            table.add_row(
                f"{line.learner} *" if line.full_information else line.learner,
                f"{100 * line.error[-1]:.2f}",
                percent(line.error_sd),
                f"{100 * line.explored:.2f}",
                f"{line.rounds_per_second / 1e6:.2f} M",
                line.settings,
                style="dim" if line.full_information else None,
            )
        console.print(table)
        for line in panel.lines:
            if line.bound:
                most = f"bound on error % {100 * line.bound.error[-1]:.2f}"
                console.print(f"{line.learner}: {most} ({line.bound.source})", highlight=False)
    if any(line.full_information for panel in panels for line in panel.lines):
        console.print("* a reference: it is told the true label, the others hear right or wrong")
