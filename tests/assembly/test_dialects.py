"""Each dialect, in its smallest form: a turn with a model call and a tool gives input, answer, call and figures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collectors.span import LogRecord, Span
from tests.assembly.building import agent, event, link, log, only, span, text

J = json.dumps


def openllmetry_flat() -> list[Span]:
    """OpenLLMetry before 0.53: flattened prompts."""
    entity = {"traceloop.association.properties.thread_id": "t1"}
    return [
        span(
            1,
            "clerk.workflow",
            {"traceloop.span.kind": "workflow", "traceloop.entity.name": "clerk", **entity},
            until=9,
        ),
        span(
            2,
            "openai.chat",
            {
                "llm.request.type": "chat",
                "gen_ai.request.model": "m1",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "q",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": '""',
                "gen_ai.completion.0.tool_calls.0.id": "c1",
                "gen_ai.completion.0.tool_calls.0.name": "find",
                "gen_ai.completion.0.tool_calls.0.arguments": '{"x": 1}',
                "gen_ai.usage.prompt_tokens": 10,
                "gen_ai.usage.completion_tokens": 2,
            },
            parent=1,
        ),
        span(
            3,
            "find.tool",
            {
                "traceloop.span.kind": "tool",
                "traceloop.entity.name": "find",
                "traceloop.entity.input": J({"inputs": {"x": 1}, "tags": [], "kwargs": {}}),
                "traceloop.entity.output": J({"output": "found", "kwargs": {}}),
            },
            parent=1,
            at=2,
        ),
        span(
            4,
            "openai.chat",
            {
                "llm.request.type": "chat",
                "gen_ai.completion.0.content": "a",
                "gen_ai.prompt.2.role": "tool",
                "gen_ai.prompt.2.content": "found",
                "gen_ai.prompt.2.tool_call_id": "c1",
            },
            parent=1,
            at=4,
        ),
    ]


def vercel() -> list[Span]:
    """Vercel AI SDK 4 to 6."""
    base = {"ai.telemetry.functionId": "clerk", "ai.telemetry.metadata.sessionId": "t1"}
    return [
        span(1, "ai.generateText", {"ai.operationId": "ai.generateText", "ai.prompt": J({"prompt": "q"}), "ai.response.text": "a", **base}, until=9),
        span(
            2,
            "ai.generateText.doGenerate",
            {
                "ai.operationId": "ai.generateText.doGenerate",
                "ai.prompt.messages": J([{"role": "user", "content": [{"type": "text", "text": "q"}]}]),
                "ai.response.toolCalls": J([{"toolCallId": "c1", "toolName": "find", "args": '{"x": 1}'}]),
                "ai.model.id": "m1",
                "ai.usage.promptTokens": 10,
                "ai.usage.completionTokens": 2,
            },
            parent=1,
        ),
        span(
            3,
            "ai.toolCall",
            {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "find", "ai.toolCall.id": "c1", "ai.toolCall.args": '{"x":1}', "ai.toolCall.result": '"found"'},
            parent=1,
            at=2,
        ),
    ]  # fmt: skip


def langsmith() -> list[Span]:
    """LangSmith's OTel export."""
    human = {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": "q", "type": "human"},
    }
    ai = {
        "content": "",
        "type": "ai",
        "tool_calls": [{"name": "find", "args": {"x": 1}, "id": "c1", "type": "tool_call"}],
    }
    meta = {"langsmith.metadata.lc_agent_name": "clerk", "langsmith.metadata.thread_id": "t1"}
    return [
        span(
            1,
            "clerk",
            {
                "langsmith.span.kind": "chain",
                "gen_ai.prompt": J({"messages": [{"role": "user", "content": "q"}]}),
                "gen_ai.completion": J(
                    {"messages": [{"type": "human", "content": "q"}, {"type": "ai", "content": "a"}]}
                ),
                **meta,
            },
            until=9,
        ),
        span(
            2,
            "ChatOpenAI",
            {
                "langsmith.span.kind": "llm",
                "gen_ai.prompt": J({"messages": [[human]]}),
                "gen_ai.completion": J(
                    {"generations": [[{"text": "", "message": {"lc": 1, "id": ["x", "AIMessage"], "kwargs": ai}}]]}
                ),
                "langsmith.metadata.ls_model_name": "m1",
                "langsmith.metadata.usage_metadata": J({"input_tokens": 10, "output_tokens": 2}),
                **meta,
            },
            parent=1,
        ),
        span(
            3,
            "find",
            {
                "langsmith.span.kind": "tool",
                "gen_ai.tool.name": "find",
                "gen_ai.prompt": J({"x": 1}),
                "gen_ai.completion": J(
                    {"output": {"content": "found", "type": "tool", "tool_call_id": "c1", "status": "success"}}
                ),
                **meta,
            },
            parent=1,
            at=2,
        ),
    ]


def langfuse() -> list[Span]:
    """Langfuse SDK 3."""
    observation = "langfuse.observation."
    return [
        span(1, "clerk", {observation + "type": "agent", observation + "input": J([{"role": "user", "content": "q"}]), observation + "output": "a", "langfuse.session.id": "t1"}, until=9),
        span(
            2,
            "llm",
            {
                observation + "type": "generation",
                observation + "input": J([{"role": "user", "content": "q"}]),
                observation + "output": J({"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"x": 1}'}}]}),
                observation + "model.name": "m1",
                observation + "usage_details": J({"input": 10, "output": 2}),
            },
            parent=1,
        ),
        span(3, "find", {observation + "type": "tool", observation + "input": J({"x": 1}), observation + "output": "found"}, parent=1, at=2),
    ]  # fmt: skip


def mastra() -> list[Span]:
    """Mastra's exporter."""
    return [
        span(1, "invoke_agent clerk", {"mastra.span.type": "agent_run", "gen_ai.agent.name": "clerk", "mastra.agent_run.input": J([{"role": "user", "content": "q"}]), "mastra.agent_run.output": J({"text": "a"}), "mastra.metadata.threadId": "t1"}, until=9),
        span(
            2,
            "chat m1",
            {
                "mastra.span.type": "model_generation",
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "m1",
                "gen_ai.system_instructions": "Be brief.",
                "gen_ai.input.messages": J([text("user", "q")]),
                "gen_ai.output.messages": J([{"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"x": 1}}]}]),
                "gen_ai.response.finish_reasons": '["tool_calls"]',
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 2,
            },
            parent=1,
        ),
        span(3, "step", {"mastra.span.type": "model_step", "gen_ai.usage.input_tokens": 10}, parent=2),
        span(4, "execute_tool find", {"mastra.span.type": "tool_call", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1", "mastra.tool_call.input": J({"x": 1}), "mastra.tool_call.output": '"found"'}, parent=1, at=2),
    ]  # fmt: skip


def mlflow() -> list[Span]:
    """MLflow's export: every value is JSON text."""
    return [
        span(1, "clerk", {"mlflow.spanType": '"AGENT"', "mlflow.spanInputs": J({"messages": [{"role": "user", "content": "q"}]}), "mlflow.spanOutputs": '"a"', "mlflow.trace.session": '"t1"'}, until=9),
        span(
            2,
            "Completions",
            {
                "mlflow.spanType": '"CHAT_MODEL"',
                "mlflow.spanInputs": J(J({"model": "m1", "messages": [{"role": "user", "content": "q"}]})),
                "mlflow.spanOutputs": J({"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"x": 1}'}}]}}]}),
                "mlflow.chat.tokenUsage": J({"input_tokens": 10, "output_tokens": 2}),
            },
            parent=1,
        ),
        span(3, "find", {"mlflow.spanType": '"TOOL"', "mlflow.spanInputs": J({"x": 1}), "mlflow.spanOutputs": '"found"'}, parent=1, at=2),
    ]  # fmt: skip


def livekit() -> list[Span]:
    """LiveKit: a turn inside a session that goes on."""
    return [
        span(9, "agent_session", {"lk.room": "r"}, at=-100, until=0),
        span(1, "agent_turn", {"lk.agent_label": "clerk", "lk.pii.user_input": "q", "lk.pii.response.text": "a", "session.id": "t1"}, parent=9, until=9),
        span(
            2,
            "llm_request",
            {
                "lk.speech_id": "s",
                "gen_ai.request.model": "m1",
                "gen_ai.usage.input_tokens": 10,
                "gen_ai.usage.output_tokens": 2,
                "lk.pii.chat_ctx": J({"items": [], "messages": [{"role": "user", "content": ["q"]}]}),
                "lk.pii.response.function_calls": J([{"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"x": 1}'}]),
            },
            parent=1,
        ),
        span(3, "function_tool", {"lk.function_tool.name": "find", "lk.function_tool.id": "c1", "lk.pii.function_tool.arguments": '{"x": 1}', "lk.pii.function_tool.output": "found", "lk.function_tool.is_error": False}, parent=1, at=2),
    ]  # fmt: skip


def genkit() -> list[Span]:
    """Genkit: a flow with a model and a tool action."""
    request = {"messages": [{"role": "user", "content": [{"text": "q"}]}]}
    said = {"message": {"role": "model", "content": [{"text": "a"}]}}
    return [
        span(1, "clerk", {"genkit:isRoot": True, "genkit:name": "clerk", "genkit:metadata:subtype": "flow", "genkit:input": '"q"', "genkit:output": '"a"', "session.id": "t1"}, until=9),
        span(2, "m1", {"genkit:metadata:subtype": "model", "genkit:name": "m1", "genkit:input": J(request), "genkit:output": J(said)}, parent=1, at=4),
        span(3, "find", {"genkit:metadata:subtype": "tool", "genkit:name": "find", "genkit:input": J({"x": 1}), "genkit:output": '"found"'}, parent=1, at=2),
    ]  # fmt: skip


def haystack() -> list[Span]:
    """Haystack's agent."""
    return [
        span(1, "haystack.agent.run", {"haystack.agent.input": J({"messages": [{"role": "user", "content": [{"text": "q"}]}]}), "haystack.agent.output": J({"messages": [{"role": "user", "content": [{"text": "q"}]}, {"role": "assistant", "content": [{"text": "a"}]}]}), "haystack.agent.name": "clerk", "session.id": "t1"}, until=9),
        span(2, "haystack.agent.step", {"haystack.agent.step": 1}, parent=1, until=3),
        span(3, "haystack.agent.step.tool", {"haystack.tool.name": "find", "haystack.tool.call.id": "c1", "haystack.agent.step.tool.input": J({"x": 1}), "haystack.agent.step.tool.output": "found"}, parent=2, at=2),
    ]  # fmt: skip


def spring_ai() -> list[Span | LogRecord]:
    """Spring AI: kinds decide, prompts in log records."""
    return [
        span(1, "spring_ai chat_client", {"gen_ai.operation.name": "framework", "spring.ai.kind": "chat_client", "spring.ai.chat.client.conversation.id": "t1"}, until=9),
        span(2, "chat m1", {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.request.model": "m1", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}, parent=1, until=8),
        span(3, "tool_call find", {"gen_ai.operation.name": "framework", "spring.ai.kind": "tool_call", "spring.ai.tool.definition.name": "find", "spring.ai.tool.call.arguments": '{"x": 1}', "spring.ai.tool.call.result": "found"}, parent=2, at=2),
        log(2, "", "Chat Model Prompt Content:\nq"),
        log(2, "", "Chat Model Completion:\na", at=1),
    ]  # fmt: skip


def agentcore() -> list[Span | LogRecord]:
    """AgentCore: payloads apart from the spans, JSON inside JSON."""
    body = {
        "input": {"messages": [{"role": "user", "content": {"content": J([{"text": "q"}])}}]},
        "output": {
            "messages": [{"role": "assistant", "content": {"message": J([{"text": "a"}]), "finish_reason": "end_turn"}}]
        },
    }
    return [
        agent(1, "clerk", attributes={"session.id": "t1"}, until=9),
        span(2, "chat m1", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}, parent=1),
        log(2, "strands.telemetry.tracer", body),
    ]  # fmt: skip


def dify() -> list[Span]:
    """Dify: node variables are unwrapped by key."""
    return [
        span(1, "clerk", {"gen_ai.span.kind": "AGENT", "gen_ai.agent.name": "clerk", "input.value": J({"query": "q"}), "output.value": J({"answer": "a"}), "dify.app_id": "1", "session.id": "t1"}, until=9),
        span(2, "llm", {"gen_ai.span.kind": "LLM", "gen_ai.request.model": "m1", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}, parent=1),
        span(3, "find", {"gen_ai.span.kind": "TOOL", "tool.name": "find", "input.value": J({"x": 1}), "output.value": "found"}, parent=1, at=2),
    ]  # fmt: skip


def logfire() -> list[Span]:
    """Logfire's OpenAI integration: whole requests and responses."""
    request = {
        "model": "m1",
        "messages": [{"role": "user", "content": "q"}],
        "tools": [{"type": "function", "function": {"name": "find"}}],
    }
    return [
        agent(1, "clerk", attributes={"gen_ai.conversation.id": "t1"}, until=9),
        span(2, "Chat Completion", {"logfire.msg": "x", "request_data": J(request), "response_data": J({"message": {"role": "assistant", "content": "a"}, "usage": {"prompt_tokens": 10, "completion_tokens": 2}})}, parent=1),
    ]  # fmt: skip


def laminar() -> list[Span]:
    """Laminar: types and values under keys of its own."""
    return [
        span(1, "clerk", {"lmnr.span.type": "AGENT", "lmnr.span.input": J([{"role": "user", "content": "q"}]), "lmnr.span.output": '"a"', "session.id": "t1"}, until=9),
        span(2, "llm", {"lmnr.span.type": "LLM", "gen_ai.request.model": "m1", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}, parent=1),
        span(3, "find", {"lmnr.span.type": "TOOL", "lmnr.span.input": J({"x": 1}), "lmnr.span.output": '"found"'}, parent=1, at=2),
    ]  # fmt: skip


def semantic_kernel() -> list[Span | LogRecord]:
    """Semantic Kernel: messages as log events with the name in an attribute, tools by name."""
    return [
        agent(1, "clerk", attributes={"gen_ai.system": "openai", "gen_ai.conversation.id": "t1"}, until=9),
        span(2, "chat.completions m1", {"gen_ai.operation.name": "chat.completions", "gen_ai.request.model": "m1", "sk.available_functions": "find,other", "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}, parent=1),
        log(2, "gen_ai.user.message", J({"role": "user", "content": "q"})),
        log(2, "gen_ai.choice", J({"index": 0, "message": {"role": "assistant", "content": "a"}, "finish_reason": "stop"}), at=1),
    ]  # fmt: skip


WITH_TOOL = [
    openllmetry_flat,
    vercel,
    langsmith,
    langfuse,
    mastra,
    mlflow,
    livekit,
    genkit,
    haystack,
    spring_ai,
    dify,
    laminar,
]
WITHOUT_TOOL = [agentcore, logfire, semantic_kernel]


@pytest.mark.parametrize("dialect", WITH_TOOL + WITHOUT_TOOL, ids=lambda build: build.__name__)
def test_dialect(dialect: Any) -> None:
    """Input, answer, conversation, model, tokens and the tool call, as far as the dialect has them."""
    run = only(*dialect())
    assert (run.user_input, run.final_response, run.conversation_id) == ("q", "a", "t1")
    assert run.model == ("m1" if dialect is not haystack else None)
    assert (run.input_tokens, run.output_tokens) == ((10, 2) if dialect not in (genkit, haystack) else (None, None))
    assert run.agent_name == ("clerk" if dialect is not spring_ai else None)
    calls = [(call.name, call.arguments, call.result, call.error) for call in run.tool_calls]
    assert calls == [("find", {"x": 1}, "found", None)] * (dialect in WITH_TOOL)


def test_azure_thread_run() -> None:
    """A thread's run with the user's message on another client call of the same thread."""
    azure = {
        "az.namespace": "Microsoft.CognitiveServices",
        "gen_ai.system": "az.ai.agents",
        "gen_ai.thread.id": "thread_1",
    }
    asked = event("gen_ai.user.message", attributes={"gen_ai.event.content": J({"content": "q", "role": "user"})})
    said = event(
        "gen_ai.assistant.message",
        attributes={"gen_ai.event.content": J({"content": {"text": {"value": "a"}}, "role": "assistant"})},
    )
    run = only(
        span(1, "main", until=30),
        span(2, "create_message", {"gen_ai.operation.name": "create_message", **azure}, parent=1, at=1, events=[asked]),
        span(
            3,
            "process_thread_run",
            {"gen_ai.operation.name": "process_thread_run", "gen_ai.agent.name": "clerk", **azure},
            parent=1,
            at=3,
            until=9,
        ),
        span(4, "list_messages", {"gen_ai.operation.name": "list_messages", **azure}, parent=1, at=10, events=[said]),
    )
    assert (run.agent_name, run.conversation_id) == ("clerk", "thread_1")
    assert (run.user_input, run.final_response) == ("q", "a")


def test_messages_between_executors() -> None:
    """Roots of message passing that link to a span inside a run belong to it."""
    run = only(
        agent(1, "triage", given=[text("user", "q")], until=3),
        span(2, "publish to billing", kind=4, at=4, until=9, links=[link(1)], trace="b" * 32),
        agent(3, "billing", parent=2, at=5, until=8, said=[text("assistant", "a")], trace="b" * 32),
    )
    assert (run.agent_name, run.user_input, run.final_response) == ("triage", "q", "a")


def test_setup_spans_are_no_invocations() -> None:
    """`create_agent` makes no invocation; it tells instructions and tools where nothing else does."""
    setup = {
        "gen_ai.operation.name": "create_agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.system_instructions": "Be brief.",
        "gen_ai.tool.definitions": J([{"type": "function", "name": "find", "parameters": {"type": "object"}}]),
    }
    run = only(span(1, "create_agent clerk", setup), agent(2, "clerk", at=2))
    assert run.system_instructions == "Be brief."
    assert [one.name for one in run.tool_definitions] == ["find"]


def test_interrupted_turn_of_a_voice_agent_is_cut_short_not_failed() -> None:
    """A turn that the user broke into keeps what was said."""
    run = only(span(1, "agent_turn", {"lk.user_input": "q", "lk.response.text": "Well", "lk.interrupted": True}))
    assert (run.final_response, run.error) == ("Well", None)
