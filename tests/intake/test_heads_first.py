"""Heads first: whoever reads an invocation of which only the head was read sees what he would have seen anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collectors.sink import Encoding
from monitor.intake.later import assemble_later
from monitor.intake.options import SettlementOptions, settlement_options
from monitor.intake.stored_spans import unpack
from monitor.model.browsing import AnswerQuery
from monitor.model.run import Query
from monitor.model.wire import invocation_json
from monitor.settings.tree import Settings
from monitor.store.sqlite import SqliteStore
from tests.assembly.sketching import TRACE, plain, put, request, span_of
from tests.contracts.store_material import request as run_request
from tests.contracts.store_material import take_all
from tests.intake.desk import Desk
from tests.intake.traffic import Sent, traces

AGENT = f"{TRACE.hex()}-{'02' * 8}"
PLAIN = ("openai--otel-genai", "langgraph--otel-genai", "agent-framework--v1.36")
PRODUCERS = (*PLAIN, "autogen", "google-adk--v1")
"""Recordings that heads are read of; some with agents that are set up in traces of their own; some of another dialect."""


@pytest.fixture
def open_over_sqlite(
    open_desk: Callable[..., Desk], tmp_path: Path
) -> Iterator[Callable[..., tuple[Desk, SqliteStore]]]:
    """Makes desks over stores of their own, with heads first or not."""
    stores: list[SqliteStore] = []

    def make(*, heads_first: bool = True) -> tuple[Desk, SqliteStore]:
        store = SqliteStore(tmp_path / f"store{len(stores)}", assemble_later)
        stores.append(store)
        desk: Desk = open_desk(options=SettlementOptions(monitors=("quality",), heads_first=heads_first))
        desk.settled_into = store
        desk.restart()
        return desk, store

    yield make
    for store in stores:
        store.close()


def spans_of(store: SqliteStore, column: str = "assembled") -> list[Any]:
    """A column of all invocations, in order."""
    return [
        row[0]
        for row in store._writer.call(lambda c: c.execute(f"SELECT {column} FROM invocations ORDER BY n").fetchall())
    ]


def seen(store: SqliteStore) -> dict[str, Any]:
    """All that readers see of the invocations of a store."""
    return {
        "list": store.list_invocations(Query(limit=1000)).items,
        "answers": store.list_answers(AnswerQuery(since=None, until=None, limit=1000)).items,
        "dialects": {(one.collector, one.convention): one.count for one in store.dialects(1000)},
        "tallies": sorted((one.metric, str(one.labels), one.value) for one in store.tallies()),
    }


@pytest.mark.parametrize("producers", PRODUCERS)
def test_readers_see_the_same_either_way(
    shared: Path, open_over_sqlite: Callable[..., tuple[Desk, SqliteStore]], producers: str
) -> None:
    """Recorded traces, settled with and without assembly: the same listings, answers, counts and single invocations."""
    ways = [open_over_sqlite(heads_first=True), open_over_sqlite(heads_first=False)]
    for file in sorted((shared / "traces").glob(f"{producers}/*.otlp.jsonl")):
        for desk, _ in ways:
            for line in file.read_bytes().splitlines():
                desk.send(line, encoding=Encoding.JSON)
    for desk, _ in ways:
        desk.send(request(plain()))
        desk.wait(30.0)
        desk.wait(1000.0)
    (_, first), (_, whole) = ways
    assert spans_of(first).count(0) >= (10 if producers in PLAIN else 1)
    assert set(spans_of(whole)) == {1}
    assert seen(first) == seen(whole)
    for one in seen(whole)["list"]:
        read = [store.invocation(one["id"]) for store in (first, whole)]
        assert read[0] == read[1]


def test_what_is_drawn_is_kept_as_it_was_assembled(open_over_sqlite: Callable[..., tuple[Desk, SqliteStore]]) -> None:
    """A claim gives the whole invocation; what it took to read it is kept, so that tools and gaps outlive the content."""
    desk, store = open_over_sqlite()
    desk.send(request(plain()))
    desk.wait(30.0)
    before = store.invocation(AGENT)
    assert before is not None
    assert spans_of(store) == [0]
    soon = desk.clock.now() + 1
    store.execute_run(run_request(monitor="quality", tick=soon, settled_before=soon, started_at=soon), take_all)
    [evaluation, *_] = store.claim_evaluations(10, desk.clock.now() + 2, 60)
    assert evaluation.invocation == before
    assert (spans_of(store), store.invocation(AGENT)) == ([1], before)
    store.forget(trace_id=TRACE.hex())
    erased = store.invocation(AGENT)
    assert erased is not None
    assert [call.name for call in erased.tool_calls] == ["find"]


def test_what_nobody_drew_leaves_its_head(open_over_sqlite: Callable[..., tuple[Desk, SqliteStore]]) -> None:
    """Without content the figures of the head stay, and `capture` says that tool calls are among what is gone."""
    desk, store = open_over_sqlite()
    desk.send(request(plain()))
    desk.wait(30.0)
    store.retire_monitors(())
    assert store.drop_unwanted_content() == 1
    erased = store.invocation(AGENT)
    assert erased is not None
    said = invocation_json(erased)
    assert (said["input_tokens"], said["model_calls"], said["agent_name"], said["tool_calls"]) == (14, 2, "desk", [])
    assert said["completeness"]["capture"]["tool_calls"] == "redacted"
    stored = store.trace(TRACE.hex())
    assert stored is not None
    assert stored.spans is None


@pytest.mark.parametrize("heads_first", [True, False])
def test_late_data_revises_it(open_over_sqlite: Callable[..., tuple[Desk, SqliteStore]], heads_first: bool) -> None:
    """Late data that says something makes revision 2, late data that says nothing none."""
    desk, store = open_over_sqlite(heads_first=heads_first)
    desk.send(request(plain()))
    desk.wait(30.0)
    desk.send(request([span_of(8, 5, "GET /cache", (23, 30), http__route="/")]))
    assert desk.wait(30.0).revised == 0
    late = span_of(
        9, 2, "execute_tool send", (91, 95), gen_ai__operation__name="execute_tool", gen_ai__tool__name="send"
    )
    desk.send(request([late]))
    assert desk.wait(30.0).revised == 1
    one = store.invocation(AGENT)
    assert one is not None
    assert (one.revision, [call.name for call in one.tool_calls]) == (2, ["find", "send"])
    assert spans_of(store) == [1]


def test_spans_stay_while_a_head_stands_for_them(open_over_sqlite: Callable[..., tuple[Desk, SqliteStore]]) -> None:
    """Raw spans are switched off and late data comes that changes nothing: the invocation can still be read."""
    desk, store = open_over_sqlite()
    desk.send(request(plain()))
    desk.wait(30.0)
    before = store.invocation(AGENT)
    desk.configure(keep_spans=False, heads_first=False)
    desk.send(request([span_of(8, 5, "GET /cache", (23, 30), http__route="/")]))
    desk.wait(30.0)
    assert store.invocation(AGENT) == before


def test_dropped_attributes_are_in_neither(open_over_sqlite: Callable[..., tuple[Desk, SqliteStore]]) -> None:
    """`privacy.drop_attributes` holds for heads and for what is read later."""
    desk, store = open_over_sqlite()
    desk.configure(drop_attributes=("gen_ai.input.*", "gen_ai.conversation.id"))
    spans = plain()
    put(spans[1], "gen_ai.input.messages", '[{"role": "user", "parts": [{"type": "text", "content": "secret"}]}]')
    desk.send(request(spans))
    desk.wait(30.0)
    one = store.invocation(AGENT)
    assert one is not None
    assert (spans_of(store), one.user_input, one.conversation_id) == ([0], None, None)
    stored = store.trace(TRACE.hex())
    assert stored is not None
    assert all(b"secret" not in part for part in unpack(stored.spans or b""))


def test_the_configuration_says_when_heads_are_enough() -> None:
    """Not without raw spans, with attributes to keep, or tools to select by."""
    monitor: dict[str, Any] = {"rubrics": {"tone": {}}}

    def heads_first(*kept: str, by_tools: bool = False, **sections: Any) -> bool:
        settings = Settings.model_validate({"monitors": {"quality": monitor}} | sections)
        return settlement_options(settings, kept, by_tools=by_tools).heads_first

    assert heads_first()
    assert not heads_first("tenant")
    assert not heads_first(by_tools=True)
    assert not heads_first(privacy={"store_content": "none"})


def test_copies_of_plain_web_traffic_are_counted(open_desk: Callable[..., Desk]) -> None:
    """What is sent twice is one span and a duplicate, whether or not an agent is in it."""
    desk = open_desk(options=SettlementOptions(heads_first=True))
    web = Sent("w", "w.root", attributes={"http.request.method": "GET"})
    desk.send(traces(web))
    desk.send(traces(web))
    done = desk.wait(31.0)
    assert (done.spans, done.duplicates, desk.count("duplicate_spans_total")) == (1, 1, 1)


def test_behind_it_packs_less_and_keeps_the_same(
    open_over_sqlite: Callable[..., tuple[Desk, SqliteStore]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While more traces wait than are settled at once, spans are packed in less time into more bytes; what is read of them is the same."""
    spans = plain()
    put(spans[0], "note", "".join(f"{number * number} of {number}; " for number in range(500)))
    packed = []
    for at_once in (2, 1):
        monkeypatch.setattr("monitor.intake.settler.TRACES_AT_ONCE", at_once)
        desk, store = open_over_sqlite()
        desk.send(request(spans))
        desk.send(traces(Sent("w", "w.root", attributes={"http.request.method": "GET"})))
        desk.wait(31.0)
        stored = store.trace(TRACE.hex())
        assert stored is not None
        assert stored.spans is not None
        packed.append(stored.spans)
    at_leisure, behind = packed
    assert len(at_leisure) < len(behind)
    assert unpack(at_leisure) == unpack(behind)


def test_times_that_cannot_be_are_the_same_in_list_and_whole(
    open_over_sqlite: Callable[..., tuple[Desk, SqliteStore]],
) -> None:
    """A run that says it ended years after its settling ended then for lists, for who opens it, and for who judges it, read by its head or whole."""
    for heads_first in (True, False):
        desk, store = open_over_sqlite(heads_first=heads_first)
        spans = plain()
        for span in spans:
            span.start_time_unix_nano += 40 * 366 * 86400 * 10**9
            span.end_time_unix_nano += 40 * 366 * 86400 * 10**9
        desk.send(request(spans))
        desk.wait(30.0)
        opened = store.invocation(AGENT)
        (listed,) = store.list_invocations(Query()).items
        assert opened is not None
        assert opened.ended_at == opened.started_at <= desk.clock.now() * 1e9
        assert invocation_json(opened)["ended_at"] == listed["ended_at"]
        store.execute_run(run_request("quality", tick=desk.clock.now() + 60), take_all)
        (claimed,) = store.claim_evaluations(1, desk.clock.now() + 61, 60)
        assert claimed.invocation.ended_at == opened.ended_at
