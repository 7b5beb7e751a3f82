"""The reader: contexts come through it, and it changes only when it is told to remember."""

from copy import copy

import numpy as np
import pytest

import onebit as ob
from onebit.reading.rows import COLUMNS, NAMES
from onebit.reading.ways import Apart, Columns, Open, Raw, Unit

CONTEXTS = {
    "text": "two words",
    "dict": {"age": 3.0, "city": "Rome"},
    "pair": ([1, 4], [0.5, -1.0]),
    "dense": [0.5, 0.0, 2.0],
}
WAYS = {
    "raw": (lambda: ob.Banditron(2), Raw),
    "unit": (lambda: ob.Banditron(2, inputs="unit"), Unit),
    "sparse": (lambda: ob.Banditron(2, inputs="sparse"), Apart),
    "auto": (lambda: ob.Banditron(2, inputs="auto"), Open),
    "dense": (lambda: ob.Banditron(2, inputs="dense", features=3), Columns),
    "OneBit": (lambda: ob.OneBit(2), Open),
    "OneBit, sparse": (lambda: ob.OneBit(2, inputs="sparse"), Apart),
    "OneBit, dense": (lambda: ob.OneBit(2, inputs="dense", features=3), Columns),
}


@pytest.mark.parametrize(("make", "way"), WAYS.values(), ids=WAYS)
def test_each_setting_of_inputs_has_its_way(make, way):
    assert type(make().reader.way) is way


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", WAYS)
def test_reading_changes_nothing_and_gives_the_row_of_the_decision(name, context):
    learner, x = WAYS[name][0](), CONTEXTS[context]
    if "dense" in name and context in ("text", "dict"):
        with pytest.raises(ValueError, match="takes dense rows of 3 columns"):
            learner.reader.check([x] if context == "pair" else x, learner)
        return
    if "dense" in name and context == "pair":
        x = ([0, 2], [0.5, -1.0])
    before = copy(learner.reader)
    row, kind, _, columns, _ = learner.reader.one(x, learner)
    learner.reader.check(x, learner)
    many = learner.reader.many([x], learner)
    assert vars(learner.reader) == vars(before)
    decision = learner.decide(x)
    for read in (row, many[:2]):
        assert all(map(np.array_equal, read, decision.row))
    assert kind == decision.kind == (NAMES if context in ("text", "dict") else COLUMNS)
    assert learner.reader.columns == (3 if context == "dense" else before.columns)
    assert columns == (3 if context == "dense" and not before.columns else 0)


def test_an_open_way_becomes_columns_with_the_first_dense_row():
    learner = ob.Banditron(2, inputs="auto")
    learner.decide("a text from which nothing is learned")
    assert learner.reader.way.is_open
    decision = learner.decide([1.0, np.nan, 2.0])
    assert learner.reader.way.columns == learner.reader.columns == 3
    assert decision.row[1].dtype == np.float64 and np.isnan(decision.row[1][1])
    learner.learn(decision, right=True)
    assert learner.reader.taught_with == COLUMNS
    learner.forget()
    assert not learner.reader.taught_with and learner.reader.way.columns == 3


def test_a_proposal_leaves_the_reader_as_it_was():
    learner = ob.Banditron(2)
    learner.decide("a text")
    before = vars(copy(learner.reader))
    learner.propose([1.0, 2.0])
    assert vars(learner.reader) == before
    learner.decide([1.0, 2.0])
    assert learner.reader.columns == 2
