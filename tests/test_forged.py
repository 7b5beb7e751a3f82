"""Decisions built field by field, with a right checksum: refused or harmless.

ONEBIT_FUZZ=100000 pytest tests/test_forged.py makes so many tries over all learners together.
"""

from __future__ import annotations

import hashlib
import math
import os
import random

import msgspec
import numpy as np
import pytest
from helpers.makers import MAKERS

import onebit as ob
from onebit import testing
from onebit.learner import decision as decisions
from onebit.learner import files
from onebit.learner.copies import unsaved
from onebit.learner.files import restore
from onebit.learner.learner import Learner
from onebit.testing import model_bytes

TRIES = max(int(os.environ.get("ONEBIT_FUZZ", "1000")) // len(MAKERS), 1)
NUMBERS = [0.0, -0.0, 5e-324, 1e-300, 2.0**-61, 1e-9, 0.05, 0.2, 0.5, 0.96, 1.0, 1.5, -1.0, 7.0]
NUMBERS += [4.0, 1e9, 1e30, 1e38, 1e120, 1e300, math.inf, -math.inf, math.nan]
COUNTS = [-1, 0, 1, 2, 4, 5, 6, 100, 2**31, 2**53, 2**62, 2**63 - 1]
ROUNDS = [*COUNTS, 10, 1000, 10**6, 2**40]


def sealed(fields: dict) -> bytes:
    """The bytes of a decision with these fields, and a right checksum."""
    body = decisions._MAGIC + msgspec.msgpack.encode([fields[name] for name in FIELDS])
    return body + hashlib.blake2b(body, digest_size=decisions._DIGEST).digest()


FIELDS = decisions._Stored.__struct_fields__


def fields_of(decision: ob.Decision) -> dict:
    body = decision.to_bytes()[len(decisions._MAGIC) : -decisions._DIGEST]
    return dict(zip(FIELDS, msgspec.msgpack.decode(body), strict=True))


def test_what_is_sealed_is_read_again():
    decision = ob.Banditron(3).decide([1.0, 2.0])
    again = ob.Decision.from_bytes(sealed(fields_of(decision)))
    assert again.to_bytes() == decision.to_bytes()


def row(draw: random.Random, dtype: str) -> tuple[bytes, bytes]:
    size = draw.choice([0, 1, 2, 5, 12])
    indices = sorted(draw.sample(range(testing.FEATURES), size))
    values = [draw.choice([*NUMBERS, draw.gauss(0, 1), draw.gauss(0, 1)]) for _ in indices]
    if draw.random() < 0.2:
        indices = [draw.choice([0, 3, 2**24, 2**32 - 1]) for _ in indices]
    if draw.random() < 0.2:
        values = values[1:]
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(indices, "<u4").tobytes(), np.array(values).astype(dtype).tobytes()


def forged(draw: random.Random, fields: dict) -> dict:
    """A few fields are changed: by extremes, or by what could be there."""
    fields = dict(fields)
    for name in draw.sample(FIELDS, draw.choice([1, 1, 2, 3])):
        if name in ("label", "greedy"):
            fields[name] = draw.choice([0, 1, 2, 3, 4, 9, "sport"])
        elif name in ("place", "greedy_place"):
            fields[name] = draw.choice(COUNTS)
            if 0 <= fields[name] < testing.LABELS:
                fields["label" if name == "place" else "greedy"] = fields[name]
        elif name == "size":
            fields[name] = draw.choice(COUNTS)
        elif name == "round":
            fields[name] = draw.choice(ROUNDS)
        elif name in ("propensity", "note", "other"):
            near = fields[name] * draw.choice([0.5, 1 - 1e-6, 1 + 1e-12, 2.0])
            fields[name] = draw.choice([*NUMBERS, near, draw.random()])
        elif name == "among":
            some = draw.sample(range(testing.LABELS + 1), draw.choice([0, 1, 2, 5]))
            fields[name] = draw.choice([sorted(some), some, None])
        elif name == "origin":
            fields[name] = draw.choice([b"", b"12345678", fields[name]])
        elif name == "dtype":
            fields[name] = draw.choice(["float32", "float64", "int8", "object"])
        elif name in ("indices", "values"):
            fields["indices"], fields["values"] = row(draw, fields["dtype"])
        elif name == "salt":
            fields[name] = draw.choice(["", "web-1", "x" * 1000, "\0"])
    return fields


@pytest.mark.untraced
@pytest.mark.parametrize("make", MAKERS)
def test_a_forged_decision_is_refused_or_harmless(make, request):
    draw = random.Random(request.node.name)
    learner, (X, y) = make(testing.LABELS, seed=1), testing._stream(40)
    fresh = learner.copy()
    for i in range(TRIES):
        if i % 200 == 0 or learner.round > 10**9:
            learner = fresh.copy()
            testing._rounds(learner, X, y)
        decision = learner.decide(testing._pair(X, draw.randrange(40)))
        fields = forged(draw, fields_of(decision))
        feedback = draw.choice([{"right": True}, {"right": False}, {"label": 1}])
        if learner.full_information:
            feedback = {"label": draw.randrange(testing.LABELS)}
        before = testing.state_bytes(learner)
        try:
            learner.learn(ob.Decision.from_bytes(sealed(fields)), **feedback)
        except ValueError:
            assert testing.state_bytes(learner) == before, fields
        harmless(learner, X, fields)


def harmless(learner: Learner, X, fields: dict) -> None:
    """What is left works: scores are numbers, and the model can be saved and loaded."""
    assert np.isfinite(learner.scores(X)).all() and np.isfinite(learner.weights).all(), fields
    head, arrays = files.unpack(model_bytes(learner))
    restore(head, arrays, unsaved(learner), type(learner), is_foreign=True)


def test_save_refuses_what_load_would_refuse(tmp_path):
    path, learner = tmp_path / "m.onebit", ob.Banditron(3)
    learner.learn(learner.decide([1.0, 2.0]), right=True)
    learner.save(path)
    good = path.read_bytes()
    learner.table.state.table[0, 0, 1] = np.inf
    with pytest.raises(ValueError, match="not all finite"):
        learner.save(path)
    assert path.read_bytes() == good, "the good model is lost"


def by_hand(decision, **changes):
    return msgspec.structs.replace(decision, **changes)


def test_a_decision_made_by_hand_is_refused():
    learner = ob.FastCB(5)
    decision = learner.decide(([1, 2], [1.0, 2.0]))
    million, ones = np.arange(5 * 10**6, dtype=np.uint32), np.ones(10, np.float32)
    for changes in (
        {"row": (million, ones)},
        {"row": (million[::2][:10], ones)},
        {"row": (million[9::-1], ones[::-1])},
        {"row": (decision.indices, decision.values.astype(np.float64))},
        {"row": (decision.indices, decision.values.astype(np.int32))},
        {"row": (decision.indices.astype(np.int64), decision.values)},
        {"row": (None, decision.values)},
        {"row": (decision.indices, memoryview(decision.values))},
        {"row": (decision.indices,)},
        {"row": None},
        {"place": "1"},
        {"place": None},
        {"round": "now"},
        {"size": 10**30},
        {"round": 10**30},
        {"propensity": None},
        {"among": [1, 2]},
        {"salt": None},
        {"salt": 7},
    ):
        before = testing.state_bytes(learner)
        with pytest.raises((ValueError, TypeError), match=" "):
            learner.learn(by_hand(decision, **changes), right=True)
        assert testing.state_bytes(learner) == before, changes
    learner.learn(decision, right=True)


def test_the_row_of_a_matrix_is_not_read_beyond_its_end():
    """A note says which label was the rival: it is checked before it is an index."""
    learner = ob.SOBA(5, form="full")
    decision = learner.decide(([1, 2], [1.0, 2.0]))
    for rival in (7.0, 5.0, -1.0, 2.5):
        with pytest.raises(ValueError, match="no SOBA can have made this decision"):
            learner.learn(by_hand(decision, note=rival, other=0.0), right=True)


CHECKED = ["Banditron", "BPA", "EGBandit", "EpsilonGreedy", "PNormBandit", "RCINE", "RCNBF", "SOBA"]
CHECKED += ["PNewtron", "Newtron", "Confidit", "UCWL", "BanditPerceptron", "UniformRandom"]


@pytest.mark.parametrize("name", CHECKED)
def test_a_changed_propensity_is_refused(name):
    learner = getattr(ob, name)(5)
    decision = learner.decide(([1, 2], [1.0, 2.0]))
    for propensity in (decision.propensity * 0.9, 0.31, 1e-9):
        with pytest.raises(ValueError, match=f"no {name} can have made this decision"):
            learner.learn(by_hand(decision, propensity=propensity), right=True)
    learner.learn(decision, right=True)


@pytest.mark.parametrize("half_life", [None, 64])
@pytest.mark.parametrize("round", [2**62 - 1, 2**62, 2**63, 2 * 10**9, -1, 1.5, True, "now"])
def test_a_round_that_nobody_has_come_to_is_refused(round, half_life):
    learner = ob.Banditron(3, half_life=half_life)
    decision = learner.decide([1.0, 2.0])
    with pytest.raises(ValueError, match=r"round|whole numbers"):
        learner.learn(by_hand(decision, round=round), right=True)
    assert learner.round == 1
    learner.learn(decision, right=True)
    assert learner.decide([1.0, 2.0]).round == 1


def test_a_learner_goes_on_after_the_furthest_round_that_is_believed():
    learner = ob.Banditron(3, half_life=10**6)
    decision = learner.decide([1.0, 2.0])
    learner.learn(by_hand(decision, round=10**9), right=True)
    assert learner.decide([1.0, 2.0]).round == 10**9 + 1
    assert learner.copy().decide([1.0, 2.0]).round == 10**9 + 2


@pytest.mark.parametrize(
    ("kernel", "scale"),
    [("polynomial(degree=3)", 1e3), ("polynomial(degree=4)", 300.0), ("linear", 1e6)],
)
def test_a_kernel_newtron_takes_back_its_own_decisions(kernel, scale):
    learner = ob.Newtron(3, kernel=kernel, budget=30)
    for i, x in enumerate(np.random.default_rng(0).normal(size=(60, 6)) * scale):
        learner.learn(learner.decide(x), right=i % 3 == 0)


def test_feedback_that_is_refused_fades_nothing():
    learner = ob.Banditron(3, half_life=16, features=5)
    learner.learn(learner.decide(np.ones(5)), right=True)
    decision, before = learner.decide(np.ones(5)), testing.state_bytes(learner)
    row = np.array([10], np.uint32), np.ones(1, np.float32)
    with pytest.raises(ValueError, match="index 10 is beyond"):
        learner.learn(by_hand(decision, row=row, round=500), right=True)
    assert testing.state_bytes(learner) == before
