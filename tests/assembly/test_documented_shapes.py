"""Shapes that the dialects' documentation tells of and no recording shows, each as the smallest trace that has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.span import LogRecord, Span
from monitor.assembly import deltas
from monitor.model.invocation import Capture, ToolStatus
from tests.assembly.building import agent, answer, assembled, call, chat, event, log, only, span, text, tool

J = json.dumps
USAGE = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}


def cli(name: str, at: float, conversation: str = "session.id", **attributes: Any) -> LogRecord:
    """A log record of a command-line agent, without a span; `__` stands for a dot."""
    found = {key.replace("__", "."): value for key, value in attributes.items()}
    return log(None, name, at=at, attributes={**found, conversation: "t1"})


CLAUDE_CODE = (
    cli("claude_code.user_prompt", 1, prompt="q"),
    cli("claude_code.api_request", 3, model="m1", input_tokens=4, cache_read_tokens=6, output_tokens=2, duration_ms=900, request_id="r1"),
    cli("claude_code.tool_result", 5, tool_name="find", tool_parameters='{"x": 1}', success="true", duration_ms=500),
    cli("claude_code.api_response_body", 3.5, request_id="r1", body=J({"role": "assistant", "content": [{"type": "text", "text": "a"}]})),
)  # fmt: skip
CODEX = (
    cli("codex.user_prompt", 1, "conversation.id", prompt="q"),
    cli("codex.sse_event", 2, "conversation.id", event__kind="response.output_item.done"),
    cli("codex.sse_event", 3, "conversation.id", event__kind="response.completed", model="m1", input_token_count=10, output_token_count=2),
    cli("codex.tool_result", 5, "conversation.id", tool_name="find", call_id="c1", arguments='{"x": 1}', output="found", success="true"),
)  # fmt: skip
GEMINI_CLI = (
    cli("gemini_cli.user_prompt", 1, prompt="q"),
    cli("gemini_cli.tool_call", 2, function_name="find", function_args='{"x": 1}', success=True, decision="accept"),
    cli("gemini_cli.api_response", 3, model="m1", input_token_count=10, output_token_count=2, response_text="a"),
)


@pytest.mark.parametrize("records", [CLAUDE_CODE, CODEX, GEMINI_CLI], ids=["claude_code", "codex", "gemini_cli"])
def test_a_coding_agent_that_only_writes_log_records(records: tuple[LogRecord, ...]) -> None:
    """Prompt, model call and tool in log records alone are one run; what records stand for has no span id; the order does not matter."""
    run = only(*records)
    assert (run.user_input, run.conversation_id, run.model) == ("q", "t1", "m1")
    assert (run.model_calls, run.input_tokens, run.output_tokens) == (1, 10, 2)
    assert [(one.name, one.arguments, one.status, one.span_id) for one in run.tool_calls] == [
        ("find", {"x": 1}, ToolStatus.OK, None)
    ]
    assert run.final_response == (None if records is CODEX else "a")
    assert only(*records[::-1]) == run


def test_two_prompts_in_log_records_are_two_runs() -> None:
    """A further prompt begins a further run, and a refused tool is denied."""
    again = cli("claude_code.user_prompt", 10, prompt="again")
    refused = cli("claude_code.tool_result", 12, tool_name="rm", success="false", decision_type="reject")
    runs = assembled(*CLAUDE_CODE, again, refused)
    assert [run.user_input for run in runs] == ["q", "again"]
    assert [one.status for one in runs[1].tool_calls] == [ToolStatus.DENIED]


def test_records_beside_a_coding_agents_spans_add_content_not_steps() -> None:
    """Where spans tell the steps, records of the same steps are evidence: nothing counts twice, prompts come from the records."""
    spans = [
        span(1, "claude_code.interaction", {"session.id": "t1"}, until=9),
        span(2, "claude_code.llm_request", {"model": "m1", "input_tokens": 10, "output_tokens": 2}, parent=1, at=2),
    ]
    prompt = log(1, "claude_code.user_prompt", at=1, attributes={"prompt": "q"})
    run = only(*spans, prompt, cli("claude_code.api_request", 3, model="m1", input_tokens=10, output_tokens=2))
    assert (run.user_input, run.model_calls, run.input_tokens) == ("q", 1, 10)


def test_codex_turn_with_content_in_records() -> None:
    """A turn's span without content takes prompt and tools from its records."""
    turn = span(1, "session_task.turn", {"model": "m1", "codex.turn.token_usage.input_tokens": 7}, until=9)
    records = [log(1, one.event_name, at=3, attributes=one.attributes) for one in (CODEX[0], CODEX[3])]
    run = only(turn, *records)
    assert (run.user_input, run.input_tokens, run.agent_name) == ("q", 7, "codex")
    assert [(one.name, one.result) for one in run.tool_calls] == [("find", "found")]


def item(role: str, content: str) -> dict[str, Any]:
    """A chat item of LiveKit."""
    return {"type": "message", "role": role, "content": [content]}


def delta(number: int, items: list[Any], base: int | None = None, dropped: int = 0, **more: Any) -> Span:
    """An `llm_node` that records what its input has beyond another's."""
    attributes: dict[str, Any] = {"lk.pii.chat_ctx": J({"items": items})}
    if base is not None:
        attributes |= {
            "lk.input.delta": True,
            "lk.input.base_span_id": f"{base:016x}",
            "lk.input.dropped_from_base": dropped,
        }
    return span(number, "llm_node", attributes, **more)


def livekit(number: int, node: Span, said: dict[str, Any], at: float) -> list[Span]:
    """A turn with its node and the model call inside."""
    return [
        span(number, "agent_turn", {"lk.agent_label": "clerk", **said}, parent=90, at=at, until=at + 5),
        node,
        span(
            number + 2, "llm_request", {"lk.speech_id": "s", "gen_ai.request.model": "m1"}, parent=number + 1, at=at + 1
        ),
    ]


def test_livekit_input_deltas() -> None:
    """A delta's whole input is the base's without what was dropped, and its own entries; deltas build on deltas."""
    first = [item("system", "Be brief."), item("user", "q1"), item("system", "guide")]
    session = [
        span(90, "agent_session", {"lk.job_id": "j"}, until=0),
        *livekit(1, delta(2, first, parent=1, at=0), {"lk.pii.response.text": "a1"}, 0),
        *livekit(11, delta(12, [item("assistant", "a1"), item("user", "q2"), item("system", "guide")], 2, 1, parent=11, at=10), {"lk.pii.response.text": "a2"}, 10),
        *livekit(21, delta(22, [item("assistant", "a2"), item("user", "q3")], 12, 1, parent=21, at=20), {"lk.pii.response.text": "a3"}, 20),
    ]  # fmt: skip
    runs = assembled(*session)
    assert [(run.user_input, run.final_response) for run in runs] == [("q1", "a1"), ("q2", "a2"), ("q3", "a3")]
    assert [run.system_instructions for run in runs] == ["Be brief.\n\nguide", "Be brief.\n\nguide", "Be brief."]
    told = [part["content"] for message in runs[2].history for part in message.parts]
    assert told == ["q1", "a1", "q2", "a2"]


def test_livekit_delta_without_its_base_is_a_part() -> None:
    """Where the span that a delta goes on from never came, the input is told to be cut."""
    run = only(*livekit(1, delta(2, [item("assistant", "a1")], 77, 1, parent=1), {}, 0))
    assert run.user_input is None
    assert run.completeness.capture["user_input"] is Capture.TRUNCATED


def test_livekit_deltas_past_the_room_for_wholes_are_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What deltas add up to grows with the square of their number: past a bound each has its own part only."""
    monkeypatch.setattr(deltas, "MOST_ENTRIES", 10)
    session = livekit(1, delta(2, [item("user", "q0")], parent=1), {"lk.pii.response.text": "a"}, 0)
    for number in range(1, 5):
        own = delta(
            10 * number + 2,
            [item("assistant", "a"), item("user", f"q{number}")],
            10 * number - 8,
            parent=10 * number + 1,
            at=number * 9,
        )
        session += livekit(10 * number + 1, own, {"lk.pii.response.text": "a"}, number * 9)
    runs = assembled(span(90, "agent_session", {"lk.job_id": "j"}, until=0), *session)
    assert [run.user_input for run in runs] == ["q0", "q1", "q2", "q3", "q4"]
    assert [len(run.history) for run in runs] == [0, 2, 4, 1, 1]


def test_genkit_tool_requests_and_usage() -> None:
    """Genkit's parts, tools and token counts lie inside the model action's input and output."""
    request = {"messages": [{"role": "system", "content": [{"text": "Be brief."}]}, {"role": "user", "content": [{"text": "q"}]}], "tools": [{"name": "find", "inputSchema": {"type": "object"}}]}  # fmt: skip
    asked = {"role": "model", "content": [{"toolRequest": {"ref": "c1", "name": "find", "input": {"x": 1}}}]}
    found = {"role": "tool", "content": [{"toolResponse": {"ref": "c1", "name": "find", "output": {"n": 2}}}]}
    usage = {"inputTokens": 5, "outputTokens": 1}
    model = {"genkit:metadata:subtype": "model", "genkit:name": "m1"}
    later = {**request, "messages": [*request["messages"], asked, found]}
    run = only(
        span(1, "flow", {"genkit:isRoot": True, "genkit:name": "clerk"}, until=9),
        span(2, "m1", {**model, "genkit:input": J(request), "genkit:output": J({"message": asked, "usage": usage})}, parent=1),
        span(3, "m1", {**model, "genkit:input": J(later), "genkit:output": J({"message": {"role": "model", "content": [{"text": "a"}]}, "usage": usage})}, parent=1, at=4),
    )  # fmt: skip
    assert (run.system_instructions, run.user_input, run.final_response) == ("Be brief.", "q", "a")
    assert (run.input_tokens, run.output_tokens, [one.name for one in run.tool_definitions]) == (10, 2, ["find"])
    assert [(one.id, one.name, one.arguments, one.result) for one in run.tool_calls] == [
        ("c1", "find", {"x": 1}, {"n": 2})
    ]


def test_haystack_chat_messages() -> None:
    """Haystack wraps calls and answers in blocks of one key; ADK's null keys of the same name are none of these."""
    thread = [
        {"role": "user", "content": [{"text": "q"}]},
        {"role": "assistant", "content": [{"tool_call": {"id": "c1", "tool_name": "find", "arguments": {"x": 1}}}]},
        {"role": "tool", "content": [{"tool_call_result": {"result": "found", "origin": {"id": "c1", "tool_name": "find"}, "error": False}}]},
        {"role": "assistant", "content": [{"text": "a", "tool_call": None}]},
    ]  # fmt: skip
    run = only(span(1, "haystack.agent.run", {"haystack.agent.input": J({"messages": thread[:1]}), "haystack.agent.output": J({"messages": thread}), "haystack.agent.tools": J(["find"])}))  # fmt: skip
    assert (run.user_input, run.final_response) == ("q", "a")
    assert [(one.name, one.arguments, one.result) for one in run.tool_calls] == [("find", {"x": 1}, "found")]
    assert [one.name for one in run.tool_definitions] == ["find"]


def test_completions_of_openinference() -> None:
    """Completion models have prompts and choices instead of messages."""
    run = only(span(1, "complete", {"openinference.span.kind": "LLM", "llm.prompts.0.prompt.text": "q", "llm.choices.0.completion.text": "a", "llm.choices.1.completion.text": "b"}))  # fmt: skip
    assert (run.user_input, run.final_response) == ("q", "a")


def test_a_denied_call() -> None:
    """An answer that says that the call was not allowed makes the call denied, wherever it stands."""
    asked = call("c1", "pay", {"sum": 3})
    refused = answer("c1", {"denied": True, "reason": "too much"})
    run = only(
        agent(1, given=[text("user", "q")], until=9),
        chat(2, [text("user", "q")], [asked], parent=1),
        chat(3, [text("user", "q"), asked, refused], [text("assistant", "a")], parent=1, at=4),
    )
    assert [one.status for one in run.tool_calls] == [ToolStatus.DENIED]


def test_a_deferred_call_is_pending() -> None:
    """A call that the run leaves to somebody else, or to an approval, is pending although its span has ended."""
    deferred = tool(
        3, "pay", "c1", {"sum": 3}, parent=1, at=2, attributes={"pydantic_ai.tool.deferral.kind": "approval_required"}
    )
    run = only(agent(1, until=9), chat(2, said=[call("c1", "pay", {"sum": 3})], parent=1), deferred)
    assert [one.status for one in run.tool_calls] == [ToolStatus.PENDING]


def test_a_failure_in_a_log_record() -> None:
    """A model call's exception may come as a log record, with no status on the span."""
    record = log(
        2,
        "gen_ai.client.operation.exception",
        attributes={"exception.type": "RateLimited", "exception.message": "slow down"},
    )
    run = only(agent(1, until=9), chat(2, [text("user", "q")], parent=1), record)
    assert run.error == "RateLimited: slow down"


def test_a_response_that_was_fetched_later() -> None:
    """Reading a stored response is no model call; what it brings is the output of the call that asked for it, once."""
    fetched = {"gen_ai.operation.name": "fetch_response", "gen_ai.response.id": "r1", "gen_ai.output.messages": J([text("assistant", "a")]), **USAGE}  # fmt: skip
    run = only(
        agent(1, until=9),
        chat(2, [text("user", "q")], parent=1, attributes={"gen_ai.response.id": "r1"}),
        span(3, "fetch_response", fetched, parent=1, at=5),
    )
    assert (run.final_response, run.model_calls, run.input_tokens) == ("a", 1, 10)


@pytest.mark.parametrize(
    "operation",
    ["plan", "search_memory", "upsert_memory", "retrieval", "agent_step", "compact_events", "transcription"],
)
def test_operations_that_are_no_model_calls(operation: str) -> None:
    """Steps with operations of their own count neither as model calls nor as tools, and their tokens are not added."""
    run = only(agent(1, until=9), span(2, operation, {"gen_ai.operation.name": operation, **USAGE}, parent=1), chat(3, [text("user", "q")], [text("assistant", "a")], parent=2, at=1))  # fmt: skip
    assert (run.model_calls, run.tool_calls, run.input_tokens) == (1, (), 10)


def test_a_server_side_tool() -> None:
    """A tool that the provider ran itself has no span: call and result come from the answer's parts."""
    parts = [
        {"type": "server_tool_call", "id": "s1", "name": "web_search", "server_tool_call": {"type": "web_search", "query": "x"}},
        {"type": "server_tool_call_response", "id": "s1", "server_tool_call_response": {"type": "web_search", "hits": 3}},
        {"type": "text", "content": "a"},
    ]  # fmt: skip
    run = only(chat(1, [text("user", "q")], [{"role": "assistant", "parts": parts}]))
    assert [(one.name, one.arguments, one.result, one.status) for one in run.tool_calls] == [("web_search", {"query": "x"}, {"type": "web_search", "hits": 3}, ToolStatus.OK)]  # fmt: skip
    assert run.final_response == "a"


def test_azure_tool_outputs_are_handed_in() -> None:
    """A thread's run asks for tools in events; what they answered is in the client call that hands it in."""
    azure = {"az.namespace": "Microsoft.CognitiveServices", "gen_ai.system": "az.ai.agents", "gen_ai.thread.id": "t1"}
    asked = {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": {"x": 1}}}]}

    def told(name: str, body: Any) -> Any:
        return event(name, attributes={"gen_ai.event.content": J(body)})

    run = only(
        span(1, "process_thread_run", {"gen_ai.operation.name": "process_thread_run", "gen_ai.agent.name": "clerk", **azure}, until=9, events=[told("gen_ai.assistant.message", asked), told("gen_ai.assistant.message", {"content": "a"})]),
        span(2, "submit_tool_outputs", {"gen_ai.operation.name": "submit_tool_outputs", **azure}, parent=1, at=3, events=[told("gen_ai.tool.message", {"content": "found", "id": "c1"})]),
    )  # fmt: skip
    assert [(one.name, one.arguments, one.result) for one in run.tool_calls] == [("find", {"x": 1}, "found")]
    assert (run.final_response, run.user_input) == ("a", None)


def test_spans_that_name_their_run_find_it_again() -> None:
    """Steps under a lost parent belong to the agent's span with the same run id, not to another one that is open."""
    run_id = {"gen_ai.agent.call.id": "run-1"}
    runs = assembled(
        agent(1, "clerk", [text("user", "q")], attributes=run_id, until=9),
        agent(5, "other", [text("user", "p")], until=9),
        chat(3, [text("user", "q")], [text("assistant", "a")], parent=77, at=2, attributes=run_id),
    )
    assert [(run.agent_name, run.model_calls) for run in runs] == [("clerk", 1), ("other", 0)]


def test_a_cancelled_run_has_not_failed() -> None:
    """A generation that was broken off leaves the run without an answer and without an error; an ERROR status is one."""
    broken_off = [event("exception", attributes={"exception.type": "asyncio.CancelledError"})]
    run = only(agent(1, until=9), chat(2, [text("user", "q")], parent=1, events=broken_off))
    assert (run.error, run.final_response) == (None, None)
    assert only(agent(1, until=9, status=2, events=broken_off)).error is not None


MIXED = (
    span(1, "LangGraph", {"openinference.span.kind": "CHAIN", "metadata": J({"lc_agent_name": "clerk", "thread_id": "t1"}), "input.value": J({"messages": [{"role": "user", "content": "q"}]})}, until=20),
    span(2, "chat m1", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1", "gen_ai.input.messages": J([text("user", "q")]), "gen_ai.output.messages": J([call("c1", "find", {"x": 1})]), **USAGE}, parent=1, at=1),
    span(3, "find.tool", {"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.input": J({"inputs": {"x": 1}, "tags": []}), "traceloop.entity.output": J({"output": "found"})}, parent=1, at=3),
    span(4, "ai.generateText.doGenerate", {"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m2", "ai.prompt.messages": J([{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "toolName": "find", "args": {"x": 1}}]}, {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c1", "result": "found"}]}]), "ai.response.text": "a", "ai.usage.promptTokens": 5, "ai.usage.completionTokens": 1}, parent=1, at=5),
)  # fmt: skip


def test_four_dialects_in_one_trace() -> None:
    """A framework, two model packages and a decorator of four dialects tell one run together."""
    run = only(*MIXED)
    assert (run.agent_name, run.conversation_id, run.user_input, run.final_response) == ("clerk", "t1", "q", "a")
    assert (run.model, run.model_calls, run.input_tokens, run.output_tokens) == ("m1", 2, 15, 3)
    assert [(one.id, one.name, one.arguments, one.result, one.span_id) for one in run.tool_calls] == [("c1", "find", {"x": 1}, "found", f"{3:016x}")]  # fmt: skip


@pytest.mark.parametrize(
    ("spans", "missing"),
    [
        ([chat(1, [text("user", "q")], attributes={"gen_ai.response.finish_reasons": ["tool_calls"]})], True),
        ([chat(1, [text("user", "q")], attributes={"gen_ai.response.finish_reasons": ["stop"]})], False),
        ([chat(1)], True),
        ([agent(1, until=9), chat(2, parent=1)], False),
        ([chat(1, [text("user", "q")], [text("assistant", "a")])], False),
        ([span(1, "GenerateContent", {"gen_ai.operation.name": "generate_content", "gen_ai.tool.definitions": J([{"name": "find"}])}, status=2)], True),
    ],
)  # fmt: skip
def test_calls_that_may_have_been_made(spans: list[Span], missing: bool) -> None:
    """`tool_calls` is missing where a model asked, or may have, and the telemetry does not say for what; not where it tells of none."""
    assert ("tool_calls" in only(*spans).completeness.missing) is missing


def test_model_calls_that_are_not_recorded() -> None:
    """An agent whose model calls have no spans lacks them; they are not counted as none."""
    assert "model_calls" in only(agent(1), tool(2, "find", parent=1)).completeness.missing
    assert "model_calls" not in only(chat(1)).completeness.missing


def test_attributes_that_an_sdk_dropped_are_cut_not_absent() -> None:
    """Where limits took attributes or events off a span, content that lacks may have been among them."""
    run = only(agent(1, until=9), chat(2, [text("user", "q")], parent=1, dropped_attributes_count=3))
    assert "final_response" in run.completeness.missing
    assert run.completeness.capture["final_response"] is Capture.TRUNCATED
    assert "user_input" not in run.completeness.capture
    assert (
        only(agent(1, until=9), chat(2, [text("user", "q")], parent=1)).completeness.capture.get("final_response")
        is not Capture.TRUNCATED
    )


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("__REDACTED__", Capture.REDACTED),
        ("[REDACTED]", Capture.REDACTED),
        ("<elided>", Capture.REDACTED),
        ('[{"role": "user", "parts": [{"type": "text", "content": "a long qu', Capture.TRUNCATED),
        (J([{"role": "user", "parts": [{"type": "text"}]}]), Capture.NOT_CAPTURED),
        (J([{"role": "user", "parts": [{"type": "text", "content": "<REDACTED>"}]}]), Capture.REDACTED),
    ],
)
def test_what_stands_in_the_place_of_content(given: str, reason: Capture) -> None:
    """Markers, cut JSON and parts of a type alone are no content: the field is missing, and the reason is told."""
    run = only(chat(1, attributes={"gen_ai.input.messages": given}))
    assert (run.user_input, run.completeness.capture["user_input"]) == (None, reason)
    assert "user_input" in run.completeness.missing


def test_content_that_lies_elsewhere() -> None:
    """Content by reference is not fetched: the field is missing and says that it is kept elsewhere."""
    run = only(
        chat(
            1, attributes={"gen_ai.input.messages_ref": "s3://b/i.json", "gen_ai.output.messages_ref": "s3://b/o.json"}
        )
    )
    assert (run.user_input, run.final_response) == (None, None)
    assert {run.completeness.capture[name] for name in ("user_input", "final_response")} == {Capture.REFERENCED}


def native(name: str) -> tuple[Any, Any]:
    """A provider's own request and response: a question, a call of a tool, its answer, and the final text."""
    shapes: dict[str, tuple[list[Any], Any]] = {
        "openai": ([{"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"x": 1}'}}]}, {"role": "tool", "tool_call_id": "c1", "content": "found"}], {"choices": [{"message": {"role": "assistant", "content": "a"}}]}),
        "responses": ([{"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"x": 1}'}, {"type": "function_call_output", "call_id": "c1", "output": "found"}], {"output": [{"type": "reasoning", "summary": []}, {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}]}),
        "anthropic": ([{"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "find", "input": {"x": 1}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "found"}]}], {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}]}),
        "bedrock": ([{"role": "assistant", "content": [{"toolUse": {"toolUseId": "c1", "name": "find", "input": {"x": 1}}}]}, {"role": "user", "content": [{"toolResult": {"toolUseId": "c1", "content": [{"text": "found"}]}}]}], {"output": {"message": {"role": "assistant", "content": [{"text": "a"}]}}}),
        "gemini": ([{"role": "model", "parts": [{"function_call": {"id": "c1", "name": "find", "args": {"x": 1}}}]}, {"role": "user", "parts": [{"function_response": {"id": "c1", "name": "find", "response": "found"}}]}], {"candidates": [{"content": {"role": "model", "parts": [{"text": "a"}]}}]}),
    }  # fmt: skip
    told, response = shapes[name]
    asked = {"role": "user", "parts": [{"text": "q"}]} if name == "gemini" else {"role": "user", "content": "q"}
    return {"contents" if name == "gemini" else "messages": [asked, *told]}, response


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic", "bedrock", "gemini"])
def test_provider_native_payloads_inside_opaque_values(provider: str) -> None:
    """A whole request and response as JSON text, in a dialect that knows nothing of them, give input, call, result and answer."""
    request, response = native(provider)
    run = only(
        span(1, "model", {"lmnr.span.type": "LLM", "lmnr.span.input": J(request), "lmnr.span.output": J(response)})
    )
    assert (run.user_input, run.final_response) == ("q", "a")
    assert [(one.id, one.name, one.arguments, one.result) for one in run.tool_calls] == [
        ("c1", "find", {"x": 1}, "found")
    ]
