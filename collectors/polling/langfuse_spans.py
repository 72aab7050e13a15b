"""Observations of Langfuse as OTLP/JSON spans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from collectors.polling.plain import attributes, hex_id, nanos

_PREFIX = "langfuse.observation."


def otlp_of(trace_id: str, observations: Iterable[Mapping[str, Any]], trace: Mapping[str, Any]) -> dict[str, Any]:
    """A trace as an OTLP/JSON document. `trace` is the trace's own record where the API has one, else empty."""
    rows = sorted(observations, key=lambda row: (str(row.get("startTime")), str(row.get("id"))))
    return {"resourceSpans": [_resource_spans(trace_id, row, trace) for row in rows]}


def _resource_spans(trace_id: str, row: Mapping[str, Any], trace: Mapping[str, Any]) -> dict[str, Any]:
    metadata = _map(row.get("metadata"))
    scope = _map(metadata.get("scope"))
    span = _span(trace_id, row, metadata, trace)
    return {
        "resource": {"attributes": attributes(_map(metadata.get("resourceAttributes")))},
        "scopeSpans": [
            {
                "scope": {"name": str(scope.get("name") or ""), "version": str(scope.get("version") or "")},
                "spans": [span],
            }
        ],
    }


def _span(
    trace_id: str, row: Mapping[str, Any], metadata: Mapping[str, Any], trace: Mapping[str, Any]
) -> dict[str, Any]:
    start = nanos(row.get("startTime"))
    end = nanos(row.get("endTime"))
    kind = str(row.get("type") or "SPAN").lower()
    parent = row.get("parentObservationId")
    is_root = not parent or parent == trace_id
    own = _map(metadata.get("attributes"))
    values = {**own, **_observation(row, kind), **_context(row, trace, is_root)}
    failed = row.get("level") == "ERROR"
    return {
        "traceId": hex_id(trace_id, 32),
        "spanId": hex_id(row.get("id"), 16),
        "parentSpanId": "" if is_root else hex_id(parent, 16),
        "name": str(row.get("name") or ""),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(end or (start if kind == "event" else 0)),
        "attributes": attributes(values),
        "status": {"code": 2 if failed else 0, "message": str(row.get("statusMessage") or "") if failed else ""},
    }


def _observation(row: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What Langfuse knows of the observation, under the names of its own SDK."""
    usage = row.get("usageDetails") or row.get("usage")
    level = row.get("level")
    return {
        _PREFIX + "type": kind,
        _PREFIX + "input": _text(row.get("input")),
        _PREFIX + "output": _text(row.get("output")),
        _PREFIX + "model.name": row.get("providedModelName") or row.get("model"),
        _PREFIX + "usage_details": _text(usage) if usage else None,
        _PREFIX + "level": level if level and level != "DEFAULT" else None,
        _PREFIX + "status_message": row.get("statusMessage"),
    }


def _context(row: Mapping[str, Any], trace: Mapping[str, Any], is_root: bool) -> dict[str, Any]:
    """What Langfuse keeps on the trace; its input and output belong to the root."""
    found: dict[str, Any] = {
        "session.id": row.get("sessionId") or trace.get("sessionId"),
        "user.id": row.get("userId") or trace.get("userId"),
        "langfuse.environment": row.get("environment") or trace.get("environment"),
        "langfuse.release": row.get("release") or trace.get("release"),
        "langfuse.version": row.get("version") or trace.get("version"),
    }
    if is_root:
        found["langfuse.trace.input"] = _text(trace.get("input"))
        found["langfuse.trace.output"] = _text(trace.get("output"))
    return found


def _text(value: Any) -> str | None:
    """A text as it is, any other value as JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _map(value: Any) -> dict[str, Any]:
    """A map, also one that was made JSON text; else an empty one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}
