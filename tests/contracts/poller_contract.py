"""What every polling collector keeps, whatever it reads: nothing is lost, nothing counts twice, a source in trouble is said and tried again."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from collectors.catalogue import parse_config
from collectors.polling.building import Surroundings
from collectors.polling.faults import SourceFault
from collectors.polling.poller import Poller
from monitor.clock import ManualClock
from tests.support.polled import CountingMeter, DyingCursors, Killed, SpanSinkByTrace
from tests.support.trace_servers import FakeServer, Reply, connected
from tests.support.trace_world import TraceWorld, expected, invocations

MANY = 10_000
DELAY = 300.0


class Bench:
    """A poller over a store, with a clock, a sink and cursors that outlive it."""

    def __init__(self, contract: PollerContract, count: int, spread: float, delay: float, **options: Any) -> None:
        self.clock = ManualClock()
        self.world = TraceWorld(self.clock, count, spread, delay)
        self.server = contract.server(self.world)
        self.sink, self.cursors, self.meter = SpanSinkByTrace(), DyingCursors(), CountingMeter()
        self._contract, self._options = contract, options
        self.poller = self.made()

    def made(self) -> Poller:
        """A poller as after a start of the process."""
        contract = self._contract
        raw = {
            "endpoint": "http://store",
            "requests_per_second": 10_000,
            "interval": "30s",
            **contract.raw,
            **self._options,
        }
        config = parse_config(contract.kind, raw)
        given = Surroundings(
            self.sink, self.meter, self.clock, self.cursors, random.Random(1).random, connected(self.server)
        )
        poller = contract.build(f"{contract.kind}/test", config, given)
        assert isinstance(poller, Poller)
        return poller

    async def turn(self) -> float:
        """One poll; the clock moves when the poller asks to wait inside it."""
        return await moving(self.clock, self.poller.turn())

    async def run(self, until: float) -> None:
        """Poll until the clock shows that time."""
        while self.clock.now() < until:
            self.clock.advance(max(await self.turn(), 0.001))

    async def restart(self) -> None:
        """The process died and is started again."""
        await self.poller.engine.close()
        self.poller = self.made()
        await self.poller.engine.open()

    def check_all(self, every: int = 1) -> None:
        """Every trace came whole, and (each, or one of so many) is reconstructed once and as the OTLP receiver gives it."""
        assert self.sink.spans.keys() == self.world.traces.keys()
        same = self._contract.comparable
        for number, (trace_id, trace) in enumerate(self.world.traces.items()):
            came = self.sink.ids[trace_id]
            assert came == {span.document["spanId"] for span in trace.spans}
            if number % every == 0:
                assert same(invocations(self.sink.spans.of(trace_id))) == same(expected(trace))


async def moving(clock: ManualClock, action: Any) -> Any:
    """Await something while sleepers of the clock are woken at once."""
    import asyncio

    task = asyncio.ensure_future(action)
    while not task.done():
        await asyncio.wait([task], timeout=0.002)
        if clock._sleepers and not task.done():
            clock.advance(max(0.0, min(at for at, _ in clock._sleepers) - clock.now()))
    return task.result()


class PollerContract:
    """Subclasses say which poller, which store, and what of an invocation the store keeps."""

    kind: str
    raw: dict[str, Any] = {}  # noqa: RUF012
    build: Callable[..., Any]
    server: type[FakeServer]
    window: bool = True

    @staticmethod
    def comparable(found: Sequence[dict[str, Any]]) -> Any:
        """What the store keeps; here all of it."""
        return found

    async def bench(self, count: int = 40, spread: float = 120.0, delay: float = DELAY, **options: Any) -> Bench:
        """A bench whose poller is open."""
        bench = Bench(self, count, spread, delay, **options)
        await bench.poller.engine.open()
        return bench

    async def test_ten_thousand_traces_out_of_order_with_a_crash_in_the_middle(self) -> None:
        """10,000 traces, shown up to five minutes late in no order, polled by a process that dies in the middle: each once, and equal."""
        slow = {"interval": "120s", **({"overlap": "12m"} if self.window else {})}
        bench = await self.bench(MANY, spread=900.0, **slow)
        await bench.run(bench.world.begin + 700)
        bench.cursors.die_at = bench.cursors.saves + 1
        with pytest.raises(Killed):
            await bench.run(bench.world.end)
        bench.cursors.die_at = None
        assert 0 < len(bench.sink.spans) < MANY
        await bench.restart()
        await bench.run(bench.world.end + 720)
        bench.check_all(every=20)
        assert bench.sink.arrivals.total() <= 3 * MANY  # a trace in two pieces, and some once more after the crash

    @pytest.mark.parametrize("after", [False, True])
    async def test_a_death_at_any_save_of_the_cursor_loses_nothing(self, after: bool) -> None:
        """Before or after the cursor is written: the next process goes on without a gap."""
        bench = await self.bench()
        bench.cursors.after = after
        while bench.clock.now() < bench.world.end + 1800:
            bench.cursors.die_at = bench.cursors.saves + 2
            try:
                await bench.run(bench.clock.now() + 60)
            except Killed:
                bench.clock.advance(7)
                await bench.restart()
        bench.check_all()

    async def test_a_death_while_handing_over_loses_nothing(self) -> None:
        """The sink is the last that was seen of the process, again and again."""
        bench = await self.bench()
        calls = iter(range(1, 10_000))

        def die() -> None:
            if next(calls) % 3 == 0:
                raise Killed

        bench.sink.before = die
        while bench.clock.now() < bench.world.end + 1800:
            try:
                await bench.run(bench.clock.now() + 60)
            except Killed:
                bench.clock.advance(5)
                await bench.restart()
        bench.check_all()

    async def test_an_overloaded_sink_is_waited_for(self) -> None:
        """What the sink did not take is offered again before the cursor moves."""
        bench = await self.bench()
        bench.sink.overloads = 5
        await bench.run(bench.world.end + 1800)
        assert bench.sink.overloads == 0
        bench.check_all()

    async def test_what_was_sent_is_not_sent_again(self) -> None:
        """Without a crash a span that did not change arrives once per change of its trace at most."""
        bench = await self.bench()
        await bench.run(bench.world.end + 3600)
        bench.check_all()
        assert max(bench.sink.arrivals.values()) <= 2

    async def test_a_failing_source_is_said_and_tried_again(self) -> None:
        """5xx, refusals and nonsense become the problem, which goes away with the trouble; nothing is lost."""
        bench = await self.bench()
        for fault in (Reply(b"", 503), Reply(b"", 401), Reply(b"<html>", 200, "text/html"), Reply(b"", 302)):
            bench.server.fault_for = lambda path, given, fault=fault: fault
            wait = await bench.turn()
            assert bench.poller.problem is not None
            assert bench.poller.problem.startswith("http://store")
            assert 0 < wait <= 300
            bench.clock.advance(wait)
        bench.server.fault_for = lambda path, given: None
        await bench.run(bench.world.end + 1800)
        assert bench.poller.problem is None
        bench.check_all()

    async def test_faults_in_between_lose_nothing(self) -> None:
        """Every seventh request fails, in the middle of pages and of traces."""
        bench = await self.bench()
        calls = iter(range(1, 1_000_000))

        def fault(path: str, given: Any) -> Reply | None:
            return Reply(b"", 500) if next(calls) % 7 == 0 else None

        bench.server.fault_for = fault
        await bench.run(bench.world.end + 1800)
        bench.check_all()

    async def test_retry_after_is_kept(self) -> None:
        """429 with Retry-After: nothing is asked before that time."""
        bench = await self.bench()
        bench.server.fault_for = lambda path, given: Reply(b"", 429, headers={"Retry-After": "120"})
        asked = bench.server.requests.total()
        wait = await bench.turn()
        assert wait >= 120
        assert bench.server.requests.total() == asked + 1
        assert "429" in (bench.poller.problem or "")

    async def test_after_a_downtime_everything_is_caught_up(self) -> None:
        """A process that was away for two hours reads what it missed."""
        bench = await self.bench(spread=3600.0)
        await bench.run(bench.world.begin + 300)
        bench.clock.advance(7200)
        await bench.restart()
        await bench.run(bench.clock.now() + 120)
        bench.check_all()

    async def test_lag_is_how_far_we_are_behind(self) -> None:
        """It grows while the source fails and is small again after."""
        bench = await self.bench()
        await bench.run(bench.world.end + 1800)
        assert bench.poller.lag_seconds < 200
        assert bench.poller.endpoints
        assert bench.sink.collectors == {f"{self.kind}/test"}

    # -- history ---------------------------------------------------------------------------------------------------------
    async def read_history(self, bench: Bench, since: float, until: float, deliver_as: str | None) -> int:
        """Read a time of the past to its end, going on after every fault as a backfill does; how many traces it said there were."""
        history = bench.poller.history
        assert history is not None
        traces = 0
        while since < until:
            try:
                stretch = await moving(bench.clock, history.read(since, until, deliver_as))
            except SourceFault:
                continue
            traces += stretch.traces
            since = stretch.until
        return traces

    async def test_history_is_read_whole_beside_polling(self) -> None:
        """A day later all traces of the time are found again, whatever fails between, under the name asked for; polling's cursor stays."""
        bench = (
            await self.bench(600, spread=6000.0, max_results=50)
            if self.window
            else await self.bench(600, spread=6000.0)
        )
        bench.clock.advance(86_400)
        calls = iter(range(1, 1_000_000))
        bench.server.fault_for = lambda path, given: Reply(b"", 500) if next(calls) % 11 == 0 else None
        since, until = bench.world.begin - 60, bench.world.end
        saved = bench.cursors.saves
        assert await self.read_history(bench, since, until, "again") == 600
        bench.check_all(every=20)
        assert bench.sink.collectors == {"again"}
        assert bench.cursors.saves == saved
        assert max(bench.sink.arrivals.values()) <= 4

    async def test_history_is_counted_without_being_fetched(self) -> None:
        """With no name to deliver under, traces are counted and nothing reaches the sink; a part of the time holds a part of them."""
        bench = await self.bench(200, spread=6000.0)
        bench.clock.advance(86_400)
        assert await self.read_history(bench, bench.world.begin - 60, bench.world.end, None) == 200
        half = bench.world.begin + 3000
        began = {
            trace.trace_id for trace in bench.world.traces.values() if any(span.start < half for span in trace.spans)
        }
        assert await self.read_history(bench, bench.world.begin - 60, half, None) == pytest.approx(len(began), abs=2)
        assert not bench.sink.spans
