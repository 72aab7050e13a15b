"""Dropped attributes are gone before anyone reads or stores them."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from collectors.otlp.request import decode
from collectors.sink import Signal
from monitor.intake.options import SettlementOptions
from monitor.intake.privacy import dropped_by, scrub
from monitor.intake.stored_spans import unpack
from tests.intake.desk import Desk
from tests.intake.traffic import agent, log, logs, pairs, span_id, tool, trace_id, traces

PRIVATE = {"enduser.id": "u-1", "user.email": "a@b.example", "user.name": "Ada"}


def loaded_span() -> SpanMessage:
    """A span with private attributes wherever a span can have some."""
    span = SpanMessage(
        trace_id=trace_id("t"), span_id=span_id("s"), name="s", attributes=pairs(PRIVATE), trace_state="x=y"
    )
    span.events.add(name="e").attributes.extend(pairs(PRIVATE))
    span.links.add(trace_id=trace_id("o"), span_id=span_id("o")).attributes.extend(pairs(PRIVATE))
    return span


def test_globs_match_whole_keys_with_case() -> None:
    """A glob matches the whole key and tells case; without globs there is nothing to do."""
    dropped = dropped_by(("enduser.*", "user.email"))
    assert dropped is not None
    keys = [b"enduser.id", b"user.email", b"user.email.hash", b"Enduser.id", b"my.enduser.id", b"\xff"]
    assert [key for key in keys if dropped(key)] == [b"enduser.id", b"user.email"]
    assert dropped_by(()) is None


def test_attributes_are_dropped_everywhere() -> None:
    """Spans, events, links, log records and resources lose the attributes and nothing else."""
    dropped = dropped_by(("enduser.*", "user.email"))
    assert dropped is not None
    body = scrub(traces(loaded_span(), resource=PRIVATE), Signal.TRACES, dropped)
    [span] = decode(body, Signal.TRACES).spans
    left = {"user.name": "Ada"}
    assert span.attributes == span.events[0].attributes == span.links[0].attributes == span.resource.attributes == left
    assert (span.name, span.trace_state, span.scope.name, span.events[0].name) == ("s", "x=y", "test", "e")
    [record] = decode(scrub(logs(log("t", **PRIVATE)), Signal.LOGS, dropped), Signal.LOGS).logs
    assert record.attributes == left
    assert b"u-1" not in body
    assert b"a@b.example" not in body


def test_dropped_attributes_are_neither_stored_nor_read(open_desk: Callable[..., Desk]) -> None:
    """Neither the invocation's attributes nor the stored spans hold them, for late data as well."""
    keep = ("user.email", "user.name")
    desk = open_desk(options=SettlementOptions(drop_attributes=("user.email",), keep_attributes=keep))
    root = agent("t")
    desk.send(traces(agent("t", attributes={**root.attributes, **PRIVATE}), resource=PRIVATE))
    desk.wait(30.0)
    desk.send(traces(tool("t", attributes={**tool("t").attributes, **PRIVATE})))
    desk.wait(30.0)
    assert len(desk.store.saved) == 2
    for settlement in desk.store.saved:
        assert settlement.spans is not None
        stored = b"".join(unpack(settlement.spans))
        assert b"u-1" in stored
        assert b"a@b.example" not in stored
    assert desk.stored("t")[0].invocation.attributes == {"user.name": "Ada"}


def test_with_redaction_before_storing_no_raw_spans_are_kept(open_desk: Callable[..., Desk]) -> None:
    """`privacy.redact.before: [store]`: what is stored has gone through the redaction."""
    from dataclasses import replace

    desk = open_desk(
        options=SettlementOptions(keep_spans=False, redact=lambda found: replace(found, final_response="[redacted]"))
    )
    desk.send(traces(agent("t")))
    desk.wait(30.0)
    assert desk.stored("t")[0].invocation.final_response == "[redacted]"
    assert desk.store.saved[0].spans is None
