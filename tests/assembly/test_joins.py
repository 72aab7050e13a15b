"""What belongs together: copies of a span, log records, calls with their runs and answers, traces of one turn."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from collectors.span import Span
from monitor.assembly import AssemblyContext, reading, ties
from monitor.assembly.pieces import packed_pieces, unpacked_pieces
from monitor.model.invocation import Capture, SettledBy, ToolStatus
from tests.assembly.building import START, TRACE, agent, answer, assembled, call, chat, log, only, span, text, tool

OTHER = "0" * 31 + "b"
ASKED = call("c1", "look", {"city": "Oslo"})


def _turn(*tools: Span) -> list[Span]:
    return [agent(1, at=0, until=9), chat(2, [text("user", "Weather?")], [ASKED], parent=1, at=1), *tools]


def test_the_richer_copy_of_a_span_wins() -> None:
    """Of an open and an ended copy the ended one counts, whichever comes first."""
    early = chat(2, [text("user", "Weather?")], parent=1, until=0, tokens=None)
    late = chat(2, [text("user", "Weather?")], [text("assistant", "Rain.")], parent=1)
    for copies in ([early, late, early], [late, early, late]):
        found = only(agent(1, until=3), *copies)
        assert (found.final_response, found.model_calls, found.input_tokens) == ("Rain.", 1, 10)


def test_log_records_join_by_span_and_by_trace() -> None:
    """A record with a span id belongs to that span; one without is the root's."""
    question = log(
        None,
        "gen_ai.client.inference.operation.details",
        attributes={"gen_ai.input.messages": json.dumps([text("user", "Weather?")])},
    )
    reply = log(2, "gen_ai.choice", {"index": 0, "message": {"role": "assistant", "content": "Rain."}}, at=2)
    found = only(agent(1, until=3), chat(2, parent=1), question, reply)
    assert (found.user_input, found.final_response) == ("Weather?", "Rain.")


def test_a_call_its_run_and_its_answer_are_one() -> None:
    """What the model asked for, the tool's span and the next input join by id; the result is what the model saw."""
    run = tool(3, "look", "c1", {"city": "Oslo"}, {"rain": True}, parent=1, at=2)
    last = chat(
        4, [text("user", "Weather?"), ASKED, answer("c1", "rain")], [text("assistant", "Rain.")], parent=1, at=4
    )
    [made] = only(*_turn(run), last).tool_calls
    assert (made.name, made.id, made.arguments, made.result) == ("look", "c1", {"city": "Oslo"}, "rain")
    assert (made.status, made.span_id) == (ToolStatus.OK, run.span_id)
    assert (made.started_at, made.ended_at) == (run.start_time_unix_nano, run.end_time_unix_nano)


@pytest.mark.parametrize(
    ("run", "root_until", "status"),
    [
        (None, 9, ToolStatus.UNKNOWN),
        (None, 0, ToolStatus.PENDING),
        (tool(3, "look", "c1", parent=1, at=2, until=0), 9, ToolStatus.PENDING),
        (tool(3, "look", "c1", parent=1, at=2), 9, ToolStatus.OK),
        (tool(3, "look", "c1", parent=1, at=2, status=2, message="no such city"), 9, ToolStatus.ERROR),
    ],
    ids=["never ran", "may still run", "still open", "ran", "failed"],
)
def test_tool_status(run: Span | None, root_until: float, status: ToolStatus) -> None:
    """A call without a run is unknown once the agent has ended, pending before; a run tells by its end and status."""
    root, *rest = _turn(*([run] if run else []))
    root = root if root_until else replace(root, end_time_unix_nano=0)
    [made] = only(root, *rest).tool_calls
    assert made.status is status
    assert made.error == ("no such city" if status is ToolStatus.ERROR else None)


def test_redacted_arguments_and_results_are_no_content() -> None:
    """A marker in place of arguments or a result leaves the value empty and says why."""
    run = tool(3, "look", "c1", "__REDACTED__", "[redacted]", parent=1, at=2)
    hidden = call("c1", "look", "__REDACTED__")
    found = only(agent(1, until=9), chat(2, [text("user", "Weather?")], [hidden], parent=1, at=1), run)
    [made] = found.tool_calls
    assert (made.arguments, made.result, made.result_known) == (None, None, False)
    assert found.completeness.capture["tool_calls[0].arguments"] is Capture.REDACTED
    assert found.completeness.capture["tool_calls[0].result"] is Capture.REDACTED


def test_a_call_without_arguments_lacks_nothing() -> None:
    """Empty arguments are known arguments."""
    run = tool(3, "now", "c1", {}, "noon", parent=1, at=2)
    found = only(agent(1, until=9), run)
    assert found.tool_calls[0].arguments == {}
    assert not [name for name in found.completeness.missing if name.startswith("tool_calls")]


def test_a_turn_over_two_traces() -> None:
    """Model calls that have a trace each make one turn when the later one answers the earlier one's tool call."""
    first = chat(1, [text("user", "Weather?")], [ASKED])
    second = chat(
        2, [text("user", "Weather?"), ASKED, answer("c1", "rain")], [text("assistant", "Rain.")], at=3, trace=OTHER
    )
    [one], [other] = ties([first], []).pieces, ties([second], []).pieces
    assert one.ties & other.ties
    found = only(second, first)
    assert (found.trace_id, found.span_id, found.model_calls) == (TRACE, first.span_id, 2)
    assert (found.user_input, found.final_response) == ("Weather?", "Rain.")
    assert [made.result for made in found.tool_calls] == ["rain"]


def test_turns_of_two_users_stay_apart() -> None:
    """Lone model calls of other conversations are not joined, and an agent's trace leaves nothing to go on from."""
    first = chat(1, [text("user", "Weather?")], [ASKED])
    second = chat(2, [text("user", "Time?")], [text("assistant", "Noon.")], at=3, trace=OTHER)
    [one], [other] = ties([first], []).pieces, ties([second], []).pieces
    assert not one.ties & other.ties
    assert len(assembled(first, second)) == 2
    assert not ties([agent(1, until=9), chat(2, [text("user", "Weather?")], [ASKED], parent=1)], []).pieces


@pytest.mark.parametrize("first_has_ended", [False, True])
def test_the_same_question_of_another_user_is_another_turn(first_has_ended: bool) -> None:
    """A call that repeats what a turn was asked, and was given no more tokens, is not that turn's next call; an ended turn has none."""

    def asks(number: int, at: float, tokens: int) -> Span:
        made = chat(number, [text("user", "Weather?")], [ASKED], at=at, trace=f"{number:032x}")
        return replace(made, attributes={**made.attributes, "gen_ai.usage.input_tokens": tokens})

    goes_on = [text("user", "Weather?"), ASKED, answer("c1", "rain")]
    ended = chat(2, goes_on, [text("assistant", "Rain.")], at=3, trace=OTHER)
    first = [asks(1, 0, 20), ended] if first_has_ended else [asks(1, 0, 20)]
    assert len(assembled(*first, asks(3, 6, 20))) == 2
    assert len(assembled(*first, asks(3, 6, 35))) == (2 if first_has_ended else 1)


def test_a_piece_can_be_kept_as_bytes() -> None:
    """Pieces come back from their bytes as they were, in some 150 of them for a call that asks for a tool."""
    spans = [chat(1, [text("user", "Weather?")], [ASKED]), chat(2, attributes={"gen_ai.response.id": "r"}, trace=OTHER)]
    pieces = ties(spans, []).pieces
    assert unpacked_pieces(packed_pieces(pieces)) == pieces
    assert len(packed_pieces(pieces)) < 2 * 180


def test_a_call_without_content_goes_to_the_one_turn_that_waits() -> None:
    """With content switched off, a call joins the only turn of its process that waits for tools; of two it joins none."""
    waits = {"gen_ai.response.finish_reasons": ("tool_calls",)}
    first = chat(1, attributes=waits)
    second = chat(2, at=3, trace=OTHER, attributes={"gen_ai.response.finish_reasons": ("stop",)})
    rival = chat(3, at=0.5, trace="0" * 31 + "c", attributes=waits)
    assert only(first, second).model_calls == 2
    assert [one.model_calls for one in assembled(first, rival, second)] == [1, 1, 1]


def test_a_cached_response_is_a_new_turn() -> None:
    """A response id that comes again later, from the same instrumentation, is a cache's: two turns. At once it is one call told twice."""
    told = {"gen_ai.response.id": "r1"}
    first = chat(1, [text("user", "Time?")], [text("assistant", "Noon.")], attributes=told)
    again = chat(2, [text("user", "Time?")], [text("assistant", "Noon.")], at=60, trace=OTHER, attributes=told)
    twin = chat(3, [text("user", "Time?")], [text("assistant", "Noon.")], trace=OTHER, attributes=told, scope="gateway")
    assert [one.model_calls for one in assembled(first, again)] == [1, 1]
    assert only(first, twin).input_tokens == 10


def test_set_up_in_a_trace_of_its_own() -> None:
    """What an agent was set up with belongs to its later runs, the newest set-up counting; never to another service's agent."""

    def made(number: int, at: float, rule: str, service: str = "desk") -> Span:
        attributes = {"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "clerk"}
        attributes["gen_ai.system_instructions"] = json.dumps([{"type": "text", "content": rule}])
        resource = {"service.name": service}
        return span(number, "create_agent clerk", attributes, at=at, trace=f"{number:032x}", resource=resource)

    run = [agent(1, at=5, until=9), chat(2, [text("user", "Hi")], parent=1, at=5)]
    setups = [made(11, 0, "Old."), made(12, 2, "New."), made(13, 7, "Late."), made(14, 4, "Other.", "shop")]
    told = [setup.key for setup in ties(setups, []).setups]
    assert [key in ties(run, []).agents for key in told] == [True, True, True, False]
    assert only(*run, *setups).system_instructions == "New."
    apart = reading(run, [], AssemblyContext(SettledBy.IDLE, "otlp"), beside=setups)
    assert [one.invocation.system_instructions for one in apart.invocations] == ["New."]
    assert reading(run, [], AssemblyContext(SettledBy.IDLE, "otlp")).ties.agents == {told[0]}


@pytest.mark.parametrize(
    ("state", "probability"),
    [
        ("", 1.0),
        ("ot=th:8", 0.5),
        ("ot=th:c", 0.25),
        ("vendor=1, ot=rv:0123456789abcd;th:fd70a4", 0.01),
        ("ot=th:0", 1.0),
        ("ot=th:xyz", 1.0),
        ("ot=th:" + "f" * 15, 1.0),
        ("th:8", 1.0),
    ],
)
def test_upstream_sampling(state: str, probability: float) -> None:
    """The rejection threshold in the root's trace state gives the probability with which the trace was kept."""
    found = only(agent(1, trace_state=state), chat(2, [text("user", "Hi")], parent=1))
    assert found.inclusion_probability == pytest.approx(probability, rel=1e-4)


def test_context_is_passed_through() -> None:
    """How it settled, who collected it and which attributes to keep come from the caller."""
    context = AssemblyContext(SettledBy.IDLE, "jaeger", ("tenant", "k8s.*"), 3)
    root = agent(1, attributes={"tenant": "north", "other": 1}, resource={"service.name": "desk", "k8s.pod": "p1"})
    found = only(root, chat(2, [text("user", "Hi")], parent=1), context=context)
    assert (found.collector, found.completeness.settled_by, found.completeness.late_spans) == (
        "jaeger",
        SettledBy.IDLE,
        3,
    )
    assert found.attributes == {"tenant": "north", "k8s.pod": "p1"}


def test_ids_and_order() -> None:
    """Invocations are named after their root's span and come in order of start, then id."""
    web = span(9, "POST /ask", until=30)
    later, sooner = agent(1, at=5, parent=9), agent(2, at=1, parent=9)
    made = assembled(
        later, chat(3, [text("user", "A")], parent=1, at=5), sooner, chat(4, [text("user", "B")], parent=2, at=1), web
    )
    assert [one.id for one in made] == [f"{TRACE}-{sooner.span_id}", f"{TRACE}-{later.span_id}"]
    assert made[0].started_at == START + 1_000_000_000
