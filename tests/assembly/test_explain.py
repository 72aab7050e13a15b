"""`reconstruct --explain`: every field that has a value names the span and the attribute that it came from, in every dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.span import LogRecord, Span
from monitor.assembly import assemble
from monitor.model.invocation import Assembled
from tests.assembly.building import CONTEXT, agent, chat, only, tool
from tests.assembly.recordings import load
from tests.assembly.test_dialects import WITH_TOOL, WITHOUT_TOOL
from tests.assembly.test_documented_shapes import CLAUDE_CODE, CODEX, GEMINI_CLI, MIXED
from tests.conftest import SHARED

EXPLAIN = replace(CONTEXT, explain=True)
FIELDS = (
    "conversation_id", "agent_name", "agent_version", "environment", "service", "model", "system_instructions", "user_input", "history",
    "tool_definitions", "final_response", "error", "input_tokens", "output_tokens",
)  # fmt: skip
SYNTHETIC = {build.__name__: build() for build in (*WITH_TOOL, *WITHOUT_TOOL)}
SYNTHETIC |= {"claude_code": CLAUDE_CODE, "codex": CODEX, "gemini_cli": GEMINI_CLI, "mixed": MIXED}


def unexplained(made: Assembled) -> set[str]:
    """The fields with a value that name no source."""
    run, known = made.invocation, {one.field for one in made.provenance}
    having = {name for name in FIELDS if getattr(run, name) not in (None, (), "")}
    for index, call in enumerate(run.tool_calls):
        parts = {"name": call.name or None, "arguments": call.arguments, "error": call.error, "id": call.id}
        parts["result"] = True if call.result_known else None
        having |= {f"tool_calls[{index}].{part}" for part, content in parts.items() if content is not None}
    return having - known


def check(spans: Sequence[Span], logs: Sequence[LogRecord]) -> None:
    """Every field is explained, by a span that is there and something in it."""
    ids = {one.span_id for one in (*spans, *logs)} | {""}
    found = assemble(spans, logs, EXPLAIN)
    assert found
    for made in found:
        assert unexplained(made) == set()
        assert all(one.source and one.convention and one.span_id in ids for one in made.provenance)


@pytest.mark.parametrize("dialect", sorted(SYNTHETIC))
def test_every_field_of_a_documented_dialect_has_a_source(dialect: str) -> None:
    """Also where log records stand for spans, and where four dialects share a trace."""
    items = SYNTHETIC[dialect]
    check([one for one in items if isinstance(one, Span)], [one for one in items if isinstance(one, LogRecord)])


def cases() -> list[Path]:
    """Of each producer the case with two turns and the one that fails; none where there are no recordings."""
    names = ("s4_two_turns_same_session", "s11_run_fails")
    return [file for name in names for file in sorted((SHARED / "traces").glob(f"*/{name}.otlp.jsonl"))]


@pytest.mark.parametrize("file", cases(), ids=lambda file: f"{file.parent.name}-{file.name.split('.')[0]}")
def test_every_field_of_a_recording_has_a_source(file: Path) -> None:
    """Tool calls, tokens, history and errors included."""
    logs = file.with_name(file.name.replace(".otlp.", ".logs."))
    check(*load([file, *([logs] if logs.exists() else [])]))


def test_each_source_of_a_call_is_named() -> None:
    """Arguments and result come from the span or from the model's messages, whichever was taken; tokens from every model call."""
    asked = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"x": 1}}]}
    spans = [agent(1, until=9), chat(2, said=[asked], parent=1), tool(3, "find", "c1", "x", "found", parent=1, at=2), chat(4, parent=1, at=4)]  # fmt: skip
    (made,) = assemble(spans, [], EXPLAIN)
    origins = {(one.field, one.span_id, one.source) for one in made.provenance}
    assert ("tool_calls[0].arguments", f"{2:016x}", "gen_ai.output.messages") in origins
    assert ("tool_calls[0].result", f"{3:016x}", "gen_ai.tool.call.result") in origins
    assert {span for field, span, _ in origins if field == "input_tokens"} == {f"{2:016x}", f"{4:016x}"}
    assert only(*spans).tool_calls == made.invocation.tool_calls
    assert assemble(spans, [], CONTEXT)[0].provenance == ()
