"""Budgets of monitors on a real store, through a day of runs: never overspent, never silent, rates unbiased."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from monitor.budgets import Budgets
from monitor.clock import ManualClock
from monitor.configuration import Configuration, configure
from monitor.judging.client import JudgeReply
from monitor.judging.clients.scripted import ScriptedClient
from monitor.judging.judge import Judge
from monitor.judging.worker import EvaluationWorkers
from monitor.model.run import Query
from monitor.model.verdict import NotSelected, Usage
from monitor.sampling import SamplingRule, draw
from monitor.scheduling.runner import Runner
from monitor.settings.document import ConfigurationError
from monitor.settings.load import load_settings
from monitor.store.sqlite import SqliteStore
from monitor.telemetry import Telemetry
from tests.contracts.store_material import invocation, settlement
from tests.judging.test_judge import said
from tests.sampling.population import population

MIDNIGHT = 1_790_035_200.0  # 2026-09-22T00:00:00Z
HOUR = 3600.0
CONFIGURATION = """
judges: {{default: {{model: m, base_url: "http://judge/v1", limits: {{{limits}}}, prices: {{input_per_million: 1.0, output_per_million: 1.0}}}}}}
rubrics: [{{name: short, statement: "The answer is short."}}, {{name: fine, kind: check, expect: {{no_error: true}}}}]
monitors:
  m:
    rubrics: [{rubrics}]
    sample: {{rate: {rate}, max_per_hour: 1000{sample}}}
    schedule: {{every: 1h}}
    budget: {{{budget}}}
    level: {level}
"""


class Day:
    """A monitor with its store, judge, workers and budgets, on a clock of its own. An evaluation takes 3000 tokens."""

    def __init__(
        self,
        folder: Path,
        budget: str = "",
        limits: str = "",
        sample: str = "",
        rubrics: str = "short",
        rate: str = "1.0",
        level: str = "invocation",
    ) -> None:
        file = folder / "rubricd.yaml"
        given = {"budget": budget, "limits": limits, "sample": sample, "rubrics": rubrics, "rate": rate, "level": level}
        file.write_text(CONFIGURATION.format(**given))
        self.configuration: Configuration = configure(load_settings(file, {}))
        self.clock = ManualClock(MIDNIGHT)
        self.loop = asyncio.new_event_loop()
        self.store = SqliteStore(folder)
        for version, definition in self.configuration.definitions():
            self.store.remember_rubric(version, definition, MIDNIGHT)
        client = ScriptedClient([JudgeReply(said("yes"), "stop", input_tokens=2700, output_tokens=300)])
        self.judge = Judge("default", self.configuration.settings.judges["default"], client, self.clock)
        self.telemetry = Telemetry(CollectorRegistry())
        self.restart()
        self.made = 0

    def restart(self) -> None:
        """A new process: nothing is known but what the store keeps."""
        self.budgets = Budgets(
            self.store, self.clock, self.telemetry, lambda: self.configuration, lambda: {"default": self.judge}
        )
        self.runner = Runner(self.store, self.clock, self.budgets)

    def traffic(self, count: int, **changes: Any) -> None:
        """So many invocations settle now."""
        now = self.clock.now()
        for _ in range(count):
            self.made += 1
            item = invocation(
                f"i{self.made}", inclusion_probability=1.0, ended_at=int((now - 1) * 1e9), error=None, **changes
            )
            self.store.save_traces([replace(settlement(item), settled_at=now)])

    def tick(self) -> Any:
        """The run of this hour."""
        return self.runner.run_tick("m", self.configuration.scheduled()["m"], self.clock.now())

    def work(self) -> None:
        """Judge what is pending."""

        async def until_idle() -> None:
            workers = EvaluationWorkers(self.store, {"default": self.judge}, self.clock, budgets=self.budgets)
            while await workers.turn() or workers._running:
                await workers.settled()
            await workers.settled()

        self.loop.run_until_complete(until_idle())
        self.budgets.look()

    def hour(self, traffic: int) -> Any:
        """An hour of traffic, the run, and its work."""
        self.clock.advance(HOUR - 10)
        self.traffic(traffic)
        self.clock.advance(10)
        run = self.tick()
        self.work()
        return run

    def decisions(self) -> list[Any]:
        """All decisions on all invocations."""
        items: list[Any] = []
        page = self.store.list_invocations(Query(limit=1000))
        for item in page.items:
            items += [d for d in self.store.decisions(item["trace_id"]) if d["monitor"] == "m"]
        return items


@pytest.fixture
def days(tmp_path: Path) -> Iterator[Any]:
    made: list[Day] = []

    def day(**options: str) -> Day:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Day(folder, **options))
        return made[-1]

    yield day
    for one in made:
        one.loop.close()
        one.store.close()


def test_a_budget_that_runs_short_lowers_the_probability(days: Any) -> None:
    """100 evaluations a day for 460 invocations: every run goes on drawing, fewer and with lower probabilities; the budget holds; and the weights
    of the drawn add up to the invocations that were considered.
    """
    day = days(budget="tokens_per_day: 300000")
    drawn = [day.hour(20).drawn for _ in range(23)]
    assert sum(drawn) * 3000 <= 300_000
    assert sum(drawn) >= 90
    assert drawn[1] == 20  # as the rule says, while there is enough
    assert all(count >= 1 for count in drawn[4:])
    assert max(drawn[6:]) < 6
    decisions = [one for one in day.decisions() if one["decision"] != "waiting"]
    weights = sum(1 / one["inclusion_probability"] for one in decisions if one["decision"] == "drawn")
    assert weights == pytest.approx(len(decisions))
    assert {one["reason"] for one in decisions} == {None, "over_budget"}
    reasons = {t.labels["reason"]: t.value for t in day.store.tallies() if t.metric == "not_selected_total"}
    assert reasons["over_budget"] == len(decisions) - sum(drawn)


def test_rates_stay_unbiased(days: Any) -> None:
    """Where quality changes over the day, the weighted rate of the drawn is that of all; their plain share is not."""
    day = days(budget="tokens_per_day: 300000")
    random_ = random.Random(7)
    truth = []
    for hour in range(23):
        day.clock.advance(HOUR - 10)
        for _ in range(20):
            good = random_.random() < (0.95 if hour < 4 else 0.3)
            truth.append(good)
            day.traffic(1, agent_version="good" if good else "bad")
        day.clock.advance(10)
        day.tick()
        day.work()
    rows = [(d["inclusion_probability"], i["agent_version"]) for i in day.store.list_invocations(Query(limit=1000)).items for d in day.store.decisions(i["trace_id"]) if d["decision"] == "drawn"]  # fmt: skip
    weighted = sum(1 / pi for pi, version in rows if version == "good") / sum(1 / pi for pi, _ in rows)
    plain = sum(version == "good" for _, version in rows) / len(rows)
    assert weighted == pytest.approx(sum(truth) / len(truth), abs=0.1)
    assert plain > sum(truth) / len(truth) + 0.15


def test_what_was_spent_outlives_a_restart(days: Any) -> None:
    """A restart gives no second budget: the next run draws as if nothing had happened, and the gauge shows what is left."""
    day = days(budget="tokens_per_day: 300000")
    for _ in range(4):
        day.hour(20)
    left = day.budgets.remaining_ratio("m")
    day.restart()
    day.budgets.look()
    assert day.budgets.remaining_ratio("m") == left
    assert day.telemetry.monitor_budget_remaining.labels("m")._value.get() == left
    assert day.hour(20).drawn < 6


def test_a_used_up_budget_ends_runs(days: Any) -> None:
    """Work that costs more than was thought: what nobody has begun is over budget, the run's probability is that of the smaller draw, nothing more is
    claimed, and the next day goes on.
    """
    day = days(budget="tokens_per_day: 60000")
    day.clock.advance(HOUR - 10)
    day.traffic(40)
    day.clock.advance(10)
    day.runner = Runner(day.store, day.clock)  # nobody reckons beforehand
    assert day.tick().drawn == 40
    day.work()
    verdicts = day.store.list_verdicts(Query(limit=1000)).items
    assert 20 <= len(verdicts) < 40  # what was under way ends
    assert [one["inclusion_probability"] for one in verdicts] == pytest.approx([len(verdicts) / 40] * len(verdicts))
    decisions = day.decisions()
    assert sum(one["reason"] == "over_budget" for one in decisions) == 40 - len(verdicts)
    assert sum(count.count for count in day.store.pending(day.clock.now())) == 0
    day.restart()
    day.clock.advance(23 * HOUR)
    assert day.hour(5).drawn == 5


@pytest.mark.parametrize("short", ["budget", "limits"])
def test_a_cut_of_mixed_rubrics_stays_unbiased(days: Any, short: str) -> None:
    """Day after day a budget ends runs of a monitor that also looks without a judge: what is looked at is all that was drawn, what is judged is its
    beginning in the order of u, and the weights of each add up to the traffic; so each rate is that of all.
    """
    day = days(**{short: "tokens_per_day: 24000"}, rubrics="short, fine", rate="0.6")
    day.runner = Runner(day.store, day.clock)  # nobody reckons beforehand
    number_of_days, traffic = 12, 30
    for number in range(number_of_days):
        day.clock.advance(24 * HOUR - 10)
        day.traffic(traffic, agent_version="good" if number % 3 else "bad")
        day.clock.advance(10)
        day.tick()
        day.work()
    total = number_of_days * traffic
    verdicts = day.store.list_verdicts(Query(limit=1000)).items
    for rubric, least, most in (("short", 8, 14), ("fine", 12, 25)):
        mine = [one for one in verdicts if one["rubric"] == rubric]
        assert least * number_of_days <= len(mine) <= most * number_of_days
        weights = sum(1 / one["inclusion_probability"] for one in mine)
        assert weights == pytest.approx(total, rel=0.12)  # sd of the looked-at: sqrt(360 * 0.4 / 0.6) = 15
        good = sum(1 / one["inclusion_probability"] for one in mine if one["agent_version"] == "good")
        assert good / weights == pytest.approx(2 / 3, abs=0.05)
    assert sum(count.count for count in day.store.pending(day.clock.now())) == 0
    given_up = [one for one in day.decisions() if "given up, over_budget: short" in one["detail"]]
    assert len(given_up) == sum(one["rubric"] == "fine" for one in verdicts) - sum(
        one["rubric"] == "short" for one in verdicts
    )


def test_the_judges_budget_counts_too(days: Any) -> None:
    """The daily limit of a judge lowers the draws of the monitors that ask it, in tokens or in USD."""
    for limits in ("tokens_per_day: 300000", "usd_per_day: 0.3"):
        day = days(limits=limits)
        drawn = [day.hour(20).drawn for _ in range(12)]
        assert drawn[1] == 20
        assert 1 <= drawn[-1] < 6
        assert sum(drawn) <= 100


def test_always_is_cut_last(days: Any) -> None:
    """What is always drawn is drawn while the ordinary strata get what is left."""
    day = days(budget="tokens_per_day: 300000", sample=", always: {agent_version: bad}")
    for _ in range(4):
        day.hour(20)
    day.clock.advance(HOUR - 10)
    day.traffic(10, agent_version="bad")
    day.traffic(20)
    day.clock.advance(10)
    strata = {stratum.name: stratum.drawn for stratum in day.tick().strata}
    assert strata["always"] == 10
    assert strata.get("", 0) == 0


def test_no_budget_no_bound(days: Any) -> None:
    """Without budgets nothing is bounded, and spending is counted nowhere."""
    day = days()
    assert day.hour(30).drawn == 30
    assert day.budgets.remaining_ratio("m") is None
    assert day.budgets.exhausted() == set()


def test_usd_needs_prices(tmp_path: Path) -> None:
    """A monitor's budget in USD with a judge whose prices are not known is refused: it could not be kept."""
    file = tmp_path / "rubricd.yaml"
    text = CONFIGURATION.format(
        budget="usd_per_day: 1", limits="", sample="", rubrics="short", rate="1.0", level="invocation"
    )
    file.write_text(text.replace(", prices: {input_per_million: 1.0, output_per_million: 1.0}", ""))
    with pytest.raises(ConfigurationError, match="usd_per_day: judge 'default' has no `prices`"):
        configure(load_settings(file, {}))


def test_a_run_that_can_afford_nothing_keeps_its_candidates(days: Any) -> None:
    """When nothing is left the run decides nothing: its candidates wait, unconsidered, and the next day draws from them all."""
    day = days(budget="tokens_per_day: 300000")
    for _ in range(10):
        day.hour(20)
    day.budgets.spend("m", Usage(input_tokens=300_000))
    run = day.hour(20)
    assert (run.drawn, run.considered) == (0, 0)
    day.clock.advance(14 * HOUR)
    run = day.hour(0)
    assert run.considered >= 20
    assert run.drawn >= 20


@pytest.mark.parametrize(
    ("afford", "drawn", "reason"), [(3, 3, "over_budget"), (50, 7, "over_cap"), (None, 7, "over_cap")]
)
def test_the_tighter_bound_names_the_reason(afford: int | None, drawn: int, reason: str) -> None:
    """A draw is cut by what is affordable or by the hourly cap, whichever is less, and the probability is that of the cut."""
    plan = draw(population(20), SamplingRule(rate=1.0, max_per_hour=7, afford=afford), hours=1.0)
    assert sum(decision.drawn for decision in plan.decisions) == drawn
    assert {decision.reason for decision in plan.decisions} == {None, NotSelected(reason)}
    assert {decision.inclusion_probability for decision in plan.decisions} == {drawn / 20}


def test_conversations_are_reckoned_with_all_their_turns(days: Any) -> None:
    """Until their cost is known, a budget allows fewer conversations than invocations: a judge reads all turns of one."""
    allowed = {}
    for level in ("invocation", "conversation"):
        day = days(budget="tokens_per_day: 240000", level=level)
        allowed[level] = day.budgets.allow("m", day.configuration.refs("m"), 1.0)
    assert allowed == {"invocation": 40, "conversation": 10}
