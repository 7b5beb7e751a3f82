"""The one place that knows numba: compile, cache, call without ceremony.

Every kernel is an ordinary Python function. With ``NUMBA_DISABLE_JIT=1`` it runs as such, and must
give the same results; that is how coverage is measured and how the compiler is checked.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import logging
import os
import pickle
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import types
from numba.core.caching import IndexDataCacheFile
from numba.extending import lower_builtin, overload, type_callable

_log = logging.getLogger("onebit")
COMPILED = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]

# No fastmath: sums keep their order, so that every path gives the same bits. numpy's error model
# only drops the test for division by zero; no kernel divides by a number that can be zero.
# Without numba's memory management a kernel cannot allocate, and arrays are not counted as they
# are passed around, which would cost more than a round of learning.
_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}
_HELPER: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_OPTIONS}  # not for Python
INLINE: Any = {"forceinline": True, **_HELPER}
OUTLINE: Any = {"forceinline": False, **_HELPER}  # said, or it is as in what calls it


def _sources_digest() -> str:
    digest = hashlib.blake2b(digest_size=8)
    root = Path(__file__).parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _cache_roots() -> list[Path]:
    """Where compiled code may live, best first."""
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
    with contextlib.suppress(OSError):  # there may be no place for temporary files at all
        user = os.getuid() if hasattr(os, "getuid") else 0
        roots.append(Path(tempfile.gettempdir()) / f"onebit-{user}")
    return roots


def _doubt(folder: Path) -> str:
    """Why others might write the folder, and what to do; "" if they cannot.

    Cached code is executed, so nobody else may be able to write it.
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
    """The folder of this very source's compiled code, or None where nothing can be written.

    numba looks at the file of a cached function only, not at the files it calls; naming the folder
    by a digest of all sources means that stale code is never found.
    """
    digest = _sources_digest()
    for root in _cache_roots():
        folder = root / digest
        try:
            is_new = not folder.exists()
            root.parent.mkdir(parents=True, exist_ok=True)
            root.mkdir(mode=0o700, exist_ok=True)  # whatever the umask
            folder.mkdir(mode=0o700, exist_ok=True)
            doubt = _doubt(root) or _doubt(folder)
            if doubt:  # not as a warning: those may be errors, and importing must not fail
                _log.warning("onebit does not keep compiled code in %s: %s", root, doubt)
                continue
            with tempfile.TemporaryFile(dir=folder):
                pass
            if is_new:
                _forget_old(root, folder, keep=4)
            return folder
        except OSError:
            continue
    return None


def _forget_old(root: Path, mine: Path, keep: int) -> None:
    """Remove all but the newest caches, and nothing else: the root may be anyone's folder."""
    ages = []
    for folder in root.iterdir():
        if re.fullmatch("[0-9a-f]{16}", folder.name) and folder != mine:
            with contextlib.suppress(OSError):  # another process may be tidying up too
                ages.append((folder.stat().st_mtime, folder))
    for _, folder in sorted(ages, reverse=True)[keep - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)


class _CodeFiles(IndexDataCacheFile):
    """One file a signature and no index, so that processes cannot spoil each other's entries.

    A file that cannot be read is one that is not there; one that cannot be written is not needed.
    Code for learners from outside the package is not kept: their sources are not in the digest.
    """

    def _is_ours(self, key: Any) -> bool:
        records = (getattr(kind, "instance_class", None) for kind in key[0])
        return all(r is None or r.__module__.split(".")[0] == "onebit" for r in records)

    def _name(self, key: Any) -> str:
        digest = hashlib.blake2b(repr(key).encode(), digest_size=16).hexdigest()
        return f"{Path(self._index_name).stem}.{digest}.nbc"

    def load(self, key: Any) -> Any:
        if not self._is_ours(key):
            return None
        try:
            whole = Path(self._data_path(self._name(key))).read_bytes()
            digest, data = whole[:16], whole[16:]
            good = hashlib.blake2b(data, digest_size=16).digest() == digest
            head, found = pickle.loads(data) if good else (None, None)
            return found if head == (self._source_stamp, self._version, key) else None
        except Exception:
            return None

    def save(self, key: Any, data: Any) -> None:
        if not self._is_ours(key):
            return
        body = self._dump(((self._source_stamp, self._version, key), data))
        with (
            contextlib.suppress(OSError),
            self._open_for_write(self._data_path(self._name(key))) as file,
        ):
            file.write(hashlib.blake2b(body, digest_size=16).digest() + body)


_folder = cache_folder() if COMPILED else None


def inline(function: Callable[..., Any]) -> Any:
    """Compile a helper so that it is always inlined: a call between kernels costs nothing."""
    return numba.njit(function, **INLINE) if COMPILED else function


def plain(function: Any) -> Any:
    """A compiled helper as the Python function it was written as."""
    return getattr(function, "py_func", function)


def outline(function: Callable[..., Any]) -> Any:
    """Compile a helper once, for what is large; it should begin with `not_inlined()`."""
    return numba.njit(function, **OUTLINE) if COMPILED else function


def not_inlined() -> None:
    """Called in a function, it keeps the compiler from inlining that, which it may do again in
    whatever calls it, each time with all its optimisations."""


def entry(function: Callable[..., Any]) -> Any:
    """Compile a function that Python calls; the machine code is kept on disk."""
    if not COMPILED:
        return function
    if _folder is None:
        return numba.njit(function, **_OPTIONS)
    # numba fixes the folder when it decorates; other users of numba keep their own setting.
    before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    numba.config.CACHE_DIR = str(_folder)  # type: ignore[attr-defined]
    try:
        compiled: Any = numba.njit(function, cache=True, **_OPTIONS)
        compiled._cache._cache_file.__class__ = _CodeFiles
        return compiled
    except RuntimeError:  # no place for the cache after all: compile in memory
        return numba.njit(function, **_OPTIONS)
    finally:
        numba.config.CACHE_DIR = before  # type: ignore[attr-defined]


_found: dict[Any, Callable[..., Any]] = {}


def direct(function: Any, kind: Any, *args: Any) -> Callable[..., Any]:
    """The machine code of an entry for arguments like these, compiled if need be.

    numba spends over a microsecond a call on finding out the types of records, and takes two
    records with the same fields for one; a learner knows its own. The caller promises that `kind`
    tells apart all types of arguments, and to pass no others to what comes back.
    """
    if not COMPILED:
        return function
    key = (function, kind)
    if key not in _found:
        signature = tuple(numba.typeof(arg) for arg in args)
        function.compile(signature)
        _found[key] = function.overloads[signature].entry_point
    return _found[key]


def chosen(body_for: Callable[[type], Any]) -> Callable[[Callable[..., Any]], Any]:
    """A function whose body depends on the type of its first argument, a record."""
    return by_first(lambda record: body_for(record_type(record)))


def record_type(record: Any) -> type:
    """The class of a record, given itself (uncompiled) or numba's type of it."""
    return getattr(record, "instance_class", type(record))


def by_first(body_for: Callable[[Any], Any]) -> Callable[[Callable[..., Any]], Any]:
    """A function whose body depends on its first argument: uncompiled, or numba's type of it."""

    def decorate(stub: Callable[..., Any]) -> Any:
        if not COMPILED:
            return functools.wraps(stub)(lambda first, *args: body_for(first)(first, *args))
        overload(stub, jit_options=INLINE, strict=False)(
            lambda first, *args: getattr(body_for(first), "py_func", body_for(first))
        )
        return stub

    return decorate


def generic(stub: Callable[..., Any]) -> Any:
    """A function with one implementation an algorithm, chosen by the type of `params`."""
    implementations: dict[type, Callable[..., Any]] = {}
    function = chosen(implementations.get)(stub)
    function.implementations = implementations
    return function


def implement(function: Any, params: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as what `function` does for `params`."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        function.implementations[params] = body
        return body

    return register


def compiled_as(twin: Callable[..., Any], options: Any = INLINE) -> Callable[..., Any]:
    """Give a plain function that uses numpy a body of loops to be compiled, with the same bits."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        if COMPILED:
            overload(twin, jit_options=options, strict=False)(lambda *args: body)
        return body

    return register


def lowered(twin: Callable[..., Any], result: Callable[..., Any]) -> Callable[..., Any]:
    """Give a plain function a hand-written compiled body.

    `twin` is what runs uncompiled; `result` maps its argument types to its result type.
    """

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        if COMPILED:
            arity = len(inspect.signature(twin).parameters)
            type_callable(twin)(lambda context: result)
            lower_builtin(twin, *[types.Any] * arity)(body)
        return body

    return register


@lowered(not_inlined, lambda: types.none)
def _not_inlined(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.function.attributes.add("noinline")
    return context.get_dummy_value()
