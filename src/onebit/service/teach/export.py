"""What a person takes away: the learner, and the answered items as a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from onebit.core.extras import optional_module
from onebit.pages.rendering import csv_cell
from onebit.service.teach.teacher import Teacher

COLUMNS = (
    "item", "text", "guess", "right", "true_label", "question", "who", "time", "explored",
    "propensity",
)  # fmt: skip
_QUESTIONS = {
    "free": "which label",
    "again": "second guess",
    "yes": "this label",
    "no": "this label",
}


def table(teacher: Teacher) -> dict[str, list[Any]]:
    """The answers in the order in which they were given, by column."""
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for lesson, item, truth in teacher.overview.lessons():
        values = (
            lesson.item,
            None if item is None else item.text or None,
            str(lesson.said),
            lesson.right,
            None if truth is None else str(truth),
            _QUESTIONS[lesson.kind],
            lesson.who,
            datetime.fromtimestamp(lesson.time, UTC),
            lesson.explored,
            lesson.propensity,
        )
        for name, value in zip(COLUMNS, values, strict=True):
            columns[name].append(value)
    return columns


def as_csv(teacher: Teacher) -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(COLUMNS)
    for row in zip(*table(teacher).values(), strict=True):
        writer.writerow([_cell(value) for value in row])
    return file.getvalue().encode(errors="replace")


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, datetime) else csv_cell(value)


def as_parquet(teacher: Teacher) -> bytes:
    polars = optional_module("polars", "polars", "Parquet files are written by", extra="serve")
    strings = ("item", "text", "guess", "true_label", "question", "who")
    schema = dict.fromkeys(strings, polars.String) | {
        "right": polars.Boolean,
        "explored": polars.Boolean,
        "propensity": polars.Float64,
        "time": polars.Datetime("us", "UTC"),
    }
    frame = polars.DataFrame(table(teacher), schema={name: schema[name] for name in COLUMNS})
    packed = io.BytesIO()
    frame.write_parquet(packed)
    return packed.getvalue()


# By name: the ending of the file, its media type, and how it is made.
FILES: dict[str, tuple[str, str, Callable[[Teacher], bytes]]] = {
    "learner": (".onebit", "application/octet-stream", Teacher.learner_file),
    "csv": (".answers.csv", "text/csv; charset=utf-8", as_csv),
    "parquet": (".answers.parquet", "application/vnd.apache.parquet", as_parquet),
}


def python_lines(teacher: Teacher) -> str:
    """Python that loads the learner and says which label the first item has."""
    file = f"{teacher.items.name}.onebit"
    return "\n".join(
        [
            "import onebit as ob",
            "from onebit.service.teach.sources import open_items",
            "",
            f"learner = ob.load({file!r})",
            f"items = {teacher.opened}",
            "learner.predict([items.context(0)])",
        ]
    )
