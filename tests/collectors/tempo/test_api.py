"""What is peculiar to Tempo."""

from __future__ import annotations

from collectors.sink import RejectReason
from tests.collectors.tempo.test_contract import TestTempo as Tempo
from tests.contracts.poller_contract import Bench
from tests.support.trace_servers import FakeTempo, Reply


async def bench(count: int = 20, **options: object) -> tuple[Bench, FakeTempo]:
    made = await Tempo().bench(count, **options)
    assert isinstance(made.server, FakeTempo)
    return made, made.server


async def test_servers_with_the_older_trace_api_are_read_too() -> None:
    """`/api/v2` is asked for until it is known not to be there."""
    made, server = await bench()
    server.v2 = False
    await made.run(made.world.end + 1800)
    made.check_all()
    assert server.requests["/api/v2/traces"] < server.requests["/api/traces"] / 2


async def test_a_partial_trace_is_taken_when_it_is_whole() -> None:
    """Status PARTIAL is not complete: held back, asked for again, and at last taken as it is."""
    made, server = await bench(2)
    first, second = made.world.traces
    server.partial = {first, second}
    await made.run(made.world.end + 60)
    assert not made.sink.spans
    server.partial = {second}
    await made.run(made.world.end + 300)
    assert list(made.sink.spans) == [first]
    await made.run(made.world.end + 1800)
    made.check_all()


async def test_a_trace_above_the_servers_limit_is_counted_once_and_left() -> None:
    """422 is about one trace: the others go on."""
    made, server = await bench()
    heavy = next(iter(made.world.traces))
    server.fault_for = lambda path, given: Reply(b"too large", 422) if path.endswith(heavy) else None
    await made.run(made.world.end + 1800)
    assert made.sink.spans.keys() == made.world.traces.keys() - {heavy}
    assert made.meter.counts == {RejectReason.TOO_LARGE: 1}
    assert made.poller.problem is None


async def test_more_traces_at_once_than_the_server_gives_is_said() -> None:
    """Never a silent cap."""
    made, server = await bench(60, spread=0.5, delay=1.0, max_results=10)
    server.most = 20
    await made.run(made.world.end + 300)
    assert "some were not taken" in (made.poller.problem or "")
    server.most = 1000
    await made.run(made.world.end + 5000)
    assert made.poller.problem is None


async def test_a_proxy_that_answers_json_is_no_trace() -> None:
    """The trace is asked for again later, and lost neither."""
    made, server = await bench(5)
    server.fault_for = lambda path, given: Reply(b"{}", 200) if "traces" in path else None
    await made.run(made.world.end + 100)
    assert not made.sink.spans
    server.fault_for = lambda path, given: None
    await made.run(made.world.end + 1800)
    made.check_all()


async def test_a_query_that_the_server_refuses_is_the_problem() -> None:
    """400 on a search: is the query right?"""
    made, server = await bench(1)
    server.fault_for = lambda path, given: Reply(b"parse error", 400)
    await made.turn()
    assert "answered 400: does the server know TraceQL" in (made.poller.problem or "")
