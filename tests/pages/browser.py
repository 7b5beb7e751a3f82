"""A real browser for the tests of pages: headless Chromium, spoken to over a pair of pipes.

Chromium's own DevTools protocol: JSON messages with a zero byte after each.
https://chromedevtools.github.io/devtools-protocol/
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from helpers.waiting import PATIENCE

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
# Nothing may call home, ask questions, or want a sandbox that a container cannot give.
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)


class Browser:
    """One tab. ``complaints`` has what the page wrote to its console or wanted from elsewhere."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self.complaints: list[str] = []
        self.loaded = False
        self.numbers = itertools.count(1)
        self.session: str | None = None
        self.unread = b""
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        from_us, self.to_browser = os.pipe()
        self.from_browser, from_it = os.pipe()
        self.process = subprocess.Popen(
            [
                *("/bin/bash", "-c", f'exec "$0" "$@" 3<&{from_us} 4>&{from_it}', CHROMIUM),
                *(*FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"),
            ],
            pass_fds=(from_us, from_it),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(from_us)
        os.close(from_it)
        targets = self.ask("Target.getTargets")["targetInfos"]
        tab = next(target["targetId"] for target in targets if target["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setFocusEmulationEnabled", enabled=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        os.close(self.to_browser)  # the browser ends when its pipe does
        os.close(self.from_browser)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.profile.cleanup()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self.numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.unread:
            ready, _, _ = select.select([self.from_browser], [], [], PATIENCE)
            assert ready, f"the browser has said nothing for {PATIENCE} seconds"
            more = os.read(self.from_browser, 1 << 16)
            assert more, "the browser has ended"
            self.unread += more
        message, self.unread = self.unread.split(b"\0", 1)
        event = json.loads(message)
        self._note(event.get("method", ""), event.get("params", {}))
        return event

    def _note(self, method: str, params: dict[str, Any]) -> None:
        self.loaded |= method == "Page.loadEventFired"
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            self.complaints.append(json.dumps(params))
        if method == "Network.requestWillBeSent":
            address = params["request"]["url"]
            if not address.startswith(("file:", "about:", "data:")):
                self.complaints.append(f"wanted {address}")

    def open(self, page: Path, width: int = 1280, *, dark: bool = False, media: str = "") -> None:
        """Show a page as wide as this, light or dark, on a screen or as if printed."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.loaded = False
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while not self.loaded:
            self._read()

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, file: Path) -> None:
        """The whole page, however long."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.ask("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def printed(self, file: Path) -> None:
        """As a PDF on A4."""
        size = {"paperWidth": 8.27, "paperHeight": 11.69}
        pdf = self.ask("Page.printToPDF", preferCSSPageSize=True, **size)
        file.write_bytes(base64.b64decode(pdf["data"]))
