"""The folder of compiled code: where it is, who may write to it, and what is removed from it."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import shlex
import shutil
import stat
import tempfile
import time
from pathlib import Path

_log = logging.getLogger("onebit")
_HOUR = 3600.0  # seconds
_LONGEST = 30 * 24 * _HOUR  # code that was not used for longer is removed
_MOST_BYTES = 2**30  # of compiled code


def _cache_roots() -> list[Path]:
    """Folders for compiled code, best first."""
    chosen = os.environ.get("ONEBIT_CACHE")
    if chosen:
        return [Path(chosen).resolve()]
    roots = []
    xdg = os.environ.get("XDG_CACHE_HOME")
    if xdg:
        roots.append(Path(xdg) / "onebit")
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE")
    if home:
        roots.append(Path(home) / ".cache" / "onebit")
    with contextlib.suppress(OSError):  # there may be no folder for temporary files
        user = os.getuid() if hasattr(os, "getuid") else 0
        roots.append(Path(tempfile.gettempdir()) / f"onebit-{user}")
    return roots


def _doubt(folder: Path) -> str:
    """Why other users might be able to write to the folder, and what to do; "" if they cannot.

    Cached code is executed, so nobody else may be able to change it.
    """
    if not hasattr(os, "getuid"):
        return ""
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "it is a link; set ONEBIT_CACHE to the folder that it leads to"
    if status.st_uid != os.getuid():
        return "it belongs to another user; set ONEBIT_CACHE to a folder of your own"
    if status.st_mode & 0o022:
        return f"others can write to it; run: chmod go-w {shlex.quote(str(folder))}"
    return ""


def cache_folder() -> Path | None:
    """The folder of compiled code; None: none can be written, and the chosen one has no code."""
    for root in _cache_roots():
        folder = root / "compiled"
        try:
            root.parent.mkdir(parents=True, exist_ok=True)
            root.mkdir(mode=0o700, exist_ok=True)  # whatever the umask
            folder.mkdir(mode=0o700, exist_ok=True)
            doubt = _doubt(root) or _doubt(folder)
            if doubt:  # logged: a Python warning may be an error, and importing must not fail
                _log.warning("onebit does not keep compiled code in %s: %s", root, doubt)
                continue
            with tempfile.TemporaryFile(dir=folder):
                pass
            return folder
        except OSError:
            if _is_filled(folder):
                return folder
    return None


def _is_filled(folder: Path) -> bool:
    """Whether compiled code can be read from the chosen folder, as from a read-only image."""
    if not os.environ.get("ONEBIT_CACHE"):
        return False
    with contextlib.suppress(OSError):
        return not _doubt(folder) and any(folder.glob("*.nbc"))
    return False


def tidy(folder: Path) -> None:
    """Remove code that was not used for 30 days, and the least recently used beyond the limit.

    Only onebit's own files are removed. Other processes may read, write or remove the same files
    at the same time: the code of a missing file is compiled again.
    """
    now, kept = time.time(), []
    for path in folder.iterdir():
        if path.suffix in (".nbc", ".tmp"):
            with contextlib.suppress(OSError):
                status = path.stat()
                kept.append((now - status.st_mtime, status.st_size, path))
    total = 0
    for age, size, path in sorted(kept):
        total += size
        if total > _MOST_BYTES or age > (_LONGEST if path.suffix == ".nbc" else _HOUR):
            with contextlib.suppress(OSError):
                path.unlink()
    for path in folder.parent.iterdir():  # folders of older versions, one for each digest
        if re.fullmatch("[0-9a-f]{16}", path.name):
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime > _LONGEST:
                    shutil.rmtree(path, ignore_errors=True)


def touch(path: Path) -> None:
    """Mark a file as used, at most once an hour."""
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > _HOUR:
            os.utime(path)


@functools.lru_cache(1)
def tidy_once(folder: Path) -> None:
    with contextlib.suppress(OSError):
        tidy(folder)
