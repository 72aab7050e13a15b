"""Spans that are read only as far as somebody asks, into messages that are used again."""

from __future__ import annotations

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collectors.otlp.lazy import BlankSpans

MEGABYTE = 1024**2


def test_nothing_is_left_of_what_was_read_before() -> None:
    """A message that is read into again has the values of the last span only, and no attribute of an earlier one."""
    full = Span(name="full", span_id=b"12345678", trace_state="a=b", start_time_unix_nano=5)
    full.attributes.add(key="said").value.string_value = "secret"
    full.status.code = Span(name="x").status.code + 2
    blanks = BlankSpans()
    (blank, *_) = blanks.take(1, 100)
    blank.ParseFromString(full.SerializeToString())
    assert (set(blank.attributes), blank.status.code) == ({"said"}, 2)
    (again, *_) = blanks.take(1, 100)
    again.ParseFromString(Span(name="bare").SerializeToString())
    assert again is blank
    assert (again.name, again.span_id, again.trace_state, again.start_time_unix_nano) == ("bare", b"", "", 0)
    assert (set(again.attributes), again.status.code) == (set(), 0)


def test_messages_are_given_up_after_a_megabyte() -> None:
    """They keep what memory they took, so that they last for a megabyte of spans, and larger ones have messages of their own."""
    blanks = BlankSpans()
    first = blanks.take(2, MEGABYTE)
    assert len({id(one) for one in first}) == len(first) >= 2
    after = blanks.take(2, 100)
    assert not {id(one) for one in after} & {id(one) for one in first}
    large = blanks.take(1, MEGABYTE + 1)
    assert large[0] is not blanks.take(1, 100)[0]
