"""Digests of source code that follow imports.

Compiled code and study cells are kept under a digest of the code that they depend on. The digest of
some modules covers their sources and, transitively, the sources of the modules that they import:

- Imports are read from the source (`ast`), wherever they stand. Nothing is imported or executed.
- Inside this package, a name that a package's `__init__` re-exports ("from onebit import UCWL")
  leads to the module that defines it. An `__init__` counts only if a name that it defines itself is
  imported, so one algorithm does not depend on all of them.
- Outside this package, an imported module is followed if it belongs to the same package as its
  importer, or if it is not installed: a file in the same folder or elsewhere on the path. For an
  installed package its version counts. The standard library does not count.
- Comments, layout, docstrings, texts given as `doc="..."` and blocks under `if TYPE_CHECKING` do
  not count: none of them changes what is computed.

A process runs the code that it has imported. If a file has been edited since, there is no digest,
and nothing is kept.

Dependencies that the source does not show are not followed: modules imported by a computed name,
and values that a module reads when it is imported, such as environment variables.

Compiled code does not depend on the modules in `PYTHON_ONLY`, though the modules of compiled
functions import them.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import hashlib
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

PACKAGE = "onebit"
# No result depends on these: a number that is shown and written into files; `Learner.explain`.
_NO_CODE = (f"{PACKAGE}._version", f"{PACKAGE}.learner.explanation")
# These define no compiled function, no record and no constant that a compiled function reads, which
# tests/core/test_sources.py checks by name: from every compiled function, no name leads to them.
PYTHON_ONLY = frozenset(
    f"{PACKAGE}.{name}"
    for name in (
        "learner.learner",
        "learner.looking",
        "learner.decision",
        "core.settings",
        "reading.contexts",
        "reading.reader",
        "reading.ways",
    )
)
_MOST_KEPT = 1000  # files whose facts are stored
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """A module and the file of its source."""

    module: str
    path: Path
    is_own: bool  # part of this package

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def root(self) -> Path:
        """The folder from which the module is imported."""
        return self.path.parents[self.module.count(".") + self.is_package]


class Facts(NamedTuple):
    """The facts that are read from a source."""

    digest: str
    imports: list[tuple[str, int, str]]  # module, level, name; name "": the module itself
    passed_on: dict[str, tuple[str, str]]  # re-exported names: their module, and their name there


class Sources:
    """The sources of this package, in its folder, and of the modules that use it."""

    def __init__(self, package: Path) -> None:
        self._root = package.parent
        self._own = {_module_of(path, self._root): path for path in package.rglob("*.py")}
        self._memory: Path | None = None
        self._facts: dict[str, Facts] = {}
        self._digests: dict[Any, str | None] = {}
        self._seen = {path: _hash(path.read_bytes()) for path in self._own.values()}

    def remember_in(self, memory: Path) -> None:
        """Store the facts in a file, so that later starts need not parse the sources again."""
        self._memory = memory
        self._facts = {**_remembered(memory), **self._facts}

    def note(self, module: str) -> None:
        """Record the sources of a module from outside this package, which is being imported."""
        now = copy.copy(self)
        now._seen = {}
        files = [path for path in now.files([module]) if self._root not in path.parents]
        self._seen |= {path: _hash(path.read_bytes()) for path in files}

    def digest(self, modules: Iterable[str], apart: Collection[str] = ()) -> str | None:
        """A digest of everything that the modules depend on.

        None: a source is missing, or was edited after it was imported.

        apart: modules that are followed only if they are among `modules`: `PYTHON_ONLY`, or modules
        that only choose other modules by name; the caller adds the modules that they choose.
        """
        key = (frozenset(modules), frozenset(apart))
        if key not in self._digests or any(not is_own(name) for name in key[0]):
            try:
                self._digests[key] = self._digest(*key)
            except (_EditedError, OSError, SyntaxError):
                self._digests[key] = None
        return self._digests[key]

    def _digest(self, modules: Collection[str], apart: Collection[str]) -> str | None:
        known = len(self._facts)
        found = self._closure(modules, apart)
        if found is None:
            return None
        if len(self._facts) > known:
            self._remember()
        sources, installed = found
        parts = [(s.module, self._read(s.path).digest) for s in sources]
        return _hash(repr((parts, installed)).encode())

    def digest_of_compiled(self, modules: Collection[str]) -> str | None:
        """A digest of everything that compiled functions of the modules depend on."""
        return self.digest(modules, _not_compiled(modules))

    def files_of_compiled(self, modules: Collection[str]) -> list[Path]:
        """The files that `digest_of_compiled` covers."""
        return self.files(modules, _not_compiled(modules))

    def files(self, modules: Iterable[str], apart: Collection[str] = ()) -> list[Path]:
        """The files that the digest covers."""
        found = self._closure(set(modules), apart)
        return [source.path for source in found[0]] if found else []

    def _closure(
        self, modules: Collection[str], apart: Collection[str]
    ) -> tuple[list[Source], list[str]] | None:
        waiting = [self._find(name) for name in modules if not _is_standard(name)]
        if not all(waiting):
            return None
        reached: dict[str, Source] = {}
        installed: set[str] = set()
        while waiting:
            source = waiting.pop()
            if source is None or source.module in reached:
                continue
            reached[source.module] = source
            for name in self._imports(source):
                if name in reached or (name in apart and name not in modules):
                    continue
                if source.is_own and not is_own(name):  # their versions are in the caller's key
                    continue
                found = self._find(name, source)
                if found is None:
                    continue
                same = _top(name) == _top(source.module)
                if found.is_own or same or not _is_installed(found.path):
                    waiting.append(found)
                else:
                    installed.add(_version(name, found.path))
        return sorted(reached.values()), sorted(installed)

    def _find(self, module: str, importer: Source | None = None) -> Source | None:
        """The source of a module, if it has one that is not in the standard library."""
        if is_own(module):
            path = None if module in _NO_CODE else self._own.get(module)
            return Source(module, path, True) if path else None
        loaded = getattr(sys.modules.get(module), "__file__", None)
        path = Path(loaded).resolve() if loaded and loaded.endswith(".py") else None
        if path is None and importer is not None and not importer.is_own:
            path = _below(importer.root, module)
        return None if path is None or _is_standard(module) else Source(module, path, False)

    def _imports(self, source: Source) -> Iterator[str]:
        """The modules that a source imports from."""
        package = source.module if source.is_package else source.module.rpartition(".")[0]
        if not source.is_own:  # importing it also runs the packages around it
            yield from _around(source.module)
        for module, level, name in self._read(source.path).imports:
            if level:
                try:
                    module = importlib.util.resolve_name("." * level + module, package)
                except ImportError:
                    continue
            if is_own(module):
                yield from self._defining(module, name)
            else:
                yield from _around(f"{module}.{name}" if name else module)
                yield module

    def _defining(self, module: str, name: str) -> Iterator[str]:
        """The module of this package that defines a name, imported from this or another one."""
        seen = set()
        while name and (module, name) not in seen:
            seen.add((module, name))
            path = self._own.get(module)
            if path is None or path.name != "__init__.py":
                break
            if f"{module}.{name}" in self._own:
                module, name = f"{module}.{name}", ""
            elif name in (passed_on := self._read(path).passed_on):
                module, name = passed_on[name]
        yield module

    def _read(self, path: Path) -> Facts:
        text = path.read_bytes()
        digest = _hash(text)
        if self._seen.get(path, digest) != digest:
            raise _EditedError(path)
        key = f"{path.name == '__init__.py'} {digest}"
        if key not in self._facts:
            self._facts[key] = _facts(text, path.name == "__init__.py")
        return self._facts[key]

    def _remember(self) -> None:
        if self._memory is None:
            return
        kept = dict(list(self._facts.items())[-_MOST_KEPT:])
        text = json.dumps(kept)
        with contextlib.suppress(OSError):  # of several processes, the last one wins
            write_whole(self._memory, f"{_digest_of(text)}\n{text}".encode())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file such that readers see all of it or nothing."""
    handle, name = tempfile.mkstemp(".tmp", dir=path.parent)  # private, whatever the umask
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


class _EditedError(Exception):
    """A source was edited after it was imported."""


def _hash(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _remembered(memory: Path) -> dict[str, Facts]:
    """The facts that an earlier process stored; none if the file is damaged."""
    try:
        digest, _, text = memory.read_text().partition("\n")
        if digest != _digest_of(text):
            return {}
        return {
            key: Facts(facts[0], [tuple(i) for i in facts[1]], facts[2])
            for key, facts in json.loads(text).items()
        }
    except (OSError, ValueError):
        return {}


@functools.lru_cache
def _rules() -> str:
    """A digest of this file: facts that were read by other rules are not used."""
    return _hash(Path(__file__).read_bytes())


def _digest_of(text: str) -> str:
    return _hash(f"{_rules()} {sys.version} {text}".encode())


# Reading a source.


def _facts(text: bytes, is_package: bool) -> Facts:
    tree = ast.parse(text)
    passed_on = _passed_on(tree) if is_package else {}
    if not is_package:  # an __init__ lists lazily loaded names under TYPE_CHECKING
        tree = _Executed().visit(tree)
    imports = list(dict.fromkeys(_imports(tree)))
    return Facts(_hash(repr(_plain(tree)).encode()), imports, passed_on)


class _Executed(ast.NodeTransformer):
    """Removes code that only type checkers read."""

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        name = getattr(node.test, "id", getattr(node.test, "attr", ""))
        return node.orelse if name == "TYPE_CHECKING" else node


def _plain(node: Any) -> Any:
    """A tree as nested tuples, the same in all versions of Python, without documentation."""
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, ast.AST):
        return node
    fields = dict(ast.iter_fields(node))
    if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
        fields["body"] = node.body[1:]
    if isinstance(node, ast.Call):
        fields["keywords"] = [word for word in node.keywords if not _is_help(word)]
    given = ((name, value) for name, value in fields.items() if value is not None and value != [])
    return (type(node).__name__, *((name, _plain(value)) for name, value in given))


def _is_help(word: ast.keyword) -> bool:
    """Whether an argument is doc="...", a text."""
    text = word.value
    return word.arg == "doc" and isinstance(text, ast.Constant) and isinstance(text.value, str)


def _imports(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Module, level and name of each import, at any place in the source."""
    short: dict[str, str] = {}  # names under which this package is imported
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", node.level, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == PACKAGE:
                    short[alias.asname or PACKAGE] = PACKAGE
                else:
                    yield alias.name, 0, ""
    # `import onebit as ob` imports only the names that are used: ob.UCWL.
    attributes = {
        id(node.value): node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in short:
            yield PACKAGE, 0, attributes.get(id(node), "")


def _passed_on(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """The names that an `__init__` re-exports, including those that are loaded lazily."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = (node.module, alias.name)
    return found


def _not_compiled(modules: Collection[str]) -> Collection[str]:
    """Modules that compiled code does not depend on; unknown for modules from outside."""
    return PYTHON_ONLY if all(is_own(name) for name in modules) else ()


# Where modules are.


def _top(module: str) -> str:
    return module.partition(".")[0]


def is_own(module: str) -> bool:
    return _top(module) == PACKAGE


def _module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _around(module: str) -> Iterator[str]:
    """A module, and the packages that contain it."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def _below(root: Path, module: str) -> Path | None:
    """The file of a module that is imported from a folder."""
    base = root.joinpath(*module.split("."))
    for path in (base / "__init__.py", base.with_name(f"{base.name}.py")):
        if path.is_file():
            return path.resolve()
    return None


def _is_installed(path: Path) -> bool:
    return bool({"site-packages", "dist-packages"} & set(path.parts))


def _is_standard(module: str) -> bool:
    return _top(module) in sys.stdlib_module_names


def _version(module: str, path: Path) -> str:
    """The version of an installed package, or a digest of the file if it has no version."""
    top: ModuleType | None = sys.modules.get(_top(module))
    version = getattr(top, "__version__", None)
    if isinstance(version, str):
        return f"{_top(module)} {version}"
    return f"{module} {_hash(path.read_bytes())}"


SOURCES = Sources(Path(__file__).resolve().parents[1])
