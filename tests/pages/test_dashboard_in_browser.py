"""The dashboard in a real browser: live, long, hostile, light and dark, on a phone and on paper."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from browser import CHROMIUM
from helpers.dashboards import HOSTILE, READER, TOKENS, configured, finished, play
from helpers.long_journals import fill
from helpers.serving import serving
from helpers.waiting import PATIENCE, wait_for

pytest.importorskip("playwright")
pytest.importorskip("starlette")

from playwright.sync_api import Browser, Page, expect, sync_playwright
from test_in_browser import BACKGROUND, FOLDED, INK, LABELS, brightness

from onebit.service.service import Service

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium in PATH"),
]
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
NOT_WRITTEN = "Not live: no service writes to this journal"
expect.set_options(timeout=1000 * PATIENCE)
WIDE = {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield made
        made.close()


class Tab:
    """A page, with what it wrote to its console or wanted from elsewhere."""

    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url, self.complaints = page, url, list[str]()
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._check)

    def _check(self, request: Any) -> None:
        if not request.url.startswith((self.url, "blob:")):
            self.complaints.append(f"wanted {request.url}")

    def open(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def tile(self, name: str) -> str:
        return self.page.inner_text(f".tile:has(dt:text-is('{name}')) b")


@contextmanager
def tab(browser: Browser, url: str, **options: Any) -> Iterator[Tab]:
    context = browser.new_context(**{"viewport": WIDE, **options})
    context.set_default_timeout(1000 * PATIENCE)
    made = Tab(context.new_page(), url.rstrip("/"))
    yield made
    context.close()
    assert made.complaints == []


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Any]:
    with serving(Service(configured(tmp_path), ticks=False)) as made:
        yield made


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("many") / "many.journal"
    fill(path, rounds=20_000, labels=1000)
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "hostile.journal"
    fill(path, rounds=3000, labels=[*HOSTILE, "\u0000nul", "\n\n", "x" * 5000])
    return path


def url_of(client: Any) -> str:
    return str(client.base_url)


def test_numbers_follow_the_rounds_without_a_reload(browser: Browser, site: Any) -> None:
    engine = site.service.models["news"]
    play(engine, 30)
    with tab(browser, site.url) as made:
        page = made.open("/dashboard/news")
        assert made.tile("Rounds") == "30"
        expect(page.locator("#live")).to_have_text("Live")
        page.evaluate("window.mine = 1")
        for rounds in (40, 50):
            play(engine, 10)
            expect(page.locator(".tile b").first).to_have_text(str(rounds))
        expect(page.locator(".decisions tbody th").first).to_have_text("49")
        page.click("#pause")
        expect(page.locator("#live")).to_have_text("Paused")
        play(engine, 10)
        page.wait_for_timeout(2500)
        assert made.tile("Rounds") == "50"
        page.click("#pause")
        expect(page.locator(".tile b").first).to_have_text("60")
        assert page.evaluate("window.mine") == 1  # no reload


@pytest.mark.parametrize("rate", [5, 50])
def test_numbers_are_shown_while_traffic_goes_on(browser: Browser, site: Any, rate: int) -> None:
    """Events that come faster than the page is made do not put off showing it."""
    engine = site.service.models["news"]
    play(engine, 1)
    with tab(browser, site.url) as made, traffic(engine, rate):
        page = made.open("/dashboard/news")
        expect(page.locator("#live")).to_have_text("Live")
        page.evaluate(COUNT_SHOWN)
        wait_for(lambda: page.evaluate("window.shown.length") >= 5)
        shown = page.evaluate("window.shown.map(text => Number(text.replaceAll(',', '')))")
        assert shown == sorted(set(shown))


# The totals that the page shows, one after the other.
COUNT_SHOWN = """() => {
  window.shown = [];
  const look = () => {
    const total = document.querySelector('.tile b')?.textContent;
    if (total && window.shown.at(-1) !== total) window.shown.push(total);
  };
  new MutationObserver(look).observe(document.getElementById('parts'),
    {childList: true, subtree: true, characterData: true});
}"""


@contextmanager
def traffic(engine: Any, rate: int) -> Iterator[None]:
    """Decisions in a thread, about so many per second, until the end of the block."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(1 / rate):
            engine.decide({"goal": 1.0})

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_finished_journal_is_not_live(browser: Browser, tmp_path: Path) -> None:
    """Nobody writes it; then a service starts on it, and stops again."""
    configuration = configured(tmp_path)
    with contextlib.closing(Service(configuration, ticks=False)) as service:
        play(service.models["news"], 5)
    journal = Path(configuration.service.journal)
    with finished(journal) as client, tab(browser, url_of(client)) as made:
        page = made.open("/dashboard/news")
        live = page.locator("#live")
        expect(live).to_have_text(NOT_WRITTEN)
        assert not live.evaluate("element => element.hasAttribute('data-follows')")
        with contextlib.closing(Service(configuration, ticks=False)) as service:
            expect(live).to_have_text("Live")
            play(service.models["news"], 5)
            expect(page.locator(".tile b").first).to_have_text("10")
        expect(live).to_have_text(NOT_WRITTEN)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
def test_a_dead_server_is_not_live(browser: Browser, tmp_path: Path, end: int) -> None:
    """Its connections are closed, or nothing comes over them any more."""
    with contextlib.closing(Service(configured(tmp_path), ticks=False)) as service:
        play(service.models["news"], 5)
        with dashboard_process(tmp_path / "x.journal") as (process, url), tab(browser, url) as made:
            page = made.open("/dashboard/news")
            live = page.locator("#live")
            expect(live).to_have_text("Live")
            process.send_signal(end)
            expect(live).to_have_text("Not live")
            expect(page.locator("#trouble")).to_contain_text("does not answer")
            assert made.tile("Rounds") == "5"
            if end == signal.SIGSTOP:
                process.send_signal(signal.SIGCONT)
                play(service.models["news"], 5)
                expect(page.locator(".tile b").first).to_have_text("10")
                expect(live).to_have_text("Live")
            made.complaints = [text for text in made.complaints if "ERR_" not in text]


@contextmanager
def dashboard_process(journal: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "onebit.cli", "dashboard", str(journal), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = re.search(r"http://[^/]*", process.stdout.readline())
        assert address
        yield process, address[0]
    finally:
        process.kill()
        process.communicate()


def test_a_chart_that_was_saved_goes_on(browser: Browser, site: Any) -> None:
    """The button that was pressed keeps the focus."""
    engine = site.service.models["news"]
    play(engine, 60)
    with tab(browser, site.url) as made:
        page = made.open("/dashboard/news")
        expect(page.locator("#live")).to_have_text("Live")
        with page.expect_download():
            page.click("#error button:has-text('SVG')")
        before = page.inner_html("#error .chart.wide")
        play(engine, 60)
        expect(page.locator(".tile b").first).to_have_text("120")
        page.wait_for_timeout(200)
        assert page.inner_html("#error .chart.wide") != before
        focused = "document.activeElement.getAttribute('aria-label')"
        assert page.evaluate(focused) == "Answered rounds that were wrong as SVG"


def test_without_a_stream_the_page_asks_now_and_then(browser: Browser, site: Any) -> None:
    engine = site.service.models["news"]
    play(engine, 5)
    with tab(browser, site.url) as made:
        page = made.page
        page.route("**/events", lambda route: route.abort())
        made.open("/dashboard/news")
        expect(page.locator("#live")).to_contain_text("every 3 seconds")
        play(engine, 5)
        expect(page.locator(".tile b").first).to_have_text("10")
        made.complaints = [text for text in made.complaints if "ERR_FAILED" not in text]


def test_a_server_that_is_gone_is_reported_and_followed_again(browser: Browser, site: Any) -> None:
    play(site.service.models["news"], 5)
    with tab(browser, site.url) as made:
        page = made.open("/dashboard/news")
        expect(page.locator("#live")).to_have_text("Live")
        page.context.set_offline(True)
        page.click("#pause")
        page.click("#pause")
        expect(page.locator("#trouble")).to_contain_text("does not answer")
        assert made.tile("Rounds") == "5"
        page.context.set_offline(False)
        play(site.service.models["news"], 5)
        expect(page.locator(".tile b").first).to_have_text("10")
        expect(page.locator("#trouble")).to_be_hidden()
        made.complaints = [text for text in made.complaints if "ERR_INTERNET" not in text]


def test_labels_are_found_while_typing_and_the_search_stays(browser: Browser, many: Path) -> None:
    with finished(many) as client, tab(browser, url_of(client)) as made:
        page = made.open("/dashboard/news")
        rows = page.locator(".labels tbody tr")
        expect(rows).to_have_count(26)
        expect(rows.last).to_contain_text("975 further labels")
        page.fill("input[type=search]", "topic 99")
        expect(rows).to_have_count(11)
        page.fill("input[type=search]", "nothing like it")
        expect(page.locator("[data-part=labels]")).to_contain_text("No label has")
        page.fill("input[type=search]", "topic 1")
        page.select_option("select[name=order]", "accuracy")
        expect(rows).to_have_count(26)
        assert "label=topic+1&order=accuracy" in page.url
        page.reload()
        expect(page.locator("input[type=search]")).to_have_value("topic 1")
        expect(page.locator("select[name=order]")).to_have_value("accuracy")
        for text in rows.locator("th").all_inner_texts()[:25]:
            assert text.startswith("topic 1")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_and_tables_can_be_saved(browser: Browser, many: Path, scheme: Any) -> None:
    with finished(many) as client, tab(browser, url_of(client), color_scheme=scheme) as made:
        page = made.open("/dashboard/news")
        for name in ("error", "shares", "delay"):
            panel = page.locator(f"#{name}")
            with page.expect_download() as got:
                panel.locator("button:text-is('SVG')").click()
            assert got.value.suggested_filename == f"news-{name}.svg"
            picture = ElementTree.parse(got.value.path()).getroot()
            assert picture.tag.endswith("}svg") and float(picture.get("width", "0")) > 300
            text = Path(got.value.path()).read_text()
            assert "var(" not in text and "class=" not in text
            assert picture.find("{http://www.w3.org/2000/svg}title") is not None
            with page.expect_download() as got:
                panel.locator("button:text-is('PNG')").click()
            data = Path(got.value.path()).read_bytes()
            assert data.startswith(b"\x89PNG") and len(data) > 5000
            with page.expect_download() as got:
                panel.locator("a[download]:text-is('csv')").click()
            rows = list(csv.DictReader(io.StringIO(Path(got.value.path()).read_text())))
            assert len(rows) > 10
        with page.expect_download() as got:
            page.locator("#labels a[download]").click()
        assert len(Path(got.value.path()).read_text().splitlines()) == 1001


def test_a_token_is_asked_for_and_never_in_an_address(browser: Browser, tmp_path: Path) -> None:
    with serving(Service(configured(tmp_path, TOKENS), ticks=False)) as site:
        engine = site.service.models["news"]
        play(engine, 12)
        with tab(browser, site.url) as made:
            asked = list[str]()
            made.page.on("request", lambda request: asked.append(request.url))
            page = made.open("/dashboard/news")
            expect(page.locator("#login")).to_be_visible()
            assert page.locator("[data-part]").count() == 0
            page.fill("#token", "wrong-0123456789")
            page.keyboard.press("Enter")
            expect(page.locator("#refused")).to_contain_text("not known")
            page.fill("#token", READER)
            page.click("#login button")
            expect(page.locator(".tile b").first).to_have_text("12")
            expect(page.locator("#login")).to_be_hidden()
            expect(page.locator("#live")).to_have_text("Live")
            play(engine, 1)
            expect(page.locator(".tile b").first).to_have_text("13")
            with page.expect_download() as got:
                page.locator("#labels a[download]").click()
            assert got.value.suggested_filename == "news-labels.csv"
            page.reload()
            expect(page.locator(".tile b").first).to_have_text("13")
            page.click("#forget")
            expect(page.locator("#login")).to_be_visible()
            assert page.locator("[data-part]").count() == 0
            page.reload()
            expect(page.locator("#login")).to_be_visible()
            assert not any(READER in url for url in asked)
            made.complaints = [text for text in made.complaints if "401" not in text]


@pytest.mark.parametrize("width", [380, 768, 1280, 1920])
@pytest.mark.parametrize("name", ["many", "hostile"])
def test_nothing_overlaps_or_is_cut_off(
    browser: Browser, request: pytest.FixtureRequest, name: str, width: int
) -> None:
    size = {"width": width, "height": 900}
    with (
        finished(request.getfixturevalue(name)) as client,
        tab(browser, url_of(client), viewport=size) as made,
    ):
        page = made.open("/dashboard/news")
        expect(page.locator(".chart").first).to_be_attached()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(LABELS) == []
        if width < 600:
            assert page.evaluate(FOLDED) == []


def test_hostile_labels_stay_text(browser: Browser, hostile: Path) -> None:
    with finished(hostile) as client, tab(browser, url_of(client)) as made:
        page = made.open("/dashboard/news?order=name")
        expect(page.locator(".labels")).to_contain_text("<script>alert(1)</script>")
        assert page.locator("#parts script").count() == 0
        page.fill("input[type=search]", '"><script>alert(3)</script>')
        expect(page.locator("[data-part=labels]")).to_contain_text("No label has")
        made.open("/dashboard")
        expect(page.locator("table")).to_contain_text("news")


def test_dark_is_dark_and_paper_is_white(browser: Browser, many: Path, tmp_path: Path) -> None:
    with finished(many) as client:
        for scheme, is_dark in (("light", False), ("dark", True)):
            with tab(browser, url_of(client), color_scheme=scheme) as made:
                page = made.open("/dashboard/news")
                assert (brightness(page.evaluate(BACKGROUND)) < 40) == is_dark
                assert (brightness(page.evaluate(INK)) > 200) == is_dark
                page.emulate_media(media="print")
                assert brightness(page.evaluate(BACKGROUND)) > 240
                assert page.locator("#pause").is_hidden()
                assert page.pdf().startswith(b"%PDF")


def test_axe_finds_no_fault(browser: Browser, many: Path, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    with finished(many) as client, serving(Service(configured(tmp_path, TOKENS))) as locked:
        for url, path in (
            (url_of(client), "/dashboard/news"),
            (url_of(client), "/dashboard"),
            (locked.url, "/dashboard/news"),
        ):
            for options in (
                {},
                {"color_scheme": "dark"},
                {"viewport": {"width": 380, "height": 800}},
            ):
                with tab(browser, url, **options) as made:
                    page = made.open(path)
                    page.wait_for_selector(
                        "[data-part=tiles], [data-part=models], #login:not([hidden])"
                    )
                    found = axe.run(page).response["violations"]
                    assert [(fault["id"], fault["nodes"][0]["html"]) for fault in found] == []
                    made.complaints = [text for text in made.complaints if "401" not in text]


def test_everything_can_be_reached_by_keyboard(browser: Browser, many: Path) -> None:
    with finished(many) as client, tab(browser, url_of(client)) as made:
        page = made.open("/dashboard/news")
        expect(page.locator("#live")).to_have_text(NOT_WRITTEN)
        page.click("#pause")
        reached = set[str]()
        for _ in range(60):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
        text = " ".join(reached)
        for part in ("as PNG", "as SVG", 'type="search"', "<select", "download", 'role="region"'):
            assert part in text, part


def test_a_tooltip_shows_the_numbers_of_a_stretch(browser: Browser, many: Path) -> None:
    with finished(many) as client, tab(browser, url_of(client)) as made:
        page = made.open("/dashboard/news")
        expect(page.locator("#live")).to_have_text(NOT_WRITTEN)
        page.click("#pause")
        page.locator("#error .chart.wide .curve .point").nth(5).hover(force=True)
        expect(page.locator(".tip")).to_contain_text("wrong")
        page.locator("#delay .chart.wide .column").nth(8).hover()
        expect(page.locator(".tip")).to_contain_text("of the answers")


def test_a_million_rounds_and_a_thousand_labels(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "long.journal"
    fill(path, rounds=1_000_000, labels=1000)
    with finished(path) as client, tab(browser, url_of(client)) as made:
        page = made.open("/dashboard/news")
        expect(page.locator("[data-unread]")).to_have_count(0)
        assert made.tile("Rounds") == "1,000,000"
        assert page.locator("#error .mark").count() >= 2  # the alarm, on both charts
        assert page.evaluate(LABELS) == []
        assert len(client.get("/dashboard/news?only=parts").content) < 300_000
        started = time.process_time()  # of the server, which runs in this process
        for word in range(5):
            client.get(f"/dashboard/news?only=parts&label={word}")
        assert (time.process_time() - started) / 5 < 0.3


def test_bars_do_not_touch_their_numbers(browser: Browser, site: Any) -> None:
    play(site.service.models["news"], 30)
    for width in (390, 1400):
        view = {"width": width, "height": 844}
        with tab(browser, url_of(site.http), viewport=view) as made:
            page = made.open("/dashboard/news")
            page.wait_for_selector(".influences .share")
            gaps = page.evaluate("""[...document.querySelectorAll('.influences tr')].map(row => {
              const text = document.createRange();
              text.selectNodeContents(row.cells[2]);
              return text.getBoundingClientRect().left
                - row.querySelector('.share').getBoundingClientRect().right;
            })""")
            assert gaps and min(gaps) >= 4, (width, gaps)
