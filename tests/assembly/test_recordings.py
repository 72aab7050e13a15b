"""Recorded traffic of real frameworks gives what the script behind it knows to be true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assembly.recordings import comparison

CEILING = {
    "openai-agents--openinference-chat": 141
    / 144,  # names of tools that were never called are nowhere in the recording
}
"""The best possible score where a recording lacks what the truth asks for; 1.0 elsewhere."""

EXACT = (
    "agent-framework",
    "agent-framework--in-web-app",
    "agent-framework--responses",
    "agent-framework--v1.36",
    "autogen",
    "google-adk",
    "google-adk--1.39",
    "google-adk--litellm",
    "google-adk--v1",
    "langgraph--otel-genai",
    "openai--openllmetry",
    "openai--otel-genai",
    "openai--otel-v2",
    "openai--otel-v2-latest",
    "openai--otel-v2-latest-events",
    "openai-agents--openllmetry",
    "openai-agents--otel-genai",
    "openai-agents-js--openinference",
    "pydantic-ai",
    "pydantic-ai--v2",
    "pydantic-ai--v6",
    "pydantic-ai-1.0--events",
    "pydantic-ai-1.0--logs",
    "strands-agents",
    "strands-agents--semconv",
    "vercel-ai-sdk",
)


@pytest.mark.parametrize("producer", EXACT)
def test_producer(shared: Path, producer: str) -> None:
    """Every field that the recordings of a producer carry is right."""
    tool = comparison(shared)
    total = tool.Score()
    for truth in sorted((shared / "traces" / producer).glob("*.truth.json")):
        total.add(tool.compare_case(truth, ""))
    assert sum(total.scored.values()) > 0
    reached = sum(total.right.values()) / sum(total.scored.values())
    assert reached >= CEILING.get(producer, 1.0), "\n".join(total.differences)
