"""onebit race: compares learners on the same data."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from onebit._version import __version__
from onebit.cli import options
from onebit.cli.options import FileOptions, Flag, Imports, Repeated

if TYPE_CHECKING:
    from onebit.pages.race import Panel


def race(
    *,
    data: Repeated = None,
    learner: Repeated = None,
    prepare: Repeated = None,
    imports: Imports = None,
    rounds: int | None = None,
    repeats: int = 5,
    seed: int = 0,
    bounds: Flag = False,
    out: Path = Path("race.html"),
    files: FileOptions | None = None,
) -> None:
    """Run learners on the same data and rank them by mistakes.

    Each learner sees a row, says a label and hears right or wrong. References, marked *, are told
    the true label. The command prints a table, and writes a page with the curves.

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
        `onebit tune` wrote: tuned.toml (repeat for several). Default: all fast learners;
        slow ones such as Newtron and Confidit:form=full have to be named. Your own learner is Mine
        after --import, or module:Mine, which imports the module.
    prepare
        A step that prepares every row: unit_norm, binary, log_counts, tfidf, constant,
        hash:COLUMNS, fourier:COLUMNS:gamma=1 or nystroem:COLUMNS:gamma=1 (repeat for several, from
        first to last).
    rounds
        Rounds of each run. Default: each row of a file or table once, 100,000 rounds on
        synthetic data. With more rounds than rows, rows are repeated, as the output shows.
    repeats
        Runs of each learner, on data drawn or shuffled anew.
    seed
        The seed of all random numbers.
    bounds
        Also draw the proved bounds of Banditron and the Perceptron, as dashed curves, on synsep and
        synnonsep, where good weights are known. Bounds above 100% are left out.
    out
        The file for the page.
    """
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
    options.import_all(imports)
    sets = data or ["synnonsep", "digits"]
    recipes = [recipe_of(text) for text in learner] if learner else default_recipes()
    options.check_out(out)
    for recipe in recipes:
        if recipe.file and list(recipe.prepare) != steps.names:
            wanted = " ".join(f"--prepare {step}" for step in recipe.prepare) or "no --prepare"
            print(f"onebit: note: {recipe.file} was tuned with {wanted}", file=sys.stderr)
    with options.rounds_bar("racing") as update:
        panels = race(
            sets,
            recipes,
            rounds=rounds,
            repeats=repeats,
            seed=seed,
            prepare=steps.names,
            prove=bounds,
            columns=files.given() if files else {},
            progress=lambda data, done, total: update(total, data, advance=done),
        )
    lengths = ", ".join(f"{panel.data} {panel.rounds:,}" for panel in panels)
    settings = {"rounds": lengths, "repeats": str(repeats), "seed": str(seed)}
    if steps.names:
        settings["prepared"] = ", ".join(steps.names)
    command = shlex.join(["onebit", *sys.argv[1:]])
    page = race_page(panels, command, __version__, settings)
    write_bytes(out, page.encode(errors="replace"))  # file names may not be valid text
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
        # Cut long names and settings, not numbers: rich would shrink all columns.
        names = [line.learner + " *" * line.full_information for line in panel.lines]
        longest = min(max([len(name) for name in names] + [23]), max(console.width - 66, 23))
        rest = max(console.width - longest - 53, 8)
        table.add_column("learner", overflow="ellipsis", no_wrap=True, width=longest)
        for name in ("error %", options.plus_minus(), "explored %", "rounds/s"):
            table.add_column(name, justify="right", no_wrap=True, min_width=max(len(name), 6))
        table.add_column("settings", overflow="ellipsis", no_wrap=True, max_width=rest)
        for line in sorted(panel.lines, key=lambda line: line.error[-1]):
            table.add_row(
                f"{line.learner} *" if line.full_information else line.learner,
                f"{100 * line.error[-1]:.2f}",
                options.percent(line.error_sd),
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
        console.print("* a reference: it is told the true label; the others hear right or wrong")
