"""Runs a service, a lesson and the commands about a journal, and watches the modes of their files.

The argument is a folder with `x.toml` and `notes.txt`. Whenever a file is opened, renamed or
locked, the modes of all files are looked at. The umask is 0, so it keeps nothing private.
"""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

from onebit.cli import journals as commands
from onebit.service.configuration import check
from onebit.service.journal.repair import repair
from onebit.service.service import Service
from onebit.service.teach.requests import AnswerRequest, PageRequest
from onebit.service.teach.sources import open_items
from onebit.service.teach.teacher import Teacher


class Watch:
    """An audit hook that notes who else may read or change what is in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.names, self.public = folder, set[str](), set[str]()
        self._is_looking = False

    def __call__(self, event: str, _: object) -> None:
        if not self._is_looking and event.startswith(("open", "os.", "sqlite3.", "fcntl.")):
            self.look()

    def look(self) -> None:
        self._is_looking = True
        for root, folders, names in os.walk(self.folder):
            for name in [*folders, *names]:
                self._look_at(Path(root) / name)
        self._is_looking = False

    def _look_at(self, path: Path) -> None:
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except FileNotFoundError:
            return
        self.names.add(path.name)
        if mode & 0o077:
            self.public.add(f"{path.relative_to(self.folder)} {mode:o}")


def serve(configuration: Path, folder: Path) -> None:
    journal = folder / "x.journal"
    with Service(check(configuration), snapshot_every=2) as service:
        news = service.models["news"]
        for _ in range(5):
            told = news.decide({"a": 1.0})
            news.feedback(told.id, right=True)
            service.tick()
        commands.backup(journal, folder / "backup.journal")
        commands.export(journal, out=folder / "rounds.parquet")
        commands.replay(journal, out=folder / "news.onebit")
        service.journal._fail(OSError("the disk"))  # the journal is copied
        while service.journal.failure is not None:
            service._stopping.wait(0.01)
    os.link = no_link  # then files are copied
    repair(journal)


def no_link(*_: Any) -> None:
    raise OSError("this file system has no links")


def teach(source: Path, folder: Path) -> None:
    with Teacher(open_items(source), folder, ["x", "y"]) as teacher:
        guess = teacher.ahead(PageRequest(page="p"))[0]
        teacher.answer(AnswerRequest(page="p", id=guess.id, right=True))


def main(folder: Path) -> None:
    os.umask(0)
    made = folder / "made"
    watch = Watch(made)
    sys.addaudithook(watch)
    serve(folder / "x.toml", made)
    teach(folder / "notes.txt", made / "notes.teach")
    watch.look()
    print("seen:", *sorted(watch.names))
    print("public:", *sorted(watch.public))


main(Path(sys.argv[1]))
