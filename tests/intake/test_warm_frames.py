"""What settling reads of a frame, and of an open trace, by shorter ways."""

from __future__ import annotations

from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp.request import Item
from collectors.sink import Signal
from monitor.intake.frames import Frame
from monitor.intake.journal import Journal
from monitor.intake.material import FrameCache
from monitor.intake.opentrace import OpenTrace
from monitor.intake.records import Columns
from monitor.intake.settling import SpanHead, is_complete
from monitor.model.run import JournalPosition

PLACE = JournalPosition(1, 32)


class OneFrame:
    """A journal of one frame of two spans that counts how often it is read."""

    def __init__(self) -> None:
        self.reads = 0

    def read(self, position: JournalPosition) -> Frame:
        """The frame."""
        self.reads += 1
        made = ExportTraceServiceRequest()
        spans = made.resource_spans.add().scope_spans.add().spans
        spans.add(name="a")
        spans.add(name="b")
        return Frame(position, 99, Signal.TRACES, "otlp", 0.0, 1.0, made.SerializeToString())


def test_a_frame_is_kept_until_all_its_items_are_settled() -> None:
    """It is read once for both of its traces; when both are settled its memory is free, and it can be read anew."""
    journal = OneFrame()
    frames = FrameCache(cast("Journal", journal))
    frames.read(PLACE)
    frames.settled(PLACE, 1)
    frames.read(PLACE)
    assert journal.reads == 1
    frames.settled(PLACE, 1)
    frames.settled(PLACE, 1)  # it is gone: nothing to forget
    frames.read(PLACE)
    assert journal.reads == 2


IDS = st.sampled_from([bytes([n]) * 8 for n in range(1, 4)])


@given(st.lists(st.tuples(IDS, st.one_of(st.just(b""), IDS), st.sampled_from((0, 5))), min_size=1, max_size=5))
@settings(max_examples=80, deadline=None)
def test_a_trace_is_complete_as_its_spans_are(spans: list[tuple[bytes, bytes, int]]) -> None:
    """Copies, missing parents, several roots and spans that have not ended: as `is_complete` says of the heads."""
    items = [Item(b"t" * 16, span_id, parent, 1, end) for span_id, parent, end in spans]
    trace = OpenTrace("otlp", 0.0, 1.0)
    trace.add(Columns.of([*enumerate(items)], Signal.TRACES, PLACE, 0.0), 0, len(items), 0.0, 1.0)
    heads = [SpanHead(one.span_id, one.parent_span_id or bytes(8), one.end > 0) for one in items]
    assert trace.state(1000).complete is is_complete(heads)
