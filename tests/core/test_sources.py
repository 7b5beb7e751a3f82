"""Digests of sources: which edits compile again, and which modules are followed."""

import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from edits import CODE, edited

import onebit
import onebit.algorithms
from onebit import compiled_entries
from onebit.core import jit, sources
from onebit.core.sources import SOURCES, Sources
from onebit.learner import Learner

PACKAGE = Path(onebit.__file__).parent

# Edits of a copy of the package.

LEARNING = ("onebit.learner", "onebit.algorithms.banditron")


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    ignored = shutil.ignore_patterns("__pycache__", "*.npz")
    return shutil.copytree(PACKAGE, tmp_path_factory.mktemp("copied") / "onebit", ignore=ignored)


def learning(package):
    """The digest of what Banditron's compiled code depends on, as a new process sees it."""
    now = Sources(package)
    now.remember_in(package.parent / "sources.json")
    return now.digest(LEARNING)


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
        ("learner.py", ("import numpy as np\n", "\n\nimport numpy as np  # layout\n")),
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
        ("learner.py", CODE),
        ("feature_table.py", CODE),
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
        "algorithms/banditron_lockstep.py",
    }
    assert files("onebit.core.draws") == {
        f"core/{name}.py" for name in ("draws", "jit", "sources", "cache_folder")
    }


def test_every_body_and_what_it_uses_is_in_the_files_of_its_record():
    """What is followed in the sources is at least what is there when a function is compiled."""
    for kind in Learner.registry.values():
        for params in [kind.Params]:
            files = SOURCES.files([compiled_entries.__name__, params.__module__])
            waiting = [compiled_entries._decide, compiled_entries._learn]
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
        ("def f():\n    from onebit.algorithms import load", {"newtron", "ucwl", "soba"}),
        ("import onebit\nx = vars(onebit)", {"newtron", "tuning", "testing"}),
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
        assert not {"newtron", "simulation", "tuning", "soba"} & stems


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
