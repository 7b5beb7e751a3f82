"""docs/service.md and docs/http.md against the service as it is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import httpx
import msgspec
import pytest
from helpers.serving import serving
from helpers.waiting import PATIENCE
from msgspec.structs import fields

from onebit.service.configuration import (
    Limits,
    ModelOptions,
    ServiceOptions,
    Timeouts,
    check,
    duration,
)
from onebit.service.faults import ServiceError
from onebit.service.http.routes import OPERATIONS
from onebit.service.service import Service

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "service.md").read_text()
HTTP = (ROOT / "docs" / "http.md").read_text()
ALERTS = (ROOT / "deploy" / "alerts.yml").read_text()
TABLES = {"shadows"}  # keys of a model that are no options of its learner
NEWS = """
[models.news]
labels = ["sport", "politics", "tech"]
learner = "Banditron"
revisions = true
deferred = true

[models.news.shadows.quick]
learner = "UCWL"
"""


@pytest.fixture
def site(tmp_path):
    (tmp_path / "news.toml").write_text(NEWS)
    with serving(Service(check(tmp_path / "news.toml"))) as site:
        yield site


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_example_runs(site, tmp_path):
    curl = tmp_path / "curl"
    curl.write_text(f'#!/bin/sh\nexec {shutil.which("curl")} -sS --fail-with-body "$@"\n')
    curl.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "NO_PROXY": "*"}
    blocks = re.findall(r"^```sh\n(.*?)^```$", PAGE + HTTP, re.S | re.M)
    blocks = [block for block in blocks if "curl" in block]
    assert len(blocks) > 7
    for block in blocks:
        asked = httpx.post(
            f"{site.url}/v1/models/news/decisions", json={"context": {}}, timeout=PATIENCE
        )
        script = re.sub("^ID=.*$", f"ID={asked.json()['id']}", block, flags=re.M)
        script = script.replace("localhost:8331", f"127.0.0.1:{site.port}")
        done = subprocess.run(
            ["bash", "-eu", "-c", script], env=env, capture_output=True, timeout=PATIENCE
        )
        assert done.returncode == 0, (block, done.stdout, done.stderr)
    metrics = site.http.get("/metrics").text
    for made in OPERATIONS:
        if made.path != "/metrics":
            counted = f'method="{made.method}",route="{made.path}",status="{made.status}"'
            assert counted in metrics, made


def test_the_table_has_every_fault():
    listed = {
        kind: int(status)
        for status, kinds in re.findall(r"^\| (\d+) \| (.*?) \|", HTTP, re.M)
        for kind in re.findall("`(.*?)`", kinds)
    }
    assert listed == {
        kind: fault.status
        for kind, fault in ServiceError.kinds.items()
        if fault.__module__ == ServiceError.__module__  # pages have faults of their own
    }


def test_the_metrics_exist(site):
    site.http.post("/v1/models/news/decisions", json={"context": {"a": 1}})
    known = set(re.findall(r"^(onebit_\w+)", site.http.get("/metrics").text, re.M))
    for text in (PAGE, ALERTS):
        named = set(re.findall(r"\b(onebit_[a-z_]+)\b", text))
        bases = {re.sub("_bucket$", "", name) for name in known}
        assert named <= known | bases, named - known - bases


def test_the_alerts_are_rules():
    yaml = pytest.importorskip("yaml")
    (group,) = yaml.safe_load(ALERTS)["groups"]
    for rule in group["rules"]:
        assert rule["alert"].startswith("Onebit") and rule["expr"].count("(") == rule["expr"].count(
            ")"
        )
        assert rule["labels"]["severity"] in ("page", "ticket") and rule["annotations"]["summary"]


def described(title):
    """The keys of a table of the page, with their defaults."""
    table = re.search(rf"^`\[{re.escape(title)}\]`.*?\n\n(\|.*?)\n\n", PAGE, re.S | re.M)[1]
    return dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.M))


@pytest.mark.parametrize(
    ("title", "kind"),
    [
        ("service", ServiceOptions),
        ("service.limits", Limits),
        ("service.timeouts", Timeouts),
        ("models.NAME", ModelOptions),
    ],
)
def test_the_reference_has_every_key_and_its_default(title, kind):
    keys = described(title)
    assert set(keys) - TABLES == {field.name for field in fields(kind)}
    for field in fields(kind):
        default = field.default
        if default is msgspec.NODEFAULT:
            default = field.default_factory()
        said = keys[field.name].strip("`")
        if isinstance(default, msgspec.Struct):
            assert said == "below"
        elif default is None:
            assert said == ("as many as fit into 256 MiB" if field.name == "vocabulary" else "none")
        else:
            value = tomllib.loads(f"x = {said}")["x"]
            assert (duration(value) if isinstance(default, float) else value) == default
