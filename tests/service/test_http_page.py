"""docs/http.md: every curl example runs, every route has one, and the table has every fault."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from fake_service import FakeService
from serving import serving

from onebit.service.faults import ServiceError
from onebit.service.http import OPERATIONS

PAGE = (Path(__file__).parents[2] / "docs" / "http.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.S | re.M)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_every_route_has_an_example_that_runs(tmp_path):
    curl = tmp_path / "curl"
    curl.write_text(f'#!/bin/sh\nexec {shutil.which("curl")} -sS --fail-with-body "$@"\n')
    curl.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    with serving(FakeService()) as site:
        for block in BLOCKS:
            url = f"{site.url}/v1/models/news/decisions"
            id = httpx.post(url, json={"context": {}}).json()["id"]
            script = re.sub("^ID=.*$", f"ID={id}", block, flags=re.M)
            script = script.replace("localhost:8331", f"127.0.0.1:{site.port}")
            command = ["bash", "-eu", "-c", script]
            done = subprocess.run(command, env={"PATH": path}, capture_output=True, timeout=60)
            assert done.returncode == 0, (block, done.stdout, done.stderr)
        metrics = site.http.get("/metrics").text
    for made in OPERATIONS:
        if made.path != "/metrics":
            counted = f'method="{made.method}",route="{made.path}",status="{made.status}"'
            assert counted in metrics, made


def test_the_table_has_every_fault():
    listed = {
        kind: int(status)
        for status, kinds in re.findall(r"^\| (\d+) \| (.*?) \|", PAGE, re.M)
        for kind in re.findall("`(.*?)`", kinds)
    }
    assert listed == {kind: fault.status for kind, fault in ServiceError.kinds.items()}
