"""The command, as a person would use it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest
from helpers.waiting import BEGINS, LONG, PATIENCE

from onebit import cli
from onebit.core.jit import COMPILED
from onebit.lab import streams
from onebit.learner.learner import Learner
from onebit.registry import recipes


def onebit(*args, cwd, **more):
    if not COMPILED:
        pytest.skip("the command is the same, and what another process covers is not measured")
    command = [sys.executable, "-c", "from onebit.cli import main; main()", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LONG, **more)


def test_help_shows_examples(tmp_path):
    done = onebit("race", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "onebit race --data digits" in done.stdout and "--repeats" in done.stdout
    assert "race" in onebit("--help", cwd=tmp_path).stdout
    assert re.match(r"\d+\.\d+\.\d+", onebit("--version", cwd=tmp_path).stdout)


@pytest.mark.compiled
def test_a_small_race_prints_a_ranked_table_and_writes_the_page(tmp_path):
    args = ("race", "--data", "digits", "--learner", "Banditron:gamma=0.2", "--learner", "AROW")
    done = onebit(*args, "--rounds", "300", "--repeats", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "AROW *" in done.stdout and "Banditron" in done.stdout
    assert done.stdout.index("AROW *") < done.stdout.index("Banditron")  # fewer mistakes first
    page = (tmp_path / "race.html").read_text()
    assert "gamma=0.2" in page and "300" in page
    HTMLParser().feed(page)
    assert list(tmp_path.iterdir()) == [tmp_path / "race.html"]


def test_a_race_on_a_file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    np.savez(tmp_path / "mine.npz", X=X, y=np.where(X[:, 0] > 0, "up", "down"))
    args = ("race", "--data", "mine.npz", "--learner", "UCWL", "--rounds", "200", "--out", "m.html")
    done = onebit(*args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mine" in (tmp_path / "m.html").read_text()


def test_a_race_on_a_table_with_named_columns(tmp_path, monkeypatch, capsys):
    rows = [("good film", "up"), ("bad film", "down")] * 20
    text = "review,verdict\n" + "".join(f"{review},{verdict}\n" for review, verdict in rows)
    (tmp_path / "films.csv").write_text(text)
    monkeypatch.chdir(tmp_path)
    args = "race --data films.csv --label verdict --text review --learner UCWL --rounds 60"
    monkeypatch.setattr(sys, "argv", ["onebit", *args.split(), "--repeats", "1"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    assert "films" in capsys.readouterr().out and (tmp_path / "race.html").exists()
    with pytest.raises(ValueError, match=r"films.csv, line 1: there is no column 'label'"):
        streams.streams("films.csv", 10, 1, 0)
    (tmp_path / "one.csv").write_text("a,label\n1,x\n")
    with pytest.raises(ValueError, match="all rows have the label 'x'"):
        streams.streams("one.csv", 10, 1, 0)


@pytest.mark.parametrize("command", ["race", "inspect"])
def test_a_word_without_its_option(tmp_path, command):
    done = onebit(command, "mine.csv", "more", cwd=tmp_path)
    said = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2
    if command == "race":
        assert "mine.csv more belongs to no option; name data with an option: --data" in said
    else:
        assert "more belongs to no option; is an option missing before it?" in said
    assert f"onebit {command} --help shows examples" in said


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--data", "nothing"], "no data 'nothing'"),
        (["--data", "missing.npz"], "missing.npz"),
        (["--learner", "Bandit"], "no learner 'Bandit'"),
        (["--prepare", "tf"], "no step 'tf'"),
        (["--learner", "Banditron:gama=1"], "no setting 'gama'"),
        (["--learner", "Banditron:gamma=7"], "gamma must be"),
        (["--learner", "Perceptron:a=1"], "it has no settings of its own"),
        (["--rounds", "0"], "rounds must be"),
        (["--data", "iris", "--bounds"], "bounds need data whose best weights are known: synsep"),
        (["--repeats", "0"], "repeats must be"),
        (["--out", "no/such/folder.html"], "cannot be written"),
        (["--out", "."], "cannot be written"),
    ],
)
def test_wrong_use_is_one_sentence(tmp_path, args, says):
    done = onebit("race", *args, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "race.html").exists()


@pytest.mark.compiled
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.skipif(not COMPILED, reason="a call of thousands of rounds hears nothing for minutes")
def test_ctrl_c_stops_a_long_race_without_a_traceback(tmp_path):
    command = [sys.executable, "-c", BEGINS, "race"]
    more = ["--learner", "LinearThompson", "--rounds", "5000000", "--data", "digits"]
    process = subprocess.Popen(
        [*command, *more], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "begun\n"
    time.sleep(2)  # in the middle, if the machine is fast
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "interrupted" in errors and "Traceback" not in errors
    assert not (tmp_path / "race.html").exists()


def test_main_in_process(tmp_path, monkeypatch, capsys):
    """The same as above without a new process, where coverage can see it."""
    monkeypatch.chdir(tmp_path)

    def main(*args):
        monkeypatch.setattr(sys, "argv", ["onebit", *args])
        try:
            cli.main()
        except SystemExit as end:
            return end.code
        return 0

    args = ("--learner", "UCWL", "--learner", "CW", "--rounds", "40", "--repeats", "1")
    assert main("race", "--data", "digits", "--data", "synsep", *args) == 0
    printed = capsys.readouterr().out
    assert "digits" in printed and "SynSep" in printed and "receives the true label" in printed
    assert (tmp_path / "race.html").exists()
    steps = ("--prepare", "tfidf", "--prepare", "unit_norm")
    assert main("race", "--data", "iris", *steps, *args) == 0
    assert "; tfidf, unit_norm" in capsys.readouterr().out
    assert "tfidf, unit_norm" in (tmp_path / "race.html").read_text()
    steps = ("--prepare", "nystroem:20", "--prepare", "fourier:30:gamma=2:seed=1")
    assert main("race", "--data", "iris", *steps, *args) == 0
    assert "; nystroem:20, fourier:30:gamma=2:seed=1" in capsys.readouterr().out
    assert main("race", "--data", "iris", "--prepare", "nystroem:50", *args) == 2
    assert "the first 50 rows, and here are 40" in capsys.readouterr().err
    assert main("race", "--data", "nothing") == 2
    assert "no data 'nothing'" in capsys.readouterr().err

    def interrupted(*args, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("onebit.lab.race.race", interrupted)
    assert main("race") == 130
    assert "interrupted" in capsys.readouterr().err


CORE = """
import sys
extras = ["httptools", "httpx", "joblib", "PIL", "polars", "prometheus_client", "sklearn"]
sys.modules |= dict.fromkeys([*extras, "starlette", "uvicorn", "uvloop"])  # not installed
"""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["study", "rcnbf-2021", "--quick"], "needs scikit-learn.*pip install '.[lab]'"),
        (["serve"], "the service needs prometheus_client: pip install '.[serve]'"),
        (["teach"], "the teach page needs uvicorn: pip install '.[serve]'"),
        (["dashboard", "a.journal"], "the dashboard needs starlette: pip install '.[serve]'"),
        (
            ["retrain", "--learner", "UCWL", "--url", "http://localhost:1"],
            "onebit.client needs httpx: pip install '.[serve]'",
        ),
    ],
)
def test_without_the_extras_a_sentence_says_what_to_install(tmp_path, args, says):
    command = [sys.executable, "-c", CORE + "from onebit.cli import main; main()", *args]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 2
    assert re.match(f"onebit: .*{says}".replace(".[", r"\.\["), done.stderr), done.stderr
    assert done.stderr.count("\n") == 1


def test_without_the_extras_studies_are_listed(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    monkeypatch.setattr(sys, "argv", ["onebit", "study"])
    with contextlib.suppress(SystemExit):
        cli.main()
    told = capsys.readouterr()
    assert "rcnbf-2021" in told.out and "banditron-2008" in told.out and not told.err


def test_entrants_know_their_settings():
    made = recipes.recipe_of("scw:variant=II:C=0.5")
    assert made.learner.__name__ == "SCW" and made.settings == {"variant": "II", "C": 0.5}
    assert recipes.recipe_of("BanditPerceptron:use_correct=true").settings == {"use_correct": True}
    with pytest.raises(ValueError, match="a setting is NAME=VALUE, not 'C'"):
        recipes.recipe_of("scw:C")
    names = [one.learner.__name__ for one in recipes.default_recipes()]
    assert len(names) == len(set(names)) == 21 and set(names) <= set(Learner.registry)
    assert "Halving" not in names  # it has no defaults


def test_a_race_with_bounds(tmp_path, monkeypatch, capsys):
    args = "race --data synsep --data iris --rounds 50 --repeats 2 --bounds --learner Perceptron"
    for gamma in (0.5, 0.6):
        args += f" --learner Banditron:gamma={gamma}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["onebit", *args.split()])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert len(re.findall("Banditron gamma=0.5: bound on error % .*key words", printed)) == 1
    assert "gamma=0.6: bound" not in printed  # the theorem is for gamma up to 1/2
    page = (tmp_path / "race.html").read_text()
    assert page.count("it is vacuous and not drawn") == 2


@pytest.fixture
def main(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def main(*args):
        monkeypatch.setattr(sys, "argv", ["onebit", *args])
        try:
            cli.main()
        except SystemExit as end:
            return end.code
        return 0

    return main


FILMS = [("good film", "up", "7"), ("bad film", "down", "8")] * 20


def test_the_output_says_how_often_rows_come(main, tmp_path, capsys):
    text = "review,label\n" + "".join(f"{review},{label}\n" for review, label, _ in FILMS)
    (tmp_path / "films.csv").write_text(text)
    args = ("race", "--data", "films.csv", "--data", "iris", "--learner", "UCWL", "--repeats", "2")
    assert main(*args) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "race.html").read_text()
    assert "40 rounds: each row once; repeats: 2" in printed
    assert printed.count("commonest label *") == 2 and "always down" in printed
    assert printed.count("Rows are scaled for every learner") == 1  # texts have length 1
    assert page.count("Rows are scaled for every learner") == 1 and "always down" in page
    assert "150 rounds: each row once; repeats: 2" in printed
    assert "<dt>rounds</dt><dd>films 40, iris 150</dd>" in page
    assert "40 rounds: each row once." in page and "more than once" not in page
    assert main(*args, "--rounds", "100") == 0
    printed, page = capsys.readouterr().out, (tmp_path / "race.html").read_text()
    assert "100 rounds: each of 40 rows about 2.5 times" in printed
    words = " ".join(page.split())
    assert "100 rounds: each of 40 rows about 2.5 times. Rows come more than once" in words
    assert "100 rounds: 100 of 150 rows, each once" in printed


@pytest.mark.parametrize("command", ["race", "tune"])
def test_a_wrong_seed_is_named_as_it_was_typed(main, tmp_path, capsys, command):
    assert main(command, "--data", "iris", "--learner", "UCWL", "--seed", "-1") == 2
    assert "--seed must be between 0 and" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_one_run_has_no_spread(main, tmp_path, capsys):
    args = ("--data", "iris", "--learner", "Banditron", "--repeats", "1")
    assert main("race", *args) == 0
    printed, page = capsys.readouterr().out, (tmp_path / "race.html").read_text()
    (row,) = (line.split() for line in printed.splitlines() if line.strip().startswith("Banditron"))
    assert row[2] == "-"
    assert "± 0.00" not in page and "repeats " not in "".join(
        re.findall("<title>.*?</title>", page)
    )
    assert main("tune", *args, "--trials", "2", "--rounds", "20") == 0
    printed = capsys.readouterr().out
    assert re.search(r"tuned \d+\.\d\d %, default \d+\.\d\d %", printed)
    assert re.search(r"Banditron +\d+\.\d\d +- +\d", printed)


# Files


def test_options_about_files_are_those_of_every_command(main, tmp_path, capsys):
    rows = "".join(f"{review};{code};{label}\n" for review, label, code in FILMS)
    (tmp_path / "films.txt").write_bytes(f"r\xe9view;zip;verdict\n{rows}".encode("cp1252"))
    assert main("data", "info", "films.txt") == 2
    assert "pass --format csv, or another of npz" in capsys.readouterr().err
    files = ["--format", "csv"]
    assert main("data", "info", "films.txt", *files) == 2
    assert "name the encoding of the file with --encoding cp1252" in capsys.readouterr().err
    files += ["--encoding", "cp1252"]
    assert main("race", "--data", "films.txt", *files) == 2
    assert "pass --delimiter ';'" in capsys.readouterr().err
    files += ["--delimiter", ";"]
    assert main("tune", "--data", "films.txt", *files) == 2
    assert "name the right one with --label" in capsys.readouterr().err
    files += ["--label", "verdict", "--text", "r\xe9view", "--ngrams", "2"]
    files += ["--categories", "zip", "--features", "64"]
    assert main("data", "info", "films.txt", *files) == 0
    said = capsys.readouterr().out
    assert re.search(r"features  64\n", said) and "down: 20, up: 20" in said
    assert "read(\"films.txt\", label='verdict'" in said
    assert main("race", "--data", "films.txt", *files, "--learner", "UCWL", "--repeats", "2") == 0
    assert "40 rows, 64 features, 2 labels" in capsys.readouterr().out
    more = ["--learner", "UCWL", "--trials", "2", "--repeats", "1"]
    assert main("tune", "--data", "films.txt", *files, *more) == 0
    command = capsys.readouterr().out.splitlines()[-1].strip()
    assert "--delimiter ';'" in command and "--categories zip" in command
    assert main(*shlex.split(command)[1:]) == 0
    assert main("data", "info", "films.txt", "--format", "csv", "--ngrams", "0") == 2
    assert "ngrams must be between 1 and 10" in capsys.readouterr().err
    (tmp_path / "t.csv").write_text("a\tb,c\tlabel\n1\t2\tx\n3\tu\ty\n")
    assert main("race", "--data", "t.csv", "--delimiter", r"\t") == 2
    assert "'u' in column 'b,c' is not a number" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_warnings_are_lines_without_a_place_in_the_program(main, tmp_path, capsys):
    rows = [f"{'' if i % 10 == 0 else 'ab'[i % 2]},{i},d{i},{i % 3}\n" for i in range(40)]
    (tmp_path / "t.csv").write_text("label,id,created,a\n" + "".join(rows))
    args = ("race", "--data", "t.csv", "--learner", "UCWL", "--repeats", "1")
    assert main(*args, "--missing-label", "skip") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert [line.split("; ")[0].split(", such")[0] for line in lines] == [
        "onebit: warning: t.csv: column 'created' has another value in nearly every row",
        "onebit: warning: t.csv: column 'id' numbers the rows, 1, 2, 3 and so on. If that is no "
        "measurement, leave it out with --drop id",
        "onebit: warning: t.csv: 4 of 40 rows have no label and were left out",
    ]
    assert main("data", "info", "t.csv", "--missing-label", "skip", "--drop", "created,id") == 0
    said = capsys.readouterr()
    assert "36" in said.out and said.err.count("warning") == 1
    assert "missing_label='skip'" in said.out and "drop=['created', 'id']" in said.out


def test_an_option_about_files_is_named_as_it_was_typed(main, tmp_path, capsys):
    (tmp_path / "films.csv").write_text("a;label\n1;x\n")
    for option, value, says in [
        ("--delimiter", ";;", "onebit: --delimiter must be one character"),
        ("--ngrams", "11", "onebit: --ngrams must be between 1 and 10"),
        ("--features", "0", "onebit: --features must be between 1 and"),
    ]:
        assert main("race", "--data", "films.csv", option, value) == 2
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("command", [("race", "--data"), ("tune", "--data"), ("data", "info")])
def test_a_missing_file_is_named_with_data_sets_of_a_similar_name(main, capsys, command):
    assert main(*command, "digit.csv") == 2
    meant = "did you mean the data set 'digits' or 'optdigits'?"
    said = capsys.readouterr().err.strip()
    assert said == f"onebit: there is no file digit.csv; {meant}"
    assert main(*command, "no/xyzzy.csv") == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("onebit: there is no file no/xyzzy.csv; the data sets are synsep, ")


# Terminals that show little


@pytest.mark.parametrize(
    "args",
    [
        ("--help",),
        ("race", "--help"),
        ("race", "--data", "iris", "--rounds", "20", "--repeats", "2", "--learner", "UCWL",
         "--learner", "Confidit:eta=0.125:reg=0.25:alpha=0.5:width=eta:update=coordinate"),
        ("tune", "--data", "iris", "--rounds", "20", "--trials", "2", "--learner", "UCWL"),
        ("data", "list"),
        ("data", "info", "iris"),
        ("study",),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "encoding", ["ascii", pytest.param("latin-1", marks=pytest.mark.exhaustive)]
)
def test_any_terminal_can_show_the_output(tmp_path, args, encoding):
    plain = {"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0", "LC_ALL": "C", "LANG": "C"}
    done = subprocess.run(
        [sys.executable, "-m", "onebit.cli", *args],
        cwd=tmp_path,
        capture_output=True,
        timeout=LONG,
        env={**os.environ, **plain, "NUMBA_DISABLE_JIT": "1"},
    )
    said = done.stdout.decode(encoding)
    assert done.returncode == 0, done.stderr
    assert said.strip() and not done.stderr.strip()
    if "--rounds" in args:
        assert ("+-" if encoding == "ascii" else "±") in said
