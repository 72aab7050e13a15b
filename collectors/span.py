"""Spans and log records as plain Python values, whatever wire they came by.

Field meanings follow opentelemetry-proto (trace.proto, logs.proto, common.proto). All texts are valid Unicode:
what was not valid UTF-8 has been replaced by U+FFFD at decoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import IntEnum

from collectors.immutable import immutable

Value = None | bool | int | float | str | bytes | Sequence["Value"] | Mapping[str, "Value"]
"""An OTLP AnyValue: None, bool, int, float, str, bytes, list of values, dict of str to value."""

Attributes = Mapping[str, Value]


class StatusCode(IntEnum):
    """Span status; UNSET counts as success by OpenTelemetry's rule."""

    UNSET = 0
    OK = 1
    ERROR = 2


@immutable(frozen=True, slots=True)
class Resource:
    """What produced the telemetry (`service.name` and so on)."""

    attributes: Attributes = field(default_factory=dict)


@immutable(frozen=True, slots=True)
class Scope:
    """The instrumentation that made the span; the name may be empty (polled stores lose it)."""

    name: str = ""
    version: str = ""
    attributes: Attributes = field(default_factory=dict)


@immutable(frozen=True, slots=True)
class SpanEvent:
    """An event inside a span; the time is in nanoseconds since 1970-01-01Z."""

    name: str
    time_unix_nano: int = 0
    attributes: Attributes = field(default_factory=dict)


@immutable(frozen=True, slots=True)
class SpanLink:
    """A causal reference to another span; ids are lower-case hex."""

    trace_id: str
    span_id: str
    attributes: Attributes = field(default_factory=dict)


@immutable(frozen=True, slots=True)
class Span:
    """One span. Ids are lower-case hex (32 and 16 digits), the parent's is "" at a root.

    Times are nanoseconds since 1970-01-01Z as sent, not corrected; an end of 0 or before the start means open.
    """

    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str = ""
    kind: int = 0
    start_time_unix_nano: int = 0
    end_time_unix_nano: int = 0
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    status_code: StatusCode = StatusCode.UNSET
    status_message: str = ""
    trace_state: str = ""
    flags: int = 0
    dropped_attributes_count: int = 0
    dropped_events_count: int = 0
    dropped_links_count: int = 0
    resource: Resource = field(default_factory=Resource)
    scope: Scope = field(default_factory=Scope)

    @property
    def ended(self) -> bool:
        """Whether the span was exported with an end that is not before its start."""
        return self.end_time_unix_nano > 0 and self.end_time_unix_nano >= self.start_time_unix_nano


@immutable(frozen=True, slots=True)
class LogRecord:
    """One log record with a trace id. `event_name` falls back to the attribute `event.name` of older SDKs.

    `time_unix_nano` is the record's time, else its observed time.
    """

    trace_id: str
    span_id: str = ""
    event_name: str = ""
    time_unix_nano: int = 0
    severity_number: int = 0
    body: Value = None
    attributes: Attributes = field(default_factory=dict)
    resource: Resource = field(default_factory=Resource)
    scope: Scope = field(default_factory=Scope)
