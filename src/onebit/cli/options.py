"""What several commands share: options about files and learners, and where output goes."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
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


def _option(help: str, **more: Any) -> Parameter:
    return Parameter(group=_FILES, help=help, show_default=False, **more)


Flag = Annotated[bool, Parameter(negative=(), show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How a file of data is read: the arguments of `datasets.read`."""

    label: Annotated[
        str | None,
        _option("The column of labels in a .csv, .tsv or .parquet file. Default: label."),
    ] = None
    text: Annotated[str | None, _option("A column of free text there, hashed by its words.")] = None
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
        _option("What separates fields: ';' or '\\t'. Default: a comma; a tab in .tsv."),
    ] = None
    encoding: Annotated[
        str | None, _option("The encoding of text: cp1252, latin-1, utf-16. Default: utf-8.")
    ] = None
    zero_based: Annotated[
        bool, _option("Indices in a .svm file count from 0, not from 1.", negative=())
    ] = False
    format: Annotated[
        Literal["npz", "svmlight", "vw", "csv", "tsv", "parquet"] | None,
        _option("The format of a file whose ending does not tell it."),
    ] = None

    def given(self) -> dict[str, Any]:
        """Those that were given, as arguments of `datasets.read`."""
        found = self._given()
        if self.categories:
            found["categories"] = [name for part in self.categories for name in part.split(",")]
        if self.delimiter:
            found["delimiter"] = {"\\t": "\t"}.get(self.delimiter, self.delimiter)
        return found

    def words(self) -> list[str]:
        """The same options once more, for a command that is suggested."""
        words = []
        for name, value in self._given().items():
            words.append(f"--{name.replace('_', '-')}")
            if value is not True:
                words.append(",".join(value) if isinstance(value, list) else str(value))
        return words

    def _given(self) -> dict[str, Any]:
        every = asdict(self).items()
        return {name: value for name, value in every if value is not None and value is not False}


def import_all(modules: Sequence[str] | None) -> None:
    """Import the modules of --import."""
    from onebit.lab.lookup import import_learners

    for module in modules or ():
        import_learners(module)


# Output on terminals that cannot show every sign.

_PLAIN = {"±": "+-", "…": "...", "–": "-", "×": "x", "≤": "<=", "²": "2", "µ": "u", "│": "|"}
_PLAIN |= {"─": "-", "━": "-", "•": "*"}


def _in_plain_signs(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign, "?") for sign in signs), error.end


def show_on_any_terminal() -> None:
    """What stdout and stderr cannot encode is written in signs that they can."""
    codecs.register_error("onebit.plain", _in_plain_signs)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="onebit.plain")


def plus_minus() -> str:
    """The sign for a spread, as stdout can show it."""
    try:
        "±".encode(getattr(sys.stdout, "encoding", None) or "ascii")
        return "±"
    except UnicodeEncodeError:
        return "+-"


def percent(share: float | None) -> str:
    """A share in per cent; a dash where there is none, as the spread of a single run."""
    return "-" if share is None else f"{100 * share:.2f}"
