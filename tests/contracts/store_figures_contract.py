"""Tallies, figures for estimation, and the small things a store keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from monitor.estimation.passrate import totals
from monitor.model.run import Decision, Evaluation, RunPlan
from monitor.model.tallies import LABELS, TallyName
from monitor.model.totals import Totals
from monitor.model.verdict import NotSelected, Outcome
from monitor.store.protocol import Store
from tests.contracts.store_material import (
    BOOKING,
    T0,
    TONE,
    draw_and_claim,
    failure_of,
    figures,
    invocation,
    leave_all,
    request,
    settlement,
    take_all,
    verdict_of,
)

OUTCOMES = {"pass": Outcome.PASS, "fail": Outcome.FAIL, "na": Outcome.NOT_APPLICABLE, "un": Outcome.UNJUDGEABLE}


def judge_by_name(store: Store, evaluations: list[Evaluation]) -> None:
    """Finish evaluations as the invocation's user input says; `error` fails and `wait` stays pending."""
    for evaluation in evaluations:
        word = evaluation.invocation.user_input
        if word == "error":
            store.finish_evaluations([(evaluation, failure_of(evaluation))])
        elif word in OUTCOMES:
            store.finish_evaluations([(evaluation, verdict_of(evaluation, OUTCOMES[word]))])


class FiguresContract:
    """What a store promises of figures."""

    def test_the_label_set_appears_at_0_when_drawn(self, store: Store) -> None:
        """All four verdicts of a label set are there at 0 before the first counts, with the time of the draw."""
        store.save_traces([settlement(invocation(agent_name=None, agent_version=None, environment=None))])
        assert [t for t in store.tallies() if t.metric == TallyName.VERDICTS] == []
        store.execute_run(request(rubrics=(BOOKING, TONE)), take_all)
        found = [t for t in store.tallies() if t.metric == TallyName.VERDICTS]
        assert {(t.labels["rubric"], t.labels["verdict"], t.value, t.created_at) for t in found} == {
            (rubric, verdict.value, 0, T0 + 60) for rubric in ("booking", "tone") for verdict in Outcome
        }
        assert {(t.labels["agent"], t.labels["agent_version"], t.labels["environment"]) for t in found} == {
            ("bookings", "", "")
        }

    def test_what_is_not_drawn_makes_no_label_set(self, store: Store) -> None:
        """An agent that is never drawn has no series of verdicts."""
        store.save_traces([settlement(invocation())])
        store.execute_run(request(), leave_all(NotSelected.SAMPLED_OUT))
        assert [t for t in store.tallies() if t.metric == TallyName.VERDICTS] == []

    def test_the_exemplar_is_the_newest_failure(self, store: Store) -> None:
        """A failing verdict leaves its trace id and time; a passing one leaves none."""
        first, second, third = draw_and_claim(store, *(invocation(name) for name in "abc"))
        store.finish_evaluations([(first, verdict_of(first, Outcome.FAIL, judged_at=T0 + 1))])
        store.finish_evaluations([(second, verdict_of(second, Outcome.FAIL, judged_at=T0 + 2))])
        store.finish_evaluations([(third, verdict_of(third, Outcome.PASS, judged_at=T0 + 3))])
        found = {t.labels["verdict"]: t for t in store.tallies() if t.metric == TallyName.VERDICTS}
        assert found["fail"].exemplar == (second.invocation.trace_id, T0 + 2)
        assert found["fail"].updated_at == max(T0 + 60, T0 + 2)
        assert found["pass"].exemplar is None

    def test_tallies_have_the_labels_of_the_model(self, store: Store) -> None:
        """Every tally has exactly the labels that readers expect of its name."""
        judged, failed = draw_and_claim(store, invocation("a"), invocation("b"))
        store.finish_evaluations([(judged, verdict_of(judged)), (failed, failure_of(failed))])
        for tally in store.tallies():
            assert sorted(tally.labels) == sorted(LABELS[TallyName(tally.metric)]), tally.metric

    def test_the_last_success_is_set_not_added(self, store: Store) -> None:
        """The time of the newest successful run is a time, not a sum."""
        store.execute_run(request(tick=T0 + 60), lambda c, carry: RunPlan((), decided_at=T0 + 61))
        store.execute_run(request(tick=T0 + 120), lambda c, carry: RunPlan((), decided_at=T0 + 121))
        store.fail_run(request(tick=T0 + 180), "broken")
        assert figures(store, TallyName.RUN_LAST_SUCCESS) == {("m",): T0 + 121}

    def test_a_monitors_counters_begin_at_0(self, store: Store) -> None:
        """With a monitor's first run all its reasons and outcomes appear, so that the first of each is seen."""
        store.execute_run(request(), take_all)
        found = {(t.metric, t.labels.get("reason", t.labels.get("outcome"))) for t in store.tallies()}
        assert {(TallyName.NOT_SELECTED, reason.value) for reason in NotSelected} <= found
        assert {(TallyName.RUNS, "failed"), (TallyName.RUNS, "missed"), (TallyName.SELECTED, None)} <= found

    def test_other_tallies_are_added_up(self, store: Store) -> None:
        """What no other method counts can be counted, whatever its labels are."""
        labels = {"metric": "verdicts_total", "agent": 'a"b\\c\n\u00e9\ud83d'}
        store.add_tally("folded", labels, 2.0, T0)
        store.add_tally("folded", dict(reversed(labels.items())), 0.5, T0 + 5)
        (tally,) = store.tallies()
        assert (tally.value, tally.created_at, tally.updated_at) == (2.5, T0, T0 + 5)
        assert tally.labels["metric"] == "verdicts_total"

    def test_judged_are_the_counted_verdicts_of_a_window(self, store: Store) -> None:
        """Verdicts come by the invocation's end in [since, until), with labels, probability and score."""
        ends = [T0 + 1, T0 + 2, T0 + 3]
        evaluations = draw_and_claim(
            store,
            *(invocation(str(end), ended_at=int(end * 1e9), agent_version=None, user_input="pass") for end in ends),
        )
        judge_by_name(store, evaluations)
        found = store.judged("m", T0 + 2, T0 + 3)
        assert [(one.ended_at, one.outcome, one.agent, one.agent_version) for one in found] == [
            (T0 + 2, "pass", "restaurant-bot", "")
        ]
        assert (found[0].rubric_version, found[0].inclusion_probability, found[0].score) == (BOOKING.version, 0.5, 0.72)
        assert (found[0].conversation_id, found[0].invocation_id) == ("conversation-1", invocation(str(T0 + 2)).id)
        assert store.judged("other", 0, T0 * 2) == []

    def test_unscored_are_failed_and_pending(self, store: Store) -> None:
        """What was drawn and has no verdict is told by its state."""
        words = ["pass", "error", "wait"]
        evaluations = draw_and_claim(store, *(invocation(word, user_input=word) for word in words))
        judge_by_name(store, evaluations)
        assert sorted(one.outcome for one in store.unscored("m", 0, T0 * 2)) == ["error", "pending"]
        assert store.unscored("m", 0, T0) == []

    def test_window_figures_are_sums_over_judged_and_unscored(self, store: Store) -> None:
        """Counts and weights of a window equal those added up from single verdicts; pending ones are in none."""
        words = ["pass", "pass", "fail", "na", "un", "error", "wait", "pass", "fail"]
        judge_by_name(
            store,
            draw_and_claim(
                store,
                *(
                    invocation(
                        f"{n}{word}",
                        user_input=word,
                        ended_at=int((T0 + n) * 1e9),
                        agent_version=None if n == 0 else "1.4",
                    )
                    for n, word in enumerate(words)
                ),
            ),
        )
        starts = [T0 + 4, T0, T0 + 100]
        found = store.window_figures("m", starts, T0 + 8)
        whole = {(g.window, g.agent_version): g.totals for g in found.totals}
        assert set(whole) == {(0, "1.4"), (1, "1.4"), (1, "")}
        late, early = whole[0, "1.4"], whole[1, "1.4"]
        assert (late.passed, late.failed, late.not_applicable, late.unscored) == (1, 0, 0, 2)
        assert (early.passed, early.failed, early.not_applicable, early.unscored) == (2, 1, 1, 2)
        assert (early.passed_weight, early.failed_weight, early.unscored_weight, early.squared_weight) == (4, 2, 4, 12)
        assert whole[1, ""].passed == 1
        eligible = {(g.window, g.agent, g.agent_version): g.count for g in found.eligible}
        assert eligible == {
            (0, "restaurant-bot", "1.4"): 4,
            (1, "restaurant-bot", "1.4"): 7,
            (1, "restaurant-bot", ""): 1,
        }

    def test_the_eligible_are_those_neither_filtered_nor_incomplete(self, store: Store) -> None:
        """Eligible are the drawn and those left out by chance, cap, budget or miss; early drops count for whom they stand."""
        for n, reason in enumerate(NotSelected):
            store.save_traces([settlement(invocation(reason), kept_below=0.25)])
            store.execute_run(request(tick=T0 + 60 + n), leave_all(reason))
        store.save_traces([settlement(invocation("drawn"))])
        store.execute_run(request(tick=T0 + 99), take_all)
        (group,) = store.window_figures("m", [T0], T0 + 50).eligible
        assert group.count == 4 * (len(NotSelected) - 2) + 1

    def test_conversations_are_summed_as_one(self, store: Store) -> None:
        """The sums over conversations are those of the single verdicts, and a window's start does not split a conversation."""
        words = ["pass", "fail", "pass", "na", "pass", "fail", "pass", "un"]
        named = [
            invocation(f"{n}", user_input=word, ended_at=int((T0 + n) * 1e9), conversation_id=[None, "c1", "c2"][n % 3])
            for n, word in enumerate(words)
        ]
        judge_by_name(store, draw_and_claim(store, *named))
        starts = [T0, T0 + 2]
        for window, group in enumerate(store.window_figures("m", starts, T0 + 30).totals):
            inside = list(store.judged("m", starts[window], T0 + 30))
            results = [(Outcome(row.outcome), row.inclusion_probability) for row in inside]
            wanted = totals(results, [row.conversation_id for row in inside])
            for name in Totals.__dataclass_fields__:
                assert getattr(group.totals, name) == pytest.approx(getattr(wanted, name)), name

    def test_verdicts_by_stratum(self, store: Store) -> None:
        """Passed and failed are counted by the stratum that the draw named; other verdicts, and other times, are not."""
        words = ["pass", "fail", "pass", "na", "error"]
        named = [
            invocation(f"{n}", user_input=word, ended_at=int((T0 + n) * 1e9), agent_version=str(n % 2))
            for n, word in enumerate(words)
        ]

        def decide(candidates: Any, carry: float) -> RunPlan:
            return RunPlan(
                tuple(Decision(c.invocation_id, True, None, 0.5, 1.0, f"version={c.agent_version}") for c in candidates)
            )

        store.save_traces([settlement(one) for one in named])
        store.execute_run(request(), decide)
        judge_by_name(store, list(store.claim_evaluations(10, T0 + 61, 60)))
        assert store.stratum_verdicts("m", T0, T0 + 10) == {"version=0": (2, 0), "version=1": (0, 1)}
        assert store.stratum_verdicts("m", T0, T0 + 1) == {"version=0": (1, 0)}
        assert store.stratum_verdicts("other", T0, T0 + 10) == {}

    def test_windows_add_up_whatever_their_number(self, store: Store) -> None:
        """Totals of nested windows equal those of each asked alone."""
        words = ["pass", "fail", "error"] * 4
        named = [
            invocation(f"{n}", user_input=word, ended_at=int((T0 + n) * 1e9), model=f"model-{n % 3}")
            for n, word in enumerate(words)
        ]
        judge_by_name(store, draw_and_claim(store, *named, rubrics=(BOOKING, TONE)))
        starts = [T0 + n for n in (0, 3, 3, 7)]
        together = store.window_figures("m", starts, T0 + 10)
        for window, start in enumerate(starts):
            alone = store.window_figures("m", [start], T0 + 10)
            mine = {(g.rubric, g.agent): g.totals for g in together.totals if g.window == window}
            assert mine == {(g.rubric, g.agent): g.totals for g in alone.totals}
            assert math.isclose(sum(g.count for g in together.eligible if g.window == window), 10 - (start - T0))

    def test_rubric_definitions_are_kept_as_first_seen(self, store: Store) -> None:
        """The first definition of a version stays; an unknown version has none."""
        store.remember_rubric("aaaaaaaaaaaa", {"name": "booking", "dimensions": [{"id": "x"}]}, T0)
        store.remember_rubric("aaaaaaaaaaaa", {"name": "other"}, T0)
        assert store.rubric_definition("aaaaaaaaaaaa") == {"name": "booking", "dimensions": [{"id": "x"}]}
        assert store.rubric_definition("bbbbbbbbbbbb") is None

    def test_a_lease_has_one_owner(self, store: Store, open_again: Callable[[], Store]) -> None:
        """A lease is renewed by its owner, refused to others until it has run out or was given up."""
        other = open_again()
        assert store.acquire_lease("export", "a", T0, 10)
        assert not other.acquire_lease("export", "b", T0 + 9, 10)
        assert store.acquire_lease("export", "a", T0 + 9, 10)
        assert not other.acquire_lease("export", "b", T0 + 18, 10)
        assert other.acquire_lease("export", "b", T0 + 19, 10)
        store.release_lease("export", "a")
        assert not store.acquire_lease("export", "a", T0 + 20, 10)
        other.release_lease("export", "b")
        assert store.acquire_lease("export", "a", T0 + 20, 10)

    @pytest.mark.parametrize("value", [{"day": "2026-11-30", "tokens": 12}, [1, 2.5, None], "text", True])
    def test_state_is_kept_under_a_key(self, store: Store, open_again: Callable[[], Store], value: Any) -> None:
        """A JSON value comes back, also after opening again; a new one replaces it."""
        assert store.state("budget") is None
        store.set_state("budget", 0)
        store.set_state("budget", value)
        assert open_again().state("budget") == value

    def test_a_store_that_can_be_written_says_so(self, store: Store) -> None:
        """The check passes and leaves no trace in what is listed or counted."""
        store.check_writable()
        assert store.tallies() == []
        assert figures(store, TallyName.RUNS) == {}
