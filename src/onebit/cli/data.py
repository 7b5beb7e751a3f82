"""onebit data: lists, describes and downloads data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cyclopts import App

from onebit.cli import options
from onebit.cli.options import FileOptions

if TYPE_CHECKING:
    from onebit.datasets.catalogue_entry import CatalogueEntry

data = App(name="data", help="List, describe and download data sets.")


@data.command(name="list")
def list_() -> None:
    """List the data sets: built in, found in a data folder, or available for download.

    The data folders are the folder in ONEBIT_DATA, and the user's data folder
    ($XDG_DATA_HOME/onebit, else ~/.local/share/onebit). Every readable file there is listed.

    ```
    onebit data list
    ONEBIT_DATA=~/data onebit data list
    ```
    """
    from onebit.datasets.catalogue import list_all

    table = options.table_of("name", ("rows", "features", "labels"), "where", "what")
    for entry in list_all():
        sizes = [f"{number:,}" for number in entry.size or ()] or [""] * 3
        style = None if entry.make or entry.find() else "dim"
        table.add_row(entry.name, *sizes, _where(entry), entry.contents, style=style)
    options.console(width=160).print(table)
    print("`onebit data info NAME` describes a data set")


def _where(entry: CatalogueEntry) -> str:
    if entry.make:
        return "built in"
    path = entry.find()
    if path:
        return path.name
    return "can be fetched" if entry.fetched else "not here"


@data.command
def info(name: str, /, *, files: FileOptions | None = None) -> None:
    """Describe a data set.

    ```
    onebit data info digits
    onebit data info mine.csv --label topic --delimiter ';'
    ```

    Parameters
    ----------
    name
        A name, as `onebit data list` shows it, or the path of a file.
    """
    from onebit.datasets.catalogue import named

    entry = named(name)
    path = entry.find()
    how = files.given() if files and entry.is_own else {}
    facts = {"what": entry.contents, "source": entry.source, "licence": entry.licence}
    if entry.make or path:
        facts |= _facts_of_rows(entry, how)
        facts["order"] = f"{entry.shuffle}: shuffle" if entry.shuffle else ""
        if path:
            facts |= {"file": str(path), "sha256": _checksum(entry, path)}
        call = f'read("{name}"' if entry.is_own and name != entry.name else f'get("{entry.name}"'
        arguments = "".join(f", {key}={value!r}" for key, value in how.items())
        facts["in Python"] = f"onebit.datasets.{call}{arguments})"
    else:
        facts["file"] = f"{entry.file} is not here"
        if entry.fetched:
            facts["to get it"] = f"onebit data fetch {entry.name}"
    for key, value in facts.items():
        if value:
            print(f"{key:>10}  {value}")


def _facts_of_rows(entry: CatalogueEntry, how: dict[str, Any]) -> dict[str, str]:
    import numpy as np

    table = entry.load(**({"rows": 10_000} if entry.drawn else how))
    X: Any = table.X
    stored = np.diff(X.indptr) if hasattr(X, "indptr") else np.count_nonzero(X, axis=1)
    drawn = " (as many as wanted)" if entry.drawn else ""
    if table.y.ndim == 2:  # several labels may be right
        counts = table.y.sum(axis=0)
    else:
        counts = np.bincount(table.y, minlength=len(table.labels))
    named = zip(table.labels, counts.tolist(), strict=True)
    per_label = [f"{label}: {count:,.0f}" for label, count in named]
    shown = ", ".join(per_label[:30]) + (", ..." if len(per_label) > 30 else "")
    return {
        "rows": f"{len(table.y):,}{drawn}",
        "features": f"{X.shape[1]:,}",
        "non-zeros": f"{stored.mean():,.1f} a row, {stored.min():,} to {stored.max():,}",
        "labels": f"{len(per_label)} ({shown})",
    }


def _checksum(entry: CatalogueEntry, path: Path) -> str:
    import hashlib

    from onebit.datasets.fetching import checksum_of

    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    recorded = checksum_of(path)
    fetched = recorded.read_text().split()[0] if recorded.is_file() else ""
    if fetched:
        verdict = " (as it was fetched)" if found == fetched else " (CHANGED since fetched)"
    elif entry.sha256:
        verdict = " (as catalogued)" if found == entry.sha256 else " (not the catalogued file)"
    else:
        verdict = ""
    return found + verdict


@data.command
def fetch(name: str, /) -> None:
    """Download a data set, unless it exists.

    The file is stored in the folder in ONEBIT_DATA, else in the user's data folder
    ($XDG_DATA_HOME/onebit, else ~/.local/share/onebit), with its checksum. Needs scikit-learn.

    ```
    onebit data fetch mnist
    ONEBIT_DATA=~/data onebit data fetch rcv1_full
    ```

    Parameters
    ----------
    name
        A name, as `onebit data list` shows it.
    """
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from onebit.datasets.fetching import fetch

    columns = (SpinnerColumn(), TextColumn(f"fetching {name}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        bar.add_task("fetch")
        path = fetch(name)
    print(f"{name} is in {path}; `onebit data info {name}` shows more")
