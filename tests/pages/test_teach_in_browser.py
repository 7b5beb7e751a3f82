"""`onebit teach` as a person uses it, in a real browser."""

from __future__ import annotations

import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM
from helpers.waiting import PATIENCE

pytest.importorskip("playwright")
pytest.importorskip("starlette")
pytest.importorskip("PIL")

import numpy as np
from playwright.sync_api import BrowserContext, Page, Playwright, sync_playwright

from onebit.datasets.tables import digits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium in PATH"),
]
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]
TRUTH = [str(label) for label in digits().y]


class Server:
    """`onebit teach` in a process of its own. It can be killed and started again."""

    def __init__(self, folder: Path, *arguments: str, port: str = "0") -> None:
        self.folder, self.arguments, self.port = folder, arguments, port
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "onebit.cli", "teach", *self.arguments),
                *("--no-open", "--port", self.port),
            ],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found, line
        self.address, self.port = found[0], found[1]

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def answers(self, folder: str = "") -> list[tuple[str, str, int | None]]:
        """The key of each guess that was answered, the label it said, and whether it was right."""
        journal = next((self.folder / folder).rglob("teach.journal"))
        connection = sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)
        try:
            return connection.execute(
                "SELECT d.key, d.label, a.right FROM answers a JOIN decisions d "
                "ON d.position = a.decision ORDER BY a.position"
            ).fetchall()
        finally:
            connection.close()


class Tab:
    """A page, with what it complained about and what it wanted from elsewhere."""

    def __init__(self, page: Page, server: Server, *, with_faults: bool = False) -> None:
        self.page, self.server = page, server
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._check)
        if not with_faults:  # a browser writes lost connections to its console
            page.on("console", lambda message: self.complaints.append(message.text))
        page.goto(server.address)

    def _check(self, request: Any) -> None:
        if not request.url.startswith(self.server.address):
            self.complaints.append(f"wanted {request.url}")

    def wait(self, script: str, wanted: Any = True) -> Any:
        """Wait until an expression has a value."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = self.page.evaluate(script)
            if found == wanted:
                return found
            time.sleep(0.01)
        shown = self.page.inner_text("body")[:500]
        raise AssertionError(f"{script} is {found!r}, not {wanted!r}; the page: {shown}")

    def guess(self) -> str:
        """The guess, once it is shown. Chromium drops keys before it has painted a page."""
        self.wait(
            "performance.getEntriesByType('paint').length > 0 && "
            "!['', '…'].includes(document.querySelector('#guess').textContent)"
        )
        return self.page.evaluate("document.querySelector('#guess').textContent")

    def digit(self) -> str:
        """The true label of the digit that is shown."""
        title = self.page.evaluate("document.querySelector('#card .title').textContent")
        return TRUTH[int(title.split()[1]) - 1]

    def press(self) -> str:
        """Answer by a key, rightly."""
        guess = self.guess()
        self.page.keyboard.press("a" if guess == self.digit() else "x")
        return guess

    def saved(self, answers: int) -> None:
        """Wait until the server has so many answers, and the page knows."""
        self.wait("document.querySelector('#answers').textContent", f"{answers:,}")
        self.wait("document.querySelector('#saved').textContent.startsWith('Everything')")

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)


@pytest.fixture(scope="module")
def playing() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def browser(playing: Playwright) -> Iterator[Any]:
    with playing.chromium.launch(executable_path=CHROMIUM, args=FLAGS) as made:
        yield made


@pytest.fixture
def context(browser: Any) -> Iterator[BrowserContext]:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as made:
        made.set_default_timeout(1000 * PATIENCE)
        yield made


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Any]:
    servers: list[Server] = []

    def start(*arguments: str) -> Server:
        servers.append(Server(tmp_path, *arguments))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            server.end(signal.SIGTERM)


def learner_of(tab: Tab) -> bytes:
    return tab.page.request.get(f"{tab.server.address}export/learner").body()


def share(text: str) -> float:
    return float(text.rstrip("%")) / 100


def test_200_digits_by_key_presses(serve: Any, context: BrowserContext) -> None:
    server = serve()
    tab = Tab(context.new_page(), server)
    tab.guess()
    assert "from this one bit it learns" in tab.text("#intro")
    for i in range(200):
        tab.press()
        if i == 60:
            tab.saved(61)
            early = share(tab.text("#error-recent"))
    tab.saved(200)
    late = share(tab.text("#error-recent"))
    assert late < early - 0.1 and late < 0.5
    tab.wait("!!document.querySelector('#curve svg .line')")
    line = tab.page.evaluate(
        "document.querySelector('#curve [data-line=\"last 50\"] .line').getAttribute('d')"
    )
    heights = [float(point.split()[1]) for point in line[1:].split("L")]
    assert heights[-1] > heights[5] + 20  # the curve falls: in a picture, down is larger
    answers = server.answers()
    assert len(answers) == 200 and len({key for key, _, _ in answers}) == 200
    times = tab.page.evaluate("performance.getEntriesByName('next guess').map(x => x.duration)")
    print(f"\nkey press to next guess: {np.percentile(times, [50, 95])} ms, {len(times)} presses")
    assert tab.complaints == []


def test_reload_and_kill_9_and_a_cut_connection(serve: Any, context: BrowserContext) -> None:
    server = serve()
    tab = Tab(context.new_page(), server, with_faults=True)
    for _ in range(10):
        tab.press()
    tab.page.reload()
    for _ in range(5):
        tab.press()
    tab.saved(15)
    server.end(signal.SIGKILL)
    for _ in range(4):  # by the guesses that the page holds
        tab.press()
    tab.wait("document.querySelector('#saved').textContent.includes('4 not yet saved')")
    assert len(server.answers()) == 15
    server.start()
    tab.saved(19)
    context.set_offline(True)
    for _ in range(3):
        tab.press()
    tab.wait("document.querySelector('#saved').textContent.includes('3 not yet saved')")
    tab.page.keyboard.press("Backspace")  # takes back what the server has not heard of
    tab.wait("document.querySelector('#saved').textContent.includes('2 not yet saved')")
    context.set_offline(False)
    tab.saved(21)
    # The answer to the request is lost on the way: it is sent again, and learned once.
    tab.page.route("**/answer", lambda route: (route.fetch(), route.abort()), times=1)
    tab.press()
    tab.wait("document.querySelector('#saved').textContent.includes('not yet saved')")
    tab.page.reload()
    tab.saved(22)
    keys = [key for key, _, _ in server.answers()]
    assert len(keys) == len(set(keys)) == 22
    for key, said, right in server.answers():
        place = int(key.split("digit-")[1])
        assert right == (said == TRUTH[place])
    assert tab.complaints == []


def test_answers_of_a_closed_tab_go_out(serve: Any, context: BrowserContext) -> None:
    server = serve()
    tab = Tab(context.new_page(), server, with_faults=True)
    tab.guess()
    server.end(signal.SIGKILL)
    tab.press()
    tab.wait("document.querySelector('#saved').textContent.includes('1 not yet saved')")
    tab.page.evaluate(
        "for (const name of Object.keys(localStorage)) "
        "if (name.includes(' alive ')) localStorage.setItem(name, '1')"
    )
    tab.page.close()
    server.start()
    Tab(context.new_page(), server, with_faults=True).saved(1)


@pytest.mark.parametrize("status", [401, 503])
def test_an_answer_that_is_refused_for_now_is_kept(serve: Any, context: Any, status: int) -> None:
    """As after a restart with another secret, or while the disk is full."""
    tab = Tab(context.new_page(), serve(), with_faults=True)
    tab.guess()
    tab.page.route(
        "**/answer", lambda route: route.fulfill(status=status, json={"detail": "not now"})
    )
    tab.press()
    wanted = "The server says: not now. 1 not yet saved; kept in this browser"
    tab.wait("document.querySelector('#saved').textContent", wanted)
    tab.page.unroute("**/answer")
    tab.saved(1)


def test_a_page_without_a_guess_asks_again(serve: Any, context: BrowserContext) -> None:
    page = context.new_page()
    page.route("**/ahead", lambda route: route.fulfill(status=503, json={"detail": "not now"}))
    tab = Tab(page, serve(), with_faults=True)
    tab.wait("document.querySelector('#saved').textContent", "The server says: not now.")
    page.unroute("**/ahead")
    tab.press()
    tab.saved(1)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs Linux")
def test_the_page_goes_on_by_itself_when_the_disk_has_room_again(serve, browser, context) -> None:
    """No file of the server may grow for a while. A page comes meanwhile, and gets no guess."""
    server = serve()
    first = Tab(context.new_page(), server, with_faults=True)
    first.press()
    first.saved(1)
    _, most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, most))
    first.press()
    first.wait("document.querySelector('#saved').textContent.includes('1 not yet saved')")
    first.page.close()  # whose answer would let the other page look again
    with browser.new_context() as elsewhere:
        page = elsewhere.new_page()
        with page.expect_response("**/ahead") as refused:
            second = Tab(page, server, with_faults=True)
        assert refused.value.status == 503
        assert "damaged" not in refused.value.json()["detail"]
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most))
        second.press()
        second.saved(2)
    assert len(server.answers()) == 2


# A stream of events that never opens.
NO_EVENTS = """window.EventSource = class extends EventTarget {
  static CLOSED = 2;
  readyState = 2;
  constructor() {
    super();
    setTimeout(() => this.dispatchEvent(new Event('error')));
  }
  close() {}
};"""


def test_without_events_the_page_asks_now_and_then(serve: Any, context: BrowserContext) -> None:
    context.add_init_script(NO_EVENTS)
    server = serve()
    tab = Tab(context.new_page(), server)
    tab.press()
    tab.saved(1)
    with tab.page.expect_response("**/stats?*"):  # by which time the stream has failed
        pass
    tab.saved(1)  # the page does not say that there is no connection
    with context.browser.new_context() as elsewhere:
        other = Tab(elsewhere.new_page(), server)
        other.press()
        other.saved(2)
    tab.saved(2)
    assert tab.complaints == []


def test_a_skip_is_undone_after_a_reload(serve: Any, context: BrowserContext) -> None:
    tab = Tab(context.new_page(), serve())
    tab.page.uncheck("#again")
    tab.press()
    tab.saved(1)
    tab.guess()
    skipped = tab.text("#card")
    tab.page.keyboard.press("ArrowDown")
    tab.wait("document.querySelector('#summary').textContent.includes('1 skipped')")
    tab.page.reload()
    tab.guess()
    tab.wait("document.querySelector('#summary').textContent.includes('1 skipped')")
    tab.page.keyboard.press("Backspace")
    tab.wait("!document.querySelector('#summary').textContent.includes('skipped')")
    tab.wait("document.querySelector('#card').textContent", skipped)
    tab.guess()
    tab.page.keyboard.press("Backspace")  # then the answer before it
    tab.saved(0)
    assert tab.complaints == []


def test_undo_ten_steps(serve: Any, context: BrowserContext) -> None:
    server = serve()
    tab = Tab(context.new_page(), server)
    for _ in range(12):
        tab.press()
    tab.saved(12)
    before = learner_of(tab)
    for _ in range(6):
        tab.press()
    tab.saved(18)
    tab.page.reload()  # undo reaches beyond what this page has seen
    for _ in range(4):
        tab.press()
    tab.saved(22)
    assert learner_of(tab) != before
    for left in range(21, 11, -1):
        tab.guess()
        tab.page.keyboard.press("Backspace")
        tab.saved(left)
    assert learner_of(tab) == before
    assert tab.complaints == []


def test_two_tabs_teach_one_model(serve: Any, browser: Any) -> None:
    server = serve()
    with browser.new_context() as first, browser.new_context() as second:
        ada, bob = Tab(first.new_page(), server), Tab(second.new_page(), server)
        for tab, name in ((ada, "Ada"), (bob, "Bob <b>")):
            tab.guess()
            tab.page.fill("#who", name)
            tab.page.focus("#stage")
        for _ in range(12):
            ada.press()
            bob.press()
        ada.saved(24)
        bob.saved(24)
        assert "Ada: 12" in ada.text("#summary") and "Bob <b>: 12" in ada.text("#summary")
        items = {re.sub(r".* digit", "digit", key) for key, _, _ in server.answers()}
        firsts = [key for key, _, _ in server.answers() if " free " in key]
        assert len({key.split()[-1] for key in firsts}) == len(firsts) == len(items)
        assert ada.complaints == bob.complaints == []


def test_a_label_on_the_way_and_other_questions(serve: Any, context: BrowserContext) -> None:
    server = serve()
    tab = Tab(context.new_page(), server)
    tab.press()
    tab.guess()
    tab.page.fill("#label", "<script>smudge</script>")
    tab.page.keyboard.press("Enter")
    assert "New label “<script>smudge</script>”?" in tab.text("#new-label")
    tab.page.keyboard.press("Enter")
    tab.wait("document.querySelector('#by-label').textContent.includes('<script>smudge</script>')")
    tab.guess()
    tab.page.keyboard.press("7")  # names the label 7
    tab.wait("document.querySelector('#answers').textContent", "3")
    tab.page.select_option("#only", label="is it 7?")
    tab.wait("document.querySelector('#guess').textContent", "7?")
    assert tab.text("#ask") == "Is it" and "Yes" in tab.text("#right")
    assert re.match(r"it expects (yes|no), |the likeliest, |no idea yet", tab.text("#sure"))
    tab.page.keyboard.press("ArrowLeft")
    tab.wait("document.querySelector('#answers').textContent", "4")
    tab.wait("document.querySelector('#last .guess').textContent", "7?")
    assert "✗ no" in tab.text("#last li:first-child")
    tab.page.click("#last li:first-child button")
    assert "the question was “7?”, and the answer was no" in tab.text("#revised")
    assert "Yes" in tab.text("[data-revise=right]") and "No" in tab.text("[data-revise=wrong]")
    tab.page.click("[data-revise=close]")
    tab.page.select_option("#only", label="what is it?")
    tab.wait("document.querySelector('#ask').textContent", "It guesses")
    tab.page.select_option("#order", "unsure")
    tab.guess()
    tab.page.click("#skip")
    tab.wait("document.querySelector('#summary').textContent.includes('1 skipped')")
    tab.page.click("#undo")
    tab.wait("!document.querySelector('#summary').textContent.includes('skipped')")
    assert tab.complaints == []


def test_an_answer_is_revised(serve: Any, context: BrowserContext) -> None:
    server = serve()
    tab = Tab(context.new_page(), server)
    tab.page.uncheck("#again")
    for _ in range(3):
        tab.guess()
        tab.page.keyboard.press("x")
    tab.saved(3)
    tab.page.click("#last li:nth-child(3) button")
    tab.page.click("[data-revise=right]")
    tab.wait("document.querySelector('#last li:nth-child(3) button').className", "right")
    assert [right for _, _, right in server.answers()] == [1, 0, 0]
    for _ in range(2):  # what was called wrong, and what was named, are not chosen beforehand
        tab.page.click("#last li:nth-child(2) button")
        assert tab.page.input_value("#revise-label") == ""
        assert tab.page.is_disabled("[data-revise=label]")
        tab.page.select_option("#revise-label", label="4")
        assert tab.page.is_enabled("[data-revise=label]")
        tab.page.click("[data-revise=label]")
        tab.wait("document.querySelector('#last li:nth-child(2)').textContent.includes('no, 4')")
    tab.page.click("#last li:nth-child(1) button")
    tab.page.click("[data-revise=undo]")
    tab.saved(2)
    assert tab.complaints == []


def test_keys_are_remapped_and_switched_off(serve: Any, context: BrowserContext) -> None:
    server = serve()
    tab = Tab(context.new_page(), server)
    tab.page.uncheck("#again")
    tab.guess()
    tab.page.click("[data-capture=right]")
    tab.page.keyboard.press("j")
    tab.page.focus("#stage")
    tab.page.keyboard.press("a")
    tab.page.keyboard.press("j")
    tab.saved(1)
    assert "j" in tab.text("#right kbd")
    tab.page.reload()  # it is kept
    tab.guess()
    tab.page.keyboard.press("j")
    tab.saved(2)
    tab.page.uncheck("#keys-on")
    tab.page.focus("#stage")
    tab.guess()
    for key in ("j", "x", "ArrowRight", "Backspace", " ", "3"):
        tab.page.keyboard.press(key)
    time.sleep(0.3)
    assert len(server.answers()) == 2
    tab.page.check("#keys-on")
    tab.page.click("#keys-reset")
    tab.page.focus("#stage")
    tab.page.keyboard.press("a")
    tab.saved(3)
    tab.page.click("[data-capture=right]")
    tab.page.keyboard.press("F5")  # stays with the browser
    tab.page.keyboard.press("7")
    tab.page.click("[data-capture=wrong]")
    tab.page.keyboard.press("ArrowRight")
    tab.page.focus("#stage")
    tab.guess()
    tab.page.keyboard.press("7")  # an action comes before the label 7
    tab.saved(4)
    assert server.answers()[-1][2] == 1 and tab.text("[data-capture=right]") == "7"
    tab.page.click("[data-capture=skip]")
    tab.page.keyboard.press("7")
    assert tab.text("[data-capture=right]") == "no key"
    assert not tab.page.is_visible("#right kbd")
    tab.page.fill("#who", "xaxa")  # letters in a field are text
    assert len(server.answers()) == 4
    assert tab.complaints == []


@pytest.mark.parametrize("how", ["click", "Tab", "Escape"])
def test_choosing_a_key_is_given_up(serve: Any, context: BrowserContext, how: str) -> None:
    server = serve()
    tab = Tab(context.new_page(), server)
    tab.guess()
    before = tab.text("[data-capture=right]")
    tab.page.click("[data-capture=right]")
    assert tab.text("[data-capture=right]") == "press a key …"
    if how == "click":
        tab.page.click("#guess")
    else:
        tab.page.keyboard.press(how)
    assert tab.text("[data-capture=right]") == before
    tab.page.focus("#stage")
    tab.page.keyboard.press("a")  # an answer, and no new key for an answer
    tab.saved(1)
    assert tab.text("[data-capture=right]") == before
    tab.page.click("[data-capture=wrong]")
    tab.page.click("[data-capture=skip]")  # another key at once
    tab.page.keyboard.press("k")
    assert tab.text("[data-capture=skip]").startswith("k")
    assert "k" not in tab.text("[data-capture=wrong]") and tab.complaints == []


def test_the_keyboard_alone_reaches_everything(serve: Any, context: BrowserContext) -> None:
    tab = Tab(context.new_page(), serve())
    tab.press()
    tab.saved(1)
    tab.guess()
    seen: set[str] = set()
    for _ in range(120):
        tab.page.keyboard.press("Tab")
        seen.add(
            tab.page.evaluate(
                "(e => e.id || e.dataset.lesson && 'lesson' || e.dataset.capture && 'capture'"
                " || e.className || e.getAttribute('href')?.split('?')[0] || e.tagName)"
                "(document.activeElement)"
            )
        )
    wanted = {
        *("who", "wrong", "right", "skip", "undo", "chip", "label", "add-label", "lesson", "order"),
        *("only", "again", "keys-on", "capture", "keys-reset"),
        *("export/learner", "export/csv", "export/parquet"),
    }
    assert wanted <= seen
    tab.page.focus("#right")
    tab.page.keyboard.press("Enter")  # a control works by its own keys
    tab.saved(2)
    tab.guess()
    tab.page.keyboard.press(" ")  # on a button, the space bar presses it and does not skip
    tab.saved(3)
    tab.page.focus("#last button")
    tab.page.keyboard.press("Enter")
    tab.wait("document.querySelector('#revise').open")
    tab.page.keyboard.press("Escape")
    tab.wait("document.querySelector('#revise').open", False)
    assert tab.complaints == []


def test_guesses_that_come_late_show_no_item_twice(serve: Any, context: BrowserContext) -> None:
    """The server made them before it heard of answers that were given meanwhile."""
    server = serve()
    tab = Tab(context.new_page(), server, with_faults=True)
    tab.guess()
    tab.page.uncheck("#again")
    late: list[Any] = []
    tab.page.route("**/ahead", lambda route: late.append((route, route.fetch())), times=1)

    def not_ready(route: Any) -> None:
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), "ready": False})

    # After a restart of the server, the page asks for guesses while it holds some.
    tab.page.route("**/stats?*", not_ready, times=1)
    with tab.page.expect_response("**/stats?*"):
        tab.press()
    tab.press()
    while not late:
        tab.page.wait_for_timeout(10)
    for _ in range(3):
        tab.press()
    tab.saved(5)
    with tab.page.expect_response("**/ahead"):
        late[0][0].fulfill(response=late[0][1])
    tab.page.wait_for_timeout(200)
    context.set_offline(True)  # answers would bring newer guesses
    tab.press()
    tab.wait("document.querySelector('#saved').textContent.includes('1 not yet saved')")
    pressed = 6
    while "The connection is lost." not in tab.text("#card"):
        tab.press()
        pressed += 1
    context.set_offline(False)
    tab.saved(pressed)


def test_an_item_whose_answer_waits_is_not_shown(serve: Any, context: BrowserContext) -> None:
    tab = Tab(context.new_page(), serve(), with_faults=True)
    tab.guess()
    with tab.page.expect_response("**/ahead"):
        tab.page.select_option("#order", "order")
    tab.page.reload()  # an item that is shown already stays until it is answered
    tab.wait("document.querySelector('#card').textContent", "Digit 1")
    tab.page.uncheck("#again")
    tab.page.route("**/answer", lambda route: route.abort())
    tab.press()
    tab.page.reload()
    tab.guess()
    assert tab.text("#card") == "Digit 2"
    tab.page.unroute("**/answer")
    tab.saved(1)


# How far a button moves when there is a hint.
MOVED = """() => {
  const top = () => document.querySelector('#right').getBoundingClientRect().top;
  const hint = document.querySelector('#hint');
  hint.textContent = '';
  const before = top();
  hint.textContent = 'It tries “0” to learn more about it; “1” seems likelier. Ruled out: “2”.';
  return top() - before;
}"""


def test_touch(serve: Any, browser: Any) -> None:
    server = serve()
    with browser.new_context(
        viewport={"width": 390, "height": 780}, has_touch=True, is_mobile=True
    ) as context:
        tab = Tab(context.new_page(), server)
        tab.guess()
        tab.page.uncheck("#again")
        session = context.new_cdp_session(tab.page)

        tab.page.evaluate(
            "window.clicks = 0; addEventListener('click', () => window.clicks++, true)"
        )

        def touch(selector: str, *away: int) -> None:
            """A finger. On a busy machine a tap is sometimes not heard as a click, perhaps because
            Chromium takes it for a long press: then the finger taps again."""
            clicks = tab.page.evaluate("clicks")
            for _ in range(5):
                finger(selector, *away)
                for _ in range(100):
                    if away or tab.page.evaluate("clicks") > clicks:
                        return
                    tab.page.wait_for_timeout(30)
            raise AssertionError(f"no tap on {selector} is heard")

        def finger(selector: str, *away: int) -> None:
            """`page.tap` lifts it before Chromium has heard of it, and loses taps."""
            place = tab.page.locator(selector)
            place.scroll_into_view_if_needed()
            box = place.bounding_box()
            x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
            for kind, at in (("touchStart", 0), *(("touchMove", at) for at in away)):
                points = [{"x": x + at, "y": y}]
                session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
            session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

        tab.page.evaluate("scrollTo(0, 0)")
        touch("#card", 75, 150)
        tab.saved(1)
        tab.guess()
        touch("#card", -75, -150)
        tab.saved(2)
        assert [right for _, _, right in server.answers()] == [1, 0]
        for name, count in (("right", 3), ("wrong", 4), ("undo", 3)):
            tab.guess()
            touch(f"#{name}")
            tab.saved(count)
        tab.guess()
        touch("#skip")
        tab.wait("document.querySelector('#summary').textContent.includes('1 skipped')")
        tab.guess()
        touch("#chips button:nth-child(4)")
        tab.saved(4)
        assert tab.page.evaluate("document.documentElement.scrollWidth") == 390
        assert tab.page.evaluate(MOVED) == 0
        assert tab.complaints == []


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, list[str]]:
    """Sources with hostile names and contents, as arguments of the command."""
    from PIL import Image

    draw = np.random.default_rng(1)
    folder = tmp_path / "photos <script>alert(1)<script>"
    folder.mkdir()
    for i, name in enumerate(["<img src=x onerror=alert(1)>", "\u202egpj.cat", "plain", "a b&c"]):
        pixels = draw.integers(0, 255, (80, 120, 3), dtype=np.uint8)
        pixels[:, :, i % 3] //= 4
        Image.fromarray(pixels).save(folder / f"{name}.png")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8 no image")
    text = tmp_path / "notes.txt"
    lines = ["<script>alert(1)</script>", "\u202eright to left", "plain", "x" * 10_000_000]
    text.write_text("\n".join([*lines, "a word " * 5000]))
    table = tmp_path / "tickets.csv"
    table.write_text('body,"<b>price</b>"\n"<script>alert(1)</script> it fails",1\nwhere is it,2\n')
    return {
        "folder": [folder.name, "--labels", "<b>cat</b>,dog"],
        "text": [text.name, "--labels", "<i>a</i>,b"],
        "table": [table.name, "--text", "body", "--labels", "bug,question"],
        "rows": [table.name, "--labels", "bug,question"],
    }


@pytest.mark.parametrize("kind", ["folder", "text", "table", "rows"])
def test_sources_and_hostile_words(serve: Any, hostile: Any, context: Any, kind: str) -> None:
    server = serve(*hostile[kind])
    tab = Tab(context.new_page(), server)
    tab.page.select_option("#order", "order")
    shown = ""
    items = {"folder": 4, "text": 4, "table": 2, "rows": 2}[kind]
    for i in range(items):
        tab.guess()
        shown += tab.text("#card")
        tab.page.keyboard.press("a")
        tab.saved(i + 1)
    is_whole = kind not in ("folder", "text")  # there, something cannot be used
    end = (
        "Every item has its answer." if is_whole else "Every item that can be used has its answer."
    )
    tab.wait(f"document.querySelector('#card p').textContent === '{end}'")
    assert ("cannot be used: see" in tab.text("#card")) != is_whole
    wanted = {
        "folder": "<img src=x onerror=alert(1)>.png",
        "text": "<script>alert(1)</script>",
        "table": "<b>price</b>",
        "rows": "<script>alert(1)</script>",
    }
    assert wanted[kind] in shown
    assert len(server.answers()) == items
    if kind in ("folder", "text"):
        assert "1 cannot be used" in tab.page.text_content("#unusable")
    assert tab.complaints == []


def test_labels_are_named_in_the_page(serve: Any, hostile: Any, context: BrowserContext) -> None:
    server = serve(hostile["text"][0])
    tab = Tab(context.new_page(), server)
    tab.page.fill("#first-labels", "yes, no , perhaps")
    tab.page.keyboard.press("Enter")
    assert tab.guess() in ("yes", "no", "perhaps")
    assert tab.page.locator("#chips button").count() == 3
    tab.page.keyboard.press("a")
    tab.saved(1)
    tab.guess()
    tab.page.click("#why summary")
    tab.wait("document.querySelector('#parts').children.length > 0")
    assert tab.complaints == []


# Between what stands one below the other at the end of a lesson, there are no holes.
GAPS = """(() => {
  const boxes = ['.card', '#undo', '#name-label'].map(
    x => document.querySelector(x).getBoundingClientRect());
  return boxes.slice(1).map((box, i) => box.top - boxes[i].bottom).filter(gap => gap > 40);
})()"""


def test_the_end_of_a_lesson(serve: Any, browser: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\nfour\n")
    server = serve("notes.txt", "--labels", "a,b")
    with browser.new_context() as first, browser.new_context(accept_downloads=True) as second:
        left = Tab(first.new_page(), server)
        left.guess()
        tab = Tab(second.new_page(), server)  # the other page has all items
        tab.wait("document.querySelector('#card').textContent.includes('open on another page')")
        assert not tab.page.is_visible("#right") and not tab.page.is_visible("#chips")
        left.page.close()  # now they are free
        for _ in range(4):
            tab.guess()
            tab.page.keyboard.press("a")
        tab.wait("document.querySelector('#card').textContent.startsWith('Every item has')")
        tab.saved(4)
        tab.wait("document.querySelector('#card').textContent.includes('0% of the last 4 items')")
        assert not tab.page.is_visible("#right") and not tab.page.is_visible("#scores")
        assert tab.page.evaluate(GAPS) == []
        names = []
        for link in tab.page.locator("#card a").all():
            with tab.page.expect_download() as got:
                link.click()
            names.append(got.value.suggested_filename)
        assert names == [f"notes.txt{x}" for x in (".onebit", ".answers.csv", ".answers.parquet")]
        tab.page.keyboard.press("Backspace")
        tab.saved(3)
        tab.guess()
        assert tab.page.is_visible("#right")
        assert left.complaints == tab.complaints == []


def test_a_label_that_is_added_at_the_end_opens_an_item_again(
    serve: Any, context: BrowserContext, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("one\n")
    tab = Tab(context.new_page(), serve("notes.txt", "--labels", "a,b"))
    for number in (1, 2):
        tab.guess()
        tab.page.keyboard.press("x")
        tab.saved(number)
    tab.wait("document.querySelector('#card').textContent.includes('none of the labels')")
    assert not tab.page.is_visible("#name-it")
    tab.page.fill("#label", "c")
    tab.page.keyboard.press("Enter")
    assert tab.guess() == "c"
    assert tab.complaints == []


def test_a_mistyped_label_is_asked_about(
    serve: Any, context: BrowserContext, tmp_path: Path
) -> None:
    """By keys alone: Enter takes the label that was meant."""
    (tmp_path / "notes.txt").write_text("\n".join(f"note {i}" for i in range(20)))
    server = serve("notes.txt", "--labels", "billing,bug,Café au lait,2024,2025")
    tab = Tab(context.new_page(), server)
    for count, (typed, meant) in enumerate(
        (("biling", "billing"), ("cafe-au-lait", "Café au lait"), ("blilings", "billing")), 1
    ):
        tab.guess()
        tab.page.fill("#label", typed)
        tab.page.keyboard.press("Enter")
        assert f"New label “{typed}”?" in tab.text("#new-label")
        tab.page.keyboard.press("Enter")
        tab.saved(count)
        tab.wait("document.activeElement.id", "stage")
        assert meant in tab.text("#last li:first-child")
    tab.guess()
    tab.page.fill("#label", "  bug ")  # there is such a label
    tab.page.keyboard.press("Enter")
    tab.saved(4)
    tab.guess()
    tab.page.fill("#label", "biling")
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.press("Escape")  # nothing has happened
    tab.wait("document.activeElement.id", "label")
    assert tab.page.input_value("#label") == "biling"
    tab.page.click("#add-label")
    assert tab.page.locator("#similar-labels button").all_inner_texts() == ["billing"]
    tab.page.keyboard.press("Escape")
    tab.page.fill("#label", "question")  # which is like no other
    tab.page.keyboard.press("Enter")
    assert not tab.page.is_visible("#did-you-mean")
    tab.page.keyboard.press("Enter")
    tab.saved(5)
    wanted = ["billing", "bug", "Café au lait", "2024", "2025", "question"]
    tab.wait("[...document.querySelectorAll('#labels option')].map(o => o.value)", wanted)
    assert tab.complaints == []


def rows_of_labels(tab: Tab) -> list[str]:
    return tab.page.locator("#by-label th").all_inner_texts()


def test_labels_are_renamed_merged_and_removed(
    serve: Any, context: BrowserContext, tmp_path: Path
) -> None:
    """By keys alone; a removal is asked about once more."""
    (tmp_path / "notes.txt").write_text("\n".join(f"note {i}" for i in range(40)))
    server = serve("notes.txt", "--labels", "biling,billing,bug,spam")
    tab = Tab(context.new_page(), server, with_faults=True)
    names = "[...document.querySelectorAll('#by-label th')].map(x => x.innerText)"
    keys = tab.page.keyboard
    for count, label in enumerate(("biling", "bug", "spam", "biling"), 1):
        tab.guess()
        tab.page.fill("#label", label)
        keys.press("Enter")
        tab.saved(count)

    def choose(label: str) -> None:
        tab.page.focus(f'[data-label="{label}"]')
        keys.press("Enter")
        tab.wait("document.activeElement.id", "relabel-to")

    choose("biling")
    assert tab.page.is_disabled("#relabel-save") and tab.text("#relabelled") == "biling"
    keys.press("Escape")  # nothing has happened
    assert rows_of_labels(tab) == ["biling", "billing", "bug", "spam"]

    choose("bug")
    keys.type("defect")  # the old name is selected
    assert tab.text("#relabel-save") == "Rename"
    keys.press("Enter")
    tab.wait(names, ["biling", "billing", "defect", "spam"])

    choose("biling")
    keys.type("billing")
    assert tab.text("#relabel-save") == "Merge"
    assert "2 items with “biling” will have it" in tab.text("#relabel-effect")
    keys.press("Enter")
    tab.wait(names, ["billing", "defect", "spam"])
    row = tab.page.locator("#by-label tr", has_text="billing")
    assert row.locator('[data-name="items"]').inner_text() == "2"

    choose("spam")
    keys.press("Tab")  # there is nothing to be saved yet
    tab.wait("document.activeElement.id", "relabel-remove")
    keys.press("Enter")
    tab.wait("document.activeElement.id", "removal-sure")
    assert "1 item will be asked about again" in tab.text("#removal-effect")
    keys.press("Escape")
    assert rows_of_labels(tab) == ["billing", "defect", "spam"]
    choose("spam")
    assert not tab.page.is_visible("#removal")
    tab.page.click("#relabel-remove")
    keys.press("Enter")
    tab.wait(names, ["billing", "defect"])
    choose("defect")
    assert tab.page.is_disabled("#relabel-remove")  # two labels at least
    keys.press("Escape")

    assert tab.guess() in ("billing", "defect")
    keys.press("a")
    tab.saved(4)  # that of the removed label is gone
    said = tab.page.locator("#last .what").all_inner_texts()
    assert not any(word in text for text in said for word in ("biling", "bug", "spam"))
    server.end(signal.SIGTERM)
    server.start()
    tab.wait(names, ["billing", "defect"])
    assert tab.complaints == []


LONG = [f"category number {i}" for i in range(28)] + ["long " * 19, "x" * 90]
CUT = """[...document.querySelectorAll('button, input, select, table, #guess, .bars li, .panel h2')]
  .filter(e => e.checkVisibility() && !e.closest('dialog'))
  .filter(e => e.getBoundingClientRect().right > innerWidth || e.scrollWidth > e.clientWidth + 1
    && !/INPUT|SELECT/.test(e.tagName) && getComputedStyle(e).overflowX === 'visible')
  .map(e => e.outerHTML.slice(0, 100))"""


@pytest.mark.parametrize("width", [320, 390, 820, 1280, 1920])
def test_many_and_long_labels(serve: Any, browser: Any, tmp_path: Path, width: int) -> None:
    (tmp_path / "notes.txt").write_text("\n".join(f"note {i}" for i in range(20)))
    server = serve("notes.txt", "--labels", ",".join(LONG))
    with browser.new_context(viewport={"width": width, "height": 844}) as context:
        tab = Tab(context.new_page(), server)
        for label in ("x" * 90, "long " * 19):  # the guess itself may be long
            tab.guess()
            tab.page.fill("#label", label)
            tab.page.keyboard.press("Enter")
        tab.saved(2)
        tab.page.select_option("#only", label=f"is it {'x' * 90}?")
        tab.wait("document.querySelector('#guess').textContent", "x" * 90 + "?")
        assert tab.page.evaluate("document.documentElement.scrollWidth") == width
        assert tab.page.evaluate(CUT) == []
        heads = tab.page.locator(".labels thead th").all()
        assert all(head.bounding_box()["height"] < 40 for head in heads)  # words are not broken
        assert tab.complaints == []


def photos(folder: Path, count: int) -> None:
    """Ten photos of 12 megapixels under many names."""
    from PIL import Image

    folder.mkdir()
    for i in range(count):
        path = folder / f"{i:05}.jpg"
        if i >= 10:
            path.hardlink_to(folder / f"{i % 10:05}.jpg")
            continue
        draw = np.random.default_rng(i)
        shapes = Image.fromarray(draw.integers(0, 256, (15, 20, 3), np.uint8))
        pixels = np.asarray(shapes.resize((4000, 3000), Image.Resampling.BICUBIC), np.int16)
        pixels = pixels + draw.normal(0, 6, pixels.shape).astype(np.int16)
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(path, quality=90)


SMALL = """(() => {
  const canvas = document.createElement('canvas').getContext('2d');
  canvas.drawImage(document.querySelector('#card img'), 0, 0, 20, 15);
  const title = document.querySelector('#card .title').textContent;
  return [title, ...canvas.getImageData(0, 0, 20, 15).data];
})()"""


def test_large_photos(serve: Any, context: BrowserContext, tmp_path: Path):
    """5,000 photos of 12 megapixels, each shown with its own picture. Prints how long it takes
    from a key press until the next guess and its picture are painted (`pytest -s`)."""
    from PIL import Image

    photos(tmp_path / "photos", 5000)
    small = []
    for i in range(10):
        with Image.open(tmp_path / "photos" / f"{i:05}.jpg") as photo:
            small.append(np.asarray(photo.resize((20, 15), Image.Resampling.BOX), float))
    tab = Tab(context.new_page(), serve("photos", "--labels", "warm,cold"))
    steps = "performance.getEntriesByName('next guess').length"
    shown: list[str] = []
    for i in range(41):
        tab.guess()
        tab.wait(f"{steps} >= {i}")
        title, *pixels = tab.page.evaluate(SMALL)
        seen = np.array(pixels, float).reshape(15, 20, 4)[:, :, :3]
        away = [np.abs(seen - known).mean() for known in small]
        assert int(np.argmin(away)) == int(title.removesuffix(".jpg")) % 10
        shown.append(title)
        time.sleep(0.3)
        if i < 40:
            tab.page.keyboard.press("x" if i % 4 == 1 else "a")
    tab.wait(f"{steps} >= 40")
    found = tab.page.evaluate(
        "performance.getEntriesByName('next guess').map(x => [x.duration, x.detail])"
    )
    assert [detail["item"] for _, detail in found] == shown[1:]
    assert all(detail["painted"] for _, detail in found)
    median, slow = np.percentile([duration for duration, _ in found], [50, 95])
    print(f"\nkey press to next guess and picture: median {median:.0f} ms, p95 {slow:.0f} ms")
    assert tab.complaints == []


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_serious_faults_of_accessibility(serve, browser, width: int, dark: bool) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    server = serve()
    scheme = "dark" if dark else "light"
    with browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    ) as context:
        tab = Tab(context.new_page(), server)
        for moment in ("first", "later", "dialog"):
            if moment == "later":
                for _ in range(4):
                    tab.press()
                tab.saved(4)
                tab.guess()
                tab.wait("!!document.querySelector('#curve svg')")
            elif moment == "dialog":
                tab.page.click("#last button")
            else:
                tab.guess()
            tab.wait("document.getAnimations().length", 0)
            found = axe.Axe().run(tab.page).response["violations"]
            serious = [
                (fault["id"], [node["html"] for node in fault["nodes"]])
                for fault in found
                if fault["impact"] in ("serious", "critical") or fault["id"] == "heading-order"
            ]
            assert serious == [], (moment, serious)


def test_on_paper(serve: Any, context: BrowserContext, tmp_path: Path) -> None:
    tab = Tab(context.new_page(), serve())
    tab.press()
    tab.saved(1)
    tab.page.emulate_media(media="print")
    assert not tab.page.is_visible("#right") and tab.page.is_visible("#by-label")
    gap = "document.querySelector('.beside').getBoundingClientRect().top - "
    gap += "document.querySelector('header').getBoundingClientRect().bottom"
    assert tab.page.evaluate(gap) < 60  # no empty place where the card is on a screen
    assert tab.page.pdf(format="A4")[:4] == b"%PDF"


QUEUED = "Object.keys(localStorage).filter(name => name.includes(' queue ')).length"


def test_another_lesson_at_the_same_address(serve: Any, context: BrowserContext) -> None:
    """Answers wait for their lesson, are not sent to another one, and what was asked there is not
    asked here."""
    first = serve("--folder", "one")
    tab = Tab(context.new_page(), first, with_faults=True)
    tab.guess()
    tab.page.select_option("#only", label="is it 7?")
    tab.wait("document.querySelector('#guess').textContent", "7?")
    tab.page.keyboard.press("x")
    tab.saved(1)
    first.end(signal.SIGKILL)
    tab.page.keyboard.press("x")
    tab.wait("document.querySelector('#saved').textContent.includes('1 not yet saved')")
    second = Server(first.folder, "--folder", "two", "--labels", "cat,dog", port=first.port)
    try:
        tab.wait("document.querySelector('#saved').textContent.includes('another lesson')")
        assert "1 not yet saved" in tab.text("#saved")
        tab.page.reload()  # now it is a page of the other lesson
        assert tab.guess() in ("cat", "dog", *"0123456789")
        tab.page.keyboard.press("a")
        tab.saved(1)
        assert tab.page.evaluate(QUEUED) == 1
        tab.page.evaluate(
            "lesson => localStorage.setItem(`onebit teach ${lesson} ask`, "
            "JSON.stringify({order: 'random', only: 'horse', again: true}))",
            tab.page.get_attribute(".teach", "data-lesson"),
        )
        tab.page.reload()  # with a question about a label that there is not
        tab.guess()
        assert tab.page.input_value("#only") == "-1"
    finally:
        second.end(signal.SIGTERM)
    first.start()
    tab.page.reload()
    tab.saved(2)
    tab.wait(QUEUED, 0)
    assert tab.page.input_value("#only") != "-1"
    assert [said for _, said, _ in first.answers("one")] == ["7", "7"]
    assert tab.complaints == []


def test_pictures_of_another_folder_are_not_shown(serve: Any, context: Any, tmp_path: Path) -> None:
    from PIL import Image

    server = None
    for name, colour in (("one", "red"), ("two", "blue")):
        (tmp_path / name).mkdir()
        for i in range(4):
            Image.new("RGB", (300, 300), colour).save(tmp_path / name / f"{i}.png")
        port = "0" if server is None else server.port
        server = Server(tmp_path, name, port=port)
        try:
            tab = Tab(context.new_page(), server)
            for where in ("#samples img", "#card img"):
                tab.wait(f"document.querySelector('{where}')?.naturalWidth > 0")
                shown = tab.page.evaluate(COLOUR, where)
                assert (shown[0] > shown[2]) == (colour == "red"), (name, where, shown)
                if where == "#samples img":
                    tab.page.fill("#first-labels", "a,b")
                    tab.page.keyboard.press("Enter")
                    tab.guess()
            assert tab.complaints == []
            tab.page.close()
        finally:
            server.end(signal.SIGTERM)


COLOUR = """where => {
  const canvas = document.createElement('canvas').getContext('2d');
  canvas.drawImage(document.querySelector(where), 0, 0);
  return [...canvas.getImageData(5, 5, 1, 1).data];
}"""


def test_a_folder_that_is_removed_while_teaching(serve: Any, context: Any, tmp_path: Path) -> None:
    server = serve()
    tab = Tab(context.new_page(), server, with_faults=True)
    tab.press()
    tab.saved(1)
    shutil.rmtree(tmp_path / "digits.teach")
    tab.wait("document.querySelector('#saved').textContent.includes('removed or replaced')")
    tab.press()
    tab.wait("document.querySelector('#saved').textContent.includes('1 not yet saved')")


def test_a_name_is_checked_when_it_is_typed(serve: Any, context: BrowserContext) -> None:
    tab = Tab(context.new_page(), serve(), with_faults=True)
    tab.guess()
    tab.page.fill("#who", "a\u202eb")
    tab.page.keyboard.press("Tab")
    tab.wait("document.querySelector('#alert').textContent.startsWith('This name is not used')")
    tab.page.focus("#stage")
    tab.press()
    tab.saved(1)
    tab.page.fill("#who", "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}")
    tab.page.keyboard.press("Tab")
    tab.wait("document.querySelector('#alert').hidden")
    tab.page.focus("#stage")
    tab.press()
    tab.saved(2)
    assert "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}" in tab.text("#last li:first-child")
    tab.page.focus("#stage")
    for left in (1, 0):  # also what was answered under no name
        tab.page.keyboard.press("Backspace")
        tab.saved(left)
        tab.guess()


def test_after_a_choice_keys_answer_again(serve: Any, context: BrowserContext) -> None:
    tab = Tab(context.new_page(), serve())
    tab.guess()
    tab.page.uncheck("#again")
    for answered, how in enumerate(("mouse", "enter", "arrow"), 1):
        if how == "mouse":
            tab.page.select_option("#order", "order")
        else:
            tab.page.focus("#order")
        if how == "enter":
            tab.page.keyboard.press("Space")
            time.sleep(0.3)
            tab.page.keyboard.press("ArrowDown")
            tab.page.keyboard.press("Enter")
        elif how == "arrow":
            tab.page.keyboard.press("ArrowDown")
            assert tab.page.evaluate("document.activeElement.id") == "order"
            assert tab.page.input_value("#order") == "unsure"
            tab.page.keyboard.press("ArrowUp")
            tab.page.keyboard.press("Enter")
        tab.wait("document.activeElement.id", "stage")
        chosen = tab.page.input_value("#order")
        assert chosen == ("order" if how == "mouse" else "random")
        tab.guess()
        tab.page.keyboard.press("a")
        tab.saved(answered)
        assert tab.page.input_value("#order") == chosen
    assert tab.complaints == []


def test_labels_that_cannot_be_begun_with(serve: Any, context: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("\n".join(f"note {i}" for i in range(20)))
    tab = Tab(context.new_page(), serve("notes.txt"), with_faults=True)
    alert = "document.querySelector('#alert').textContent"
    tab.wait("document.activeElement.id", "first-labels")
    tab.page.fill("#first-labels", " , ,")
    tab.page.keyboard.press("Enter")
    tab.wait(f"{alert}.startsWith('Name two labels or more')")
    tab.page.fill("#first-labels", "todo done")
    tab.page.keyboard.press("Enter")
    tab.wait(f"{alert}.includes('two labels')")
    many = [f"a label with the number {i}" for i in range(300)]
    tab.page.fill("#first-labels", ", ".join(many))
    tab.page.keyboard.press("Enter")
    assert tab.guess() in many
    assert tab.page.locator("#only option").count() == 301


@pytest.mark.parametrize(("width", "height"), [(844, 390), (667, 375), (390, 844)])
def test_the_answers_are_on_the_screen_of_a_phone(serve, browser, width: int, height: int) -> None:
    size = {"width": width, "height": height}
    with browser.new_context(viewport=size, has_touch=True, is_mobile=True) as context:
        tab = Tab(context.new_page(), serve(), with_faults=True)
        for number in (0, 1):
            tab.guess()
            for name in ("wrong", "right"):
                box = tab.page.locator(f"#{name}").bounding_box()
                assert box["y"] + box["height"] <= height, (number, name, box)
            tab.page.tap("#right")
            tab.saved(number + 1)
        assert "of the last 2" in tab.text("#recent")
        assert tab.page.evaluate("document.documentElement.scrollWidth") == width
        tab.server.end(signal.SIGKILL)
        tab.page.tap("#right")
        tab.wait("document.querySelector('#saved').textContent.startsWith('No connection')")
        tab.page.evaluate("scrollTo(0, 1000)")
        box = tab.page.locator("#saved").bounding_box()  # still in sight
        assert box["y"] >= 0 and box["y"] + box["height"] < height


def swipe(page: Page, across: float = 0, down: float = 0, steps: int = 12) -> None:
    """Draw a finger over the middle of the item, with a touch event every 16 ms."""
    box = page.locator("#card").bounding_box()
    assert box is not None
    x, y = box["x"] + (box["width"] - across) / 2, box["y"] + (box["height"] - down) / 2
    touches = page.context.new_cdp_session(page)
    for step in range(steps + 1):
        point = {"x": x + across * step / steps, "y": y + down * step / steps}
        touches.send(
            "Input.dispatchTouchEvent",
            {"type": "touchMove" if step else "touchStart", "touchPoints": [point]},
        )
        page.wait_for_timeout(16)
    touches.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    touches.detach()


@pytest.mark.parametrize("kind", ["text", "row", "picture"])
def test_swipes_on_a_phone(serve: Any, browser: Any, tmp_path: Path, kind: str) -> None:
    """On a text, which can be scrolled up and down, as on a picture."""
    if kind == "text":
        words = "milk bread butter cheese " * 80
        (tmp_path / "notes.txt").write_text("\n".join(f"note {i}: {words}" for i in range(30)))
        source = ["notes.txt", "--labels", "todo,done"]
    elif kind == "row":
        rows = [f"{i / 7},{i % 3},{'abc'[i % 3]}" for i in range(30)]
        (tmp_path / "table.csv").write_text("\n".join(["size,colour,shape", *rows]))
        source = ["table.csv", "--labels", "todo,done"]
    else:
        source = []
    size = {"width": 390, "height": 844}
    server = serve(*source)
    with browser.new_context(viewport=size, has_touch=True, is_mobile=True) as context:
        tab = Tab(context.new_page(), server)
        for count in range(1, 13):
            tab.guess()
            swipe(tab.page, across=120 if count % 3 else -120)
            tab.saved(count)
        assert [right for *_, right in server.answers()] == [1, 1, 0] * 4
        assert tab.page.url == server.address
        if kind == "text":
            swipe(tab.page, down=-120)
            tab.wait("document.querySelector('.scrolls').scrollTop > 20")
            tab.saved(12)
        assert tab.complaints == []


def test_three_hundred_labels(serve: Any, context: BrowserContext, tmp_path: Path) -> None:
    (tmp_path / "my notes.txt").write_text("\n".join(f"note {i}" for i in range(20)))
    labels = [f"label {i}" for i in range(300)]
    tab = Tab(context.new_page(), serve("my notes.txt", "--labels", ",".join(labels)))
    tab.guess()
    tab.page.fill("#label", "label 299")
    tab.page.keyboard.press("Enter")
    tab.saved(1)
    rows = tab.page.locator("#by-label tr")
    assert rows.count() == 25 and "label 299" in " ".join(rows.all_inner_texts()[:2])
    tab.page.click("#all-labels")
    assert rows.count() == 300 and tab.text("#all-labels") == "Show 25 labels"
    tab.page.click("#all-labels")
    assert rows.count() == 25 and tab.text("#all-labels") == "Show all 300 labels"
    assert "onebit teach 'my notes.txt'" in tab.page.text_content("body")
    assert tab.complaints == []
