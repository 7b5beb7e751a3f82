"""Large journals, written by bulk inserts instead of an engine."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onebit.service.journal import AnswerRow, DecisionRow, Journal

START = 1.79e9  # seconds, of the first round


def fill(path: Path, *, rounds: int, labels: int | Sequence[str], seed: int = 1) -> None:
    """A journal of a model "news": it learns, and after 70 % of the rounds the world changes."""
    Journal(path).close()
    names = [f"topic {i}" for i in range(labels)] if isinstance(labels, int) else list(labels)
    rng, place = np.random.default_rng(seed), np.arange(rounds)
    said = np.minimum(rng.zipf(1.3, rounds) - 1, len(names) - 1)
    said[: len(names)] = place[: len(names)]  # every label is said
    accuracy = 0.95 - 0.4 * np.exp(-6 * place / rounds) - 0.12 * (place > 0.7 * rounds)
    right, answered = rng.random(rounds) < accuracy, rng.random(rounds) < 0.62
    explored = rng.random(rounds) < 0.02 + 0.2 * np.exp(-10 * place / rounds)
    delay = np.exp(rng.normal(4, 2, rounds))
    shares = [0.03 / (len(names) - 1)] * len(names)

    def decisions() -> Iterator[DecisionRow]:
        for i in range(rounds):
            law = shares.copy() if rounds - i <= 50 else [0.03]
            law[said[i] if rounds - i <= 50 else 0] = 0.97
            context = json.dumps({"goal": i % 7, "match": 2, "word": f"x{i % 50}"}).encode()
            yield DecisionRow(
                2 * i + 1, f"{i:08x}", 1, 1, START + i / 2, None, context, None, names[said[i]],
                0.97, int(explored[i]), i + 1, json.dumps(law), b"x" * 150, 0, 2 * i + 1, 0, None,
            )  # fmt: skip

    def answers() -> Iterator[AnswerRow]:
        for i in np.flatnonzero(answered).tolist():
            late = START + i / 2 + delay[i]
            yield AnswerRow(2 * i + 2, 1, 2 * i + 1, late, int(right[i]), None, None, None)

    made: dict[str, Any] = {"learner": "OneBit", "settings": {}, "seed": 0, "labels": names}
    connection = sqlite3.connect(path, isolation_level=None)
    run = connection.execute
    run("PRAGMA synchronous = OFF")
    run("BEGIN")
    run("INSERT INTO models VALUES (1, 'news')")
    run("INSERT INTO configurations VALUES (1, 1, ?, ?, NULL)", (START, json.dumps(made)))
    for table, row, rows in (
        ("decisions", DecisionRow, decisions()),
        ("answers", AnswerRow, answers()),
    ):
        signs = ", ".join("?" * len(row._fields))
        connection.executemany(f"INSERT INTO {table} VALUES ({signs})", rows)
    run("COMMIT")
    connection.close()
