"""OTLP traces as JSON, as trace stores write it: ids in hex or base64, enums as numbers or names, traces mixed in one list."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from collectors.otlp.otlp_json import convert
from collectors.polling.faults import FaultKind, SourceFault
from collectors.sink import MalformedRequest, Signal

_TRACE_DIGITS, _SPAN_DIGITS = 32, 16
_KINDS = {
    f"SPAN_KIND_{name}": number
    for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
_STATUS = {"STATUS_CODE_UNSET": 0, "STATUS_CODE_OK": 1, "STATUS_CODE_ERROR": 2}


def json_documents(body: bytes, place: str) -> list[Any]:
    """The JSON values of a body that holds one or several, one after the other. Raises SourceFault naming `place`."""
    decoder = json.JSONDecoder()
    found: list[Any] = []
    try:
        text = body.decode("utf-8-sig", "surrogateescape").strip()
        at = 0
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            found.append(value)
            while at < len(text) and text[at] in " \t\r\n":
                at += 1
    except (ValueError, RecursionError):
        raise SourceFault(
            FaultKind.MALFORMED, f"{place}: the answer is no JSON: is `endpoint` the API's own URL?"
        ) from None
    return found


def by_trace(resource_spans: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """OTLP/JSON documents by trace id (32 hex digits). What is no span is left out."""
    found: dict[str, dict[str, Any]] = {}
    for resource in resource_spans:
        for scope in _lists(resource, "scopeSpans", "instrumentationLibrarySpans"):
            groups: dict[str, list[Any]] = {}
            for span in _lists(scope, "spans"):
                if isinstance(span, dict):
                    plain = _plain(span)
                    groups.setdefault(str(plain.get("traceId", "")), []).append(plain)
            for trace_id, spans in groups.items():
                document = found.setdefault(trace_id, {"resourceSpans": []})
                inner = {"scope": scope.get("scope"), "schemaUrl": scope.get("schemaUrl"), "spans": spans}
                document["resourceSpans"].append(
                    {
                        "resource": resource.get("resource"),
                        "schemaUrl": resource.get("schemaUrl"),
                        "scopeSpans": [inner],
                    }
                )
    return found


def fingerprint(document: Mapping[str, Any]) -> str:
    """Tells whether an OTLP/JSON document of one trace has changed, without reading what its spans say."""
    marks = sorted(
        (
            str(span.get("spanId")),
            str(span.get("endTimeUnixNano")),
            len(_lists(span, "attributes")),
            len(_lists(span, "events")),
        )
        for resource in _lists(document, "resourceSpans")
        for scope in _lists(resource, "scopeSpans")
        for span in _lists(scope, "spans")
    )
    return hashlib.blake2b(repr(marks).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def request_of(document: Mapping[str, Any]) -> bytes:
    """An OTLP/JSON document as an export request in protobuf. Raises MalformedRequest."""
    return convert(document, Signal.TRACES).body


def request_or_none(document: Mapping[str, Any]) -> bytes | None:
    """The same, None for a document that is none."""
    try:
        return request_of(document)
    except MalformedRequest:
        return None


def padded(trace_id: str) -> str:
    """A trace id with the zeros in front that some stores leave out."""
    return trace_id.lower().rjust(_TRACE_DIGITS, "0")


def _lists(parent: Any, *keys: str) -> list[Any]:
    if not isinstance(parent, dict):
        return []
    for key in keys:
        found = parent.get(key)
        if isinstance(found, list):
            return found
    return []


def _plain(span: dict[str, Any]) -> dict[str, Any]:
    """The span as OTLP/JSON has it."""
    plain = {
        **span,
        "traceId": _hex(span.get("traceId"), _TRACE_DIGITS),
        "spanId": _hex(span.get("spanId"), _SPAN_DIGITS),
        "parentSpanId": _hex(span.get("parentSpanId"), _SPAN_DIGITS),
    }
    if isinstance(span.get("kind"), str):
        plain["kind"] = _KINDS.get(span["kind"], 0)
    status = span.get("status")
    if isinstance(status, dict) and isinstance(status.get("code"), str):
        plain["status"] = {**status, "code": _STATUS.get(status["code"], 0)}
    if isinstance(span.get("links"), list):
        plain["links"] = [_plain_link(link) for link in span["links"] if isinstance(link, dict)]
    return plain


def _plain_link(link: dict[str, Any]) -> dict[str, Any]:
    return {
        **link,
        "traceId": _hex(link.get("traceId"), _TRACE_DIGITS),
        "spanId": _hex(link.get("spanId"), _SPAN_DIGITS),
    }


def _hex(value: Any, digits: int) -> Any:
    """An id in hex digits, whichever way it was written."""
    if not isinstance(value, str) or not value:
        return ""
    if len(value) == digits:
        return value
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return value
    return raw.hex() if len(raw) * 2 == digits else value
