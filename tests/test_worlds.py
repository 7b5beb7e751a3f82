"""benchmarks.worlds: what its streams promise, what is counted on them, and its table."""

from contextlib import closing

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import onebit as ob
from benchmarks.default.results import Results
from benchmarks.worlds.__main__ import drawn_as, play_missing, references, settings_to_play
from benchmarks.worlds.again import again_table, best_rival
from benchmarks.worlds.before import ROOT, Before
from benchmarks.worlds.contestants import (
    CONTESTANTS,
    WHOLE_GRID,
    Contestant,
    vw_rows,
    vw_settings,
)
from benchmarks.worlds.exclusive import SETS
from benchmarks.worlds.streams import (
    STREAMS,
    Stream,
    best_fixed,
    buttons,
    ceiling,
    drawn,
    share_right,
)
from benchmarks.worlds.tables import BEFORE, Cell, Reference, report, shares_of

Y = np.array([[0.1, 0.4], [0.3, 0.2], [0.5, 0.0]])


def loaded(name, order):
    try:
        return STREAMS[name].load(order)
    except FileNotFoundError as error:
        pytest.skip(str(error))


def as_lists(X):
    return X.toarray().tolist() if sparse.issparse(X) else np.asarray(X).tolist()


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_what_it_promises(name):
    stream, world = STREAMS[name], loaded(name, 0)
    kind = {"text": str, "dict": dict}.get(stream.kind)
    size = len(world.X) if kind else world.X.shape[0]
    assert (size, *world.Y.shape) == (stream.rounds, stream.rounds, stream.labels)
    assert 0 <= world.Y.min() < world.Y.max() <= 1
    assert world.Y.dtype == (np.uint8 if set(np.unique(world.Y)) <= {0, 1} else np.float64)
    if kind:
        assert {type(context) for context in world.X} == {kind}
    else:
        assert sparse.issparse(world.X) == (stream.kind == "sparse")
    assert best_fixed(world.Y) <= ceiling(world.Y) + 1e-9


@pytest.mark.parametrize("name", ["segments", "offers_8_numbers", "clicks", "mute_texts", "topics"])
def test_an_order_is_the_same_every_time_and_another_order_differs(name):
    first, again, second = loaded(name, 0), loaded(name, 0), loaded(name, 1)
    some = slice(0, 300)
    assert_array_equal(first.Y, again.Y)
    assert as_lists(first.X[some]) == as_lists(again.X[some])
    assert as_lists(first.X[some]) != as_lists(second.X[some])


@pytest.mark.parametrize("name", ["set_vowel", "set_nursery", "set_trec50", "set_contraceptive"])
def test_sets_have_exactly_one_right_label(name):
    try:
        world = SETS[name].load(0)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert world.Y.shape == (SETS[name].rounds, SETS[name].labels)
    assert (world.Y.sum(axis=1) == 1).all()
    assert SETS[name].group == "one right"


def test_a_shuffle_keeps_contexts_beside_what_is_right_for_them():
    world = STREAMS["segments"].load(3)
    is_b = np.array([context["segment"] == "b" for context in world.X])
    assert_array_equal(world.Y[:, 1], np.where(is_b, 0.05, 0.01))


def test_streams_choose_or_judge_by_their_names_alone():
    groups = [stream.group for stream in STREAMS.values()]
    assert set(groups) == {"choose", "judge"}
    assert STREAMS["buttons"].group == "choose"
    assert STREAMS["yeast"].group == "judge"


def test_shares_of_right_answers():
    assert share_right(Y, np.array([1, 1, 0])) == pytest.approx((0.4 + 0.2 + 0.5) / 3)
    assert best_fixed(Y) == pytest.approx(0.3)
    assert ceiling(Y) == pytest.approx((0.4 + 0.3 + 0.5) / 3)


def test_drawn_answers_are_those_that_a_learner_of_this_seed_hears():
    chances = np.random.default_rng(1).random((60, 3))
    X = np.random.default_rng(2).normal(size=(60, 4))
    learners = [ob.SquareCB(3, seed=5) for _ in range(2)]
    ob.simulate(learners[0], X, chances)
    ob.simulate(learners[1], X, drawn(chances, 5))
    assert_array_equal(learners[0].weights, learners[1].weights)
    assert (drawn(chances, 5) != drawn(chances, 6)).any()


def test_matrices_of_rights_are_drawn_already():
    rights = np.array([[0, 1], [1, 1]], np.uint8)
    assert_array_equal(drawn(rights, 4), rights)


# --- the command ----------------------------------------------------------------------------------

TINY = Stream("tiny", "dict", 60, 2, buttons(60, (0.2, 0.8)))
SQUARECB = CONTESTANTS["SquareCB"]
GRID = [{"scale": float(scale)} for scale in (1, 10, 100, 1_000)]


def cell(share, setting=None, stream="tiny", learner="SquareCB", order=0, drawn_as="a"):
    return Cell(stream, learner, setting or {}, order, drawn_as, "", share)


def known(drawn_as=("a", "a")):
    return [Reference(TINY, dict(enumerate(drawn_as)), 0.8, 0.9)]


def test_every_setting_plays_the_first_order_and_the_best_the_others(tmp_path):
    results, world = Results(tmp_path, Cell), TINY.load(0)
    contestant = SQUARECB._replace(settings=lambda stream, world: tuple(GRID))
    assert settings_to_play(results, contestant, TINY, world, 0) == GRID
    for setting, share in zip(GRID, (0.1, 0.4, 0.2, 0.3), strict=True):
        results.add(cell(share, setting, drawn_as=drawn_as(world)))
    assert settings_to_play(results, contestant, TINY, world, 1) == [GRID[1], GRID[3], GRID[2]]


def test_what_was_played_is_not_played_again(tmp_path):
    played = []

    def play(settings, stream, world, order):
        played.extend(settings)
        return SQUARECB.play(settings, stream, world, order)

    contestant = SQUARECB._replace(play=play, settings=lambda stream, world: ({"lr": 0.3},))
    for _ in range(2):
        play_missing(Results(tmp_path, Cell), contestant, TINY, TINY.load(0), 0)
    [kept] = Results(tmp_path, Cell).cells()
    assert played == [{"lr": 0.3}]
    assert 0.2 < kept.share < 0.8


def test_a_rival_plays_orders_that_did_not_choose_its_setting(tmp_path):
    """Settings as lucky as each other: the best one of order 0 is not best again."""
    stream = Stream("even", "dict", 40, 2, buttons(40, (0.5, 0.5)))
    played = []

    def play(settings, stream, world, order):
        for setting in settings:
            played.append((setting["k"], order))
            yield setting, (0.9 if (setting["k"], order) == (2, 0) else 0.4)

    players = [
        Contestant("OneBit", play_always(0.5), lambda stream, world: ({},)),
        Contestant("rival", play, lambda stream, world: ({"k": 1}, {"k": 2})),
    ]
    known = references(stream, 3)
    results, further = (Results(tmp_path / name, Cell) for name in ("first", "again"))
    for player in players:
        play_missing(results, player, stream, stream.load(0), 0)
    chosen = best_rival(results.cells(), known, players, 1)
    assert chosen == ("rival", '{"k": 2}', 0.9)
    played.clear()
    text = again_table(results.cells(), further, [known], players, 1, 2)
    assert played == [(2, 1), (2, 2)] and "90.0 | 40.0 ± 0 | 50.0 ± 0 | 1.250" in text
    assert again_table(results.cells(), further, [known], players, 1, 2) == text
    assert len(played) == 2  # what was played is not played again


def play_always(share):
    return lambda settings, stream, world, order: ((setting, share) for setting in settings)


def test_a_learner_is_measured_by_the_chances_of_what_it_says():
    world = TINY.load(0)
    learner = ob.SquareCB(2, seed=1, inputs="auto", lr=0.1)
    said = []
    for context, bits in zip(world.X, drawn(world.Y, 1), strict=True):
        decision = learner.decide(context)
        said.append(decision.label)
        learner.learn(decision, right=bool(bits[decision.label]))
    [(setting, share)] = SQUARECB.play([{"lr": 0.1}], TINY, world, 1)
    assert setting == {"lr": 0.1}
    assert share == pytest.approx(share_right(world.Y, np.array(said)))


def test_a_revision_plays_round_by_round_as_a_stream():
    world = TINY.load(0)
    with closing(Before(ROOT / "src")) as before:
        for order in range(2):
            [(_, share)] = before.play([{}], TINY, world, order)
            [(_, in_one)] = CONTESTANTS["OneBit"].play([{}], TINY, world, order)
            assert share == pytest.approx(in_one)


def test_vowpal_wabbit_plays_fewer_settings_where_the_grid_is_not_whole():
    whole, fewer = (
        [repr(setting) for setting in vw_settings(stream, stream.load(0))]
        for stream in (STREAMS[WHOLE_GRID[0]], TINY)
    )
    assert len(set(whole)) == 84 and len(set(fewer)) == 20 and set(fewer) < set(whole)


def test_a_stream_that_was_drawn_otherwise_and_settings_of_fewer_orders_do_not_count():
    cells = [
        cell(0.5, {"lr": 1}, order=0),
        cell(0.7, {"lr": 1}, order=1),
        cell(0.9, {"lr": 2}, order=0),
        cell(0.8, {"lr": 3}, order=0, drawn_as="b"),
    ]
    assert shares_of(cells, known(), 2) == {("tiny", "SquareCB"): {'{"lr": 1}': 0.6}}
    assert shares_of(cells, known(), 1)["tiny", "SquareCB"]['{"lr": 2}'] == 0.9


def test_the_table_has_the_ratio_to_the_best_rival_and_the_loss_of_each_setting():
    cells = [
        cell(0.6, learner="OneBit"),
        cell(0.5, {"lr": 1}),
        cell(0.4, {"lr": 2}),
        cell(0.45, learner="UCWL"),
        cell(0.55, learner=BEFORE),  # it is no rival
    ]
    text = report(cells, known(), [BEFORE, "OneBit", "SquareCB", "UCWL"], 1)
    assert f"| tiny | {TINY.group} | 55.0 | **60.0** | 50.0 | 45.0 | 80.0 | 90.0 | 1.200 |" in text
    brief = f"| tiny | {TINY.group} | 55.0 | 60.0 | 50.0 | SquareCB | 80.0 | 90.0 | 1.200 |"
    assert brief in text
    assert '| tiny | SquareCB | `{"lr": 1}` |' in text
    assert '| SquareCB | `{"lr": 2}` | 0.800 (1) | 0.800 (1) | 0.800 |' in text


@pytest.mark.parametrize(
    ("kind", "X", "line"),
    [
        ("text", ["Is it 5:30 | now?"], "wis wit w5 w30 wnow"),
        ("dict", [{"page": "start", "hour": 7}], "page=start hour:7"),
        ("sparse", sparse.csr_matrix([[0.0, 2.5]]), "c1:2.5"),
    ],
)
def test_contexts_for_vowpal_wabbit(kind, X, line):
    assert next(vw_rows(Stream("x", kind, 1, 2, buttons(1, (0.5, 0.5))), X)) == line
