"""What all tests share."""

from __future__ import annotations

import re
from importlib.util import find_spec
from zlib import crc32

import pytest

from onebit.learner.learner import Learner

LEARNER = re.compile(rf"\[.*?\b({'|'.join(Learner.registry)})\b")


def pytest_addoption(parser):
    parser.addoption("--part", metavar="I/N", default="1/1", help="run the I-th of N parts")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Tests of one learner, which compile the same functions, are in one group; those of none, by
    file. `--dist loadgroup` runs a group in one process, and a group is in one part."""
    part, parts = map(int, config.getoption("--part").split("/"))
    chosen, others = [], []
    for item in items:
        learner = LEARNER.search(item.nodeid)
        group = learner[1] if learner else item.path.stem
        item.add_marker(pytest.mark.xdist_group(group))
        (chosen if crc32(group.encode()) % parts == part - 1 else others).append(item)
    items[:] = chosen
    config.hook.pytest_deselected(items=others)


@pytest.fixture
def engine(request):
    """Where a study runs."""
    if request.param in ("dask", "ray") and find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed; ./run test --slow installs it")
    return request.param
