"""Shared by several commands: options, progress bars, and output."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from onebit.core.extras import how_to_install

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
Repeated = Annotated[list[str] | None, Parameter(negative=())]
Seed = Annotated[int, Parameter(help="The seed of all random numbers.")]
Prepare = Annotated[
    Repeated,
    Parameter(
        help="A step that prepares every row: unit_norm, binary, log_counts, tfidf, standardise, "
        "constant, hash:COLUMNS, fourier:COLUMNS:gamma=1 or nystroem:COLUMNS:gamma=1 (repeat for "
        "several, from first to last)."
    ),
]
Imports = Annotated[
    Repeated,
    Parameter(
        name="--import",
        help="A Python module with learners of your own, or the path of its file: mine.py (repeat "
        "for several). Its code is executed. A learner Mine in it is named Mine, or mine:Mine.",
    ),
]


@contextmanager
def serve_extra(needed_by: str) -> Iterator[None]:
    """For imports of the service's modules: a missing one is told with the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise ModuleNotFoundError(
            f"{needed_by} needs {package}: {how_to_install('serve')}"
        ) from None


@Parameter(
    name="*", group="Files (.csv, .tsv, .parquet, .svm, .vw)", show_default=False, negative=()
)
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a file of data is read: the arguments of `datasets.read`.

    Parameters
    ----------
    label
        The column of labels in a .csv, .tsv or .parquet file. Default: label.
    text
        A column of text, even where it is a single word.
    ngrams
        Hash sequences of up to this many words of that column. Default: 2.
    categories
        Columns of names that look like numbers or texts: zip,age (or repeat it).
    drop
        Columns to leave out: id,created (or repeat it).
    missing_label
        Rows without a label: skip leaves them out and says how many. Default: refuse the file.
    several
        The sign between labels, such as ',' or '|', if a row may have several labels or none.
    features
        The number of columns that names and words are hashed into (default: 2**20); for a .svm
        file, its number of columns (default: the largest index).
    delimiter
        The field separator: ';' or '\\t'. Default: a comma; a tab in .tsv.
    encoding
        The encoding of text: cp1252, latin-1. Default: utf-8, or that of the byte order mark.
    zero_based
        Indices in a .svm file start at 0, not at 1.
    format
        The format, for a file whose ending does not show it.
    """

    label: str | None = None
    text: str | None = None
    ngrams: int | None = None
    categories: list[str] | None = None
    drop: list[str] | None = None
    missing_label: Literal["refuse", "skip"] | None = None
    several: str | None = None
    features: int | None = None
    delimiter: str | None = None
    encoding: str | None = None
    zero_based: bool = False
    format: Literal["npz", "svmlight", "vw", "csv", "tsv", "parquet"] | None = None

    def given(self) -> dict[str, Any]:
        """The given options, as arguments of `datasets.read`."""
        found = self._given()
        for columns in found.keys() & {"categories", "drop"}:
            found[columns] = names_in(found[columns])
        if self.delimiter == "\\t":
            found["delimiter"] = "\t"
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


def names_in(given: Sequence[str]) -> list[str]:
    """The names in an option that takes several: separated by commas, or given again."""
    return [name for part in given for name in part.split(",")]


def repeated(option: str, values: Iterable[str] | None) -> list[str]:
    """An option that is given once per value, as words of a command line."""
    return [word for value in values or () for word in (option, value)]


def check_out(out: Path) -> None:
    """Refuse an output file that cannot be written, before the work starts."""
    if not out.parent.is_dir() or out.is_dir():
        raise ValueError(f"{out} cannot be written: it must be a file in a folder that exists")


def import_all(modules: Sequence[str] | None) -> None:
    """Import the modules of --import."""
    from onebit.registry.lookup import import_learners

    for module in modules or ():
        import_learners(module)


# Progress, on stderr.


def progress_bar(*columns: str, transient: bool = True) -> Progress:
    """A bar behind the first column of text, then the others, and the time that is left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    first, *texts = map(TextColumn, columns)
    shown = (first, BarColumn(), *texts, TimeRemainingColumn())
    return Progress(*shown, console=Console(stderr=True), transient=transient)


@contextmanager
def rounds_bar(doing: str) -> Iterator[Callable[..., None]]:
    """A progress bar that counts rounds; yields the function that updates it."""
    columns = (f"{doing} {{task.description}}", "{task.percentage:3.0f}%", "{task.fields[rate]}")
    with progress_bar(*columns) as bar:
        task = bar.add_task("", total=None, rate="compiling the first time")
        shown = bar.tasks[0]

        def update(total: int, name: str = "", **rounds: Any) -> None:  # completed= or advance=
            if name != shown.description:
                bar.reset(task, description=name, total=total)
            rate = f"{shown.speed / 1e6:.1f} M rounds/s" if shown.speed else shown.fields["rate"]
            bar.update(task, total=total, rate=rate, **rounds)

        yield update


# Output, on terminals that may not be able to show every character.

_PLAIN = {"±": "+-", "…": "...", "–": "-", "×": "x", "≤": "<=", "²": "2", "µ": "u", "│": "|"}
_PLAIN |= {"─": "-", "━": "-", "•": "*"}


def console(width: int) -> Console:
    """A console on stdout. width: if stdout is a file or a pipe."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def table_of(first: str, numbers: Sequence[str], *texts: str, **first_column: Any) -> Table:
    """An empty table: a column of names, columns of numbers, columns of text that may be cut."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(first, no_wrap=True, **first_column)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True, min_width=max(len(name), 6))
    for name in texts:
        table.add_column(name, overflow="ellipsis", no_wrap=True)
    return table


def show_warning(message: Warning | str, *_: Any) -> None:
    """A warning as one line: where in the program it arose does not help the user."""
    print(f"onebit: warning: {message}", file=sys.stderr)


def show_on_any_terminal() -> None:
    """Replace characters that stdout and stderr cannot encode."""
    codecs.register_error("onebit.plain", _in_plain_signs)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="onebit.plain")


def _in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign, "?") for sign in signs), error.end


def percent(share: float | None) -> str:
    """A share in per cent; a dash for None, such as the spread of a single run."""
    return "-" if share is None else f"{100 * share:.2f}"
