"""Failures: what a span's status, its exception events and its error attributes say."""

from __future__ import annotations

from collections.abc import Mapping

from collectors.span import Span, StatusCode
from monitor.assembly.facts import Field
from monitor.assembly.tree import Node
from monitor.assembly.values import text_of, withheld

OPERATION_EXCEPTION = "gen_ai.client.operation.exception"
_TRACES = ("Traceback (most recent call last)", "\n    at ")
_CANCELLED = ("cancellederror", "generatorexit", "keyboardinterrupt", "abort_error", "aborterror")


def failure_text(node: Node) -> str | None:
    """Why a span failed, None when it did not: its status is ERROR, or its dialect says so."""
    failure = failure_of(node)
    return failure[0] if failure is not None else None


def failure_of(node: Node) -> tuple[str, str] | None:
    """As `failure_text`, with what tells so: the dialect's attribute, the status, an exception event or `error.type`."""
    stated = node.facts.get(Field.ERROR)
    if stated is not None and stated.value:
        return str(stated.value), stated.source
    span = node.span
    if span is None or (span.status_code is not StatusCode.ERROR and _logged(node) is None):
        return None
    for text, source in (
        (_without_trace(span.status_message), "status message"),
        (exception_text(node), "exception event"),
        (_error_type(node), "error.type"),
    ):
        if text is not None:
            return text, source
    return "error", "status"


def exception_text(node: Node) -> str | None:
    """The last exception event as `Type: message`, None without one. Cancellations count as well."""
    return (exception_of(node.span) or _logged(node)) if node.span is not None else None


def _logged(node: Node) -> str | None:
    """The exception in a log record of a model call that failed (`gen_ai.client.operation.exception`, conventions 1.41)."""
    if node.record is None or OPERATION_EXCEPTION not in node.record.shape.names:
        return None
    events = [event for event in node.record.events if event.name == OPERATION_EXCEPTION]
    return _exception(events[-1].attributes)


def exception_of(span: Span) -> str | None:
    """As `exception_text`, for a bare span."""
    for event in reversed(span.events):
        if event.name == "exception":
            return _exception(event.attributes)
    return None


def ended_by_exception(node: Node) -> bool:
    """Whether an exception that is no cancellation was recorded, whatever the status says."""
    text = exception_text(node)
    return text is not None and not any(word in text.lower() for word in _CANCELLED)


def _exception(attributes: Mapping[str, object]) -> str:
    kind = text_of(attributes.get("exception.type")) or "exception"
    message = _without_trace(attributes.get("exception.message"))
    return kind if message is None or withheld(message) else f"{kind}: {message}"


def _without_trace(message: object) -> str | None:
    """A message without the stack trace that some exporters put behind it."""
    text = text_of(message)
    if text is None:
        return None
    start = min((at for mark in _TRACES if (at := text.find(mark)) >= 0), default=len(text))
    return text_of(text[:start].strip()) or text


def _error_type(node: Node) -> str | None:
    return text_of(node.record.attributes.get("error.type")) if node.record else None
