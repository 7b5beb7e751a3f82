"""The OpenAPI document, generated from the routes and the types of their messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from onebit._version import __version__
from onebit.service import faults, messages
from onebit.service.http.operation import JSON, NAMES, PROBLEM, Operation


def describe(operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1, from the operations and the types of their messages."""
    types = [o.body for o in operations if o.body is not None]
    types += [o.answer for o in operations if not isinstance(o.answer, str)]
    types.append(messages.Problem)
    references, schemas = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    found = list(zip(types, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for made in operations:
        paths.setdefault(made.path, {})[made.method.lower()] = _described(made, found)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "onebit",
            "version": __version__,
            "description": "Decide now, learn when the answer comes.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _described(made: Operation, found: list[tuple[Any, Any]]) -> dict[str, Any]:
    def content(kind: Any, media: str = JSON.decode()) -> dict[str, Any]:
        if isinstance(kind, str):
            return {kind: {"schema": {"type": "string"}}}
        return {media: {"schema": next(schema for known, schema in found if known is kind)}}

    titles: dict[int, list[str]] = {}
    for fault in made.faults:
        titles.setdefault(fault.status, []).append(fault.title)
    succeeded: dict[str, Any] = {
        "description": HTTPStatus(made.status).phrase,
        "content": content(made.answer),
    }
    if made.name == "decide":
        text = "where the decision can be read again"
        succeeded["headers"] = {"Location": {"description": text, "schema": {"type": "string"}}}
    responses: dict[str, Any] = {str(made.status): succeeded}
    for status, said in sorted(titles.items()):
        responses[str(status)] = {
            "description": "; ".join(said),
            "content": content(messages.Problem, PROBLEM.decode()),
        }
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            text = "seconds after which the request may succeed"
            schema = {"description": text, "schema": {"type": "integer"}}
            responses[str(status)]["headers"] = {"Retry-After": schema}
    described: dict[str, Any] = {
        "operationId": made.name,
        "summary": made.summary,
        "responses": responses,
    }
    names = re.findall(r"{(\w+)}", made.path)
    if names:
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": NAMES[name]} for name in names
        ]
    if made.body is not None:
        described["requestBody"] = {"required": True, "content": content(made.body)}
    if made.verb is not None or faults.NoToken in made.faults:
        described["security"] = [{}, {"token": []}]
    return described
