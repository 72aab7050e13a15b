"""Traces as they come on the wire, heads of what is made of them, and ways to change them; for tests that compare sketch and assembly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from collectors.otlp.lazy import BlankSpans
from collectors.otlp.request import RawItems, decode
from collectors.sink import Signal
from monitor.assembly import AssemblyContext, assemble
from monitor.assembly.conventions.identity import CONVERSATION_KEYS
from monitor.assembly.sketch import sketch
from monitor.model.invocation import Assembled, SettledBy

BLANKS = BlankSpans()  # one for all: nothing of a trace may be left for the next
CONTEXT = AssemblyContext(SettledBy.ROOT_ENDED, "otlp")
TRACE = bytes(range(1, 17))
_NAMES = (
    "convention", "collector", "conversation_id", "agent_name", "agent_version", "environment", "service", "model", "operation",
    "id", "trace_id", "span_id", "parent_id", "started_at", "ended_at", "revision", "model_calls", "input_tokens", "output_tokens",
    "attributes", "inclusion_probability",
)  # fmt: skip


def head(one: Assembled) -> dict[str, Any]:
    """What a row says of an invocation without its content."""
    invocation = one.invocation
    found = {name: getattr(invocation, name) for name in _NAMES}
    done = invocation.completeness
    return found | {
        "failed": invocation.error is not None,
        "settled": (done.settled_by, done.late_spans),
        "spans": one.span_ids,
    }


def sketched(bodies: Iterable[bytes], trace_id: bytes = TRACE) -> list[dict[str, Any]] | None:
    """The heads that the sketch gives."""
    items = [item for body in bodies for item in RawItems(body, Signal.TRACES).items]
    found = sketch(items, trace_id.hex(), CONTEXT, BLANKS)
    return None if found is None else [head(one) for one in found]


def assembled(bodies: Iterable[bytes]) -> list[dict[str, Any]]:
    """The heads that the assembly gives."""
    spans = [span for body in bodies for span in decode(body, Signal.TRACES).spans]
    return [head(one) for one in assemble(spans, (), CONTEXT)]


def put(span: SpanMessage, key: str, value: Any) -> None:
    """Set an attribute; None takes it away."""
    for at in reversed(range(len(span.attributes))):
        if span.attributes[at].key == key:
            del span.attributes[at]
    if value is None:
        return
    given = span.attributes.add(key=key).value
    if isinstance(value, bool):
        given.bool_value = value
    elif isinstance(value, int):
        given.int_value = value
    elif isinstance(value, float):
        given.double_value = value
    elif isinstance(value, list):
        given.array_value.values.extend(type(given)(string_value=text) for text in value)
    else:
        given.string_value = value


def span_of(number: int, parent: int | None, name: str, times: tuple[int, int], **attributes: Any) -> SpanMessage:
    """A span; two underscores in a keyword stand for the dot of `gen_ai.`, one for the dots behind it."""
    made = SpanMessage(trace_id=TRACE, span_id=bytes([number]) * 8, name=name, kind=1)
    made.parent_span_id = b"" if parent is None else bytes([parent]) * 8
    made.start_time_unix_nano, made.end_time_unix_nano = 10**18 + times[0], 10**18 + times[1]
    for key, value in attributes.items():
        put(made, key.replace("__", "."), value)
    return made


def plain() -> list[SpanMessage]:
    """A web request, an agent, two model calls, a tool with a request of its own, and a retrieval."""
    chat = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m", "gen_ai__conversation__id": "c7"}
    usage = {"gen_ai__usage__input_tokens": 7, "gen_ai__usage__output_tokens": 3}
    return [
        span_of(1, None, "POST /ask", (0, 100), http__request__method="POST"),
        span_of(
            2, 1, "invoke_agent desk", (1, 99), gen_ai__operation__name="invoke_agent", gen_ai__agent__name="desk",
            gen_ai__conversation__id="c7", gen_ai__input__messages="[]",
        ),
        span_of(3, 2, "chat m", (2, 20), **chat, **usage, gen_ai__response__id="r1"),
        span_of(4, 2, "execute_tool find", (21, 40), gen_ai__operation__name="execute_tool", gen_ai__tool__name="find"),
        span_of(5, 4, "GET /find", (22, 39), url__full="http://find"),
        span_of(6, 2, "retrieval", (41, 50), gen_ai__operation__name="retrieval"),
        span_of(7, 2, "chat m", (51, 90), **chat, **usage, gen_ai__response__id="r2", gen_ai__output__messages="[]"),
    ]  # fmt: skip


RESOURCE = {"service.name": "helpdesk", "service.version": "4", "deployment.environment.name": "prod"}


def request(
    spans: Sequence[SpanMessage], resource: dict[str, Any] | None = None, scope: str = "instrumentation"
) -> bytes:
    """An export request. A text that holds `@@` is made invalid."""
    made = ExportTraceServiceRequest()
    entry = made.resource_spans.add()
    for key, value in (RESOURCE if resource is None else resource).items():
        entry.resource.attributes.add(key=key).value.string_value = value
    inner = entry.scope_spans.add()
    inner.scope.name = scope
    inner.spans.extend(spans)
    return made.SerializeToString().replace(b"@@", b"\xff@")


_KEYS = (
    "gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.system", "gen_ai.agent.name", "gen_ai.agent.version", "gen_ai.agent.id",
    "gen_ai.request.model", "gen_ai.response.model", "gen_ai.response.id", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
    "gen_ai.usage.prompt_tokens", "gen_ai.usage.cache_read.input_tokens", "gen_ai.tool.name", "gen_ai.tool.call.id",
    "gen_ai.output.messages", "gen_ai.workflow.name", "gen_ai.workflow.output", "gen_ai.graph.status", "gen_ai.sdk.version", "gen_ai.prompt",
    "gen_ai.prompt.0.content", "gen_ai.span.kind", "gen_ai.environment", "gen_ai.request.previous_response.id", "openinference.span.kind",
    "traceloop.span.kind", "agent_name", "final_result", "model_name", "llm.model_name", "langfuse.observation.type", "span.type", "ai.operationId",
    "mcp.method.name", "metadata", "az.namespace", "anthropic.message.id", "deployment.environment", "error.type", "http.route", "codex.turn.id",
    "logfire.msg", "enduser.id", *CONVERSATION_KEYS,
)  # fmt: skip
_VALUES = (
    "invoke_agent", "chat", "execute_tool", "create_agent", "handoff", "judge", "generate_content", "embeddings", "invoke_workflow", "Chat",
    "chain", "unknown", "", " ", "[redacted]", "langgraph", "spring_ai", "az.ai.agents", "resp_1", "default", "c7", "c8", "r1", "r2", "desk",
    "LLM", "AGENT", "agent", "tool", "@@", '{"session_id": "s"}', 0, 5, -3, 2**63 - 1, 1.5, True, ["stop"], None,
)  # fmt: skip
_TITLES = (
    "invoke_agent other", "invoke_agent", "chat", "execute_tool x", "create_agent desk", "invocation", "agent_turn", "codex.turn",
    "claude_code.interaction", "litellm_request", "raw_gen_ai_request", "running tool", "", "@@",
)  # fmt: skip
_PLACES = st.integers(0, 6)
_CHANGES = st.one_of(
    st.tuples(st.just("put"), _PLACES, st.sampled_from(_KEYS), st.sampled_from(_VALUES)),
    st.tuples(st.just("put"), _PLACES, st.sampled_from(_KEYS[:16]), st.sampled_from(_VALUES)),
    st.tuples(st.just("name"), _PLACES, st.sampled_from(_TITLES)),
    st.tuples(st.just("parent"), _PLACES, st.integers(0, 8)),
    st.tuples(st.just("status"), _PLACES, st.integers(0, 3)),
    st.tuples(st.just("times"), _PLACES, st.integers(0, 100), st.integers(0, 100)),
    st.tuples(st.just("open"), _PLACES),
    st.tuples(st.just("event"), _PLACES, st.sampled_from(("exception", "gen_ai.user.message", "gen_ai.content.prompt", "note"))),
    st.tuples(st.just("drop"), _PLACES),
    st.tuples(st.just("copy"), _PLACES, _PLACES),
    st.tuples(st.just("again"), _PLACES),
    st.tuples(st.just("state"), _PLACES, st.sampled_from(("ot=th:8", "ot=th:c;rv:1", "x=y"))),
    st.tuples(st.just("link"), _PLACES, _PLACES),
    st.tuples(st.just("bare"), _PLACES),
)  # fmt: skip


@st.composite
def changed(draw: Any) -> bytes:
    """The plain trace, changed in up to three ways, under some resource and scope."""
    spans = plain()
    for kind, place, *told in draw(st.lists(_CHANGES, min_size=0, max_size=3)):
        if spans:
            _change(spans, kind, place % len(spans), told)
    resource = draw(
        st.sampled_from((None, {}, {"service.name": " "}, {"deployment.environment": "dev", "service.name": "@@"}))
    )
    return request(spans, resource, draw(st.sampled_from(("instrumentation", "gcp.vertex.agent", "", "@@"))))


def _change(spans: list[SpanMessage], kind: str, place: int, told: Sequence[Any]) -> None:
    span = spans[place]
    match kind:
        case "put":
            put(span, told[0], told[1])
        case "name":
            span.name = told[0]
        case "parent":
            span.parent_span_id = bytes([told[0]]) * 8
        case "status":
            span.status.code = told[0]
            span.status.message = "it failed"
        case "times":
            span.start_time_unix_nano, span.end_time_unix_nano = 10**18 + told[0], 10**18 + told[1]
        case "open":
            span.end_time_unix_nano = 0
        case "event":
            span.events.add(name=told[0]).attributes.add(key="exception.type").value.string_value = "ValueError"
        case "drop":
            del spans[place]
        case "copy":
            span.span_id = bytes([told[0] + 1]) * 8
        case "again":
            spans.append(span)
        case "state":
            span.trace_state = told[0]
        case "link":
            span.kind = 5
            span.links.add(trace_id=TRACE, span_id=bytes([told[0] + 1]) * 8)
        case "bare":
            del span.attributes[:]
