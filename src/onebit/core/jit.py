"""Everything that depends on numba: compilation, the cache, direct calls.

Compiled code of an `entry` is kept on disk, one file for each signature. The name of the file is a
digest of everything that the code depends on (`_Code`), above all the sources of the function, of
the records in its signature, and of all modules that these import, except for modules that only
Python code uses (`onebit.core.sources`). An edit of one of these sources makes the code compile
again; an edit of another file, a comment or a docstring does not. Learners from outside the package
follow the same rule without the exception, unless they are defined in the program itself
(`__main__`) or in a notebook.

Every compiled function is written as an ordinary Python function. With ``NUMBA_DISABLE_JIT=1`` it
runs as such, and must give the same results; that is how coverage is measured and how the compiler
is checked. docs/inside.md explains how a function gets its compiled body.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import llvmlite
import numba
import numpy as np
from numba.core import types
from numba.extending import lower_builtin, overload, type_callable

from onebit.core.cache_folder import cache_folder, tidy_once, touch
from onebit.core.sources import PACKAGE, SOURCES, write_whole

try:
    from numba._dynfunc import make_function  # type: ignore[import]
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
    from numba.core.compiler_machinery import register_pass
    from numba.core.typed_passes import NativeLowering
except ImportError:  # numba's internals may change
    JITCodeLibrary: Any = None
    CompilerBase: Any = object
    DefaultPassBuilder: Any = None
    NativeLowering: Any = object
    make_function: Any = None
    register_pass: Any = None
    _LowerResult: Any = None
try:
    from numba.core.caching import NullCache
    from numba.core.compiler import CompileResult
    from numba.core.serialize import dumps
except ImportError:  # numba's internals may change
    NullCache: Any = object
    CompileResult: Any = None
    dumps: Any = None
try:
    from numba.core import event
except ImportError:  # numba's internals may change
    event: Any = None

_log = logging.getLogger("onebit")
_VERSIONS = (sys.version, numba.__version__, llvmlite.__version__, np.__version__)
_REGISTERING = f"{PACKAGE}.learner.declared"  # registers the compiled members of an algorithm
COMPILED = not numba.config.DISABLE_JIT  # type: ignore[attr-defined]


def _knows_libraries() -> bool:
    """Whether numba's code libraries have the internal methods that `_Part` overrides."""
    parts = ("_optimize_final_module", "_finalize_final_module", "_finalize_dynamic_globals")
    return all(hasattr(JITCodeLibrary, name) for name in parts)


# Helpers run only as parts of entries, so they are optimised and translated to machine code there.
# Otherwise numba would do both for every helper with everything that it calls, and again for each
# caller of the helper, which takes most of the compile time.
_PART: Any = {}
if COMPILED and _knows_libraries():

    class _Part(JITCodeLibrary):
        """The code of a helper, linked with all that it calls."""

        def _optimize_final_module(self) -> None: ...

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _PartLowering(NativeLowering):
        _name = "onebit_part_lowering"

        def run_pass(self, state: Any) -> Any:
            library = _Part(state.targetctx.codegen(), state.func_id.func_qualname)
            state.library, state.flags.no_compile = library, True
            super().run_pass(state)
            # As numba registers its own compiled functions, so that others can call this one.
            fndesc, env = state.cr.fndesc, state.cr.env
            module, name = fndesc.lookup_module(), fndesc.qualname.split(".")[-1]
            key = make_function(module, name, "", 0, env, (library,))
            state.targetctx.insert_user_function(key, fndesc, [library])
            state.reload_init.extend(library._reload_init)
            state.cr = _LowerResult(fndesc, state.cr.call_helper, cfunc=key, env=env)
            return True

    class _PartCompiler(CompilerBase):
        def define_pipelines(self) -> list[Any]:
            manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
            manager.passes = [
                (_PartLowering if kind is NativeLowering else kind, purpose)
                for kind, purpose in manager.passes
            ]
            manager.finalize()
            return [manager]

    _PART = {"pipeline_class": _PartCompiler}

# No fastmath: sums keep their order, so that every path gives the same bits. numpy's error model
# only drops the test for division by zero; compiled code divides by no number that can be zero.
# Without numba's memory management, compiled code cannot allocate memory, and passing arrays around
# does not change reference counts, which would cost more than a round of learning.
_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}
_HELPER: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_OPTIONS, **_PART}
INLINE: Any = {"forceinline": True, **_HELPER}
OUTLINE: Any = {"forceinline": False, **_HELPER}  # stated: the default is the caller's flag


class Bodies(dict[Any, Any]):
    """The bodies of a generic function by the type of record."""

    every: ClassVar[list[Bodies]] = []
    _noted: ClassVar[set[type]] = set()

    def __init__(self, stub: Callable[..., Any]) -> None:
        super().__init__()
        self.stub = stub
        Bodies.every.append(self)

    def __setitem__(self, kind: type, body: Any) -> None:
        super().__setitem__(kind, body)
        outside = kind not in Bodies._noted and kind.__module__.partition(".")[0] != PACKAGE
        if outside and _folder is not None:
            Bodies._noted.add(kind)
            SOURCES.note(kind.__module__)


def _name(function: Any) -> tuple[str, str]:
    function = plain(function)
    return function.__module__, function.__qualname__


def _records(kind: Any) -> Iterator[type | None]:
    """The record types in a numba type; None for a type that no source determines."""
    if isinstance(kind, types.Array):
        yield from _records(kind.dtype)
    elif isinstance(kind, types.BaseTuple):
        parts: Any = kind
        yield from (record for part in parts for record in _records(part))
        if isinstance(kind, types.BaseNamedTuple):
            yield parts.instance_class
    elif not isinstance(kind, types.Number | types.Boolean | types.NoneType):
        yield None


def _is_found(record: type) -> bool:
    """Whether another process finds the record by its name."""
    found: Any = sys.modules.get(record.__module__)
    for part in record.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is record and record.__module__ != "__main__"


class _Code(NullCache):  # type: ignore[misc]
    """Compiled code of a function on disk: a file for each signature, named by its key.

    The key contains everything that the code depends on: the function and the types of its
    arguments; the bodies that are registered for its records; a digest of the modules of these and
    of the modules that they import; the versions of Python, numba, llvmlite and numpy; and the
    processor. So different code has different keys, the folder needs no index, and processes
    cannot overwrite each other's code with something else.

    A file that cannot be read counts as missing. If a file cannot be written, or if there is no
    key, the code stays in memory.
    """

    def __init__(self, function: Callable[..., Any], folder: Path) -> None:
        self._function, self._folder = function, folder

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        try:
            key = self._key(sig, target_context.codegen())
            path = self._path(key)
            if key is None or not path.is_file():
                return None
            whole = path.read_bytes()
            digest, data = whole[:16], whole[16:]
            good = hashlib.blake2b(data, digest_size=16).digest() == digest
            head, found = pickle.loads(data) if good else (None, ())
            if head != key:
                return None
            code = CompileResult._rebuild(target_context, *found)
            touch(path)
            return code if code.signature.args == tuple(sig) else None
        except Exception:
            return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        try:
            key = self._key(sig, cres.codegen)
            if key is None or cres.library.has_dynamic_globals:
                return
            body = dumps((key, cres._reduce()))
            whole = hashlib.blake2b(body, digest_size=16).digest() + body
            write_whole(self._path(key), whole)
            tidy_once(self._folder)
        except OSError:
            return
        except Exception as error:  # numba's internals may differ
            _not_kept(repr(error))

    def _path(self, key: str | None) -> Path:
        digest = hashlib.blake2b(str(key).encode(), digest_size=16).hexdigest()
        return self._folder / f"{self._function.__qualname__}.{digest}.nbc"

    def _key(self, sig: Any, codegen: Any) -> str | None:
        """The key of a signature; None if its code cannot be stored."""
        function = self._function
        records = [record for kind in sig for record in _records(kind)]
        if function.__closure__ or not all(record and _is_found(record) for record in records):
            return None
        kinds = sorted({record for record in records if record}, key=_name)
        modules = {function.__module__, *(kind.__module__ for kind in kinds)}
        chosen = []
        for bodies in Bodies.every:
            for kind in kinds:
                if kind in bodies:
                    stub, body = _name(bodies.stub), _name(bodies[kind])
                    chosen.append((stub, _name(kind), body))
                    if body[0] != stub[0]:  # otherwise the stub's module is covered already
                        modules.add(body[0])
        if chosen:
            modules.add(_REGISTERING)
        digest = SOURCES.digest_of_compiled(modules)
        if digest is None:
            return None
        fields = [(*_name(kind), getattr(kind, "_fields", ())) for kind in kinds]
        code = (_name(function), str(sig), fields, sorted(chosen), digest)
        return repr((code, _VERSIONS, codegen.magic_tuple()))


def _knows_numba() -> bool:
    """Whether numba has the internals that the cache uses; they may change between versions."""
    parts = [(CompileResult, "_reduce"), (CompileResult, "_rebuild"), (NullCache, "load_overload")]
    holder = getattr(numba.njit(write_whole), "_cache", None)
    if all(hasattr(owner, name) for owner, name in parts) and type(holder) is NullCache:
        return True
    _not_kept(f"numba {numba.__version__} is not known to this version")
    return False


@functools.lru_cache(1)  # once
def _not_kept(why: str) -> None:
    _log.warning(
        "onebit does not keep compiled code, so every start compiles it again: %s; "
        "install a version of numba that onebit supports",
        why,
    )


_folder = cache_folder() if COMPILED and _knows_numba() else None
if _folder is not None:
    SOURCES.remember_in(_folder / "sources.json")


LONG = 1.0  # seconds of compilation after which a line says so
_ROUNDS = f"{PACKAGE}.learner.calls"  # calls of single rounds; streams show their progress
_entries: set[Callable[..., Any]] = set()


def _say_what(function: Callable[..., Any], kinds: Any) -> None:
    """One line for whoever waits."""
    records = {record.__qualname__ for kind in kinds for record in _records(kind) if record}
    learners = sorted(name.partition(".")[0] for name in records if name.endswith(".Params"))
    kept = "every start does so" if _folder is None else f"kept in {_folder} for later starts"
    _log.warning(
        "compiling %s%s takes more than a second (%s); learner.warm_up() does it beforehand",
        function.__name__.strip("_"),
        f" of {learners[0]}" if learners else "",
        kept,
    )


if COMPILED and event is not None:

    class _Watch(event.Listener):
        """Says so if an entry takes long to compile. numba compiles one function at a time."""

        _timer: threading.Timer | None = None

        def on_start(self, event: Any) -> None:
            function = event.data["dispatcher"].py_func
            if function in _entries and function.__module__ == _ROUNDS:
                self._timer = threading.Timer(LONG, _say_what, (function, event.data["args"]))
                self._timer.daemon = True
                self._timer.start()

        def on_end(self, event: Any) -> None:
            if event.data["dispatcher"].py_func in _entries and self._timer is not None:
                self._timer.cancel()

    event.register("numba:compile", _Watch())


def inline(function: Callable[..., Any]) -> Any:
    """Compile a helper so that it is always inlined: the call costs nothing."""
    return numba.njit(function, **INLINE) if COMPILED else function


def plain(function: Any) -> Any:
    """A compiled helper as the Python function it was written as."""
    return getattr(function, "py_func", function)


def outline(function: Callable[..., Any]) -> Any:
    """Compile a large helper once. Its body must begin with `not_inlined()`."""
    return numba.njit(function, **OUTLINE) if COMPILED else function


def not_inlined() -> None:
    """Keep the compiler from inlining the function that calls this one.

    Otherwise a large function would be optimised again in each of its callers."""


def entry(function: Callable[..., Any], nogil: bool = True) -> Any:
    """Compile a function that Python calls; the machine code is kept on disk.

    nogil: other threads may run meanwhile.
    """
    if not COMPILED:
        return function
    options: Any = {**_OPTIONS, "nogil": nogil}
    _entries.add(function)
    compiled: Any = numba.njit(function, **options)
    if _folder is not None:
        compiled._cache = _Code(function, _folder)
    return compiled


brief_entry = functools.partial(entry, nogil=False)  # shorter than releasing the GIL takes

_found: dict[Any, Callable[..., Any]] = {}


def direct(function: Any, kind: Any, *args: Any) -> Callable[..., Any]:
    """The machine code of an entry for arguments like these, compiled if need be.

    numba spends more than a microsecond per call on finding out the types of records, and mistakes
    two records with the same fields for one type. The caller guarantees that `kind` identifies the
    types of all arguments, and passes only such arguments to the result.
    """
    if not COMPILED:
        return function
    key = (function, kind)
    if key not in _found:
        signature = tuple(numba.typeof(arg) for arg in args)
        function.compile(signature)
        _found[key] = function.overloads[signature].entry_point
    return _found[key]


def generic(function: Callable[..., Any]) -> Any:
    """A function with a body for each type of record: `function.bodies[record_type]`.

    The body is looked up by the type of the first argument, then by the type of its last field
    (the record of a storage, or the updates that wait in lockstep). Without a registered body, the
    function's own body is used.
    """
    bodies = Bodies(function)

    def body_for(first: Any) -> Any:
        kind = _record_type(first)
        if kind not in bodies:
            fields = getattr(first, "types", first)
            kind = _record_type(fields[-1]) if isinstance(fields, tuple) and fields else kind
        return plain(bodies.get(kind, function))

    def call_body(first: Any, *args: Any) -> Any:
        """`body_for` for plain Python functions, in a third of the time."""
        kind = type(first)
        if kind not in bodies and isinstance(first, tuple) and first:
            kind = type(first[-1])
        return bodies.get(kind, function)(first, *args)

    if COMPILED:
        overload(function, jit_options=INLINE, strict=False)(lambda first, *args: body_for(first))
        chosen: Any = function
    else:
        chosen = functools.wraps(function)(call_body)
    chosen.bodies = bodies
    return chosen


def _record_type(record: Any) -> type:
    """The class of a record: of the record itself (uncompiled), or of its numba type."""
    return getattr(record, "instance_class", type(record))


def implement(function: Any, *kinds: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function as the body of a generic function for types of records."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        for kind in kinds:
            function.bodies[kind] = body
        return body

    return register


def compiled_as(twin: Callable[..., Any], options: Any = INLINE) -> Callable[..., Any]:
    """Register loops as the compiled body of a numpy function; both must give the same bits."""

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        if COMPILED:
            overload(twin, jit_options=options, strict=False)(lambda *args: body)
        return body

    return register


def lowered(twin: Callable[..., Any], result: Callable[..., Any]) -> Callable[..., Any]:
    """Register LLVM instructions as the compiled body of a function.

    twin: the function, which runs uncompiled. result: maps its argument types to its result type.
    A body returns None if the function returns nothing.
    """

    def register(body: Callable[..., Any]) -> Callable[..., Any]:
        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = body(context, builder, sig, args)
            return context.get_dummy_value() if value is None else value

        if COMPILED:
            arity = len(inspect.signature(twin).parameters)
            type_callable(twin)(lambda context: result)
            lower_builtin(twin, *[types.Any] * arity)(lower)
        return body

    return register


@lowered(not_inlined, lambda: types.none)
def _not_inlined(context: Any, builder: Any, sig: Any, args: Any) -> None:
    builder.function.attributes.add("noinline")
