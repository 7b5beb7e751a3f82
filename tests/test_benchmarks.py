"""The programs of benchmarks/ need other packages, and long; this looks at what they import."""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").rglob("*.py")), ids=lambda p: p.stem)
def test_what_a_benchmark_imports_is_there(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("onebit"):
            module = import_module(str(node.module))
            for name in node.names:
                full = f"{node.module}.{name.name}"
                assert hasattr(module, name.name) or find_spec(full), f"line {node.lineno}: {full}"
