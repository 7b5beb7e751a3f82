"""The files that logs are read from: their rows as contexts and columns of text or values.

csv, tsv and Parquet are read by the readers of `datasets`. A column has a role, such as `right`, if
it is named for it, or if it has the name of the role; all others are the context.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from onebit.core.settings import argument
from onebit.datasets.blocks import Block, Options, bad, text_lines
from onebit.datasets.csv_files import csv_blocks, numbered_rows
from onebit.datasets.parquet import parquet_blocks, parquet_names
from onebit.datasets.vowpal import named_features
from onebit.reading.frames import NamedColumns

ROLES = (
    "label", "right", "true_label", "propensity", "propensities", "among", "time", "source",
    "context",
)  # fmt: skip
_ROWS = 10_000  # of a block
_SQLITE = b"SQLite format 3\0"


class RawBlock(NamedTuple):
    """Rows of a log as they are in a file."""

    contexts: Any
    columns: dict[str, Sequence[Any]]  # by role; a missing value is None or empty
    lines: np.ndarray


def check_is_no_journal(path: str) -> None:
    with open(path, "rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            raise ValueError(
                f"{path} is a journal of the service: read it with onebit.journal_log, or export it"
                " with `onebit export`"
            )


def roles_among(options: Options, names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """The column of each role: the named ones, and those that have the name of a role."""
    for role, name in given.items():
        if name not in names:
            has = (
                ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") or "the line is empty"
            )
            problem = f"there is no column {name!r}, but {has}"
            raise bad(options.path, 1, problem, f"name the right one with {argument(role)}")
    taken = {*given.values(), *options.drop}
    found = {r: r for r in ROLES if r in names and r not in given and r not in taken}
    roles = {**found, **given}
    if "label" not in roles:
        problem = "no column is the label that was said"
        raise bad(options.path, 1, problem, f"name it with {argument('label')}")
    if not roles.keys() & {"right", "true_label"}:
        problem = "no column tells whether the label was right"
        remedy = f"name it with {argument('right')}, or that of true labels with "
        raise bad(options.path, 1, problem, remedy + argument("true_label"))
    return roles


# Tables.


def table_blocks(
    options: Options, given: Mapping[str, str], only_roles: bool
) -> Iterator[RawBlock]:
    """The rows of a csv, tsv or Parquet file. only_roles: without contexts."""
    names = _names(options)
    roles = roles_among(options, names, given)
    if only_roles or "context" in roles:
        options.drop = tuple(name for name in names if name not in roles.values())
        options.text = None
    options.label, options.as_dicts = roles["label"], True
    options.beside = {role: name for role, name in roles.items() if role != "label"}
    for block in _tables(options):
        yield _raw(options, block)


def _names(options: Options) -> list[str]:
    if options.format == "parquet":
        return parquet_names(options)
    return next(numbered_rows(options), (1, []))[1]


def _tables(options: Options) -> Iterator[Block]:
    return parquet_blocks(options) if options.format == "parquet" else csv_blocks(options)


def _raw(options: Options, block: Block) -> RawBlock:
    columns: dict[str, Sequence[Any]] = {"label": block.y.tolist(), **(block.beside or {})}
    contexts = columns.pop("context", None)
    if contexts is not None:
        contexts = [
            _json(options, line, text, "context")
            for line, text in zip(block.lines.tolist(), contexts, strict=True)
        ]
    else:
        contexts = block.X if block.columns is None else NamedColumns(block.X, block.columns)
    for role in ("propensities", "among"):
        if role in columns:
            columns[role] = [
                _json(options, line, text, role) if text.strip() else None
                for line, text in zip(block.lines.tolist(), columns[role], strict=True)
            ]
    return RawBlock(contexts, columns, block.lines)


def _json(options: Options, line: int, text: str, role: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        problem = f"the {role} {text[:40]!r} is not JSON ({error})"
        raise bad(
            options.path, line, problem, "write it as JSON, as `onebit export` does"
        ) from None


# JSON lines: an object per row.


def json_blocks(options: Options, given: Mapping[str, str], only_roles: bool) -> Iterator[RawBlock]:
    roles: dict[str, str] = {}
    rows = _objects(options)
    while part := list(islice(rows, _ROWS)):
        if not roles:
            names = list(dict.fromkeys(name for _, row in part for name in row))
            roles = roles_among(options, names, given)
        columns: dict[str, Sequence[Any]] = {
            role: [row.get(name) for _, row in part]
            for role, name in roles.items()
            if role != "context"
        }
        lines = np.array([line for line, _ in part])
        yield RawBlock([_context(options, roles, row) for _, row in part], columns, lines)


def _objects(options: Options) -> Iterator[tuple[int, dict[str, Any]]]:
    for line, text in enumerate(text_lines(options.path, options.encoding), 1):
        if text.strip():
            try:
                row = json.loads(text)
            except ValueError as error:
                remedy = "write an object per line, or is the line cut?"
                raise bad(options.path, line, f"not JSON ({error})", remedy) from None
            if not isinstance(row, dict):
                problem = f"{text.strip()[:40]!r} is no object"
                raise bad(options.path, line, problem, 'write {"label": ..., "right": ...}')
            yield line, row


def _context(options: Options, roles: Mapping[str, str], row: dict[str, Any]) -> Any:
    if "context" in roles:
        return row.get(roles["context"], {})
    left_out = {*roles.values(), *options.drop}
    return {name: value for name, value in row.items() if name not in left_out}


# Vowpal Wabbit.


def vowpal_blocks(
    options: Options, given: Mapping[str, str], only_roles: bool
) -> Iterator[RawBlock]:
    """Contextual-bandit text: `action:cost:probability | features`. Labels are numbers."""
    numbered = enumerate(text_lines(options.path, options.encoding), 1)
    written = ((line, text) for line, text in numbered if text.strip())
    while part := list(islice(written, _ROWS)):
        contexts, rows = [], []
        for line, text in part:
            head, bar, _ = text.partition("|")
            if not bar:
                remedy = "write action:cost:probability | features; is the row cut?"
                raise bad(options.path, line, "there is no |", remedy)
            rows.append(_action(options, line, head))
            contexts.append(named_features(options.path, line, text))
        columns: dict[str, Sequence[Any]] = {
            role: [row[i] for row in rows]
            for i, role in enumerate(("label", "cost", "propensity", "among"))
        }
        yield RawBlock(contexts, columns, np.array([line for line, _ in part]))


def _action(options: Options, line: int, head: str) -> tuple[str, str, str, list[str] | None]:
    """The label, its cost, its probability, and the actions that are listed, if there are more."""
    words = [word for word in head.split() if not word.startswith("'")]
    said = [word.split(":") for word in words if ":" in word]
    if len(said) != 1 or len(said[0]) != 3:
        problem = f"{head.strip()!r} names no action with its cost and probability"
        if len(said) > 1:
            problem = f"{head.strip()!r} names the costs of several actions"
        remedy = "write one action:cost:probability, such as 2:0:0.8"
        raise bad(options.path, line, problem, remedy)
    action, cost, probability = said[0]
    listed = [word.partition(":")[0] for word in words]
    return action, cost, probability, listed if len(listed) > 1 else None


def dsjson_blocks(
    options: Options, given: Mapping[str, str], only_roles: bool
) -> Iterator[RawBlock]:
    """Decisions as JSON: actions by their number, the context without the actions' features."""
    rows = _objects(options)
    while part := list(islice(rows, _ROWS)):
        columns: dict[str, list[Any]] = {
            role: [] for role in ("label", "cost", "propensity", "propensities", "among", "time")
        }
        contexts = []
        for line, row in part:
            actions, shares = row.get("a"), row.get("p")
            if not (isinstance(actions, list) and isinstance(shares, list) and actions):
                remedy = "write the actions and their probabilities, with the chosen one first"
                raise bad(options.path, line, "there are no lists a and p", remedy)
            if len(actions) != len(shares):
                problem = f"{len(actions)} actions have {len(shares)} probabilities"
                raise bad(options.path, line, problem, "give each action in a its p")
            said = row.get("_label_Action", actions[0])
            columns["label"].append(said)
            columns["cost"].append(row.get("_label_cost"))
            columns["propensity"].append(row.get("_label_probability"))
            columns["propensities"].append(dict(zip(map(str, actions), shares, strict=True)))
            columns["among"].append(actions)
            columns["time"].append(row.get("Timestamp"))
            contexts.append(_flat(row.get("c", {})))
        yield RawBlock(contexts, dict(columns), np.array([line for line, _ in part]))


def _flat(context: Any, prefix: str = "") -> dict[str, Any]:
    """The features of a context and of its namespaces, without those of its actions."""
    made: dict[str, Any] = {}
    for name, value in context.items() if isinstance(context, dict) else ():
        if name.startswith("_"):  # _multi: the actions; others are directions to the program
            continue
        if isinstance(value, dict):
            made |= _flat(value, f"{prefix}{name}^")
        elif isinstance(value, list):
            made |= {f"{prefix}{name}[{i}]": number for i, number in enumerate(value)}
        elif value is not None:
            made[f"{prefix}{name}"] = value
    return made


READERS = {
    "csv": table_blocks,
    "tsv": table_blocks,
    "parquet": table_blocks,
    "jsonl": json_blocks,
    "vw": vowpal_blocks,
    "dsjson": dsjson_blocks,
}
ENDINGS = {
    ".csv": "csv", ".tsv": "tsv", ".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl",
    ".vw": "vw", ".dsjson": "dsjson",
}  # fmt: skip
RIGHT_COST = {"vw": 0.0, "dsjson": -1.0}  # wrong costs 1 more
