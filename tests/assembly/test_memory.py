"""What reading spans leaves behind: little, whatever the spans are like."""

from __future__ import annotations

import gc

import pytest

from collectors.span import Span
from monitor.assembly.reading import read
from monitor.assembly.record import Record, Shape
from monitor.assembly.sketch import MAX_KEYS, MAX_LENGTH, MAX_RESOURCE
from tests.assembly.sketching import RESOURCE, assembled, plain, put, request, sketched


def test_a_span_of_many_attributes_leaves_nothing() -> None:
    """Flattened histories have hundreds of keys that no other span has: no cache holds them once the span has been read."""
    for number in range(20):
        keys = {f"llm.input_messages.{place}.message.content": "x" for place in range(200)}
        read(Record(Span("a" * 32, "b" * 16, name="llm", attributes={**keys, f"gen_ai.of.{number}": "x"})))
    gc.collect()
    left = [found for found in gc.get_objects() if isinstance(found, Shape) and len(found.keys) > 200]
    assert len(left) <= 1


@pytest.mark.parametrize("odd", ["keys", "key", "name", "agent", "resource"])
def test_what_takes_much_room_is_not_sketched(odd: str) -> None:
    """Nothing large becomes part of what the sketch remembers; such traces are assembled."""
    spans, resource = plain(), dict(RESOURCE)
    if odd == "keys":
        for number in range(MAX_KEYS):
            put(spans[1], f"app.{number}", "x")
    elif odd == "key":
        put(spans[1], "k" * (MAX_LENGTH + 1), "x")
    elif odd == "name":
        spans[1].name = "n" * (MAX_LENGTH + 1)
    elif odd == "agent":
        put(spans[1], "gen_ai.agent.name", "n" * (MAX_LENGTH + 1))
    else:
        resource["process.command_line"] = "r" * (MAX_RESOURCE + 1)
    body = request(spans, resource)
    assert sketched([body]) is None
    assert len(assembled([body])) == 1
