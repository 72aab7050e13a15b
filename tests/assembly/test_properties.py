"""What holds for every input: order and repetition do not matter, losses stay local, garbage never raises."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collectors.span import LogRecord, Span
from monitor.assembly import assemble, ties
from monitor.model.wire import invocation_json
from tests.assembly.building import CONTEXT, agent, answer, call, chat, span, text, tool
from tests.assembly.recordings import load

SAMPLE = (
    "agent-framework--in-web-app/s12_same_tool_twice_parallel",
    "agent-framework--v1.36/s2_two_tools_parallel",
    "anthropic--openllmetry/s4_two_turns_same_session",
    "google-adk--openinference/s9_policy_violation",
    "google-adk--v1/s7_streaming_one_tool",
    "langgraph--langsmith-otel/s15_two_runs_at_once",
    "langgraph--openlit/s7_streaming_one_tool",
    "openai--openinference/s15_two_runs_at_once",
    "openai-agents--openinference/s15_two_runs_at_once",
    "strands-agents--semconv/s12_same_tool_twice_parallel",
    "vercel-ai-sdk--v5/s9_policy_violation",
)


def as_text(spans: list[Span], logs: list[LogRecord]) -> str:
    """The invocations as JSON."""
    return json.dumps([invocation_json(one.invocation) for one in assemble(spans, logs, CONTEXT)], sort_keys=True)


@pytest.mark.parametrize("case", SAMPLE)
def test_order_and_repetition_do_not_matter(shared: Path, case: str) -> None:
    """Five random orders, half of the spans and log records twice: always the same invocations."""
    base = shared / "traces" / case
    files = [base.with_name(base.name + ending) for ending in (".otlp.jsonl", ".logs.jsonl")]
    spans, logs = load(file for file in files if file.exists())
    expected = as_text(spans, logs)
    for seed in range(5):
        chance = random.Random(seed)
        more_spans = spans + chance.sample(spans, len(spans) // 2)
        more_logs = logs + chance.sample(logs, len(logs) // 2)
        chance.shuffle(more_spans)
        chance.shuffle(more_logs)
        assert as_text(more_spans, more_logs) == expected


def turn(first: int, at: float, question: str) -> list[Span]:
    """An agent's turn of four spans that start at second `at`."""
    asked = text("user", question)
    made = [call(f"c{first}", "find", {"q": question})]
    told = [asked, *made, answer(f"c{first}", "found")]
    return [
        agent(first, "clerk", [asked], [text("assistant", f"re: {question}")], parent=1, at=at, until=at + 9),
        chat(first + 1, [asked], made, parent=first, at=at + 1),
        tool(first + 2, "find", f"c{first}", {"q": question}, "found", parent=first, at=at + 3),
        chat(first + 3, told, [text("assistant", f"re: {question}")], parent=first, at=at + 5),
    ]


@given(
    lost=st.integers(0, 3),
    victim=st.integers(0, 2),
    kind=st.sampled_from([1, 2, 5]),
    gap=st.sampled_from([-8.0, 0.0, 10.0]),
    closed=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_a_lost_span_concerns_its_own_invocation_only(
    lost: int, victim: int, kind: int, gap: float, closed: bool
) -> None:
    """Without one span of one turn the other turns are what they were: neither merged nor split nor changed."""
    overlapping = gap < 0 and kind != 1
    turns = [turn(10 * (i + 1), i * (10 + gap), f"question {i}") for i in range(3)]
    root = span(1, "session", kind=kind, until=500 if closed else 0)
    whole = {
        made.invocation.id: made.invocation
        for made in assemble([root, *(one for spans in turns for one in spans)], [], CONTEXT)
    }
    if overlapping:
        return  # agents at the same time under one received request are one invocation by design
    assert len(whole) == 3
    kept = [one for i, spans in enumerate(turns) for j, one in enumerate(spans) if (i, j) != (victim, lost)]
    left = {made.invocation.id: made.invocation for made in assemble([root, *kept], [], CONTEXT)}
    for i, spans in enumerate(turns):
        if i != victim:
            key = f"{spans[0].trace_id}-{spans[0].span_id}"
            assert left[key] == whole[key]


KEYS_INSIDE = (
    "role", "parts", "content", "type", "text", "tool_calls", "function", "name", "arguments", "id", "messages", "choices", "message",
    "lc", "kwargs", "data", "generations", "output", "toolUse", "toolResult", "function_call", "function_response", "response", "args",
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.binary(max_size=8)
    | st.sampled_from(["[{", '"[{\\"role\\"', "{'a': ", "AIMessage(content=", "content='", "\ud83c".encode("utf-16", "surrogatepass").decode("utf-16", "replace"), "__REDACTED__"])
    | st.sampled_from([json.dumps([text("user", "x")]), json.dumps({"messages": [["human", "x"]]}), '{"lc":1,"kwargs":{}}']),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | st.sampled_from(KEYS_INSIDE), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip
KEYS = (
    "gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.tool.name", "gen_ai.agent.name", "gen_ai.request.model",
    "gen_ai.usage.input_tokens", "gen_ai.conversation.id", "gen_ai.prompt", "gen_ai.completion", "gen_ai.prompt.0.content",
    "gen_ai.prompt.0.tool_calls.0.name", "gen_ai.completion.0.content", "openinference.span.kind", "input.value", "output.value",
    "llm.input_messages.0.message.role", "llm.input_messages.0.message.content", "llm.output_messages.3.message.tool_calls.1.tool_call.id",
    "llm.tools.0.tool.json_schema", "llm.invocation_parameters", "metadata", "tool.parameters", "traceloop.span.kind",
    "traceloop.entity.input", "traceloop.entity.output", "gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response",
    "gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response", "pydantic_ai.all_messages", "pydantic_ai.new_message_index",
    "model_name", "final_result", "events", "model_request_parameters", "tool_arguments", "ai.operationId", "ai.prompt", "ai.prompt.messages",
    "ai.prompt.tools", "ai.response.toolCalls", "ai.toolCall.args", "langsmith.span.kind", "langsmith.metadata.usage_metadata",
    "langfuse.observation.type", "langfuse.observation.input", "langfuse.observation.usage_details", "mastra.span.type", "mlflow.spanType",
    "mlflow.spanInputs", "mlflow.spanOutputs", "mlflow.chat.tools", "lk.chat_ctx", "lk.response.function_calls", "genkit:input",
    "genkit:metadata:subtype", "spring.ai.kind", "haystack.agent.input", "dify.app_id", "gen_ai.span.kind", "lmnr.span.type", "span.type",
    "request_data", "response_data", "logfire.msg", "mcp.method.name", "az.namespace", "sk.available_functions", "user_prompt", "query_source",
    "message.tool_calls.0.tool_call.function.name", "llm.provider", "session.id", "anthropic.message.stop_reason",
)  # fmt: skip
WORDS = ("invoke_agent", "chat", "execute_tool", "generate_content", "invoke_workflow", "LLM", "AGENT", "TOOL", "CHAIN", "tool", "workflow",
         "llm", "generation", "agent_run", "AGENT_RUN", "ai.generateText", "ai.toolCall", "tools/call", "chat_client", "claude_code.tool")  # fmt: skip
ATTRIBUTES = st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=12), VALUES | st.sampled_from(WORDS), max_size=12)
NAMES = st.sampled_from(
    ["", "chat x", "invoke_agent x", "execute_tool y", "invocation", "call_llm", "raw_gen_ai_request", "llm_request"]
)
EVENTS = st.sampled_from(
    [
        "gen_ai.choice",
        "gen_ai.user.message",
        "gen_ai.tool.message",
        "exception",
        "gen_ai.client.inference.operation.details",
        "x",
    ]
)


@given(
    spans=st.lists(
        st.tuples(
            st.integers(1, 5),
            st.integers(0, 6),
            NAMES,
            ATTRIBUTES,
            st.integers(-3, 9),
            st.integers(0, 2),
            EVENTS,
            ATTRIBUTES,
        ),
        max_size=6,
    ),
    logs=st.lists(st.tuples(st.integers(0, 6), EVENTS, VALUES, ATTRIBUTES), max_size=3),
)
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_garbage_never_raises(spans: list[tuple], logs: list[tuple]) -> None:  # type: ignore[type-arg]
    """Any attributes, any parents (circles too), any times: no exception, and the result can be written as JSON."""
    from tests.assembly.building import event, log

    made = [
        span(
            number,
            name,
            attributes,
            parent=parent or None,
            at=at,
            status=status,
            events=[event(happened, attributes=more)],
        )
        for number, parent, name, attributes, at, status, happened, more in spans
    ]
    records = [log(number or None, name, body, attributes=attributes) for number, name, body, attributes in logs]
    found = assemble(made, records, CONTEXT)
    ties(made, records)
    for one in found:
        json.dumps(invocation_json(one.invocation), ensure_ascii=False, allow_nan=False).encode()


def test_parents_in_a_circle() -> None:
    """Spans that are each other's parents are neither lost nor followed for ever."""
    found = assemble([agent(1, parent=2), chat(2, [text("user", "q")], parent=1)], [], CONTEXT)
    assert len(found) == 1
    assert found[0].span_ids == {f"{1:016x}", f"{2:016x}"}


def test_deep_nesting() -> None:
    """Ten thousand spans inside each other, and JSON nested a thousand deep, are only long."""
    deep = "[" * 1000 + "]" * 1000
    chain = [chat(1, parent=None, attributes={"gen_ai.input.messages": deep})]
    chain += [tool(i, "t", parent=i - 1, arguments=deep) for i in range(2, 10_000)]
    assert len(assemble(chain, [], CONTEXT)) == 1
