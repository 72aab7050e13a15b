"""A trace of Jaeger's older HTTP API (the JSON of its UI) as OTLP/JSON.

The mapping is that of OpenTelemetry to Jaeger read backwards (OpenTelemetry specification, "OpenTelemetry to Jaeger Transformation"): resource =
process tags, scope = `otel.scope.*`, status = `otel.status_code` or `error`, parent = the first CHILD_OF reference, other references are
links, logs are events. Nanoseconds below a microsecond are lost in that API.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

_KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_SCOPE_NAMES = ("otel.scope.name", "otel.library.name")
_SCOPE_VERSIONS = ("otel.scope.version", "otel.library.version")
_OWN = frozenset(
    {"span.kind", "otel.status_code", "otel.status_description", "w3c.tracestate", *_SCOPE_NAMES, *_SCOPE_VERSIONS}
)
_TRACE_DIGITS, _SPAN_DIGITS = 32, 16


def otlp_of(trace: Mapping[str, Any]) -> dict[str, Any]:
    """The trace as an OTLP/JSON document."""
    processes = trace.get("processes")
    known: Mapping[str, Any] = processes if isinstance(processes, dict) else {}
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for span in _dicts(trace.get("spans")):
        tags = _tags(span.get("tags"))
        scope = (_first(tags, _SCOPE_NAMES), _first(tags, _SCOPE_VERSIONS))
        groups.setdefault((str(span.get("processID", "")), *scope), []).append(_span(span, tags))
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _resource(known.get(process))},
                "scopeSpans": [{"scope": {"name": name, "version": version}, "spans": spans}],
            }
            for (process, name, version), spans in groups.items()
        ]
    }


def _span(span: Mapping[str, Any], tags: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    start = _micros(span.get("startTime"))
    parent, links = _references(span)
    kind = tags.get("span.kind", ("", ""))[1]
    return {
        "traceId": _id(span.get("traceID"), _TRACE_DIGITS),
        "spanId": _id(span.get("spanID"), _SPAN_DIGITS),
        "parentSpanId": parent,
        "traceState": str(tags.get("w3c.tracestate", ("", ""))[1]),
        "name": str(span.get("operationName", "")),
        "kind": _KINDS.get(str(kind), 1),
        "startTimeUnixNano": str(start * 1000),
        "endTimeUnixNano": str((start + _micros(span.get("duration"))) * 1000),
        "attributes": _attributes(tags, _OWN),
        "events": [_event(log) for log in _dicts(span.get("logs"))],
        "links": links,
        "status": _status(tags),
    }


def _references(span: Mapping[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    parent = _id(span.get("parentSpanID"), _SPAN_DIGITS)
    links: list[dict[str, Any]] = []
    found = False
    for reference in _dicts(span.get("references")):
        trace_id, span_id = _id(reference.get("traceID"), _TRACE_DIGITS), _id(reference.get("spanID"), _SPAN_DIGITS)
        same = trace_id == _id(span.get("traceID"), _TRACE_DIGITS)
        if reference.get("refType") == "CHILD_OF" and same and not found:
            parent, found = span_id, True
        else:
            links.append({"traceId": trace_id, "spanId": span_id})
    return parent, links


def _status(tags: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    code = str(tags.get("otel.status_code", ("", ""))[1])
    failed = tags.get("error", ("", False))[1] in (True, "true")
    number = {"OK": 1, "ERROR": 2}.get(code, 2 if failed and not code else 0)
    return {"code": number, "message": str(tags.get("otel.status_description", ("", ""))[1])}


def _event(log: Mapping[str, Any]) -> dict[str, Any]:
    fields = _tags(log.get("fields"))
    name_key = "event" if "event" in fields else "message"
    return {
        "timeUnixNano": str(_micros(log.get("timestamp")) * 1000),
        "name": str(fields.get(name_key, ("", ""))[1]),
        "attributes": _attributes(fields, frozenset({name_key})),
    }


def _resource(process: Any) -> list[dict[str, Any]]:
    given = process if isinstance(process, dict) else {}
    attributes = _attributes(_tags(given.get("tags")), frozenset())
    name = given.get("serviceName")
    return [*attributes, {"key": "service.name", "value": {"stringValue": name}}] if name else attributes


def _tags(tags: Any) -> dict[str, tuple[str, Any]]:
    return {str(tag.get("key", "")): (str(tag.get("type", "")), tag.get("value")) for tag in _dicts(tags)}


def _attributes(tags: Mapping[str, tuple[str, Any]], without: frozenset[str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(kind, value)} for key, (kind, value) in tags.items() if key not in without]


def _value(kind: str, value: Any) -> dict[str, Any]:
    """A tag's value as OTLP has it. Arrays and maps were made JSON text before they came here."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if kind == "bool":
        return {"boolValue": str(value).lower() == "true"}
    if kind == "int64":
        return {"intValue": str(value)}
    if kind == "float64" and isinstance(value, (int, float, str)):
        return {"doubleValue": value}
    if kind == "binary":
        return {
            "bytesValue": value if isinstance(value, str) else base64.b64encode(bytes(str(value), "utf-8")).decode()
        }
    return {"stringValue": value if isinstance(value, str) else str(value)}


def _first(tags: Mapping[str, tuple[str, Any]], keys: Iterable[str]) -> str:
    return next((str(tags[key][1]) for key in keys if key in tags), "")


def _id(value: Any, digits: int) -> str:
    return value.lower().rjust(digits, "0") if isinstance(value, str) and value else ""


def _micros(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
