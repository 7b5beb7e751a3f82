"""schemathesis tries what the OpenAPI document says, and what it does not, on a real service."""

from __future__ import annotations

import re

import httpx
import pytest
from helpers.serving import serving
from helpers.waiting import PATIENCE

from onebit.service.configuration import check
from onebit.service.http.openapi import describe
from onebit.service.http.operation import NAMES
from onebit.service.http.routes import OPERATIONS
from onebit.service.service import Service

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, settings  # noqa: E402
from schemathesis.checks import CHECKS, load_all_checks  # noqa: E402

pytestmark = pytest.mark.thorough
load_all_checks()
CONFIGURATION = """
[service]
journal = "news.journal"
durability = "normal"
access_log = false
[service.limits]
batch = 1_000_000
queue = 1_000_000
labels = 1_000_000
[models.news]
labels = ["sport", "politics", "tech"]
learner = "Banditron"
revisions = true
deferred = true
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("schemathesis") / "news.toml"
    path.write_text(CONFIGURATION)
    with serving(Service(check(path))) as running:
        yield running


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """schemathesis writes what it finds into a folder where it runs."""
    monkeypatch.chdir(tmp_path)


schema = schemathesis.openapi.from_dict(describe(OPERATIONS))
# Labels, learners and duplicate indices are checked beyond their types: status 422.
BEYOND_TYPES = [CHECKS.get_one("positive_data_acceptance")]


@schema.parametrize()
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_requests(case, site):
    parameters = case.path_parameters or {}
    if _is_valid("name", parameters):  # no model has a random name, and no decision a random id
        parameters["name"] = "news"
    if _is_valid("id", parameters):
        context = {"context": {"a": 1}}
        path = f"{site.url}/v1/models/news/decisions"
        parameters["id"] = httpx.post(path, json=context, timeout=PATIENCE).json()["id"]
    response = case.call(base_url=site.url)
    assert response.status_code != 500
    case.validate_response(response, excluded_checks=BEYOND_TYPES)


def _is_valid(name, parameters):
    value = parameters.get(name)
    return isinstance(value, str) and re.fullmatch(NAMES[name]["pattern"], value)
