"""OneBit against its slow twin, and what its description promises."""

import math
from functools import partial

import naive
import numpy as np
import pytest
from numpy.testing import assert_allclose
from streams import draws

import onebit as ob
from onebit import persist
from onebit.core.draws import uniform
from onebit.feedback.drift import HEARD, RIGHT
from onebit.storage import dense_experts
from onebit.storage.experts import WEIGHT
from onebit.storage.scales import FARTHEST, TIMES


def data(K, d, rounds, seed):
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(K, d))
    y = rng.integers(K, size=rounds)
    return centres[y] + rng.normal(size=(rounds, d)), y


def unit_rows(row):
    x = row / np.linalg.norm(row)
    return x, x


class DenseMaps:
    """Standardised columns, and the Fourier features: what `DenseExperts` does, with whole rows."""

    def __init__(self, d, learner):
        self.rows, self.d, self.median = [], d, 0.0
        store = learner._storage
        self.waves, self.phase = store._waves, store._phase

    def standardised(self, row):
        if not self.rows:
            return np.zeros(self.d)
        rows = np.array(self.rows)
        spread = rows.std(axis=0)
        usual = math.sqrt((spread**2).mean())
        spread = np.where(spread > 0, spread, usual if usual > 0 else np.inf)
        return np.clip((row - rows.mean(axis=0)) / spread, -FARTHEST, FARTHEST)

    def __call__(self, row):
        z = self.standardised(row)
        narrow = z / math.sqrt(self.d)
        if not self.median:
            return narrow, narrow
        angles = 2 * math.pi * (z @ self.waves / self.median + self.phase)
        waves = dense_experts.PART * math.sqrt(2 / dense_experts.WAVES) * np.cos(angles)
        return narrow, np.concatenate([narrow, waves])

    def fix(self, twin, row):
        if self.median:
            return False
        self.rows.append(row)
        if len(self.rows) < dense_experts.WARM:
            return False
        z = [self.standardised(row) for row in self.rows]
        distances = [np.linalg.norm(a - b) for i, a in enumerate(z) for b in z[:i]]
        self.median = np.partition(distances, (len(distances) + 1) // 2 - 1)[
            (len(distances) + 1) // 2 - 1
        ]
        return True


class NumberMaps:
    """The numbers of dicts, as `SparseExperts` scales them; NaN: the row has no such number."""

    def __init__(self):
        self.rows = []

    def count(self, row):
        """Values beyond ten deviations are clipped, once there are ten."""
        row = row.copy()
        for j in range(len(row)):
            heard = self.heard(j)
            if len(heard) >= 10 and heard.std() > 1e-9:
                far = 10 * heard.std()
                row[j] = np.clip(row[j], heard.mean() - far, heard.mean() + far)
        self.rows.append(row)

    def heard(self, j):
        return np.array([row[j] for row in self.rows if not math.isnan(row[j])])

    def scaled(self, j, value):
        heard = self.heard(j)
        if not len(heard):
            return np.sign(value)
        share = len(heard) / (len(self.rows) + 10)
        usual = min(max((share - 0.5) / 0.4, 0.0), 1.0)
        size, off = math.sqrt((heard**2).mean()), value - heard.mean()
        z = off / heard.std() if heard.std() > 1e-9 else np.sign(off) * (abs(off) > 1e-9)
        root = math.sqrt(abs(value) / size) if size > 0 else abs(np.sign(value))
        return np.clip(usual * z + (1 - usual) * np.sign(value) * root, -5, 5)

    def __call__(self, row):
        given = ~np.isnan(row)
        given[-1] = False  # a category
        z = [self.scaled(j, row[j]) if given[j] else 0.0 for j in range(len(row))]
        x = np.array(z) / math.sqrt(max(given.sum(), 1))
        x[-1] = row[-1]
        return (x / np.linalg.norm(x),) * 2


def twin_of(learner, K, d, dense):
    def draw_kept(heard, stream):
        return uniform(learner.seed, heard, stream)

    make = partial(naive.OneBit, K, d, draw_kept=draw_kept, alarm=ob.DriftAlarm())
    if not dense:
        return make(widths=(d, d), maps=unit_rows)
    maps = DenseMaps(d, learner)
    return make(widths=(d, d + dense_experts.WAVES), maps=maps, fix=maps.fix)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(("K", "d"), [(2, 3), (4, 5)])
def test_it_is_its_twin(K, d, dense, monkeypatch):
    monkeypatch.setattr(dense_experts, "WARM", 100)
    rounds, seed = (130, 3) if dense else (60, 3)
    compare_with_twin(K, d, dense, seed, *data(K, d, rounds, seed))


BOTH_KINDS = [False, pytest.param(True, marks=pytest.mark.thorough)]  # dense rows take longer


@pytest.mark.parametrize("dense", BOTH_KINDS)
def test_after_drift_it_is_its_twin(dense, monkeypatch):
    monkeypatch.setattr(dense_experts, "WARM", 30)
    X, y = drifting(3, 5, 160, 60, seed=3)
    assert compare_with_twin(3, 5, dense, 3, X, y).alarms == 1


def drifting(K, d, before, after, seed):
    """Each label becomes the next one."""
    X, y = data(K, d, before + after, seed)
    return X, np.where(np.arange(before + after) < before, y, (y + 1) % K)


def compare_with_twin(K, d, dense, seed, X, y):
    rounds = len(y)
    make = partial(ob.OneBit, inputs="dense" if dense else "sparse")
    learner = make(K, seed=seed, dtype="float64", features=d)
    twin = twin_of(learner, K, d, dense)
    for t in range(rounds):
        decision = learner.decide(X[t])
        choice = twin.decide(X[t], t, draws(seed, t))
        assert (decision.label, decision.greedy) == (choice.label, choice.greedy), t
        right = bool(choice.label == y[t])
        assert_allclose(learner.scores(X[t : t + 1])[0], twin.scores(X[t]), rtol=1e-6, atol=1e-9)
        learner.learn(decision, right=right)
        twin.learn(X[t], choice, right, t, draws(seed, t))
    held = learner._state.held.experts
    assert_allclose(held.trust[:, WEIGHT], twin.weight, rtol=1e-6)
    constants = [e.W[:, -1] for e in twin.experts if e.kind in ("softmax", "ridge")]
    assert_allclose(held.constant[0::2, :K], constants, rtol=1e-5)
    if not dense:
        mass = twin.experts[-1].W[:, :-1]
        sums = learner._state.table[:, -1, :K].T
        assert_allclose(sums, 0.1 + mass.sum(axis=0) - mass, rtol=1e-6)
        assert_allclose(learner._state.held.temperature, [twin.temperature, twin.curvature])
    if dense:
        full = learner._state.held.full
        assert_allclose(full.table[:, 0, :K].T, twin.experts[-1].W, rtol=1e-5, atol=1e-9)
        assert_allclose(full.held.matrix, twin.experts[-1].S, rtol=1e-6, atol=1e-9)
    return twin


def test_numbers_of_dicts_are_scaled_as_its_twin_does():
    """One of another size, one in half of the rows, one that is 0 at first, and a category."""
    K, d, rounds, seed = 3, 5, 130, 4
    X, y = data(K, d, rounds, seed)
    X[:, 1] = 1e4 * X[:, 1] - 3e5
    X[np.random.default_rng(seed).random(rounds) < 0.5, 2] = math.nan
    X[:20, 3] = 0.0
    X[50, 0] = 1e5
    X[:, -1] = 1.0
    learner = ob.OneBit(K, seed=seed, dtype="float64")
    maps = NumberMaps()

    def draw_kept(heard, stream):
        return uniform(seed, heard, stream)

    twin = naive.OneBit(
        K, d, widths=(d, d), draw_kept=draw_kept, maps=maps, alarm=ob.DriftAlarm(), count=maps.count
    )
    for t in range(rounds):
        x = {name: X[t, j] for j, name in enumerate("abcd")} | {"kind": "A"}
        decision = learner.decide(x)
        choice = twin.decide(X[t], t, draws(seed, t))
        assert (decision.label, decision.greedy) == (choice.label, choice.greedy), t
        assert_allclose(learner.scores([x])[0], twin.scores(X[t]), rtol=1e-6, atol=1e-9)
        right = bool(choice.label == y[t])
        learner.learn(decision, right=right)
        twin.learn(X[t], choice, right, t, draws(seed, t))
    held = learner._state.held
    assert held.numbers[0, TIMES] == rounds
    assert_allclose(held.experts.trust[:, WEIGHT], twin.weight, rtol=1e-6)
    constants = [expert.W[:, -1] for expert in twin.experts if expert.kind != "bayes"]
    assert_allclose(held.experts.constant[0::2, :K], constants, rtol=1e-5)


def played(learner, X, y):
    for row, truth in zip(X, y, strict=True):
        decision = learner.decide(row)
        learner.learn(decision, right=decision.label == truth)
    return learner


def test_matrices_that_would_take_much_room_are_not_kept(monkeypatch):
    X, y = data(3, 4, 20, 1)
    monkeypatch.setattr(dense_experts, "FULL_NUMBERS", 3 * 5**2)
    learner = played(ob.OneBit(3, seed=1), X, y)
    trust = learner._state.held.experts.trust
    assert len(trust) == 7
    assert learner._state.held.full.held.matrix.shape == (3, 5, 5)
    learner.add_label(3)
    held = learner._state.held
    assert held.full.held.matrix.size == 0
    assert_allclose(held.experts.trust[:, 1:], trust[:-1, 1:])
    shares = trust[:-1, WEIGHT] / trust[:-1, WEIGHT].sum()
    assert_allclose(held.experts.trust[:, WEIGHT], shares)
    played(learner, X, y)


def test_an_older_model_goes_on_without_matrices(tmp_path):
    X, y = data(3, 4, 120, 2)
    learner = played(ob.OneBit(3, seed=1), X, y)
    learner.save(tmp_path / "new.onebit")
    head, arrays = persist.read(tmp_path / "new.onebit")
    del arrays["matrix"], arrays["full"]
    trust = arrays["trust"][:-1]
    trust[:, WEIGHT] /= trust[:, WEIGHT].sum()
    persist.write(tmp_path / "old.onebit", head, arrays | {"trust": trust})
    old = ob.load(tmp_path / "old.onebit")
    assert len(old._state.held.experts.trust) == 6
    played(old, X, y)
    old.forget(0.5)
    old.save(tmp_path / "again.onebit")
    again = ob.load(tmp_path / "again.onebit")
    assert_allclose(again.scores(X), old.scores(X))
    again.forget()
    assert len(again._state.held.experts.trust) == 7


def test_a_file_without_naive_bayes_is_refused():
    head, arrays = ob.OneBit(3)._dump()
    older = {name: array for name, array in arrays.items() if name != "elsewhere"}
    with pytest.raises(ValueError, match="train it again"):
        persist.restore(head, older)


def test_nothing_counted_so_far_is_of_a_new_label():
    """For naive Bayes, a label that is added is as if it had been there and never was right."""
    X, y = data(3, 5, 60, seed=1)
    learners = []
    for labels in (["a", "b", "c"], ["a", "b", "c", "d"]):
        learner = ob.OneBit(labels, inputs="sparse", dtype="float64")
        for row, truth in zip(X, y, strict=True):
            learner.learn_logged(row, "abc"[truth], right=True, among=["a", "b", "c"])
        learners.append(learner)
    learners[0].add_label("d")
    added, there = (learner._state for learner in learners)
    assert_allclose(added.table[:, -1, 3], there.table[:, -1, 3])
    assert_allclose(added.held.elsewhere[3], there.held.elsewhere[3], rtol=1e-9)


# Drift.


def has_alarm_counts(learner):
    return bool(learner._state.memory.any())


@pytest.mark.parametrize("dense", BOTH_KINDS)
@pytest.mark.parametrize("delay", [0, 7])
def test_it_forgets_in_a_stream_as_round_by_round(dense, delay):
    X, y = drifting(4, 5, 250, 100, seed=1)
    inputs = "dense" if dense else "sparse"
    make = partial(ob.OneBit, 4, inputs=inputs, features=5, dtype="float64", seed=1)
    in_one = make()
    trace = ob.simulate(in_one, X, y, channel=[ob.Delay(delay)] if delay else [])
    learner, waiting, alarms, mistakes = make(), [], 0, 0
    for row, truth in zip(X, y, strict=True):
        decision = learner.decide(row)
        mistakes += decision.label != truth
        waiting.append((decision, bool(decision.label == truth)))
        if len(waiting) > delay:
            decision, right = waiting.pop(0)
            learner.learn(decision, right=right)
            alarms += not has_alarm_counts(learner)
    assert alarms == 1 and mistakes == trace.mistakes[-1]
    if not delay:  # else, the last answers have not come
        assert persist.pack(*learner._dump()) == persist.pack(*in_one._dump())


def test_it_recovers_from_drift_sooner_than_by_learning_alone(monkeypatch):
    X, y = drifting(3, 5, 300, 100, seed=2)
    last = []
    for pauses in (True, False):
        monkeypatch.setattr(ob.OneBit, "may_pause", pauses)
        learner = ob.OneBit(3, inputs="sparse", features=5, seed=2)
        said = []
        for row, truth in zip(X, y, strict=True):
            decision = learner.decide(row)
            said.append(decision.label)
            learner.learn(decision, right=decision.label == truth)
        last.append((said != y)[-50:].sum())
    assert last[0] < last[1] / 2


def test_answers_about_labels_that_it_would_not_say_are_no_drift():
    """Logged rounds, and the true label that somebody names beside a wrong answer."""
    X, y = data(3, 5, 40, seed=1)
    learner = ob.OneBit(3)
    alike = wrong = 0
    for row, truth in zip(X, y, strict=True):
        alike += learner.propose(row).label == truth
        learner.learn_logged(row, int(truth), right=True)
    assert learner._state.memory[HEARD] == alike < 40
    for row, truth in zip(X, (y + 1) % 3, strict=True):
        decision = learner.decide(row)
        learner.learn(decision, label=int(truth))
        wrong += decision.label != truth
    heard, right = learner._state.memory[[HEARD, RIGHT]]
    assert 0 < wrong == heard - right and heard == alike + 40


def test_a_file_from_before_the_alarm_loads():
    X, y = data(3, 5, 30, seed=1)
    head, arrays = played(ob.OneBit(3), X, y)._dump()
    older = persist.restore(head, arrays | {"memory": np.empty(0)}, is_foreign=True)
    assert not has_alarm_counts(older)
    with pytest.raises(ValueError, match="cannot have learned"):
        persist.restore(head, arrays | {"memory": -1 - arrays["memory"]}, is_foreign=True)


@pytest.mark.parametrize(("factors", "offset"), [(1, 30), (0.01, 0), ([1, 1, 0.001, 0.001], 0)])
def test_it_takes_the_scales_of_columns_anew(factors, offset):
    X, y = data(3, 4, 600, seed=4)
    X[300:] = X[300:] * factors + offset
    trace = ob.simulate(ob.OneBit(3, seed=4), X, y, checkpoints=[300, 500])
    before, _, after = np.diff([0, *trace.mistakes])
    assert after / 100 < 0.1 + before / 300
