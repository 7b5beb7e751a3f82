"""schemathesis tries what the OpenAPI document says, and what it does not say."""

from __future__ import annotations

import re

import httpx
import pytest
from fake_service import FakeService
from serving import serving

from onebit.service.configuration import Limits
from onebit.service.http import NAMES, describe

schemathesis = pytest.importorskip("schemathesis")
from hypothesis import HealthCheck, settings  # noqa: E402
from schemathesis.checks import CHECKS, load_all_checks  # noqa: E402

pytestmark = pytest.mark.thorough
load_all_checks()


@pytest.fixture(scope="module")
def site():
    with serving(FakeService(access_log=False, limits=Limits(batch=10**6))) as running:
        yield running


schema = schemathesis.openapi.from_dict(describe())
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
        parameters["id"] = httpx.post(path, json=context).json()["id"]
    response = case.call(base_url=site.url)
    assert response.status_code < 500
    case.validate_response(response, excluded_checks=BEYOND_TYPES)


def _is_valid(name, parameters):
    value = parameters.get(name)
    return isinstance(value, str) and re.fullmatch(NAMES[name]["pattern"], value)
