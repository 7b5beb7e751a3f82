"""Learners from elsewhere: by --import and module:Class, in races, tuning, recipes and studies."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

import onebit as ob
from onebit import cli
from onebit.core.sources import SOURCES
from onebit.lab.studies.engines import _numbered, run_on
from onebit.lab.studies.running import Plan, run_study
from onebit.lab.studies.spec import parse, read_study
from onebit.lab.studies.store import Store
from onebit.registry.lookup import Home, import_learners, learner_named, name_of
from onebit.registry.recipes import recipe_of

MINE = """
    from onebit import Banditron
    from helper_of_mine import GAMMA


    class Mine(Banditron):
        '''A learner of one's own.'''

        def __init__(self, labels, *, share=GAMMA, **common):
            super().__init__(labels, gamma=share, **common)
            self.settings = {"share": share, **{k: v for k, v in self.settings.items()
                                                if k not in ("gamma", "kernel")}}
"""

STUDY = """
name = "own"
title = "Own"
paper = "nobody"
about = "For tests."
data.Iris = { sources = ["iris"], rows = 60 }

[[experiment]]
name = "race"
data = ["Iris"]
repeats = 2
methods = [
    { name = "Mine", learner = "mine_of_tests:Mine", settings = { share = [0.1, 0.2] } },
    { name = "Fading", learner = "UCWL", settings = { half_life = 32 } },
]

[[section]]
title = "All"
charts = [{ experiment = "race" }]
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a module of one's own, forgotten afterwards."""
    (tmp_path / "mine_of_tests.py").write_text(dedent(MINE))
    (tmp_path / "helper_of_mine.py").write_text("GAMMA = 0.25\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("mine_of_tests", "helper_of_mine"):
        sys.modules.pop(name, None)
    ob.Learner.registry.pop("Mine", None)


@pytest.fixture
def main(monkeypatch, capsys):
    def main(*args):
        monkeypatch.setattr(sys, "argv", ["onebit", *args])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code, *capsys.readouterr()

    return main


def test_a_name_alone_imports_nothing(mine):
    with pytest.raises(ValueError, match=r"no learner 'Mine'; .* after its module is imported"):
        learner_named("Mine")
    with pytest.raises(
        ValueError, match=r"'mine_of_tests' .* is not imported, .* add --import mine"
    ):
        learner_named("mine_of_tests:Mine")
    assert "mine_of_tests" not in sys.modules
    assert import_learners("mine_of_tests.py") == import_learners("mine_of_tests")
    kind = learner_named("mine_of_tests:Mine")
    assert kind is learner_named("mine") is recipe_of("mine_of_tests:Mine:share=0.5").learner
    assert name_of(kind) == "mine_of_tests:Mine" and name_of(ob.UCWL) == "UCWL"
    with pytest.raises(ValueError, match="module 'mine_of_tests' has no learner 'GAMMA'"):
        learner_named("mine_of_tests:GAMMA")


def test_what_cannot_be_imported_is_said_in_a_sentence(mine):
    (mine / "broken.py").write_text("import no_such_module\n")
    (mine / "json.py").write_text("")
    for module, says in [
        ("no_such_module", "no module 'no_such_module' is found; install it, or name the path"),
        ("broken", "broken cannot be imported: ModuleNotFoundError: No module named 'no_such"),
        ("json.py", "json.py cannot be imported: .* another module is called 'json'; rename"),
        ("missing.py", "missing.py is not a file"),
    ]:
        with pytest.raises((ValueError, FileNotFoundError), match=says):
            import_learners(module)
    with pytest.raises(
        ValueError, match=r"no learner 'Bandit', so .*; no module 'Bandit' is found"
    ):
        recipe_of("Bandit:gamma")
    with pytest.raises(ValueError, match="a setting is NAME=VALUE, not 'C'"):
        recipe_of("UCWL:C")


def test_a_learner_of_this_package_keeps_its_name(mine):
    (mine / "mine_of_tests.py").write_text("import onebit\nclass UCWL(onebit.UCWL): pass\n")
    with pytest.raises(ValueError, match="a learner named UCWL already exists, in onebit"):
        import_learners("mine_of_tests.py")
    assert learner_named("UCWL") is ob.UCWL


def test_races_and_tuning_take_a_learner_of_ones_own(mine, main):
    args = ("--data", "iris", "--rounds", "40", "--repeats", "2")
    code, out, err = main("race", *args, "--learner", "Mine")
    assert code == 2 and "no learner 'Mine'" in err and "--import on a command line" in err
    code, out, err = main("race", *args, "--import", "mine_of_tests.py", "--learner", "Mine")
    assert code == 0 and "share=0.25" in out, err
    code, out, err = main("race", *args, "--learner", "mine_of_tests:Mine:share=0.5:half_life=100")
    assert code == 0 and "share=0.5, half_life=100" in out, err
    grid = ("--grid", "share=0.1,0.5", "--grid", "half_life=16,1000")
    code, out, err = main("tune", *args, "--learner", "mine_of_tests:Mine", *grid)
    assert code == 0, err
    assert 'learner = "mine_of_tests:Mine"' in (mine / "tuned.toml").read_text()
    assert "onebit race --import mine_of_tests --data iris --learner tuned.toml" in out
    assert ob.read_recipe("tuned.toml").learner is learner_named("Mine")
    sys.modules.pop("mine_of_tests")
    code, _, err = main("race", *args, "--learner", "tuned.toml")
    assert code == 2 and "tuned.toml: module 'mine_of_tests'" in err
    assert "mine_of_tests" not in sys.modules


def test_studies_take_a_learner_of_ones_own(mine, main):
    (mine / "study.toml").write_text(STUDY)
    with pytest.raises(
        ValueError, match=r"study\.toml: experiment race, method Mine: module 'mine"
    ):
        read_study("study.toml")
    code, _, err = main("study", "study.toml", "--import", "mine_of_tests.py", "--workers", "1")
    assert code == 0, err
    assert len(list((mine / "results" / "own" / "cells").glob("*.parquet"))) == 6
    page = (mine / "results" / "own.html").read_text()
    assert "onebit study study.toml --import mine_of_tests.py" in page


def cells_of_mine(folder):
    cells = Plan(parse(STUDY.encode()), Store(folder), quick=False).needed()[0].values()
    return {cell.name for cell in cells if cell.learner == "mine_of_tests:Mine"}, cells


@pytest.mark.parametrize("edited", ["mine_of_tests.py", "helper_of_mine.py"])
def test_an_edited_learner_runs_again(mine, edited):
    def names():
        for module in ("mine_of_tests", "helper_of_mine"):
            sys.modules.pop(module, None)
        import_learners("mine_of_tests.py")
        own, cells = cells_of_mine(mine / "cells")
        return own, {cell.name for cell in cells} - own

    mine_before, others_before = names()
    assert names() == (mine_before, others_before)
    files = SOURCES.files([learner_named("Mine").__module__])
    assert {path.name for path in files if path.parent == mine} == {
        "mine_of_tests.py",
        "helper_of_mine.py",
    }
    (mine / edited).write_text((mine / edited).read_text() + "# a comment changes nothing\n")
    assert names() == (mine_before, others_before)
    (mine / edited).write_text((mine / edited).read_text() + "EDITED = True\n")
    mine_after, others_after = names()
    assert len(mine_after) == 4 and not mine_before & mine_after
    assert others_before == others_after


SLOW = [pytest.param(engine, marks=pytest.mark.slow) for engine in ("dask", "ray")]


@pytest.mark.parametrize("engine", ["loky", *SLOW], indirect=True)
def test_processes_import_a_learner_of_ones_own(mine, engine):
    import_learners("mine_of_tests.py")
    study = parse(STUDY.encode())
    here = run_study(study, Store(mine / "here"), quick=False, workers=1)
    there = run_study(study, Store(mine / "there"), quick=False, engine=engine, workers=2)
    for cell in here.needed()[0].values():
        result = there.store.get(cell)
        assert not result.error and result.mistakes == here.store.get(cell).mistakes


def test_what_other_processes_cannot_import_is_refused_before_they_start(mine):
    import_learners("mine_of_tests.py")
    kind = learner_named("Mine")
    kind.__module__ = "__main__"
    sys.modules["__main__"].Mine = kind
    try:
        cell = next(iter(Plan(parse(STUDY.replace("mine_of_tests:", "__main__:").encode()),
                              Store(mine / "here"), quick=False).needed()[0].values()))  # fmt: skip
        with pytest.raises(ValueError, match="defined in the running program"):
            list(run_on("loky", [[cell]], 1))
    finally:
        del sys.modules["__main__"].Mine


def test_files_of_a_package_are_followed(mine):
    package = mine / "package_of_mine"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from .learners import *\n")
    (package / "learners.py").write_text(
        "import numpy\nfrom onebit import UCWL\nfrom .inner import rules, __name__ as _\n"
        "class Mine(UCWL):\n    pass\n"
    )
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "rules.py").write_text("from .. import learners\n")
    (package / "other.py").write_text("")
    try:
        import_learners("package_of_mine")
        files = SOURCES.files([learner_named("package_of_mine:Mine").__module__])
        found = [path for path in files if mine in path.parents]
    finally:
        for name in [name for name in sys.modules if name.startswith("package_of_mine")]:
            sys.modules.pop(name)
    assert sorted(path.name for path in found) == [
        "__init__.py",
        "__init__.py",
        "learners.py",
        "rules.py",
    ]


def test_a_worker_without_the_module_says_so(mine):
    import_learners("mine_of_tests.py")
    cells = list(cells_of_mine(mine / "cells")[1])[:2]
    place, results = _numbered(3, cells, [Home("no_such_module", (str(mine),))])
    assert place == 3 and len(results) == 2
    assert "'no_such_module' cannot be imported in a worker" in results[0].error
