"""The studies' pages: complete, well formed, self-contained, and calm about what is missing."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from helpers.markup import Checker, charts, coordinates
from helpers.sample_studies import (
    ROUNDS,
    banditron,
    confidit,
    curve,
    error_chart,
    everything,
    many_long,
    noisy,
)

from onebit.lab.studies.findings import (
    Chart,
    Check,
    Curve,
    Failure,
    Findings,
    Section,
    Table,
    Value,
)
from onebit.lab.studies.report import duration, overview_page, study_page
from onebit.lab.studies.verdict import Pair, nearness, together, verdict
from onebit.pages.charts import across, even_steps, shortened, upwards, width_of, wrapped

NAN = math.nan
STUDIES = [banditron, confidit, noisy]


def study(*sections: Section) -> Findings:
    return replace(banditron(), sections=list(sections))


def section(**parts: list) -> Section:
    return Section("Figure", "", **parts)


def page_of(*sections: Section) -> str:
    return study_page(study(*sections), "1.2.3")


@pytest.mark.parametrize("make", STUDIES)
def test_page_is_well_formed_with_unique_ids_and_links_that_arrive(make) -> None:
    page = study_page(make(), "1.2.3")
    checked = Checker(page)
    assert len(checked.ids) == len(set(checked.ids))
    assert set(checked.references) <= set(checked.ids)
    assert not checked.links
    for svg in charts(page):
        if svg.get("role") == "img":
            assert svg.findtext("title") and svg.findtext("desc")


@pytest.mark.parametrize("make", STUDIES)
def test_every_number_is_in_its_cell(make) -> None:
    findings = make()
    rows = Checker(study_page(findings, "1")).rows
    for table in (table for one in findings.sections for table in one.tables):
        times = 100 if table.unit == "%" else 1
        at = next(i for i, row in enumerate(rows) if row[1:] == table.methods)
        for name, values, cells in zip(table.rows, table.values, rows[at + 1 :], strict=False):
            assert cells[0] == name
            for value, cell in zip(values, cells[1:], strict=True):
                shown = [float(number) for number in re.findall(r"\d+\.?\d*", cell)]
                for number in (value.ours, value.spread, value.published):
                    if number is not None:
                        assert pytest.approx(times * number, rel=0.03, abs=0.005) in shown
                if value.ours is None:
                    assert value.absent in cell


@pytest.mark.parametrize("make", STUDIES)
def test_every_claim_note_method_and_fact_is_on_the_page(make) -> None:
    findings = make()
    text = Checker(study_page(findings, "1.2.3")).text
    said = [findings.title, findings.paper, findings.about, findings.command, "1.2.3"]
    said += [*findings.facts, *findings.facts.values(), f"{findings.cells:,}"]
    for one in findings.sections:
        said += [one.title, one.about, *one.notes]
        said += [words for check in one.checks for words in (check.claim, check.evidence)]
        said += [words for chart in one.charts for words in (chart.title, chart.caption)]
        said += [
            words for chart in one.charts for c in chart.curves for words in (c.method, c.settings)
        ]
        said += [words for table in one.tables for words in (*table.methods, *table.rows)]
    for failure in findings.failures:
        said += [failure.cell, failure.error]
    assert [words for words in said if words not in text] == []


def test_difference_is_signed_and_told_apart_without_colour() -> None:
    rows = Checker(study_page(banditron(), "1")).rows
    reuters = next(row for row in rows if row[0] == "Reuters4")
    assert "22.31" in reuters[2] and "16.3" in reuters[2] and "+6.01" in reuters[2]
    page = study_page(banditron(), "1")
    assert 'class="ball far" role="img" aria-label="further"' in page
    assert 'class="ball near" role="img" aria-label="within 10%"' in page


def test_claims_carry_words_not_colour_alone() -> None:
    checks = [Check("A", True, "a"), Check("B", False, "b"), Check("C", None, "c")]
    text = Checker(page_of(section(checks=checks))).text
    for words in ("holds", "does not hold", "cannot be decided", "1 of 3 claims hold"):
        assert words in text


def test_many_claims_are_folded_but_for_those_that_do_not_hold() -> None:
    checks = [Check(f"Claim {i}", [True, False, None][i % 3], "") for i in range(9)]
    page = page_of(section(checks=checks))
    Checker(page)
    outside = re.sub(r"<details>.*?</details>", "", page, flags=re.DOTALL)
    for check in checks:
        assert check.claim in page
        assert (check.claim in outside) == (check.holds is False)


def test_nothing_told_is_not_nothing_held() -> None:
    checks = [Check("A", None, ""), Check("B", None, "")]
    assert "Of 2 claims none can be decided yet" in page_of(section(checks=checks))
    assert "All 2 claims hold" in page_of(section(checks=[Check("A", True, "")] * 2))
    assert "The claim holds" in page_of(section(checks=[Check("A", True, "")]))


def test_a_method_looks_the_same_everywhere() -> None:
    page = study_page(confidit(), "1")
    groups = re.findall(r'class="curve (\w+)" data-line="(m\d)" data-c="(.*?)"', page)
    assert len(set(groups)) == 5
    assert {kind for kind, *_ in groups} == {"top", "reference"}


def test_a_method_that_comes_twice_is_told_apart_by_its_settings() -> None:
    curves = [curve("A", 0.1, settings="gamma=1"), curve("A", 0.2, settings="gamma=2")]
    legend = page_of(section(charts=[error_chart("S", curves)])).split('class="legend"')[1]
    assert "A gamma=1" in legend and "A gamma=2" in legend


@pytest.mark.parametrize("several", [1, 2, 3])
def test_no_name_is_cut(several: int) -> None:
    names = ["2nd-order Perceptron", "Confidit form=full reg=0.3 eta=0.03"]
    chart = error_chart("S", [curve(name, 0.1 * i + 0.1) for i, name in enumerate(names)])
    page = page_of(section(charts=[chart] * several))
    assert "…" not in page
    for svg in charts(page):
        if svg.find("g[@data-line]") is not None:
            labels = "".join("".join(text.itertext()) for text in svg.iter("text"))
            assert all(name.replace(" ", "") in labels.replace(" ", "") for name in names)


@pytest.mark.parametrize("several", [1, 2, 3])
def test_numbers_stand_for_names_that_have_no_room_and_the_legend_explains(several: int) -> None:
    page = page_of(section(charts=[error_chart("S", many_long())] * several))
    assert "…" not in page
    keys = re.findall(r"<b>(\d+)</b>(.*?)</button>", page)
    assert [(int(number), name) for number, name in keys] == [
        (i, one.method) for i, one in enumerate(many_long(), 1)
    ]
    for svg in charts(page):
        if svg.find("g[@data-line]") is not None:
            labels = [text.text or "" for text in svg.iter("text") if text.get("class") == "label"]
            assert sorted(int(label.split()[0]) for label in labels) == list(range(1, 22))


def test_more_methods_than_colours_are_still_told_apart() -> None:
    page = page_of(section(charts=[error_chart("S", many_long())]))
    looks = set()
    for group in (g for svg in charts(page) for g in svg.iter("g") if g.get("data-line")):
        marker = next(path for path in group.iter("path") if path.get("class") == "point")
        looks.add((group.get("data-line"), group.get("data-c"), marker.get("d")))
    assert len(looks) == len({look[1:] for look in looks}) == 21


def test_curves_over_rounds_begin_at_round_10() -> None:
    page = page_of(section(charts=[error_chart("S", [curve("A", 0.01)])]))
    assert "rounds, from 10 on" in page and ">10</text>" in page and ">1</text>" not in page
    late = curve("A", 0.01, x=[1000.0, 2000.0, 3000.0])
    assert "from 10 on" not in page_of(section(charts=[error_chart("S", [late])]))
    assert "from 10 on" not in study_page(banditron(), "1").split('id="part2"')[1]  # over gamma


def test_a_quick_run_gets_no_score() -> None:
    quick = replace(banditron(), quick=True, command="onebit study banditron-2008 --quick")
    header = study_page(quick, "1").split("</header>")[0]
    headline = re.findall("<h2>(.*?)</h2>", header)
    assert headline == [
        "A quick run at reduced size: its numbers are not comparable with the published ones"
    ]
    assert "<code>onebit study banditron-2008</code>" in header
    full = study_page(banditron(), "1").split("</header>")[0]
    for words in ("within 10%", "claims hold", "Furthest"):
        assert words in full.replace("4 of 5 claims", "claims") and words not in header
    assert "quick" not in full
    page = study_page(quick, "1")
    assert 'class="diff"' not in page and 'class="ball' not in page
    assert "22.31" in page and "16.3" in page  # both numbers are shown, but not compared


def test_the_overview_does_not_count_quick_runs() -> None:
    quick = replace(noisy(), quick=True)
    some = overview_page([(banditron(), "b.html"), (quick, "n.html")], "1")
    assert "4 of 5 claims hold" in some and "3 of 5 numbers within 10%" in some
    assert "Quick runs at reduced size: 1 of the 2 studies." in some
    row = next(row for row in Checker(some).rows if row[0] == quick.name)
    assert row[1:] == ["quick run, not counted", "0"]
    only = overview_page([(quick, "n.html")], "1")
    assert "Quick runs at reduced size: all studies." in only
    assert "claims hold" not in only and "numbers within" not in only


def test_one_repeat_has_no_spread() -> None:
    table = Table("T", "", "%", ["A"], ["row"], [[Value(0.1, None, 0.1)]])
    assert "±" not in page_of(section(tables=[table]))


def test_published_ends_are_drawn_and_said() -> None:
    page = study_page(banditron(), "1")
    assert "12.2 | 13%" in page
    assert "in the paper: 13%" in page
    assert page.count('class="strip"') == 3


def test_everything_is_escaped() -> None:
    bad = "<script>alert('&\"')</script>"
    value = Value(0.1, 0.1, 0.1, bad, published_marks=bad)
    lost = Value(None, None, 0.1, absent=bad)
    table = Table(bad, bad, bad, [bad, "b"], [bad], [[value, lost]])
    both = [curve(bad, 0.1, settings=bad, published=0.1), curve(bad, 0.2, settings=bad + "2")]
    chart = replace(error_chart(bad, both, bad), x_label=bad, y_label=bad)
    findings = Findings(
        *(bad, bad, bad, bad),
        [Section(bad, bad, [chart], [table], [Check(bad, None, bad)], [bad])],
        [Failure(bad, bad)],
        *(1, 2, 3.0, bad),
        {bad: bad},
    )
    quick = replace(findings, quick=True)
    pages = [study_page(findings, bad), overview_page([(findings, bad)], bad)]
    for page in (*pages, study_page(quick, bad), overview_page([(quick, bad)], bad)):
        assert "<script>alert" not in page
        assert page.count("<script>") == 1
        Checker(page)
        charts(page)


def test_the_same_findings_make_the_same_bytes() -> None:
    for make in STUDIES:
        assert study_page(make(), "1") == study_page(make(), "1")
    assert overview_page(everything(), "1") == overview_page(everything(), "1")


def test_nothing_is_loaded_from_elsewhere() -> None:
    for page in (*(study_page(make(), "1") for make in STUDIES), overview_page(everything(), "1")):
        assert not re.search(r"https?:|//\w|@import|url\(|src=", page)
        assert not Checker(page).tags & {"link", "img", "iframe", "object", "embed"}


def with_values(values: list[float], x: list[float] | None = None) -> Curve:
    return Curve("A", False, "", x or ROUNDS[: len(values)], values, values, values)


ODD_CURVES = {
    "no curve": [],
    "empty": [with_values([])],
    "one point": [with_values([0.5])],
    "one zero": [with_values([0.0])],
    "zeros": [with_values([0.0] * 9)],
    "zeros at the end": [with_values([0.5, 0.1, 0.0])],
    "zero rounds": [with_values([0.5, 0.1, 0.05], [0.0, 1.0, 10.0])],
    "not numbers": [with_values([NAN] * 5)],
    "gaps": [with_values([NAN, 0.5, NAN, 0.2, math.inf])],
    "all the same": [with_values([0.3] * 5)],
    "negative": [with_values([-0.3, 0.2, -0.1])],
    "unsorted": [with_values([0.3, 0.2, 0.1], [10.0, 100.0, 1.0])],
    "empty and not": [with_values([]), replace(with_values([0.3, 0.1]), method="B")],
    "published zero": [replace(with_values([0.3, 0.2]), published=0.0)],
    "published nan": [replace(with_values([0.3, 0.2]), published=NAN)],
    "no band": [replace(with_values([0.3, 0.2]), low=[NAN, NAN], high=[NAN, NAN])],
    "huge": [with_values([1e12, 1e-12])],
    "many": [curve(f"Method {i}", 0.05 * (i + 1), settings="a=1") for i in range(16)],
}


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("percent", [True, False])
@pytest.mark.parametrize("name", ODD_CURVES)
def test_odd_curves_still_make_a_page(name: str, log: bool, percent: bool) -> None:
    chart = Chart("S", "", "rounds", "error", log, log, percent, ODD_CURVES[name])
    for several in (1, 2, 3):
        page = page_of(section(charts=[chart] * several))
        Checker(page)
        assert not re.search(r"\b(nan|inf)\b", page.split("<script>")[0], re.IGNORECASE)
        assert all(-60 <= number <= 1100 for number in coordinates(page))


def test_zero_on_a_logarithmic_axis_is_told() -> None:
    chart = error_chart("S", ODD_CURVES["zeros at the end"])
    assert "are drawn at its lower end" in page_of(section(charts=[chart]))
    linear = error_chart("S", ODD_CURVES["zeros at the end"], log=False)
    assert "are drawn at its lower end" not in page_of(section(charts=[linear]))


def test_curves_without_data_are_named() -> None:
    chart = error_chart("S", ODD_CURVES["empty and not"])
    assert "Without data: A." in page_of(section(charts=[chart]))
    assert "No data." in page_of(section(charts=[error_chart("S", ODD_CURVES["empty"])]))


@pytest.mark.parametrize("unit", ["%", "s", ""])
@pytest.mark.parametrize(
    "values",
    [
        [[]],
        [[Value(None, None, None)]],
        [[Value(None, None, 0.1, absent="failed")]],
        [[Value(NAN, NAN, NAN)]],
        [[Value(0.0, 0.0, 0.0), Value(1.0, None, 0.0)]],
        [[Value(12345.6, 1.2, 12000.0), Value(1e-7, 1e-9, 1e7)]],
    ],
)
def test_odd_tables_still_make_a_page(unit: str, values: list[list[Value]]) -> None:
    methods = [f"M{i}" for i in range(len(values[0]))]
    table = Table("T", "", unit, methods, ["row"], values)
    page = page_of(section(tables=[table]))
    Checker(page)
    assert not re.search(r"\b(nan|inf)\b", page.split("<script>")[0], re.IGNORECASE)


def test_absent_values_are_said() -> None:
    rows = Checker(study_page(confidit(), "1")).rows
    assert any("no data" in cell and "34.02" in cell for row in rows for cell in row)
    assert any("failed" in cell and "7.54" in cell for row in rows for cell in row)
    assert any("not run yet" in cell for row in rows for cell in row)


def test_what_lacks_is_said_at_the_top() -> None:
    header = study_page(confidit(), "1").split("</header>")[0]
    assert "of 1,800 cells, 135 not run yet, 2 failed" in header
    assert "Not complete" not in study_page(banditron(), "1")


def test_the_same_error_is_shown_once_with_its_cells() -> None:
    failed = study_page(confidit(), "1").split("What failed")[1]
    assert failed.count("MemoryError") == 1
    assert "2 cells: amazon3/Banditron/fold 3, amazon3/Banditron/fold 4" in failed


def test_empty_studies() -> None:
    Checker(page_of())
    assert "No results." in page_of(section())
    assert "No study has run yet." in overview_page([], "1")


def test_overview_links_to_every_study_and_tells_what_fails() -> None:
    page = overview_page(everything(), "1.2.3")
    checked = Checker(page)
    assert len(checked.ids) == len(set(checked.ids))
    for findings, link in everything():
        assert link in checked.links
        assert findings.title in checked.text
        assert findings.command in checked.text
    wrong = [c.claim for f, _ in everything() for s in f.sections for c in s.checks if not c.holds]
    assert wrong and all(claim in checked.text for claim in wrong)
    row = next(row for row in checked.rows if row[0] == "banditron-2008")
    assert row[1:] == ["4", "0", "1", "3", "0", "2", "0"]


def test_verdict_counts_each_number_once() -> None:
    found = verdict(banditron())
    assert (found.holds, found.fails, found.undecided) == (4, 0, 1)
    assert [found.count(near) for near in ("near", "rough", "far")] == [3, 0, 2]
    assert found.furthest[0].name == "Reuters4, Perceptron"
    ran = sum(
        v.ours is not None for t in confidit().sections[0].tables[:1] for r in t.values for v in r
    )
    # The ends of the curves repeat the table; only that of the failed cell is not in it.
    assert len(verdict(confidit()).pairs) == ran + 1
    both = together([found, found])
    assert both.claims == 10 and len(both.pairs) == 10


@pytest.mark.parametrize(
    ("ours", "published", "near"),
    [
        (0.11, 0.10, "near"),
        (0.09, 0.10, "near"),
        (0.112, 0.10, "rough"),
        (0.125, 0.10, "rough"),
        (0.126, 0.10, "far"),
        (0.0, 0.10, "far"),
        (0.0, 0.0, "near"),
        (0.1, 0.0, "far"),
    ],
)
def test_nearness(ours: float, published: float, near: str) -> None:
    assert nearness(ours, published) == near
    assert Pair("", ours, published, True).ratio >= 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (12.34, "12.3 s"), (59.99, "60 s"), (61, "1 min"), (7260, "2 h 1 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# Charts


@pytest.mark.parametrize(
    ("low", "high", "steps"),
    [
        (0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0.31, 0.78, [0.3, 0.4, 0.5, 0.6, 0.7, 0.8]),
        (3.0, 3.0, [0.0, 1.0, 2.0, 3.0]),
        (0.0, 0.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (-1.0, 1.0, [-1.0, -0.5, 0.0, 0.5, 1.0]),
    ],
)
def test_even_steps_enclose_the_values(low: float, high: float, steps: list[float]) -> None:
    assert even_steps(low, high) == steps


def test_ticks_stay_apart() -> None:
    narrow = across("", [1, 1e9], 0, 120, log=True)
    places = [narrow.scale(tick.value) for tick in narrow.ticks]
    assert 2 <= len(places) <= 5
    assert [tick.text for tick in across("", [200, 260], 0, 100, log=True).ticks] == ["200", "260"]
    high = upwards("", [1e-9, 1], 100, 0, str, log=True)
    assert sum(bool(tick.text) for tick in high.ticks) <= 8


def test_texts_are_wrapped_to_the_room_there_is() -> None:
    assert wrapped("Banditron", 100) == ["Banditron"]
    assert wrapped("2nd-order Perceptron", 84, 11) == ["2nd-order", "Perceptron"]
    assert wrapped("", 50) == [""]
    lines = wrapped("A " + "long" * 30 + " name", 100)
    assert "".join(lines).replace(" ", "") == "A" + "long" * 30 + "name"
    assert all(width_of(line) <= 100 for line in lines)


def test_texts_are_shortened_to_the_room_there_is() -> None:
    assert shortened("Banditron", 100) == "Banditron"
    short = shortened("A very long name of a learner", 100)
    assert short.endswith("…") and width_of(short) <= 100
