"""What is peculiar to Langfuse: two APIs, and observations that never were spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collectors.langfuse import build_langfuse
from collectors.otlp.otlp_json import convert
from collectors.otlp.request import decode
from collectors.polling.langfuse_spans import otlp_of
from collectors.sink import Signal
from tests.contracts.poller_contract import PollerContract
from tests.support.trace_servers import FakeLangfuse
from tests.support.trace_world import invocations


class OldLangfuse(FakeLangfuse):
    """Before version 4."""

    v2 = False


class TestOldLangfuse(PollerContract):
    """Numbered pages."""

    kind = "langfuse"
    build = staticmethod(build_langfuse)
    server = OldLangfuse

    @staticmethod
    def comparable(found: Sequence[dict[str, Any]]) -> Any:
        """An observation is read as Langfuse's dialect."""
        return [{key: value for key, value in one.items() if key != "convention"} for one in found]

    async def test_ten_thousand_traces_out_of_order_with_a_crash_in_the_middle(self) -> None:
        """The same engine as version 2: a twentieth of them here."""
        bench = await self.bench(500, spread=900.0, interval="120s")
        await bench.run(bench.world.end + 1800)
        bench.check_all(every=10)


def test_observations_of_langfuses_own_sdk_become_an_invocation() -> None:
    """Ids that are UUIDs, input and output of any shape, a failing generation, a tool."""
    trace_id, agent = "6f1d3c1e-0000-4000-8000-000000000001", "6f1d3c1e-0000-4000-8000-00000000000a"
    rows = [
        {"id": agent, "traceId": trace_id, "type": "AGENT", "name": "booker", "startTime": "2026-11-18T09:00:00Z",
         "endTime": "2026-11-18T09:00:04Z", "input": "A table for two?", "output": "Booked."},
        {"id": "t", "traceId": trace_id, "type": "TOOL", "name": "book", "parentObservationId": agent,
         "startTime": "2026-11-18T09:00:01.5Z", "endTime": "2026-11-18T09:00:02Z", "input": {"size": 2}, "output": {"ok": True}},
        {"id": "g", "traceId": trace_id, "type": "GENERATION", "name": "llm", "parentObservationId": agent, "level": "ERROR",
         "startTime": "2026-11-18T09:00:02Z", "endTime": "2026-11-18T09:00:03Z", "providedModelName": "gpt-4.1-mini",
         "statusMessage": "rate limit", "usageDetails": {"input": 10, "output": 3}},
    ]  # fmt: skip
    document = otlp_of(trace_id, rows, {"sessionId": "s-1", "release": "1.4"})
    spans = decode(convert(document, Signal.TRACES).body, Signal.TRACES).spans
    assert {span.trace_id for span in spans} == {trace_id.replace("-", "")}
    (found,) = invocations(spans)
    assert (found["user_input"], found["final_response"], found["conversation_id"]) == (
        "A table for two?",
        "Booked.",
        "s-1",
    )
    assert [(call["name"], call["arguments"], call["result"]) for call in found["tool_calls"]] == [
        ("book", {"size": 2}, '{"ok": true}')
    ]
    assert (found["model"], found["input_tokens"], found["output_tokens"]) == ("gpt-4.1-mini", 10, 3)
    assert found["started_at"] == "2026-11-18T09:00:00.000000000Z"


def test_an_observation_without_an_end_is_open() -> None:
    """An event has none and is over at once."""
    row = {"id": "a", "traceId": "t", "type": "SPAN", "startTime": "2026-11-18T09:00:00Z"}
    spans = decode(
        convert(otlp_of("t", [row, {**row, "id": "b", "type": "EVENT"}], {}), Signal.TRACES).body, Signal.TRACES
    ).spans
    assert [span.ended for span in spans] == [False, True]
