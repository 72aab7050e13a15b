"""What monitors may spend in a day (UTC): counted, kept over restarts, and turned into how many a run may draw.

A budget that runs short lowers the sampling probability of the runs that follow (`monitor.judging.affording`). One that is used up all the
same ends the runs that are under way: what nobody has begun is `over_budget`, and the run's probabilities are those of the smaller draw.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from monitor.clock import Clock
from monitor.configuration import Configuration
from monitor.judging.affording import Purse, affordable, pace
from monitor.judging.judge import Judge
from monitor.judging.limits import DailyBudget, DailyUse, utc_day
from monitor.model.run import RubricRef
from monitor.model.verdict import Usage
from monitor.sampling import recompute_over_budget
from monitor.settings.tree import Budget, Limits, Prices
from monitor.store.protocol import Store, StoreUnwritable
from monitor.telemetry import Telemetry

LOG = logging.getLogger(__name__)

KEEP_SECONDS = 2.0
USUAL_TOKENS = (2700, 300)
"""Input and output of one evaluation, until the store knows better."""
USUAL_TURNS = 4
"""Turns of a conversation, until then: all of them are in what the judge reads."""
_COSTS_KEPT_SECONDS = 60.0


@dataclass(slots=True)
class _Account:
    """A monitor's budget with what was spent, and draws of its pace that earlier runs left."""

    limits: Budget
    budget: DailyBudget
    saved: float = 0.0
    ended: tuple[str, Collection[str] | None] = ("", ())
    """The day whose runs were ended early, and for which judges (None: for all)."""


@dataclass(slots=True)
class Budgets:
    """The budgets of all monitors. `spend` is called on the event loop, `allow` and `drawn` from the threads that run ticks."""

    store: Store
    clock: Clock
    telemetry: Telemetry
    configuration: Callable[[], Configuration]
    judges: Callable[[], Mapping[str, Judge]]
    _accounts: dict[str, _Account] = field(default_factory=dict)
    _costs: dict[str, tuple[float, float, float | None]] = field(default_factory=dict)
    _task: asyncio.Task[None] | None = None

    # -- spending ----------------------------------------------------------------------------------------------------
    def spend(self, monitor: str, usage: Usage) -> None:
        """Count what an evaluation has used, failed ones too."""
        account = self._account(monitor)
        if account is not None:
            account.budget.spend(self.clock.now(), usage.input_tokens + usage.output_tokens, usage.cost_usd)

    def exhausted(self) -> Collection[str]:
        """Monitors whose budget for today is used up: their evaluations are not taken up."""
        now = self.clock.now()
        return {name for name in self._names() if (account := self._account(name)) and account.budget.exhausted(now)}

    def purse(self, monitor: str) -> DailyBudget | None:
        """Where a monitor's evaluations are reserved; None without a budget."""
        account = self._account(monitor)
        return None if account is None else account.budget

    def remaining_ratio(self, monitor: str) -> float | None:
        """The share that is left of a monitor's scarcer limit; None without a limit."""
        account = self._account(monitor)
        return None if account is None else account.budget.remaining_ratio(self.clock.now())

    def _names(self) -> Collection[str]:
        return self.configuration().settings.monitors

    def _account(self, monitor: str) -> _Account | None:
        """None for a monitor without a budget, or one that is gone. A changed limit keeps what was spent."""
        settings = self.configuration().settings.monitors.get(monitor)
        if settings is None or settings.budget == Budget():
            return None
        account = self._accounts.get(monitor)
        if account is None or account.limits != settings.budget:
            use = (
                account.budget.use(self.clock.now()) if account else DailyUse.from_json(self.store.state(_key(monitor)))
            )
            limits = Limits(tokens_per_day=settings.budget.tokens_per_day, usd_per_day=settings.budget.usd_per_day)
            account = _Account(settings.budget, DailyBudget(limits, use))
            self._accounts[monitor] = account
        return account

    # -- drawing -----------------------------------------------------------------------------------------------------
    def allow(self, monitor: str, rubrics: Sequence[RubricRef], hours: float) -> int | None:
        """The most invocations that a run may draw, `hours` after the previous one; None where no budget says. Blocks on the store."""
        now = self.clock.now()
        purses = self._purses(monitor, [ref for ref in rubrics if ref.judge is not None], now)
        account = self._accounts.setdefault(monitor, _Account(Budget(), DailyBudget(Limits()))) if purses else None
        if account is None:
            return None
        an_hour = pace(purses, now)
        account.saved = min(account.saved + an_hour * max(0.0, hours), max(1.0, an_hour))
        allowed = affordable(purses, now, account.saved)
        untouched = all(purse.left == purse.limit for purse in purses)
        return max(1, allowed or 0) if untouched else allowed  # one, to learn what an evaluation costs

    def drawn(self, monitor: str, count: int) -> None:
        """A run has drawn so many."""
        account = self._accounts.get(monitor)
        if account is not None:
            account.saved = max(0.0, account.saved - count)

    def _purses(self, monitor: str, judged: Sequence[RubricRef], now: float) -> list[Purse]:
        """The limits that the monitor's draws count against: its own, and those of the judges it asks."""
        if not judged:
            return []
        waiting = {count.monitor: count.count for count in self.store.pending(now)}
        settings = self.configuration().settings.monitors.get(monitor)
        turns = USUAL_TURNS if settings is not None and settings.level == "conversation" else 1
        costs = {ref: self._cost(ref, turns) for ref in judged}
        found = list(self._own(monitor, costs, waiting.get(monitor, 0), now))
        for name in sorted({ref.judge for ref in judged if ref.judge is not None}):
            judge = self.judges().get(name)
            if judge is not None:
                sharers = [
                    one for one in self._names() if any(ref.judge == name for ref in self.configuration().refs(one))
                ]
                pending = sum(waiting.get(one, 0) for one in sharers)
                mine = {ref: cost for ref, cost in costs.items() if ref.judge == name}
                found += _purses(judge.settings.limits, judge.budget.use(now), mine, pending, max(1, len(sharers)))
        return found

    def _own(
        self, monitor: str, costs: Mapping[RubricRef, tuple[float, float | None]], pending: int, now: float
    ) -> Sequence[Purse]:
        account = self._account(monitor)
        return [] if account is None else _purses(account.limits, account.budget.use(now), costs, pending, 1)

    def _cost(self, ref: RubricRef, turns: int) -> tuple[float, float | None]:
        """Tokens and USD of one evaluation of a rubric, on average; until there are verdicts a usual figure for so many turns."""
        now = self.clock.now()
        kept = self._costs.get(ref.version)
        if kept is None or kept[0] + _COSTS_KEPT_SECONDS < now:
            judge = self.judges().get(ref.judge or "")
            usd = _usd(judge.settings.prices if judge else None)
            usual = (float(turns * sum(USUAL_TOKENS)), None if usd is None else turns * usd)
            tokens, usd = self.store.mean_use(ref.version) or usual
            kept = (now, max(1.0, tokens), usual[1] if usd is None else usd)
            self._costs[ref.version] = kept
        return kept[1], kept[2]

    # -- upkeep ------------------------------------------------------------------------------------------------------
    def start(self) -> None:
        """Begin to keep what is spent, and to end runs of budgets that are used up."""
        self._task = asyncio.create_task(self._keep(), name="budgets")

    async def stop(self) -> None:
        """Keep what was spent, and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self.save)

    async def _keep(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self.look)
            except StoreUnwritable as error:
                LOG.error("budgets cannot be kept: %s", error)
            except Exception as error:
                LOG.error("budgets cannot be kept: %s", type(error).__name__, exc_info=True)
            await self.clock.sleep(KEEP_SECONDS)

    def look(self) -> None:
        """Once: figures, what is spent, and runs to be ended. Blocks on the store."""
        for name in self._names():
            left = self.remaining_ratio(name)
            if left is not None:
                self.telemetry.monitor_budget_remaining.labels(name).set(left)
        self.save()
        for name, judges in self._spent_out():
            self._end_runs(name, judges)

    def save(self) -> None:
        """Keep what each monitor has spent today. Blocks on the store."""
        now = self.clock.now()
        for name in self._names():
            account = self._account(name)
            if account is not None:
                self.store.set_state(_key(name), account.budget.use(now).as_json())

    def _spent_out(self) -> Iterator[tuple[str, Collection[str] | None]]:
        """Monitors whose budget is used up, with the judges whose rubrics that ends: None, all of them, where it is the monitor's own."""
        now, own = self.clock.now(), self.exhausted()
        spent = {name for name, judge in self.judges().items() if judge.budget.exhausted(now)}
        for name in self._names():
            asked = {ref.judge for ref in self.configuration().refs(name) if ref.judge is not None}
            if asked and name in own:
                yield name, None
            elif asked & spent:
                yield name, sorted(asked & spent)

    def _end_runs(self, monitor: str, judges: Collection[str] | None) -> None:
        """Give up what nobody has begun of the monitor's runs by the judges' rubrics, once for each day."""
        now = self.clock.now()
        account = self._accounts.setdefault(monitor, _Account(Budget(), DailyBudget(Limits())))
        ended = (utc_day(now), judges)
        if account.ended == ended:
            return
        given_up = sum(
            self.store.cut_run(monitor, tick, recompute_over_budget, now, judges)
            for tick in self.store.pending_ticks(monitor)
        )
        account.ended = ended
        LOG.warning(
            "a budget is used up until the next day (UTC): runs were ended early",
            extra={"monitor": monitor, "over_budget": given_up},
        )


def _key(monitor: str) -> str:
    return f"monitor_use:{monitor}"


def _usd(prices: Prices | None) -> float | None:
    if prices is None:
        return None
    return (USUAL_TOKENS[0] * prices.input_per_million + USUAL_TOKENS[1] * prices.output_per_million) / 1_000_000


def _purses(
    limits: Budget | Limits,
    use: DailyUse,
    costs: Mapping[RubricRef, tuple[float, float | None]],
    pending: int,
    sharers: int,
) -> list[Purse]:
    """A purse for each daily limit; what waits is reckoned as spent."""
    found = []
    tokens = sum(cost[0] for cost in costs.values())
    each = tokens / max(1, len(costs))
    if limits.tokens_per_day is not None:
        found.append(Purse(limits.tokens_per_day, limits.tokens_per_day - use.tokens - pending * each, tokens, sharers))
    usd = sum(cost[1] or 0.0 for cost in costs.values())
    if limits.usd_per_day is not None and usd > 0:
        left = limits.usd_per_day - use.usd - pending * usd / max(1, len(costs))
        found.append(Purse(limits.usd_per_day, left, usd, sharers))
    return found
