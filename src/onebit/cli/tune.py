"""onebit tune: finds good settings for the user's data."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onebit.cli import options
from onebit.cli.options import FileOptions, Flag, Imports, Prepare, Repeated, Seed

if TYPE_CHECKING:
    from onebit.lab.tuning import Edge, Trial, Tuned

_SHOWN = 10  # rows of the table
REPEATS = 3
OUT = Path("tuned.toml")


def tune(
    *,
    data: str,
    learner: Repeated = None,
    grid: Repeated = None,
    prepare: Prepare = None,
    imports: Imports = None,
    trials: int = 64,
    rounds: int | None = None,
    repeats: int = REPEATS,
    in_order: Flag = False,
    seed: Seed = 0,
    out: Path = OUT,
    files: FileOptions | None = None,
) -> None:
    """Find the settings that make the fewest mistakes while learning a first part of your data.

    Candidates are each learner's defaults, and settings drawn at random from ranges where good
    settings are usually found. All candidates learn the same rows from right or wrong. The best is
    written to a file that `onebit race --learner` reads, and `onebit.read_recipe` in Python. Rows
    after the first part do not influence the choice: on them the best is compared with the
    defaults. With --prepare auto, steps that often help are tried as well.

    ```
    onebit tune --data mine.csv --label topic --learner UCWL
    onebit tune --data digits --learner Confidit --learner FastCB --trials 200
    onebit tune --data digits --learner Banditron --grid gamma=0.05,0.1,0.2,0.4
    onebit tune --data digits --learner Confidit:width=eta --grid eta=0.1,1,10 --grid reg=0.1,1
    onebit tune --data 20news --prepare log_counts --prepare unit_norm
    onebit tune --data satimage --prepare auto
    ```

    Parameters
    ----------
    data
        A name, as `onebit data list` shows them, or the path of a file: .npz with X and y, .svm,
        .vw, .csv, .tsv, .parquet. For synthetic data, 100,000 rows are drawn.
    learner
        A learner (repeat for several); settings in it stay as they are: Confidit:width=log.
        Default: all that learn from right or wrong.
    grid
        Values of a setting: gamma=0.01,0.1 (repeat for several). All combinations are tried,
        instead of random settings; other settings have their defaults.
    trials
        How many settings of each learner are tried, including the defaults.
    rounds
        How many rows are used for tuning, each once per run. Default: a fifth of the rows, at least
        1,000, and at most 20,000 and half of the rows.
    repeats
        Runs of each setting, on the same rows in a new order.
    in_order
        Keep the rows in their order, in each repeat too. Default: shuffle them before the first
        part is taken.
    out
        The file for the best settings; its name ends in .toml.
    """
    from onebit.core.settings import whole
    from onebit.datasets import Steps
    from onebit.lab.streams import load
    from onebit.lab.tuning import candidates_of, learners_to_tune, tune
    from onebit.registry.lookup import is_own, name_of
    from onebit.registry.recipes import check_name

    repeats = whole("--repeats", repeats, least=1, most=1000)
    seed = whole("--seed", seed, least=0, most=2**62)
    check_name(out)
    options.check_out(out)
    options.import_all(imports)
    files = files or FileOptions()
    values = _values(grid or []) or None
    learners = learner or learners_to_tune()
    candidates_of(learners, values, trials, "", seed)  # refuse wrong settings before reading data
    steps = "auto" if prepare == ["auto"] else Steps(prepare or []).names
    table = load(data, files.given(), seed=seed)
    with options.rounds_bar("tuning") as update:
        tuned = tune(
            learners,
            table,
            grid=values,
            trials=trials,
            order="given" if in_order else "shuffled",
            prepare=steps,
            rounds=rounds,
            repeats=repeats,
            seed=seed,
            progress=lambda done, total: update(total, completed=done),
        )
    tuned.save(out)
    _print(tuned, table.name, table.about)
    modules = imports or ([] if is_own(tuned.learner) else [tuned.learner.__module__])
    same = [*options.repeated("--import", modules), "--data", data, *files.words()]
    same += options.repeated("--prepare", tuned.prepare)
    again = [*same, *["--in-order"] * in_order]
    run = [("rounds", rounds, None), ("repeats", repeats, REPEATS), ("seed", seed, 0)]
    for name, value, default in [*run, ("out", out, OUT)]:
        again += [] if value == default else [f"--{name}", str(value)]
    for edge in tuned.edges:
        _print_edge(tuned, edge, again)
    print(f"The best setting is in {out}. To race it:")
    race = ["onebit", "race", *same, "--learner", str(out), "--learner", name_of(tuned.learner)]
    print(f"  {shlex.join(race)}")


def _values(grid: list[str]) -> dict[str, list[Any]]:
    from onebit.registry.recipes import value_of

    values: dict[str, list[Any]] = {}
    for text in grid:
        name, equals, listed = text.partition("=")
        if not equals or not all(listed.split(",")):
            raise ValueError(
                f"--grid needs NAME=VALUE,VALUE,... as in gamma=0.01,0.1, not {text!r}"
            )
        if name in values:
            raise ValueError(f"--grid names {name} twice: put all its values into one option")
        values[name] = [value_of(value) for value in listed.split(",")]
    return values


def _print(tuned: Tuned, data: str, about: str) -> None:
    from onebit.registry.recipes import settings_text

    found = tuned.found
    assert found is not None
    best: dict[Any, Trial] = {}  # of each learner
    for trial in tuned.table:
        best.setdefault(trial.learner, trial)
    defaults = {trial.learner: trial for trial in tuned.table if trial.is_default}
    console = options.console(width=120)
    console.print(f"\n[bold]{data}[/bold]: {about}")
    taken = "in their order" if found.order == "given" else "drawn at random"
    console.print(
        f"{found.trials:,} settings on {found.rounds:,} rows {taken}, repeats: {found.repeats}"
        + ("; the best of each learner" if len(best) > 1 else "")
    )
    prepared = dict.fromkeys(trial.prepare for trial in tuned.table)
    several = [prepare for prepare in prepared if prepare and len(prepared) > 1]
    steps = {prepare: f"steps {n}: " for n, prepare in enumerate(several, 1)}
    numbers = ("error %", "±", "default %")
    table = options.table_of("learner", numbers, "settings")
    for trial in best.values() if len(best) > 1 else tuned.table[:_SHOWN]:
        table.add_row(
            trial.learner.__name__,
            options.percent(trial.error),
            options.percent(trial.spread),
            options.percent(defaults[trial.learner].error),
            steps.get(trial.prepare, "")
            + settings_text(trial.settings)
            + (" (default)" if trial.is_default else ""),
        )
    console.print(table)
    for prepare, name in steps.items():
        console.print(f"{name}{', '.join(prepare)}")
    unseen = tuned.rest
    if unseen:
        console.print(
            f"On the {unseen.rows:,} rows not used for tuning, learned from the start: "
            f"tuned {_with_spread(unseen.tuned, unseen.tuned_spread)}, "
            f"default {_with_spread(unseen.default, unseen.default_spread)}",
            soft_wrap=True,
        )
    else:
        console.print("All rows were used for tuning: none is left to evaluate the choice")


def _with_spread(error: float, spread: float | None) -> str:
    """An error in per cent, with its spread if there are several runs."""
    shown = "" if spread is None else f" ± {options.percent(spread)}"
    return f"{options.percent(error)}{shown} %"


def _print_edge(tuned: Tuned, edge: Edge, again: list[str]) -> None:
    from onebit.registry.lookup import name_of
    from onebit.registry.recipes import settings_text, short

    end = "low" if edge.beyond[0] < edge.value else "high"
    settings = {name: value for name, value in tuned.settings.items() if name != edge.setting}
    kind = ":".join(filter(None, [name_of(tuned.learner), settings_text(settings, ":")]))
    values = ",".join(map(short, (edge.value, *edge.beyond)))
    command = ["onebit", "tune", *again, "--learner", kind, "--grid", f"{edge.setting}={values}"]
    print(
        f"{edge.setting}={short(edge.value)} is at the {end} end of what was tried "
        f"({short(edge.low)} to {short(edge.high)}). To look beyond:\n  {shlex.join(command)}"
    )
