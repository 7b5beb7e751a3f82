"""Digests of sources: which edits compile again, and which modules are followed."""

import ast
import functools
import importlib.util
import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from helpers.edits import CODE, edited

import onebit
import onebit.algorithms
from onebit.core import jit, sources
from onebit.core.sources import SOURCES, Sources
from onebit.learner import calls
from onebit.learner.learner import Learner

PACKAGE = Path(onebit.__file__).parent

# Edits of a copy of the package.

LEARNING = ("onebit.learner.calls", "onebit.learner.declared", "onebit.algorithms.banditron")


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    ignored = shutil.ignore_patterns("__pycache__", "*.npz")
    return shutil.copytree(PACKAGE, tmp_path_factory.mktemp("copied") / "onebit", ignore=ignored)


def learning(package):
    """The digest of what Banditron's compiled code depends on, as a new process sees it."""
    now = Sources(package)
    now.remember_in(package.parent / "sources.json")
    return now.digest_of_compiled(LEARNING)


@pytest.mark.parametrize(
    ("file", "edit"),
    [
        ("cli/race.py", CODE),
        ("pages/rendering.py", CODE),
        ("lab/race.py", CODE),
        ("lab/simulation.py", CODE),
        ("lab/studies/report.py", CODE),
        ("datasets/vowpal.py", CODE),
        ("feedback/noise/levels.py", CODE),
        ("algorithms/ucwl.py", CODE),
        ("algorithms/__init__.py", CODE),
        ("__init__.py", CODE),
        ("_version.py", CODE),
        ("core/rounds.py", "\n# A comment.\n"),
        ("core/rounds.py", ('"""Scratch space', '"""Another docstring.\n\n    Scratch space')),
        ("algorithms/banditron.py", ('"""Perceptron with', '"""A perceptron with')),
        ("reading/rows.py", ("import numpy as np\n", "\n\nimport numpy as np  # layout\n")),
        ("learner/learner.py", CODE),
        ("learner/learning.py", ("was answered already", "has an answer already")),
        ("learner/explanation.py", CODE),
        ("learner/files.py", CODE),
        ("reading/frames.py", CODE),
        ("reading/texts.py", CODE),
        ("reading/dicts.py", CODE),
        ("learner/labels.py", CODE),
        ("learner/decision.py", CODE),
        ("reading/contexts.py", CODE),
        ("core/settings.py", CODE),
        ("learner/table.py", CODE),
    ],
)
def test_an_edit_that_compiled_code_does_not_depend_on_leaves_its_digest(copied, file, edit):
    before = learning(copied)
    with edited(copied / file, edit):
        assert learning(copied) == before is not None


@pytest.mark.parametrize(
    ("file", "edit"),
    [
        ("core/rounds.py", CODE),
        ("core/choosing.py", ("TIE = 1e-9", "TIE = 1e-8")),
        ("core/lanes.py", CODE),
        ("core/draws.py", CODE),
        ("core/jit.py", ('"nogil": True', '"nogil": False')),
        ("storage/kernels.py", CODE),
        ("storage/stored_contexts.py", CODE),
        ("storage/full.py", CODE),
        ("reading/rows.py", ("LARGEST_DOUBLE = 1e15", "LARGEST_DOUBLE = 1e14")),
        ("learner/calls.py", ("LEAST_LIKELY = 2.0**-60", "LEAST_LIKELY = 2.0**-61")),
        ("learner/declared.py", CODE),
        ("algorithms/banditron.py", ("gain - 1.0", "gain - 2.0")),
    ],
)
def test_an_edit_of_what_compiled_code_depends_on_changes_its_digest(copied, file, edit):
    before = learning(copied)
    with edited(copied / file, edit):
        assert learning(copied) not in (before, None)


def test_modules_of_an_algorithm_are_followed_but_no_other_algorithms(copied):
    def files(*modules):
        return {str(path.relative_to(copied)) for path in Sources(copied).files(modules)}

    assert {"algorithms/rcnbf.py", "algorithms/flips.py", "algorithms/banditron.py"} <= files(
        "onebit.algorithms.rcnbf"
    )
    assert {name for name in files(*LEARNING) if "algorithms" in name} == {
        "algorithms/banditron.py",
        "algorithms/banditron_lists.py",
        "algorithms/banditron_lockstep.py",
    }
    assert files("onebit.core.draws") == {
        f"core/{name}.py" for name in ("draws", "jit", "sources", "cache_folder")
    }


def test_every_body_and_what_it_uses_is_in_the_files_of_its_record():
    """What is followed in the sources is at least what is there when a function is compiled."""
    for kind in Learner.registry.values():
        for params in [kind.Params]:
            files = SOURCES.files_of_compiled([calls.__name__, params.__module__])
            waiting = [calls._decide, calls._learn]
            waiting += [bodies[params] for bodies in jit.Bodies.every if params in bodies]
            seen = set()
            while waiting:
                function = jit.plain(waiting.pop())
                if function in seen:
                    continue
                seen.add(function)
                module = sys.modules[function.__module__]
                assert Path(module.__file__) in files, (params, function)
                waiting += used_by(function)
            assert len(seen) > 9


def used_by(function):
    """The functions of the package that a function names, or that it is made from."""
    codes, names = [function.__code__], set()
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [part for part in code.co_consts if isinstance(part, types.CodeType)]
    inside = [cell.cell_contents for cell in function.__closure__ or ()]
    values = [function.__globals__.get(name) for name in names] + inside
    for value in list(values):
        if isinstance(value, types.ModuleType):
            values += [getattr(value, name, None) for name in names]
    plain = (jit.plain(value) for value in values)
    return [
        value
        for value in plain
        if isinstance(value, types.FunctionType) and value.__module__.startswith("onebit.")
    ]


# What is left out for compiled code: no name that a compiled function uses may lead there.

DECORATORS = {
    *("inline", "outline", "entry", "brief_entry"),
    *("generic", "implement", "compiled_as", "lowered"),
}
MEMBERS = {*Learner.members, "lockstep", "lockstep_loop"}  # of an algorithm's class


class Names:
    """The names that a module binds, and the parts of its source that are compiled."""

    def __init__(self, module, text):
        tree = sources._Executed().visit(ast.parse(text))
        self.imported, self.defined, self.compiled, self.at_line = {}, {}, [], {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.imported[alias.asname or alias.name] = (node.module, alias.name)
            elif isinstance(node, ast.FunctionDef):
                first = min(part.lineno for part in [node, *node.decorator_list])
                self.at_line[first] = node
                if DECORATORS & {_called(decorator) for decorator in node.decorator_list}:
                    self.compiled.append(node)
            elif isinstance(node, ast.Lambda):
                self.at_line[node.lineno] = node
            elif isinstance(node, ast.ClassDef) and ".algorithms." in module:
                self.compiled += [part for part in node.body if MEMBERS & set(_bound(part))]
        for node in tree.body:
            for name in _bound(node):
                self.defined.setdefault(name, []).append(node)


names_of = functools.cache(Names)


def _called(decorator):
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return getattr(function, "id", getattr(function, "attr", ""))


def _bound(node):
    """The names that a statement binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    stored = (part for part in ast.walk(node) if isinstance(part, ast.Name))
    return [part.id for part in stored if isinstance(part.ctx, ast.Store)]


def _used(node):
    """The names in a piece of source, and the attributes of names; annotations do not count."""
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        inside = list(ast.walk(node))
        local = {part.arg for part in inside if isinstance(part, ast.arg)}.union(
            *map(_bound, inside)
        )
        return [use for use in _used_inside(node) if use[0] not in local]
    return _used_inside(node)


def _used_inside(node):
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return [(node.value.id, node.attr)]
    if isinstance(node, ast.Name):
        return [(node.id, "")]
    found = []
    for field, value in ast.iter_fields(node):
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST) and field not in ("annotation", "returns"):
                found += _used(part)
    return found


def leading_there(package, functions=()):
    """Names that lead from compiled functions to modules that compiled code does not follow.

    Every definition of a used name counts, with all names in it, across modules. functions: further
    compiled functions, beside those with a decorator and the members of classes.
    """
    own = Sources(package)._own.items()
    every = {module: names_of(module, path.read_bytes()) for module, path in own}
    kept = sources.PYTHON_ONLY
    assert not [name for name in kept if every[name].compiled]
    parts = [(module, part) for module, names in every.items() for part in names.compiled]
    for function in functions:
        module, line = function.__module__, function.__code__.co_firstlineno
        parts.append((module, every[module].at_line[line]))
    waiting = [(module, *use) for module, part in parts for use in _used(part)]
    seen, found = set(), set()
    while waiting:
        module, name, attribute = use = waiting.pop()
        if use in seen or module not in every:
            continue
        seen.add(use)
        names = every[module]
        if name in names.imported:
            origin, original = names.imported[name]
            if f"{origin}.{original}" in every:
                origin, original = f"{origin}.{original}", attribute
            if origin in kept:
                found.add((module, name))
            else:
                waiting.append((origin, original, attribute))
        for node in names.defined.get(name, ()):
            waiting += [(module, *further) for further in _used(node)]
    return found


def test_no_compiled_function_uses_a_module_that_compiled_code_does_not_follow():
    assert set(Learner.registry) >= {"Banditron", "OneBit", "RCINE"}
    waiting = [body for bodies in jit.Bodies.every for body in bodies.values()]
    functions = set()
    while waiting:
        function = jit.plain(waiting.pop())
        if function.__module__.startswith("onebit.") and function not in functions:
            functions.add(function)
            inside = [cell.cell_contents for cell in function.__closure__ or ()]
            waiting += [part for part in inside if hasattr(jit.plain(part), "__code__")]
    assert len(functions) > 100
    assert leading_there(PACKAGE, functions) == set()


STEP = "@inline\ndef step(state, row, choice, bit"


@pytest.mark.parametrize(
    ("file", "edit"),
    [
        ("core/choosing.py", ("TIE = 1e-9", "from onebit.core.settings import TIE")),
        (
            "core/choosing.py",
            ("TIE = 1e-9", "from onebit.core import settings\nTIE = settings.TIE"),
        ),
        (
            "algorithms/banditron.py",
            (f"{STEP}):", f"STEPS = Learner.planes\n\n{STEP}, steps=STEPS):"),
        ),
        (
            "algorithms/banditron.py",
            (f"{STEP}):", f"def f():\n    return Banditron.planes\n\n{STEP}, steps=f()):"),
        ),
        ("reading/rows.py", ("= 1e15, 1e120", "= 1e15, X\nfrom onebit.reading.contexts import X")),
    ],
)
def test_a_constant_from_such_a_module_is_found(copied, file, edit):
    with edited(copied / file, edit):
        assert leading_there(copied) != set()


def test_texts_that_only_help_and_type_checkers_read_do_not_count():
    def digest(text):
        return sources._facts(text.encode(), False).digest

    code = 'gamma = setting(0.1, doc="how often")\ndef f(x):\n    """Doc."""\n    return x\n'
    assert digest(code) == digest(code.replace("how often", "seldom").replace("Doc", "Text"))
    assert digest(code) == digest(f"if TYPE_CHECKING:\n    import x\n{code}")
    for old, new in (("0.1", "0.2"), ("return x", "return -x"), ("doc=", "low="), ("f(x)", "g(x)")):
        assert digest(code) != digest(code.replace(old, new))


def test_there_is_no_digest_of_what_has_been_edited_since_it_was_imported(copied):
    now = Sources(copied)
    with edited(copied / "core" / "rounds.py", CODE):
        assert now.digest(LEARNING) is None
        assert now.digest(["onebit.core.draws"]) is not None


def test_there_is_no_digest_of_what_has_no_source(copied):
    assert Sources(copied).digest(["no_such_module", *LEARNING]) is None
    assert Sources(copied).digest(["builtins", *LEARNING]) == Sources(copied).digest(LEARNING)


def test_what_was_read_is_remembered(copied, tmp_path, monkeypatch):
    draws = ["onebit.core.draws"]
    first = Sources(copied)
    first.remember_in(tmp_path / "sources.json")
    digest = first.digest(draws)
    monkeypatch.setattr(sources, "_facts", None)  # nothing is parsed
    second = Sources(copied)
    second.remember_in(tmp_path / "sources.json")
    assert second.digest(draws) == digest
    monkeypatch.undo()
    whole = (tmp_path / "sources.json").read_text()
    for damaged in ("", "x", whole[:-9], whole.replace("math", "cmath", 1), whole[32:]):
        (tmp_path / "sources.json").write_text(damaged)
        third = Sources(copied)
        third.remember_in(tmp_path / "sources.json")
        assert third.digest(draws) == digest
    (tmp_path / "file").write_text("")
    fourth = Sources(copied)
    fourth.remember_in(tmp_path / "file" / "sources.json")
    assert fourth.digest(draws) == digest


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("from onebit import UCWL", {"ucwl"}),
        ("import onebit as ob\nx = ob.UCWL", {"ucwl"}),
        ("import onebit\nx = onebit.simulate", {"simulation"}),
        ("def f():\n    from onebit.algorithms import load", {"pnewtron", "ucwl", "soba"}),
        ("import onebit\nx = vars(onebit)", {"pnewtron", "tuning", "testing"}),
        ("from helper_of_outside import *", {"soba"}),
        ("import folder_of_outside.inner", {"flips"}),
    ],
)
def test_modules_from_outside_are_followed_to_what_they_use(copied, outside, text, own):
    (outside / "mine_of_outside.py").write_text(text)
    (outside / "helper_of_outside.py").write_text("import onebit.algorithms.soba")
    (outside / "folder_of_outside").mkdir()
    (outside / "folder_of_outside" / "__init__.py").write_text("from . import beside")
    (outside / "folder_of_outside" / "beside.py").write_text("import onebit.algorithms.flips")
    (outside / "folder_of_outside" / "inner.py").write_text("")
    module = types.ModuleType("mine_of_outside")
    module.__file__ = str(outside / "mine_of_outside.py")
    sys.modules["mine_of_outside"] = module
    stems = {path.stem for path in Sources(copied).files(["mine_of_outside"])}
    assert own <= stems
    if own == {"ucwl"}:
        assert not {"pnewtron", "simulation", "tuning", "soba"} & stems


def test_the_packages_around_a_module_from_outside_count(copied, outside):
    folder = outside / "folder_of_outside"
    folder.mkdir()
    (folder / "__init__.py").write_text("import onebit.algorithms.soba")
    (folder / "mine.py").write_text("x = 1")
    for name, path in (("", folder / "__init__.py"), (".mine", folder / "mine.py")):
        module = types.ModuleType(f"folder_of_outside{name}")
        module.__file__ = str(path)
        sys.modules[f"folder_of_outside{name}"] = module
    files = Sources(copied).files(["folder_of_outside.mine"])
    assert {folder / "__init__.py", folder / "mine.py"} <= set(files)
    assert "soba" in {path.stem for path in files}


@pytest.fixture
def outside(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if "_of_outside" in name]:
        del sys.modules[name]


def test_an_installed_package_counts_by_its_version(copied, outside):
    def digest():
        return Sources(copied).digest(["mine_of_outside"])

    installed = outside / "site-packages" / "there_of_outside.py"
    installed.parent.mkdir()
    installed.write_text("x = 1")
    (outside / "mine_of_outside.py").write_text("import there_of_outside")
    for name, path in (("mine", outside / "mine_of_outside.py"), ("there", installed)):
        module: Any = types.ModuleType(f"{name}_of_outside")
        module.__file__, module.__version__ = str(path), "1.0"
        sys.modules[f"{name}_of_outside"] = module
    seen = [digest()]
    installed.write_text("x = 2")
    assert digest() == seen[0] and installed not in SOURCES.files(["mine_of_outside"])
    sys.modules["there_of_outside"].__version__ = "1.1"
    seen.append(digest())
    del sys.modules["there_of_outside"].__version__
    seen.append(digest())
    installed.write_text("x = 3")
    seen.append(digest())
    assert len(set(seen)) == 4 and None not in seen


def test_modules_that_are_named_in_strings_exist():
    """A name that is no longer true would silently stop the cache, or follow too much."""
    named = {jit._REGISTERING, jit._ROUNDS, *sources.PYTHON_ONLY, *sources._NO_CODE}
    missing = {name for name in named if importlib.util.find_spec(name) is None}
    assert not missing
