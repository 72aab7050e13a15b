"""Rates, budgets, delays and the classification of faults."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.clock import ManualClock
from monitor.judging.client import CallFault, ChatMessage, FaultKind, RateHeaders
from monitor.judging.expecting import ALL_THERE_IS, Expectation
from monitor.judging.limits import DailyBudget, DailyUse, RateLimiter, Reservation, TokenBucket, next_day, utc_day
from monitor.judging.retry import classify, delay_seconds, refused_parameter
from monitor.model.verdict import Usage
from monitor.settings.tree import Limits, Prices


def test_a_bucket_fills_evenly() -> None:
    """A bucket of 60 a minute gives one each second, and never more than its capacity."""
    bucket = TokenBucket.full(60, now=0.0)
    bucket.take(60)
    assert bucket.wait_seconds(1, now=0.0) == 1.0
    assert bucket.wait_seconds(1, now=0.5) == 0.5
    assert bucket.wait_seconds(10, now=10.0) == 0.0
    assert bucket.wait_seconds(60, now=1000.0) == 0.0
    assert bucket.level == 60


def test_more_than_the_capacity_waits_for_a_full_bucket() -> None:
    """A call larger than the limit is not waited for without end."""
    bucket = TokenBucket.full(100, now=0.0)
    assert bucket.wait_seconds(1000, now=0.0) == 0.0
    bucket.take(1000)
    assert bucket.wait_seconds(1000, now=0.0) == pytest.approx(600.0)


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(1, 40)), min_size=1, max_size=60))
def test_never_more_than_capacity_and_a_minutes_fill(calls: list[tuple[float, float]]) -> None:
    """Whatever comes, what is taken in any minute is at most twice the capacity: a full bucket and a minute's fill."""
    bucket, now = TokenBucket.full(60, now=0.0), 0.0
    taken: list[tuple[float, float]] = []
    for pause, amount in calls:
        now += pause
        now += bucket.wait_seconds(amount, now)
        bucket.fill(now)
        bucket.take(amount)
        taken.append((now, amount))
    for start, _ in taken:
        assert sum(amount for at, amount in taken if start <= at < start + 60) <= 120 + 1e-6


async def test_the_limiter_is_corrected_by_headers() -> None:
    """A lower limit of the server counts, and where nothing remains calls are held until its reset."""
    clock = ManualClock()
    limiter = RateLimiter(Limits(requests_per_minute=600, tokens_per_minute=60_000), clock)
    assert limiter.wait_seconds(1000) == 0
    limiter.correct(RateHeaders(limit_requests=60, remaining_requests=0, reset_requests_seconds=7.0))
    assert limiter.wait_seconds(1000) == 7.0
    clock.advance(7)
    assert limiter.wait_seconds(1000) == 0
    for _ in range(7):
        await limiter.acquire(0)
    assert limiter.wait_seconds(0) == pytest.approx(1.0)
    limiter.correct(RateHeaders(limit_requests=10_000))
    clock.advance(1)
    assert limiter.wait_seconds(0) == 0


async def test_estimates_are_settled() -> None:
    """The estimate of a call is replaced by what it used."""
    clock = ManualClock()
    limiter = RateLimiter(Limits(tokens_per_minute=1000), clock)
    await limiter.acquire(1000)
    assert limiter.wait_seconds(600) == pytest.approx(36.0)
    limiter.settle(1000, 400)
    assert limiter.wait_seconds(600) == 0.0
    limiter.settle(0, 1200)
    assert limiter.wait_seconds(0) > 0


async def test_acquire_waits_by_the_clock() -> None:
    """Waiting ends when the clock has moved far enough."""
    clock = ManualClock()
    limiter = RateLimiter(Limits(requests_per_minute=1), clock)
    await limiter.acquire(0)
    waiting = asyncio.ensure_future(limiter.acquire(0))
    clock.advance(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    clock.advance(59)
    await asyncio.sleep(0)
    assert not waiting.done()
    clock.advance(1)
    await waiting


def test_without_limits_nothing_waits() -> None:
    """No limit, no wait; headers that say that nothing remains hold all the same."""
    clock = ManualClock()
    limiter = RateLimiter(Limits(), clock)
    assert limiter.wait_seconds(1e9) == 0
    limiter.correct(RateHeaders(remaining_tokens=0, reset_tokens_seconds=600.0))
    assert limiter.wait_seconds(0) == 60.0


def test_the_day_is_utc() -> None:
    """A day of a budget is one of UTC."""
    assert utc_day(1_795_046_399.0) == "2026-11-18"
    assert utc_day(1_795_046_400.0) == "2026-11-19"
    assert next_day(1_795_046_399.0) == 1_795_046_400.0


def test_budgets_start_anew_each_day() -> None:
    """Use of an earlier day does not count; the scarcer limit decides what is left."""
    now = 1_795_000_000.0
    budget = DailyBudget(Limits(tokens_per_day=1000, usd_per_day=2.0), DailyUse(utc_day(now), 100, 1.0))
    assert budget.remaining_ratio(now) == 0.5
    budget.spend(now, 900, 0.1)
    assert budget.exhausted(now) == "tokens_per_day"
    assert budget.remaining_ratio(now) == 0.0
    assert budget.exhausted(next_day(now)) is None
    assert budget.remaining_ratio(next_day(now)) == 1.0
    assert DailyBudget(Limits()).remaining_ratio(now) is None


@pytest.mark.parametrize("stored", [None, {}, 7, {"day": "x"}, {"day": "2026-11-18", "tokens": "many", "usd": 0}])
def test_damaged_state_is_no_state(stored: object) -> None:
    """State that cannot be read starts a new count instead of stopping the judge."""
    assert DailyUse.from_json(stored) is None


def test_state_goes_out_and_comes_in() -> None:
    """What is stored is what comes back."""
    use = DailyUse("2026-11-18", 12, 0.5)
    assert DailyUse.from_json(json.loads(json.dumps(use.as_json()))) == use


@pytest.mark.parametrize("vector", ["az-166", "az-167", "az-169", "az-170", "az-171"])
def test_retries_against_azure(shared: Path, vector: str) -> None:
    """Whether and when a status is tried again is azure-ai-evaluation's."""
    item = {v["id"]: v for v in json.loads((shared / "vectors" / "evaluators.json").read_text())}[vector]
    given, (retry, delay) = item["input"], item["expected"]
    found = classify(CallFault(FaultKind.STATUS, given["status"], given["type"] or ""))
    temporary = found.failure.temporary or (given["status"] == 422 and found.refused == "unknown")
    assert temporary == retry
    if retry:
        assert delay_seconds(given["retry_index"] + 1, given["retry_after"]) == delay


def test_delays() -> None:
    """Delays double up to a minute; what the server asks for counts, up to an hour."""
    assert [delay_seconds(attempt) for attempt in range(1, 9)] == [3, 4, 6, 10, 18, 34, 60, 60]
    assert delay_seconds(1, 17.5) == 17.5
    assert delay_seconds(1, 86_400) == 3600
    assert delay_seconds(1, -5) == 0


@pytest.mark.parametrize(
    ("said", "parameter", "refused"),
    [
        ("'response_format' of type 'json_schema' is not supported", "", "response_format"),
        ('Either "json_schema" or "grammar" can be specified, but not both', "", "response_format"),
        ("Unsupported parameter", "response_format.json_schema", "response_format"),
        ("Unsupported value: 'temperature' does not support 0", "temperature", "temperature"),
        (
            "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens'",
            "max_tokens",
            "max_tokens",
        ),
        ("unknown field max_completion_tokens", "", "max_tokens"),
        ("temperature must be positive", "", "temperature"),
        ("nonsense", "", ""),
    ],
)
def test_which_parameter_was_refused(said: str, parameter: str, refused: str) -> None:
    """The parameter that a server complains of is found in its own field or its words."""
    assert refused_parameter(CallFault(FaultKind.STATUS, 400, "", parameter, said)) == refused


async def test_who_waits_for_room_goes_in_turn() -> None:
    """What does not fit beside what is reserved waits; a small one behind it does not pass it; when the limit is used up meanwhile all are told so; and
    what was reserved is not in what is stored.
    """
    clock, done = ManualClock(1_795_000_000.0), list[str]()
    budget = DailyBudget(Limits(tokens_per_day=1000))

    async def one(name: str, tokens: float) -> Reservation | str:
        found = await budget.reserve(clock, lambda: Reservation(tokens))
        done.append(name)
        return found

    first = await one("first", 700)
    assert isinstance(first, Reservation)
    large, small = asyncio.create_task(one("large", 600)), asyncio.create_task(one("small", 100))
    await asyncio.sleep(0)
    assert done == ["first"]
    assert budget.use(clock.now()).as_json() == {"day": "2026-11-18", "tokens": 0, "usd": 0.0}
    budget.spend(clock.now(), 300, None)
    budget.give_back(first)
    assert await asyncio.gather(large, small) == [Reservation(600), Reservation(100)]
    assert done == ["first", "large", "small"]
    late = asyncio.create_task(one("late", 500))
    await asyncio.sleep(0)
    budget.spend(clock.now(), 700, None)
    budget.give_back(Reservation(600))
    assert await late == "tokens_per_day"


def test_what_an_evaluation_is_thought_to_use() -> None:
    """Until one has ended nothing is known, and the first has all there is; then prompts count by their length and by what such evaluations used."""
    prices = Prices(input_per_million=1.0, output_per_million=2.0)
    expected, prompt = Expectation(prices), [ChatMessage("user", "x" * 4000)]
    assert expected.of("r", prompt, 1) == ALL_THERE_IS
    expected.learn("r", prompt, 1, Usage())  # nothing was asked
    assert expected.of("r", prompt, 1) == ALL_THERE_IS
    expected.learn("r", prompt, 1, Usage(1, 2400, 400))  # twice the 1000 + 400 that the length tells
    assert expected.of("r", prompt, 1) == Reservation(2800, pytest.approx(2 * (1000 + 2 * 400) / 1e6))
    assert expected.of("r", prompt, 3).tokens == 3 * 2800
    assert expected.of("another", [ChatMessage("user", "")], 1).tokens == 800
    expected.learn("r", prompt, 1, Usage(1, 1000, 400))
    assert expected.of("r", prompt, 1).tokens == pytest.approx(1400 * 1.8)
