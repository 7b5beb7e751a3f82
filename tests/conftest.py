"""What all tests share."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from onebit.learner import Learner

# Those of one learner compile the same functions.
LEARNER = re.compile(rf"\[.*?\b({'|'.join(Learner.registry)})\b")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """`pytest -n 2 --dist loadgroup` hands tests out by learner; tests of none, by file."""
    for item in items:
        found = LEARNER.search(item.nodeid)
        item.add_marker(pytest.mark.xdist_group(found[1] if found else item.path.stem))


@pytest.fixture
def engine(request):
    """Where a study runs."""
    if request.param in ("dask", "ray") and find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed; ./run test --slow installs it")
    return request.param
