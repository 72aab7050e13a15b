"""The workers on a real store: what is judged, put off, paused, released, and that nothing is lost or counted twice."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from monitor.clock import ManualClock, SystemClock
from monitor.judging import worker
from monitor.judging.client import CallFault, FaultKind
from monitor.judging.clients.openai_client import OpenAIClient
from monitor.judging.clients.scripted import Line, ScriptedClient
from monitor.judging.judge import Judge
from monitor.judging.limits import DailyUse, Reservation
from monitor.judging.pauses import Pauses
from monitor.judging.worker import EvaluationWorkers, WorkerTuning
from monitor.model.run import Query, RubricRef
from monitor.model.verdict import ErrorType, EvaluationFailure, Verdict
from monitor.rubrics.rubric import Rubric
from monitor.rubrics.version import definition, rubric_version
from monitor.settings.privacy import Redaction
from monitor.settings.tree import JudgeSettings
from monitor.store.protocol import StoreUnwritable
from monitor.store.sqlite import SqliteStore
from monitor.telemetry import Telemetry
from tests.contracts.store_material import T0, invocation, request, settlement, take_all
from tests.judging.test_judge import said
from tests.support.judge_server import JudgeServer
from tests.support.judging import rubric

CHECK = rubric("{name: succeeded, kind: check, expect: {no_error: true}}")
ONE = rubric('{name: short, statement: "The answer is short."}')
JUDGE = JudgeSettings(model="judge-model", base_url="http://judge/v1", max_concurrency=4)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(T0 + 100)


def ref(made: Rubric, judge: str | None = "default", settings: JudgeSettings = JUDGE) -> RubricRef:
    version = rubric_version(made, settings if made.judged else None)
    return RubricRef(made.name, version, judge if made.judged else None)


def pend(
    store: SqliteStore, count: int, *rubrics: Rubric, judge: str | None = "default", tick: float = T0 + 60
) -> None:
    """Invocations drawn for these rubrics, their definitions stored."""
    for made in rubrics:
        store.remember_rubric(ref(made).version, definition(made, JUDGE), T0)
    names = [f"i{tick}-{index}" for index in range(count)]
    store.save_traces([settlement(invocation(name, inclusion_probability=1.0)) for name in names])
    store.execute_run(request(tick=tick, rubrics=[ref(made, judge) for made in rubrics]), take_all)


def scripted(clock: Any, *script: Line, name: str = "default", use: DailyUse | None = None, latency: float = 0.0, **settings: Any) -> tuple[Judge, ScriptedClient]:  # fmt: skip
    client = ScriptedClient(script, latency)
    made = JudgeSettings.model_validate({**JUDGE.model_dump(exclude={"timeout"}), **settings})
    return Judge(name, made, client, clock, use=use), client


def workers(store: SqliteStore, clock: Any, *judges: Judge, **other: Any) -> EvaluationWorkers:
    return EvaluationWorkers(store, {judge.name: judge for judge in judges}, clock, **other)


def verdicts(store: SqliteStore) -> list[Mapping[str, Any]]:
    return list(store.list_verdicts(Query(limit=1000)).items)


def states(store: SqliteStore) -> dict[str, int]:
    return {
        state: len(store.list_evaluations(Query(state=state, limit=1000)).items)
        for state in ("pending", "error", "done")
    }


async def work(made: EvaluationWorkers) -> None:
    """Turn until there is nothing to do now."""
    while await made.turn() or made._running:
        await made.settled()
    await made.settled()


async def test_deterministic_and_judged(store: SqliteStore, clock: ManualClock) -> None:
    """Both kinds of rubric are judged, with version, probability, judge and time of the evaluation they answer."""
    pend(store, 3, CHECK, ONE)
    judge, client = scripted(clock, said("yes", "Short enough."))
    heard: list[Verdict] = []
    await work(workers(store, clock, judge, on_verdict=heard.append))
    found = verdicts(store)
    assert len(found) == len(heard) == 6
    assert len(client.requests) == 3
    by_model = [item for item in found if item["rubric"] == "short"]
    assert {
        (item["verdict"], item["judge"], item["judge_model"], item["inclusion_probability"]) for item in by_model
    } == {("pass", "default", "judge-model", 0.5)}
    assert by_model[0]["rubric_version"] == ref(ONE).version
    assert by_model[0]["explanation"] == "Short enough."
    assert states(store) == {"pending": 0, "error": 0, "done": 6}


async def test_what_is_redacted(store: SqliteStore, clock: ManualClock) -> None:
    """A monitor's judge sees what the drawn version left, less what the policy in force takes out: a stricter one counts at once, a laxer one for
    new draws only; each policy is a version of its own.
    """
    secret = replace(invocation("redacted"), user_input="anna@example.org calls +49 30 901820")
    drawn = Redaction(("email",))
    version = rubric_version(ONE, JUDGE, drawn)
    assert version not in {ref(ONE).version, rubric_version(ONE, JUDGE, Redaction())}
    store.remember_rubric(version, definition(ONE, JUDGE, drawn), T0)
    store.save_traces([settlement(secret, monitors=("lax", "strict"))])
    for monitor in ("lax", "strict"):
        store.execute_run(request(monitor, rubrics=[RubricRef("short", version, "default")]), take_all)
    judge, client = scripted(clock, said("yes"))
    policy = {"lax": Redaction(), "strict": Redaction(("phone",))}
    await work(workers(store, clock, judge, redaction=policy.__getitem__))
    seen = {user for asked in client.requests for user in asked.messages[1].content.split("\n") if "calls" in user}
    assert seen == {"<EMAIL_1> calls +49 30 901820", "<EMAIL_1> calls <PHONE_1>"}


async def test_the_stored_version_is_judged_by(store: SqliteStore, clock: ManualClock) -> None:
    """After a change of rubric and judge, pending evaluations are judged by the rubric and the model they were drawn for."""
    pend(store, 1, ONE)
    judge, client = scripted(clock, said("yes"), model="another-model")
    await work(workers(store, clock, judge))
    assert client.requests[0].model == "judge-model"
    assert "The answer is short." in client.requests[0].messages[0].content
    assert verdicts(store)[0]["judge_model"] == "judge-model"


async def test_a_missing_definition_is_a_failed_evaluation(store: SqliteStore, clock: ManualClock) -> None:
    """An evaluation whose rubric version is not stored fails with a reason, and the others go on."""
    store.save_traces([settlement(invocation("a"))])
    store.execute_run(request(rubrics=[RubricRef("gone", "0" * 12), ref(CHECK)]), take_all)
    store.remember_rubric(ref(CHECK).version, definition(CHECK, None), T0)
    await work(workers(store, clock))
    (failed,) = store.list_evaluations(Query(state="error")).items
    assert failed["error"]["type"] == "evaluator_failed"
    assert states(store)["done"] == 1


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE invocation_content SET body = X'0178ff' WHERE invocation = 1",
        "UPDATE invocations SET completeness = '{', tools = '[' WHERE n = 1",
    ],
)
async def test_a_damaged_invocation_fails_alone(store: SqliteStore, clock: ManualClock, damage: str) -> None:
    """An evaluation whose stored invocation cannot be read fails as evaluator_failed, and the others are judged."""
    pend(store, 3, CHECK)
    store._writer.call(lambda c: c.execute(damage))
    await work(workers(store, clock))
    (failed,) = store.list_evaluations(Query(state="error")).items
    assert failed["error"]["type"] == "evaluator_failed"
    assert states(store) == {"pending": 0, "error": 1, "done": 2}


async def test_an_evaluation_that_kills_the_process_fails_in_the_end(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claimed five times when the process ended, it fails as evaluator_failed; those claimed with it at first are judged."""
    pend(store, 8, CHECK)
    (killer, *_) = store.claim_evaluations(1, clock.now(), 60)
    store.release_evaluations([killer])
    lives = 0
    judged = worker.judge_by_looking

    def dies(claimed: Any, now: float) -> Any:
        if any(item.evaluation.id == killer.id and item.evaluation.crashes < 5 for item in claimed):
            raise SystemError("killed")
        return judged(claimed, now)

    monkeypatch.setattr(worker, "judge_by_looking", dies)
    while any(one["state"] == "pending" for one in store.list_evaluations(Query(state="pending")).items):
        made = workers(store, clock)
        with suppress(SystemError):
            await work(made)
        await made.settled()
        store.release_all_claims()
        lives += 1
        assert lives < 30
    (failed,) = store.list_evaluations(Query(state="error")).items
    assert (failed["id"], failed["error"]["type"]) == (killer.id, "evaluator_failed")
    assert states(store) == {"pending": 0, "error": 1, "done": 7}


async def test_temporary_failures_are_put_off(store: SqliteStore, clock: ManualClock) -> None:
    """A temporary failure is tried again after its delay, until it succeeds; nothing is stored before."""
    pend(store, 1, ONE)
    judge, client = scripted(clock, CallFault(FaultKind.STATUS, 503), CallFault(FaultKind.TIMEOUT), said("no"))
    made = workers(store, clock, judge)
    await work(made)
    assert (len(client.requests), verdicts(store)) == (1, [])
    clock.advance(2)
    await work(made)
    assert len(client.requests) == 1
    clock.advance(1)
    await work(made)
    assert len(client.requests) == 2
    clock.advance(4)
    await work(made)
    assert [item["verdict"] for item in verdicts(store)] == ["fail"]


async def test_after_the_last_attempt_it_has_failed(store: SqliteStore, clock: ManualClock) -> None:
    """After `max_attempts` a temporary failure is stored as a failed evaluation with its type, and counted by reason."""
    pend(store, 1, ONE)
    judge, client = scripted(clock, CallFault(FaultKind.STATUS, 500), max_attempts=3)
    made = workers(store, clock, judge)
    for _ in range(5):
        await work(made)
        clock.advance(100)
    assert len(client.requests) == 3
    (failed,) = store.list_evaluations(Query(state="error")).items
    assert failed["error"]["type"] == "server_error"
    (counted,) = (tally for tally in store.tallies() if tally.metric == "evaluation_errors_total")
    assert (counted.labels["reason"], counted.value) == ("server_error", 1)


async def test_what_the_server_asks_for_is_waited(store: SqliteStore, clock: ManualClock) -> None:
    """A Retry-After decides when it is tried again."""
    pend(store, 1, ONE)
    judge, client = scripted(clock, CallFault(FaultKind.STATUS, 429, retry_after_seconds=45.0), said("yes"))
    made = workers(store, clock, judge)
    await work(made)
    clock.advance(44)
    await work(made)
    assert len(client.requests) == 1
    clock.advance(1)
    await work(made)
    assert len(verdicts(store)) == 1


async def test_a_permanent_fault_pauses_the_judge(store: SqliteStore, clock: ManualClock) -> None:
    """A refused key fails one evaluation and pauses the judge; the others wait, deterministic ones go on; one by one it is tried
    again at growing intervals, and when it works all the rest is judged.
    """
    pend(store, 10, CHECK, ONE)
    registry = CollectorRegistry()
    faults = [CallFault(FaultKind.STATUS, 401)] * 5
    judge, client = scripted(clock, *faults, said("yes"))
    made = workers(store, clock, judge, telemetry=Telemetry(registry))
    await work(made)
    assert list(made.paused) == ["default"]
    assert "API key" in made.paused["default"]
    assert registry.get_sample_value("rubricd_judge_up", {"judge": "default"}) == 0
    assert states(store) == {"pending": 9, "error": 1, "done": 10}
    assert len(client.requests) == 4  # as many as were under way at once; three of them were given back
    clock.advance(59)
    await work(made)
    assert len(client.requests) == 4
    clock.advance(1)
    await work(made)  # one on trial: the same fault
    assert (len(client.requests), states(store)["error"]) == (5, 2)
    clock.advance(119)
    await work(made)
    assert len(client.requests) == 5
    clock.advance(1)
    await work(made)
    assert made.paused == {}
    assert registry.get_sample_value("rubricd_judge_up", {"judge": "default"}) == 1
    assert states(store) == {"pending": 0, "error": 2, "done": 18}


async def test_a_judge_that_is_not_reached_is_paused(store: SqliteStore, clock: ManualClock) -> None:
    """Circuit breaker: after ten evaluations in a row that did not reach the judge the others wait instead of using up their attempts; then one
    tries, and when it succeeds all go on.
    """
    pend(store, 40, ONE)
    judge, client = scripted(clock, *[CallFault(FaultKind.CONNECTION)] * 12, said("yes"))
    made = workers(store, clock, judge)
    await work(made)
    assert 10 <= len(client.requests) < 20
    assert "no connection" in made.paused["default"]
    assert states(store) == {"pending": 40, "error": 0, "done": 0}
    asked = len(client.requests)
    clock.advance(61)
    for _ in range(200):
        await work(made)
        clock.advance(30)
    assert states(store) == {"pending": 0, "error": 0, "done": 40}
    assert made.paused == {}
    assert len(client.requests) - asked <= 42


@pytest.mark.parametrize("status", [429, 503])
async def test_a_judge_that_refuses_every_call_is_shown(
    store: SqliteStore, clock: ManualClock, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """One evaluation after the other is refused for the rate or by the server: the judge's problem says so and judge_up falls, one line in the log on
    each change; no agent has failed by it, and an answer clears it.
    """
    pend(store, 2, ONE)
    registry = CollectorRegistry()
    up = lambda: registry.get_sample_value("rubricd_judge_up", {"judge": "default"})  # noqa: E731
    judge, _ = scripted(clock, *[CallFault(FaultKind.STATUS, status)] * 6, said("yes"), max_attempts=9)
    made = workers(store, clock, judge, telemetry=Telemetry(registry))
    caplog.set_level("INFO", "monitor.judging.worker")
    await work(made)
    assert (made.problems, up()) == ({}, 1)  # one burst is nothing yet
    for _ in range(2):
        clock.advance(11)
        await work(made)
    assert f"status {status}" in made.problems["default"]
    assert (up(), made.paused, verdicts(store)) == (0, {}, [])
    for _ in range(6):
        clock.advance(60)
        await work(made)
    assert (made.problems, up(), states(store)["done"]) == ({}, 1, 2)
    assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]


def test_refusals_for_the_rate_pause_only_when_they_last() -> None:
    """A burst of refusals for the rate pauses nobody, half a minute of nothing else does: evaluations then wait instead of using up their attempts."""
    pauses, refused = Pauses(), EvaluationFailure(ErrorType.RATE_LIMITED, "status 429", True)
    assert not any(pauses.trouble("default", refused, 0.1 * second) for second in range(40))
    assert pauses.trouble("default", refused, 31.0)


def test_troubles_are_shown_once_and_only_when_they_last() -> None:
    """A row of troubles is shown from its third on, when ten seconds have passed, once; an answer ends the row."""
    pauses = Pauses()
    failure = EvaluationFailure(ErrorType.SERVER_ERROR, "status 503", True)
    for second in (0.0, 6.0, 9.9):
        assert not pauses.trouble("default", failure, second)
        assert not pauses.begins_to_fail("default", second)
    pauses.trouble("default", failure, 10.0)
    assert (pauses.begins_to_fail("default", 10.0), pauses.begins_to_fail("default", 11.0)) == (True, False)
    pauses.fine("default")
    assert pauses.failing() == {}


async def test_troubles_between_answers_pause_nobody(store: SqliteStore, clock: ManualClock) -> None:
    """A judge that fails now and then is not paused: only faults in a row count."""
    pend(store, 30, ONE)
    faults = [CallFault(FaultKind.TIMEOUT), CallFault(FaultKind.TIMEOUT), said("yes")] * 30
    judge, _ = scripted(clock, *faults, max_concurrency=1)
    made = workers(store, clock, judge)
    await work(made)
    assert made.paused == {}


async def test_a_broken_judge_does_not_hold_another(store: SqliteStore, clock: ManualClock) -> None:
    """While one judge is paused the evaluations of another are judged."""
    pend(store, 3, ONE, judge="default")
    pend(store, 3, ONE, judge="other", tick=T0 + 61)
    broken, _ = scripted(clock, CallFault(FaultKind.STATUS, 404), max_concurrency=1)
    good, client = scripted(clock, said("yes"), name="other")
    await work(workers(store, clock, broken, good))
    assert states(store) == {"pending": 2, "error": 1, "done": 3}
    assert len(client.requests) == 3


async def test_without_the_judge_nothing_is_sent(store: SqliteStore, clock: ManualClock) -> None:
    """Evaluations for a judge that is not configured wait, visibly, and are judged when it is; nothing goes to another judge."""
    pend(store, 2, ONE, judge="gone")
    other, client = scripted(clock, said("yes"))
    made = workers(store, clock, other)
    await work(made)
    await work(made)
    assert client.requests == []
    assert made.paused == {"gone": "no judge of this name is configured"}
    assert states(store)["pending"] == 2
    back, client = scripted(clock, said("yes"), name="gone")
    made.use_judges({"default": other, "gone": back})
    await work(made)
    assert len(client.requests) == 2
    assert made.paused == {}


async def test_a_judged_rubric_drawn_without_judge_waits(store: SqliteStore, clock: ManualClock) -> None:
    """An evaluation that names no judge is not sent to any."""
    pend(store, 1, ONE, judge=None)
    judge, client = scripted(clock, said("yes"))
    await work(workers(store, clock, judge))
    assert (client.requests, states(store)["pending"]) == ([], 1)


async def test_new_judges_lift_the_pause(store: SqliteStore, clock: ManualClock) -> None:
    """A reload with a corrected judge goes on at once; one that kept its judge keeps the pause."""
    pend(store, 2, ONE)
    broken, _ = scripted(clock, CallFault(FaultKind.STATUS, 401), max_concurrency=1)
    made = workers(store, clock, broken)
    await work(made)
    made.use_judges({"default": broken})
    assert made.paused
    fixed, client = scripted(clock, said("yes"))
    made.use_judges({"default": fixed})
    await work(made)
    assert len(client.requests) == 1
    assert states(store) == {"pending": 0, "error": 1, "done": 1}


async def test_who_found_no_room_in_a_budget_is_given_back(store: SqliteStore, clock: ManualClock) -> None:
    """It has asked nobody: its claim is released as it was before its lease ends, and it does not say that a judge on trial works."""
    pend(store, 1, ONE)
    judge, client = scripted(clock, said("yes"), limits={"tokens_per_day": 1000})
    held = await judge.budget.reserve(clock, lambda: Reservation(900.0))
    assert isinstance(held, Reservation)
    made = workers(store, clock, judge, tuning=WorkerTuning(lease_margin_seconds=0.003))
    made._pauses.stop("default", "down", clock.now() - 100)
    await made.turn()
    await made.settled()
    assert (client.requests, made._pauses.on_trial("default")) == ([], True)
    [free] = store.claim_evaluations(1, clock.now(), 60)
    assert free.attempts == 0
    store.release_evaluations([free])
    judge.budget.give_back(held)
    await work(made)
    assert [one["verdict"] for one in verdicts(store)] == ["pass"]


async def test_a_spent_budget_waits_for_the_next_day(store: SqliteStore, clock: ManualClock) -> None:
    """When the day's tokens are used up the rest stays pending without a failure or an attempt, and goes on the next day (UTC)."""
    pend(store, 5, ONE)
    judge, client = scripted(clock, said("yes"), limits={"tokens_per_day": 150}, max_concurrency=1)
    made = workers(store, clock, judge)
    await work(made)
    assert len(client.requests) == 2
    assert "tokens_per_day is used up" in made.paused["default"]
    assert states(store) == {"pending": 3, "error": 0, "done": 2}
    clock.advance(86_400)
    await work(made)
    assert states(store)["done"] == 4


async def test_refusals_are_findable(store: SqliteStore, clock: ManualClock) -> None:
    """A judge that declines in words is asked at most twice; the evaluation is stored as refused, neither pass nor fail."""
    pend(store, 2, ONE)
    refusal = "I'm sorry, but I cannot evaluate content of this kind."
    judge, client = scripted(clock, refusal, refusal, said("yes"), max_concurrency=1)
    await work(workers(store, clock, judge))
    assert len(client.requests) == 3
    (failed,) = store.list_evaluations(Query(state="error")).items
    assert failed["error"]["type"] == "refused"
    assert [item["verdict"] for item in verdicts(store)] == ["pass"]


async def test_drain_lets_what_is_under_way_end(store: SqliteStore) -> None:
    """Within the deadline of a drain evaluations under way are finished and stored, and nothing new is claimed."""
    clock = SystemClock()
    pend(store, 8, ONE)
    judge, client = scripted(clock, said("yes"), latency=0.1)
    made = workers(store, clock, judge)
    await made.start()
    while len(client.requests) < 4:
        await asyncio.sleep(0)
    await made.stop(5.0)
    assert len(client.requests) == 6
    assert states(store) == {"pending": 2, "error": 0, "done": 6}
    assert all(not item["claimed"] for item in store.list_evaluations(Query(state="pending")).items)


async def test_drain_releases_what_does_not_end(store: SqliteStore) -> None:
    """What hangs is cancelled at the deadline and its claim released: the next process has it at once, with no attempt more."""
    clock = SystemClock()
    pend(store, 2, ONE)
    judge, client = scripted(clock, said("yes"), latency=30.0)
    made = workers(store, clock, judge)
    await made.start()
    while len(client.requests) < 2:
        await asyncio.sleep(0)
    await made.stop(0.05)
    await made.stop(0.05)
    again, _ = scripted(clock, said("yes"))
    await work(workers(store, clock, again))
    assert states(store) == {"pending": 0, "error": 0, "done": 2}


async def test_a_clock_that_is_moved_ends_no_lease(store: SqliteStore) -> None:
    """While calls are under way the clock is put forward by more than their leases, and back: each is asked once and judged once."""
    clock = ManualClock(T0 + 100)
    pend(store, 2, ONE)
    judge, client = scripted(clock, said("yes"), latency=0.1)
    made = workers(store, clock, judge)
    for step in (3600.0, -7200.0):
        await made.turn()
        while len(client.requests) < 2:
            await asyncio.sleep(0)
        clock.step(step)
        assert not await made.turn()
    await work(made)
    assert len(client.requests) == 2
    assert states(store) == {"pending": 0, "error": 0, "done": 2}
    assert [item["attempts"] for item in store.list_evaluations(Query(state="done")).items] == [0, 0]


async def test_a_full_disk_loses_no_verdict(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verdicts wait while the store cannot be written, and are stored once when it can."""
    pend(store, 3, ONE)
    judge, _ = scripted(clock, said("yes"))
    heard: list[Verdict] = []
    made = workers(store, clock, judge, on_verdict=heard.append)
    finish = store.finish_evaluations
    full = True

    def refuse(results: Any) -> None:
        if full:
            raise StoreUnwritable("no space left")
        finish(results)

    monkeypatch.setattr(store, "finish_evaluations", refuse)
    await made.turn()
    with pytest.raises(StoreUnwritable):
        await made.settled()
    assert (verdicts(store), heard) == ([], [])
    full = False
    await made.settled()
    assert len(verdicts(store)) == len(heard) == 3


async def test_a_fault_of_ours_fails_one_evaluation(
    store: SqliteStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception while judging is a failed evaluation that names its type, without content, and stops nothing."""
    pend(store, 2, CHECK, ONE)
    judge, _ = scripted(clock, said("yes"))

    async def broken(*_: Any) -> Any:
        raise RuntimeError("table for Ada Lovelace")

    monkeypatch.setattr(Judge, "evaluate", broken)
    await work(workers(store, clock, judge))
    failed = store.list_evaluations(Query(state="error")).items
    assert {item["error"]["message"] for item in failed} == {"judging failed: RuntimeError"}
    assert states(store) == {"pending": 0, "error": 2, "done": 2}


async def test_one_counted_verdict_for_each_whatever_happens(store: SqliteStore) -> None:
    """Over a real connection with a server that fails now and then, drained and begun anew: every evaluation counts exactly once."""
    clock = SystemClock()
    pend(store, 40, CHECK, ONE)
    script = ["good", "server_error", "drop", "good", "overloaded", "fenced", "good"] * 3
    async with JudgeServer(script=script, retry_after="0", latency=0.002) as server:
        settings = JudgeSettings(model="judge-model", base_url=server.url, max_concurrency=8)
        for _ in range(40):
            judge = Judge("default", settings, OpenAIClient(settings, clock), clock)
            made = workers(store, clock, judge, tuning=WorkerTuning(poll_seconds=0.01))
            seen = server.count
            await made.start()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    while server.count < seen + 5:
                        await asyncio.sleep(0)
            await made.stop(1.0)
            await judge.close()
            if states(store)["pending"] <= sum(mode in ("server_error", "drop", "overloaded") for mode in script):
                break
    done = states(store)
    found = verdicts(store)
    keys = {(item["invocation_id"], item["rubric"]) for item in found}
    assert len(keys) == len(found) == done["done"]
    assert done["error"] == 0
    counted = sum(tally.value for tally in store.tallies() if tally.metric == "verdicts_total")
    assert counted == len(found) >= 40 + 40 - 9
