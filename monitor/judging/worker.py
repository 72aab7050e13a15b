"""Working off pending evaluations: claims, judges, stores verdicts in batches, puts off what failed for a while, pauses broken judges.

Deterministic rubrics are judged at once in a thread, judged ones each in a task, as many as their judge takes. Whatever happens to the
process, an evaluation is finished, put off, released, or its lease runs out: none is lost and none counts twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from monitor.clock import Clock, SteadyClock
from monitor.judging.asking import no_room
from monitor.judging.claims import Claimed, Claims, broke, holds_a_suspect, judge_by_looking
from monitor.judging.definitions import DrawnFor
from monitor.judging.judge import Judge
from monitor.judging.limits import DailyBudget, next_day
from monitor.judging.pauses import TROUBLES, Pauses
from monitor.judging.programs import run_program
from monitor.judging.retry import delay_seconds
from monitor.judging.verdicts import verdict_of
from monitor.judging.writing import VerdictWriter
from monitor.model.run import Evaluation
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement, Usage, Verdict
from monitor.settings.privacy import NOTHING, Redaction
from monitor.store.protocol import Store, StoreUnwritable
from monitor.telemetry import Telemetry

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerTuning:
    """How the work is cut. `poll_seconds` is how often the store is looked at when nothing else wakes us."""

    poll_seconds: float = 1.0
    batch: int = 200
    deterministic_lease_seconds: float = 60.0
    lease_margin_seconds: float = 30.0
    no_judge_seconds: float = 600.0
    programs: int = 4
    programs_waiting: int = 400


class Spending(Protocol):
    """What monitors may spend. `spend` and `purse` are called on the event loop, `exhausted` from a thread."""

    def spend(self, monitor: str, usage: Usage) -> None:
        """Count what an evaluation has used."""
        ...

    def exhausted(self) -> Collection[str]:
        """Monitors whose budget is used up: their evaluations are not taken up."""
        ...

    def purse(self, monitor: str) -> DailyBudget | None:
        """Where a monitor's evaluations are reserved; None without a budget."""
        ...


class EvaluationWorkers:
    """Works off the store's pending evaluations. Used from one event loop; `start` once, `stop` once.

    `on_verdict` hears of every stored verdict and failed evaluation, on the event loop. `redaction` is what a monitor's judges are not to see by
    the configuration in force: it is replaced besides what the drawn rubric version replaces, so that a stricter policy counts at once.
    """

    def __init__(
        self,
        store: Store,
        judges: Mapping[str, Judge],
        clock: Clock,
        telemetry: Telemetry | None = None,
        *,
        on_verdict: Callable[[Verdict], None] | None = None,
        tuning: WorkerTuning | None = None,
        budgets: Spending | None = None,
        redaction: Callable[[str], Redaction] = lambda monitor: NOTHING,
    ) -> None:
        self._budgets, self._redaction = budgets, redaction
        self._store, self._judges, self._clock, self._telemetry = store, judges, clock, telemetry
        self._steady = SteadyClock(clock)  # of leases, waits and pauses
        self._tuning = tuning or WorkerTuning()
        self._claims = Claims(store)
        self._writer = VerdictWriter(store, clock, on_verdict)
        self._pauses = Pauses()
        self._unknown: set[str] = set()
        self._running: dict[asyncio.Task[None], Evaluation] = {}
        self._under_way: set[int] = set()
        self._awake = asyncio.Event()
        self._look_at = float("-inf")  # when evaluations that need no judge are next asked for
        self._loop: asyncio.Task[None] | None = None
        self._stopping = False
        self._program_slots = asyncio.Semaphore(self._tuning.programs)

    # -- life cycle --------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Begin to work."""
        self._writer.start()
        self._loop = asyncio.create_task(self._work(), name="evaluations")

    def wake(self) -> None:
        """There may be new evaluations: look now."""
        self._look_at = float("-inf")
        self._awake.set()

    def use_judges(self, judges: Mapping[str, Judge]) -> None:
        """Take over the judges of a new configuration. Evaluations under way end with the judge they began with; a judge that was
        replaced is no longer paused.
        """
        for name in set(self._judges) | set(judges):
            if judges.get(name) is not self._judges.get(name):
                self._pauses.clear(name)
                self._pauses.fine(name)
        self._judges = judges
        self._unknown.clear()
        self.wake()

    @property
    def paused(self) -> Mapping[str, str]:
        """Judges that are not asked for now, with the reason; judges that evaluations wait for and nobody has configured too."""
        missing = dict.fromkeys(self._unknown, "no judge of this name is configured")
        return {**missing, **self._pauses.reasons()}

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong with each judge: why it is paused, else why evaluation after evaluation fails."""
        return {**self._pauses.failing(), **self.paused}

    async def stop(self, deadline_seconds: float) -> None:
        """Claim nothing more, let what is under way end within the deadline, release the rest, write all results. May be called twice."""
        self._stopping = True
        self.wake()
        if self._loop is not None:
            await asyncio.gather(self._loop, return_exceptions=True)
        if self._running:
            await asyncio.wait(list(self._running), timeout=deadline_seconds)
        left = dict(self._running)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await self._release(list(left.values()))
        await self._writer.stop()

    # -- the loop ------------------------------------------------------------------------------------------------------
    async def _work(self) -> None:
        while not self._stopping:
            self._awake.clear()
            try:
                busy = await self.turn(everything=self._clock.monotonic() >= self._look_at)
            except StoreUnwritable as error:
                LOG.error("no evaluations can be claimed: %s", error)
                busy = False
            except Exception as error:
                LOG.error("claiming evaluations failed: %s", type(error).__name__, exc_info=True)
                busy = False
            if not busy and not self._stopping:
                await self._rest()

    async def _rest(self) -> None:
        """Until woken, at most a poll interval, or until a rate limit leaves room again."""
        waits = [judge.limiter.wait_seconds() for judge in self._judges.values()]
        seconds = min([self._tuning.poll_seconds, *(wait for wait in waits if wait > 0)])
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        waking = asyncio.ensure_future(self._awake.wait())
        try:
            await asyncio.wait((sleeping, waking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
            await asyncio.gather(sleeping, waking, return_exceptions=True)

    async def turn(self, *, everything: bool = True) -> bool:
        """Look once: judge a batch by deterministic rubrics, and start what judges have room for. Whether there was anything.

        Without `everything` only judges are looked at: each end of an evaluation makes room for one, and no more of the others.
        """
        busy = False
        if everything:
            self._look_at = self._clock.monotonic() + self._tuning.poll_seconds
            busy = await self._deterministic()
            self._look_at = float("-inf") if busy else self._look_at  # somebody may have called wake() meanwhile
        for name in list(self._judges):
            busy = await self._start_for(name) or busy
        return busy

    async def settled(self) -> None:
        """Wait until everything that was started has ended and is stored."""
        while self._running:
            await asyncio.wait(list(self._running))
        await self._writer.flush()

    async def _claim(self, limit: int, lease_seconds: float, judge: str | None) -> Sequence[Claimed]:
        """Evaluations of one judge, and of none."""
        paused = {*self._judges, *self._unknown, *self._pauses.reasons()} - {judge}
        now = self._steady.now()

        def claim() -> Sequence[Claimed]:
            spent = self._budgets.exhausted() if self._budgets else ()
            return self._claims.take(limit, now, lease_seconds, paused, spent)

        return await asyncio.to_thread(claim)

    # -- deterministic rubrics -----------------------------------------------------------------------------------------
    async def _deterministic(self) -> bool:
        claimed = await self._claim(self._tuning.batch, self._tuning.deterministic_lease_seconds, None)
        full = len(self._running) >= self._tuning.programs_waiting
        await self._take(claimed)
        return (len(claimed) == self._tuning.batch or holds_a_suspect(claimed)) and not full

    async def _take(self, claimed: Sequence[Claimed]) -> None:
        """What only looks is judged in a thread; programs and judged ones are started, or given back."""
        at_once = [item for item in claimed if item.needs_no_judge and not item.is_program]
        if at_once:
            self._writer.add(await asyncio.to_thread(judge_by_looking, at_once, self._clock.now()))
        for item in claimed:
            if item.is_program:
                await self._start_program(item)
            elif not item.needs_no_judge:
                await self._start(item)

    # -- programs --------------------------------------------------------------------------------------------------------
    async def _start_program(self, item: Claimed) -> None:
        """Many may wait for a slot here, their claims held; what is too many goes back."""
        if len(self._running) >= self._tuning.programs_waiting:
            await self._release([item.evaluation])
        elif item.evaluation.id not in self._under_way:  # else its lease ran out meanwhile
            self._run(self._evaluate_program(item), item.evaluation)

    async def _evaluate_program(self, item: Claimed) -> None:
        drawn_for = item.drawn_for
        assert isinstance(drawn_for, DrawnFor)
        async with self._program_slots:
            try:
                judgement = await run_program(drawn_for.rubric, item.evaluation.invocation)
            except Exception as error:
                judgement = broke(drawn_for, error)
        self._writer.add([(item.evaluation, verdict_of(item.evaluation, judgement, self._clock.now()))])

    # -- judged rubrics --------------------------------------------------------------------------------------------------
    async def _start_for(self, name: str) -> bool:
        judge = self._judges.get(name)
        free = self._room(name, judge) if judge is not None else 0
        if judge is None or free == 0:
            return False
        lease = judge.deadline_seconds + self._tuning.lease_margin_seconds
        claimed = await self._claim(free, lease, name)
        await self._take(claimed)
        return len(claimed) == free or holds_a_suspect(claimed)

    def _room(self, name: str, judge: Judge) -> int:
        """How many evaluations the judge can take now: some more than its slots, so that none is empty while we claim the next."""
        now = self._steady.now()
        spent = judge.out_of_budget()
        if spent is not None:
            wall = self._clock.now()
            self._pauses.hold(name, f"{spent} is used up until the next day (UTC)", now + next_day(wall) - wall)
        if self._stopping or self._pauses.is_paused(name, now) or judge.limiter.wait_seconds() > 0:
            return 0
        if not self._pauses.on_trial(name):
            self._pauses.clear(name)
        under_way = sum(evaluation.rubric.judge == name for evaluation in self._running.values())
        if self._pauses.on_trial(name):
            return 1 - min(1, under_way)
        slots = judge.settings.max_concurrency
        free = slots + slots // 2 - under_way
        return free if free >= max(1, slots // 4) else 0

    async def _start(self, item: Claimed) -> None:
        name = item.evaluation.rubric.judge
        judge = self._judges.get(name) if name else None
        if judge is None:
            await self._without_judge(item.evaluation)
            return
        if item.evaluation.id not in self._under_way:
            self._run(self._evaluate(item, judge), item.evaluation)

    def _run(self, work: Coroutine[Any, Any, None], evaluation: Evaluation) -> None:
        task = asyncio.create_task(work)
        self._running[task] = evaluation
        self._under_way.add(evaluation.id)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        ended = self._running.pop(task, None)
        if ended is not None:
            self._under_way.discard(ended.id)
            if ended.rubric.judge is None:  # a program: others may wait for its place
                self._look_at = float("-inf")
        if not self._running:
            self._writer.hurry()
        self._awake.set()
        if not task.cancelled() and task.exception() is not None:
            LOG.error("an evaluation broke off: %s", type(task.exception()).__name__, exc_info=task.exception())

    async def _without_judge(self, evaluation: Evaluation) -> None:
        """Nothing is sent without a configured judge: it waits."""
        name = evaluation.rubric.judge
        if name is not None:
            if name not in self._unknown:
                LOG.warning("evaluations wait for a judge that is not configured", extra={"judge": name})
            self._unknown.add(name)
            await self._release([evaluation])
        else:
            await asyncio.to_thread(
                self._store.postpone_evaluation, evaluation, self._steady.now() + self._tuning.no_judge_seconds
            )

    async def _evaluate(self, item: Claimed, judge: Judge) -> None:
        drawn_for = item.drawn_for
        assert isinstance(drawn_for, DrawnFor)
        monitor = item.evaluation.monitor
        redaction = drawn_for.redaction.joined(self._redaction(monitor))
        purse = self._budgets.purse(monitor) if self._budgets else None
        try:
            judgement = await judge.evaluate(
                drawn_for.rubric,
                item.evaluation.invocation,
                drawn_for.parameters,
                redaction,
                purse,
                self._tuning.lease_margin_seconds / 3,  # two budgets: the claim's lease is to outlive all of it
            )
        except Exception as error:
            judgement = broke(drawn_for, error)
        await self._settle(item.evaluation, judgement, judge)

    async def _settle(self, evaluation: Evaluation, judgement: Judgement, judge: Judge) -> None:
        """Store the result, or put the evaluation off, or give it back."""
        failure, now = judgement.failure, self._steady.now()
        if self._budgets is not None:
            self._budgets.spend(evaluation.monitor, judgement.usage)
        if _was_not_asked(judgement) and failure is not None and failure.message != judge.stopped:
            await self._release([evaluation])  # which says nothing of how the judge is
            return
        if failure is not None and failure.temporary and failure.type in TROUBLES:
            if failure.message != no_room(judge.name):  # of our own limit: it was not asked
                self._trouble(judge, failure, now)
        elif judge.stopped is None:
            self._works(judge)
        if failure is None:
            pass
        elif failure.message == judge.stopped:
            if not self._stop_judge(judge, failure, now):
                await self._release([evaluation])
                return
        elif failure.temporary and evaluation.attempts + 1 < judge.settings.max_attempts:
            until = now + delay_seconds(evaluation.attempts + 1, failure.retry_after_seconds)
            await asyncio.to_thread(self._store.postpone_evaluation, evaluation, until)
            return
        self._writer.add([(evaluation, verdict_of(evaluation, judgement, self._clock.now()))])

    def _trouble(self, judge: Judge, failure: EvaluationFailure, now: float) -> None:
        """Count a failure of transport or server of a judge still in use: show it as failing after some in a row, pause it after many."""
        if self._judges.get(judge.name) is not judge:
            return
        if self._pauses.trouble(judge.name, failure, now):
            self._stop_judge(judge, failure, now)
        if self._pauses.begins_to_fail(judge.name, now) and not self._pauses.on_trial(judge.name):
            extra = {"judge": judge.name, "reason": failure.type.value}
            LOG.warning("every evaluation fails: %s", failure.message, extra=extra)
        self._show_up(judge)

    def _works(self, judge: Judge) -> None:
        if self._judges.get(judge.name) is judge and self._pauses.fails(judge.name):
            self._pauses.clear(judge.name)
            LOG.info("the judge works again", extra={"judge": judge.name})
        self._pauses.fine(judge.name)
        self._show_up(judge)

    def _stop_judge(self, judge: Judge, failure: EvaluationFailure, now: float) -> bool:
        """Pause the judge; False when it is paused already. What met the fault first is stored as failed, the others wait."""
        found = self._judges.get(judge.name) is judge and self._pauses.stop(judge.name, failure.message, now)
        if found:
            extra = {"judge": judge.name, "reason": failure.type.value}
            LOG.error("the judge is paused: %s", failure.message, extra=extra)
        self._show_up(judge)
        return found

    def _show_up(self, judge: Judge) -> None:
        if self._telemetry and self._judges.get(judge.name) is judge:
            self._telemetry.judge_up.labels(judge.name).set(not self._pauses.fails(judge.name))

    async def _release(self, evaluations: Sequence[Evaluation]) -> None:
        if evaluations:
            try:
                await asyncio.to_thread(self._store.release_evaluations, evaluations)
            except StoreUnwritable as error:
                LOG.error("claims were not released, their leases will run out: %s", error)


def _was_not_asked(judgement: Judgement) -> bool:
    """Whether a budget had no room for the evaluation."""
    failure = judgement.failure
    limited = failure is not None and failure.type is ErrorType.RATE_LIMITED and not failure.temporary
    return limited and judgement.usage.requests == 0
