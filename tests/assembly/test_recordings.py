"""Recorded traffic of real frameworks gives what the script behind it knows to be true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assembly.recordings import comparison
from tests.conftest import SHARED

# Where a recording lacks what the truth asks for: (reachable, asked for). docs/reconstruction.md has the argument of each.
CEILING = {
    "google-genai--openinference": (157, 162),  # a failed loop's tool call is named nowhere but among the tools offered
    "openai--openllmetry-0.47": (201, 212),  # streamed Responses calls leave nothing but the web request's span
    "openai-agents--openinference-chat": (141, 144),  # names of tools that were not called are not recorded
}


def producers() -> list[str]:
    """The folders of recordings, none where they are missing."""
    return sorted(folder.name for folder in (SHARED / "traces").glob("*/")) if SHARED.is_dir() else []


@pytest.mark.parametrize("producer", producers())
def test_producer(shared: Path, producer: str) -> None:
    """Every field that the recordings of a producer carry is right, and what they do not carry is not invented."""
    tool = comparison(shared)
    total = tool.Score()
    for truth in sorted((shared / "traces" / producer).glob("*.truth.json")):
        total.add(tool.compare_case(truth, ""))
    right, scored = sum(total.right.values()), sum(total.scored.values())
    reachable, asked = CEILING.get(producer, (scored, scored))
    assert scored == asked
    assert right >= reachable, "\n".join(total.differences)
