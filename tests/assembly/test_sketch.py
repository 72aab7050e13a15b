"""The sketch of a trace is nothing, or what the whole assembly says of it."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from hypothesis import HealthCheck, given, settings

from collectors.otlp.file import read_file
from collectors.otlp.request import RawItems, select, split
from collectors.sink import Signal
from monitor.assembly import AssemblyContext
from monitor.assembly.sketch import sketch
from monitor.model.invocation import SettledBy
from tests.assembly.sketching import BLANKS, CONTEXT, TRACE, assembled, changed, plain, put, request, sketched, span_of


def test_a_plain_trace_is_sketched() -> None:
    """Agent, model calls, tool, retrieval and web requests: every figure of the head, as the assembly has it."""
    body = request(plain())
    found = sketched([body])
    assert found == assembled([body])
    assert found is not None
    [one] = found
    said = {
        key: one[key] for key in ("agent_name", "conversation_id", "service", "environment", "model", "model_calls")
    }
    assert said == {
        "agent_name": "desk", "conversation_id": "c7", "service": "helpdesk", "environment": "prod", "model": "m", "model_calls": 2,
    }  # fmt: skip
    assert (one["input_tokens"], one["output_tokens"], one["failed"], len(one["spans"])) == (14, 6, False, 6)


def test_a_trace_without_agents_is_nothing() -> None:
    """Web traffic has no invocation, and that is known without assembling it."""
    spans = [span_of(1, None, "GET /", (0, 9), http__route="/"), span_of(2, 1, "SELECT", (1, 8), db__system="x")]
    assert sketched([request(spans)]) == [] == assembled([request(spans)])


def test_what_the_context_asks_for_beyond_heads_is_not_sketched() -> None:
    """Attributes to keep, late data, and traces that did not settle by their root."""
    items = RawItems(request(plain()), Signal.TRACES).items
    assert sketch(items, TRACE.hex(), CONTEXT, BLANKS) is not None
    for context in (
        AssemblyContext(SettledBy.ROOT_ENDED, "otlp", ("tenant",)),
        AssemblyContext(SettledBy.ROOT_ENDED, "otlp", (), 1),
        AssemblyContext(SettledBy.IDLE, "otlp"),
    ):
        assert sketch(items, TRACE.hex(), context, BLANKS) is None


def test_a_failed_run_and_a_failed_last_model_call_are_errors() -> None:
    """The status of the agent, or of the model call after which nothing came; a failed tool is none."""
    for failed, expected in ((1, True), (6, True), (2, False), (3, False)):
        spans = plain()
        spans[failed].status.code = 2
        [one] = sketched([request(spans)]) or []
        assert one["failed"] is expected
        assert [one] == assembled([request(spans)])


def test_an_agent_in_a_circle_or_below_a_link_is_not_sketched() -> None:
    """Parents that go in a circle; and a root that says where it comes from may be a part of another trace's run."""
    spans = plain()
    spans[1].parent_span_id = spans[2].span_id
    assert sketched([request(spans)]) is None
    spans = plain()
    spans[0].links.add(trace_id=bytes(15) + b"z", span_id=spans[2].span_id)
    assert sketched([request(spans)]) is None
    assert sketched([request(plain())]) is not None


def test_a_number_too_large_for_a_count_is_left_to_the_assembly() -> None:
    """2^53 tokens and more are none; the largest number below is some."""
    for number, is_sketched in ((2**53 - 1, True), (2**53, False), (2**63 - 1, False), (-1, False)):
        spans = plain()
        put(spans[2], "gen_ai.usage.input_tokens", number)
        found = sketched([request(spans)])
        assert (found is not None) is is_sketched
        assert found in (None, assembled([request(spans)]))


@given(changed())
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_changed_it_is_certain_or_nothing(body: bytes) -> None:
    """Other dialects, lost and doubled spans, odd values, invalid text: never another head than the assembly's."""
    found = sketched([body])
    assert found is None or found == assembled([body])


def test_most_changes_of_values_leave_it_certain() -> None:
    """The oracle above is not vacuous: names, ids, models and tokens may be what they like."""
    for key, value in (
        ("gen_ai.agent.name", "someone"), ("gen_ai.conversation.id", "other"), ("gen_ai.request.model", "big"),
        ("gen_ai.usage.input_tokens", 10**9), ("gen_ai.agent.version", "9"), ("enduser.id", "u"), ("gen_ai.response.id", "r9"),
    ):  # fmt: skip
        for span in plain()[1:2]:
            put(span, key, value)
            spans = plain()
            spans[1] = span
            found = sketched([request(spans)])
            assert found is not None, key
            assert found == assembled([request(spans)])


def test_recorded_traces(shared: Path) -> None:
    """Every recorded trace of every framework; some are plain enough, and those are as the assembly has them."""
    plain_enough: Counter[str] = Counter()
    for file in sorted((shared / "traces").glob("*/*.otlp.jsonl")):
        traces: dict[bytes, list[bytes]] = defaultdict(list)
        for body, signal in read_file(file):
            wanted: dict[bytes, list[int]] = defaultdict(list)
            for ordinal, item in enumerate(split(body, signal).items):
                if item.valid and not item.own_telemetry:
                    wanted[item.trace_id].append(ordinal)
            for trace_id, ordinals in wanted.items():
                traces[trace_id].append(select(body, signal, ordinals))
        for trace_id, bodies in traces.items():
            found = sketched(bodies, trace_id)
            assert found is None or found == assembled(bodies), file
            plain_enough[file.parent.name] += bool(found)
    assert {"autogen", "openai--otel-genai"} <= {name for name, count in plain_enough.items() if count}
