"""One door for values: in process, from a data frame, by both clients and over HTTP alike."""

from __future__ import annotations

import asyncio
import datetime
import enum
import math
import pathlib
import uuid
from collections import OrderedDict, namedtuple
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from helpers.serving import serving
from scipy import sparse

import onebit as ob
from onebit.client import AsyncClient, Client
from onebit.reading.plain_contexts import plain_context
from onebit.service.configuration import check
from onebit.service.faults import ServiceError
from onebit.service.service import Service

CONFIGURATION = """
[service]
journal = "news.journal"
[models.news]
labels = ["sport", "tech"]
learner = "Banditron"
"""


class Size(enum.IntEnum):
    LARGE = 3


class Team(enum.StrEnum):
    A = "team a"


class Colour(enum.Enum):
    RED = "red"


ABSENT = object()
A_DAY = datetime.date(2026, 11, 19)
VALUES = {  # what a feature may be, and what it is read as: JSON, ABSENT or a refusal
    "float": (1.5, 1.5),
    "int": (3, 3),
    "a large int": (2**60 + 1, ValueError),  # float32 takes up to 1e15
    "a huge int": (10**400, ValueError),
    "a small int": (-7, -7),
    "bool": (True, True),
    "Decimal": (Decimal("1.5"), 1.5),
    "Decimal that is NaN": (Decimal("NaN"), ABSENT),
    "Fraction": (Fraction(3, 2), 1.5),
    "float16": (np.float16(0.5), 0.5),
    "float32": (np.float32(0.1), float(np.float32(0.1))),
    "float64": (np.float64(2.5), 2.5),
    "longdouble": (np.longdouble(2.5), 2.5),
    "int8": (np.int8(-3), -3),
    "uint64": (np.uint64(12), 12),
    "numpy's bool": (np.bool_(True), True),
    "numpy's str": (np.str_("a b"), "a b"),
    "IntEnum": (Size.LARGE, 3),
    "StrEnum": (Team.A, "team a"),
    "None": (None, None),
    "NaN": (math.nan, ABSENT),
    "numpy's NaN": (np.float32("nan"), ABSENT),
    "pandas' NA": (pd.NA, ABSENT),
    "pandas' NaT": (pd.NaT, ABSENT),
    "a category": ("red", "red"),
    "a text": ("the screen stays black", "the screen stays black"),
    "an empty string": ("", ""),
    "infinity": (math.inf, ValueError),
    "numpy's infinity": (np.float32("-inf"), ValueError),
    "half of a surrogate pair": ("\ud800", ValueError),
    "Enum": (Colour.RED, TypeError),
    "date": (A_DAY, TypeError),
    "datetime": (datetime.datetime(2026, 11, 19, 9), TypeError),
    "time": (datetime.time(9, 30), TypeError),
    "timedelta": (datetime.timedelta(hours=1), TypeError),
    "datetime64": (np.datetime64("2026-11-19"), TypeError),
    "timedelta64": (np.timedelta64(1, "h"), TypeError),
    "Timestamp": (pd.Timestamp("2026-11-19"), TypeError),
    "UUID": (uuid.UUID(int=7), TypeError),
    "Path": (pathlib.PurePosixPath("a/b"), TypeError),
    "bytes": (b"abc", TypeError),
    "bytearray": (bytearray(b"abc"), TypeError),
    "complex": (1j, TypeError),
    "list": ([1.0, 2.0], TypeError),
    "tuple": ((1.0, 2.0), TypeError),
    "set": ({1.0}, TypeError),
    "dict": ({"b": 1.0}, TypeError),
    "array": (np.arange(400.0), TypeError),
    "array of one": (np.array([1.0]), TypeError),
    "array of none": (np.array(1.0), TypeError),
    "object": (object(), TypeError),
    "class": (int, TypeError),
}


Named = namedtuple("Named", "goal team")
ROW = [0.5, 2.0, 0.0]
CONTEXTS = {  # and whole contexts
    "a text": ("a late goal", "a late goal"),
    "StrEnum": (Team.A, "team a"),
    "numpy's str": (np.str_("a goal"), "a goal"),
    "dict": ({"goal": 1, "team": "A"}, {"goal": 1, "team": "A"}),
    "OrderedDict": (OrderedDict(goal=1, team="A"), {"goal": 1, "team": "A"}),
    "named tuple": (Named(1, "A"), {"goal": 1, "team": "A"}),
    "row of a frame": (pd.Series({"goal": 1, "team": "A"}), {"goal": 1, "team": "A"}),
    "frame of a row": (pd.DataFrame({"goal": [1], "team": ["A"]}), {"goal": 1, "team": "A"}),
    "empty dict": ({}, {}),
    "list": (ROW, ROW),
    "list of bools": ([True, 0.5, False], [True, 0.5, False]),
    "list of Decimals": ([Decimal("0.5"), Fraction(2), False], [0.5, 2.0, 0.0]),
    "array": (np.array(ROW), ROW),
    "array of float32": (np.array(ROW, np.float32), ROW),
    "array of bools": (np.array([True, False, True]), [1.0, 0.0, 1.0]),
    "array of objects": (np.array([0.5, 2, Decimal(0)], object), ROW),
    "array of one row": (np.array([ROW]), ROW),
    "list of one row": ([ROW], ROW),
    "column": (pd.Series(ROW).array, ROW),
    "pair": (([0, 3], [1.0, 2.0]), [[0, 1.0], [3, 2.0]]),
    "pair of arrays": ((np.array([3, 0]), np.array([2, 1])), [[0, 1.0], [3, 2.0]]),
    "pair of Decimals": (([3], [Decimal("0.5")]), [[3, 0.5]]),
    "sparse row": (sparse.csr_matrix([[0, 1.5, 0, 2]]), [[1, 1.5], [3, 2.0]]),
    "sparse array": (sparse.csr_array([[0, 1.5, 0, 2]]), [[1, 1.5], [3, 2.0]]),
    "None": (None, TypeError),
    "a number": (5, ValueError),
    "bytes": (b"a goal", TypeError),
    "date": (A_DAY, TypeError),
    "UUID": (uuid.UUID(int=7), TypeError),
    "set": ({1.0, 2.0}, TypeError),
    "iterator": (iter([1.0, 2.0]), TypeError),
    "texts": (["a goal", "a match"], TypeError),
    "dates": ([A_DAY, A_DAY], TypeError),
    "dicts": ([{"goal": 1}, {"goal": 2}], TypeError),
    "matrix": ([[0, 1.0], [3, 2.0]], ValueError),
    "matrix of arrays": (np.ones((2, 3)), ValueError),
    "three things": ((1.0, 2.0, 3.0), ValueError),
    "two texts": (("a goal", "a match"), TypeError),
    "pair with a negative index": (([-1], [1.0]), ValueError),
    "pair of different lengths": (([1, 2], [1.0]), ValueError),
    "pair with a float for an index": (([1.0], [1.0]), TypeError),
    "infinity": ([1.0, math.inf], ValueError),
    "names that are no strings": ({1: 2.0}, TypeError),
    "a name that is missing": ({None: 2.0}, TypeError),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("values") / "news.toml"
    path.write_text(CONFIGURATION)
    with serving(Service(check(path))) as made:
        yield made


def read(context):
    """How a learner reads a context, or the kind of its refusal."""
    try:
        decision = ob.Banditron(["sport", "tech"]).decide(context)
    except (TypeError, ValueError) as error:
        return TypeError if isinstance(error, TypeError) else ValueError
    return decision.kind, decision.indices.tolist(), decision.values.tolist()


def by_client(site, context):
    with Client(site.url) as client:
        return read_back(client.decide("news", context).id, site)


def by_async_client(site, context):
    async def decide():
        async with AsyncClient(site.url) as client:
            return (await client.decide("news", context)).id

    return read_back(asyncio.run(decide()), site)


def in_engine(site, context):
    return read_back(site.service.models["news"].decide(context).id, site)


def read_back(id, site):
    """How a learner reads what the journal has of a decision."""
    kept = site.service.models["news"].look(id).context
    if isinstance(kept, list) and any(isinstance(entry, list) for entry in kept):
        kept = tuple(map(list, zip(*kept, strict=True)))
    return read(kept)


def through(door, site, context):
    try:
        return door(site, context)
    except ServiceError:  # a refusal of the service has one kind
        return ServiceError
    except (TypeError, ValueError) as error:
        return TypeError if isinstance(error, TypeError) else ValueError


def check_alike(site, context, expected):
    if isinstance(expected, type):
        assert read(context) is expected
    elif expected is not None:
        pairs = isinstance(expected, list) and expected and isinstance(expected[0], list)
        plain = tuple(map(list, zip(*expected, strict=True))) if pairs else expected
        assert read(context) == read(plain)
        body = {"context": expected}
        response = site.http.post("/v1/models/news/decisions", json=body)
        assert response.status_code == 201, response.text
        assert read_back(response.json()["id"], site) == read(context)
    are_pairs = type(context) is list and any(isinstance(entry, list) for entry in context)
    doors = (by_client, by_async_client) if are_pairs else (by_client, by_async_client, in_engine)
    for door in doors:  # the engine takes a list of lists for the pairs of a request
        found = through(door, site, context)
        if isinstance(expected, type):
            assert found in (expected, ServiceError), f"{door.__name__}: {found}"
        else:
            assert found == read(context), door.__name__


@pytest.mark.parametrize("name", VALUES)
def test_a_value_means_the_same_everywhere(site, name):
    value, expected = VALUES[name]
    plain = expected
    if not isinstance(expected, type):
        plain = {"n": 1.0} if expected is ABSENT else {"n": 1.0, "a": expected}
    check_alike(site, {"n": 1.0, "a": value}, plain)


@pytest.mark.parametrize("name", VALUES)
def test_a_cell_of_a_frame_is_the_value_of_a_dict(name):
    value, expected = VALUES[name]
    frame = pd.DataFrame({"a": pd.Series([value, "x"], dtype=object), "t": ["y", "z"]})
    row = read({"a": value, "t": "y"})
    assert isinstance(row, type) == isinstance(expected, type)
    assert read(frame.iloc[0]) == row
    assert read(frame.iloc[:1]) == row
    if isinstance(row, type):
        with pytest.raises(row):
            ob.Banditron(2).predict(frame)
    else:
        assert ob.Banditron(2).rows(frame).indices[: len(row[1])].tolist() == row[1]


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_means_the_same_everywhere(site, name):
    check_alike(site, *CONTEXTS[name])


def test_gaps_in_rows(site):
    """A learner that takes no gaps refuses them; what is sent has them as null."""
    for row in ([1.0, math.nan], [1.0, None], np.array([1.0, np.nan]), [1.0, pd.NA]):
        assert plain_context(row) == [1.0, None]
        assert read(row) is ValueError
        assert through(by_client, site, row) is ServiceError


def test_a_row_of_numbers_of_a_frame_has_names_that_an_array_has_not():
    with pytest.raises(TypeError, match=r"row.to_dict\(\)"):
        plain_context(pd.Series({"a": 1.0, "b": 2.0}))


def test_a_row_of_a_table_from_a_file_has_lost_its_names(tmp_path):
    (tmp_path / "a.csv").write_text("a,b,label\n" + "1,x,p\n2,y,q\n" * 9)
    data = ob.datasets.read(tmp_path / "a.csv")
    with pytest.raises(TypeError, match="give the row as a dict"):
        plain_context(data.X[0])


RIGHT = {
    "True": (True, True),
    "False": (False, False),
    "1": (1, True),
    "0": (0, False),
    "numpy's True": (np.bool_(True), True),
    "numpy's 0": (np.int8(0), False),
    "1.0": (1.0, TypeError),
    "2": (2, TypeError),
    "-1": (-1, TypeError),
    "a string": ("true", TypeError),
    "Decimal": (Decimal(1), TypeError),
    "numpy's 1.0": (np.float64(1), TypeError),
    "a list": ([True], TypeError),
}


def heard(site, id):
    return site.service.models["news"].look(id).feedback[0].right


@pytest.mark.parametrize("name", RIGHT)
def test_right_means_the_same_everywhere(site, name):
    given, expected = RIGHT[name]
    is_refused = expected is TypeError
    learner, news = ob.Banditron(["sport", "tech"]), site.service.models["news"]
    ids = [news.decide({"a": 1}).id for _ in range(4)]

    async def by_async_client():
        async with AsyncClient(site.url) as client:
            await client.feedback(ids[1], right=given)

    with Client(site.url) as client:
        calls = [
            lambda: client.feedback(ids[0], right=given),
            lambda: asyncio.run(by_async_client()),
            lambda: news.feedback(ids[2], right=given),
            lambda: client.feedback_many([{"id": ids[3], "right": given}]),
            lambda: learner.learn(learner.decide({"a": 1}), right=given),
            lambda: learner.learn_logged({"a": 1}, "tech", right=given),
        ]
        for call in calls:
            if is_refused:
                with pytest.raises((TypeError, ServiceError)):
                    call()
            else:
                call()
    if not is_refused:
        assert [heard(site, id) for id in ids] == [expected] * 4
    if type(given) in (bool, int, float, str, list):
        id = news.decide({"a": 1}).id
        response = site.http.post(f"/v1/decisions/{id}/feedback", json={"right": given})
        assert response.is_success != is_refused
        assert is_refused or heard(site, id) is expected
