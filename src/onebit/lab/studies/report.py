"""The pages of the studies, one for each paper, and an overview. Each is a self-contained file."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from onebit.lab.studies import plots
from onebit.lab.studies.findings import Chart, Findings, Section
from onebit.lab.studies.tables import number_table
from onebit.lab.studies.verdict import Verdict, together, verdict
from onebit.pages.charts import Looks, looks_of
from onebit.pages.rendering import render


def study_page(findings: Findings, version: str) -> str:
    """One paper's study as one HTML file."""
    all_charts = [chart for section in findings.sections for chart in section.charts]
    looks = looks_of(
        (name, curve.full_information)
        for chart in all_charts
        for name, curve in zip(plots.names(chart), chart.curves, strict=True)
    )
    incomplete = _incomplete(findings)
    failures: dict[str, list[str]] = defaultdict(list)  # the cells of each error
    for failure in findings.failures:
        failures[failure.error].append(failure.cell)
    return render(
        "study.html",
        findings=findings,
        score=_score(verdict(findings), "study"),
        incomplete=incomplete,
        sections=[
            _section(section, looks, f"part{number}", quick=findings.quick)
            for number, section in enumerate(findings.sections, 1)
        ],
        failures=failures,
        looks=looks,
        keys={name: plots.key_of(name, looks) for name in looks},
        nearness=plots.WORDS,
        command=findings.command,
        version=version,
        facts={
            **{name: fact for name, fact in findings.facts.items() if name != "onebit"},
            "cells": ", ".join(filter(None, [f"{findings.cells:,}", incomplete])),
            "elapsed time of all cells": duration(findings.seconds),
        },
    )


def overview_page(studies: list[tuple[Findings, str]], version: str) -> str:
    """All studies on one page; each comes with the link to its own."""
    all_findings = [findings for findings, _ in studies]
    verdicts = [verdict(findings) for findings in all_findings]
    return render(
        "overview.html",
        score=_score(together(verdicts), "all"),
        studies=[
            {
                "findings": findings,
                "link": link,
                "where": f"study{number}",
                "score": _score(found, f"study{number}"),
                "incomplete": _incomplete(findings),
                "checks": [check for section in findings.sections for check in section.checks],
            }
            for number, ((findings, link), found) in enumerate(
                zip(studies, verdicts, strict=True), 1
            )
        ],
        nearness=plots.WORDS,
        command="\n".join(findings.command for findings in all_findings),
        version=version,
        facts={
            "studies": str(len(studies)),
            "cells": f"{sum(findings.cells for findings in all_findings):,}",
            "elapsed time of all cells": duration(
                sum(findings.seconds for findings in all_findings)
            ),
        },
    )


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60:,} h {minutes % 60} min"


def _incomplete(findings: Findings) -> str:
    parts = []
    if findings.missing:
        parts.append(f"{findings.missing:,} not run yet")
    if findings.failures:
        parts.append(f"{len(findings.failures):,} failed")
    return ", ".join(parts)


def _score(found: Verdict, where: str) -> dict[str, Any]:
    return {
        "verdict": found,
        "ratios": plots.ratios(found.pairs, where) if found.pairs else "",
        "furthest": [plots.pair_in_words(pair) for pair in found.furthest],
    }


def _section(
    section: Section, looks: dict[str, Looks], where: str, *, quick: bool
) -> dict[str, Any]:
    """The data of a section for the template. where: makes its ids unique."""
    charts, with_numbers = section.charts, plots.numbered(section.charts)
    methods = dict.fromkeys(name for chart in charts for name in plots.names(chart))
    return {
        "section": section,
        "where": where,
        "legend": {name: plots.number_of(name, looks) if with_numbers else 0 for name in methods},
        "columns": plots.columns(len(charts)),
        "figures": [
            _figure(plots.without_beginning(chart), charts, looks, f"{where}-chart{number}")
            for number, chart in enumerate(charts, 1)
        ],
        "has_settings": any(curve.settings for chart in charts for curve in chart.curves),
        "tables": [number_table(table, quick=quick) for table in section.tables],
    }


def _figure(
    chart: Chart, beside: list[Chart], looks: dict[str, Looks], where: str
) -> dict[str, Any]:
    return {
        "title": chart.title,
        "caption": chart.caption,
        "picture": plots.drawing(chart, looks, beside, where),
        "has_zero": plots.has_zero(chart),
        "absent": plots.not_drawn(chart),
        "settings": {
            name: curve.settings
            for name, curve in zip(plots.names(chart), chart.curves, strict=True)
        },
    }
