"""The command, as a person would use it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pytest

from onebit import bounds, cli, datasets, race
from onebit._jit import COMPILED
from onebit.learner import Learner


def onebit(*args, cwd, **more):
    if not COMPILED:
        pytest.skip("the command is the same, and what another process covers is not measured")
    command = [sys.executable, "-c", "from onebit.cli import main; main()", *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, **more)


def test_help_shows_examples(tmp_path):
    done = onebit("race", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "onebit race --data digits" in done.stdout and "--repeats" in done.stdout
    assert "race" in onebit("--help", cwd=tmp_path).stdout
    assert re.match(r"\d+\.\d+\.\d+", onebit("--version", cwd=tmp_path).stdout)


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
        race.streams("films.csv", 10, 1, 0)
    (tmp_path / "one.csv").write_text("a,label\n1,x\n")
    with pytest.raises(ValueError, match="all rows have the label 'x'"):
        race.streams("one.csv", 10, 1, 0)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--data", "nothing"], "no data 'nothing'"),
        (["--data", "missing.npz"], "missing.npz"),
        (["--learner", "Bandit"], "no learner 'Bandit'"),
        (["--prepare", "tf"], "no step 'tf'"),
        (["--learner", "Banditron:gama=1"], "no setting 'gama'"),
        (["--learner", "Banditron:gamma=7"], "gamma must be"),
        (["--learner", "Perceptron:a=1"], "it has none"),
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


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.skipif(not COMPILED, reason="a call of thousands of rounds hears nothing for minutes")
def test_ctrl_c_stops_a_long_race_without_a_traceback(tmp_path):
    # Whoever runs this in the background may have the signal ignored, and children inherit that.
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command = [sys.executable, "-c", f"{heard}from onebit.cli import main; main()", "race"]
    more = ["--learner", "LinearThompson", "--rounds", "5000000", "--data", "digits"]
    process = subprocess.Popen(
        [*command, *more], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    time.sleep(6)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
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
    assert "digits" in printed and "SynSep" in printed and "told the true label" in printed
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

    monkeypatch.setattr("onebit.race.race", interrupted)
    assert main("race") == 130
    assert "interrupted" in capsys.readouterr().err


def test_entrants_know_their_settings():
    made = race.entrant("scw:variant=II:C=0.5")
    assert made.learner.__name__ == "SCW" and made.settings == {"variant": "II", "C": 0.5}
    assert race.entrant("BanditPerceptron:use_correct=true").settings == {"use_correct": True}
    with pytest.raises(ValueError, match="a setting is NAME=VALUE, not 'C'"):
        race.entrant("scw:C")
    names = [one.learner.__name__ for one in race.all_entrants()]
    assert len(names) == len(set(names)) == 20 and set(names) <= set(Learner.registry)
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
    assert page.count("it says nothing and is not drawn") == 2

    entrants = [race.entrant("Banditron"), race.entrant("UCWL")]
    more = {"rounds": 20, "repeats": 2, "seed": 3}
    (panel,) = race.race(["synnonsep"], entrants, prove=True, **more)
    bound, other = (line.bound for line in panel.lines)
    each, points = [], np.array(panel.lines[0].rounds)
    for seed in (3, 4):
        data = datasets.synnonsep(20, seed=seed)
        known = bounds.comparator(data.comparator, data.X, data.y)
        loss = known.loss[points - 1]
        each.append(bounds.banditron(points, labels=9, gamma=0.006, norm=known.norm, loss=loss))
    assert known.loss[0] < known.loss[-1]
    assert other is None and bound.error == pytest.approx(np.mean(each, axis=0) / points)
    assert race.race(["synsep"], entrants, **more)[0].lines[0].bound is None
    with pytest.raises(ValueError, match="rows as they are; leave out unit_norm"):
        race.race(["synsep"], entrants, prove=True, prepare=["unit_norm"], **more)
    with pytest.raises(ValueError, match="let one of them race"):
        race.race(["synsep"], entrants[1:], prove=True, **more)


def test_a_race_is_the_same_every_time_and_settings_suit_the_data():
    def run():
        entrants = [race.entrant("Banditron"), race.entrant("PNewtron:gamma=0.3")]
        return race.race(["digits", "synsep"], entrants, rounds=100, repeats=2, seed=3)

    one, two = run(), run()
    assert [[line.error for line in panel.lines] for panel in one] == [
        [line.error for line in panel.lines] for panel in two
    ]
    assert "gamma=0.1" in one[0].lines[0].settings and "gamma=0.014" in one[1].lines[0].settings
    assert "gamma=0.3" in one[0].lines[1].settings and "D=10" in one[0].lines[1].settings
    for panel in one:
        for line in panel.lines:
            assert line.low[-1] <= line.error[-1] <= line.high[-1] and line.rounds[-1] == 100
