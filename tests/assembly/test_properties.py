"""What holds for every input: order and repetition do not matter, losses stay local, garbage never raises."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
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


DROPPED = ("langgraph--langsmith-otel/s15_two_runs_at_once", "openai--openinference/s4_two_turns_same_session", "google-adk--v1/s4_two_turns_same_session")  # fmt: skip
"""Cases of two invocations; the property was shown once for every recorded case (631 spans)."""


@pytest.mark.parametrize("case", DROPPED)
def test_a_lost_span_of_a_recording_concerns_its_own_invocation_only(shared: Path, case: str) -> None:
    """Without any one span the invocations that did not hold it are what they were, and no invocation takes from two."""
    spans, logs = load([(shared / "traces" / f"{case}.otlp.jsonl")])
    whole = {made.invocation.id: made for made in assemble(spans, logs, CONTEXT)}
    owner = {member: key for key, made in whole.items() for member in made.span_ids}
    for lost in spans:
        left = {made.invocation.id: made for made in assemble([one for one in spans if one is not lost], logs, CONTEXT)}
        for key, made in whole.items():
            assert lost.span_id in made.span_ids or left[key].invocation == made.invocation
        assert all(len({owner[one] for one in made.span_ids if one in owner}) == 1 for made in left.values())


KEYS_INSIDE = (
    "role", "parts", "content", "type", "text", "tool_calls", "function", "name", "arguments", "id", "messages", "choices", "message",
    "lc", "kwargs", "data", "generations", "output", "toolUse", "toolResult", "function_call", "function_response", "response", "args",
    "items", "toolRequest", "tool_call", "tool_call_result", "origin", "usage", "input", "0", "00",
)  # fmt: skip
LEAVES: tuple[Any, ...] = (
    None, True, False, 0, -7, 2**70, 1.5, float("nan"), float("inf"), "", " ", "plain", "ünï\x00", "x" * 300, b"\xff\x00", "[{", '[{"role"', "{'a': ",
    "AIMessage(content=", "content='", "\ud83c".encode("utf-16", "surrogatepass").decode("utf-16", "replace"), "__REDACTED__", "1e999", "-3",
    json.dumps([text("user", "x")]), json.dumps({"messages": [["human", "x"]]}), '{"lc":1,"kwargs":{}}', "[" * 70 + "]" * 70, "{\"a\": NaN}",
)  # fmt: skip


def garbage(chance: random.Random, depth: int = 0) -> Any:
    """A value of any shape: leaves, lists, objects with keys that mean something elsewhere, and JSON text of these."""
    kind = chance.randrange(10)
    if kind < 5 or depth > 3:
        return chance.choice(LEAVES)
    if kind < 7:
        return [garbage(chance, depth + 1) for _ in range(chance.randrange(4))]
    made = {chance.choice(KEYS_INSIDE): garbage(chance, depth + 1) for _ in range(chance.randrange(6))}
    return json.dumps(made, default=str) if kind == 9 else made


def attributes(seed: int) -> dict[str, Any]:
    """Attributes of garbage; the seed stands for them, so that examples are quick to draw."""
    chance = random.Random(seed)
    keys = [
        chance.choice(KEYS) if chance.random() < 0.9 else f"k{chance.randrange(99)}"
        for _ in range(chance.randrange(13))
    ]
    return {key: chance.choice(WORDS) if chance.random() < 0.4 else garbage(chance) for key in keys}


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
    "message.tool_calls.0.tool_call.function.name", "lk.input.base_span_id", "lk.input.dropped_from_base", "llm.prompts.0.prompt.text", "duration_ms", "prompt", "tool_name",
    "gen_ai.response.id", "gen_ai.agent.call.id", "llm.input_messages.1.message.role", "llm.input_messages.01.message.role", "llm.provider", "session.id", "anthropic.message.stop_reason",
)  # fmt: skip
WORDS = ("invoke_agent", "chat", "execute_tool", "generate_content", "invoke_workflow", "LLM", "AGENT", "TOOL", "CHAIN", "tool", "workflow",
         "llm", "generation", "agent_run", "AGENT_RUN", "ai.generateText", "ai.toolCall", "tools/call", "chat_client", "claude_code.tool")  # fmt: skip
SEEDS = st.integers(0, 2**32)
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
        "gen_ai.client.operation.exception",
        "claude_code.user_prompt",
        "claude_code.tool_result",
        "codex.sse_event",
        "gemini_cli.tool_call",
        "gen_ai.content.prompt",
        "x",
    ]
)


@given(
    spans=st.lists(
        st.tuples(
            st.integers(1, 5),
            st.integers(0, 6),
            NAMES,
            SEEDS,
            st.integers(-3, 9),
            st.integers(0, 2),
            EVENTS,
        ),
        max_size=6,
    ),
    logs=st.lists(st.tuples(st.integers(0, 6), EVENTS, SEEDS), max_size=3),
)
@settings(deadline=None, max_examples=300)
def test_garbage_never_raises(spans: list[tuple], logs: list[tuple]) -> None:  # type: ignore[type-arg]
    """Any attributes, any parents (circles too), any times: no exception, and the result can be written as JSON."""
    from tests.assembly.building import event, log

    made = [
        span(
            number,
            name,
            attributes(seed),
            parent=parent or None,
            at=at,
            status=status,
            events=[event(happened, attributes=attributes(seed + 1))],
        )
        for number, parent, name, seed, at, status, happened in spans
    ]
    records = [
        log(number or None, name, garbage(random.Random(seed)), attributes=attributes(seed))
        for number, name, seed in logs
    ]
    found = assemble(made, records, replace(CONTEXT, explain=True))
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
    chain += [tool(i, "t", parent=i - 1, arguments="{}" if i % 500 else deep) for i in range(2, 10_000)]
    assert len(assemble(chain, [], CONTEXT)) == 1
