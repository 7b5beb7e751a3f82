"""Where compiled code is kept, and that nothing depends on there being such a place."""

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import onebit
import onebit.algorithms
from onebit import compiled_entries
from onebit.core import jit as _jit
from onebit.core import sources
from onebit.core.jit import COMPILED, direct, entry, generic, implement, inline
from onebit.core.sources import SOURCES, Sources
from onebit.learner import Learner

pytestmark = pytest.mark.compiled
PACKAGE = Path(onebit.__file__).parent
compiled_only = pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
posix = pytest.mark.skipif(os.name == "nt", reason="folders have no modes")
VARIABLES = ("ONEBIT_CACHE", "XDG_CACHE_HOME", "HOME", "USERPROFILE")


def python(code, *args, **env):
    """Run code in a fresh process; a variable that is None is unset. Returns what it prints."""
    variables = {**os.environ, **env}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *map(str, args)],
        env={name: str(value) for name, value in variables.items() if value is not None},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No variable is set; the folder for temporary files is tmp_path/tmp."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    return tmp_path


# Choosing the folder.


def test_the_chosen_folder_is_used_alone(nowhere, monkeypatch):
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "xdg"))
    monkeypatch.setenv("ONEBIT_CACHE", str(nowhere / "mine"))
    assert (nowhere / "mine") in _jit.cache_folder().parents
    assert not (nowhere / "xdg").exists() and not (nowhere / "home").exists()
    (nowhere / "file").write_text("")
    monkeypatch.setenv("ONEBIT_CACHE", str(nowhere / "file"))
    assert _jit.cache_folder() is None


def test_without_a_choice_the_users_cache_then_home_then_temporary_files(nowhere, monkeypatch):
    assert (nowhere / "tmp") in _jit.cache_folder().parents
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    assert (nowhere / "home" / ".cache" / "onebit") in _jit.cache_folder().parents
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "xdg"))
    assert (nowhere / "xdg" / "onebit") in _jit.cache_folder().parents
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    assert (nowhere / "tmp") in _jit.cache_folder().parents


def test_the_folder_for_temporary_files_is_each_users_own(nowhere, monkeypatch):
    mine = _jit.cache_folder()
    if hasattr(os, "getuid"):
        assert str(os.getuid()) in mine.relative_to(nowhere / "tmp").parts[0]


@pytest.mark.parametrize("obstacle", ["file", "inside a file", "nowhere"])
def test_a_home_that_cannot_be_written_is_passed_over(nowhere, monkeypatch, obstacle):
    (nowhere / "file").write_text("")
    homes = {
        "file": nowhere / "file",
        "inside a file": nowhere / "file" / "home",
        "nowhere": "/dev/null/home",
    }
    monkeypatch.setenv("HOME", str(homes[obstacle]))
    assert (nowhere / "tmp") in _jit.cache_folder().parents


def test_there_is_no_folder_where_nothing_can_be_written(nowhere, monkeypatch):
    (nowhere / "file").write_text("")
    monkeypatch.setenv("HOME", str(nowhere / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(nowhere / "file"))
    assert _jit.cache_folder() is None


def test_there_is_no_folder_where_there_is_not_even_one_for_temporary_files(nowhere, monkeypatch):
    def none():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert _jit.cache_folder() is None
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    assert (nowhere / "home") in _jit.cache_folder().parents


def test_a_full_disk_is_no_place_for_a_cache(nowhere, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert _jit.cache_folder() is None


# Nobody else may write the code that is run.


@posix
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o722])
def test_a_folder_that_others_can_write_is_not_used(nowhere, monkeypatch, mode):
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    root = nowhere / "home" / ".cache" / "onebit"
    root.mkdir(parents=True)
    root.chmod(mode)
    assert (nowhere / "tmp") in _jit.cache_folder().parents
    root.chmod(0o755)
    inner = _jit.cache_folder()
    assert root in inner.parents
    inner.chmod(mode)
    assert (nowhere / "tmp") in _jit.cache_folder().parents
    monkeypatch.setenv("ONEBIT_CACHE", str(root))
    assert _jit.cache_folder() is None


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to be root")
def test_a_folder_that_belongs_to_somebody_else_is_not_used(nowhere, monkeypatch):
    monkeypatch.setenv("ONEBIT_CACHE", str(nowhere / "theirs"))
    (nowhere / "theirs").mkdir(mode=0o755)
    os.chown(nowhere / "theirs", 12345, 12345)
    assert _jit.cache_folder() is None


@posix
@pytest.mark.parametrize("chosen", [True, False])
def test_a_folder_that_others_can_write_is_named_with_what_to_do(
    nowhere, monkeypatch, caplog, chosen
):
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    root = nowhere / "home" / ".cache" / "onebit"
    if chosen:
        monkeypatch.setenv("ONEBIT_CACHE", str(root))
    root.mkdir(parents=True)
    root.chmod(0o775)
    found = _jit.cache_folder()
    assert found is None if chosen else (nowhere / "tmp") in found.parents
    (record,) = caplog.records
    assert record.name == "onebit" and record.levelname == "WARNING"
    assert record.getMessage() == (
        f"onebit does not keep compiled code in {root}: others can write to it; "
        f"run: chmod go-w {root}"
    )
    root.chmod(0o755)
    inner = _jit.cache_folder()
    assert root in inner.parents and len(caplog.records) == 1
    inner.chmod(0o777)
    _jit.cache_folder()
    assert f"run: chmod go-w {inner}" in caplog.records[1].getMessage()
    inner.chmod(0o700)
    root.rename(nowhere / "elsewhere")
    root.symlink_to(nowhere / "elsewhere")
    monkeypatch.delenv("ONEBIT_CACHE", raising=False)
    _jit.cache_folder()
    assert "it is a link; set ONEBIT_CACHE to" in caplog.records[2].getMessage()


def test_where_there_is_no_home_or_no_room_nothing_is_said(nowhere, monkeypatch, caplog):
    assert _jit.cache_folder() is not None
    (nowhere / "file").write_text("")
    for name in ("HOME", "ONEBIT_CACHE"):
        monkeypatch.setenv(name, str(nowhere / "file"))
        _jit.cache_folder()
    assert not caplog.records


@posix
@compiled_only
def test_importing_says_so_once_and_goes_on_though_warnings_are_errors(tmp_path):
    tmp_path.chmod(0o775)
    code = "import onebit as ob, onebit.lab.sweeping; print(ob.Banditron(3).decide([1.0]).label)"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, "ONEBIT_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() in "012"
    assert done.stderr.count("chmod go-w") == 1 and str(tmp_path) in done.stderr


@posix
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000, 0o077])
def test_a_new_cache_is_private_whatever_the_users_umask(nowhere, monkeypatch, umask):
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    before = os.umask(umask)
    try:
        folder = _jit.cache_folder()
        again = _jit.cache_folder()
    finally:
        os.umask(before)
    assert folder == again and (nowhere / "home") in folder.parents
    for made in (folder, folder.parent):
        assert not stat.S_IMODE(made.stat().st_mode) & 0o022


# What was not used for long is removed.


def test_code_that_was_not_used_for_long_is_removed(tmp_path):
    now = time.time()
    ages = {"new.nbc": 0, "used.nbc": 29, "old.nbc": 31, "a.tmp": 1, "thesis.txt": 999}
    for name, days in ages.items():
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (now - days * 86400,) * 2)
    _jit._forget_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.nbc", "thesis.txt", "used.nbc"]


def test_of_too_much_code_the_least_recently_used_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(_jit, "_MOST_BYTES", 35)
    for i in range(9):
        (tmp_path / f"{i}.nbc").write_bytes(bytes(10))
        os.utime(tmp_path / f"{i}.nbc", (time.time() - i,) * 2)
    _jit._forget_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.nbc", "1.nbc", "2.nbc"]


def test_code_that_is_used_is_marked_as_used(tmp_path):
    path, now = tmp_path / "code.nbc", time.time()
    path.write_text("")
    for age, marked in ((60, False), (7200, True)):
        os.utime(path, (now - age,) * 2)
        _jit._touch(path)
        assert (path.stat().st_mtime > now - 30) is marked


def test_folders_of_earlier_versions_go_once_they_are_old_and_nothing_else_does(nowhere):
    chosen = nowhere / "mine"
    for name in ("compiled", "0123456789abcdef", "fedcba9876543210", "precious"):
        (chosen / name).mkdir(parents=True)
        (chosen / name / "thesis.txt").write_text("years of work")
    for name in ("0123456789abcdef", "precious"):
        os.utime(chosen / name, (1e9, 1e9))
    _jit._forget_old(chosen / "compiled")
    left = sorted(path.name for path in chosen.iterdir())
    assert left == ["compiled", "fedcba9876543210", "precious"]
    assert all((chosen / name / "thesis.txt").exists() for name in left)


def test_somebody_else_tidying_up_at_the_same_time_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "old.nbc").write_text("")
    os.utime(tmp_path / "old.nbc", (1e9, 1e9))
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: [*listed(path), path / "vanished.nbc"])
    monkeypatch.setattr(Path, "unlink", lambda path: os.unlink(path / "gone"))
    _jit._forget_old(tmp_path)


# Which edits compile again: digests of a copy of the package.

LEARNING = ("onebit.learner", "onebit.algorithms.banditron")
CODE = "\n_EDITED = 1\n"


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    ignored = shutil.ignore_patterns("__pycache__", "*.npz")
    return shutil.copytree(PACKAGE, tmp_path_factory.mktemp("copied") / "onebit", ignore=ignored)


def learning(package):
    """The digest of what Banditron's compiled code depends on, as a new process sees it."""
    now = Sources(package)
    now.remember_in(package.parent / "sources.json")
    return now.digest(LEARNING)


@contextlib.contextmanager
def edited(path, edit):
    """A file with another text for a while: one that is added, or (old, new)."""
    before = path.read_text()
    after = before.replace(*edit, 1) if isinstance(edit, tuple) else before + edit
    assert after != before
    path.write_text(after)
    try:
        yield
    finally:
        path.write_text(before)


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
        ("storage/full.py", CODE),
        ("learner.py", CODE),
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
    assert files("onebit.core.draws") == {"core/draws.py", "core/jit.py", "core/sources.py"}


def test_every_body_and_what_it_uses_is_in_the_files_of_its_record():
    """What is followed in the sources is at least what is there when a function is compiled."""
    for kind in Learner.registry.values():
        for params in [kind.Params]:
            files = SOURCES.files([compiled_entries.__name__, params.__module__])
            waiting = [compiled_entries._decide, compiled_entries._learn]
            waiting += [bodies[params] for bodies in _jit.Bodies.every if params in bodies]
            seen = set()
            while waiting:
                function = _jit.plain(waiting.pop())
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
    plain = (_jit.plain(value) for value in values)
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


# The decorators.


class _Red(NamedTuple):
    x: float


class _Blue(NamedTuple):
    x: float


@generic
def _paint(params, y): ...


@implement(_paint, _Red)
def _paint_red(params, y):
    return params.x + y


@implement(_paint, _Blue)
def _paint_blue(params, y):
    return params.x * y


@inline
def _twice(x):
    return 2 * x


@entry
def _painted(params, y):
    return _twice(_paint(params, y))


def test_a_generic_function_is_chosen_by_the_type_of_its_first_argument():
    assert _painted(_Red(3.0), 4.0) == 14.0
    assert _painted(_Blue(3.0), 4.0) == 24.0


class _Holder(NamedTuple):
    size: float
    held: object


def _paint_what_is_held(holder, y):
    return holder.size + holder.held.x + y


@generic
def _paint_or_leave(first, y):
    return y


_paint_or_leave.bodies[_Red] = _paint_what_is_held


@entry
def _painted_or_left(first, y):
    return _paint_or_leave(first, y)


def test_a_generic_function_is_chosen_by_the_type_of_the_last_field_else_it_has_its_own_body():
    assert _painted_or_left(_Holder(1.0, _Red(3.0)), 4.0) == 8.0
    assert _painted_or_left(_Holder(1.0, _Blue(3.0)), 4.0) == 4.0
    assert _painted_or_left(_Blue(3.0), 4.0) == 4.0


def test_the_machine_code_found_directly_tells_records_with_the_same_fields_apart():
    red = direct(_painted, _Red, _Red(0.0), 0.0)
    blue = direct(_painted, _Blue, _Blue(0.0), 0.0)
    assert direct(_painted, _Red, _Red(0.0), 0.0) is red
    assert (red(_Red(3.0), 4.0), blue(_Blue(3.0), 4.0)) == (14.0, 24.0)


@compiled_only
def test_other_users_of_numba_keep_their_own_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(numba.config, "CACHE_DIR", "/somewhere/else")
    for folder in (tmp_path, None):
        monkeypatch.setattr(_jit, "_folder", folder)
        assert entry(_paint_red)(_Red(1.0), 2.0) == 3.0
        assert numba.config.CACHE_DIR == "/somewhere/else"


@pytest.mark.parametrize(
    "change",
    [
        "del numba.core.caching.NullCache",
        "del numba.core.compiler.CompileResult._reduce",
        'numba.core.dispatcher.NullCache = type("Other", (numba.core.caching.NullCache,), {})',
    ],
)
@compiled_only
def test_with_a_numba_that_is_not_known_nothing_is_kept_and_a_line_says_so(tmp_path, change):
    code = f"""
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
import numba, numba.experimental.function_type
import numba.core.caching, numba.core.compiler, numba.core.dispatcher, numba.core.serialize
numba.__version__ = "99.0"
{change}
from onebit.core.jit import entry
@entry
def twice(x):
    return 2 * x
print(twice(3.0))
"""
    said = python(code, ONEBIT_CACHE=tmp_path).splitlines()
    assert said[-1] == "6.0" and len(said) == 2
    assert "onebit does not keep compiled code" in said[0] and "numba 99.0 is not known" in said[0]
    assert not list(tmp_path.rglob("*.nbc"))


@compiled_only
def test_code_that_cannot_be_saved_is_compiled_in_memory_and_a_line_says_so(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(_jit, "_folder", tmp_path)
    monkeypatch.setattr(_jit.CompileResult, "_reduce", lambda self: 1 / 0)
    _jit._not_kept.cache_clear()
    for i in range(2):
        assert entry(_paint_blue)(_Blue(3.0), 2.0 + i) == 6.0 + 3 * i
    assert [record.getMessage().count("ZeroDivisionError") for record in caplog.records] == [1]
    assert not list(tmp_path.iterdir())


@entry
def _sum(numbers):
    total = 0.0
    for number in numbers:
        total += number
    return total


def test_compiled_sums_keep_their_order():
    numbers = np.random.default_rng(1).standard_normal(999) * 10.0 ** (np.arange(999) % 17)
    total = 0.0
    for number in numbers.tolist():
        total += number
    assert _sum(numbers) == total and total != numbers[::-1].cumsum()[-1]


# In fresh processes.


def test_importing_the_package_alone_loads_nothing_heavy():
    heavy = ["numba", "numpy", "scipy", "llvmlite", "msgspec", "rich", "cyclopts"]
    code = f"""
import sys
import onebit
assert onebit.__version__ and "Banditron" in dir(onebit)
print(sorted(set({heavy!r}) & set(sys.modules)))
try:
    onebit.Bandit
except AttributeError as error:
    print(error)
"""
    assert python(code).splitlines() == ["[]", "module 'onebit' has no attribute 'Bandit'"]


LEARN = """
import json
import onebit as ob
from onebit.core import jit as _jit
from onebit import contexts as features
from onebit import compiled_entries
learner = ob.Banditron(3)
for t in range(3):
    d = learner.decide([1.0, 2.0])
    learner.learn(d, right=t == 1)
used = [features._copy_row, compiled_entries._decide, compiled_entries._learn]
stats = [getattr(entry, "stats", None) for entry in used]
print(json.dumps({
    "folder": str(_jit._folder),
    "weights": learner.weights.tolist(),
    "hits": [s and sum(s.cache_hits.values()) for s in stats],
    "misses": [s and sum(s.cache_misses.values()) for s in stats],
}))
"""


def learn(code=LEARN, **env):
    return json.loads(python(code, **env))


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """A cache that one process has filled, and what that process said."""
    cache = tmp_path_factory.mktemp("cached") / "cache"
    return cache, learn(ONEBIT_CACHE=cache)


@compiled_only
def test_a_second_process_compiles_nothing(cached):
    cache, first = cached
    assert first["misses"] == [1] * 3 and first["hits"] == [0] * 3
    kept = files(cache)
    assert len(kept) >= 3 and all(Path(first["folder"]) in path.parents for path in kept)
    second = learn(ONEBIT_CACHE=cache)
    assert second["hits"] == [1] * 3 and second["misses"] == [0] * 3
    assert files(cache) == kept
    assert second["weights"] == first["weights"] and second["folder"] == first["folder"]


@compiled_only
def test_a_damaged_cache_is_as_good_as_none(cached, tmp_path):
    cache, first = cached
    shutil.copytree(cache, tmp_path / "cache")
    kept = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert len(kept) >= 3
    for i, path in enumerate(kept):
        whole = path.read_bytes()
        path.write_bytes([b"", b"\x80nonsense", whole[: len(whole) // 2]][i % 3])
    assert learn(ONEBIT_CACHE=tmp_path / "cache")["weights"] == first["weights"]


def test_compiled_code_is_never_left_beside_the_sources():
    assert not [path for path in PACKAGE.rglob("*") if path.suffix in (".nbi", ".nbc")]


def test_learning_works_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    nothing = f"import tempfile; tempfile.tempdir = {str(tmp_path / 'file')!r}\n"
    env = {"HOME": tmp_path / "file", "XDG_CACHE_HOME": None, "ONEBIT_CACHE": None}
    said = learn(nothing + LEARN, **env)
    assert said["folder"] == "None"
    weights = np.array(said["weights"])
    assert weights.shape == (3, 2) and weights.any()


@pytest.mark.slow
@compiled_only
def test_processes_that_fill_one_cache_at_once_do_not_spoil_it(tmp_path):
    code = """
import sys
import onebit as ob
labels, dtype = int(sys.argv[1]), sys.argv[2]
for make in (ob.Banditron, ob.SOBA, ob.Confidit):
    one = make(labels, dtype=dtype)
    for t in range(9):
        d = one.decide([1.0, 2.0])
        one.learn(d, right=t % 2 == 1)
    assert one.weights.shape == (labels, 2) and str(one.weights.dtype) == dtype
"""
    kinds = [(3, "float32"), (3, "float64"), (6, "float32"), (16, "float32"), (16, "float64")]
    env = {**os.environ, "ONEBIT_CACHE": str(tmp_path / "cache")}
    for _ in range(2):
        running = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(labels), dtype],
                env=env,
                stderr=subprocess.PIPE,
                text=True,
            )
            for labels, dtype in kinds
        ]
        complaints = [process.communicate()[1] for process in running]
        assert [process.returncode for process in running] == [0] * len(kinds), complaints


OWN = """
from onebit.core.choosing import greedy
from onebit.core.sums import linear_score
from onebit.core.updates import add
from onebit.learner import Learner
from helper import step_of_own

class Own(Learner):
    planes = 1
    score = linear_score
    say = greedy
    lockstep = add

    @staticmethod
    def hear(params, state, work, row, turn, choice, right):
        add(state, row, choice.label, step_of_own(1.0))
        return True
"""
HELPER = """
from onebit.core.jit import inline

@inline
def step_of_own(x):
    return x * STEP
"""


@pytest.mark.thorough
@compiled_only
def test_code_for_learners_of_others_is_kept_and_never_stale(tmp_path):
    use = """
import own
from onebit import compiled_entries
mine = own.Own(2)
mine.learn(mine.decide([1.0]), right=True)
stats = compiled_entries._learn.stats
print(mine.weights[0, 0], sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""
    (tmp_path / "own.py").write_text(OWN)
    paths = f"{tmp_path}{os.pathsep}{PACKAGE.parent}"
    env = {"ONEBIT_CACHE": tmp_path / "cache", "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": 1}
    seen = []
    for step in ("1.0", "1.0  # a comment", "7.0", "7.0"):
        (tmp_path / "helper.py").write_text(HELPER.replace("STEP", step))
        seen.append(python(use, **env).split())
    assert seen == [["1.0", "0", "1"], ["1.0", "1", "0"], ["7.0", "0", "1"], ["7.0", "1", "0"]]


@pytest.mark.thorough
@compiled_only
def test_an_edit_while_a_process_runs_does_not_mislead_the_next(tmp_path):
    """The first process has imported what the file was before; it must not keep that code."""
    use = """
import sys
import own
open("helper.py", "w").write(sys.argv[1])
mine = own.Own(2)
mine.learn(mine.decide([1.0]), right=True)
print(mine.weights[0, 0])
"""
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "helper.py").write_text(HELPER.replace("STEP", "1.0"))
    paths = f"{tmp_path}{os.pathsep}{PACKAGE.parent}"
    env = {"ONEBIT_CACHE": tmp_path / "cache", "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": 1}
    after = HELPER.replace("STEP", "7.0")
    use = use.replace('"helper.py"', repr(str(tmp_path / "helper.py")))
    assert [python(use, after, **env).strip() for _ in range(2)] == ["1.0", "7.0"]


@pytest.mark.slow
@compiled_only
def test_an_edit_compiles_again_what_depends_on_it_and_nothing_else(tmp_path):
    package = shutil.copytree(
        PACKAGE, tmp_path / "onebit", ignore=shutil.ignore_patterns("__pycache__")
    )
    env = {"PYTHONPATH": tmp_path, "ONEBIT_CACHE": tmp_path / "cache"}
    first = learn(**env)
    assert first["misses"] == [1] * 3
    for file, edit in (
        ("cli/race.py", CODE),
        ("algorithms/ucwl.py", CODE),
        ("core/rounds.py", ('"""Scratch space', '"""Some scratch space')),
    ):
        with edited(package / file, edit):
            again = learn(**env)
            assert again["hits"] == [1] * 3 and again["weights"] == first["weights"]
    with edited(package / "algorithms" / "banditron.py", ("gain - 1.0", "gain - 3.0")):
        other = learn(**env)
        assert other["hits"] == [1, 0, 0] and other["misses"] == [0, 1, 1]
        assert other["weights"] != first["weights"]
    assert learn(**env)["hits"] == [1] * 3
