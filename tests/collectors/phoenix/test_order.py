"""What is peculiar to Phoenix: the order of insertion."""

from __future__ import annotations

import json

from collectors.phoenix import otlp_of
from tests.collectors.phoenix.test_contract import TestPhoenix as Phoenix
from tests.support.trace_servers import FakePhoenix, Reply, as_json


async def test_a_row_that_is_committed_after_a_later_one_is_taken() -> None:
    """Transactions end in another order than their ids began."""
    made = await Phoenix().bench(20)
    server = made.server
    assert isinstance(server, FakePhoenix)
    while made.clock.now() < made.world.end + 200:
        at = made.clock.now() + 30
        server.hidden = {row for row, span in server.rows if row % 2 and 0 <= at - span.visible_at < 30}
        await made.run(made.clock.now() + 30)
    server.hidden = set()
    await made.run(made.world.end + 300)
    made.check_all()


async def test_a_project_that_cannot_be_read_does_not_keep_the_others() -> None:
    """It is the problem until its first span."""
    made = await Phoenix().bench(20, projects=["later", "default"])
    await made.run(made.world.end + 60)
    assert "there is no project later" in (made.poller.problem or "")
    made.check_all()
    made.server.fault_for = lambda path, given: as_json({"data": [], "next_cursor": None}) if "later" in path else None
    await made.turn()
    assert made.poller.problem is None


async def test_a_server_that_gives_the_newest_first_is_refused() -> None:
    """Older servers do not know `sort`: nothing is taken out of order in silence."""
    made = await Phoenix().bench(5)
    made.clock.advance(500)
    answer = json.loads(made.server.answer("/v1/projects/default/spans", {"limit": "100"}).body)
    body = json.dumps({"data": answer["data"][::-1], "next_cursor": None}).encode()
    made.server.fault_for = lambda path, given: Reply(body)
    await made.turn()
    assert "does not give spans in the order of their ids" in (made.poller.problem or "")
    assert not made.sink.spans


def test_texts_that_were_taken_apart_are_one_again() -> None:
    """`metadata` and tool parameters were JSON text when they were sent."""
    attributes = {
        "metadata.a": 1,
        "metadata.b.0": "x",
        "metadata.b.1": "y",
        "tool.parameters.q": True,
        "llm.model_name": "m",
    }
    span = {"context": {"trace_id": "1" * 32, "span_id": "2" * 16}, "attributes": attributes, "span_kind": "TOOL"}
    found = otlp_of(span)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"]
    values = {one["key"]: one["value"]["stringValue"] for one in found}
    assert json.loads(values["metadata"]) == {"a": 1, "b": ["x", "y"]}
    assert json.loads(values["tool.parameters"]) == {"q": True}
    assert (values["llm.model_name"], values["openinference.span.kind"]) == ("m", "TOOL")
