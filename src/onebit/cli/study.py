"""onebit study: runs a paper's experiments and compares the results."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from onebit._version import __version__
from onebit.cli.options import Flag, Imports, import_all

if TYPE_CHECKING:
    from onebit.lab.studies.findings import Findings
    from onebit.lab.studies.running import Plan, Progress
    from onebit.lab.studies.spec import Study


def study(
    name: Annotated[str, Parameter(show_default=False)] = "",
    /,
    *,
    quick: Flag = False,
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

    Examples:

    onebit study                        which studies there are

    onebit study banditron-2008 --quick

    onebit study all --quick            all of them, about ten minutes on two cores

    onebit study mine.toml --engine ray --workers 16

    onebit study mine.toml --import mine.py

    Parameters
    ----------
    name
        A study, a .toml file of your own (docs/studies.md), or all. Default: list the studies.
    quick
        Less data and fewer repeats: curves look similar, numbers are not comparable.
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
    from onebit.lab.studies.report import overview_page
    from onebit.lab.studies.spec import read_study, shipped
    from onebit.persist import write_bytes
    from onebit.settings import whole

    if not name:
        _print_list([read_study(paper) for paper in shipped()])
        return
    import_all(imports)
    if workers is not None:
        workers = whole("workers", workers, least=1, most=10_000)
    names = shipped() if name == "all" else [name]
    studies = [read_study(name) for name in names]
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out must be a folder")
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    found = [
        _findings(
            read, _command(called, quick, imports), quick, engine, workers, out, retry, report
        )
        for called, read in zip(names, studies, strict=True)
    ]
    for findings in found:
        _print_found(findings, out / f"{findings.name}.html")
    if name == "all":
        page = overview_page(
            [(findings, f"{findings.name}.html") for findings in found], __version__
        )
        write_bytes(out / "index.html", page.encode())
        print(f"{time.monotonic() - started:.0f} s; all on one page: {out / 'index.html'}")
    if any(findings.failures for findings in found):
        sys.exit(1)


def _command(called: str, quick: bool, imports: list[str] | None) -> str:
    """What to type to run the study again."""
    modules = [part for module in imports or [] for part in ("--import", module)]
    return shlex.join(["onebit", "study", called, *["--quick"] * quick, *modules])


def _findings(
    study: Study,
    command: str,
    quick: bool,
    engine: str,
    workers: int | None,
    out: Path,
    retry: bool,
    report: bool,
) -> Findings:
    from onebit.lab.studies.evaluating import evaluate
    from onebit.lab.studies.report import study_page
    from onebit.lab.studies.running import Plan, run_study
    from onebit.lab.studies.store import Store
    from onebit.persist import write_bytes

    store = Store(out / study.name / "cells")
    if report:
        plan = Plan(study, store, quick)
    else:
        plan = _with_progress(
            study.name,
            partial(
                run_study, study, store, quick=quick, engine=engine, workers=workers, retry=retry
            ),
        )
    findings = evaluate(plan, command)
    page = out / f"{study.name}.html"
    write_bytes(page, study_page(findings, __version__).encode(errors="replace"))
    return findings


def _with_progress(name: str, run: Callable[..., Plan]) -> Plan:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,}/{task.total:,} cells{task.fields[failed]}"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=0, failed="")

        def show(progress: Progress) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            bar.update(task, completed=progress.done, total=progress.cells, failed=failed)

        try:
            return run(progress=show)
        except KeyboardInterrupt:
            done = bar.tasks[0].completed
            bar.stop()
            print(
                f"onebit: interrupted; {done:,.0f} cells are kept, the same command goes on there",
                file=sys.stderr,
            )
            sys.exit(130)


def _print_list(studies: list[Study]) -> None:
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    for study in studies:
        console.print(f"[bold]{study.name}[/bold]: {study.title}\n    {study.paper}")
    console.print("\nonebit study NAME runs one, onebit study all --quick all of them")


def _print_found(findings: Findings, page: Path) -> None:
    from onebit.lab.studies.verdict import verdict

    found = verdict(findings)
    if findings.quick:
        parts = ["a quick run at reduced size, not comparable with the published numbers"]
    else:
        parts = [f"{found.holds} claims hold", f"{found.fails} do not"]
    parts += [f"{found.untold} cannot be told"] if found.untold else []
    parts += (
        [f"{found.count('near')} of {len(found.pairs)} numbers within 10 %"] if found.pairs else []
    )
    parts += (
        [f"{findings.missing:,} of {findings.cells:,} cells have not run"]
        if findings.missing
        else []
    )
    print(f"{findings.name}: {', '.join(parts)}; {page}")
    if not findings.cells:
        print(f"{findings.name}: none of its data are there; the page says what is looked for")
    if findings.failures:
        first = findings.failures[0]
        print(
            f"{findings.name}: {len(findings.failures)} cells failed: {first.cell}: {first.error}"
        )
