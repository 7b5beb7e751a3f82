"""Services for tests: with a clock that is set by hand, and tokens that come in order."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

from onebit import testing
from onebit.service.configuration import check
from onebit.service.engine import Engine
from onebit.service.service import Service

LABELS = ("sport", "politics", "tech")
WITH_A_SHADOW = """revisions = true
[models.news.shadows.other]
learner = "Confidit"
"""
WORDS = ["ball", "match", "vote", "law", "chip", "code", "film", "song", "rain", "snow"]


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Home:
    """A folder with a configuration, in which a service is started, again and again.

    text: the options of the model `news`, and whatever tables come after it. Nothing here pulls the
    plug, so the journal need not wait for the disk unless `durability` says so.
    """

    def __init__(
        self, folder: Path, text: str = "", service: str = "", durability: str = "normal"
    ) -> None:
        self.durability = durability
        self.folder, self.clock = folder, Clock()
        self.journal = folder / "x.journal"
        self._numbers = itertools.count(1)
        self.open: list[Service] = []
        self.write(text, service)

    def write(self, text: str = "", service: str = "") -> None:
        options = text.partition("[models")[0]
        labels = "" if "labels" in options else f"labels = {list(LABELS)}\n"
        learner = "" if "learner" in options else 'learner = "Banditron"\n'
        self.config = self.folder / "x.toml"
        self.config.write_text(
            f'[service]\njournal = "x.journal"\ndurability = "{self.durability}"\n{service}\n'
            f"[models.news]\n{labels}{learner}{text}\n"
        )

    def start(self, **options: Any) -> Service:
        given = {"clock": self.clock, "ticks": False, "tokens": self._token, **options}
        service = Service(check(self.config), **given)
        self.open.append(service)
        return service

    def _token(self) -> str:
        return f"{next(self._numbers):08x}"

    def stop(self) -> None:
        for service in self.open:
            service.close()
        self.open.clear()

    def restart(self, **options: Any) -> Service:
        self.stop()
        return self.start(**options)

    def crashed(self, folder: Path) -> Home:
        """Another home with the files as they are on disk now, as after kill -9."""
        copy_files(self.folder, folder)
        other = Home(folder)
        other.config.write_text(self.config.read_text())
        other.clock, other._numbers = self.clock, self._numbers
        return other

    @property
    def snapshots(self) -> list[Path]:
        return sorted(Path(f"{self.journal}.snapshots").glob("*.onebit"))


def copy_files(source: Path, target: Path) -> None:
    """Copy a folder of a running service. The index of the log is memory, and is left out."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*-shm"))


def context(i: int) -> list[list[float]]:
    """A context by its number: pairs of an index and a number, since small indices are quick."""
    return [[i % 10, 1.0], [10 + i * 7 % 9, 0.5 + i % 4], [20 + i % 23, 1.0]]


def named(i: int) -> dict[str, float]:
    """The same by names."""
    return {f"feature-{index}": value for index, value in context(i)}


def play(engine: Engine, rounds: int, first: int = 0, every: int = 1) -> list[str]:
    """Decide, and answer every so many-th of the decisions; returns the ids."""
    ids = []
    for i in range(first, first + rounds):
        told = engine.decide(context(i))
        if i % every == 0:
            engine.feedback(told.id, right=told.label == LABELS[i % 3])
        ids.append(told.id)
    return ids


def assert_pure(engine: Engine) -> None:
    """The learner is what the journal makes of it."""
    engine.settle()
    assert testing.state_bytes(engine.learner) == testing.state_bytes(engine.replayed())
