"""Jaeger's older API keeps the contract too, and its JSON is read as the OpenTelemetry mapping has it."""

from __future__ import annotations

from typing import Any

from collectors.jaeger import build_jaeger
from collectors.otlp.otlp_json import convert
from collectors.otlp.request import decode
from collectors.polling.jaeger_legacy import otlp_of
from collectors.sink import Signal
from collectors.span import Span, StatusCode
from tests.contracts.poller_contract import PollerContract
from tests.support.trace_servers import FakeJaeger
from tests.support.trace_world import TraceWorld


class OldJaeger(FakeJaeger):
    """No version 3: its user interface answers there."""

    v3 = False

    def __init__(self, world: TraceWorld, seed: int = 3) -> None:
        super().__init__(world, seed)
        self.limit = 0


class TestOldJaeger(PollerContract):
    """Found out by itself."""

    kind = "jaeger"
    build = staticmethod(build_jaeger)
    server = OldJaeger
    raw = {"max_results": 5000}  # noqa: RUF012

    async def test_ten_thousand_traces_out_of_order_with_a_crash_in_the_middle(self) -> None:
        """The same engine as version 3: a tenth of them here."""
        bench = await self.bench(1000, spread=900.0, interval="120s")
        await bench.run(bench.world.end + 1800)
        bench.check_all(every=10)


def spans_of(**changes: Any) -> Span:
    plain: dict[str, Any] = {
        "traceID": "a1", "spanID": "b2", "operationName": "chat", "startTime": 1_700_000_000_000_001, "duration": 25,
        "references": [], "tags": [], "logs": [], "processID": "p1",
    }  # fmt: skip
    trace = {
        "traceID": "a1",
        "spans": [plain | changes],
        "processes": {"p1": {"serviceName": "desk", "tags": [tag("v", "1")]}},
    }
    return decode(convert(otlp_of(trace), Signal.TRACES).body, Signal.TRACES).spans[0]


def tag(key: str, value: Any, kind: str = "string") -> dict[str, Any]:
    return {"key": key, "type": kind, "value": value}


def reference(kind: str, span: str, trace: str = "a1") -> dict[str, Any]:
    return {"refType": kind, "traceID": trace, "spanID": span}


def test_ids_times_and_resource() -> None:
    """Ids are padded, microseconds are nanoseconds, the process is the resource."""
    span = spans_of()
    assert (span.trace_id, span.span_id) == ("a1".rjust(32, "0"), "b2".rjust(16, "0"))
    assert span.start_time_unix_nano == 1_700_000_000_000_001_000
    assert span.end_time_unix_nano - span.start_time_unix_nano == 25_000
    assert span.resource.attributes == {"v": "1", "service.name": "desk"}


def test_the_parent_is_the_first_child_of_and_others_are_links() -> None:
    """FOLLOWS_FROM, further CHILD_OF and those of other traces are links; parentSpanID is what older writers have."""
    references = [
        reference("FOLLOWS_FROM", "1"),
        reference("CHILD_OF", "9", "ff"),
        reference("CHILD_OF", "2"),
        reference("CHILD_OF", "3"),
    ]
    span = spans_of(references=references)
    assert span.parent_span_id == "2".rjust(16, "0")
    assert [link.span_id.lstrip("0") for link in span.links] == ["1", "9", "3"]
    assert spans_of(parentSpanID="7").parent_span_id == "7".rjust(16, "0")


def test_values_have_their_types() -> None:
    """bool, int64, float64, binary and text."""
    tags = [
        tag("b", True, "bool"),
        tag("i", 2**60, "int64"),
        tag("f", 0.5, "float64"),
        tag("x", "AAE=", "binary"),
        tag("s", "t"),
    ]
    assert spans_of(tags=tags).attributes == {"b": True, "i": 2**60, "f": 0.5, "x": b"\x00\x01", "s": "t"}


def test_status_kind_and_scope_come_out_of_tags() -> None:
    """And do not stay among the attributes."""
    tags = [
        tag("span.kind", "client"),
        tag("otel.status_code", "ERROR"),
        tag("otel.status_description", "no"),
        tag("otel.scope.name", "s"),
    ]
    span = spans_of(tags=tags)
    assert (span.kind, span.status_code, span.status_message, span.scope.name) == (3, StatusCode.ERROR, "no", "s")
    assert span.attributes == {}
    assert spans_of().kind == 1
    assert spans_of(tags=[tag("error", True, "bool")]).status_code is StatusCode.ERROR
    assert spans_of(tags=[tag("error", True, "bool"), tag("otel.status_code", "OK")]).status_code is StatusCode.OK


def test_logs_are_events() -> None:
    """Named by `event`, by `message` where older writers have no other."""
    logs = [
        {"timestamp": 5, "fields": [tag("event", "gen_ai.choice"), tag("message", "m")]},
        {"timestamp": 6, "fields": [tag("message", "old")]},
    ]
    first, second = spans_of(logs=logs).events
    assert (first.name, first.time_unix_nano, first.attributes) == ("gen_ai.choice", 5000, {"message": "m"})
    assert (second.name, second.attributes) == ("old", {})


def test_nonsense_is_no_exception() -> None:
    """Whatever the answer holds, what can be read of it is read."""
    assert otlp_of({}) == {"resourceSpans": []}
    assert otlp_of({"spans": [1, None], "processes": 3}) == {"resourceSpans": []}
    assert spans_of(tags=3, logs=None, references="x", startTime="y", processID=None).name == "chat"
