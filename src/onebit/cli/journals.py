"""What an operator does with a journal: replay, retrain, promote, inspect, export, backup."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from onebit.cli import options
from onebit.cli.options import Flag

if TYPE_CHECKING:
    from onebit.client import Client
    from onebit.service.journal.repair import Repaired
    from onebit.service.messages import Card
    from onebit.service.upkeep.inspection import Facts

TOKEN = "ONEBIT_TOKEN"  # the environment variable
ModelName = Annotated[
    str | None, Parameter(name="--model", help="A model's name. Default: the only one.")
]


def replay(journal: Path, /, *, model: ModelName = None, out: Path | None = None) -> None:
    """Build a model's learner from the journal alone, and compare it with the newest snapshot.

    The service may run meanwhile.

    ```
    onebit replay onebit.journal
    onebit replay onebit.journal --model news --out news.onebit
    ```

    Parameters
    ----------
    journal
        The path of a journal.
    out
        A file for the learner: `onebit.load` reads it. Default: none is written.
    """
    from onebit.learner import files
    from onebit.service.journal import ReadOnlyJournal
    from onebit.service.upkeep.journals import chosen_model
    from onebit.service.upkeep.replay import Replay

    if out is not None:
        options.check_out(out)
    opened = ReadOnlyJournal(journal)
    try:
        started = time.perf_counter()
        built = Replay(opened, chosen_model(opened, model))
        seconds = time.perf_counter() - started
    finally:
        opened.close()
    learner = built.learner
    print(
        f"{built.name}: {type(learner).__name__} with {learner.round:,} rounds, built from "
        f"{journal} up to position {built.position:,} in {seconds:.1f} s"
    )
    if built.compared is None:
        print("There is no current snapshot to compare it with.")
    else:
        same = "the same bytes" if built.is_same else "OTHER BYTES"
        print(f"Snapshot {built.compared.path.name}: {same}")
    for each in built.shadows:
        said = "there is no current snapshot to compare it with"
        if each.compared is not None:
            same = "the same bytes" if each.is_same else "OTHER BYTES"
            said = f"snapshot {each.compared.path.name}: {same}"
        print(f"The shadow {each.name}, {each.shadow.builder.version.body['learner']}: {said}")
    if built.other_code is not None:
        print(
            f"The service has learned these events with {built.other_code}; this is {built.code}. "
            "So other bytes are no damage: a service that starts with this code builds the learner "
            "anew."
        )
    if out is not None:
        files.write(out, *files.dump(learner), mode=0o600)  # it may know names of features
        print(f"The learner is in {out}")
    is_other = built.is_same is False or any(each.is_same is False for each in built.shadows)
    if is_other and built.other_code is None:
        sys.exit(1)


def retrain(
    journal: Annotated[Path | None, Parameter(show_default=False)] = None,
    /,
    *,
    url: str | None = None,
    model: ModelName = None,
    learner: str,
    seed: int | None = None,
) -> None:
    """Build another learner from a model's journal. It then takes over.

    A running service does it behind the scenes and answers meanwhile: give its --url, and its admin
    token in the environment variable ONEBIT_TOKEN. Without a running service, give the journal.

    ```
    onebit retrain --url http://127.0.0.1:8331 --model news --learner Banditron:gamma=0.1
    onebit retrain onebit.journal --model news --learner UCWL --seed 7
    ```

    Parameters
    ----------
    journal
        The path of a journal that no service uses.
    url
        The address of a running service.
    learner
        A learner with its settings, as for `onebit race`: Banditron:gamma=0.1.
    seed
        The seed of the new learner. Default: as before.
    """
    from onebit.registry.lookup import name_of
    from onebit.registry.recipes import recipe_of

    if (journal is None) == (url is None):
        raise ValueError("give either a journal, or --url of the service that uses it")
    recipe = recipe_of(learner)
    if recipe.prepare:
        raise ValueError(
            f"{learner} prepares its rows, which a running model cannot change to; put recipe = "
            f'"{learner}" into the configuration'
        )
    change: dict[str, Any] = {"learner": name_of(recipe.learner), "settings": recipe.settings}
    if seed is not None:
        change["seed"] = seed
    if url is not None:
        _retrain_running(url, model, change)
    else:
        assert journal is not None
        _retrain_stopped(journal, model, change)


def _retrain_running(url: str, model: str | None, change: dict[str, Any]) -> None:
    from onebit.client import Client

    with Client(url, token=os.environ.get(TOKEN)) as client:
        name = _model_of(client, model)
        card = client.retrain(name, **change)
        while card.rebuilding:
            time.sleep(0.5)
            card = client.card(name)
    _print_retrained(card)


def _model_of(client: Client, model: str | None) -> str:
    """The named model, or the only one that the token may read."""
    names = client.models()
    if model is None and len(names) != 1:
        raise ValueError(f"say which model: --model NAME; there are: {', '.join(names)}")
    return model or names[0]


def promote(
    shadow: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *,
    undo: Flag = False,
    url: str = "http://127.0.0.1:8331",
    model: ModelName = None,
) -> None:
    """Let a shadow of a running service speak from now on. Who has spoken becomes a shadow.

    The admin token is in the environment variable ONEBIT_TOKEN.

    ```
    onebit promote careful --model news
    onebit promote --undo --model news
    ```

    Parameters
    ----------
    shadow
        The name of the shadow, as in [models.news.shadows.careful]. While another system speaks
        (apprentice = true), the model's own name is that of its learner.
    undo
        Let the one speak again who spoke before.
    url
        The address of the service.
    """
    from onebit.client import Client

    if (shadow is None) != undo:
        raise ValueError("name a shadow, or say --undo")
    with Client(url, token=os.environ.get(TOKEN)) as client:
        card = client.promote(_model_of(client, model), shadow, undo=undo)
    speaker, shadows = card.speaker or "another system", ", ".join(card.shadows)
    print(f"{card.name}: {speaker} speaks; shadows: {shadows or 'none'}")


def _retrain_stopped(path: Path, name: str | None, change: dict[str, Any]) -> None:
    from onebit.service.configuration import Model
    from onebit.service.engine import Engine
    from onebit.service.journal import Journal, ReadOnlyJournal
    from onebit.service.messages import Retraining
    from onebit.service.upkeep.journals import chosen_model, snapshots_of

    reader = ReadOnlyJournal(path)
    try:
        name = chosen_model(reader, name)
    finally:
        reader.close()
    journal = Journal(path)
    try:
        engine = Engine(journal, Model(name=name), folder=snapshots_of(journal.path))
        engine.submit_retrain(Retraining(**change)).wait()
        engine.settle()
        engine.snapshot()
        card = engine.card()
    finally:
        journal.close()
    _print_retrained(card)


def _print_retrained(card: Card) -> None:
    if card.problem:
        raise ValueError(f"{card.name}: {card.problem}")
    learned = f"has learned {card.answers:,} answers"
    print(f"{card.name}: {card.learner}, version {card.version}, {learned}")


def inspect(journal: Path, /, *, repair: Flag = False) -> None:
    """Show what is in a journal, and check it.

    The service may run meanwhile, but not during a repair. Exits with status 1 if the journal is
    damaged.

    ```
    onebit inspect onebit.journal
    onebit inspect onebit.journal --repair
    ```

    Parameters
    ----------
    journal
        The path of a journal.
    repair
        Copy every event that can still be read to a new journal, which takes the place of the
        damaged one. That one is kept under another name.
    """
    from onebit.service.faults import Damaged
    from onebit.service.journal.repair import repair as repaired
    from onebit.service.upkeep.inspection import inspect as facts_of

    if repair:
        _print_repaired(journal, repaired(journal))
    try:
        facts = facts_of(journal)
    except Damaged as fault:
        print(f"onebit: {fault}", file=sys.stderr)
        sys.exit(1)
    _print_facts(facts)
    if facts.problems:
        print(
            f"onebit: {journal} is damaged. `onebit inspect {journal} --repair` copies every event "
            "that can still be read to a new journal, and keeps this one",
            file=sys.stderr,
        )
        sys.exit(1)


def _print_facts(facts: Facts) -> None:
    console = options.console(width=120)
    log = f", and {facts.log_bytes / 2**20:.1f} MB write-ahead log" if facts.log_bytes else ""
    console.print(f"{facts.path}: {facts.bytes / 2**20:.1f} MB{log}", soft_wrap=True)
    console.print(
        f"schema {facts.schema}, last position {facts.position:,}, SQLite {sqlite3.sqlite_version}"
    )
    numbers = ("decisions", "answers", "open", "cancelled", "erased", "changes")
    table = options.table_of("model", numbers, "first", "last")
    for model in facts.models:
        counts = [f"{getattr(model, name):,}" for name in numbers]
        table.add_row(model.name, *counts, _moment(model.first), _moment(model.last))
    console.print(table)
    for model in facts.models:
        if model.base:
            console.print(f"{model.name}: compacted up to position {model.base:,}")
        for snapshot, is_current in model.snapshots:
            state = "current" if is_current else "not used: the past has changed since"
            console.print(f"{snapshot.path.name}: {state}", soft_wrap=True)
    for problem in facts.problems:
        console.print(f"damage: {problem}", soft_wrap=True, markup=False)
    if not facts.problems:
        console.print("integrity: ok")


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _print_repaired(journal: Path, found: Repaired) -> None:
    events = ", ".join(f"{count:,} {table}" for table, count in found.events.items() if count)
    print(f"{journal} is new, with {events or 'no event'}; the old one is {found.kept}")
    if not found.pages and not found.rows:
        print("No event was lost.")
        return
    if found.pages:
        pages = _listed(map(str, found.pages))
        print(f"Pages that cannot be read, or are part of a row that cannot be: {pages}")
    if found.rows:
        print(f"Rows that cannot be read: {_listed(found.rows)}")
    spans = [str(a) if a == b else f"{a}-{b}" for a, b in found.missing]
    print(
        f"Positions without an event: {_listed(spans) or 'none'} "
        "(among them are any that were refused or taken back)"
    )
    if found.snapshots is not None:
        print(f"Snapshots may have learned what was lost; they are in {found.snapshots}")


def _listed(names: Any, most: int = 50) -> str:
    names = list(names)
    left = f" and {len(names) - most:,} further ones" if len(names) > most else ""
    return ", ".join(names[:most]) + left


def export(journal: Path, /, *, out: Path, model: str | None = None) -> None:
    """Write the rounds of a journal to a Parquet file, a row per decision.

    The columns: model, id, position, round, version, time, key, context (JSON), among (JSON),
    label, confidence, propensity, propensities (JSON), explored, state, answer_time, right,
    true_label, source, answer_key. The service may run meanwhile.

    ```
    onebit export onebit.journal --out rounds.parquet
    onebit export onebit.journal --out news.parquet --model news
    ```

    Parameters
    ----------
    journal
        The path of a journal.
    out
        The Parquet file.
    model
        A model's name. Default: all models.
    """
    from onebit.service.upkeep.export import export as write

    if out.suffix.lower() != ".parquet":
        raise ValueError(
            f"--out {out}: the rounds are written as Parquet; give the file the ending .parquet"
        )
    options.check_out(out)
    rows = write(journal, out, model)
    print(f"{rows:,} decisions are in {out}")


def backup(journal: Path, target: Path, /) -> None:
    """Copy a journal while the service runs.

    The copy is checked, complete, and on disk before it gets its name; a file of that name is
    replaced. The learners are in it: `onebit replay` builds them.

    ```
    onebit backup onebit.journal /backup/onebit.journal
    ```

    Parameters
    ----------
    journal
        The path of a journal.
    target
        The copy, or a folder for it.
    """
    from onebit.service.journal.backup import back_up

    size = back_up(journal, target)
    print(f"{journal} was copied to {target}: {size / 2**20:.1f} MB, checked")
