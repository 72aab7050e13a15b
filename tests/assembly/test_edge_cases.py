"""The edge cases of the reference page on conventions (section 13), one test each."""

from __future__ import annotations

import json

import pytest

from monitor.model.invocation import Capture, ToolStatus
from tests.assembly.building import agent, answer, assembled, call, chat, event, only, span, text, tool

DETAILS = "gen_ai.client.inference.operation.details"


def test_events_of_a_span_are_merged() -> None:
    """Input in one details event and output in another make one call with both."""
    given = event(DETAILS, attributes={"gen_ai.input.messages": json.dumps([text("user", "hi")])})
    said = event(DETAILS, attributes={"gen_ai.output.messages": json.dumps([text("assistant", "ho")])})
    run = only(chat(1, events=[given, said]))
    assert (run.user_input, run.final_response, run.model_calls) == ("hi", "ho", 1)


def test_cumulative_usage_of_an_agent_is_not_used() -> None:
    """Tokens are the sum of the model calls, whatever the agent's span has added up over its life."""
    run = only(
        agent(1, attributes={"gen_ai.usage.input_tokens": 650, "gen_ai.usage.output_tokens": 90}, until=9),
        chat(2, parent=1, at=1, tokens=(300, 7)),
        chat(3, parent=1, at=3, tokens=(50, 8)),
    )
    assert (run.input_tokens, run.output_tokens) == (350, 15)


def test_usage_of_an_agent_without_model_spans() -> None:
    """Where no model call is recorded the agent's own figure is the only one; without any it is unknown, not 0."""
    run = only(agent(1, attributes={"gen_ai.usage.input_tokens": 650}))
    assert (run.input_tokens, run.output_tokens) == (650, None)


def test_new_message_index_of_pydantic_ai() -> None:
    """The user's input is the first user message at or after the index; what lies before is history."""
    messages = [text("user", "one"), text("assistant", "1"), text("user", "two"), text("assistant", "2")]
    attributes = {
        "agent_name": "clerk",
        "model_name": "gpt-4o",
        "pydantic_ai.all_messages": json.dumps(messages),
        "pydantic_ai.new_message_index": 2,
        "final_result": "2",
    }
    run = only(agent(1, attributes=attributes))
    assert run.user_input == "two"
    assert [message.role for message in run.history] == ["user", "assistant"]
    assert run.final_response == "2"


def test_structured_output_tool_is_no_tool_use() -> None:
    """An output tool carries the answer: its call is neither pending nor a use of a tool."""
    parameters = {"function_tools": [], "output_tools": [{"name": "final_result", "parameters_json_schema": {}}]}
    root = agent(1, attributes={"agent_name": "clerk", "model_name": "m", "final_result": '{"city": "Oslo"}'}, until=9)
    asked = chat(
        2,
        [text("user", "Where?")],
        [call("c1", "final_result", {"city": "Oslo"})],
        parent=1,
        attributes={"model_request_parameters": json.dumps(parameters)},
    )
    run = only(root, asked)
    assert run.final_response == '{"city": "Oslo"}'
    assert run.tool_calls == ()


def test_one_tool_call_in_three_spans() -> None:
    """Tool span, MCP client span and MCP server span of one call are one call; an error of any of them shows."""
    run = only(
        agent(1, until=9),
        tool(2, "search", "call_1", {"q": "x"}, parent=1, at=1, until=5),
        span(
            3,
            "tools/call search",
            {"mcp.method.name": "tools/call", "gen_ai.tool.name": "search"},
            parent=2,
            at=2,
            kind=3,
        ),
        span(
            4,
            "tools/call search",
            {"mcp.method.name": "tools/call"},
            parent=3,
            at=2,
            kind=2,
            resource={"service.name": "other"},
        ),
    )
    assert [(c.name, c.id, c.arguments, c.status) for c in run.tool_calls] == [
        ("search", "call_1", {"q": "x"}, ToolStatus.OK)
    ]


def test_error_inside_a_tool_surfaces() -> None:
    """The protocol span's failure is the call's failure."""
    run = only(
        agent(1, until=9),
        tool(2, "search", parent=1, at=1, until=5),
        span(3, "tools/call search", {"mcp.method.name": "tools/call"}, parent=2, at=2, status=2, message="no route"),
    )
    assert [(c.error, c.status) for c in run.tool_calls] == [("no route", ToolStatus.ERROR)]


def test_agent_as_a_tool() -> None:
    """A sub-agent's calls follow the call that started it and name it; its tools and prompt are not the invocation's."""
    run = only(
        agent(1, "front", until=20),
        chat(
            2,
            [text("system", "front rules"), text("user", "bill?")],
            [call("a", "ask", {}), call("z", "note", {})],
            parent=1,
            at=1,
        ),
        tool(3, "ask", "a", {}, "12 EUR", parent=1, at=3, until=9),
        agent(4, "billing", parent=3, at=4, until=8),
        chat(5, [text("system", "billing rules"), text("user", "bill?")], [call("b", "lookup", {})], parent=4, at=5),
        tool(6, "lookup", "b", {}, "12", parent=4, at=6),
        tool(7, "note", "z", {}, "ok", parent=1, at=3.5),
        chat(8, [], [text("assistant", "12 EUR.")], parent=1, at=15),
    )
    assert [(c.agent_name, c.name) for c in run.tool_calls] == [(None, "ask"), ("billing", "lookup"), (None, "note")]
    assert (run.agent_name, run.system_instructions, run.final_response) == ("front", "front rules", "12 EUR.")
    assert (run.model_calls, run.input_tokens) == (3, 30)


def test_two_agents_under_one_web_request() -> None:
    """Agents that serve the same request one after the other are one invocation; its answer is the last one's."""
    run = only(
        span(1, "POST /chat", kind=2, until=20),
        agent(2, "router", [text("user", "q")], [text("assistant", "to answerer")], parent=1, at=1, until=3),
        agent(3, "answerer", [text("user", "q")], [text("assistant", "a")], parent=1, at=4, until=9),
    )
    assert (run.span_id, run.user_input, run.final_response) == (f"{1:016x}", "q", "a")


def test_two_questions_under_one_web_request() -> None:
    """Agents with inputs of their own are invocations of their own."""
    runs = assembled(
        span(1, "POST /batch", kind=2, until=20),
        agent(2, "a", [text("user", "one")], [text("assistant", "1")], parent=1, at=1, until=3),
        agent(3, "a", [text("user", "two")], [text("assistant", "2")], parent=1, at=4, until=9),
    )
    assert [run.user_input for run in runs] == ["one", "two"]


def test_long_lived_connection() -> None:
    """A span around many turns is no invocation: each agent run below it is one, whatever the container does."""
    turns = [
        agent(10 + i, "a", [text("user", f"q{i}")], [text("assistant", f"a{i}")], parent=1, at=i * 5) for i in range(12)
    ]
    for container in (span(1, "WS /chat", kind=2, until=3600), span(1, "WS /chat", kind=2, until=0)):
        runs = assembled(container, *turns)
        assert [run.final_response for run in runs] == [f"a{i}" for i in range(12)]


def test_a_lost_root_keeps_its_children_together() -> None:
    """Steps under one parent that never came are one invocation, under the missing parent's id."""
    children = (
        chat(2, [text("user", "q")], [call("c", "t", {})], parent=1, at=1),
        tool(3, "t", "c", {}, "r", parent=1, at=2),
        chat(4, [text("user", "q"), call("c", "t", {}), answer("c", "r")], [text("assistant", "a")], parent=1, at=4),
    )
    run = only(*children)
    assert run.span_id == f"{1:016x}"
    assert (run.user_input, run.final_response, run.agent_name) == ("q", "a", None)
    assert run.started_at == children[0].start_time_unix_nano
    assert run.ended_at == children[2].end_time_unix_nano
    assert only(agent(1, "clerk", until=9), *children).id == run.id


def test_no_content_anywhere() -> None:
    """Without content there is an invocation with steps, figures and errors, and it says what is not captured."""
    run = only(
        agent(1, until=9),
        chat(
            2,
            [{"role": "user", "parts": [{"type": "text"}]}],
            [{"role": "assistant", "parts": [{"type": "text"}]}],
            parent=1,
        ),
        tool(3, "t", "c", parent=1, at=2, status=2, message="boom"),
    )
    assert (run.user_input, run.final_response) == (None, None)
    assert (run.input_tokens, run.model_calls) == (10, 1)
    assert run.tool_calls[0].error == "boom"
    assert run.completeness.capture["user_input"] is Capture.NOT_CAPTURED
    assert run.completeness.capture["tool_calls[0].arguments"] is Capture.NOT_CAPTURED


@pytest.mark.parametrize(
    "value",
    [
        [text("user", "hé")],
        json.dumps([text("user", "hé")]),
        json.dumps(json.dumps([text("user", "hé")])),
        "hé",
        str([text("user", "hé")]),
    ],
    ids=["structure", "json", "json in json", "plain text", "python repr"],
)
def test_one_message_in_five_encodings(value: object) -> None:
    """Structures, JSON, JSON in JSON, plain text and Python reprs give the same."""
    assert only(chat(1, attributes={"gen_ai.input.messages": value})).user_input == "hé"


def test_parallel_calls_without_ids() -> None:
    """Calls are paired by equal arguments and come in the order asked for, whichever ended first."""
    asked = {
        "role": "assistant",
        "parts": [
            {"type": "tool_call", "name": "weather", "arguments": {"city": "Zürich"}},
            {"type": "tool_call", "name": "weather", "arguments": {"city": "Oslo"}},
        ],
    }
    run = only(
        agent(1, until=20),
        chat(2, [text("user", "?")], [asked], parent=1, at=1),
        tool(3, "weather", None, {"city": "Oslo"}, "fog", parent=1, at=3, until=4),
        tool(4, "weather", None, {"city": "Zürich"}, "snow", parent=1, at=3.5, until=9),
    )
    assert [(c.arguments, c.result, c.span_id) for c in run.tool_calls] == [
        ({"city": "Zürich"}, "snow", f"{4:016x}"),
        ({"city": "Oslo"}, "fog", f"{3:016x}"),
    ]


def test_retries_and_a_tool_failure_do_not_fail_the_run() -> None:
    """What was recovered from is no error of the invocation."""
    run = only(
        agent(1, until=30),
        chat(2, [text("user", "q")], parent=1, at=1, status=2, message="429", tokens=None),
        chat(3, [text("user", "q")], parent=1, at=3, status=2, message="429", tokens=None),
        chat(4, [text("user", "q")], [call("c", "t", {})], parent=1, at=5),
        tool(5, "t", "c", {}, parent=1, at=7, status=2, message="boom"),
        chat(
            6,
            [text("user", "q"), call("c", "t", {}), answer("c", "failed")],
            [text("assistant", "sorry")],
            parent=1,
            at=9,
        ),
    )
    assert run.error is None
    assert (run.final_response, run.model_calls) == ("sorry", 4)
    assert (run.tool_calls[0].status, run.tool_calls[0].result) == (ToolStatus.ERROR, "failed")


def test_last_call_failed() -> None:
    """A run whose last model call failed has failed, also under a root that says OK; what was said before is no answer."""
    run = only(
        span(1, "workflow", {"gen_ai.operation.name": "invoke_workflow"}, status=1, until=30),
        chat(2, [text("user", "q")], [text("assistant", "let me see"), call("c", "t", {})], parent=1, at=1),
        chat(3, [], parent=1, at=5, status=2, message="500"),
    )
    assert (run.error, run.final_response) == ("500", None)


def test_a_gateway_in_the_path() -> None:
    """The proxy's record of a call inside the application's is the same call: tokens count once."""
    run = only(
        agent(1, until=20),
        chat(
            2,
            [text("user", "q")],
            [text("assistant", "a")],
            parent=1,
            at=1,
            until=9,
            attributes={"gen_ai.response.id": "r1"},
        ),
        span(3, "POST /v1/chat/completions", kind=2, parent=2, at=2, until=8),
        span(
            4,
            "litellm_request",
            {
                "gen_ai.request.model": "gpt-4o",
                "gen_ai.response.id": "r1",
                "gen_ai.usage.input_tokens": 10,
                "llm.is_streaming": False,
            },
            parent=3,
            at=3,
            until=7,
        ),
        span(
            5,
            "raw_gen_ai_request",
            {"llm.openai.messages": "[]", "gen_ai.request.model": "gpt-4o"},
            parent=4,
            at=3,
            until=6,
        ),
    )
    assert (run.model_calls, run.input_tokens, run.output_tokens) == (1, 10, 2)


def test_side_calls_of_claude_code_are_no_steps() -> None:
    """A request for a session's title runs beside the turn and is not part of it."""
    run = only(
        span(1, "claude_code.interaction", {"user_prompt": "fix it", "session.id": "s1"}, until=20),
        span(
            2,
            "claude_code.llm_request",
            {
                "model": "opus",
                "input_tokens": 5,
                "cache_read_tokens": 100,
                "output_tokens": 7,
                "response.model_output": "done",
            },
            parent=1,
            at=1,
        ),
        span(
            3,
            "claude_code.llm_request",
            {
                "model": "haiku",
                "query_source": "generate_session_title",
                "input_tokens": 9,
                "response.model_output": "A title",
            },
            parent=1,
            at=2,
        ),
    )
    assert (run.user_input, run.final_response, run.model, run.conversation_id) == ("fix it", "done", "opus", "s1")
    assert (run.model_calls, run.input_tokens, run.output_tokens) == (1, 105, 7)


def test_a_run_without_a_user() -> None:
    """A trigger's payload is unstructured input, never an error."""
    root = span(
        1, "nightly", {"openinference.span.kind": "AGENT", "input.value": '{"event": "cron", "at": "02:00"}'}, until=9
    )
    run = only(root, chat(2, [text("system", "Clean up.")], [text("assistant", "done")], parent=1))
    assert run.user_input == '{"event": "cron", "at": "02:00"}'
    assert run.system_instructions == "Clean up."


def test_a_sub_agents_conversation_is_its_own() -> None:
    """The root's conversation id is the invocation's."""
    run = only(
        agent(1, attributes={"gen_ai.conversation.id": "outer"}, until=9),
        tool(2, "ask", parent=1, at=1, until=5),
        agent(3, "sub", parent=2, at=2, until=4, attributes={"gen_ai.conversation.id": "inner"}),
    )
    assert run.conversation_id == "outer"


def test_clock_skew_between_hosts() -> None:
    """A result that seems older than its request is still its result; order is the model's."""
    run = only(
        agent(1, until=20),
        chat(2, [text("user", "q")], [call("a", "x", {}), call("b", "y", {})], parent=1, at=5),
        tool(3, "y", "b", {}, "2", parent=1, at=1),
        tool(4, "x", "a", {}, "1", parent=1, at=2),
    )
    assert [(c.name, c.result) for c in run.tool_calls] == [("x", "1"), ("y", "2")]


def test_evaluator_spans_are_left_out() -> None:
    """What an evaluator or a guardrail does below the agent is not the agent's work."""
    run = only(
        agent(1, until=20),
        chat(2, [text("user", "q")], [text("assistant", "a")], parent=1, at=1),
        span(3, "judge", {"openinference.span.kind": "EVALUATOR"}, parent=1, at=3, until=9),
        chat(4, [text("user", "Is it good?")], [text("assistant", "yes")], parent=3, at=4),
    )
    assert (run.final_response, run.model_calls) == ("a", 1)


def test_bare_value_of_a_langchain_tool() -> None:
    """A bare input value loses to the object in the model's call of the same id."""
    metadata = json.dumps({"lc_agent_name": "clerk"})
    output = json.dumps({"type": "tool", "data": {"content": "15C", "tool_call_id": "c1", "status": "success"}})
    run = only(
        span(1, "clerk", {"openinference.span.kind": "CHAIN", "metadata": metadata}, until=9),
        span(
            2,
            "ChatOpenAI",
            {
                "openinference.span.kind": "LLM",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": "Paris?",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "get_weather",
                "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city": "Paris"}',
            },
            parent=1,
            at=1,
        ),
        span(
            3,
            "get_weather",
            {
                "openinference.span.kind": "TOOL",
                "tool.name": "get_weather",
                "input.value": "Paris",
                "output.value": output,
            },
            parent=1,
            at=3,
        ),
    )
    assert [(c.id, c.arguments, c.result) for c in run.tool_calls] == [("c1", {"city": "Paris"}, "15C")]


def test_wrapped_tool_of_openllmetry() -> None:
    """LangChain's wrapping around arguments and results is taken off."""
    attributes = {
        "traceloop.span.kind": "tool",
        "gen_ai.tool.call.arguments": json.dumps({"input_str": "{'city': 'Paris'}", "tags": [], "metadata": {}}),
        "gen_ai.tool.call.result": json.dumps(
            {"output": {"lc": 1, "kwargs": {"content": "15C", "tool_call_id": "c1"}}}
        ),
    }
    run = only(agent(1, until=9), tool(2, "get_weather", parent=1, at=1, attributes=attributes))
    assert [(c.id, c.arguments, c.result) for c in run.tool_calls] == [("c1", {"city": "Paris"}, "15C")]


def test_a_threads_whole_output() -> None:
    """A root whose output is the whole thread: input is the new message, the answer the last one, history the earlier turn."""
    thread = [text("user", "one?"), text("assistant", "1"), text("user", "again?"), text("assistant", "2")]
    run = only(
        agent(1, given=[text("user", "again?")], said=thread, until=9),
        chat(2, thread[:3], thread[3:], parent=1, at=1),
    )
    assert (run.user_input, run.final_response) == ("again?", "2")
    assert [message.role for message in run.history] == ["user", "assistant"]


def test_two_turns_without_a_conversation_id_stay_apart() -> None:
    """Nearness in time alone joins nothing."""
    runs = assembled(
        agent(1, "a", [text("user", "one")], [text("assistant", "1")], trace="1" * 32),
        agent(2, "a", [text("user", "two")], [text("assistant", "2")], at=2, trace="2" * 32),
    )
    assert len(runs) == 2
    assert {run.conversation_id for run in runs} == {None}


@pytest.mark.parametrize("outer", [{"gen_ai.operation.name": "invoke_workflow"}, {"traceloop.span.kind": "workflow"}])
def test_a_workflow_around_one_agent(outer: dict[str, str]) -> None:
    """A wrapper and its one agent are one invocation without sub-agents."""
    run = only(
        span(1, "wx", outer, until=20),
        agent(2, "wx", parent=1, at=1, until=19),
        chat(3, [text("user", "q")], [call("c", "t", {})], parent=2, at=2),
        tool(4, "t", "c", {}, "r", parent=2, at=4),
    )
    assert (run.span_id, run.agent_name) == (f"{1:016x}", "wx")
    assert [c.agent_name for c in run.tool_calls] == [None]


@pytest.mark.parametrize("speaks", [True, False], ids=["with content", "without content"])
@pytest.mark.parametrize("between", [{}, {"gen_ai.operation.name": "invoke_workflow"}], ids=["step", "workflow"])
def test_an_agent_that_leaves_everything_to_one_other(between: dict[str, str], speaks: bool) -> None:
    """Two agents that state names of their own stay two: the calls are the inner one's, what the outer one does not say is the inner one's too."""
    asked, told = [text("user", "q")], [text("assistant", "a")]
    given = [text("system", "rules"), text("user", "q0"), text("assistant", "a0"), *asked]
    outer = {"gen_ai.agent.version": "1"}
    run = only(
        agent(1, "front", asked if speaks else (), told if speaks else (), attributes=outer, until=20),
        span(2, "dispatch", between, parent=1, at=1, until=19),
        agent(3, "billing", attributes={"gen_ai.conversation.id": "c1"}, parent=2, at=2, until=18),
        chat(4, given, [call("b", "lookup", {})], parent=3, at=3),
        tool(5, "lookup", "b", {}, "12", parent=3, at=5),
        chat(6, [*given, call("b", "lookup", {}), answer("b", "12")], told, parent=3, at=7),
    )
    assert (run.span_id, run.agent_name, run.agent_version) == (f"{1:016x}", "front", "1")
    assert [(c.agent_name, c.name, c.result) for c in run.tool_calls] == [("billing", "lookup", "12")]
    assert (run.user_input, run.final_response, run.system_instructions) == ("q", "a", "rules")
    assert ([len(m.parts) for m in run.history], run.conversation_id, run.model_calls) == ([1, 1], "c1", 2)


def test_what_a_sole_sub_agent_alone_says() -> None:
    """Without model calls its span tells of instructions, tools, calls and tokens; its version is not the outer agent's. Three deep as well."""
    inner = {
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "rules"}]),
        "gen_ai.tool.definitions": json.dumps([{"type": "function", "name": "lookup"}]),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.agent.version": "2",
    }
    whole = [call("b", "lookup", {"x": 1}), answer("b", "12"), text("assistant", "a")]
    run = only(
        agent(1, "front", until=20),
        agent(2, "desk", parent=1, at=1, until=19),
        agent(3, "billing", [text("user", "q")], whole, attributes=inner, parent=2, at=2, until=18),
    )
    assert [(c.agent_name, c.name, c.arguments, c.result) for c in run.tool_calls] == [
        ("billing", "lookup", {"x": 1}, "12")
    ]
    assert (run.agent_name, run.agent_version, run.system_instructions) == ("front", None, "rules")
    assert (run.user_input, run.final_response, run.input_tokens) == ("q", "a", 7)
    assert [one.name for one in run.tool_definitions] == ["lookup"]


@pytest.mark.parametrize(
    ("outer", "inner"), [("Agent workflow", "clerk"), (None, "clerk"), ("clerk", None), ("clerk", "clerk"), ("clerk", "LangGraph")]
)  # fmt: skip
def test_wrappers_of_an_agent(outer: str | None, inner: str | None) -> None:
    """No names, equal names and names that frameworks give are no evidence of a second agent, even where the wrapper holds a copy of the content."""
    asked, told = [text("user", "q")], [text("assistant", "a")]
    run = only(
        agent(1, outer, asked, told, until=20),
        agent(2, inner, asked, told, parent=1, at=1, until=19),
        tool(3, "lookup", "b", {}, "12", parent=2, at=5),
    )
    assert [(c.agent_name, c.name) for c in run.tool_calls] == [(None, "lookup")]


def test_several_choices() -> None:
    """Of several choices the first is the answer."""
    run = only(chat(1, [text("user", "q")], [text("assistant", "first"), text("assistant", "second")]))
    assert run.final_response == "first"


def test_an_agent_with_tools_and_no_model_span() -> None:
    """Nothing is invented for model calls that were not recorded."""
    run = only(
        agent(1, given=[text("user", "q")], said=[text("assistant", "a")], until=9),
        tool(2, "x", "1", {}, "r1", parent=1, at=1),
        tool(3, "y", "2", {}, "r2", parent=1, at=3),
    )
    assert (run.user_input, run.final_response, run.model_calls) == ("q", "a", 0)
    assert [c.name for c in run.tool_calls] == ["x", "y"]
    assert {"model", "system_instructions", "tool_definitions", "input_tokens"} <= set(run.completeness.missing)


def test_a_lost_sub_agent_under_a_tool() -> None:
    """Steps under a lost parent, inside a tool's time and with the tool's argument as input, are that tool's sub-agent."""
    run = only(
        agent(1, "front", attributes={"gen_ai.conversation.id": "outer"}, until=20),
        chat(
            2, [text("user", "bill?")], [call("a", "ask_sub", {"question": "What is the bill of May?"})], parent=1, at=1
        ),
        tool(3, "ask_sub", "a", {"question": "What is the bill of May?"}, "12", parent=1, at=3, until=9),
        chat(
            4,
            [text("user", "What is the bill of May?")],
            [text("assistant", "12")],
            parent=99,
            at=4,
            attributes={"gen_ai.conversation.id": "inner"},
        ),
        chat(5, [], [text("assistant", "It is 12.")], parent=1, at=12),
    )
    assert (run.conversation_id, run.user_input, run.final_response) == ("outer", "bill?", "It is 12.")
    assert run.model_calls == 3


def test_native_items_only_in_the_raw_value() -> None:
    """A function call that is only in the raw output is a tool call, not an empty answer."""
    item = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"q": "x"}'}
    attributes = {
        "openinference.span.kind": "LLM",
        "output.value": json.dumps([item]),
        "input.value": '[{"role": "user", "content": "q"}]',
    }
    run = only(agent(1, until=9), span(2, "response", attributes, parent=1, at=1))
    assert [(c.id, c.name, c.arguments) for c in run.tool_calls] == [("c1", "find", {"q": "x"})]
    assert run.final_response is None
