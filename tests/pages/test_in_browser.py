"""The pages in a real browser: nothing overlaps or is cut off, dark is dark, paper is white."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser
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
from test_race_page import LONG_NAMES, MANY, TOLD, bounded, make_line, make_panel
from test_race_page import page_of as race_of

pytest.importorskip("playwright")

from playwright.sync_api import sync_playwright

from onebit.lab.studies.findings import Check, Findings, Section, Table, Value
from onebit.lab.studies.report import overview_page, study_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium in PATH"),
]

LONG = "A learner with quite a long name (averaged, second order, diagonal)"


def extreme() -> Findings:
    """Long names, many methods, wide and narrow ranges, no white space to break at."""
    many = [curve(f"Method {i} of many", 10 ** (-0.2 * i), published=0.3) for i in range(9)]
    many += [curve(f"Told {i}", 0.01, told=True) for i in range(4)]
    flat = [curve(LONG, 0.5, 0.5001, settings="C=" + "1" * 40), curve("W" * 30, 0.5, 0.5001)]
    lines = [error_chart(LONG, flat, "caption " * 20, log=False), error_chart("x" * 60, many)]
    late = [float(x) for x in range(999_000, 1_000_001, 100)]
    seconds = curve("A", 5000.0, 9.0, x=late, published=1e6)
    lines.append(replace(error_chart("late", [seconds], log=False), y_percent=False, y_label=LONG))
    lines.append(error_chart("tiny", [curve("B", 1e-9, x=ROUNDS)]))
    value = Value(0.123456, 0.01, 0.2, "(†‡)", bold=True, underlined=True, published_marks="**")
    table = Table(
        LONG,
        "",
        "%",
        [LONG, "B", *(f"M{i}" for i in range(8))],
        [LONG, "x" * 40],
        [[value] * 10, [Value(1e-6, 1e-7, 1.0)] * 10],
    )
    sections = [Section(LONG, LONG, lines[:k], [table]) for k in (1, 2, 3, 4)]
    sections[0].checks.append(Check("x" * 200, False, "y" * 200))
    return replace(
        banditron(), title="T" * 80, sections=sections, command="onebit " + "z" * 300, name="n" * 60
    )


PAGES = {
    "race": lambda: race_of(make_panel(*MANY, *TOLD), make_panel(*MANY[:3], data="Other")),
    "race of long names": lambda: race_of(make_panel(*(make_line(LONG, 0.1) for _ in range(3)))),
    "race of many long names": lambda: race_of(make_panel(*LONG_NAMES, *TOLD)),
    "race with bounds": lambda: race_of(
        make_panel(*(bounded(line, *[0.5] * 7) for line in (*MANY[:3], *TOLD)))
    ),
    "banditron": lambda: study_page(banditron(), "1.2.3"),
    "confidit": lambda: study_page(confidit(), "1.2.3"),
    "noisy": lambda: study_page(noisy(), "1.2.3"),
    "many long names": lambda: study_page(
        replace(
            banditron(),
            quick=True,
            sections=[Section("F", "", [error_chart("S", many_long())] * k) for k in (1, 2, 3)],
        ),
        "1.2.3",
    ),
    "extreme": lambda: study_page(extreme(), "1.2.3"),
    "overview": lambda: overview_page([*everything(), (extreme(), "x" * 80)], "1.2.3"),
}

# Each gives a list of complaints.
LABELS = """(() => {
  const wrong = [];
  for (const svg of document.querySelectorAll('svg.chart')) {
    const frame = svg.getBoundingClientRect();
    if (!frame.width) continue;  // the chart for the other kind of screen
    const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent);
    const boxes = texts.map(t => [t.textContent, t.getBoundingClientRect()]);
    const size = parseFloat(getComputedStyle(texts[0]).fontSize) * svg.getScreenCTM().a;
    if (size < (innerWidth < 600 ? 10 : 8.5)) wrong.push(`letters of ${size} px`);
    boxes.forEach(([words, box], i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1
          || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        wrong.push(`"${words}" leaves its chart`);
      for (const [other, b] of boxes.slice(i + 1))
        if (Math.min(box.right, b.right) - Math.max(box.left, b.left) > 1
            && Math.min(box.bottom, b.bottom) - Math.max(box.top, b.top) > 1)
          wrong.push(`"${words}" overlaps "${other}"`);
    });
  }
  return wrong;
})()"""

CELLS = """(() => {
  const wrong = [];
  for (const value of document.querySelectorAll('td .value')) {
    const cell = value.parentNode.getBoundingClientRect();
    const boxes = [...value.children].map(e => [e.textContent, e.getBoundingClientRect()]);
    boxes.forEach(([words, box], i) => {
      if (box.left < cell.left || box.right > cell.right) wrong.push(`"${words}" leaves its cell`);
      for (const [other, b] of boxes.slice(i + 1))
        if (Math.min(box.right, b.right) - Math.max(box.left, b.left) > 1
            && Math.min(box.bottom, b.bottom) - Math.max(box.top, b.top) > 4)
          wrong.push(`"${words}" overlaps "${other}"`);
    });
  }
  return wrong;
})()"""

# Tables: what stands outside the screen.
FOLDED = """(() => {
  const wrong = [];
  for (const cell of document.querySelectorAll('.scroll tbody th, .scroll tbody td')) {
    if (!cell.textContent || !cell.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(cell);
    for (const box of [cell.getBoundingClientRect(), range.getBoundingClientRect()])
      if (box.left < 0 || box.right > innerWidth) wrong.push(`"${cell.textContent}" is off-screen`);
    const named = getComputedStyle(cell, '::before').content;
    if (cell.dataset.name && named !== JSON.stringify(cell.dataset.name))
      wrong.push(`"${cell.textContent}" lacks the name of its column`);
  }
  for (const region of document.querySelectorAll('.scroll'))
    if (region.scrollWidth > region.clientWidth) wrong.push(`${region.ariaLabel} scrolls`);
  return wrong;
})()"""

# Tables that scroll: [their label, whether this can be seen, and reached by keyboard].
SCROLLING = """[...document.querySelectorAll('.scroll')]
  .filter(region => region.scrollWidth > region.clientWidth)
  .map(region => [getComputedStyle(region).backgroundImage.includes('gradient'),
    region.tabIndex === 0, region.role === 'region'])"""

BACKGROUND = "getComputedStyle(document.body).backgroundColor"
INK = "getComputedStyle(document.body).color"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    file = tmp_path / "page.html"
    file.write_text(PAGES[request.param](), encoding="utf-8")
    return file


@pytest.mark.parametrize("width", [380, 768, 1280])
def test_nothing_overlaps_or_is_cut_off(browser: Browser, page: Path, width: int) -> None:
    browser.complaints.clear()
    browser.open(page, width)
    assert browser.run("innerWidth") == width
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(LABELS) == []
    assert browser.run(CELLS) == []
    assert browser.complaints == []


@pytest.mark.parametrize("width", [320, 375, 600])
def test_on_a_phone_every_cell_of_every_table_is_on_the_screen(
    browser: Browser, page: Path, width: int
) -> None:
    browser.open(page, width)
    browser.run("document.querySelectorAll('details').forEach(part => part.open = true)")
    assert browser.run(FOLDED) == []
    assert browser.run("document.documentElement.scrollWidth") <= width


def test_a_table_that_scrolls_shows_it_and_takes_the_focus(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    for name in ("race", "extreme"):
        file.write_text(PAGES[name](), encoding="utf-8")
        browser.open(file, 700)
        scrolling = browser.run(SCROLLING)
        assert scrolling and all(all(region) for region in scrolling)


def brightness(colour: str) -> float:
    """Between 0 and 255, from "rgb(20, 23, 28)"."""
    return sum(map(float, colour.strip("rgb()").split(","))) / 3


def test_dark_is_dark_and_paper_is_white(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert brightness(browser.run(BACKGROUND)) > 240 and brightness(browser.run(INK)) < 60
    browser.open(page, dark=True)
    assert brightness(browser.run(BACKGROUND)) < 40 and brightness(browser.run(INK)) > 200
    browser.open(page, dark=True, media="print")
    assert brightness(browser.run(BACKGROUND)) > 240 and brightness(browser.run(INK)) < 60


def test_printed_on_a4_no_chart_is_wider_than_the_paper(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    browser.open(page, 718, media="print")  # A4 between Chromium's margins
    charts = "[...document.querySelectorAll('.chart')].map(c => c.getBoundingClientRect().right)"
    assert max(browser.run(charts)) <= 718
    wrong = browser.run(LABELS)
    assert [words for words in wrong if "letters" not in words] == []
    browser.printed(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("width", [380, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(tmp_path: Path, scheme: Any, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    file = tmp_path / "page.html"
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"]) as browser,
        browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
        ) as context,
    ):
        shown = context.new_page()
        for name in ("race", "race with bounds", "banditron", "confidit", "noisy", "overview"):
            file.write_text(PAGES[name](), encoding="utf-8")
            shown.goto(file.as_uri())
            found = axe.run(shown).response["violations"]
            assert [(name, fault["id"], fault["nodes"][0]["html"]) for fault in found] == []


@pytest.mark.parametrize("name", ["race", "banditron", "confidit", "noisy"])
def test_tables_fit_on_a4(browser: Browser, tmp_path: Path, name: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(PAGES[name](), encoding="utf-8")
    browser.open(file, 718, media="print")
    assert browser.run("document.documentElement.scrollWidth") <= 718


def test_pointing_at_a_method_lights_it_up_in_every_chart(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(PAGES["confidit"](), encoding="utf-8")
    browser.open(file)
    browser.run("document.querySelector('.legend button').focus()")
    assert browser.run("document.querySelectorAll('.chart .curve.on').length") == 6
    browser.run("document.activeElement.blur()")
    assert browser.run("document.querySelectorAll('.on').length") == 0
    tip = """(() => {
      const point = document.querySelector('section .chart .curve.top .point');
      point.scrollIntoView();
      const box = point.getBoundingClientRect();
      const at = {bubbles: true, clientX: box.x + 3, clientY: box.y + 3};
      point.dispatchEvent(new PointerEvent('pointermove', at));
      return document.querySelector('.tip').textContent;
    })()"""
    assert "rounds: " in browser.run(tip)


def test_a_script_that_got_into_a_page_does_not_run(browser: Browser, page: Path) -> None:
    """The policy of a page allows its own script and style alone."""
    text = page.read_text(encoding="utf-8")
    foreign = "<script>document.title = 'foreign'</script><style>h1 { color:#123456 }</style>"
    foreign += '<img src="data:," onerror="document.title = 1">'
    page.write_text(text.replace("<main>", f"<main>{foreign}"), encoding="utf-8")
    browser.open(page)
    title, colour, has_run = browser.run(
        "[document.title, getComputedStyle(document.querySelector('h1')).color, "
        "Boolean(document.querySelector('.tip'))]"
    )
    assert title not in ("foreign", "1") and colour != "rgb(18, 52, 86)" and has_run
    browser.complaints.clear()
