"""What all tests share.

Tests run as plain Python, which starts at once, unless the environment has NUMBA_DISABLE_JIT=0.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from zlib import crc32

import pytest

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")  # numba reads it once, when it is imported


def pytest_addoption(parser):
    parser.addoption("--part", metavar="I/N", default="1/1", help="run the I-th of N parts")


def pytest_report_header():
    from onebit.core.jit import COMPILED

    way = "compiled" if COMPILED else "as plain Python (compiled: NUMBA_DISABLE_JIT=0)"
    return f"onebit: tests run {way}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """`--dist loadgroup` runs a group of tests in one process, and a group is in one part."""
    from helpers.groups import group_of

    part, parts = map(int, config.getoption("--part").split("/"))
    chosen, others = [], []
    for item in items:
        group = group_of(item.nodeid)
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
