"""openapi.json out of the table of endpoints."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from monitor.server.access import Access
from monitor.server.endpoints import API, Endpoint
from monitor.server.problems import PROBLEM_JSON
from monitor.version import __version__

_IN_PATH = re.compile(r"\{(\w+)\}")
_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "parameter": {"type": "string", "description": "the parameter that is wrong"},
        "key": {"type": "string", "description": "the key of the configuration to set"},
        "faults": {"type": "array", "items": {"type": "string"}},
    },
}
_PAGE = {
    "type": "object",
    "required": ["items", "next_cursor"],
    "properties": {
        "items": {"type": "array", "items": {"type": "object"}},
        "next_cursor": {"type": ["string", "null"]},
    },
}


def document(endpoints: Sequence[Endpoint], external_url: str | None = None) -> Mapping[str, Any]:
    """The OpenAPI 3.1 document of those endpoints."""
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for endpoint in endpoints:
        paths[endpoint.path][endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "rubricd", "version": __version__, "summary": f"{API} only grows."},
        "servers": [{"url": external_url or "/"}],
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM, "Page": _PAGE},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint) -> Mapping[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _IN_PATH.findall(endpoint.path)
    ]
    in_query = [
        {
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "description": parameter.text,
            "schema": parameter.schema,
        }
        for parameter in endpoint.parameters
    ]
    found: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "parameters": [*in_path, *in_query],
        "responses": _responses(endpoint),
    }
    if endpoint.body:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    if endpoint.access is not Access.OPEN:
        found["security"] = [{}, {"token": []}]
    return found


def _responses(endpoint: Endpoint) -> Mapping[str, Any]:
    refused = {
        "description": "What is wrong, and what would be right.",
        "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if endpoint.later:
        return {"501": {**refused, "description": "Promised for a later version."}, "default": refused}
    if endpoint.name == "metrics":
        return {"200": {"description": "The page.", "content": {"text/plain": {}, "application/openmetrics-text": {}}}}
    schema = {"$ref": "#/components/schemas/Page"} if endpoint.listing else {"type": "object"}
    done = {"description": "Done.", "content": {"application/json": {"schema": schema}}}
    return {"200": done, "default": refused}
