"""Judges asked again: a share of verdicts twice, and a golden set on a schedule, through a real judge and a real store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import ManualClock
from monitor.exporters.prometheus.figures import agreement_family
from monitor.judging.checks import CheckPlan, JudgeChecks
from monitor.judging.client import CallFault, FaultKind, JudgeRequest
from monitor.judging.clients.scripted import Line, ScriptedClient
from monitor.judging.golden import GoldenFault, read_golden
from monitor.judging.judge import Judge
from monitor.labels.labels import Labels
from monitor.model.labels import Against
from monitor.model.run import RubricRef
from monitor.model.verdict import Outcome
from monitor.model.watched import WatchedMonitor, WatchedRubric
from monitor.model.wire import invocation_json
from monitor.rubrics.version import definition, rubric_version
from monitor.settings.tree import JudgeSettings
from monitor.store.sqlite import SqliteStore
from tests.contracts.store_material import T0, draw_and_claim, invocation, verdict_of
from tests.support.judging import rubric

SETTINGS = JudgeSettings.model_validate({"model": "judge-model", "base_url": "http://judge/v1"})
POLITE = rubric('{name: polite, statement: "The answer never blames the guest."}')
REF = RubricRef("polite", rubric_version(POLITE, SETTINGS), "default")
WATCHED = (WatchedMonitor("m", (WatchedRubric("polite", REF.version, "properties", "default", "judge-model"),)),)
DAY = 86400.0


def reply(passed: bool) -> str:
    part = {"evidence": [], "reasoning": "because", "verdict": "yes" if passed else "no"}
    return json.dumps({"properties": {"statement": part}})


def golden_line(name: str, label: str = "pass", **changes: Any) -> str:
    given = {"id": name, "rubric": "polite", "label": label, "invocation": invocation_json(invocation(name))}
    return json.dumps({**given, **changes})


class World:
    """A store with judged invocations, a judge that says what the test wants, and checks of it."""

    def __init__(self, folder: Path, **plan: Any) -> None:
        self.store, self.clock = SqliteStore(folder), ManualClock(T0 + 1000 * DAY)
        self.store.remember_rubric(REF.version, definition(POLITE, SETTINGS), T0)
        self.answer: Line = reply(True)
        self.client = ScriptedClient(self._say)
        self.judge = Judge("default", SETTINGS, self.client, self.clock)
        self.plan = CheckPlan("m", (REF,), **plan)
        self.restart()
        self.labels = Labels(self.store, self.clock, lambda: WATCHED)

    def _say(self, _request: JudgeRequest) -> Line:
        return self.answer

    def restart(self) -> None:
        """A new process over the same store."""
        self.checks = JudgeChecks(self.store, lambda: {"default": self.judge}, self.clock, lambda: (self.plan,))

    def judged(self, *names: str, outcome: Outcome = Outcome.PASS) -> None:
        """First verdicts of invocations."""
        for evaluation in draw_and_claim(self.store, *(invocation(name) for name in names), rubrics=(REF,)):
            self.store.finish_evaluations([(evaluation, verdict_of(evaluation, outcome))])

    def agreement(self) -> dict[str, float]:
        """The gauge, by what it is against."""
        self.clock.advance(60.0)
        return {row.key[2]: row.values[0] for row in agreement_family(self.labels.agreement()).rows}


async def test_a_share_of_verdicts_is_asked_for_twice(tmp_path: Path) -> None:
    """With a share of 1 each new verdict is asked for once more and compared; history is not, nor anything twice, also after a restart."""
    world = World(tmp_path, judge_twice=1.0)
    await world.checks.step()
    world.judged("a", "b", "c")
    world.answer = reply(True)
    await world.checks.step()
    world.restart()
    await world.checks.step()
    assert len(world.client.requests) == 3
    checks = world.store.judge_checks(0)
    assert {(one.against, one.expected, one.verdict) for one in checks} == {(Against.SELF, "pass", "pass")}
    assert world.agreement() == {"self": 1.0}


async def test_a_judge_that_contradicts_itself_shows(tmp_path: Path) -> None:
    """Verdicts that come out otherwise the second time lower the agreement; the verdicts themselves stay."""
    world = World(tmp_path, judge_twice=1.0)
    await world.checks.step()
    world.judged("a", "b")
    world.answer = reply(False)
    await world.checks.step()
    assert world.agreement() == {"self": 0.0}
    assert {row.outcome for row in world.store.judged("m", 0, T0 + 10 * DAY)} == {"pass"}


async def test_who_is_asked_twice_is_a_matter_of_chance(tmp_path: Path) -> None:
    """With a share of a third about a third is asked, the same ones whoever asks; with none nothing is."""
    world = World(tmp_path, judge_twice=1 / 3)
    await world.checks.step()
    world.judged(*(f"n{n}" for n in range(60)))
    await world.checks.step()
    assert 10 <= len(world.client.requests) <= 30
    world.plan = replace(world.plan, judge_twice=0.0)
    world.judged("later")
    await world.checks.step()
    assert 10 <= len(world.client.requests) <= 30


async def test_a_golden_set_is_judged_once_a_round(tmp_path: Path) -> None:
    """Each case is asked once a round and compared with its label; the next round asks anew."""
    cases = tuple(read_golden("\n".join([golden_line("a"), golden_line("b", "fail")])))
    world = World(tmp_path, golden=cases, every=DAY)
    await world.checks.step()
    await world.checks.step()
    world.restart()
    await world.checks.step()
    assert len(world.client.requests) == 2 and world.agreement() == {"golden": 0.5}
    world.clock.advance(DAY)
    world.answer = reply(False)
    await world.checks.step()
    assert len(world.client.requests) == 4 and world.agreement() == {"golden": 0.5}
    assert {row.key for row in world.store.judge_checks(0)} == {"a", "b"}


async def test_a_drop_on_golden_cases_marks_the_version(tmp_path: Path) -> None:
    """When the judge turns on cases that it had right, its rubric version is in doubt."""
    cases = tuple(read_golden("\n".join(golden_line(str(n)) for n in range(12))))
    world = World(tmp_path, golden=cases, every=DAY)
    await world.checks.step()
    assert world.labels.moved() == frozenset()
    world.clock.advance(DAY)
    world.answer = reply(False)
    await world.checks.step()
    world.clock.advance(60.0)
    assert world.labels.moved() == {REF.version}


async def test_a_case_that_could_not_be_asked_is_asked_again(tmp_path: Path) -> None:
    """A failed call is no disagreement: the case waits some minutes and is asked in the same round."""
    world = World(tmp_path, golden=tuple(read_golden(golden_line("a"))), every=DAY)
    world.answer = CallFault(FaultKind.CONNECTION)
    await world.checks.step()
    asked = len(world.client.requests)
    await world.checks.step()
    assert len(world.client.requests) == asked and world.agreement() == {}
    world.clock.advance(700.0)
    world.answer = reply(True)
    await world.checks.step()
    assert world.agreement() == {"golden": 1.0}


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("", "no case"),
        ("[1]", "line 1: should be an object"),
        ("{", "line 1: is no JSON object"),
        (golden_line("a", label="maybe"), "line 1: label should be pass or fail"),
        (golden_line("a") + "\n" + golden_line("b", invocation=None), "line 2: invocation should be an object"),
        (golden_line("a", verdict="pass"), "'verdict' is no key here"),
        (golden_line("a") + "\n\n" + golden_line("a"), "'a' is given twice"),
    ],
)
def test_a_wrong_golden_set_is_told_by_its_line(text: str, right: str) -> None:
    """Each fault names the line and what would be right."""
    with pytest.raises(GoldenFault, match=right):
        read_golden(text)
