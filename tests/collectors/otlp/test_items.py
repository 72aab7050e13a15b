from __future__ import annotations

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp.request import Item, select, split
from collectors.sink import MalformedRequest, RejectReason, Signal
from tests.collectors.otlp.build import SPAN, TRACE, field, frame, logs, record, span, traces

T, L = Signal.TRACES, Signal.LOGS


def only(body: bytes, signal: Signal = T) -> Item:
    (item,) = split(body, signal).items
    return item


def test_a_span_is_seen_by_ids_and_times() -> None:
    """Ids, parent and times of a span come out as they were sent."""
    item = only(traces(span(parent_span_id=b"12345678")))
    assert (item.trace_id, item.span_id, item.parent_span_id, item.start, item.end) == (
        TRACE,
        SPAN,
        b"12345678",
        1_000,
        2_000,
    )
    assert (item.valid, item.end_marker, item.own_telemetry, item.genai) == (True, False, False, True)


def test_items_keep_wire_order_across_resources_and_scopes() -> None:
    """The ordinal of an item counts through all resources and scopes in the order of the bytes."""
    body = traces(span(span_id=b"aaaaaaaa"), span(span_id=b"bbbbbbbb")) + traces(span(span_id=b"cccccccc"))
    assert [item.span_id for item in split(body, T).items] == [b"aaaaaaaa", b"bbbbbbbb", b"cccccccc"]


@pytest.mark.parametrize(
    ("ids", "field_name"),
    [
        ({"trace_id": b""}, "traceId"),
        ({"trace_id": bytes(16)}, "traceId"),
        ({"trace_id": TRACE[:15]}, "traceId"),
        ({"span_id": b""}, "spanId"),
        ({"span_id": bytes(8)}, "spanId"),
        ({"span_id": SPAN + b"x"}, "spanId"),
        ({"parent_span_id": b"short"}, "parentSpanId"),
    ],
)
def test_a_span_with_a_wrong_id_is_invalid_alone(ids: dict[str, bytes], field_name: str) -> None:
    """A missing, zero or wrong-length id rejects its span only, and the message names place and field."""
    request = split(traces(span(), span(**ids)), T)
    assert [item.fault for item in request.items] == [None, RejectReason.INVALID_ID]
    assert request.rejection().startswith(f"resourceSpans[0].scopeSpans[0].spans[1].{field_name}: should be ")


@pytest.mark.parametrize(
    "times",
    [
        {"start_time_unix_nano": 2**64 - 1, "end_time_unix_nano": 1},
        {"start_time_unix_nano": 5, "end_time_unix_nano": 2**63},
    ],
)
def test_a_span_with_an_absurd_time_is_malformed_alone(times: dict[str, int]) -> None:
    """A time after 2262 rejects its span only, whatever is beside it, and the message names place and field."""
    request = split(traces(span(), span(**times)), T)
    assert [item.fault for item in request.items] == [None, RejectReason.MALFORMED]
    assert request.rejection().startswith(
        "resourceSpans[0].scopeSpans[0].spans[1].startTimeUnixNano or endTimeUnixNano: "
    )
    for wanted in (None, lambda trace_id: True):
        assert split(traces(span(**times)), T, wanted).items[0].fault is RejectReason.MALFORMED


def test_a_parent_of_zeros_is_no_parent() -> None:
    """Some senders write a root's parent as eight zero bytes."""
    item = only(traces(span(parent_span_id=bytes(8))))
    assert item.valid
    assert item.parent_span_id == b""


def test_nothing_is_said_when_all_is_valid() -> None:
    """`rejection` is empty for a request of valid items and for an empty request."""
    assert split(traces(span()), T).rejection() == ""
    assert split(b"", T).rejection() == ""
    assert split(b"", T).items == []


def test_a_span_that_cannot_be_read_is_rejected_alone() -> None:
    """Bytes that are no span do not take the others with them."""
    good = span().SerializeToString()
    request = split(frame(good, b"\x07", good), T)
    assert [item.fault for item in request.items] == [None, RejectReason.MALFORMED, None]
    assert request.rejection() == "resourceSpans[0].scopeSpans[0].spans[1]: is no Span message"


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xff\xff\xff",
        b"not protobuf at all",
        traces(span())[:-3],
        frame(b"\x07"),
        frame(b"\x07", b"\x0a\xff"),
        field(1, field(1, b"\x0a\xff")),
        field(1, field(2, field(1, b"\x0a\xff"))),
    ],
    ids=["bytes", "text", "cut", "one bad span", "all spans bad", "resource", "scope"],
)
def test_bytes_that_are_no_request_are_malformed(body: bytes) -> None:
    """A broken frame, resource or scope, or a request of nothing but unreadable items, is refused as a whole."""
    with pytest.raises(MalformedRequest):
        split(body, T)


def test_spans_read_at_once_are_as_those_read_one_by_one() -> None:
    """All items are the same whether the heads of a request are read together or, because one is unreadable, each by itself."""
    marked = span(span_id=b"bbbbbbbb", parent_span_id=SPAN, attributes={"rubricd.invocation.end": True})
    first = frame(*(one.SerializeToString() for one in (span(), marked, span(span_id=b"short"))))
    second = traces(span(span_id=b"cccccccc", parent_span_id=bytes(8)), resource={"service.name": "rubricd"})
    request = split(first + second, T)
    assert [*request.items, Item(b"", b"", b"", 0, 0, RejectReason.MALFORMED)] == split(
        first + second + frame(b"\x07"), T
    ).items
    assert [item.own_telemetry for item in request.items] == [False, False, False, True]
    assert split(request.keeping([1, 3]), T).items == [request.items[1], request.items[3]]
    assert request.rejection().startswith("resourceSpans[0].scopeSpans[0].spans[2].spanId")


def test_a_request_without_items_is_fine() -> None:
    """Empty requests, resources and scopes are legal OTLP."""
    assert split(traces(), T).items == []
    assert split(field(1, b""), T).items == []


def test_keeping_leaves_the_other_items_out() -> None:
    """`keeping` keeps resource and scope of what is kept and drops those that lose all; everything kept is the same bytes."""
    body = traces(span(span_id=b"aaaaaaaa"), span(span_id=b"bbbbbbbb"), resource={"service.name": "s"}) + traces(
        span(span_id=b"cccccccc")
    )
    request = split(body, T)
    assert request.keeping([0, 1, 2]) is body
    left = ExportTraceServiceRequest.FromString(request.keeping([1]))
    assert len(left.resource_spans) == 1
    assert left.resource_spans[0].resource.attributes[0].value.string_value == "s"
    assert [s.span_id for s in left.resource_spans[0].scope_spans[0].spans] == [b"bbbbbbbb"]
    assert [item.span_id for item in split(request.keeping([0, 2]), T).items] == [b"aaaaaaaa", b"cccccccc"]
    assert request.keeping([]) == b""


def test_spans_that_nobody_wants_are_not_looked_into() -> None:
    """An unwanted trace's span is told by its ids alone, whatever follows them; one with wrong ids, or that begins in another way, is read."""
    other = b"fedcba9876543210"
    unwanted = span(trace_id=other).SerializeToString()
    reordered = span(trace_id=other).SerializeToString().removeprefix(field(1, other)) + field(1, other)
    zeros = span(trace_id=other, span_id=bytes(8)).SerializeToString()
    body = frame(span().SerializeToString(), unwanted, unwanted[:28] + b"\x07", reordered, zeros)
    items = split(body, T, wanted=lambda trace_id: trace_id == TRACE).items
    assert [item.unwanted for item in items] == [False, True, True, False, False]
    assert [item.fault for item in items] == [None, None, None, None, RejectReason.INVALID_ID]
    assert items[3].trace_id == other


def test_wanted_and_unwanted_spans_may_be_mixed() -> None:
    """Spans of several traces in any order, with an unreadable one and one cut in its ids between, are told each by itself and stay in place."""
    other = b"fedcba9876543210"
    ids = [b"%08d" % number for number in range(6)]
    wanted = [span(span_id=one).SerializeToString() for one in ids]
    unwanted = [span(trace_id=other, span_id=one).SerializeToString() for one in ids]
    raws = [wanted[0], unwanted[1], unwanted[2], wanted[3], b"\x07", wanted[4], unwanted[5][:25], wanted[5]]
    items = split(frame(*raws), T, wanted=lambda trace_id: trace_id != other).items
    assert [item.span_id for item in items] == [ids[0], b"", b"", ids[3], b"", ids[4], b"", ids[5]]
    assert [item.unwanted for item in items] == [False, True, True, False, False, False, False, False]
    assert [ordinal for ordinal, item in enumerate(items) if not item.valid] == [4, 6]


def test_select_keeps_items_and_concatenation_is_a_request() -> None:
    """Selected parts of several requests, one after the other, are one request."""
    first = traces(span(span_id=b"aaaaaaaa"), span(span_id=b"bbbbbbbb"))
    second = traces(span(span_id=b"cccccccc"))
    joined = select(first, T, [1]) + select(second, T, [0])
    assert [item.span_id for item in split(joined, T).items] == [b"bbbbbbbb", b"cccccccc"]


def test_a_resource_in_pieces_is_one_resource() -> None:
    """A singular message that is given twice is merged, as protobuf says (encoding, "Last One Wins")."""
    pieces = b"".join(
        field(
            1,
            ExportTraceServiceRequest.FromString(traces(resource={key: value}))
            .resource_spans[0]
            .resource.SerializeToString(),
        )
        for key, value in (("service.name", "rubricd"), ("x", "y"))
    )
    body = field(1, pieces + field(2, field(2, span().SerializeToString())))
    assert only(body).own_telemetry
    assert only(select(body, T, [0])).own_telemetry


@pytest.mark.parametrize("value", [True, "true", "True"])
def test_an_end_marker_is_seen(value: object) -> None:
    """`rubricd.invocation.end` marks a span or log record, as a boolean or from senders that only have texts."""
    assert only(traces(span(attributes={"rubricd.invocation.end": value}))).end_marker
    item = only(logs(record(attributes={"rubricd.invocation.end": value})), L)
    assert (item.end_marker, item.genai) == (True, True)


@pytest.mark.parametrize("value", [False, "false", "", 1])
def test_an_end_marker_that_is_not_true_is_none(value: object) -> None:
    """Only true ends an invocation."""
    assert not only(traces(span(attributes={"rubricd.invocation.end": value}))).end_marker


@pytest.mark.parametrize("resource", [{"service.name": "rubricd"}, {"rubricd.internal": True}])
def test_telemetry_of_ours_is_seen_by_its_resource(resource: dict[str, object]) -> None:
    """What rubricd itself sends is recognised, spans and log records."""
    assert only(traces(span(), resource=resource)).own_telemetry
    assert only(logs(record(), resource=resource), L).own_telemetry


@pytest.mark.parametrize(
    "attributes",
    [
        {"rubricd.internal": True},
        {"openinference.span.kind": "EVALUATOR"},
        {"gen_ai.operation.name": "judge"},
        {"gen_ai.operation.name": "evaluate"},
        {"langfuse.observation.type": "evaluator"},
    ],
)
def test_spans_of_evaluators_are_seen(attributes: dict[str, object]) -> None:
    """A judge's own spans are recognised, and only those of the request."""
    items = split(traces(span(), span(attributes={"before": "x", **attributes}), span()), T).items
    assert [item.own_telemetry for item in items] == [False, True, False]


@pytest.mark.parametrize(
    "attributes",
    [
        {"openinference.span.kind": "AGENT"},
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": "please judge and evaluate the EVALUATOR"},
        {"note": "rubricd.internal", "service.name": "rubricd"},
        {"tool": "evaluate"},
    ],
)
def test_agents_that_speak_of_evaluation_are_agents(attributes: dict[str, object]) -> None:
    """Words in content or in other attributes make no evaluator."""
    assert not only(traces(span(attributes=attributes))).own_telemetry


def test_a_service_with_a_like_name_is_not_ours() -> None:
    """Only the exact service name is ours."""
    assert not only(traces(span(), resource={"service.name": "rubricd-demo-agent"})).own_telemetry


@pytest.mark.parametrize("as_attribute", [False, True])
def test_evaluation_results_are_own_telemetry(as_attribute: bool) -> None:
    """`gen_ai.evaluation.result` records never become part of what they evaluate."""
    name = "gen_ai.evaluation.result"
    made = record(attributes={"event.name": name}) if as_attribute else record(event_name=name)
    assert only(logs(made), L).own_telemetry


@pytest.mark.parametrize(
    ("scope", "fields"),
    [
        ("test", {"event_name": "gen_ai.choice"}),
        ("test", {"attributes": {"event.name": "gen_ai.user.message"}}),
        ("test", {"attributes": {"gen_ai.system": "openai"}}),
        ("test", {"attributes": {"event.name": "codex.user_prompt"}}),
        ("test", {"attributes": {"traceloop.entity.input": "x"}}),
        ("com.anthropic.claude_code.events", {"attributes": {"event.name": "user_prompt"}}),
        ("org.springframework.ai.chat.observation.ChatModelCompletionObservationHandler", {}),
        ("github.copilot", {}),
        ("strands.telemetry.tracer", {"body": {"input": {"messages": [{"role": "user", "content": "hi"}]}}}),
    ],
)
def test_log_records_of_agents_are_genai(scope: str, fields: dict[str, object]) -> None:
    """GenAI event names and attributes, and the dialects that carry messages without them, are worth keeping."""
    from tests.collectors.otlp.build import any_value

    if "body" in fields:
        fields = {**fields, "body": any_value(fields["body"])}
    assert only(logs(record(**fields), scope=scope), L).genai  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": {"http.route": "/"}},
        {"event_name": "device.app.lifecycle"},
        {"attributes": {"message": "gen_ai.choice"}},
    ],
)
def test_ordinary_log_records_are_not_genai(fields: dict[str, object]) -> None:
    """An application's log lines are valid, and nothing for us."""
    item = only(logs(record(**fields)), L)  # type: ignore[arg-type]
    assert (item.valid, item.genai) == (True, False)


@pytest.mark.parametrize("trace_id", [b"", bytes(16)])
def test_a_log_record_without_trace_is_ordinary(trace_id: bytes) -> None:
    """A log record needs no trace id; without one it belongs to no invocation, and is no fault of the sender."""
    item = only(logs(record(trace_id, b"", {"gen_ai.system": "x"})), L)
    assert (item.valid, item.genai, item.trace_id) == (True, False, b"")


def test_a_log_record_needs_no_span() -> None:
    """A log record of a whole trace has no span id, also written as zeros."""
    for span_id in (b"", bytes(8)):
        item = only(logs(record(span_id=span_id, event_name="gen_ai.choice")), L)
        assert (item.valid, item.span_id, item.start) == (True, b"", 1_500)


@pytest.mark.parametrize(("ids", "name"), [({"trace_id": b"abc"}, "traceId"), ({"span_id": b"abc"}, "spanId")])
def test_a_log_record_with_a_wrong_id_is_invalid(ids: dict[str, bytes], name: str) -> None:
    """Ids of another length are rejected for log records, too."""
    request = split(logs(record(**ids)), L)
    assert request.items[0].fault is RejectReason.INVALID_ID
    assert request.rejection().startswith(f"resourceLogs[0].scopeLogs[0].logRecords[0].{name}: ")


def test_the_time_of_a_log_record_falls_back_to_when_it_was_observed() -> None:
    """A record without its own time has that of its observation (logs data model)."""
    assert only(logs(record(time_unix_nano=0, observed_time_unix_nano=77)), L).start == 77
