"""Shared by several commands: options for files and learners, progress, and output."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

Imports = Annotated[
    list[str] | None,
    Parameter(
        name="--import",
        negative=(),
        help="A Python module with learners of your own, or the path of its file: mine.py (repeat "
        "for several). Its code is executed. A learner Mine in it is named Mine, or mine:Mine.",
    ),
]


_FILES = "Files (.csv, .tsv, .parquet, .svm, .vw)"


def _option(help: str, **settings: Any) -> Parameter:
    return Parameter(group=_FILES, help=help, show_default=False, **settings)


Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
Repeated = Annotated[list[str] | None, Parameter(negative=())]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a file of data is read: the arguments of `datasets.read`."""

    label: Annotated[
        str | None,
        _option("The column of labels in a .csv, .tsv or .parquet file. Default: label."),
    ] = None
    text: Annotated[str | None, _option("A column of free text, hashed by its words.")] = None
    ngrams: Annotated[
        int | None,
        _option("Also hash sequences of up to this many words. Default: single words."),
    ] = None
    categories: Annotated[
        list[str] | None,
        _option("Columns of names that look like numbers: zip,age (or repeat it).", negative=()),
    ] = None
    features: Annotated[
        int | None,
        _option(
            "The number of columns that names and words are hashed into (default: 2**20); for a "
            ".svm file, its number of columns (default: the largest index)."
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        _option("The field separator: ';' or '\\t'. Default: a comma; a tab in .tsv."),
    ] = None
    encoding: Annotated[
        str | None, _option("The encoding of text: cp1252, latin-1, utf-16. Default: utf-8.")
    ] = None
    zero_based: Annotated[
        bool, _option("Indices in a .svm file start at 0, not at 1.", negative=())
    ] = False
    format: Annotated[
        Literal["npz", "svmlight", "vw", "csv", "tsv", "parquet"] | None,
        _option("The format, for a file whose ending does not show it."),
    ] = None

    def given(self) -> dict[str, Any]:
        """The given options, as arguments of `datasets.read`."""
        found = self._given()
        if self.categories:
            found["categories"] = [name for part in self.categories for name in part.split(",")]
        if self.delimiter:
            found["delimiter"] = {"\\t": "\t"}.get(self.delimiter, self.delimiter)
        return found

    def words(self) -> list[str]:
        """The given options as words of a command line."""
        words = []
        for name, value in self._given().items():
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words.append(",".join(value) if isinstance(value, list) else str(value))
        return words

    def _given(self) -> dict[str, Any]:
        options = asdict(self).items()
        return {name: value for name, value in options if value is not None and value is not False}


@contextmanager
def rounds_bar(doing: str) -> Iterator[Callable[..., None]]:
    """A progress bar on stderr; yields the function that updates it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(f"{doing} {{task.description}}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f}%"),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, rate="compiling the first time")
        shown = bar.tasks[0]

        def update(total: int, name: str = "", **rounds: Any) -> None:  # completed= or advance=
            if name != shown.description:
                bar.reset(task, description=name, total=total)
            rate = f"{shown.speed / 1e6:.1f} M rounds/s" if shown.speed else shown.fields["rate"]
            bar.update(task, total=total, rate=rate, **rounds)

        yield update


def check_out(out: Path) -> None:
    """Refuse an output file that cannot be written, before the work starts."""
    if not out.parent.is_dir() or out.is_dir():
        raise ValueError(f"{out} cannot be written: it must be a file in a folder that exists")


def import_all(modules: Sequence[str] | None) -> None:
    """Import the modules of --import."""
    from onebit.lab.lookup import import_learners

    for module in modules or ():
        import_learners(module)


# Output on terminals that cannot show every character.

_PLAIN = {"±": "+-", "…": "...", "–": "-", "×": "x", "≤": "<=", "²": "2", "µ": "u", "│": "|"}
_PLAIN |= {"─": "-", "━": "-", "•": "*"}


def _in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign, "?") for sign in signs), error.end


def show_on_any_terminal() -> None:
    """Replace characters that stdout and stderr cannot encode."""
    codecs.register_error("onebit.plain", _in_plain_signs)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="onebit.plain")


def plus_minus() -> str:
    """The plus-minus sign, in a form that stdout can encode."""
    try:
        "±".encode(getattr(sys.stdout, "encoding", None) or "ascii")
        return "±"
    except UnicodeEncodeError:
        return "+-"


def percent(share: float | None) -> str:
    """A share in per cent; a dash for None, such as the spread of a single run."""
    return "-" if share is None else f"{100 * share:.2f}"
