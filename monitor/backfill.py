"""Backfills at work: history is drawn a little at a time, and judged behind everything that is live.

A backfill has a budget of its own. It never takes the last half of a judge's day from what is live, and leaves no more pending than one step.
All it needs to go on after a restart is kept in the store.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from monitor.clock import Clock
from monitor.estimation.intervals import wilson_interval
from monitor.history import Rereading
from monitor.judging.judge import Judge
from monitor.model.backfill import Backfill, BackfillAsked, BackfillStatus, Position, shown
from monitor.model.origin import waits_as
from monitor.model.run import Candidate, Level, RunPlan, RunRequest
from monitor.sampling import SamplingRule, draw, looks_at_tools, sampling_rule
from monitor.scheduling.runner import ScheduledMonitor
from monitor.store.protocol import Store

LOG = logging.getLogger(__name__)

STEP_SECONDS = 1.0
LOOKED_AT_ONCE = 500
KEPT_FOR_LIVE = 0.5
"""Share of a judge's daily budget that backfills leave alone."""
REMEMBERED = 100
_KEY = "backfills"
_ALL_ROWS = (0, 2**62)
_USUAL_RATE = 0.9


class BackfillRefused(ValueError):
    """A backfill that cannot be; the message says what would be right."""


class Backfills:
    """All backfills of the store, worked off one after the other. `start` and `stop` once each, on the event loop; the rest blocks."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        monitors: Callable[[], Mapping[str, ScheduledMonitor]],
        judges: Callable[[], Mapping[str, Judge]],
        rereading: Rereading | None = None,
    ) -> None:
        self._store, self._clock, self._monitors, self._judges = store, clock, monitors, judges
        self._rereading = rereading or Rereading(dict, lambda _: 0)
        self._kept = threading.Lock()
        self._task: asyncio.Task[None] | None = None

    # -- asking ------------------------------------------------------------------------------------------------------
    def preview(self, asked: BackfillAsked) -> dict[str, Any]:
        """How many invocations and evaluations a backfill would make, what they would cost, and how wide the interval of the pass rate
        would be. `level` says what is counted. With `errors` nothing is drawn: what matches are the failed evaluations. Raises BackfillRefused.
        """
        monitor = self._monitor(asked)
        counted = self._count(asked, monitor)
        evaluations = counted["evaluations"]
        tokens, usd = self._cost(monitor, evaluations)
        low, high = wilson_interval(_USUAL_RATE, float(counted["drawn"]))
        return {
            **counted,
            "level": str(monitor.settings.level),
            "errors": asked.errors,
            "tokens": tokens,
            "usd": usd,
            "interval_width": round(high - low, 4) if counted["drawn"] else None,
            "interval_at": _USUAL_RATE,
        }

    def answer(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Begin a backfill, or with `dry_run` preview it, by the parameters of the API. Raises BackfillRefused."""
        given = {"until": self._clock.now(), **values}
        dry_run = given.pop("dry_run", False)
        asked = BackfillAsked(**given)
        if dry_run and asked.collector is None:
            return self.preview(asked)
        return shown(self.begin(asked, dry_run=dry_run))

    def begin(self, asked: BackfillAsked, *, dry_run: bool = False) -> Backfill:
        """Take a backfill up; `dry_run`, for polled history only, ends when the source was searched. Raises BackfillRefused."""
        monitor = self._monitor(asked)
        begun = Backfill(
            id="",
            number=0,
            monitor=asked.monitor,
            since=asked.since,
            until=asked.until,
            created_at=self._clock.now(),
            rate=_rule(monitor).rate,
            errors=asked.errors,
            max_tokens=asked.max_tokens,
            max_usd=asked.max_usd,
            collector=asked.collector,
            dry_run=dry_run,
            limit=asked.limit,
        )
        if asked.collector is None:
            begun = self._counted(begun, monitor)
        else:
            begun = replace(begun, read_until=self._rereading.begins_at(asked.collector, asked.since))
        with self._kept:
            known = self._load()
            number = max((one.number for one in known), default=0) + 1
            begun = replace(begun, id=f"backfill-{number}", number=number)
            self._save([*_remembered(known), begun])
        return begun

    def cancel(self, identifier: str) -> dict[str, Any] | None:
        """End a running backfill: nothing more is read or drawn, what was drawn is still judged. None for one that is not known; one that
        has ended stays as it is.
        """
        with self._kept:
            known = self._load()
            one = next((one for one in known if one.id == identifier), None)
            if one is None or one.status is not BackfillStatus.RUNNING:
                return None if one is None else shown(one)
            ended = replace(one, status=BackfillStatus.CANCELLED, message="")
            if one.collector is not None:
                self._store.release_waiting(waits_as(one.id))
            self._save([ended if one.id == identifier else one for one in known])
        return shown(ended)

    def _counted(self, one: Backfill, monitor: ScheduledMonitor) -> Backfill:
        """With the rate that its limit asks for, fixed before anything is drawn, and what is to be expected."""
        asked = BackfillAsked(one.monitor, one.since, one.until, one.errors, one.limit)
        counted = self._count(asked, monitor)
        rate = _limited(_rule(monitor).rate, counted["matched"], one.limit)
        return replace(one, rate=rate, expected=counted["evaluations"])

    def all(self) -> list[dict[str, Any]]:
        """All that are remembered, newest first, for people."""
        return [shown(one) for one in reversed(self._load())]

    def _monitor(self, asked: BackfillAsked) -> ScheduledMonitor:
        monitor = self._monitors().get(asked.monitor)
        if monitor is None:
            raise BackfillRefused(
                f"no monitor is called {asked.monitor!r}; they are {', '.join(sorted(self._monitors()))}"
            )
        if not monitor.rubrics:
            raise BackfillRefused(f"monitor {asked.monitor}: its rubrics wait for a judge: configure `judges`")
        if asked.until <= asked.since:
            raise BackfillRefused("`until` is not later than `since`")
        if asked.errors and asked.limit is not None:
            raise BackfillRefused("`errors` judges all that failed again: it goes without `limit`")
        if asked.collector is not None:
            self._check_collector(asked)
            if monitor.settings.level == "conversation":
                reason = "conversations that are stored complete can be scored; what a source is read for again is single invocations"
                raise BackfillRefused(f"monitor {asked.monitor} is about conversations: {reason}")
        return monitor

    def _check_collector(self, asked: BackfillAsked) -> None:
        if asked.errors:
            raise BackfillRefused("`errors` judges again what is stored: it goes without `collector`")
        known = self._rereading.collectors
        if asked.collector not in known:
            there = f"those that can are {', '.join(known)}" if known else "none that is configured can"
            raise BackfillRefused(f"collector {asked.collector!r} cannot be read again: {there}")

    def _count(self, asked: BackfillAsked, monitor: ScheduledMonitor) -> dict[str, Any]:
        span = (asked.since, asked.until)
        request = self._request(asked.monitor, monitor, 0.0)
        if asked.errors:
            count = self._store.backfill_errors(request, span, count_only=True)
            return {"looked_at": count, "matched": count, "drawn": 0, "evaluations": count, "without_content": 0}
        totals = {"looked_at": 0, "matched": 0, "drawn": 0, "evaluations": 0, "without_content": 0}
        rule = _rule(monitor)
        position: Position | None = None
        while True:
            page = self._store.backfill_look(request, span, position, LOOKED_AT_ONCE, _decide(rule))
            totals["looked_at"] += page.looked_at
            totals["matched"] += page.fresh
            totals["drawn"] += page.drawn
            totals["evaluations"] += page.evaluations
            totals["without_content"] += page.without_content
            position = page.position
            if position is None:
                break
        share = _limited(rule.rate, totals["matched"], asked.limit) / rule.rate
        return {**totals, "drawn": round(totals["drawn"] * share), "evaluations": round(totals["evaluations"] * share)}

    def _cost(self, monitor: ScheduledMonitor, evaluations: int) -> tuple[int | None, float | None]:
        """Tokens and USD by what the rubrics' verdicts consumed lately; None where nothing is known."""
        each = evaluations / len(monitor.rubrics)
        tokens, usd = 0.0, 0.0
        tokens_known = usd_known = True
        for rubric in monitor.rubrics:
            if rubric.judge is None:
                continue
            mean = self._store.mean_use(rubric.version)
            tokens_known = tokens_known and mean is not None
            usd_known = usd_known and mean is not None and mean[1] is not None
            if mean is not None:
                tokens += mean[0] * each
                usd += (mean[1] or 0.0) * each
        return (math.ceil(tokens) if tokens_known else None), (round(usd, 4) if usd_known else None)

    # -- working -----------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Begin to work off what is there."""
        self._task = asyncio.create_task(self._run(), name="backfills")

    async def stop(self) -> None:
        """End; a step under way ends first. May be called twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        said = ""
        while True:
            try:
                await self.read_on()
                await asyncio.to_thread(self.step)
                said = ""
            except Exception as error:
                if type(error).__name__ != said:
                    LOG.error("backfills: a step failed: %s", type(error).__name__, exc_info=True)
                said = type(error).__name__
            await self._clock.sleep(STEP_SECONDS)

    async def read_on(self) -> None:
        """Read the source of the oldest running backfill for a while, if it reads one."""
        until = self._clock.now() + STEP_SECONDS
        while True:
            one = await asyncio.to_thread(self._running)
            if one is None:
                return
            changed = await self._rereading.advance(one, self._clock.now())
            if changed == one:
                return
            await asyncio.to_thread(self._go_on, changed)
            if changed.read_until == one.read_until or self._clock.now() >= until:
                return

    def step(self) -> bool:
        """Take the oldest running backfill one step further; whether there was one."""
        one = self._running()
        if one is None:
            return False
        changed = self._advanced(one)
        if changed != one:
            self._go_on(changed)
        return True

    def _go_on(self, changed: Backfill) -> None:
        """Keep where it is. What waits for one that has ended is let go first, or a crash in between would leave it waiting for ever."""
        if changed.status is not BackfillStatus.RUNNING and changed.collector is not None:
            self._store.release_waiting(waits_as(changed.id))
        self._keep(changed)

    def _running(self) -> Backfill | None:
        return next((one for one in self._load() if one.status is BackfillStatus.RUNNING), None)

    def _keep(self, changed: Backfill) -> None:
        """Save one that was running; others may have begun meanwhile, and it may have been cancelled."""
        with self._kept:
            running = BackfillStatus.RUNNING
            self._save([changed if one.id == changed.id and one.status is running else one for one in self._load()])

    def _advanced(self, one: Backfill) -> Backfill:
        if one.collector is not None and one.estimate is None:
            return self._prepared(one) if one.is_read else one
        if one.batch is not None:
            use = self._store.backfill_use(one.monitor, one.tick, one.batch)
            if use.pending:
                return one
            one = one.used(use)
        if one.ended:
            return replace(one, status=BackfillStatus.DONE, message="")
        spent = _spent(one)
        if spent is not None:
            return replace(
                one, status=BackfillStatus.OVER_BUDGET, message=f"{spent} is used up; what is left was not drawn"
            )
        monitor = self._monitors().get(one.monitor)
        if monitor is None or not monitor.rubrics:
            return _without_monitor(one)
        waits = self._waits_for(monitor)
        if waits is not None:
            return replace(one, message=waits)
        return self._next(replace(one, message=""), monitor)

    def _prepared(self, one: Backfill) -> Backfill:
        """A backfill whose source has been read: what is to be expected of it."""
        monitor = self._monitors().get(one.monitor)
        if monitor is None or not monitor.rubrics:
            return _without_monitor(one)
        if one.dry_run:
            return replace(self._estimated(one, monitor), status=BackfillStatus.DONE)
        counted = self._counted(one, monitor)
        return replace(counted, estimate={"matched": counted.expected})

    def _estimated(self, one: Backfill, monitor: ScheduledMonitor) -> Backfill:
        """What judging the traces that were found would come to, if all of them match."""
        drawn = round(one.traces * _limited(one.rate, one.traces, one.limit))
        evaluations = drawn * len(monitor.rubrics)
        tokens, usd = self._cost(monitor, evaluations)
        low, high = wilson_interval(_USUAL_RATE, float(drawn))
        width = round(high - low, 4) if drawn else None
        estimate = {"drawn": drawn, "evaluations": evaluations, "tokens": tokens, "usd": usd, "interval_width": width}
        return replace(one, expected=evaluations, estimate={**estimate, "interval_at": _USUAL_RATE})

    def _next(self, one: Backfill, monitor: ScheduledMonitor) -> Backfill:
        request = self._request(one.monitor, monitor, one.tick)
        span = (one.since, one.until)
        if one.errors:
            count = self._store.backfill_errors(request, span)
            return replace(one, looked_at=count, drawn=count, evaluations=count, ended=True, batch=_ALL_ROWS)
        rule = replace(_rule(monitor), rate=one.rate)
        page = self._store.backfill_step(request, span, one.position, _page(monitor), _decide(rule))
        return one.plus(page)

    def _waits_for(self, monitor: ScheduledMonitor) -> str | None:
        """Why nothing is drawn now: what is left of a judge's day is for what is live."""
        now = self._clock.now()
        judges = self._judges()
        for name in {rubric.judge for rubric in monitor.rubrics if rubric.judge is not None}:
            judge = judges.get(name)
            left = judge.budget.remaining_ratio(now) if judge is not None else None
            if left is not None and left < KEPT_FOR_LIVE:
                return (
                    f"waits: {left:.0%} of judge {name}'s day is left, and {KEPT_FOR_LIVE:.0%} is kept for what is live"
                )
        return None

    def _request(self, name: str, monitor: ScheduledMonitor, tick: float) -> RunRequest:
        return RunRequest(
            name,
            tick,
            math.inf,
            monitor.rubrics,
            started_at=self._clock.now(),
            level=Level(monitor.settings.level),
            by_tools=looks_at_tools(monitor.settings),
        )

    # -- kept in the store ---------------------------------------------------------------------------------------------
    def _load(self) -> list[Backfill]:
        return [Backfill.from_json(saved) for saved in self._store.state(_KEY) or ()]

    def _save(self, known: Sequence[Backfill]) -> None:
        self._store.set_state(_KEY, [one.as_json() for one in known])


def _remembered(known: Sequence[Backfill]) -> list[Backfill]:
    """The newest, and whatever still runs."""
    old = [one for one in known[: -REMEMBERED + 1] if one.status is BackfillStatus.RUNNING]
    return [*old, *known[-REMEMBERED + 1 :]]


def _without_monitor(one: Backfill) -> Backfill:
    return replace(one, status=BackfillStatus.FAILED, message="the monitor is not configured any more")


def _rule(monitor: ScheduledMonitor) -> SamplingRule:
    """The monitor's own draw without its cap, which is for what is live."""
    return replace(sampling_rule(monitor.settings, needs_judge=monitor.needs_judge), max_per_hour=None)


def _decide(rule: SamplingRule) -> Callable[[Sequence[Candidate]], RunPlan]:
    return lambda candidates: draw(candidates, rule)


def _limited(rate: float, matched: int, limit: int | None) -> float:
    """The rate that draws about `limit` of those that match: fixed beforehand, so that each probability is known."""
    return rate if limit is None or matched == 0 else min(rate, limit / matched)


def _page(monitor: ScheduledMonitor) -> int:
    """Fewer at once where a judge is asked: what is pending is spent even when the budget ends."""
    return 50 if monitor.needs_judge else LOOKED_AT_ONCE


def _spent(one: Backfill) -> str | None:
    if one.max_tokens is not None and one.tokens >= one.max_tokens:
        return "max_tokens"
    if one.max_usd is not None and one.usd >= one.max_usd:
        return "max_usd"
    return None
