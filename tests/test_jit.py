"""Where compiled code is kept, and that nothing depends on there being such a place."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

import onebit
from onebit.core import jit as _jit
from onebit.core.jit import COMPILED, direct, entry, generic, implement, inline

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


# Other code, other folder.


def test_a_changed_added_or_renamed_source_has_another_folder(nowhere, monkeypatch):
    shutil.copytree(PACKAGE, nowhere / "onebit", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(_jit, "__file__", str(nowhere / "onebit" / "_jit.py"))
    seen = [_jit._sources_digest()]
    folder = _jit.cache_folder()
    assert seen[0] == _jit._sources_digest() and seen[0] in folder.name
    kernel = nowhere / "onebit" / "algorithms" / "banditron.py"
    kernel.write_bytes(kernel.read_bytes() + b"#")
    seen.append(_jit._sources_digest())
    (nowhere / "onebit" / "new.py").write_text("")
    seen.append(_jit._sources_digest())
    (nowhere / "onebit" / "new.py").rename(nowhere / "onebit" / "newer.py")
    seen.append(_jit._sources_digest())
    assert len(set(seen)) == 4
    assert _jit.cache_folder() != folder
    (nowhere / "onebit" / "newer.py").unlink()
    kernel.write_bytes(kernel.read_bytes()[:-1])
    assert _jit._sources_digest() == seen[0]


def test_only_the_newest_few_caches_are_kept(nowhere, monkeypatch):
    monkeypatch.setenv("ONEBIT_CACHE", str(nowhere / "mine"))
    made = []
    for i in range(9):
        monkeypatch.setattr(_jit, "_sources_digest", lambda i=i: f"{i:016x}")
        made.append(_jit.cache_folder())
        (made[-1] / "code").write_text("")
        os.utime(made[-1], (1e9 + i, 1e9 + i))
    kept = [folder for folder in made if folder.exists()]
    assert made[-1] in kept and made[-2] in kept and len(kept) <= 5
    assert kept == made[-len(kept) :]


def test_what_else_lies_in_the_chosen_folder_is_never_deleted(nowhere, monkeypatch):
    chosen = nowhere / "mine"
    chosen.mkdir(mode=0o755)
    for i in range(9):
        (chosen / f"precious{i}").mkdir()
        (chosen / f"precious{i}" / "thesis.txt").write_text("years of work")
    (chosen / "letter.txt").write_text("dear")
    monkeypatch.setenv("ONEBIT_CACHE", str(chosen))
    for i in range(9):
        monkeypatch.setattr(_jit, "_sources_digest", lambda i=i: f"{i:016x}")
        assert _jit.cache_folder() is not None
    assert all((chosen / f"precious{i}" / "thesis.txt").exists() for i in range(9))
    assert (chosen / "letter.txt").exists()


def test_somebody_else_tidying_up_at_the_same_time_does_no_harm(nowhere, monkeypatch):
    monkeypatch.setenv("ONEBIT_CACHE", str(nowhere / "mine"))
    for i in range(5):
        monkeypatch.setattr(_jit, "_sources_digest", lambda i=i: f"{i:016x}")
        last = _jit.cache_folder()
        os.utime(last, (1e9 + i, 1e9 + i))
    vanished = nowhere / "mine" / f"{99:016x}"
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: [*listed(path), vanished])
    monkeypatch.setattr(_jit, "_sources_digest", lambda: f"{6:016x}")
    folder = _jit.cache_folder()
    assert folder is not None and folder.exists()


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


def test_a_function_is_compiled_in_memory_if_numba_finds_no_place_after_all(monkeypatch, tmp_path):
    monkeypatch.setattr(_jit, "COMPILED", True)
    monkeypatch.setattr(_jit, "_folder", tmp_path)
    njit, tried = numba.njit, []

    def no_place(function, cache=False, **options):
        tried.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(function, **options)

    monkeypatch.setattr(numba, "njit", no_place)
    assert entry(_paint_blue)(_Blue(3.0), 2.0) == 6.0
    assert tried == [True, False]


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
from onebit import learner
one = ob.Banditron(3)
for t in range(3):
    d = one.decide([1.0, 2.0])
    one.learn(d, right=t == 1)
entries = [features._count_nonzero, features._copy_nonzero, learner._decide, learner._learn]
stats = [getattr(entry, "stats", None) for entry in entries]
print(json.dumps({
    "folder": str(_jit._folder),
    "weights": one.weights.tolist(),
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
    assert first["misses"] == [1] * 4 and first["hits"] == [0] * 4
    kept = files(cache)
    assert len(kept) >= 4 and all(Path(first["folder"]) in path.parents for path in kept)
    second = learn(ONEBIT_CACHE=cache)
    assert second["hits"] == [1] * 4 and second["misses"] == [0] * 4
    assert files(cache) == kept
    assert second["weights"] == first["weights"] and second["folder"] == first["folder"]


@compiled_only
def test_a_damaged_cache_is_as_good_as_none(cached, tmp_path):
    cache, first = cached
    shutil.copytree(cache, tmp_path / "cache")
    kept = sorted(path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert len(kept) >= 4
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


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_code_for_learners_of_others_is_never_stale(tmp_path):
    """Their sources are not in the digest that names the cache folder, so they are not kept."""
    source = """
from typing import NamedTuple
from onebit.core import rounds as _kernel
from onebit.core.jit import implement
from onebit.learner import Learner

class OwnParams(NamedTuple):
    step: float

implement(_kernel.score, OwnParams)(_kernel.linear_score)
implement(_kernel.decide, OwnParams)(_kernel.say_greedy)
implement(_kernel.probabilities, OwnParams)(_kernel.greedy_law)
implement(_kernel.could_say, OwnParams)(_kernel.could_say_greedy)
implement(_kernel.settle, OwnParams)(_kernel.add.settled)

@implement(_kernel.learn, OwnParams)
def learn(params, state, work, row, turn, choice, right):
    _kernel.add(state, row, choice.label, STEP)
    return True

class Own(Learner):
    planes = 1
    params = (OwnParams,)
    def __init__(self, labels, **common):
        super().__init__(labels, OwnParams(1.0), {}, **common)
"""
    use = "import own; o = own.Own(2); o.learn(o.decide([1.0]), right=True); print(o.weights[0, 0])"
    seen = []
    for step in ("1.0", "7.0"):
        (tmp_path / "own.py").write_text(source.replace("STEP", step))
        env = {
            **os.environ,
            "ONEBIT_CACHE": str(tmp_path / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [sys.executable, "-c", use], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        seen.append(done.stdout.strip())
    assert seen == ["1.0", "7.0"]
