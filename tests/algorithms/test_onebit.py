"""OneBit against its slow twin, and what its description promises."""

import math
from functools import partial

import numpy as np
import pytest
from helpers import naive
from helpers.streams import draws
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import expit

import onebit as ob
from onebit.algorithms.onebit import columns, dense, tables, waves
from onebit.algorithms.onebit.drift import EARNED, SPENT
from onebit.algorithms.onebit.records import COMMON, WEIGHT
from onebit.core.draws import uniform
from onebit.feedback.drift import COUNTS, HEARD, RIGHT
from onebit.learner import files
from onebit.reading.dicts import row_of_dict
from onebit.storage.scales import FARTHEST, TIMES
from onebit.testing import model_bytes, saved_state


def data(K, d, rounds, seed):
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(K, d))
    y = rng.integers(K, size=rounds)
    return centres[y] + rng.normal(size=(rounds, d)), y


def unit_rows(row):
    x = row / np.linalg.norm(row)
    return x, x


class DenseMaps:
    """Standardised columns, and the Fourier features: what `DenseExperts` does, with whole rows.

    NaN: a missing number. The first 100 values of a column make its scale."""

    last = columns.SCALED_AFTER[-1]

    def __init__(self, d, learner):
        self.rows, self.d, self.median = [], d, 0.0
        store = learner.table.storage
        self.waves, self.phase = store._waves, store._phase

    def standardised(self, row):
        if not self.rows:
            return np.zeros(self.d)
        heard = [column[~np.isnan(column)][: self.last] for column in np.array(self.rows).T]
        mean, spread = np.array([(known.mean(), known.std()) for known in heard]).T
        usual = math.sqrt((spread**2).mean())
        spread = np.where(spread > 0, spread, usual if usual > 0 else np.inf)
        z = np.clip((row - mean) / spread, -FARTHEST, FARTHEST)
        return np.where(np.isnan(row), 0, z)

    def __call__(self, row):
        z = self.standardised(row)
        narrow = z / math.sqrt(self.d)
        if not self.median:
            return narrow, narrow
        angles = 2 * math.pi * (z @ self.waves / self.median + self.phase)
        turning = waves.PART * math.sqrt(2 / waves.WAVES) * np.cos(angles)
        return narrow, np.concatenate([narrow, turning])

    def fix(self, twin, row):
        self.rows.append(row)
        if len(self.rows) not in columns.SCALED_AFTER:
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

    def seen(self):
        return len(self.rows) + 10

    def count(self, row):
        """Values far beyond the deviation of at least three are clipped, and the farthest of the
        first ten, once there are ten."""
        row = row.copy()
        for j in range(len(row)):
            heard = self.heard(j)
            if len(heard) >= 3 and heard.std() > 1e-9:
                far = 10 * (1 + 10 / len(heard)) * heard.std()
                row[j] = np.clip(row[j], heard.mean() - far, heard.mean() + far)
        self.rows.append(row)
        for j in range(len(row)):
            heard = self.heard(j)
            if len(heard) == 10 and not math.isnan(row[j]):
                i = np.abs(heard - heard.mean()).argmax()
                others, off = np.delete(heard, i), heard[i] - np.delete(heard, i).mean()
                if abs(off) > 20 * others.std() > 1e-9:
                    [known] = [row for row in self.rows if row[j] == heard[i]]
                    known[j] = others.mean() + np.sign(off) * 5 * others.std()

    def heard(self, j):
        return np.array([row[j] for row in self.rows if not math.isnan(row[j])])

    def scaled(self, j, value):
        heard = self.heard(j)
        if not len(heard):
            return np.sign(value)
        share = len(heard) / self.seen()
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
        return (x / math.sqrt(row[-1] ** 2 + given.any()),) * 2


class TableMaps(NumberMaps):
    """Rows of tables as `tables` sees them: numbers (NaN: absent), and categories, 1 or 0.

    order: of the features in a row."""

    def __init__(self, numbers, order, learner):
        super().__init__()
        self.numbers, self.order, self.columns = numbers, order, []
        self.of_tables = self.others = 0
        self.size, self.awake = 0.0, False
        tables = learner.table.state.held.tables
        self.draws, (self.factors, self.phase) = tables.draws, tables.waves

    def seen(self):
        return len(self.rows) / 1.8 if self.awake else super().seen()

    def features(self, row):
        there = np.nan_to_num(row) != 0
        beside = (row[self.numbers :] ** 2).sum()
        side = 1 / math.sqrt(beside + there[: self.numbers].any())
        return [j for j in self.order if there[j]], side

    def is_of_table(self, row):
        return bool(np.isin(np.abs(row[self.numbers :]), [0, 1]).all())

    def times(self, j, side):
        mass = self.twin.experts[-1].W[:, j]
        return (2 * mass.sum() - mass[:2].sum()) / side

    def __call__(self, row):
        there, side = self.features(row)
        wide, narrow = np.zeros(waves.WAVES + tables.COLUMNS), np.zeros(len(row))
        given = sum(j < self.numbers for j in there)
        for j in there:
            is_number, x = j < self.numbers, row[j]
            z = x = self.scaled(j, x) if is_number else x
            narrow[j] = x * side / math.sqrt(given if is_number else 1)
            if self.awake and j in self.columns:
                column, times = self.columns.index(j), self.times(j, side)
                z = z if is_number else z * times / (times + 20)
                wide[: waves.WAVES] += z * self.draws[64 * column :][: waves.WAVES]
                wide[waves.WAVES + column] = z / math.sqrt(len(there))
        if not self.awake or not self.size or not self.is_of_table(row):
            return narrow, 0 * wide
        angles = wide[: waves.WAVES] * self.factors / (0.8 * math.sqrt(2 * self.size)) + self.phase
        wide[: waves.WAVES] = np.cos(2 * math.pi * angles) * waves.PART * math.sqrt(2 / waves.WAVES)
        return narrow, wide

    def meet(self, twin, row):
        there, side = self.features(row)
        is_table = self.is_of_table(row)
        self.of_tables, self.others = self.of_tables + is_table, self.others + (not is_table)
        if not self.awake and self.of_tables > self.others:
            self.awake = True
            twin.wake(has_numbers=any(j < self.numbers for j in there))
        if not is_table:
            return
        for j in there:
            is_met = j < self.numbers or self.times(j, side) > 2.5
            self.columns += [j] if is_met and j not in self.columns else []
        if self.of_tables <= 100:
            columns = sum(j in self.columns for j in there)
            self.size += (columns - self.size) / self.of_tables


def twin_of(learner, K, d, dense):
    def draw_kept(heard, stream):
        return uniform(learner.seed, heard, stream)

    make = partial(naive.OneBit, K, d, draw_kept=draw_kept, alarm=ob.DriftAlarm())
    if not dense:
        return make(widths=(d, d), maps=unit_rows)
    maps = DenseMaps(d, learner)
    return make(widths=(d, d + waves.WAVES), maps=maps, fix=maps.fix)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize(("K", "d"), [(2, 3), (4, 5)])
def test_it_is_its_twin(K, d, dense):
    rounds, seed = (130, 3) if dense else (60, 3)
    compare_with_twin(K, d, dense, seed, *data(K, d, rounds, seed))


def names_of(y, X, labels):
    """Names as contexts: the means of each label's contexts, of which small parts are left out."""
    means = np.array([np.abs(X[y == label]).mean(axis=0) for label in labels])
    return np.where(means > np.median(means), means, 0.0)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [1, 2, 3, 0]])  # true names, and others' names
def test_with_names_it_is_its_twin(order):
    K, d, rounds, seed = 4, 5, 130, 3
    X, y = data(K, d, rounds, seed)
    X *= np.random.default_rng(seed).random(X.shape) < 0.7
    X[~X.any(axis=1), 0] = 1.0
    names = names_of(y, X, order)
    described = {"abcd"[k]: (np.flatnonzero(names[k]), names[k][names[k] > 0]) for k in range(K)}
    learner = ob.OneBit(described, inputs="sparse", seed=seed, dtype="float64", features=d)
    twin = naive.OneBit(
        K, d, widths=(d, d), draw_kept=lambda heard, stream: uniform(seed, heard, stream),
        maps=unit_rows, alarm=ob.DriftAlarm(), names=names,
    )  # fmt: skip
    for t in range(rounds):
        decision = learner.decide(X[t])
        choice = twin.decide(X[t], t, draws(seed, t))
        assert (decision.place, decision.greedy_place) == (choice.label, choice.greedy), t
        assert_allclose(learner.scores(X[t : t + 1])[0], twin.scores(X[t]), rtol=1e-6, atol=1e-9)
        right = bool(choice.label == y[t])
        learner.learn(decision, right=right)
        twin.learn(X[t], choice, right, t, draws(seed, t))
    pull = learner.table.state.held.names.pull
    assert_allclose(pull, [twin.pull, twin.curve_of_pull, twin.odds], rtol=1e-6, atol=1e-9)
    assert (pull[2] > 2) == (order[0] == 0)  # the names were proven, or found to be false


def test_with_missing_numbers_it_is_its_twin():
    X, y = data(3, 4, 150, 3)
    X[np.random.default_rng(4).random(X.shape) < 0.3] = math.nan
    X[:2] = np.random.default_rng(5).normal(size=(2, 4))
    compare_with_twin(3, 4, True, 3, X, y)


BOTH_KINDS = [False, pytest.param(True, marks=pytest.mark.thorough)]  # dense rows take longer


@pytest.mark.parametrize("dense", BOTH_KINDS)
def test_after_drift_it_is_its_twin(dense):
    X, y = drifting(3, 5, 160, 60, seed=3)
    assert compare_with_twin(3, 5, dense, 3, X, y).alarms == 1


def saying_little(K, d, rounds, seed, share=0.6):
    """Contexts that have nothing to do with the label; label 0 is more frequent, by the share."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(rounds) < share, 0, rng.integers(K, size=rounds))
    return rng.normal(size=(rounds, d)), y


@pytest.mark.parametrize("dense", BOTH_KINDS)
def test_it_is_its_twin_where_trying_labels_costs_more_than_is_allowed(dense):
    twin = compare_with_twin(3, 4, dense, 3, *saying_little(3, 4, 200, seed=3, share=0.3))
    assert twin.limited > 0 and twin.narrowed > 0


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
    held = learner.table.state.held.experts
    assert_allclose(held.trust[:, WEIGHT], twin.weight, rtol=1e-6)
    constants = [e.W[:, -1] for e in twin.experts if e.kind not in ("bayes", "full")]
    assert_allclose(held.constant[0::2, :K], constants, rtol=1e-5)
    if not dense:
        mass = twin.experts[-1].W[:, :-1]
        sums = learner.table.state.table[:, -1, :K].T
        assert_allclose(sums, 0.1 + mass.sum(axis=0) - mass, rtol=1e-6)
        assert_allclose(learner.table.state.held.temperature, [twin.temperature, twin.curvature])
    if dense:
        full = learner.table.state.held.full
        assert_allclose(full.table[:, 0, :K].T, twin.experts[-1].W, rtol=1e-5, atol=1e-9)
        assert_allclose(full.held.matrix, twin.experts[-1].S, rtol=1e-6, atol=1e-9)
    return twin


def test_numbers_of_dicts_are_scaled_as_its_twin_does():
    """One of another size, one in half of the rows, one that is 0 at first, and a part of a text:
    so these are no rows of a table."""
    K, d, rounds, seed = 3, 5, 130, 4
    X, y = data(K, d, rounds, seed)
    X[:, 1] = 1e4 * X[:, 1] - 3e5
    X[np.random.default_rng(seed).random(rounds) < 0.5, 2] = math.nan
    X[:20, 3] = 0.0
    X[50, 0] = 1e5
    X[:, -1] = 0.5
    learner = ob.OneBit(K, seed=seed, dtype="float64")
    maps = NumberMaps()

    def draw_kept(heard, stream):
        return uniform(seed, heard, stream)

    twin = naive.OneBit(
        K, d, widths=(d, d), draw_kept=draw_kept, maps=maps, alarm=ob.DriftAlarm(), count=maps.count
    )
    for t in range(rounds):
        x = {name: X[t, j] for j, name in enumerate("abcd")} | {"body=late": 0.5}
        decision = learner.decide(x)
        choice = twin.decide(X[t], t, draws(seed, t))
        assert (decision.label, decision.greedy) == (choice.label, choice.greedy), t
        assert_allclose(learner.scores([x])[0], twin.scores(X[t]), rtol=1e-6, atol=1e-9)
        right = bool(choice.label == y[t])
        learner.learn(decision, right=right)
        twin.learn(X[t], choice, right, t, draws(seed, t))
    held = learner.table.state.held
    assert held.numbers[0, TIMES] == rounds
    assert_allclose(held.experts.trust[:, WEIGHT], twin.weight, rtol=1e-6)
    constants = [expert.W[:, -1] for expert in twin.experts if expert.kind != "bayes"]
    assert_allclose(held.experts.constant[0::2, :K], constants, rtol=1e-5)


def named_rows(X, numbers, names):
    """Dicts, and the rows as the learner reads them: with signs, as names are hashed."""
    signs, places = np.ones(X.shape[1]), []
    for j, name in enumerate(names):
        indices, values = row_of_dict({name: 1.0}, np.dtype(np.float64), None)
        places.append(indices[0] + (j < numbers) * 2**21)
        signs[j] = values[0]
    dicts = [{names[j]: row[j] for j in np.flatnonzero(np.nan_to_num(row))} for row in X]
    return dicts, X * signs, np.argsort(places)


@pytest.mark.parametrize("numbers", [3, 0])
def test_tables_as_dicts_are_learned_as_by_its_twin(numbers):
    """Numbers, one of them in two thirds of the rows; a category; one that hardly comes again; and
    some rows with a text."""
    K, d, rounds, seed = 3, 12, 110, 4
    X, y = data(K, d, rounds, seed)
    kind, late = X[:, -1] > 0, np.random.default_rng(seed).random(rounds) < 0.1
    X[:, 1] = 1e4 * X[:, 1] - 3e5
    X[np.random.default_rng(seed).random(rounds) < 0.3, 2] = math.nan
    X[:, numbers:] = 0.0
    X[:, 3], X[:, 4], X[late, 5] = kind, ~kind, 0.5
    X[np.arange(rounds), 6 + np.minimum(np.arange(rounds) // 9, 5)] = 1.0
    names = ["a", "b", "c", "kind=A", "kind=B", "body=late", *(f"id={n}" for n in range(6))]
    dicts, X, order = named_rows(X, numbers, names)
    learner = ob.OneBit(K, seed=seed, dtype="float64")
    maps = TableMaps(numbers, order, learner)

    def draw_kept(heard, stream):
        return uniform(seed, heard, stream)

    twin = maps.twin = naive.OneBit(
        K, d, widths=(d, waves.WAVES + tables.COLUMNS), draw_kept=draw_kept, maps=maps,
        alarm=ob.DriftAlarm(), count=maps.count, meet=maps.meet,
    )  # fmt: skip
    for t, x in enumerate(dicts):
        decision = learner.decide(x)
        choice, scores = twin.decide(X[t], t, draws(seed, t)), twin.scores(X[t])
        assert decision.label == choice.label, t
        assert scores[decision.greedy] == pytest.approx(scores.max())  # of equal ones, either
        assert_allclose(learner.scores([x])[0], scores, rtol=1e-5, atol=1e-8, err_msg=str(t))
        right = bool(choice.label == y[t])
        learner.learn(decision, right=right)
        twin.learn(X[t], choice, right, t, draws(seed, t))
    held = learner.table.state.held
    assert held.tables.counts[tables.OF_TABLES] == maps.of_tables > maps.others > 0
    assert held.tables.counts[tables.USED] == len(maps.columns) > 6
    assert_allclose(held.experts.trust[:, WEIGHT], twin.weight, rtol=1e-5)
    constants = [expert.W[:, -1] for expert in twin.experts if expert.kind != "bayes"]
    assert_allclose(held.experts.constant[0::2, :K], constants, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("beside", [{}, {"kind": "A"}])
def test_the_size_of_a_number_counts_also_if_it_is_alone(beside):
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 100, 400)
    y = np.digitize(values, [33, 67])
    trace = ob.simulate(ob.OneBit(3), [{"t": value, **beside} for value in values], y)
    assert trace.mistakes[-1] - trace.mistakes[-2] < 0.1 * (400 - trace.rounds[-2])


def played(learner, X, y):
    for row, truth in zip(X, y, strict=True):
        decision = learner.decide(row)
        learner.learn(decision, right=decision.label == truth)
    return learner


def test_matrices_that_would_take_much_room_are_not_kept(monkeypatch):
    X, y = data(3, 4, 20, 1)
    monkeypatch.setattr(dense, "FULL_NUMBERS", 3 * 5**2)
    learner = played(ob.OneBit(3, seed=1), X, y)
    trust = learner.table.state.held.experts.trust
    assert len(trust) == 10
    assert learner.table.state.held.full.held.matrix.shape == (3, 5, 5)
    learner.add_label(3)
    held = learner.table.state.held
    assert held.full.held.matrix.size == 0
    assert_allclose(held.experts.trust[:, 1:], trust[:-1, 1:])
    shares = trust[:-1, WEIGHT] / trust[:-1, WEIGHT].sum()
    assert_allclose(held.experts.trust[:, WEIGHT], shares)
    played(learner, X, y)


def test_a_saved_model_goes_on_without_matrices(tmp_path):
    X, y = data(3, 4, 120, 2)
    learner = played(ob.OneBit(3, seed=1), X, y)
    learner.save(tmp_path / "new.onebit")
    head, arrays = files.read(tmp_path / "new.onebit")
    del arrays["matrix"], arrays["full"]
    trust = arrays["trust"][:-1]
    trust[:, WEIGHT] /= trust[:, WEIGHT].sum()
    files.write(tmp_path / "old.onebit", head, arrays | {"trust": trust})
    old = ob.load(tmp_path / "old.onebit")
    assert len(old.table.state.held.experts.trust) == 9
    played(old, X, y)
    old.forget(0.5)
    old.save(tmp_path / "again.onebit")
    again = ob.load(tmp_path / "again.onebit")
    assert_allclose(again.scores(X), old.scores(X))
    again.forget()
    assert len(again.table.state.held.experts.trust) == 10


@pytest.mark.parametrize("dense", [False, True])
def test_a_file_of_an_earlier_version_is_refused(dense):
    learner = ob.OneBit(3, inputs="dense" if dense else "sparse", features=4)
    head, arrays = saved_state(learner)
    older = arrays | {"trust": arrays["trust"][:-1, :7]}
    with pytest.raises(ValueError, match="train it again"):
        files.restore(head, older)


def test_a_file_from_before_right_answers_were_counted_is_loaded():
    X, y = data(3, 5, 30, seed=1)
    learner = played(ob.OneBit(3, inputs="sparse"), X, y)
    head, arrays = saved_state(learner)
    loaded = files.restore(head, arrays | {"memory": arrays["memory"][:EARNED]}, is_foreign=True)
    assert loaded.table.state.memory.tolist() == [*arrays["memory"][:EARNED], 0.0]
    assert (loaded.scores(X) == learner.scores(X)).all()


def test_a_forged_file_is_refused():
    X, y = data(3, 5, 30, seed=1)
    head, arrays = saved_state(played(ob.OneBit(3), X, y))
    with pytest.raises(ValueError, match="do not fit"):
        files.restore(head, arrays | {"memory": np.zeros(EARNED + 2)}, is_foreign=True)
    for name, change in (("memory", -1), ("trust", 0)):
        with pytest.raises(ValueError, match="cannot have learned"):
            files.restore(head, arrays | {name: change * (1 + arrays[name])}, is_foreign=True)


def test_nothing_counted_so_far_is_of_a_new_label():
    """For naive Bayes, a label that is added is as if it had been there and never was right."""
    X, y = data(3, 5, 60, seed=1)
    learners = []
    for labels in (3, 4):
        learner = ob.OneBit(labels, inputs="sparse", dtype="float64")
        for row, truth in zip(X, y, strict=True):
            learner.learn_logged(row, int(truth), right=True, among=range(3))
        learners.append(learner)
    learners[0].add_label()
    added, there = (learner.table.state for learner in learners)
    assert_allclose(added.table[:, -1, 3], there.table[:, -1, 3])
    assert_allclose(added.held.elsewhere[3], there.held.elsewhere[3], rtol=1e-9)


@pytest.mark.parametrize("labels", [2, 3, 10])
@pytest.mark.parametrize(
    "context",
    [
        "my invoice is wrong",
        "a " * 3 + " ".join(f"word{i}" for i in range(300)),
        {"body": "the screen stays black", "team": "A", "age": 33},
        {f"number {i}": float(i + 1) for i in range(30)},
        ([1, 2, 3], [1.0, 2.0, 3.0]),
        [1.0, 2.0, 3.0],
    ],
    ids=["text", "long text", "dict", "numbers", "pair", "list"],
)
def test_a_single_answer_says_which_label_is_right(context, labels):
    learner = ob.OneBit(labels)
    decision = learner.decide(context)
    before = learner.scores([context])[0, decision.place]
    learner.learn(decision, right=True)
    assert learner.scores([context])[0, decision.place] > before
    assert learner.decide(context).label == decision.label == learner.predict([context])[0]
    other = ob.OneBit(labels)
    decision = other.decide(context)
    other.learn(decision, right=False)
    assert other.scores([context])[0, decision.place] < before
    assert other.decide(context).label != decision.label


# Trying labels.


def tries(learner, X):
    """How often another label than the likeliest one would be said."""
    return sum(learner.propose(row).explored for row in X)


def test_it_tries_labels_less_the_more_that_has_cost():
    X, y = data(10, 5, 300, 1)
    learner = played(ob.OneBit(10, inputs="sparse", features=5, seed=1), X[:60], y[:60])
    found = []
    for spent in (0.0, 40.0, 1e6):
        learner.table.state.memory[SPENT] = spent
        found.append(tries(learner, X))
    assert found[0] > 1.2 * found[2] and found[0] >= found[1] >= found[2]


def test_it_tries_labels_more_the_more_answers_were_right():
    X, y = data(10, 5, 300, 1)
    for exclusive in (True, False):  # by the bonus; by widths
        learner = ob.OneBit(10, inputs="sparse", features=5, seed=1, exclusive=exclusive)
        learner, found = played(learner, X[:60], y[:60]), []
        learner.table.state.memory[SPENT] = 30.0
        for earned in (0.0, 200.0, 1e8):
            learner.table.state.memory[EARNED] = earned
            found.append(tries(learner, X))
        assert found[0] <= found[1] <= found[2] and found[0] < 0.9 * found[2]


@pytest.mark.untraced
def test_it_tries_labels_less_where_contexts_say_nothing():
    X, y = saying_little(10, 5, 1500, seed=1, share=0.4)
    learner = ob.OneBit(10, inputs="sparse", features=5, seed=1)
    first, last = (
        ob.simulate(learner, X[part], y[part]).explored[-1]
        for part in (slice(0, 500), slice(1000, 1500))
    )
    assert last < 0.4 * first


def test_what_trying_labels_costs_counts_only_own_decisions_with_answers():
    X, y = saying_little(6, 4, 60, seed=2)
    learner = ob.OneBit(6)
    for row, truth in zip(X[:30], y[:30], strict=True):
        learner.learn_logged(row, int(truth), right=False)
    before = learner.table.state.memory[SPENT]
    for row in X:
        learner.decide(row)  # no answer comes
    assert learner.table.state.memory[SPENT] == before
    explored = learner.decide(X[0])
    while not explored.explored:
        learner.learn(explored, right=False)
        explored = learner.decide(X[0])
    before, scores = learner.table.state.memory[SPENT], learner.scores(X[:1])[0]
    learner.learn(explored, label=int(scores.argmin()))  # names a label besides
    cost = max(scores.max(), 0)
    assert learner.table.state.memory[SPENT] - before == pytest.approx(cost) and cost > 0


# In which world it lives.


@pytest.mark.untraced
def test_clicks_on_two_buttons_are_not_answers_about_the_other():
    """Never clicked and rarely clicked: the second one is found, and stays."""
    Y = np.tile([0.02, 0.1], (2000, 1))
    trace = ob.simulate(ob.OneBit(2), [{"page": "start"}] * 2000, Y, checkpoints=[1000, 2000])
    assert 1 - np.diff(trace.mistakes)[0] / 1000 > 0.095


@pytest.mark.untraced
@pytest.mark.parametrize("dense", [False, True])
def test_where_contexts_say_nothing_it_finds_the_best_label(dense):
    rng = np.random.default_rng(3)
    chances = np.array([0.05, 0.1, 0.4, 0.2, 0.1])
    X = rng.normal(size=(1500, 4))
    learner = ob.OneBit(5, inputs="dense" if dense else "sparse", features=4, seed=1)
    trace = ob.simulate(learner, X, np.tile(chances, (1500, 1)), checkpoints=[1000, 1500])
    assert 1 - np.diff(trace.mistakes)[0] / 500 > 0.37


def test_answers_about_one_label_say_what_to_expect_of_others():
    """Logistic models share a constant: without it, they would expect a new label to be right in
    half of the rounds."""
    learner = ob.OneBit(20, inputs="sparse", features=3)
    for t in range(200):
        learner.learn_logged([t % 3, 1, 0], t % 10, right=t % 20 == 0)
    held = learner.table.state.held.experts
    common, of_label = held.trust[len(held.constant) // 2 - 1, COMMON], held.constant[-2, 15]
    assert of_label == 0 and expit(common) == pytest.approx(0.05, abs=0.04)


def two_worlds(one_right):
    """Contexts that tell of each of four labels whether it is right, or which one is."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(900, 4))
    return X, (X.max(axis=1, keepdims=True) == X).astype(int) if one_right else (X > 0.7).astype(
        int
    )


@pytest.mark.untraced
@pytest.mark.parametrize("one_right", [True, False])
def test_it_finds_out_whether_one_label_is_right(one_right):
    X, Y = two_worlds(one_right)
    learner = ob.OneBit(4, inputs="sparse", features=4, seed=1)
    ob.simulate(learner, X, Y)
    assert (learner.one_right > 0.9) if one_right else (learner.one_right < 0.1)
    said = "exactly one is right" if one_right else "each is right or wrong by itself"
    assert said in str(learner.explain(X[0]))


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("exclusive", [True, False])
def test_who_knows_the_world_may_say_so(exclusive, dense, tmp_path):
    X, Y = two_worlds(not exclusive)
    learner = ob.OneBit(4, inputs="dense" if dense else "sparse", features=4, exclusive=exclusive)
    assert learner.one_right == exclusive
    ob.simulate(learner, X[:300], Y[:300])
    assert learner.one_right == exclusive
    learner.forget(0.5)
    learner.save(tmp_path / "m")
    assert ob.load(tmp_path / "m").one_right == exclusive
    ob.simulate(learner, X[300:400], Y[300:400])
    assert learner.one_right == exclusive
    with pytest.raises(TypeError, match="exclusive must be True or False"):
        ob.OneBit(4, exclusive="no")


# Drift.


def has_alarm_counts(learner):
    return bool(learner.table.state.memory[:COUNTS].any())


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
        assert model_bytes(learner) == model_bytes(in_one)


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
    assert learner.table.state.memory[HEARD] == alike < 40
    for row, truth in zip(X, (y + 1) % 3, strict=True):
        decision = learner.decide(row)
        learner.learn(decision, label=int(truth))
        wrong += decision.label != truth
    heard, right = learner.table.state.memory[[HEARD, RIGHT]]
    assert 0 < wrong == heard - right and heard == alike + 40


@pytest.mark.parametrize(("factors", "offset"), [(1, 30), (0.01, 0), ([1, 1, 0.001, 0.001], 0)])
def test_it_takes_the_scales_of_columns_anew(factors, offset):
    X, y = data(3, 4, 600, seed=4)
    X[300:] = X[300:] * factors + offset
    trace = ob.simulate(ob.OneBit(3, seed=4), X, y, checkpoints=[300, 500])
    before, _, after = np.diff([0, *trace.mistakes])
    assert after / 100 < 0.1 + before / 300


# Two possible labels: each answer tells which of them is right.

WORDS = ["goal", "match", "cup", "vote", "law", "court", "price", "late", "new", "a", "the", "of"]


def contexts_of(kind, rounds=130, seed=6):
    """Contexts and which of two labels is right."""
    X, y = data(2, 4, rounds, seed)
    if kind == "dense":
        return list(X), y
    if kind == "dicts":
        return [
            {"a": row[0], "b": 100 * row[1], "sign": "+" if row[2] > 0 else "-"} for row in X
        ], y
    rng = np.random.default_rng(seed)
    first = [rng.choice(WORDS[6:] if label else WORDS[:6], size=3) for label in y]
    return [" ".join([*words, *rng.choice(WORDS, size=3)]) for words in first], y


KINDS = ["dense", "texts", "dicts"]


@pytest.mark.parametrize("among", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_of_two_labels_the_named_one_and_wrong_are_the_same(kind, among):
    labels = ["a", "b", "c"] if among else ["a", "b"]
    possible = ["a", "b"] if among else None
    named, answered = ob.OneBit(labels), ob.OneBit(labels)
    for x, truth in zip(*contexts_of(kind), strict=True):
        first, second = (learner.decide(x, among=possible) for learner in (named, answered))
        named.learn(first, label="ab"[truth])
        answered.learn(second, right=second.label == "ab"[truth])
    assert model_bytes(named) == model_bytes(answered)


@pytest.mark.parametrize("make", [ob.OneBit, ob.UCWL, ob.Confidit])
def test_a_named_label_of_three_is_more_than_wrong(make):
    """And so it is for learners that take each label by itself, with two labels too."""
    for labels in [3] if make is ob.OneBit else [2, 3]:
        named, answered = make(labels), make(labels)
        for i in range(5):
            first, second = named.decide([1.0, i]), answered.decide([1.0, i])
            named.learn(first, label=(first.label + 1) % labels)
            answered.learn(second, right=False)
        assert not np.allclose(named.scores([[1.0, 2.0]]), answered.scores([[1.0, 2.0]]))


def test_a_named_label_that_was_not_possible_is_learned():
    learner, other = ob.OneBit(["a", "b", "c"]), ob.OneBit(["a", "b", "c"])
    for i in range(5):
        x = {"word": f"w{i}"}
        learner.learn(learner.decide(x, among=["a", "b"]), label="c")
        other.learn(other.decide(x, among=["a", "b"]), right=False)
    assert learner.scores([{"word": "w1"}])[0, 2] > other.scores([{"word": "w1"}])[0, 2] + 0.1


# Units.


def said_about(contexts, y, **settings):
    """The labels that are said, and the last scores."""
    learner, said = ob.OneBit(3, **settings), []
    for x, truth in zip(contexts, y, strict=True):
        decision = learner.decide(x)
        learner.learn(decision, right=bool(decision.label == truth))
        said.append(decision.label)
    return said, learner.scores(contexts[-9:])


def as_sparse_rows(X):
    return [sparse.csr_matrix(row) for row in np.where(np.abs(X) > 1, X, 0)]


def as_dicts(X):
    return [{f"x{j}": float(value) for j, value in enumerate(row)} for row in X]


@pytest.mark.untraced
@pytest.mark.parametrize("factor", [1000.0, 2.0**-10])
@pytest.mark.parametrize("form", [list, as_sparse_rows, as_dicts])
def test_units_of_all_features_change_no_decision(form, factor):
    X, y = data(3, 4, 130, seed=3)
    if form is as_sparse_rows:
        contexts = form(X)
        scaled = [row * factor for row in contexts]
    else:
        contexts, scaled = form(X + 3), form((X + 3) * factor)
    (said, scores), (said_scaled, scores_scaled) = said_about(contexts, y), said_about(scaled, y)
    assert said == said_scaled and len(set(said)) == 3
    assert_allclose(scores, scores_scaled, atol=1e-3)


@pytest.mark.untraced
@pytest.mark.parametrize("factor", [1000.0, 2.0**-10])
@pytest.mark.parametrize("form", [list, as_dicts])
def test_units_of_one_column_change_no_decision(form, factor):
    """Random numbers: from the second row on, every column has varied."""
    X, y = data(3, 4, 130, seed=3)
    said, scores = said_about(form(X), y)
    said_scaled, scores_scaled = said_about(form(X * [1, factor, 1, 1]), y)
    assert said == said_scaled
    assert_allclose(scores, scores_scaled, atol=1e-3)


def test_late_answers_when_the_scales_of_columns_are_fixed_are_those_of_the_stream():
    """The hundredth answer fixes the scales; forty decisions from before it are still open."""
    X, y = data(3, 4, 170, seed=5)
    stream, learner, waiting = ob.OneBit(3), ob.OneBit(3), []
    trace = ob.simulate(stream, X, y, channel=[ob.Delay(40)])
    mistakes = 0
    for x, truth in zip(X, y, strict=True):
        decision = learner.decide(x)
        mistakes += decision.label != truth
        waiting.append((decision, bool(decision.label == truth)))
        if len(waiting) > 40:
            decision, right = waiting.pop(0)
            learner.learn(decision, right=right)
    assert mistakes == trace.mistakes[-1]
    assert model_bytes(learner) == model_bytes(stream)
