"""onebit study: runs a paper's experiments and compares the results."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from onebit._version import __version__
from onebit.cli import options
from onebit.cli.options import Flag, Imports

if TYPE_CHECKING:
    from onebit.lab.studies.findings import Findings
    from onebit.lab.studies.running import Progress
    from onebit.lab.studies.spec import Study


def study(
    name: Annotated[str, Parameter(show_default=False)] = "",
    /,
    *,
    quick: Flag = False,
    repeats: int | None = None,
    engine: Literal["threads", "loky", "dask", "ray"] = "threads",
    workers: int | None = None,
    imports: Imports = None,
    out: Path = Path("results"),
    retry: Flag = False,
    report: Flag = False,
) -> None:
    """Run the experiments of a paper and compare its numbers with ours.

    Every run of a learner is a cell; a finished cell is written at once. After an interruption, the
    same command continues where it stopped. The page is made at the end, from the finished cells.

    ```
    onebit study                        which studies there are
    onebit study banditron-2008 --quick
    onebit study rcnbf-2021 --repeats 1 at full size, with one repeat
    onebit study all --quick            all of them, about ten minutes on two cores
    onebit study mine.toml --engine ray --workers 16
    onebit study mine.toml --import mine.py
    ```

    Parameters
    ----------
    name
        A study, a .toml file of your own (docs/studies.md), or all. Default: list the studies.
    quick
        Less data and fewer repeats: curves look similar, numbers are not comparable.
    repeats
        At most this many repeats of each experiment, at its full size. Running again with more
        keeps the finished cells. Folds are not left out. Default: as many as the study has.
    engine
        Where cells run: local threads, local processes (loky), or a cluster: the one at RAY_ADDRESS
        or DASK_SCHEDULER_ADDRESS, or a new local one.
    workers
        How many cells run in parallel. Default: one per core.
    out
        A folder: OUT/NAME/cells holds the cells, OUT/NAME.html is the page, OUT/index.html is the
        overview of all.
    retry
        Run failed cells again.
    report
        Run nothing: make the pages from the finished cells.
    """
    from onebit.core.settings import whole
    from onebit.lab.studies.evaluating import evaluate
    from onebit.lab.studies.report import overview_page, study_page
    from onebit.lab.studies.running import Plan, run_study
    from onebit.lab.studies.spec import MOST_REPEATS, listed_studies, read_study, shipped
    from onebit.lab.studies.store import Store
    from onebit.learner.files import write_bytes

    if not name:
        _print_list(listed_studies())
        return
    options.import_all(imports)
    if workers is not None:
        workers = whole("--workers", workers, least=1, most=10_000)
    if repeats is not None:
        repeats = whole("--repeats", repeats, least=1, most=MOST_REPEATS)
    studies = {called: read_study(called) for called in (shipped() if name == "all" else [name])}
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out must be a folder")
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    found: list[Findings] = []
    for called, study in studies.items():
        store = Store(out / study.name / "cells")
        if report:
            plan = Plan(study, store, quick, repeats)
        else:
            with _cells_bar(study.name) as show:
                run = partial(run_study, engine=engine, workers=workers, retry=retry)
                plan = run(study, store, quick=quick, repeats=repeats, progress=show)
        words = ["onebit", "study", called, *options.repeated("--import", imports)]
        sizes = [*(["--repeats", str(repeats)] if repeats else []), *["--quick"] * quick]
        command = shlex.join([*words, *sizes])
        found.append(evaluate(plan, command))
        page = study_page(found[-1], __version__).encode(errors="replace")
        write_bytes(out / f"{study.name}.html", page)
    for findings in found:
        _print_found(findings, out / f"{findings.name}.html")
    if name == "all":
        linked = [(findings, f"{findings.name}.html") for findings in found]
        write_bytes(out / "index.html", overview_page(linked, __version__).encode())
        print(f"{time.monotonic() - started:.0f} s; all on one page: {out / 'index.html'}")
    if any(findings.failures for findings in found):
        sys.exit(1)


@contextmanager
def _cells_bar(study: str) -> Iterator[Callable[[Progress], None]]:
    """A progress bar that counts cells; yields the function that updates it."""
    cells = "{task.completed:,}/{task.total:,} cells{task.fields[failed]}"
    with options.progress_bar("{task.description}", cells, transient=False) as bar:
        task = bar.add_task(study, total=0, failed="")

        def show(progress: Progress) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            bar.update(task, completed=progress.done, total=progress.cells, failed=failed)

        try:
            yield show
        except KeyboardInterrupt:
            done = bar.tasks[0].completed
            bar.stop()
            print(
                f"onebit: interrupted; {done:,.0f} cells are kept, and the same command continues",
                file=sys.stderr,
            )
            sys.exit(130)


def _print_list(studies: list[Study]) -> None:
    console = options.console(width=100)
    for study in studies:
        console.print(f"[bold]{study.name}[/bold]: {study.title}\n    {study.paper}")
    console.print("\nonebit study NAME runs one, onebit study all --quick all of them")


def _print_found(findings: Findings, page: Path) -> None:
    from onebit.lab.studies.verdict import verdict

    name, found = findings.name, verdict(findings)
    if findings.quick:
        parts = ["a quick run at reduced size, not comparable with the published numbers"]
    else:
        parts = [f"{found.holds} claims hold", f"{found.fails} do not"]
    if found.undecided:
        parts.append(f"{found.undecided} cannot be decided")
    if found.pairs:
        parts.append(f"{found.count('near')} of {len(found.pairs)} numbers within 10 %")
    if findings.most_repeats:
        parts.append(f"with at most {findings.most_repeats} of the repeats")
    if findings.missing:
        parts.append(f"{findings.missing:,} of {findings.cells:,} cells have not run")
    print(f"{name}: {', '.join(parts)}; {page}")
    if not findings.cells:
        print(f"{name}: none of its data were found; the page says which names were tried")
    if findings.failures:
        first = findings.failures[0]
        print(f"{name}: {len(findings.failures)} cells failed: {first.cell}: {first.error}")
