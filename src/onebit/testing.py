"""The laws that every learner keeps, including your own learners.

    from onebit.testing import check_learner

    check_learner(lambda labels, **common: MyLearner(labels, my_setting=3, **common))

Each law is a small function whose name is a sentence. A broken law raises an AssertionError.
"""

from __future__ import annotations

import functools
import importlib
import math
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy import sparse

from onebit.algorithms import load
from onebit.core.jit import COMPILED
from onebit.core.settings import Range
from onebit.feedback.channels import Delay, LabelNoise, Silence
from onebit.lab.simulation import simulate
from onebit.lab.sweeping import sweep
from onebit.learner import files
from onebit.learner.copies import unsaved
from onebit.learner.decision import Decision
from onebit.learner.files import dump
from onebit.learner.learner import Learner
from onebit.learner.teaching import teach_row

Make = Callable[..., Learner]
LABELS, FEATURES = 5, 12
# Compiled rounds are cheap, so rare events can be tested; uncompiled rounds are 100 times slower.
ROWS, DRAWS, EPOCHS = (120, 2000, 20) if COMPILED else (60, 200, 3)


def check_learner(make: Make) -> None:
    """Run every law on a learner. `make(labels, features=, seed=, dtype=)` makes a fresh one.

    An AssertionError names the first law that is broken.
    """
    module = getattr(make, "__module__", None)
    if isinstance(make, type) and module == "__main__":
        raise ValueError(
            f"{make.__name__} must be in a module of its own: a law loads it elsewhere"
        )
    for law in LAWS:
        try:
            law(make)
        except Exception as error:
            name = law.__name__.replace("_", " ")
            raise AssertionError(f"{name}: {error or type(error).__name__}") from error
    assert_compiled_equals_plain([make(LABELS, dtype=dtype) for dtype in ("float64", "float32")])


def saved_state(learner: Learner) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a learner's model file contains: the head, and the arrays by their names."""
    return dump(learner)


def model_bytes(learner: Learner) -> bytes:
    """A learner's model file as bytes. Learners of equal bytes do the same from then on."""
    return files.pack(*saved_state(learner))


def state_bytes(learner: Learner) -> bytes:
    """The complete state of a learner as bytes: its model file, and the weights that it uses."""
    table, memory, _ = learner.table.state
    table = table[learner.table.order(), :, : len(learner.labels)]
    seen = table.tobytes() + memory.tobytes()
    return model_bytes(learner) + seen


def _stream(rows: int = ROWS, seed: int = 1) -> tuple[Any, np.ndarray]:
    """Random rows, some empty, with labels that can be learned."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, FEATURES)) * (rng.random((rows, FEATURES)) < 0.5)
    X[::17] = 0
    y = (X @ rng.normal(size=(FEATURES, LABELS))).argmax(axis=1)
    return sparse.csr_matrix(X), y


def _pair(X: Any, i: int) -> tuple[Any, Any]:
    span = slice(X.indptr[i], X.indptr[i + 1])
    return X.indices[span], X.data[span]


def _row(learner: Learner, *numbers: float) -> np.ndarray:
    """A dense row that begins with these numbers, as wide as the learner expects."""
    return np.array([*numbers, *[0.0] * ((learner.features or 0) - len(numbers))])


def _teach(learner: Learner, decision: Decision, label: int) -> None:
    if learner.full_information:
        learner.learn(decision, label=label)
    else:
        learner.learn(decision, right=decision.label == label)


def _rounds(learner: Learner, X: Any, y: np.ndarray) -> list[Any]:
    """Run round by round. Returns the said labels."""
    said = []
    for i in range(X.shape[0]):
        decision = learner.decide(_pair(X, i))
        _teach(learner, decision, int(y[i]))
        said.append(decision.label)
    return said


def _taught(make: Make, rows: int = ROWS, **common: Any) -> tuple[Learner, Any, np.ndarray]:
    """A learner after a stream, round by round, and the stream."""
    learner, (X, y) = make(LABELS, **common), _stream(rows)
    _rounds(learner, X, y)
    return learner, X, y


def _twins(make: Make, **common: Any) -> tuple[Learner, Learner]:
    return make(LABELS, **common), make(LABELS, **common)


def _refusal(call: Callable[[], Any], name: str) -> str:
    """The message with which a call is refused."""
    try:
        call()
    except (TypeError, ValueError) as error:
        if len(str(error)) <= 10:
            raise AssertionError(f"{name}: the refusal says only {error}") from error
        return str(error)
    raise AssertionError(f"{name} should be refused")


_COUNTED = ("answered", "times_said")  # counts of answered rounds and of said labels


def _learned(learner: Learner) -> bytes:
    """The learned state: the arrays, without counts."""
    arrays = {name: a for name, a in saved_state(learner)[1].items() if name not in _COUNTED}
    return files.pack({}, arrays) + learner.table.state.memory.tobytes()


def it_answers_before_any_learning(make: Make) -> None:
    learner = make(LABELS)
    for x in (_row(learner, 0.5, 0, -2), ([3, 7], [1.0, 2.0]), _row(learner, *[0] * 4), {}):
        assert make(LABELS).decide(x).label in learner.labels
    # By default, names are hashed into more columns than a full matrix can have.
    hashing = make(LABELS, features=64)
    if not hashing.reader.way.columns:
        assert hashing.decide({"a": 1, "b": "red"}).label in learner.labels
    rows = [_row(learner, *numbers) for numbers in np.eye(3)]
    assert learner.predict(rows).shape == (3,)
    assert np.isfinite(learner.scores(rows)).all()


def deciding_and_predicting_change_nothing_learned(make: Make) -> None:
    learner, X, _ = _taught(make)
    before = _learned(learner)
    for i in range(20):
        learner.decide(_pair(X, i))
        learner.propensities(_pair(X, i))
    assert _learned(learner) == before, "decide or propensities changed the learned state"
    complete = state_bytes(learner)
    learner.predict(X)
    assert state_bytes(learner) == complete, "predict changed the learner"
    if learner.features is not None:  # the learner chose a width, and takes no wider rows
        return
    new = _with_new_features()
    for read in (learner.predict, learner.scores):
        read(new)
        assert state_bytes(learner) == complete, f"{read.__name__} changed the learner"
    for read in (learner.propensities, learner.explain, learner.propose):
        read(_pair(new, 0))
        assert state_bytes(learner) == complete, f"{read.__name__} changed the learner"


def features_that_never_occurred_count_as_in_a_decision(make: Make) -> None:
    learner, _, _ = _taught(make)
    if learner.features is not None:
        return
    new, wider = _with_new_features(), learner.copy()
    x, scores = _pair(new, 0), learner.scores(new)
    decision = learner.copy().decide(x)
    assert scores[0].argmax() == decision.greedy_place, "another label has the best score"
    wider.table.reserve_for(decision.row[0])  # as `decide` does
    assert np.array_equal(scores, wider.scores(new)), "other scores"
    assert (learner.propensities(x) == wider.propensities(x)).all(), "other propensities"
    explained = np.array([*learner.explain(x).scores.values()])
    assert np.array_equal(scores[0].astype(np.float64), explained), "other scores in explain"


def _with_new_features() -> Any:
    """A row with features that `_stream` does not have, and one that it has."""
    places = [0, 0, 0], [2, 5 * FEATURES, 5 * FEATURES + 3]
    return sparse.csr_matrix(([1.0, 2.0, -1.0], places), shape=(1, 6 * FEATURES))


def propensities_are_a_law(make: Make) -> None:
    learner, (X, y) = make(LABELS), _stream()
    for i in range(X.shape[0]):
        x = _pair(X, i)
        law = learner.propensities(x)
        assert (law >= 0).all(), f"negative propensity in {law}"
        assert abs(law.sum() - 1) < 1e-9, f"propensities sum to {law.sum()}"
        decision = learner.decide(x)
        assert 0 < decision.propensity <= 1
        assert abs(law[decision.place] - decision.propensity) < 1e-9, "propensity is not the law's"
        _teach(learner, decision, int(y[i]))


def propensities_match_frequencies(make: Make) -> None:
    learner, X, _ = _taught(make, 60)
    x, expected, seen = _pair(X, 1), np.zeros(LABELS), np.zeros(LABELS)
    for _ in range(DRAWS):
        expected += learner.propensities(x)
        seen[learner.decide(x).place] += 1
    spread = np.sqrt(expected * np.maximum(1 - expected / DRAWS, 0)) + 1e-6
    off = np.abs(seen - expected) / spread
    assert off.max() < 5, f"said {seen} times, expected {expected}"


def confidence_is_the_estimate_for_the_said_label(make: Make) -> None:
    """Only learners whose scores are estimates of the chance of being right have one."""
    learner, (X, y) = make(LABELS), _stream()
    for i in range(X.shape[0]):
        x = _pair(X, i)
        if learner.forecasts is None:
            decision = learner.decide(x)
            assert decision.confidence is None, "there is no estimate"
            _refusal(lambda x=x: learner.probabilities([x]), "scores that are no estimates")
        else:
            chances, explained = learner.probabilities([x])[0], learner.explain(x).probabilities
            decision = learner.decide(x)
            if decision.confidence is None:
                assert not len(decision.indices) and np.isnan(chances).all() and not explained
            else:
                assert 0 <= decision.confidence <= 1, f"a confidence of {decision.confidence}"
                assert decision.confidence == chances[decision.place], "another estimate"
                assert explained[decision.label] == decision.confidence, "explained otherwise"
        assert Decision.from_bytes(decision.to_bytes()).confidence == decision.confidence
        _teach(learner, decision, int(y[i]))


def the_same_seed_gives_the_same_run(make: Make) -> None:
    (first, second), (X, y) = _twins(make, seed=11), _stream()
    assert _rounds(first, X, y) == _rounds(second, X, y)
    assert state_bytes(first) == state_bytes(second)


def round_by_round_equals_the_whole_stream(make: Make) -> None:
    X, y = _stream()
    for dtype in ("float32", "float64"):
        by_round, whole = _twins(make, seed=3, dtype=dtype)
        said = np.array(_rounds(by_round, X, y))
        trace = simulate(whole, X, y, checkpoints=range(1, len(y) + 1))
        assert (np.diff(trace.mistakes, prepend=0) == (said != y)).all(), "other labels were said"
        assert state_bytes(by_round) == state_bytes(whole), f"other weights in {dtype}"


def lockstep_equals_runs_one_by_one(make: Make) -> None:
    X, y = _stream()
    for channel in ((), (LabelNoise(0.1), Silence(0.2))):
        learners = [make(LABELS, seed=seed) for seed in range(2)]
        learners += [_varied(make, learners[0], share, seed=5) for share in (0.3, 0.6, 0.9)]
        simulate(learners[1], X[:7], y[:7])  # learners may start from different states
        runs = sweep(learners, X, y, channel=channel, test=(X, y), threads=1)
        for learner, run in zip(learners, runs, strict=True):
            trace = simulate(learner, X, y, channel=channel)
            same = all((a == b).all() for a, b in zip(trace, run.trace, strict=True))
            assert same, "other counts in lockstep"
            error = (learner.predict(X) != y).mean()
            assert error == run.test_error, "other weights in lockstep"


def _varied(make: Make, learner: Learner, share: float, seed: int) -> Learner:
    """Another learner of the same class, with other numbers for settings."""
    kind: Any = type(learner)
    ranges = kind.ranges.items()
    varied = {name: range.at(share) for name, range in ranges if isinstance(range, Range)}
    if not varied:
        return make(LABELS, seed=seed)
    settings = {**learner.settings, **unsaved(learner), **varied}
    common = {"dtype": learner.table.dtype.name, "features": learner.features}
    return kind(LABELS, seed=seed, **common, **settings)


def dense_sparse_and_named_contexts_are_one(make: Make) -> None:
    X, y = _stream(60)
    learners, matrix = [make(LABELS, features=FEATURES) for _ in range(3)], X.toarray()
    for i in range(X.shape[0]):
        for learner, x in zip(learners, (matrix[i], _pair(X, i), X[i]), strict=True):
            _teach(learner, learner.decide(x), int(y[i]))
    assert len({state_bytes(learner) for learner in learners}) == 1
    named, hashed = _twins(make, features=64)
    if named.reader.way.columns:  # there are no columns of these names
        for x in ({"a": 1, "b": "red"}, "a text"):
            _refusal(functools.partial(named.decide, x), f"{x!r} instead of a dense row")
        return
    for i in range(40):
        x = {f"f{j}": float(v) for j, v in zip(*_pair(X, i), strict=True)} | {"day": str(i % 7)}
        decision = named.decide(x)
        again = hashed.decide(decision.row)  # which does not tell the kind of the context
        again = msgspec.structs.replace(again, kind=decision.kind)
        assert decision.label == again.label
        _teach(named, decision, int(y[i]))
        _teach(hashed, again, int(y[i]))
    assert state_bytes(named) == state_bytes(hashed)


def kinds_of_contexts_do_not_mix(make: Make) -> None:
    """Names are hashed to features, and must not meet columns."""
    if make(LABELS, features=64).reader.way.columns:  # the law before this one is enough
        return
    for taught, other in (("a late goal", ([1, 3], [0.5, 1.0])), ([0.5, 1.0] * 32, "a late goal")):
        learner = make(LABELS, features=64)
        early = learner.decide(other)  # nothing was learned yet
        _teach(learner, learner.decide(taught), 1)
        for judge in (learner, pickle.loads(pickle.dumps(learner))):
            calls: list[Callable[..., Any]] = [
                *(judge.decide, judge.propose, judge.propensities, judge.explain),
                lambda x, judge=judge: judge.predict([x]),
                lambda x, judge=judge: judge.scores([x]),
                lambda x, judge=judge: judge.learn_logged(x, 1, label=1),
                lambda x, judge=judge: judge.teach([x], [1]),
                lambda x, judge=judge: simulate(judge, [x], [1]),
                lambda x, judge=judge: sweep([judge], [x], [1]),
                lambda _, judge=judge, early=early: _teach(judge, early, 1),
            ]
            before = _learned(judge)
            for i, call in enumerate(calls):
                _refusal(functools.partial(call, other), f"{other!r} after {taught!r}, call {i},")
                assert _learned(judge) == before, f"refused call {i} changed the learner"
            judge.decide({})  # an empty context is of any kind


def an_empty_context_is_legal(make: Make) -> None:
    """Nothing is learned from it, but by learners that say so (`hears_empty`).

    Where columns are standardised, it is a row of zeros, and taught from as any other row.
    """
    learner, _, _ = _taught(make, 40)
    assert make(LABELS).decide({}).label in learner.labels
    before = _learned(learner)
    zeros = _row(learner, 0, 0, 0)
    for x in (zeros, ([], []), {}, sparse.csr_matrix((1, 4))):
        _teach(learner, learner.decide(x), 1)
    trace = simulate(learner, np.stack([zeros] * 9), np.arange(9) % LABELS)
    if learner.reader.way.columns or learner.hears_empty:
        assert _learned(learner) != before, "nothing was learned from empty contexts"
        return
    assert trace.updates[-1] == 0 and _learned(learner) == before, "something was learned"
    assert len(set(learner.scores([zeros])[0])) == 1, "an empty context has a favourite"


def saving_loading_and_going_on_equals_never_stopping(make: Make) -> None:
    through, X, y = _taught(make, seed=5)
    stopped = make(LABELS, seed=5)
    _rounds(stopped, X[:50], y[:50])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onebit"
        stopped.save(path)
        resumed = load(path, **unsaved(stopped))
    _rounds(resumed, X[50:], y[50:])
    assert state_bytes(resumed) == state_bytes(through)
    assert type(resumed) is type(through) and resumed.settings == through.settings


def copies_are_independent(make: Make) -> None:
    learner, X, y = _taught(make, 40)
    before = state_bytes(learner)
    for copy in (learner.copy(), pickle.loads(pickle.dumps(learner))):
        assert state_bytes(copy) == before
        _rounds(copy, X, y)
    assert state_bytes(learner) == before


def decisions_may_travel_and_come_back_late(make: Make) -> None:
    (here, away), (X, y) = _twins(make, seed=2), _stream(40)
    kept = [here.decide(_pair(X, i)) for i in range(40)]
    sent = [away.decide(_pair(X, i)).to_bytes() for i in range(40)]
    for i in np.random.default_rng(0).permutation(40).tolist():
        _teach(here, kept[i], int(y[i]))
        _teach(away, Decision.from_bytes(sent[i]), int(y[i]))
    assert state_bytes(here) == state_bytes(away)


def a_log_makes_the_same_learner_again(make: Make) -> None:
    """`redo` counts the decisions of a log again; proposals that nobody saw have no effect."""
    (live, again), (X, y) = _twins(make, seed=4), _stream(40)
    log, waiting = [], []
    for i in range(40):
        live.propose(_pair(X, (i + 5) % 40))
        decision = live.decide(_pair(X, i)) if i % 3 else live.redo((), live.propose(_pair(X, i)))
        log.append((i, decision.to_bytes()))
        waiting.append((i, decision))
        if i % 4 == 3:
            for j, late in (waiting.pop(), waiting.pop(0)):
                _teach(live, late, int(y[j]))
                log.append((j, None))
    made = {}
    for i, stored in log:
        if stored is not None:
            made[i] = again.redo((), Decision.from_bytes(stored))
        else:
            _teach(again, made[i], int(y[i]))
    assert state_bytes(live) == state_bytes(again), "the log made another learner"


def feedback_for_another_policy_teaches_the_same(make: Make) -> None:
    """`learn_logged` equals `learn`, if the learner would have said the same label."""
    (own, observer), (X, y) = _twins(make, seed=6), _stream(40)
    for i in range(40):
        decision = own.decide(_pair(X, i))
        _teach(own, decision, int(y[i]))
        feedback: dict[str, Any] = {"right": decision.label == y[i]}
        if own.full_information:
            feedback = {"label": int(y[i])}
        propensity = decision.propensity
        observer.learn_logged(_pair(X, i), decision.label, propensity=propensity, **feedback)
        for mine, learned in zip(_numbers(own), _numbers(observer), strict=True):
            np.testing.assert_allclose(mine, learned, rtol=1e-4, atol=1e-6)
    assert own.round == observer.round


def teaching_is_naming_labels_in_no_round(make: Make) -> None:
    """`teach` equals decisions for greedy labels and `learn(label=...)`; no round is counted."""
    (together, one_by_one), (X, y) = _twins(make, seed=13), _stream(40)
    for learner in (together, one_by_one):
        _teach(learner, learner.decide(_pair(X, 0)), int(y[0]))
    waiting = together.decide(_pair(X, 1)), one_by_one.decide(_pair(X, 1))
    together.teach(X, y)
    for i in range(40):
        teach_row(one_by_one, _pair(X, i), int(y[i]))
    for learner, decision in zip((together, one_by_one), waiting, strict=True):
        assert learner.round == 2, "taught contexts count as rounds"
        learner.learn(decision, label=int(y[1]))
    assert state_bytes(together) == state_bytes(one_by_one), "not as one by one"
    for i in range(40):
        taught, told = together.copy(), together.copy()
        decision = told.decide(_pair(X, i))
        if not decision.explored and decision.propensity == 1:
            told.learn(decision, label=int(y[i]))
            taught.teach([_pair(X, i)], [y[i]])
            assert _weights_of(taught) == _weights_of(told), "not as learn(label=...)"
    before = state_bytes(together)
    for contexts, labels in ((X, y[:1]), (X, [LABELS] * 40), ("a text", [1]), ({}, [1])):
        _refusal(functools.partial(together.teach, contexts, labels), "teaching these")
    together.teach([], [])
    assert state_bytes(together) == before, "a refused call changed the learner"


def _weights_of(learner: Learner) -> bytes:
    """The learned arrays, without the numbers by which rounds and alarms are counted."""
    arrays = saved_state(learner)[1]
    return files.pack({}, {n: a for n, a in arrays.items() if n not in (*_COUNTED, "memory")})


def _numbers(learner: Learner) -> list[np.ndarray]:
    arrays = saved_state(learner)[1]
    return [arrays[name] for name in sorted(arrays)]


def late_feedback_equals_the_stream_with_the_same_delay(make: Make) -> None:
    """Also, reading between decision and feedback changes nothing."""
    X, y = _stream(60)
    for delay in (0, 1, 7):
        rounds, stream = _twins(make, seed=8)
        rounds.table.reserve(
            FEATURES
        )  # as a stream does; the last bits of a full matrix depend on it
        waiting: list[Decision] = []
        for i in range(X.shape[0]):
            waiting.append(rounds.decide(_pair(X, i)))
            rounds.predict(X[3])
            rounds.scores(X[5])
            rounds.propensities(_pair(X, 7))
            if len(waiting) > delay:
                _teach(rounds, waiting.pop(0), int(y[i - delay]))
        simulate(stream, X, y, channel=[Delay(delay)])
        assert _learned(rounds) == _learned(stream), f"{delay} rounds late, other weights"


def a_forged_decision_is_refused_or_harmless(make: Make) -> None:
    """With any numbers in it, weights stay finite, and the model can be saved and loaded."""
    learner, X, y = _taught(make, 30, seed=12)
    for i, change in enumerate(forgeries()):
        decision = msgspec.structs.replace(learner.decide(_pair(X, 1 + i % 16)), **change)
        before = _learned(learner)
        try:
            _teach(learner, decision, int(y[1 + i % 16]))
        except ValueError as error:
            if len(str(error)) <= 10:
                raise AssertionError(f"{change}: the refusal says only {error}") from error
            assert _learned(learner) == before, f"{change}: refused, but something changed"
        assert np.isfinite(learner.scores(X)).all(), f"{change}: scores are not finite any more"
        copy = pickle.loads(pickle.dumps(learner))  # raises an error if it cannot be restored
        assert _learned(copy) == _learned(learner)


def forgeries() -> Iterable[dict[str, Any]]:
    """Changes to a decision that nobody makes by accident."""
    for name in ("propensity", "note", "other"):
        for number in (0.0, 1e-300, 1e-9, 0.3, 1.0, 7.0, -1.0, 1e9, 1e300, math.inf, math.nan):
            yield {name: number}
    for name in ("place", "greedy_place", "size"):
        for number in (-1, 0, 1, LABELS - 1, LABELS, 2**31, 2**62):
            yield {name: number}
    for label in range(LABELS):
        yield {"place": label, "label": label}
        yield {"greedy_place": label, "greedy": label}
    rows = [([1], [math.nan]), ([1, 0], [1.0, 1.0]), ([1, 1], [1.0, 1.0]), ([0, 1], [1.0])]
    rows += [([1], [1e30]), ([1], [0.0]), ([2**32 - 1], [1.0])]
    for indices, values in rows:
        for dtype in (np.float32, np.float64):
            yield {"row": (np.array(indices, np.uint32), np.array(values, dtype))}
    for row in ((np.ones((1, 1), np.uint32), np.ones((1, 1), np.float32)), ([1], [1.0]), None):
        yield {"row": row}
    for among in ((0, 9), (1, 1), (2, 0)):
        yield {"among": among}
    for round in (-1, 2**63):
        yield {"round": round}
    for kind in ("names", "pictures", None):
        yield {"kind": kind}


def feedback_twice_is_refused(make: Make) -> None:
    (learner, ahead), (X, y) = _twins(make, seed=6), _stream(40)
    decisions = [learner.decide(_pair(X, i)) for i in range(20)]
    future = [ahead.decide(_pair(X, i)) for i in range(40)][-1]
    for i in range(0, 20, 2):
        _teach(learner, decisions[i], int(y[i]))
    simulate(learner, X[20:30], y[20:30])
    restored = pickle.loads(pickle.dumps(learner))
    learner.forget(0.5)
    learner.add_label()
    for taught in (learner, restored):
        before = state_bytes(taught)
        for i in range(0, 20, 2):
            for decision in (decisions[i], Decision.from_bytes(decisions[i].to_bytes())):
                learn = functools.partial(taught.learn, decision, label=int(y[i]))
                said = _refusal(learn, f"round {i}, learned from twice,")
                assert f"round {i} " in said, f"the refusal says only {said}"
        assert state_bytes(taught) == before, "refused feedback changed the learner"
        for i in range(1, 20, 2):  # these are open
            _teach(taught, decisions[i], int(y[i]))
    _teach(restored, future, 0)  # made by a learner that was a few rounds ahead
    assert restored.round == future.round + 1, "it does not continue from that round"
    _refusal(lambda: _teach(restored, future, 0), "a decision of another process, learned twice,")
    _rounds(restored, X[30:], y[30:])


def a_refused_call_changes_nothing(make: Make) -> None:
    learner, X, y = _taught(make, 40, features=FEATURES)
    decision = learner.decide(_pair(X, 1))
    foreign = make(LABELS, features=FEATURES, seed=learner.seed + 1).decide(_pair(X, 1))
    wrong = np.full(FEATURES, np.inf if learner.reader.way.columns else np.nan)
    refused: list[Callable[[], Any]] = [
        lambda: learner.decide(wrong),
        lambda: learner.decide(np.ones(FEATURES + 1)),
        lambda: learner.decide(([1, 1], [1.0, 2.0])),
        lambda: learner.decide(([-1], [1.0])),
        lambda: learner.decide(np.ones(FEATURES) * 1j),
        lambda: learner.decide(np.array(["1"] * FEATURES)),
        lambda: learner.decide(b"text"),
        lambda: learner.decide(_pair(X, 1), among=[]),
        lambda: learner.decide(_pair(X, 1), among=["no such label"]),
        lambda: learner.learn(decision),
        lambda: learner.learn(decision, right="yes"),  # type: ignore[arg-type]
        lambda: learner.learn(decision, right=2),  # type: ignore[arg-type]
        lambda: learner.learn(decision, right=0.5),  # type: ignore[arg-type]
        lambda: learner.learn(decision, right=True, label=1),
        lambda: learner.learn(decision, label="no such label"),
        lambda: learner.learn(foreign, label=1),
        lambda: learner.learn(None, right=True),  # type: ignore[arg-type]
        lambda: learner.predict(np.vstack([X.toarray()[:2], wrong])),
        lambda: simulate(learner, np.vstack([X.toarray()[:2], wrong]), [0, 1, 2]),
        lambda: simulate(learner, X, y[:-1]),
        lambda: simulate(learner, X, np.full(len(y), LABELS)),
        lambda: learner.add_label(0),
    ]
    if learner.full_information:
        refused.append(lambda: learner.learn(decision, right=True))
    before = state_bytes(learner)
    for i, call in enumerate(refused):
        _refusal(call, f"call {i}")
        assert state_bytes(learner) == before, f"refused call {i} changed the learner"


def a_missing_number_is_refused_or_read_alike(make: Make) -> None:
    (learner, whole), (X, y) = _twins(make, features=FEATURES), _stream(40)
    rows = X.toarray()
    rows[::3, 1] = np.nan
    if not learner.reader.way.takes_gaps:
        _refusal(lambda: learner.decide(rows[0]), "a missing number")
        return
    for row, label in zip(rows, y, strict=True):
        _teach(learner, Decision.from_bytes(learner.decide(row).to_bytes()), int(label))
    simulate(whole, rows, y)
    assert state_bytes(learner) == state_bytes(whole), "other weights than in a stream"
    assert np.isfinite(learner.scores(rows)).all()


def only_possible_labels_are_said(make: Make) -> None:
    learner, (X, y) = make(LABELS), _stream()
    for i in range(60):
        among = [1, 3] if i % 2 else [4]
        law = learner.propensities(_pair(X, i), among=among)
        assert abs(law[among].sum() - 1) < 1e-9
        decision = learner.decide(_pair(X, i), among=among)
        assert decision.label in among and decision.greedy in among
        assert abs(law[decision.place] - decision.propensity) < 1e-9
        _teach(learner, Decision.from_bytes(decision.to_bytes()), int(y[i]))


def lists_of_one_label_are_decisions(make: Make) -> None:
    """Bit for bit. Learners without a sound rule for lists say why they show none."""
    (singly, listed), (X, y) = _twins(make, seed=3), _stream(40)
    if not listed.shows_lists:
        reason = _refusal(lambda: listed.decide(_pair(X, 1), show=1), "a list")
        assert "shows no lists: " in reason, f"the refusal says only {reason}"
        return
    for i in range(40):
        decision, one = singly.decide(_pair(X, i)), listed.decide(_pair(X, i), show=1)
        assert one.shown == (decision.label,), "another label is shown"
        assert one.propensity == decision.propensity, "another propensity"
        assert abs(one.propensities[0] - decision.propensity) < 1e-9, "another propensity"
        _teach(singly, decision, int(y[i]))
        if listed.full_information:
            listed.learn(one, label=int(y[i]))
        elif i % 2:
            listed.learn(one, right=decision.label == y[i])
        else:
            listed.learn(one, taken=decision.label if decision.label == y[i] else None)
    assert state_bytes(singly) == state_bytes(listed), "lists of one label teach something else"


def labels_are_in_lists_as_often_as_they_say(make: Make) -> None:
    learner, X, _ = _taught(make, 60)
    if not learner.shows_lists:
        return
    x, size = _pair(X, 1), LABELS - 2
    expected, seen = np.zeros(LABELS), np.zeros(LABELS)
    for _ in range(DRAWS):
        law = learner.propensities(x, show=size)
        assert abs(law.sum() - size) < 1e-9, f"the chances to be among {size} sum to {law.sum()}"
        decision = learner.decide(x, show=size)
        places = list(decision.places)
        assert len(set(places)) == size, f"a label is shown twice: {decision.shown}"
        assert np.abs(law[places] - decision.propensities).max() < 1e-9, "not those of the law"
        expected += law
        seen[places] += 1
    spread = np.sqrt(expected * np.maximum(1 - expected / DRAWS, 0)) + 1e-6
    assert (np.abs(seen - expected) < 5 * spread).all(), f"shown {seen}, expected {expected}"


def it_learns_from_the_bit_alone(make: Make) -> None:
    """Hidden labels may be permuted where the bit stays the same: nothing changes."""
    if make(LABELS).full_information:
        return
    (learner, twin), (X, y) = _twins(make, seed=4), _stream()
    said = np.array(_rounds(learner, X, y))
    hidden = np.where(y == said, y, (y + 1) % LABELS)
    hidden = np.where((y != said) & (hidden == said), (hidden + 1) % LABELS, hidden)
    assert ((hidden == said) == (y == said)).all() and (hidden != y).any()
    simulate(twin, X, hidden)
    assert state_bytes(learner) == state_bytes(twin), "the hidden label leaked"


def certainty_leaves_numbers(make: Make) -> None:
    """A label that is said with certainty, or named, makes no infinite step."""
    learner, (X, y) = make(LABELS), _stream(40)
    for i in range(X.shape[0]):
        _teach(learner, learner.decide(_pair(X, i), among=[i % LABELS]), i % LABELS)
        learner.learn(learner.decide(_pair(X, i)), label=int(y[i]))
        assert np.isfinite(learner.scores(X[i])).all() and np.isfinite(learner.weights).all()


def a_new_label_keeps_what_was_learned(make: Make) -> None:
    X, y = _stream()
    for labels in (LABELS - 1, 8, 16):
        learner = make(labels)
        _rounds(learner, X, y % labels)
        weights, scores = learner.weights, learner.scores(X)
        learner.add_label()
        if learner.shares_chances:  # scores change with the number of labels, weights do not
            assert np.allclose(learner.weights[:labels], weights, rtol=1e-6, atol=1e-9)
        else:
            assert np.allclose(learner.scores(X)[:, :labels], scores, rtol=1e-6, atol=1e-9)
        assert learner.labels == list(range(labels + 1))
        _rounds(learner, X, y)
        simulate(learner, X, y)


def forgetting_fades_what_was_learned(make: Make) -> None:
    learner, X, y = _taught(make, dtype="float64", features=FEATURES)
    before, round = _learned(learner), learner.round
    learner.forget(0)
    assert _learned(learner) == before, "forgetting nothing changed something"
    twice, once = learner.copy(), learner.copy()
    twice.forget(0.5)
    twice.forget(0.5)
    once.forget(0.75)
    assert np.allclose(twice.scores(X), once.scores(X), rtol=1e-6, atol=1e-9), "not in proportion"
    _rounds(once, X, y)  # and it can continue
    learner.forget()
    fresh = make(LABELS, dtype="float64", features=FEATURES)
    assert np.array_equal(learner.scores(X), fresh.scores(X)), "something was left"
    assert learner.round == round, "rounds were forgotten too"


def memory_is_bounded(make: Make) -> None:
    learner, (X, y) = make(LABELS), _stream()
    simulate(learner, X, y)
    size = len(_learned(learner))
    simulate(learner, X, y, epochs=EPOCHS)
    swing = learner.table.storage.swing(FEATURES)
    assert abs(len(_learned(learner)) - size) < 16 + swing, "it grows though no feature is new"
    assert len(learner.answers.bits) <= max(learner.round // 4, 64), "a round takes over two bits"
    number = np.dtype(learner.dtype).itemsize
    lanes, held = learner.table.state.table.shape[2], learner.table.storage.size(FEATURES, LABELS)
    features = FEATURES + (
        learner.reader.way.columns and learner.table.scales is not None
    )  # a constant
    assert learner.table.buffer.nbytes == learner.planes * lanes * features * number
    assert size <= 2 * learner.planes * LABELS * features * number + held + swing + 4096


LAWS: list[Callable[[Make], None]] = [
    it_answers_before_any_learning,
    deciding_and_predicting_change_nothing_learned,
    features_that_never_occurred_count_as_in_a_decision,
    propensities_are_a_law,
    propensities_match_frequencies,
    confidence_is_the_estimate_for_the_said_label,
    the_same_seed_gives_the_same_run,
    round_by_round_equals_the_whole_stream,
    lockstep_equals_runs_one_by_one,
    dense_sparse_and_named_contexts_are_one,
    kinds_of_contexts_do_not_mix,
    an_empty_context_is_legal,
    saving_loading_and_going_on_equals_never_stopping,
    copies_are_independent,
    decisions_may_travel_and_come_back_late,
    a_log_makes_the_same_learner_again,
    feedback_for_another_policy_teaches_the_same,
    teaching_is_naming_labels_in_no_round,
    late_feedback_equals_the_stream_with_the_same_delay,
    a_forged_decision_is_refused_or_harmless,
    feedback_twice_is_refused,
    a_refused_call_changes_nothing,
    a_missing_number_is_refused_or_read_alike,
    only_possible_labels_are_said,
    lists_of_one_label_are_decisions,
    labels_are_in_lists_as_often_as_they_say,
    it_learns_from_the_bit_alone,
    certainty_leaves_numbers,
    a_new_label_keeps_what_was_learned,
    forgetting_fades_what_was_learned,
    memory_is_bounded,
]


def assert_compiled_equals_plain(learners: Iterable[Learner]) -> None:
    """Run each fresh learner here and in another process, once compiled and once uncompiled.

    Results must be the same bits in float64, and equal up to rounding in float32.
    """
    learners = list(learners)
    X, y = _stream()
    modules = sorted({type(learner).__module__ for learner in learners})
    job = pickle.dumps((modules, pickle.dumps((learners, X, y))))
    code = "from onebit import testing; testing._run_elsewhere()"
    here = os.pathsep.join(filter(None, sys.path))  # where the user's learners are found
    env = {**os.environ, "PYTHONPATH": here, "NUMBA_DISABLE_JIT": "1" if COMPILED else "0"}
    done = subprocess.run([sys.executable, "-c", code], input=job, capture_output=True, env=env)
    assert done.returncode == 0, done.stderr.decode()
    for learner, (twin, mistakes) in zip(learners, pickle.loads(done.stdout), strict=True):
        name = f"{type(learner).__name__} in {learner.dtype}"
        errors = _mistakes_and_lists(learner, X, y)
        assert learner.settings == twin.settings
        if learner.dtype == "float64":
            assert state_bytes(learner) == state_bytes(twin), f"{name}: compiled and plain differ"
            assert (errors == mistakes).all()
        else:
            ours, theirs = saved_state(learner)[1], saved_state(twin)[1]
            assert ours.keys() == theirs.keys(), name
            for part, array in ours.items():
                same = array.shape == theirs[part].shape
                same = same and np.allclose(array, theirs[part], rtol=1e-4, atol=1e-5)
                assert same, f"{name}: compiled and plain differ in {part}"


def _mistakes_and_lists(learner: Learner, X: Any, y: np.ndarray) -> np.ndarray:
    """Run a stream and then a few rounds with lists. Returns the mistakes of the stream."""
    mistakes = simulate(learner, X, y).mistakes
    for i in range(10 if learner.shows_lists else 0):
        decision, label = learner.decide(_pair(X, i), show=2), int(y[i])
        if learner.full_information:
            learner.learn(decision, label=label)
        else:
            learner.learn(decision, taken=label if label in decision.shown else None)
    return mistakes


def _run_elsewhere() -> None:
    modules, job = pickle.loads(sys.stdin.buffer.read())
    for module in modules:
        importlib.import_module(module)
    learners, X, y = pickle.loads(job)
    done = [(learner, _mistakes_and_lists(learner, X, y)) for learner in learners]
    sys.stdout.buffer.write(pickle.dumps(done))
