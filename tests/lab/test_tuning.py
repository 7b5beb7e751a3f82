"""tune: the best of what was tried on the first rows, and nothing peeked from the others."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.waiting import BEGINS, PATIENCE
from scipy import sparse

import onebit as ob
from onebit import cli
from onebit.core.jit import COMPILED
from onebit.core.settings import Range
from onebit.lab import streams, tuning
from onebit.lab.tuning import Preparation, candidates_of, default_rounds, learners_to_tune
from onebit.learner.learner import Learner
from onebit.reading.contexts import encode_rows
from onebit.registry import recipes

ROWS = 400 if COMPILED else 60
SMALL = ob.datasets.synsep(ROWS, seed=3)
ONE_BIT = learners_to_tune()


def settings_tried(*args):
    return [candidate.recipe.settings for candidate in candidates_of(*args)]


def quick(learner=ob.Banditron, data=SMALL, **more):
    return ob.tune(learner, data, **{"trials": 5, "repeats": 2, "rounds": ROWS // 2, **more})


# Where settings are looked for.


@pytest.mark.parametrize("learner", [one for one in Learner.registry.values() if one.ranges])
def test_all_that_is_searched_is_allowed_and_lies_about_the_default(learner):
    default = learner(2).settings
    for name, tried in learner.ranges.items():
        values = tried
        if isinstance(tried, Range):
            values = [tried.at(share) for share in np.linspace(0, 1, 50)]
            assert min(values) == (0 if tried.or_zero else tried.low) and values[-1] == tried.high
            assert tried.low <= default[name] <= tried.high
            assert tried.share(tried.low) == 0 and tried.share(tried.high) == pytest.approx(1)
        else:
            assert default[name] in tried
        for value in values:
            assert learner(2, **{name: value}).settings[name] == value


def test_values_drawn_are_short_and_cover_the_range():
    drawn = [settings["gamma"] for settings in settings_tried(ob.Banditron, None, 65, "", 1)][1:]
    assert all(len(f"{gamma:g}") <= 8 and float(f"{gamma:.3g}") == gamma for gamma in drawn)
    shares = np.array([ob.Banditron.ranges["gamma"].share(gamma) for gamma in drawn])
    assert np.histogram(shares, bins=8, range=(0, 1))[0].tolist() == [8] * 8
    assert ob.Banditron.ranges["gamma"].at(0.5) == 0.0224
    assert Range(0, 1, even=True).at(0.25) == 0.25 and Range(1, 4, even=True).share(2.5) == 0.5


def test_the_defaults_come_first_then_what_suits_the_data_and_nothing_twice():
    some = candidates_of([ob.Banditron, "PNewtron:gamma=0.3"], None, 4, "Digits", 0)
    assert [one.recipe.learner for one in some] == [ob.Banditron] * 4 + [ob.PNewtron] * 4
    assert [one.is_default for one in some] == [True, False, False, False] * 2
    assert some[0].recipe.settings == {"gamma": 0.05}
    assert some[1].recipe.settings == {"gamma": 0.1}
    assert some[5].recipe.settings["D"] == 10
    assert {one.recipe.settings["gamma"] for one in some[4:]} == {0.3}
    assert len(candidates_of(ob.BanditPerceptron, None, 64, "", 0)) == 2
    assert len(candidates_of(ob.UniformRandom, None, 64, "", 0)) == 1
    assert len(candidates_of([ob.UCWL, ob.UCWL], None, 3, "", 0)) == 3
    assert len(candidates_of(ob.Banditron, None, 1, "", 0)) == 1


def test_a_grid_runs_all_combinations_and_other_settings_stay():
    grid = {"eta": [0.6, 0.9], "C": [1, 0.1]}
    some = settings_tried([ob.UCWL, ob.Banditron], grid, 9, "", 0)
    assert some[0] == {"eta": 0.75, "C": 1.0, "k": 1.0} and len(some) == 6
    assert [(one["eta"], one["C"]) for one in some[1:5]] == [
        (0.6, 1.0), (0.6, 0.1), (0.9, 1.0), (0.9, 0.1),
    ]  # fmt: skip
    assert some[5] == {"gamma": 0.05}  # has none of them
    words = settings_tried("BPA:gamma=0", {"variant": ["PA", "PA-I"]}, 9, "", 0)
    assert [settings["variant"] for settings in words] == ["PA", "PA-I"]
    fixed = settings_tried("UCWL:k=0.5", grid, 9, "", 0)
    assert {settings["k"] for settings in fixed} == {0.5}


def test_half_of_what_is_drawn_scales_rows_to_length_1():
    ways = [Preparation(), Preparation((), "unit")]
    raw = settings_tried(ob.UCWL, None, 21, "", 0)
    drawn = settings_tried(ob.UCWL, None, 21, "", 0, ways)
    assert [settings.pop("inputs", "raw") for settings in drawn].count("unit") == 10
    assert drawn == raw  # the draws of the settings before it stay as they are
    fixed = settings_tried("UCWL:inputs=unit", None, 4, "", 0, ways)
    assert {settings["inputs"] for settings in fixed} == {"unit"}
    assert len(settings_tried(ob.OneBit, None, 4, "", 0, ways)) == 1


def test_steps_are_tried_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 3)) * [1, 0.01, 100] + [0, 0, 300]
    y = (X[:, 1] > 0) + 2 * (X[:, 2] > 300)
    data = ob.datasets.Dataset("", "", sparse.csr_matrix(X), y, [0, 1, 2, 3])
    tuned = quick(ob.UCWL, data, trials=13, prepare="auto")
    tried = [trial.prepare for trial in tuned.table]
    assert tried.count(tuning.DENSE[0]) == 4 and set(tried) == {(), *tuning.DENSE}
    assert tuned.prepare == tuned.table[0].prepare == tuning.DENSE[0]
    assert [trial.prepare for trial in tuned.table if trial.is_default] == [()]
    same = {key: [value] for key, value in tuned.settings.items()}
    again = quick(ob.UCWL, data, grid=same, prepare=tuned.prepare)
    assert tuned.error in [trial.error for trial in again.table]
    both = quick(ob.UCWL, data, grid={"eta": [0.6, 0.9]}, prepare="auto")
    assert len(both.table) == 5  # the defaults, and both values with and without steps
    array = quick(ob.UCWL, data._replace(X=X), trials=13)  # the learner standardises it
    inputs = [trial.settings.get("inputs", "raw") for trial in array.table]
    assert {name: inputs.count(name) for name in inputs} == {"raw": 5, "unit": 4, "auto": 4}
    assert array.settings["inputs"] == "auto" and array.prepare == ()
    dicts = [{"a": a, "b": b, "c": "red"} for a, b, _ in X.tolist()]
    mixed = ob.tune(ob.UCWL, dicts, y, trials=13, repeats=1)
    assert "auto" in [trial.settings.get("inputs") for trial in mixed.table]
    words = quick(ob.UCWL, trials=9, prepare="auto")
    assert {trial.prepare for trial in words.table} == {(), *tuning.SPARSE}


def test_lengths_are_tried_only_where_rows_differ_in_length():
    tuned = quick(ob.UCWL, seed=2)
    assert any(trial.settings.get("inputs") == "unit" for trial in tuned.table)
    unit = quick(ob.UCWL, seed=2, prepare=["unit_norm"])
    assert all("inputs" not in trial.settings for trial in unit.table)
    rows = encode_rows(np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 5.0]]) / 5, np.dtype("f4"), None)
    assert streams.have_length_1(rows)
    assert not streams.have_length_1(rows._replace(values=rows.values * np.float32(1.01)))


def test_the_learners_to_tune_hear_one_bit():
    names = {one.__name__ for one in ONE_BIT}
    assert {"OneBit", "Banditron", "UCWL", "Confidit"} < names and len(names) == 14
    assert not names & {"Perceptron", "AROW", "UniformRandom"}


def test_a_fifth_of_the_rows_is_for_tuning():
    assert [default_rounds(n) for n in (1, 2, 150, 1797, 3000, 18_828, 10**6)] == [
        1, 1, 75, 898, 1000, 3765, 20_000,
    ]  # fmt: skip


# What is chosen.


def test_errors_are_those_of_simulate_on_the_first_rows_of_the_shuffle():
    tuned = quick(seed=4)
    order = np.random.default_rng(4).permutation(ROWS)[: ROWS // 2]
    again = np.random.default_rng([4, 1]).permutation(order)
    for trial in tuned.table:
        errors = [
            ob.simulate(
                ob.Banditron(9, **trial.settings, seed=4 + repeat), SMALL.X[rows], SMALL.y[rows]
            ).error[-1]
            for repeat, rows in enumerate((order, again))
        ]
        assert trial.error == pytest.approx(np.mean(errors))
        assert trial.spread == pytest.approx(np.std(errors, ddof=1))
    assert [t.error for t in tuned.table] == sorted(t.error for t in tuned.table)
    best = tuned.table[0]
    assert (tuned.learner, tuned.settings, tuned.error) == (best.learner, best.settings, best.error)
    assert tuned.found.error == tuned.error and tuned.found.trials == len(tuned.table)


def test_what_it_is_worth_on_the_rest_is_learned_from_the_start():
    tuned = quick(order="given", repeats=1, grid={"gamma": [0.3]})
    rest = slice(ROWS // 2, ROWS)
    for gamma, error in ((tuned.settings["gamma"], tuned.rest.tuned), (0.05, tuned.rest.default)):
        one = ob.Banditron(9, gamma=gamma)
        assert ob.simulate(one, SMALL.X[rest], SMALL.y[rest]).error[-1] == pytest.approx(error)
    assert tuned.rest.rows == ROWS - ROWS // 2
    assert tuned.rest.tuned_spread is tuned.rest.default_spread is None  # of one repeat
    assert quick(rounds=ROWS).rest is None


@pytest.mark.parametrize(
    ("order", "prepare"),
    [
        ("shuffled", ["tfidf", "unit_norm"]),
        pytest.param("given", ["tfidf", "unit_norm"], marks=pytest.mark.thorough),
        pytest.param("shuffled", [], marks=pytest.mark.thorough),
        pytest.param("given", [], marks=pytest.mark.thorough),
    ],
)
def test_rows_after_the_first_part_change_nothing_in_the_file(tmp_path, order, prepare):
    rounds = ROWS // 2
    course = np.random.default_rng(0).permutation(ROWS) if order == "shuffled" else np.arange(ROWS)
    rest = course[rounds:]
    X, y = SMALL.X.copy().tolil(), SMALL.y.copy()
    X[rest] *= -3
    y[rest] = (y[rest] + 1) % 9
    more = sparse.lil_array((ROWS, 5))
    more[rest] = 1
    others = SMALL._replace(X=X.tocsr(), y=y)
    wider = SMALL._replace(X=sparse.hstack([X, more]).tocsr())
    made = []
    for number, data in enumerate((SMALL, others, wider)):
        made.append(quick([ob.Banditron, ob.UCWL], data, order=order, prepare=prepare))
        made[-1].save(tmp_path / f"{number}.toml")
    files = [path.read_text().replace(path.name, "") for path in tmp_path.iterdir()]
    assert len(files) == 3 and len(set(files)) == 1
    assert made[0].table == made[1].table == made[2].table
    assert made[0].rest != made[1].rest  # where they are learned


def test_the_same_seed_gives_the_same_and_another_another():
    one, two, other = quick(seed=1), quick(seed=1), quick(seed=2)
    assert one == two and one.table != other.table


def test_ties_go_to_the_earlier():
    X = sparse.csr_matrix((20, 3))  # nothing can be learned from empty rows
    some = [ob.UCWL, ob.Confidit]
    tuned = ob.tune(some, X, np.arange(20) % 2, labels=9, trials=3, rounds=10, repeats=1)
    assert tuned.learner is ob.UCWL and tuned.table[0].is_default
    assert [trial.learner for trial in tuned.table] == [ob.UCWL] * 3 + [ob.Confidit] * 3
    unread = [0.01 * (i + 1) for i in range(20)]  # by PA
    grid = {"gamma": [0.5, 0.99], "C": unread}  # the worse first
    tuned = ob.tune("BPA:variant=PA", SMALL, grid=grid, rounds=30, repeats=1)
    for gamma in grid["gamma"]:
        same = [trial for trial in tuned.table if trial.settings["gamma"] == gamma]
        assert [trial.settings["C"] for trial in same] == unread


def test_rows_of_every_form_give_the_same():
    kind = "UCWL:inputs=raw"  # arrays would be tried with inputs="auto" too
    lists = [dict(enumerate(row)) for row in np.asarray(SMALL.X[:40].todense())]
    names = np.array(list("abcdefghi"))[SMALL.y[:40]]
    whole = quick(kind, SMALL._replace(X=SMALL.X[:40], y=SMALL.y[:40]), rounds=20)
    for X in (SMALL.X[:40], SMALL.X[:40].toarray(), SMALL.X[:40].tocoo()):
        tuned = ob.tune(kind, X, names, labels=list("abcdefghi"), trials=5, repeats=2, rounds=20)
        assert tuned.table == whole.table and tuned.rest == whole.rest
        assert tuned.found.data == ""
    pairs = [(list(row), list(row.values())) for row in lists]
    assert ob.tune(kind, pairs, SMALL.y[:40], labels=9, trials=5, repeats=2, rounds=20) == tuned


@pytest.mark.parametrize("prepare", [(), ("unit_norm",)])
def test_texts_of_every_form_give_the_same(prepare):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    texts, y = ["the screen is black", None, "I love it"] * 20, [0, 1, 1] * 20
    forms = [texts, tuple(texts), np.array(texts, object), polars.Series(texts)]
    forms += [pandas.Series(texts), pandas.Series(texts, dtype=object)]
    first, *others = [
        ob.tune("UCWL", X, y, trials=2, repeats=1, rounds=30, prepare=prepare) for X in forms
    ]
    assert all(tuned == first for tuned in others)
    words = ["yes", "no"] * 20
    array, listed = (ob.tune("UCWL", X, words, trials=2) for X in (np.array(words), words))
    assert array == listed


def test_rows_are_prepared_in_the_order_of_the_rounds():
    steps = ["tfidf", "unit_norm"]
    tuned = quick("UCWL", order="given", prepare=steps, repeats=1)
    part = ob.datasets.prepare(SMALL.X[: ROWS // 2], steps)
    rest = ob.datasets.prepare(SMALL.X[ROWS // 2 :], steps)
    one = tuned.make(9)
    assert ob.simulate(one, part, SMALL.y[: ROWS // 2]).error[-1] == pytest.approx(tuned.error)
    one = tuned.make(9)
    assert ob.simulate(one, rest, SMALL.y[ROWS // 2 :]).error[-1] == pytest.approx(tuned.rest.tuned)
    assert tuned.prepare == ("tfidf", "unit_norm")


def test_what_was_tuned_is_saved_and_read(tmp_path):
    tuned = quick("Confidit:width=log", prepare=["unit_norm"], seed=5)
    tuned.save(tmp_path / "t.toml")
    recipe = ob.read_recipe(tmp_path / "t.toml")
    assert recipe.settings == tuned.settings and recipe.settings["width"] == "log"
    assert recipe.found == tuned.found and recipe.prepare == ("unit_norm",)
    assert recipe.found.data == "SynSep" and recipe.found.seed == 5
    assert repr(recipe.make(9)) == repr(tuned.make(9))


def test_progress_counts_every_round():
    heard = []
    tuned = quick(progress=lambda done, total: heard.append((done, total)))
    total = 2 * (len(tuned.table) * (ROWS // 2) + 2 * (ROWS - ROWS // 2))
    assert heard[-1] == (total, total)
    assert all(a[0] < b[0] for a, b in itertools.pairwise(heard))


@pytest.mark.parametrize(
    ("settings", "fixed", "searched", "says"),
    [
        ({"gamma": 0.0011}, {}, None, (0.00033, 0.0001)),
        ({"gamma": 0.49}, {}, None, ()),  # 1.5 is not allowed
        ({"gamma": 0.49}, {}, {"gamma": [0.3, 0.1]}, ()),
        ({"gamma": 0.02}, {}, None, None),
        ({"gamma": 0.1}, {}, {"gamma": [0.3, 0.1]}, (0.033, 0.01)),
        ({"gamma": 0.05}, {}, {"gamma": [0.1, 0.3]}, (0.017, 0.005)),  # the default, below them
        ({"gamma": 0.2}, {}, {"gamma": [0.1, 0.2, 0.3]}, None),
        ({"gamma": 0.2}, {}, {"gamma": [0.2]}, None),
        ({"gamma": 0.001}, {"gamma": 0.001}, None, None),
    ],
)
def test_a_best_value_at_the_end_of_the_range_is_told(settings, fixed, searched, says):
    best = tuning.Candidate(
        recipes.Recipe(ob.Banditron, settings), recipes.Recipe(ob.Banditron, fixed), False
    )
    edges = tuning._edges(best, searched or ob.Banditron.ranges)
    assert [edge.beyond for edge in edges] == ([says] if says else [])


def test_ends_of_other_kinds_of_range():
    def edges(learner, **settings):
        made = recipes.Recipe(learner, learner(2, **settings).settings)
        best = tuning.Candidate(made, recipes.Recipe(learner, {}), False)
        return {edge.setting: edge.beyond for edge in tuning._edges(best, learner.ranges)}

    assert edges(ob.UCWL, eta=0.94) == {"eta": (0.99,)}
    assert edges(ob.UCWL, eta=0.56) == {"eta": (0.51,)}
    assert edges(ob.UCWL, k=0.0) == {}  # there is nothing beyond 0
    assert edges(ob.FastCB, expo=0.01) == edges(ob.FastCB, expo=1.0) == {}
    assert edges(ob.EGBandit, signed=True) == {}


@pytest.mark.parametrize(
    ("learner", "more", "says"),
    [
        ([], {}, "no learner to tune"),
        (3, {}, "a learner's class, such as Banditron, not 3"),
        ([3], {}, "a learner's class, such as Banditron, not 3"),
        (int, {}, "a learner's class"),
        ("Bandit", {}, "no learner 'Bandit'"),
        ("Banditron:gamma=7", {}, "gamma must be"),
        (ob.UCWL, {"trials": 0}, "trials must be"),
        (ob.UCWL, {"repeats": 0}, "repeats must be"),
        (ob.UCWL, {"rounds": 0}, "rounds must be between 1 and"),
        (ob.UCWL, {"rounds": ROWS + 1}, f"rounds must be between 1 and {ROWS}"),
        (ob.UCWL, {"seed": -1}, "seed must be"),
        (ob.UCWL, {"order": "sorted"}, "order must be"),
        (ob.UCWL, {"prepare": ["tf"]}, "no step 'tf'"),
        (ob.UCWL, {"labels": 9}, "leave out labels="),
        (ob.UCWL, {"grid": {"gamma": [1]}}, "no setting 'gamma' for UCWL"),
        (ob.UCWL, {"grid": {"k": []}}, "a list of values for k"),
        (ob.UCWL, {"grid": {"k": "12"}}, "a list of values for k"),
        (ob.UCWL, {"grid": {"k": [1, -1]}}, "k must be"),
        ("UCWL:k=2", {"grid": {"k": [1]}}, "k is fixed by 'UCWL k=2' and also in the grid"),
        (ob.UCWL, {"grid": {"k": range(400), "C": range(1, 400)}}, "159,600 combinations"),
    ],
)
def test_mistakes_of_use_are_named_before_any_work(monkeypatch, learner, more, says):
    monkeypatch.setattr(tuning, "sweep", None)
    with pytest.raises((TypeError, ValueError), match=says):
        ob.tune(learner, SMALL, **more)


def test_wrong_data_are_named():
    with pytest.raises(TypeError, match="X and y, or a Dataset"):
        ob.tune(ob.UCWL, SMALL.X)
    with pytest.raises(ValueError, match="X has 3 rows and y 2 labels"):
        ob.tune(ob.UCWL, np.eye(3), [0, 1])
    with pytest.raises(ValueError, match="no rows"):
        ob.tune(ob.UCWL, np.empty((0, 3)), [], labels=2)
    with pytest.raises(ValueError, match="no label"):
        ob.tune(ob.UCWL, np.eye(3), ["a", "b", "c"], labels=["a", "b"])


# The command.


@pytest.fixture
def main(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    topics = np.array(list("abcdefghi"))[np.argsort(np.argsort(X[:, 0])) * 9 // len(X)]
    rows = [f"{a:.3f},{b:.3f},{c:.3f},{t}" for (a, b, c), t in zip(X, topics, strict=True)]
    (tmp_path / "mine.csv").write_text("\n".join(["a,b,c,topic", *rows]) + "\n")

    def main(*args):
        monkeypatch.setattr(sys, "argv", ["onebit", *args])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code

    return main


def test_the_command_tries_steps_too(main, capsys):
    quickly = ("--learner", "UCWL", "--trials", "10", "--repeats", "1", "--rounds", "30")
    assert main("tune", "--data", "mine.csv", "--label", "topic", *quickly) == 0
    assert "inputs=auto" in capsys.readouterr().out
    rows = [f"{'good' if i % 2 else 'bad'} word {i},{i % 2}" for i in range(60)]
    Path("words.csv").write_text("\n".join(["body,label", *rows]))
    assert main("tune", "--data", "words.csv", *quickly, "--prepare", "auto") == 0
    said = capsys.readouterr().out
    assert "steps 1: log_counts, unit_norm\n" in said and "steps 1: eta=" in said
    assert "error %" in said and "default %" in said


def test_tune_a_file_and_race_the_result(main, tmp_path, capsys):
    mine = ("--data", "mine.csv", "--label", "topic")
    some = ("--learner", "UCWL", "--learner", "Confidit")
    more = ("--trials", "4", "--repeats", "2", "--rounds", "30", "--prepare", "unit_norm")
    assert main("tune", *mine, *some, *more) == 0
    said = capsys.readouterr().out
    assert "8 settings on 30 rows drawn at random, repeats: 2; the best of each learner" in said
    assert "On the 90 rows not used for tuning, learned from the start: tuned " in said
    assert f"onebit race {' '.join(mine)} --prepare unit_norm --learner tuned.toml" in said
    recipe = ob.read_recipe(tmp_path / "tuned.toml")
    assert recipe.found.data == "mine" and recipe.prepare == ("unit_norm",)
    name = recipe.learner.__name__
    rounds = ("--rounds", "40", "--repeats", "1")
    assert main("race", *mine, "--learner", "tuned.toml", "--learner", name, *rounds) == 0
    printed = capsys.readouterr()
    assert f"{name} tuned.toml" in printed.out
    assert "note: tuned.toml was tuned with --prepare unit_norm\n" in printed.err
    same = ("--prepare", "unit_norm")
    assert main("race", *mine, *same, "--learner", "tuned.toml", *rounds) == 0
    assert "note" not in capsys.readouterr().err


def test_help_shows_examples(main, capsys):
    assert main("tune", "--help") == 0
    said = capsys.readouterr().out
    assert "onebit tune --data mine.csv --label topic --learner UCWL" in said
    words = " ".join(said.replace("│", " ").split())
    assert "a fifth of the rows" in words and "--in-order" in words


def test_data_by_name_for_tuning():
    drawn = streams.load("synsep", rows=7, seed=3)
    assert len(drawn.y) == 7 and (drawn.y == ob.datasets.synsep(7, seed=3).y).all()
    assert streams.load("iris").name == "iris"


def test_a_recipe_in_a_race_has_all_its_settings(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('learner = "Banditron"\nprepare = ["binary"]\n')
    one = recipes.recipe_of(str(path))
    assert one.suited_to("digits").make(10).settings == {"gamma": 0.05}  # not what suits digits
    assert one.name == f"Banditron {path}" and one.prepare == ("binary",)
    with pytest.raises(ValueError, match="no learner"):
        recipes.recipe_of(f"{path}:gamma=0.1")


def test_a_grid_and_its_end_on_the_command_line(main, tmp_path, capsys):
    args = ("--learner", "UCWL:eta=0.8", "--grid", "k=1", "--grid", "C=0.5,2")
    more = ("--rounds", "120", "--in-order", "--out", "b.toml", "--repeats", "1")
    assert main("tune", "--data", "mine.csv", "--label", "topic", *args, *more) == 0
    said = capsys.readouterr().out
    assert "3 settings on 120 rows in their order" in said and "(default)" in said
    assert "All rows were used" in said
    assert ob.read_recipe(tmp_path / "b.toml").found.order == "given"


def test_the_hint_is_a_command_that_works(main, capsys, monkeypatch):
    edge = tuning.Edge("k", 8.5, 0.01, 10, (30.0, 100.0))
    real = tuning.tune
    monkeypatch.setattr(tuning, "tune", lambda *a, **k: replaced(real(*a, **k), edges=(edge,)))
    args = ("--data", "mine.csv", "--label", "topic", "--learner", "UCWL", "--trials", "1")
    assert main("tune", *args, "--rounds", "30", "--repeats", "1") == 0
    said = capsys.readouterr().out
    assert "k=8.5 is at the high end of what was tried (0.01 to 10). To look beyond:" in said
    command = next(line for line in said.splitlines() if "onebit tune" in line)
    assert "--learner UCWL:eta=0.75:C=1 --grid k=8.5,30,100" in command
    monkeypatch.setattr(tuning, "tune", real)
    assert main(*command.split()[1:]) == 0
    assert "4 settings on 30 rows" in capsys.readouterr().out


def replaced(tuned, **more):
    from dataclasses import replace

    return replace(tuned, **more)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "--data"),
        (["--data", "nothing"], "no data 'nothing'"),
        (["--data", "mine.csv"], "no column 'label'"),
        (["--data", "iris", "--learner", "Bandit"], "no learner 'Bandit'"),
        (["--data", "iris", "--learner", "none.toml"], "none.toml"),
        (["--data", "iris", "--grid", "gamma"], "--grid needs NAME=VALUE"),
        (["--data", "iris", "--grid", "gamma=1,"], "--grid needs NAME=VALUE"),
        (["--data", "iris", "--grid", "gama=1"], "no setting 'gama'"),
        (["--data", "iris", "--grid", "gamma=1", "--grid", "gamma=0.1"], "names gamma twice"),
        (["--data", "iris", "--prepare", "tf"], "no step 'tf'"),
        (["--data", "iris", "--trials", "0"], "trials must be"),
        (["--data", "iris", "--repeats", "0"], "repeats must be"),
        (["--data", "iris", "--rounds", "151"], "rounds must be between 1 and 150"),
        (["--data", "iris", "--seed", "-1"], "seed must be"),
        (["--data", "iris", "--out", "tuned.txt"], "must end in .toml"),
        (["--data", "iris", "--out", "no/such/folder.toml"], "cannot be written"),
    ],
)
def test_wrong_use_is_one_sentence(main, tmp_path, capsys, args, says):
    assert main("tune", *args) != 0
    printed = capsys.readouterr()
    assert says in printed.err + printed.out
    assert not (tmp_path / "tuned.toml").exists()


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.skipif(not COMPILED, reason="a call of thousands of rounds hears nothing for minutes")
def test_ctrl_c_stops_tuning_without_a_traceback(tmp_path):
    command = [sys.executable, "-c", BEGINS, "tune"]
    more = ["--data", "synsep", "--learner", "LinearThompson", "--rounds", "100000"]
    process = subprocess.Popen(
        [*command, *more, "--trials", "2000"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("y", "settings", "words"),
    [
        ([0, None] * 4, {}, "y must hold labels: all strings or all ints, and no gaps"),
        (iter([0, 1] * 4), {}, "one column, as in a list, not list_iterator"),
        ([[0], [1, 2]] * 4, {}, "labels must be one column, not a list of lists"),
        ([0, 1] * 4, {"grid": [0.1, 0.2]}, "grid must be a dict such as"),
        ([0, 1] * 4, {"grid": {"gamma": 0.1}}, "a list of values for gamma, not 0.1"),
        ([0, 1] * 4, {"grid": {"gamma": iter([0.1])}}, "a list of values for gamma, not "),
        ([0, 1] * 4, {"progress": "yes"}, "progress must be a function"),
    ],
)
def test_a_slip_gets_a_sentence_that_helps(y, settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        ob.tune(ob.Banditron, np.eye(8), y, **settings)


def test_no_rows_are_named_as_such():
    for labels in (None, 2):
        with pytest.raises(ValueError, match="there are no rows to tune on"):
            ob.tune(ob.Banditron, np.empty((0, 3)), [], labels=labels)


def test_a_column_of_a_frame_may_have_any_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"X": np.arange(40.0), "rows": 1.0})
    assert 0 <= ob.tune("UCWL", frame, [0, 1] * 20, trials=2).error <= 1
