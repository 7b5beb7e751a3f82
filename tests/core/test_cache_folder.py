"""The folder of compiled code: which one is used, who may write to it, and what is removed."""

import os
import stat
import tempfile
import time
from pathlib import Path

import pytest

from onebit.core import cache_folder

posix = pytest.mark.skipif(os.name == "nt", reason="folders have no modes")
VARIABLES = ("ONEBIT_CACHE", "XDG_CACHE_HOME", "HOME", "USERPROFILE")


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
    assert (nowhere / "mine") in cache_folder.cache_folder().parents
    assert not (nowhere / "xdg").exists() and not (nowhere / "home").exists()
    (nowhere / "file").write_text("")
    monkeypatch.setenv("ONEBIT_CACHE", str(nowhere / "file"))
    assert cache_folder.cache_folder() is None


def test_without_a_choice_the_users_cache_then_home_then_temporary_files(nowhere, monkeypatch):
    assert (nowhere / "tmp") in cache_folder.cache_folder().parents
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    assert (nowhere / "home" / ".cache" / "onebit") in cache_folder.cache_folder().parents
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "xdg"))
    assert (nowhere / "xdg" / "onebit") in cache_folder.cache_folder().parents
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    assert (nowhere / "tmp") in cache_folder.cache_folder().parents


def test_the_folder_for_temporary_files_is_each_users_own(nowhere, monkeypatch):
    mine = cache_folder.cache_folder()
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
    assert (nowhere / "tmp") in cache_folder.cache_folder().parents


def test_there_is_no_folder_where_nothing_can_be_written(nowhere, monkeypatch):
    (nowhere / "file").write_text("")
    monkeypatch.setenv("HOME", str(nowhere / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(nowhere / "file"))
    assert cache_folder.cache_folder() is None


def test_there_is_no_folder_where_there_is_not_even_one_for_temporary_files(nowhere, monkeypatch):
    def none():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", none)
    assert cache_folder.cache_folder() is None
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    assert (nowhere / "home") in cache_folder.cache_folder().parents


def test_a_full_disk_is_no_place_for_a_cache(nowhere, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    assert cache_folder.cache_folder() is None


def test_a_filled_folder_that_cannot_be_written_is_read_if_it_was_chosen(nowhere, monkeypatch):
    """As in the image of a container whose root is read-only."""
    chosen = nowhere / "chosen"
    monkeypatch.setenv("ONEBIT_CACHE", str(chosen))
    filled = cache_folder.cache_folder()

    def read_only(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    assert cache_folder.cache_folder() is None  # there is nothing to read
    (filled / "_decide.0123.nbc").write_bytes(b"code")
    assert cache_folder.cache_folder() == filled
    monkeypatch.delenv("ONEBIT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(nowhere))
    assert cache_folder.cache_folder() is None


# Nobody else may write the code that is run.


@posix
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o722])
def test_a_folder_that_others_can_write_is_not_used(nowhere, monkeypatch, mode):
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    root = nowhere / "home" / ".cache" / "onebit"
    root.mkdir(parents=True)
    root.chmod(mode)
    assert (nowhere / "tmp") in cache_folder.cache_folder().parents
    root.chmod(0o755)
    inner = cache_folder.cache_folder()
    assert root in inner.parents
    inner.chmod(mode)
    assert (nowhere / "tmp") in cache_folder.cache_folder().parents
    monkeypatch.setenv("ONEBIT_CACHE", str(root))
    assert cache_folder.cache_folder() is None


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs to be root")
def test_a_folder_that_belongs_to_somebody_else_is_not_used(nowhere, monkeypatch):
    monkeypatch.setenv("ONEBIT_CACHE", str(nowhere / "theirs"))
    (nowhere / "theirs").mkdir(mode=0o755)
    os.chown(nowhere / "theirs", 12345, 12345)
    assert cache_folder.cache_folder() is None


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
    found = cache_folder.cache_folder()
    assert found is None if chosen else (nowhere / "tmp") in found.parents
    (record,) = caplog.records
    assert record.name == "onebit" and record.levelname == "WARNING"
    assert record.getMessage() == (
        f"onebit does not keep compiled code in {root}: others can write to it; "
        f"run: chmod go-w {root}"
    )
    root.chmod(0o755)
    inner = cache_folder.cache_folder()
    assert root in inner.parents and len(caplog.records) == 1
    inner.chmod(0o777)
    cache_folder.cache_folder()
    assert f"run: chmod go-w {inner}" in caplog.records[1].getMessage()
    inner.chmod(0o700)
    root.rename(nowhere / "elsewhere")
    root.symlink_to(nowhere / "elsewhere")
    monkeypatch.delenv("ONEBIT_CACHE", raising=False)
    cache_folder.cache_folder()
    assert "it is a link; set ONEBIT_CACHE to" in caplog.records[2].getMessage()


def test_where_there_is_no_home_or_no_room_nothing_is_said(nowhere, monkeypatch, caplog):
    assert cache_folder.cache_folder() is not None
    (nowhere / "file").write_text("")
    for name in ("HOME", "ONEBIT_CACHE"):
        monkeypatch.setenv(name, str(nowhere / "file"))
        cache_folder.cache_folder()
    assert not caplog.records


@posix
@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000, 0o077])
def test_a_new_cache_is_private_whatever_the_users_umask(nowhere, monkeypatch, umask):
    monkeypatch.setenv("HOME", str(nowhere / "home"))
    before = os.umask(umask)
    try:
        folder = cache_folder.cache_folder()
        again = cache_folder.cache_folder()
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
    cache_folder.tidy(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.nbc", "thesis.txt", "used.nbc"]


def test_of_too_much_code_the_least_recently_used_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(cache_folder, "_MOST_BYTES", 35)
    for i in range(9):
        (tmp_path / f"{i}.nbc").write_bytes(bytes(10))
        os.utime(tmp_path / f"{i}.nbc", (time.time() - i,) * 2)
    cache_folder.tidy(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0.nbc", "1.nbc", "2.nbc"]


def test_code_that_is_used_is_marked_as_used(tmp_path):
    path, now = tmp_path / "code.nbc", time.time()
    path.write_text("")
    for age, marked in ((60, False), (7200, True)):
        os.utime(path, (now - age,) * 2)
        cache_folder.touch(path)
        assert (path.stat().st_mtime > now - 30) is marked


def test_folders_of_earlier_versions_go_once_they_are_old_and_nothing_else_does(nowhere):
    chosen = nowhere / "mine"
    for name in ("compiled", "0123456789abcdef", "fedcba9876543210", "precious"):
        (chosen / name).mkdir(parents=True)
        (chosen / name / "thesis.txt").write_text("years of work")
    for name in ("0123456789abcdef", "precious"):
        os.utime(chosen / name, (1e9, 1e9))
    cache_folder.tidy(chosen / "compiled")
    left = sorted(path.name for path in chosen.iterdir())
    assert left == ["compiled", "fedcba9876543210", "precious"]
    assert all((chosen / name / "thesis.txt").exists() for name in left)


def test_somebody_else_tidying_up_at_the_same_time_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "old.nbc").write_text("")
    os.utime(tmp_path / "old.nbc", (1e9, 1e9))
    listed = Path.iterdir
    monkeypatch.setattr(Path, "iterdir", lambda path: [*listed(path), path / "vanished.nbc"])
    monkeypatch.setattr(Path, "unlink", lambda path: os.unlink(path / "gone"))
    cache_folder.tidy(tmp_path)
