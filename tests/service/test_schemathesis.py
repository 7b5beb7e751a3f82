"""schemathesis tries what the OpenAPI document says, and what it does not say."""

from __future__ import annotations

import pytest
from fake_service import FakeService
from serving import serving

schemathesis = pytest.importorskip("schemathesis", reason="./run test --slow installs it")
