"""Studies: what a file may say, which cells it needs, how they run, and what is found."""

import datetime
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.waiting import LONG, wait_for

import onebit as ob
from onebit import datasets
from onebit.core.sources import Sources
from onebit.datasets import catalogue
from onebit.lab.studies import cells as cells_module
from onebit.lab.studies import engines, evaluating
from onebit.lab.studies.cells import Cell, code_for, run_cells, source_of, stream_of
from onebit.lab.studies.conditions import ChannelSpec, study_check_points
from onebit.lab.studies.evaluating import evaluate
from onebit.lab.studies.report import study_page
from onebit.lab.studies.running import Plan, run_study
from onebit.lab.studies.spec import Data, parse, read_study, shipped
from onebit.lab.studies.store import Store

TOY = """
name = "toy"
title = "A toy"
paper = "nobody"
about = "For tests."

[channel.flips]
flip = [0.1, 0.2]

[channel.noise]
label_noise = 0.3

[data.Words]
sources = ["no_such_file", "synsep"]
rows = 150
note = "Not the real words."

[data.Digits]
sources = ["digits"]
prepare = ["unit_norm"]
rows = 200

[data.Secret]
sources = ["no_such_file"]
note = "It is secret."

[[experiment]]
name = "online"
data = ["Words", "Digits", "Secret"]
channels = ["clean", "noise"]
repeats = 2
quick = { repeats = 1, rows = 100 }

[[experiment.methods]]
name = "Ours"
learner = "Banditron"
on.Words = { gamma = 0.2 }

[[experiment.methods]]
name = "Told"
learner = "Perceptron"

[experiment.published]
Words.clean = { Ours = 50, Told = "(*)20.5" }

[[experiment]]
name = "gamma"
data = ["Words"]
repeats = 2

[[experiment.methods]]
name = "Ours"
learner = "Banditron"
settings.gamma = [0.1, 0.2, 0.4]

[[experiment.methods]]
name = "Told"
learner = "Perceptron"

[[experiment]]
name = "folds"
protocol = "folds"
data = ["Digits"]
channels = ["clean", "noise"]
repeats = 3
epochs = 2
tuned = 1

[[experiment.methods]]
name = "Ours"
learner = "Banditron"
settings.gamma = [0.05, 0.3]

[[experiment.methods]]
name = "Told"
learner = "Perceptron"

[[section]]
title = "Curves"
charts = [{ experiment = "online" }, { experiment = "gamma", x = "gamma" }]
tables = [{ experiment = "online" }]

[[section.checks]]
type = "less"
experiment = "online"
method = "Told"
than = ["Ours"]

[[section.checks]]
type = "order"
experiment = "online"

[[section.checks]]
type = "between"
experiment = "online"
method = "Told"
data = "Words"
low = 0
high = 100

[[section.checks]]
type = "slope"
experiment = "online"
method = "Told"
data = "Words"
low = -2
high = 2
begin = 10
claim = "It falls."

[[section.checks]]
type = "optimum"
experiment = "gamma"
method = "Ours"
data = "Words"
setting = "gamma"
low = 0
high = 1

[[section]]
title = "Folds"

[[section.charts]]
experiment = "folds"
y = "greedy_error"
counts = true
first_epoch = true

[[section.tables]]
experiment = "folds"
y = "test_error"
compared = ["Ours", "Told"]
pair = ["Ours", "Told"]

[[section.checks]]
type = "lowest"
experiment = "folds"
method = "Told"
among = ["Ours", "Told"]
least = 1
y = "test_error"
"""


@pytest.fixture
def toy():
    return parse(TOY.encode())


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cells")


def cells_of(plan, experiment, data, channel, method):
    for place in plan.places():
        there = (place.experiment.name, place.data, place.channel, place.method.name)
        if there == (experiment, data, channel, method):
            return plan.cells(place)
    return None


# What a file may say


def test_five_papers_are_shipped():
    papers = ["banditron-2008", "confidit-2011", "newtron-2011", "rcnbf-2021", "ucwl-2013"]
    assert shipped() == papers


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_study_can_be_planned(name, tmp_path):
    study = read_study(name)
    assert study.name == name and study.sections
    for quick in (True, False):
        plan = Plan(study, Store(tmp_path), quick)
        used = {cell.source for cell in plan.needed()[0].values()}
        assert used or not any(plan.sources.values())


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('name = "toy"', "name = 3", "name"),
        ('name = "toy"', 'nam = "toy"', "unknown field `nam`"),
        ("rows = 150", "rows = 0", "data Words: it needs sources, and rows"),
        ('prepare = ["unit_norm"]', 'prepare = ["unit"]', "data Digits: "),
        ("flip = [0.1, 0.2]", "flip = [0.1, 2]", "channel flips: rho1"),
        ('learner = "Perceptron"', 'learner = "Perceptor"', "no learner 'Perceptor'; did you"),
        ("on.Words = { gamma = 0.2 }", "on.Words = { gama = 0.2 }", "method Ours: "),
        ("on.Words = { gamma = 0.2 }", "on.Words = { gamma = 2 }", "gamma must be"),
        ("on.Words = { gamma = 0.2 }", "on.Wards = { gamma = 0.2 }", "no data in `on` 'Wards'"),
        ('channels = ["clean", "noise"]', 'channels = ["dirty"]', "no channel 'dirty'"),
        ('channels = ["clean", "noise"]', 'channels = ["flips"]', "method Told: Flip is for"),
        ('name = "gamma"\ndata = ["Words"]', 'name = "gamma"\ndata = ["Word"]', "no data 'Word'"),
        ('name = "gamma"', 'name = "online"', "experiment online: it is defined twice"),
        ("repeats = 3", "repeats = 1", "experiment folds: repeats must be between 2"),
        ("quick = { repeats = 1, rows = 100 }", "quick = { rows = -1 }", "quick rows must be"),
        ("quick = { repeats = 1, rows = 100 }", "quick = { repeats = 0 }", "quick repeats must"),
        ('name = "toy"', 'name = "../toy"', "name '../toy' cannot be that of a file"),
        ('name = "toy"', 'name = "index"', "name 'index' cannot"),
        ("[channel.flips]", "[channel.clean]", "channel clean: this name means no channel"),
        (
            "label_noise = 0.3",
            'label_noise = 0.3\nnoise_by = "others"',
            "folds support only label_noise",
        ),
        ("label_noise = 0.3", "silence = 0.3", "folds support only label_noise"),
        ('data = ["Digits"]', 'data = ["Words"]', "Words is drawn anew each time"),
        ("epochs = 2\ntuned = 1", "epochs = 2\ntuned = 2", "tuned must be 0 or 1"),
        ("epochs = 2\ntuned = 1", "epochs = 2\nalone = true", "alone is for the time"),
        ("settings.gamma = [0.05, 0.3]", "settings.gamma = []", "a grid has between 1 and"),
        (
            "settings.gamma = [0.05, 0.3]",
            "settings.seed = [1, 2]",
            "no setting 'seed' for Banditron",
        ),
        (
            '{ experiment = "online" }, {',
            '{ experiment = "online", y = "seconds" }, {',
            "known at the",
        ),
        (
            'tables = [{ experiment = "online" }]',
            'tables = [{ experiment = "online", y = "test_error" }]',
            "only folds have a test_error",
        ),
        ('x = "gamma"', 'x = "gama"', "no setting 'gama' in gamma; there are gamma"),
        ('setting = "gamma"', 'setting = "gama"', "no setting 'gama'"),
        ('y = "greedy_error"\ncounts', 'y = "updates"\ncounts', "counts is for error"),
        ("low = -2", "low = 3", "low must be below high"),
        ('than = ["Ours"]', 'than = ["Told"]', "Told cannot be compared with itself"),
        ('"(*)20.5"', '"few"', "'few' does not end in a number"),
        ('data = ["Words", "Digits", "Secret"]', 'data = ["Words", "Words"]', "none twice"),
        ("Words.clean = { Ours", "Words.clean = { Theirs", "no method 'Theirs'"),
        ("Words.clean = {", "Words.dirty = {", "no channel 'dirty'"),
        ("Words.clean = {", "Wards.clean = {", "no data 'Wards'"),
        ('charts = [{ experiment = "online"', 'charts = [{ experiment = "on"', "no experiment"),
        ('than = ["Ours"]', 'than = ["Us"]', "section 'Curves': no method 'Us'"),
        ('type = "less"', 'type = "lesser"', "lesser"),
        ('prepare = ["unit_norm"]', 'prepare = ["tfidf"]', "folds have no order"),
        ('prepare = ["unit_norm"]', 'prepare = ["nystroem:9"]', "folds have no order"),
        ('about = "For tests."', "about = For tests.", "not a TOML file"),
    ],
)
def test_what_does_not_fit_is_refused(old, new, says):
    assert old in TOY
    with pytest.raises(ValueError, match="(?s)" + says.replace("[", r"\[")):
        parse(TOY.replace(old, new).encode())


def test_the_file_in_the_documentation_is_a_study():
    text = (Path(__file__).parents[3] / "docs" / "studies.md").read_text()
    study = parse(text.split("```toml")[1].split("```")[0].encode())
    assert study.channel["some are silent"].silence == 0.7


def test_errors_of_a_file_name_it(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("name = 3")
    with pytest.raises(ValueError, match=r"mine\.toml: "):
        read_study(str(path))
    path.write_bytes(b" " * (2**20 + 1))
    with pytest.raises(ValueError, match="larger than a study"):
        read_study(str(path))
    with pytest.raises(ValueError, match="unknown study 'yours'; there are banditron-2008"):
        read_study("yours")


def test_check_points_rise_to_the_end():
    assert study_check_points(5, 5) == [5]
    assert study_check_points(1000, 300)[-1] == 1000 and 300 in study_check_points(1000, 300)
    assert study_check_points(1000, 300) == sorted(set(study_check_points(1000, 300)))


# Cells


def test_the_first_source_that_is_there_is_taken(toy):
    assert source_of(toy.data["Words"]) == ("synsep", "", True, False)
    assert source_of(toy.data["Digits"]) == ("digits", "", False, False)
    assert source_of(toy.data["Secret"]) is None


def test_a_file_of_ones_own_is_a_source(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path))
    data = Data(sources=["mine"])
    assert source_of(data) is None
    (tmp_path / "mine.svm").write_text("1 1:1\n2 2:1\n")
    first = source_of(data)
    (tmp_path / "mine.svm").write_text("1 1:1\n2 2:1\n2 3:1\n")
    assert first.name == "mine" and first.digest != source_of(data).digest


def test_a_file_of_ones_own_is_read_as_the_study_says(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path))
    rows = "".join(f"good höhe;{i % 2};{'ja' if i % 2 else 'nein'}\n" for i in range(20))
    (tmp_path / "mine.csv").write_text(f"note;zip;topic\n{rows}", encoding="latin-1")
    text = TOY.replace(
        'sources = ["digits"]\nprepare = ["unit_norm"]\nrows = 200',
        'sources = ["mine"]\nlabel = "topic"\ntext = "note"\nngrams = 2\nfeatures = 16\n'
        'categories = ["zip"]\ndelimiter = ";"\nencoding = "latin-1"',
    )
    plan = Plan(parse(text.encode()), Store(tmp_path / "cells"), quick=False)
    [(_, cells)] = cells_of(plan, "online", "Digits", "clean", "Told")
    (result,) = run_cells([cells[0]])
    assert not result.error and result.rounds[-1] == 20
    table = datasets.get("mine", **dict(cells[0].columns))
    assert table.X.shape == (20, 16) and table.labels == ["ja", "nein"]


def test_a_cell_is_the_run_of_a_learner(toy, store):
    plan = Plan(toy, store, quick=False)
    [(settings, cells)] = cells_of(plan, "online", "Words", "noise", "Ours")
    assert settings == {"gamma": 0.2} and [cell.repeat for cell in cells] == [0, 1]
    result = run_cells([cells[1]])[0]
    data = datasets.synsep(rows=150, seed=1)
    trace = ob.simulate(
        ob.Banditron(9, gamma=0.2, seed=1), data, channel=[ob.LabelNoise(0.3, by="any")],
        checkpoints=study_check_points(150, 150),
    )  # fmt: skip
    assert result.rounds == trace.rounds.tolist()
    assert result.mistakes == trace.mistakes.tolist()
    assert result.updates == trace.updates.tolist()


def test_cells_of_a_table_are_shuffled_anew(toy, store):
    plan = Plan(toy, store, quick=False)
    [(_, cells)] = cells_of(plan, "online", "Digits", "clean", "Told")
    one, two = (stream_of(cell) for cell in cells)
    assert sorted(one.order) == sorted(two.order) == list(range(200))
    assert list(one.order) != list(two.order)


# Which edits run cells again.

CODE = "\n_EDITED = 1\n"
ALL, NONE, DRAWN, TABLE, OWN = [1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    package = tmp_path_factory.mktemp("copied") / "onebit"
    ignored = shutil.ignore_patterns("__pycache__", "*.npz")
    return shutil.copytree(Path(ob.__file__).parent, package, ignore=ignored)


@pytest.fixture
def codes(copied, tmp_path, monkeypatch):
    """The digests of three cells by a copy of the package, as a process sees it that starts now."""
    (tmp_path / "mine.vw").write_text("a | x\nb | y\n")
    monkeypatch.setenv("ONEBIT_DATA", str(tmp_path))

    def digests():
        now = Sources(copied)
        now.remember_in(copied.parent / "sources.json")
        monkeypatch.setattr(cells_module, "SOURCES", now)
        cells_module._code.cache_clear()
        cells = [(ob.Banditron, "synsep"), (ob.UCWL, "digits"), (ob.Banditron, "mine")]
        return [code_for(*cell) for cell in cells]

    yield digests
    cells_module._code.cache_clear()


@pytest.mark.parametrize(
    ("file", "edit", "again"),
    [
        ("pages/rendering.py", CODE, NONE),
        ("lab/studies/report.py", CODE, NONE),
        ("lab/studies/spec.py", CODE, NONE),
        ("lab/studies/running.py", CODE, NONE),
        ("lab/race.py", CODE, NONE),
        ("cli/study.py", CODE, NONE),
        ("datasets/catalogue.py", CODE, NONE),
        ("datasets/svmlight.py", CODE, NONE),
        ("algorithms/soba.py", CODE, NONE),
        ("lab/simulation.py", ('"""The result of a run', '"""Results of runs'), NONE),
        ("datasets/synthetic.py", CODE, DRAWN),
        ("algorithms/ucwl.py", CODE, TABLE),
        ("datasets/vowpal.py", CODE, OWN),
        ("datasets/readers.py", CODE, OWN),
        ("lab/studies/conditions.py", ("range(8, 80)", "range(8, 81)"), ALL),
        ("lab/studies/conditions.py", ("Flip(*self.flip)", "Flip(*self.flip[::-1])"), ALL),
        ("lab/studies/cells.py", CODE, ALL),
        ("lab/simulation.py", CODE, ALL),
        ("lab/sweeping.py", CODE, ALL),
        ("core/choosing.py", ("TIE = 1e-9", "TIE = 1e-8"), ALL),
        ("feedback/channels.py", CODE, ALL),
        ("datasets/steps.py", CODE, ALL),
        ("datasets/catalogue_entry.py", CODE, ALL),
        ("learner/learner.py", CODE, ALL),
    ],
)
def test_an_edit_runs_the_cells_again_that_depend_on_it_and_no_others(
    codes, copied, file, edit, again
):
    before, text = codes(), (copied / file).read_text()
    after = text.replace(*edit, 1) if isinstance(edit, tuple) else text + edit
    assert after != text
    (copied / file).write_text(after)
    try:
        assert [int(a != b) for a, b in zip(codes(), before, strict=True)] == again
    finally:
        (copied / file).write_text(text)


def test_cells_depend_on_which_functions_make_the_rows(codes, monkeypatch):
    before = codes()
    known = {entry.name: entry for entry in catalogue.KNOWN}
    changed = known["synsep"]._replace(make=known["synnonsep"].make)
    monkeypatch.setattr(catalogue, "KNOWN", (changed, known["digits"]._replace(contents="images")))
    assert [int(a != b) for a, b in zip(codes(), before, strict=True)] == DRAWN


def test_the_code_that_a_cell_depends_on_is_in_its_name(toy, store, monkeypatch):
    plan = Plan(toy, store, quick=False)
    before = set(plan.needed()[0])
    monkeypatch.setattr("onebit.lab.studies.running.code_for", lambda *cell: "other")
    assert not before & set(Plan(toy, store, quick=False).needed()[0])


def test_cells_of_a_learner_without_a_source_are_kept_for_this_process_alone():
    kind = type("Noted", (ob.Banditron,), {"__module__": "of_a_notebook"})
    assert code_for(kind, "iris") == code_for(kind, "iris") != code_for(ob.Banditron, "iris")


def test_steps_that_look_back_follow_the_rounds():
    cell = Cell(
        source="digits", digest="", columns=(), rows=50, prepare=("tfidf",), channel=ChannelSpec(),
        folds=0, tuning=False, repeat=1, epochs=2, alone=False,
        learner="Perceptron", settings=(),
    )  # fmt: skip
    stream = stream_of(cell)
    assert len(stream.y) == 100 and 50 in stream.check_points and not len(stream.order)
    assert run_cells([cell])[0].rounds[-1] == 100


def test_feature_maps_are_steps_of_a_study():
    mapped = parse(TOY.replace('"unit_norm"', '"unit_norm", "fourier:9:gamma=2"').encode())
    assert mapped.data["Digits"].prepare == ["unit_norm", "fourier:9:gamma=2"]
    for prepare in ("fourier:9:gamma=2", "nystroem:9"):
        cell = Cell(
            source="digits", digest="", columns=(), rows=50, prepare=(prepare,),
            channel=ChannelSpec(), folds=0, tuning=False, repeat=1, epochs=1, alone=False,
            learner="Perceptron", settings=(),
        )  # fmt: skip
        assert run_cells([cell])[0].rounds[-1] == 50


def test_folds_are_disjoint_and_judged_by_clean_labels(toy, store):
    plan = Plan(toy, store, quick=False)
    truth = datasets.get("digits")
    some = np.random.default_rng(0).permutation(len(truth.y))[:200]
    place = next(p for p in plan.places() if p.experiment.name == "folds" and p.channel == "noise")
    streams = [stream_of(plan._cell(place, {}, fold)) for fold in range(3)]
    judged = [stream.test[0].shape[0] for stream in streams]
    assert sum(judged) == 200
    for stream, size in zip(streams, judged, strict=True):
        learned = set(stream.order.tolist())
        assert len(learned) == 200 - size and len(stream.order) == 2 * len(learned)
        left = sorted(set(range(200)) - learned)
        assert sorted(stream.test[1]) == sorted(truth.y[some][left])
        changed = np.mean(stream.y[sorted(learned)] != truth.y[some][sorted(learned)])
        assert 0.1 < changed < 0.5


def test_tuning_sees_nothing_of_the_first_fold(toy, store):
    plan = Plan(toy, store, quick=False)
    place = next(p for p in plan.places() if p.experiment.name == "folds" and p.channel == "noise")
    final = stream_of(plan._cell(place, {}, 0))
    tuned = stream_of(plan._cell(place, {}, 0, tuning=True))
    kept = set(final.order.tolist())
    assert set(tuned.order.tolist()) < kept
    assert len(set(tuned.order.tolist())) + len(tuned.test[1]) == len(kept)
    held_out = sorted(kept - set(tuned.order.tolist()))
    assert sorted(tuned.test[1]) == sorted(final.y[held_out])  # noisy, as training labels are


# Running


def test_a_study_runs_once_and_then_not_again(toy, tmp_path, monkeypatch):
    ran = []

    def counted(cells, progress=None):
        ran.extend(cells)
        return run_cells(cells, progress)

    monkeypatch.setattr(engines, "run_cells", counted)
    steps = []
    plan = run_study(toy, Store(tmp_path), quick=False, workers=2, progress=steps.append)
    cells, later = plan.needed()
    assert later == 0 and {cell.name for cell in ran} == set(cells) and len(ran) == len(cells)
    assert steps[-1].done == steps[-1].cells == len(cells)
    shared = cells_of(plan, "gamma", "Words", "clean", "Ours")[1]
    assert shared[0] == {"gamma": 0.2}  # is that of the other experiment, and ran once

    ran.clear()
    again = run_study(toy, Store(tmp_path), quick=False)
    assert not ran
    lost = sorted(tmp_path.iterdir())[:3]
    before = [again.store.get(cell) for cell in cells.values()]
    lost[0].unlink()
    lost[1].write_bytes(b"PAR1 cut short")
    lost[2].write_bytes(lost[2].read_bytes()[:100])
    repaired = run_study(toy, Store(tmp_path), quick=False)
    assert len(ran) == 3
    after = [repaired.store.get(cell) for cell in cells.values()]
    assert [_counts(result) for result in before] == [_counts(result) for result in after]


def _counts(result):
    return result.rounds, result.mistakes, result.updates, result.test_error, result.error


def test_a_failed_cell_is_kept_and_alone(toy, tmp_path, monkeypatch):
    true_sweep = cells_module.sweep

    def failing(learners, *rest, **options):
        if any(one.settings.get("gamma") == 0.4 for one in learners):
            raise MemoryError("12 GiB for weights")
        return true_sweep(learners, *rest, **options)

    monkeypatch.setattr(cells_module, "sweep", failing)
    plan = run_study(toy, Store(tmp_path), quick=False)
    findings = evaluate(plan, "onebit study toy.toml")
    assert [failure.error for failure in findings.failures] == [
        "MemoryError: 12 GiB for weights"
    ] * 2
    assert "gamma=0.4" in findings.failures[0].cell
    optimum = findings.sections[0].checks[-1]
    assert optimum.holds is None and optimum.evidence == "failed"

    monkeypatch.setattr(cells_module, "sweep", true_sweep)
    still = run_study(toy, Store(tmp_path), quick=False)
    assert len(evaluate(still, "").failures) == 2
    mended = run_study(toy, Store(tmp_path), quick=False, retry=True)
    assert not evaluate(mended, "").failures


@pytest.mark.parametrize("alone", [False, True])
def test_alone_or_together_gives_the_same_counts(toy, store, alone):
    text = TOY.replace('name = "gamma"\n', f'name = "gamma"\nalone = {str(alone).lower()}\n')
    plan = run_study(parse(text.encode()), store, quick=False)
    groups = cells_of(plan, "gamma", "Words", "clean", "Ours")
    results = [store.get(cell) for _, cells in groups for cell in cells]
    single = ob.simulate(ob.Banditron(9, gamma=0.1, seed=0), datasets.synsep(rows=150, seed=0))
    assert results[0].mistakes[-1] == single.mistakes[-1]
    assert all(result.seconds > 0 for result in results)


def test_ctrl_c_stops_the_threads_and_keeps_what_is_done(toy, tmp_path):
    def stop(step):
        if step.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(toy, Store(tmp_path), quick=False, workers=1, progress=stop)
    assert 0 < len(list(tmp_path.iterdir())) < len(Plan(toy, Store(tmp_path), False).needed()[0])


def test_engines_that_are_not_installed_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[cluster\]'"):
        list(engines.run_on("ray", [], 1))


def test_without_polars_the_remedy_is_said(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ValueError, match=r"pip install '\.\[lab\]'"):
        Store(tmp_path)


def command(*words, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "onebit.cli", "study", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def toy_file(tmp_path):
    path = tmp_path / "toy.toml"
    path.write_text(TOY)
    return path


def all_counts(folder):
    import polars

    table = polars.read_parquet(folder / "*.parquet").sort("cell")
    return table.select("cell", "rounds", "mistakes", "updates", "test_error", "error").rows()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["loky", "dask", "ray"], indirect=True)
def test_every_engine_gives_the_same_cells(engine, toy, toy_file, tmp_path):
    run_study(toy, Store(tmp_path / "here"), quick=False)
    process = command(
        str(toy_file), "--engine", engine, "--workers", "2", "--out", str(tmp_path / "out")
    )
    out, err = process.communicate(timeout=LONG)
    assert process.returncode == 0, err
    assert "toy: " in out
    assert all_counts(tmp_path / "here") == all_counts(tmp_path / "out" / "toy" / "cells")


@pytest.mark.slow
def test_killed_it_goes_on_where_it_stopped(toy, tmp_path):
    many = TOY.replace("repeats = 2", "repeats = 40").replace("rows = 150", "rows = 1500")
    (tmp_path / "toy.toml").write_text(many)
    folder = tmp_path / "out" / "toy" / "cells"
    words = (str(tmp_path / "toy.toml"), "--workers", "1", "--out", str(tmp_path / "out"))
    process = command(*words)
    wait_for(lambda: len(list(folder.glob("*.parquet"))) > 3 or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    again = command(*words)
    _, err = again.communicate(timeout=LONG)
    assert again.returncode == 0, err
    after = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert len(after) > len(done)
    assert all(after[name] == when for name, when in done.items())
    run_study(parse(many.encode()), Store(tmp_path / "whole"), quick=False)
    assert all_counts(folder) == all_counts(tmp_path / "whole")


# What is found


def test_what_a_study_finds(toy, store):
    plan = run_study(toy, store, quick=False)
    findings = evaluate(plan, "onebit study toy.toml")
    curves, folds = findings.sections
    assert findings.missing == 0 and not findings.failures and not findings.quick
    assert [chart.title for chart in curves.charts] == [
        "Words", "Words, noise", "Digits", "Digits, noise", "Words",
    ]  # fmt: skip
    chart = curves.charts[0]
    assert [curve.method for curve in chart.curves] == ["Ours", "Told"]
    assert [curve.published for curve in chart.curves] == [0.5, 0.205]
    place = cells_of(plan, "online", "Words", "clean", "Ours")[0][1]
    ends = [store.get(cell).mistakes[-1] / 150 for cell in place]
    assert chart.curves[0].mean[-1] == pytest.approx(np.mean(ends))
    assert chart.curves[0].low[-1] == min(ends) and chart.curves[0].high[-1] == max(ends)
    swept = curves.charts[-1].curves
    assert swept[0].x == [0.1, 0.2, 0.4] and swept[1].x == [0.1, 0.4]
    table = curves.tables[0]
    assert table.rows == ["Words", "Digits", "Secret"]
    assert table.values[0][0].ours == pytest.approx(np.mean(ends))
    assert table.values[0][1].published == 0.205 and table.values[0][1].published_marks == "(*)"
    assert {value.absent for value in table.values[2]} == {"no data"}
    assert [check.holds for check in curves.checks[:4]] == [
        store_mean(plan, data, channel, "Told") < store_mean(plan, data, channel, "Ours")
        for data in ("Words", "Digits")
        for channel in ("clean", "noise")
    ]
    assert [check.holds for check in curves.checks[4:6]] == [None, None]  # no data
    assert all(check.holds for check in curves.checks[6:])
    assert any("Secret was not there" in note and "ONEBIT_DATA" in note for note in curves.notes)
    assert any("Not the real words." in note for note in curves.notes)
    first = folds.charts[0].curves[0]
    assert first.x[-1] == 133  # of 133 or 134
    assert [table.title for table in folds.tables] == [
        "wrong on test rows", "wrong on test rows, noise",
    ]  # fmt: skip
    assert "drawn" in findings.facts["Words"] and findings.facts["Secret"].startswith("not")
    assert "Not the real words." in study_page(findings, "1")


def test_a_page_names_its_commit_and_date(toy, store, monkeypatch):
    plan = Plan(toy, store, quick=True)
    facts = evaluate(plan, "").facts
    root = Path(__file__).parents[3]
    head = subprocess.run(
        ["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    assert head.startswith(facts.get("commit", "").removesuffix("-dirty"))
    assert ("commit" in facts) == bool(head)
    assert datetime.date.fromisoformat(facts["date"]) <= datetime.date.today()
    monkeypatch.setenv("PATH", "")  # no git
    assert "commit" not in evaluate(plan, "").facts


def store_mean(plan, data, channel, method):
    [(_, cells)] = cells_of(plan, "online", data, channel, method)
    return np.mean([plan.store.get(cell).mistakes[-1] for cell in cells])


def test_before_anything_has_run_nothing_is_claimed(toy, store):
    plan = Plan(toy, store, quick=False)
    findings = evaluate(plan, "onebit study toy.toml")
    checks = [check for section in findings.sections for check in section.checks]
    assert {check.holds for check in checks} == {None}
    assert findings.missing == findings.cells > 0 and findings.seconds == 0
    values = [v for s in findings.sections for t in s.tables for row in t.values for v in row]
    assert {value.absent for value in values} == {"no data", "not run yet"}
    study_page(findings, "1")


def test_a_quick_run_says_so_and_tells_no_band(toy, store):
    plan = run_study(toy, store, quick=True)
    findings = evaluate(plan, "onebit study toy.toml --quick")
    assert findings.quick and "A quick run at reduced size" in study_page(findings, "1")
    assert findings.sections[0].charts[0].caption == "100 rounds, 1 repeat"
    told = {check.claim.split(" on ")[0]: check.holds for check in findings.sections[0].checks}
    assert told["Told comes near the published error"] is None and told["It falls."] is None
    assert findings.sections[0].charts[0].curves[0].x[-1] == 100


def test_more_repeats_keep_the_finished_cells(toy, tmp_path, monkeypatch):
    one = run_study(toy, Store(tmp_path), quick=False, repeats=1)
    assert {e.name: e.repeats for e in one.experiments} == {"online": 1, "gamma": 1, "folds": 3}
    cells = one.needed()[0]
    findings = evaluate(one, "onebit study toy.toml --repeats 1")
    assert findings.most_repeats == 1 and not findings.missing and not findings.quick
    assert findings.facts["size"] == "full, with at most 1 repeat"
    assert findings.sections[0].charts[0].caption == "150 rounds, 1 repeat"
    page = study_page(findings, "1")
    assert "each experiment ran with at most 1." in page and "--repeats 1</code>" in page

    ran = []
    monkeypatch.setattr(engines, "run_cells", lambda c, p=None: ran.extend(c) or run_cells(c, p))
    all_repeats = run_study(toy, Store(tmp_path), quick=False, repeats=7)
    assert set(cells) <= set(all_repeats.needed()[0])
    assert {cell.name for cell in ran} == set(all_repeats.needed()[0]) - set(cells)
    assert {cell.repeat for cell in ran} == {1}
    whole = evaluate(all_repeats, "onebit study toy.toml")
    assert whole.most_repeats is None and whole.facts["size"] == "full"
    assert "Fewer repeats" not in study_page(whole, "1")


def test_a_quick_run_has_at_most_the_repeats_asked_for(toy, store):
    assert [e.repeats for e in Plan(toy, store, True, repeats=9).experiments] == [1, 2, 3]
    assert [e.repeats for e in Plan(toy, store, True, repeats=1).experiments] == [1, 1, 3]


def test_the_chosen_setting_has_the_least_error_where_it_was_tuned(toy, store):
    plan = run_study(toy, store, quick=False)
    for place in plan.places():
        if place.experiment.name == "folds" and place.method.name == "Ours":
            errors = [store.get(cells[0]).test_error for cells in plan.tuning_cells(place)]
            assert plan.chosen(place) == {"gamma": [0.05, 0.3][int(np.argmin(errors))]}
            assert all(cell.tuning for cells in plan.tuning_cells(place) for cell in cells)


@pytest.mark.parametrize(
    ("one", "two", "mark"),
    [
        ([0.10, 0.11, 0.12, 0.10, 0.11], [0.20, 0.21, 0.23, 0.20, 0.22], "*"),
        ([0.10, 0.14, 0.12, 0.10, 0.11], [0.12, 0.15, 0.14, 0.13, 0.125], "†"),
        ([0.10, 0.14, 0.12, 0.10, 0.11], [0.12, 0.12, 0.14, 0.13, 0.10], ""),
        ([0.1, 0.2], [0.2, 0.3], "*"),  # by the same everywhere
        ([0.1, 0.2], [0.1, 0.2], ""),
        ([0.1], [0.2], ""),
    ],
)
def test_marks_are_those_of_a_paired_test(one, two, mark):
    ends = {"a": np.array(one), "b": np.array(two)}
    assert evaluating._mark(ends, "a", ["a", "b"]) == mark
    ends["c"] = ends["a"] + 1  # the nearest rival decides, wherever it stands
    assert evaluating._mark(ends, "a", ["a", "b", "c"]) == mark
    assert evaluating._mark(ends, "a", ["c", "a", "b"]) == mark


# The command


def run_command(*words):
    process = command(*words)
    out, err = process.communicate(timeout=LONG)
    return process.returncode, out, err


@pytest.mark.thorough
def test_the_command_lists_runs_and_reports(toy_file, tmp_path):
    code, out, _ = run_command()
    assert code == 0 and "banditron-2008" in out and "rcnbf-2021" in out
    out_folder = tmp_path / "out"
    code, out, err = run_command(str(toy_file), "--quick", "--out", str(out_folder))
    assert code == 0, err
    assert "a quick run at reduced size, not comparable with the published numbers" in out
    assert "claims" not in out and "within" not in out
    page = (out_folder / "toy.html").read_text()
    (out_folder / "toy.html").unlink()
    code, _, _ = run_command(str(toy_file), "--quick", "--report", "--out", str(out_folder))
    assert code == 0 and (out_folder / "toy.html").read_text() == page
    code, out, _ = run_command(str(toy_file), "--report", "--out", str(out_folder))
    assert code == 0 and "claims hold, " in out and "cannot be decided" in out


def test_the_command_runs_fewer_repeats(toy_file, tmp_path):
    sizes = ("--repeats", "1", "--quick")
    code, out, err = run_command(str(toy_file), *sizes, "--out", str(tmp_path))
    assert code == 0 and "with at most 1 of the repeats" in out, err
    page = (tmp_path / "toy.html").read_text()
    assert f"<code>onebit study {toy_file} --repeats 1 --quick</code>" in page  # the footer
    assert f"The full run: <code>onebit study {toy_file}</code>" in page


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nothing",), "unknown study 'nothing'; there are banditron-2008"),
        (("banditron-2008", "--workers", "0"), "workers must be between 1"),
        (("banditron-2008", "--repeats", "0"), "repeats must be between 1 and 10000"),
        (("banditron-2008", "--out", __file__), "is a file"),
    ],
)
def test_mistakes_in_the_command_are_one_line(words, says):
    code, _, err = run_command(*words)
    assert code == 2 and says in err and "Traceback" not in err


def test_the_folder_of_papers_holds_studies_only():
    folder = Path(cells_module.__file__).parent / "papers"
    assert {path.suffix for path in folder.iterdir()} == {".toml"}


REGRET = """
name = "regret"
title = "Regret"
paper = "nobody"
about = "For tests."
data.Model = { sources = ["linear_noise"], rows = 1000 }
data.Words = { sources = ["synsep"], rows = 100 }

[[experiment]]
name = "model"
data = ["Model"]
repeats = 2
methods = [
    { name = "Full", learner = "Confidit", settings = { form = "full" } },
    { name = "Banditron", learner = "Banditron", settings = { gamma = 0.2 } },
]

[[experiment]]
name = "words"
data = ["Words"]
methods = [{ name = "Banditron", learner = "Banditron" }]

[[section]]
title = "Regret"
charts = [{ experiment = "model", y = "regret", counts = true }]

[[section.checks]]
type = "slope"
experiment = "model"
method = "Banditron"
data = "Model"
y = "regret"
counts = true
begin = 100
low = 0.3
high = 1.2
claim = "It grows"
"""


def test_regret_is_what_is_wrong_beyond_the_best_rule(store):
    study = parse(REGRET.encode())
    plan = run_study(study, store, quick=False, workers=1)
    for repeat, cell in enumerate(cells_of(plan, "model", "Model", "clean", "Banditron")[0][1]):
        data = datasets.linear_noise(1000, seed=repeat)
        result = plan.store.get(cell)
        assert result is not None
        best = np.cumsum(data.y != data.bayes)[np.array(result.rounds) - 1]
        assert result.regret == (np.array(result.mistakes) - best).tolist()
        learner = ob.Banditron(5, gamma=0.2, seed=repeat)
        trace = ob.simulate(learner, data.X, data.y, checkpoints=result.rounds)
        assert result.mistakes == trace.mistakes.tolist()
    section = evaluate(plan, "").sections[0]
    assert section.checks[0].holds and "slope 0." in section.checks[0].evidence
    ends = {curve.method: curve.mean[-1] for curve in section.charts[0].curves}
    assert 0 < ends["Full"] < ends["Banditron"] / 2


def test_regret_is_refused_where_the_best_rule_is_not_known():
    wrong = REGRET.replace('"model", y = "regret"', '"words", y = "regret"')
    with pytest.raises(ValueError, match="the best rule for Words is not known"):
        parse(wrong.encode())


# Rates of flips.

FLIPS = """
name = "flips"
title = "Rates"
paper = "nobody"
about = "For tests."

[channel.flips]
flip = [0.1, 0.2]

[data.Digits]
sources = ["digits"]
prepare = ["unit_norm"]

[[experiment]]
name = "told"
data = ["Digits"]
channels = ["clean", "flips"]
rounds = 300

[[experiment.methods]]
name = "told"
learner = "RCNBF"
settings.gamma = 0.3
knows_flips = true

[[experiment]]
name = "rates"
data = ["Digits"]
channels = ["clean", "flips"]
repeats = 2
rounds = 2500

[[experiment.methods]]
name = "ours"
learner = "RCINE"
settings = { gamma = 0.5, N_s = 2000 }

[[experiment.methods]]
name = "never"
learner = "RCINE"
settings = { gamma = 0.5, N_s = 5000 }
slow = true

[experiment.published_rates]
Digits = { clean = [0.1, 0.1], flips = [0.3, 0.4] }

[[section]]
title = "All"
rates = [{ experiment = "rates", title = "Found" }]
checks = [
    { type = "nearer", experiment = "rates", method = "ours" },
    { type = "nearer", experiment = "rates", method = "never", than = "ours" },
]
"""


def test_rates_of_flips_are_told_estimated_and_judged(tmp_path):
    plan = Plan(parse(FLIPS.encode()), Store(tmp_path), quick=False)
    told = [cell for cell in plan.needed()[0].values() if cell.learner == "RCNBF"]
    settings = {tuple(sorted(dict(cell.settings).items())) for cell in told}
    assert settings == {
        (("gamma", 0.3), ("rho0", 0.0), ("rho1", 0.0)),
        (("gamma", 0.3), ("rho0", 0.1), ("rho1", 0.2)),
    }
    for cell in plan.needed()[0].values():
        if cell.learner == "RCNBF":
            (result,) = run_cells([cell])
            assert result.rounds[-1] == 300 and result.rates == []
        else:  # as if it had run: what is found by it is a matter of other tests
            found = {0.0: [0.02, 0.0], 0.1: [0.12, 0.2]}[cell.channel.flip[0]]
            good = dict(cell.settings)["N_s"] == 2000
            result = cells_module.Result(rounds=[2500], mistakes=[9], rates=found if good else [])
        plan.store.put(cell, result)
    assert all(Store(tmp_path).get(cell) for cell in plan.needed()[0].values())
    findings = evaluate(plan, "onebit study flips.toml")
    (table,) = findings.sections[0].rates
    assert table.truth == [(0.0, 0.0), (0.1, 0.2)] and table.sources == ["paper", "ours", "never"]
    assert table.values[1][0] == [(0.3, 0.4), (0.12, 0.2), None]
    assert table.away[0] == [pytest.approx(0.15), pytest.approx(0.01), None]
    first, second = findings.sections[0].checks
    assert first.holds is True and first.evidence == "0.010 away on average, against 0.150"
    assert second.holds is None and "refused" in second.evidence
    page = study_page(findings, "1.0")
    assert "0.120, 0.200" in page and 'class="rates"' in page and "ours" in page


def test_an_estimate_of_a_learner_is_kept_with_its_cell():
    plan_cell = Cell(
        source="digits", digest="", columns=(), rows=None, prepare=("unit_norm",),
        channel=ChannelSpec(flip=(0.1, 0.2)), folds=0, tuning=False, repeat=0, epochs=1,
        rounds=4500, alone=False, learner="RCINE", settings=(("N_s", 4000), ("gamma", 0.5)),
    )  # fmt: skip
    (result,) = run_cells([plan_cell])
    assert not result.error and result.rounds[-1] == 4500
    assert np.allclose(result.rates, (0.1, 0.2), atol=0.05)


def test_slow_methods_are_left_out_of_quick_runs(tmp_path):
    plan = Plan(parse(FLIPS.encode()), Store(tmp_path), quick=True)
    assert {place.method.name for place in plan.places()} == {"told", "ours"}
    assert "not in a quick run" in str(evaluate(plan, "onebit study").sections[0].checks)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('learner = "RCNBF"', 'learner = "BPA"', "BPA has no settings rho0 and rho1"),
        ('learner = "RCINE"', 'learner = "Banditron"', "no setting 'N_s'|estimates no rates"),
        (
            "rounds = 300",
            "rounds = 300\nepochs = 2",
            "rounds set the length of an online experiment",
        ),
        (
            "rounds = 300",
            "quick = { rounds = 3 }",
            "quick rounds are for an experiment with rounds",
        ),
        ("rounds = 300", "rounds = 0", "rounds must be between"),
        ("Digits = { clean", "Letters = { clean", "no data 'Letters'"),
        ("flips = [0.3", "silence = [0.3", "no channel 'silence'"),
        ('than = "ours"', 'than = "yours"', "no method 'yours'"),
        ('sources = ["digits"]', 'sources = ["synsep"]\nrows = 100', "drawn rows are not repeated"),
    ],
)
def test_rates_and_rounds_that_do_not_fit_are_refused(old, new, says):
    with pytest.raises(ValueError, match=says):
        parse(FLIPS.replace(old, new, 1).encode())
