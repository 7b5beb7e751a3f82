"""onebit race: compares learners on the same data."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from onebit._version import __version__
from onebit.cli import options
from onebit.cli.options import FileOptions, Flag, Imports, Prepare, Repeated, Seed

if TYPE_CHECKING:
    from onebit.pages.race import Panel


def race(
    *,
    data: Repeated = None,
    learner: Repeated = None,
    prepare: Prepare = None,
    imports: Imports = None,
    rounds: int | None = None,
    repeats: int = 5,
    seed: Seed = 0,
    bounds: Flag = False,
    out: Path = Path("race.html"),
    files: FileOptions | None = None,
) -> None:
    """Run learners on the same data and rank them by mistakes.

    Each learner sees a row, says a label and receives right or wrong. References, marked *,
    receive the true label; one of them only says the commonest label always. Rows of tables and
    files are scaled for every learner, unless --prepare says how (inputs=raw turns it off). The
    command prints a table, and writes a page with the curves.

    ```
    onebit race
    onebit race --data digits
    onebit race --learner Confidit:eta=0.5 --learner Confidit:eta=0.1 --learner AROW
    onebit race --data mine.csv --label topic --text body --out mine.html
    onebit race --data 20news --prepare log_counts --prepare unit_norm
    onebit race --data mnist --prepare unit_norm --prepare fourier:1000:gamma=2
    onebit race --data mine.csv --label topic --learner tuned.toml --learner UCWL
    onebit race --data synsep --learner Banditron:gamma=0.3 --learner Perceptron --bounds
    onebit race --import mine.py --learner Mine:C=2 --learner UCWL
    ```

    Parameters
    ----------
    data
        A name, as `onebit data list` shows them: synsep, digits, ...; or the path of a file: .npz
        with X and y, .svm, .vw, .csv, .tsv, .parquet (repeat for several). Default: synnonsep,
        digits and clicks.
    learner
        A learner, with settings if need be: Banditron or PNewtron:gamma=0.01:D=10; or a file that
        `onebit tune` wrote: tuned.toml (repeat for several). Default: all fast learners;
        slow ones such as Newtron and Confidit:form=full have to be named. Your own learner is Mine
        after --import, or module:Mine, which imports the module.
    rounds
        Rounds of each run. Default: each row of a file or table once, 100,000 rounds on
        synthetic data. With more rounds than rows, rows are repeated, as the output shows.
    repeats
        Runs of each learner, on data drawn or shuffled anew.
    bounds
        Also draw the proved bounds of Banditron and the Perceptron, as dashed curves, on synsep and
        synnonsep, where good weights are known. Bounds above 100% are left out.
    out
        The file for the page.
    """
    from onebit.core.settings import whole
    from onebit.datasets import Steps
    from onebit.lab.race import race
    from onebit.learner.files import write_bytes
    from onebit.pages.race import race_page
    from onebit.registry.recipes import default_recipes, recipe_of

    if rounds is not None:
        rounds = whole("--rounds", rounds, least=1, most=10**9)
    repeats = whole("--repeats", repeats, least=1, most=1000)
    seed = whole("--seed", seed, least=0, most=2**62)
    steps = Steps(prepare or []).names
    options.import_all(imports)
    recipes = [recipe_of(text) for text in learner] if learner else default_recipes()
    options.check_out(out)
    for recipe in recipes:
        if recipe.file and list(recipe.prepare) != steps:
            wanted = " ".join(options.repeated("--prepare", recipe.prepare)) or "no --prepare"
            print(f"onebit: note: {recipe.file} was tuned with {wanted}", file=sys.stderr)
    with options.rounds_bar("racing") as update:
        panels = race(
            data or ["synnonsep", "digits", "clicks"],
            recipes,
            prepare=steps,
            columns=files.given() if files else {},
            rounds=rounds,
            repeats=repeats,
            seed=seed,
            prove=bounds,
            progress=lambda data, done, total: update(total, data, advance=done),
        )
    lengths = ", ".join(f"{panel.data} {panel.rounds:,}" for panel in panels)
    settings = {"rounds": lengths, "repeats": str(repeats), "seed": str(seed)}
    if steps:
        settings["prepared"] = ", ".join(steps)
    command = shlex.join(["onebit", *sys.argv[1:]])
    page = race_page(panels, command, __version__, settings)
    write_bytes(out, page.encode(errors="replace"))  # file names may not be valid text
    _print(panels)
    print(f"The curves are in {out}")


def _print(panels: list[Panel]) -> None:
    from rich.markup import escape

    from onebit.pages.race import BEST_FIXED, BEST_OF_EACH, COMMONEST

    console = options.console(width=120)
    for panel in panels:
        console.print(f"\n[bold]{panel.data}[/bold]: {panel.about}")
        console.print(f"{panel.length}; repeats: {panel.repeats}")
        if panel.several:
            out = f"; {', '.join(panel.sat_out)} sit out" if panel.sat_out else ""
            console.print(f"Several labels of a row may be right, or none{out}", soft_wrap=True)
        if panel.scaling:
            console.print(panel.scaling, soft_wrap=True)
        # Cut long names and settings, not numbers: rich would shrink all columns.
        lengths = [len(line.learner + " *" * line.full_information) for line in panel.lines]
        longest = min(max([23, *lengths]), max(console.width - 66, 23))
        numbers = ("right %" if panel.several else "error %", "±", "explored %", "rounds/s")
        table = options.table_of("learner", numbers, "settings", width=longest)
        table.columns[-1].max_width = max(console.width - longest - 53, 8)
        for line in sorted(panel.lines, key=lambda line: line.error[-1]):
            table.add_row(
                line.learner + " *" * line.full_information,
                options.percent(panel.shown(line.error[-1])),
                options.percent(line.error_sd),
                options.percent(line.explored),
                _speed(line.rounds_per_second),
                escape(line.settings),  # a label may look like markup
                style="dim" if line.full_information else None,
            )
        console.print(table)
        for line in panel.lines:
            if line.bound:
                bound = f"bound on error % {options.percent(line.bound.error[-1])}"
                console.print(f"{line.learner}: {bound} ({line.bound.source})")
    several = ""
    if any(panel.several for panel in panels):
        several = f"; {BEST_FIXED}: likewise; {BEST_OF_EACH}: as often as anybody can be right"
    console.print(
        f"* a reference: it receives the true label; {COMMONEST}: what always saying the label of "
        f"most rounds would have come to{several}. The others receive right or wrong",
        soft_wrap=True,
    )


def _speed(rounds_per_second: float | None) -> str:
    return "-" if rounds_per_second is None else f"{rounds_per_second / 1e6:.2f} M"
