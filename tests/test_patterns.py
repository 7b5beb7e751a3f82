"""Regular expressions: `$` also matches before a line break at the end of a text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import onebit

SOURCES = Path(onebit.__file__).parent


def texts(node: ast.expr) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


def patterns(tree: ast.Module) -> Iterator[str]:
    """What is given to functions of `re`, as `pattern=`, or as "pattern" in a schema."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            if isinstance(function, ast.Attribute) and ast.unparse(function.value) == "re":
                yield from texts(node.args[0])
            for keyword in node.keywords:
                if keyword.arg == "pattern":
                    yield from texts(keyword.value)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "pattern":
                    yield from texts(value)


def test_patterns_are_found():
    tree = ast.parse('re.compile("a$"); Meta(pattern=f"{b}b$"); x = {"pattern": "c$"}')
    assert sorted(patterns(tree)) == ["a$", "b$", "c$"]


def test_no_pattern_ends_with_a_dollar():
    for path in SOURCES.rglob("*.py"):
        found = [x for x in patterns(ast.parse(path.read_text())) if x.endswith(("$", "$)"))]
        assert not found, f"{path}: {found}; use fullmatch, \\Z, or END of onebit.service.messages"
