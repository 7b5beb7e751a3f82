"""Compilation: bodies of generic functions, direct calls, and compiled code on disk."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest
from helpers.edits import CODE, edited

import onebit
import onebit.algorithms
from onebit.core import jit as _jit
from onebit.core.jit import COMPILED, direct, entry, generic, implement, inline

pytestmark = pytest.mark.compiled
PACKAGE = Path(onebit.__file__).parent
compiled_only = pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
posix = pytest.mark.skipif(os.name == "nt", reason="folders have no modes")


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
    assert python(code).splitlines() == [
        "[]",
        "module 'onebit' has no attribute 'Bandit'; did you mean 'EGBandit'?",
    ]


LEARN = """
import json
import onebit as ob
from onebit.core import jit as _jit
from onebit.reading import rows
from onebit.learner import calls
learner = ob.Banditron(3)
for t in range(3):
    d = learner.decide([1.0, 2.0])
    learner.learn(d, right=t == 1)
used = [rows._copy_row, calls._decide, calls._learn]
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
learner = ob.Banditron(labels, dtype=dtype)
for t in range(9):
    d = learner.decide([1.0, 2.0])
    learner.learn(d, right=t % 2 == 1)
assert learner.weights.shape == (labels, 2) and str(learner.weights.dtype) == dtype
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
from onebit.learner.learner import Learner
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
from onebit.learner import calls
mine = own.Own(2)
mine.learn(mine.decide([1.0]), right=True)
stats = calls._learn.stats
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
        ("learner/learner.py", CODE),
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
