"""A race in Python: bounds, repeats, and how often the rows of a table come."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import onebit as ob
from onebit import datasets
from onebit.lab import bounds, race, streams
from onebit.pages.race import BEST_FIXED, BEST_OF_EACH, COMMONEST
from onebit.registry import recipes


def test_bounds_are_the_mean_over_the_repeats_where_a_comparator_is_known():
    entrants = [recipes.recipe_of("Banditron"), recipes.recipe_of("UCWL")]
    more = {"rounds": 20, "repeats": 2, "seed": 3}
    (panel,) = race.race(["synnonsep"], entrants, prove=True, **more)
    bound, other, _ = (line.bound for line in panel.lines)
    each, points = [], np.array(panel.lines[0].rounds)
    for seed in (3, 4):
        data = datasets.synnonsep(20, seed=seed)
        known = bounds.comparator(data.comparator, data.X, data.y)
        loss = known.loss[points - 1]
        each.append(bounds.banditron(points, labels=9, gamma=0.006, norm=known.norm, loss=loss))
    assert known.loss[0] < known.loss[-1]
    assert other is None and bound.error == pytest.approx(np.mean(each, axis=0) / points)
    assert race.race(["synsep"], entrants, **more)[0].lines[0].bound is None
    with pytest.raises(ValueError, match="unprepared rows; leave out unit_norm"):
        race.race(["synsep"], entrants, prove=True, prepare=["unit_norm"], **more)
    with pytest.raises(ValueError, match="add one of them"):
        race.race(["synsep"], entrants[1:], prove=True, **more)


def test_a_race_is_the_same_every_time_and_settings_suit_the_data():
    def run():
        entrants = [recipes.recipe_of("Banditron"), recipes.recipe_of("PNewtron:gamma=0.3")]
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


def test_the_commonest_label_is_a_line_that_needs_no_learning():
    (panel,) = race.race(["iris"], [recipes.recipe_of("UCWL")], rounds=200, repeats=3, seed=5)
    line = panel.lines[-1]
    assert line.learner == COMMONEST and line.full_information and line.rounds_per_second is None
    found, said = [], []
    for stream in streams.streams("iris", 200, 3, 5)[2]:
        labels = np.array(stream.names)[stream.y[stream.order]]
        names, counts = np.unique(labels, return_counts=True)
        said.append(names[counts.argmax()])
        found.append([np.mean(labels[:t] != said[-1]) for t in line.rounds])
    assert line.rounds[-1] == 200 and line.error == pytest.approx(np.mean(found, axis=0))
    assert line.low == pytest.approx(np.min(found, axis=0))
    assert line.greedy_error == line.error[-1] < 2 / 3
    assert line.settings == f"always {' or '.join(dict.fromkeys(said))}"
    (drawn,) = race.race(["synsep"], [recipes.recipe_of("UCWL")], rounds=30, repeats=9)
    assert drawn.lines[-1].settings.endswith(" or others")


def uneven(tmp_path):
    """A table of three columns in different units, whose labels are in the small ones."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 3)) * [0.01, 0.02, 1000] + [1, 5, 0], 4)
    y = np.where(X[:, 0] - 1 + X[:, 1] - 5 > 0, "up", "down")
    lines = [",".join(map(str, row)) + f",{label}\n" for row, label in zip(X, y, strict=True)]
    (path := tmp_path / "uneven.csv").write_text("a,b,c,label\n" + "".join(lines))
    return str(path)


def test_a_table_is_scaled_for_every_learner(tmp_path):
    names = ("AROW", "AROW:inputs=auto", "AROW:inputs=raw", "OneBit", "UniformRandom")
    entrants = [recipes.recipe_of(name) for name in names]
    file = tmp_path / "tuned.toml"
    recipes.Recipe(ob.AROW, {"r": 1.0}).save(file)
    entrants.append(recipes.recipe_of(str(file)))
    (panel,) = race.race([uneven(tmp_path)], entrants, repeats=2)
    scaled, same, raw, itself, random, tuned, commonest = panel.lines
    assert scaled.learner == "AROW" and "inputs=auto" in scaled.settings and "auto" in panel.scaling
    assert scaled.error == same.error and scaled.error[-1] < 0.2
    assert raw.error == tuned.error and raw.error[-1] > 0.3
    assert "inputs" not in raw.settings + tuned.settings + random.settings + commonest.settings
    assert itself.error[-1] < 0.3


@pytest.mark.parametrize(
    ("data", "steps"),
    [("digits", ()), ("synsep", ()), ("", ("standardise",)), ("", ("unit_norm",))],
)
def test_rows_that_are_prepared_or_of_length_1_are_taken_as_they_are(tmp_path, data, steps):
    entrants = [recipes.recipe_of("AROW")]
    names = [data or uneven(tmp_path)]
    (panel,) = race.race(names, entrants, rounds=20, repeats=1, prepare=steps)
    assert panel.scaling == "" and panel.lines[0].settings == "r=1"


def test_a_table_is_gone_through_once_unless_rounds_are_given(monkeypatch):
    entrants = [recipes.recipe_of("UCWL")]
    reported = []
    panels = race.race(["iris"], entrants, repeats=2, progress=lambda *args: reported.append(args))
    assert panels[0].rounds == 150 and panels[0].lines[0].rounds[-1] == 150
    assert panels[0].length == "150 rounds: each row once" and not panels[0].is_repeating
    assert {(data, total) for data, _, total in reported} == {("iris", 300)}
    assert sum(done for _, done, _ in reported) == 300
    for rounds, says in [
        (300, "300 rounds: each of 150 rows 2 times"),
        (400, "400 rounds: each of 150 rows about 2.7 times"),
        (60, "60 rounds: 60 of 150 rows, each once"),
    ]:
        _, _, made = streams.streams("iris", rounds, 1, 0, prepare=["tfidf"])
        assert (made[0].rounds, made[0].table) == (rounds, 150)
        assert replace(panels[0], rounds=rounds).length == says
    assert streams.DRAWN == 100_000
    monkeypatch.setattr(streams, "DRAWN", 70)
    _, _, made = streams.streams("synsep", None, 1, 0)
    assert (made[0].rounds, made[0].table) == (70, None)
    assert replace(panels[0], rounds=60, rows=None).length == "60 rounds"


def test_where_several_labels_may_be_right_references_sit_out():
    entrants = [recipes.recipe_of(name) for name in ("UCWL", "AROW", "Banditron:gamma=0.3")]
    (panel,) = race.race(["clicks"], entrants, rounds=300, repeats=3, seed=5)
    assert panel.several and panel.sat_out == ["AROW"]
    assert [line.learner for line in panel.lines] == [
        "UCWL", "Banditron gamma=0.3", BEST_FIXED, BEST_OF_EACH,
    ]  # fmt: skip
    made = streams.streams("clicks", 300, 3, 5)[2]
    fixed = [[1 - s.y[:t, s.y.mean(axis=0).argmax()].mean() for t in (100, 300)] for s in made]
    assert panel.lines[2].error[-1] == pytest.approx(np.mean(fixed, axis=0)[1])
    assert panel.lines[2].error[panel.lines[2].rounds.index(100)] == pytest.approx(
        np.mean(fixed, axis=0)[0]
    )
    least = np.mean([1 - s.y.max(axis=1).mean() for s in made])
    assert panel.lines[3].error[-1] == pytest.approx(least) == 1 - panel.shown(least)
    alone = [
        ob.simulate(recipes.recipe_of("UCWL").make(10, seed=5 + i), s.rows, s.y).error[-1]
        for i, s in enumerate(made)
    ]
    assert panel.lines[0].error[-1] == pytest.approx(np.mean(alone))
    with pytest.raises(ValueError, match="clicks: several labels may be right"):
        race.race(["clicks"], entrants[1:2], rounds=10, repeats=1)
