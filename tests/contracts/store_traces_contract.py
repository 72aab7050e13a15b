"""Traces and invocations: what is stored comes back, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from monitor.model.invocation import Completeness, SettledBy
from monitor.model.run import JournalPosition, Query
from monitor.model.tallies import TallyName
from monitor.model.verdict import Outcome
from monitor.model.wire import invocation_json
from monitor.store.protocol import Store
from tests.contracts.store_material import (
    BOOKING,
    T0,
    TONE,
    draw_and_claim,
    figures,
    invocation,
    pages,
    request,
    settlement,
    take_all,
    verdict_of,
)


class TracesContract:
    """What a store promises of traces."""

    def test_an_invocation_comes_back_as_it_was(self, store: Store) -> None:
        """Every field survives, with nanoseconds, null results that were seen, and the operation that the JSON does not have."""
        one = invocation()
        store.save_traces([settlement(one)])
        assert store.invocation(one.id) == one

    def test_an_invocation_of_nothing_but_ids_comes_back(self, store: Store) -> None:
        """What the telemetry did not carry stays absent."""
        absent = dict.fromkeys(
            ("conversation_id", "agent_name", "agent_version", "environment", "service", "model", "operation",
             "system_instructions", "user_input", "final_response", "input_tokens", "output_tokens")
        )  # fmt: skip
        empty: dict[str, Any] = dict.fromkeys(("history", "tool_definitions", "tool_calls"), ())
        one = invocation(**absent, **empty, attributes={}, completeness=Completeness(SettledBy.IDLE))
        store.save_traces([settlement(one)])
        assert store.invocation(one.id) == one

    def test_odd_values_are_stored(self, store: Store) -> None:
        """Half a surrogate pair, a NUL, a time beyond 63 bits and a huge text neither raise nor keep others out of the store."""
        odd = invocation(
            "odd",
            agent_name="a\ud83d",
            model="m\x00",
            ended_at=2**64 - 1,
            input_tokens=2**70,
            user_input="\udc00" + "x" * 300_000,
        )
        store.save_traces([settlement(odd), settlement(invocation("b"))])
        found = store.invocation(odd.id)
        assert found is not None
        assert found.user_input == odd.user_input
        assert store.invocation(invocation("b").id) is not None
        assert len(list(pages(store.list_invocations))) == 2

    def test_a_trace_comes_back_with_its_spans(self, store: Store) -> None:
        """Raw spans, positions, member spans and digests are what late data is compared with."""
        one = invocation()
        told = settlement(one, late_spans=2, settled_by="idle")
        store.save_traces([told])
        found = store.trace(one.trace_id)
        assert found is not None
        assert (found.spans, found.consumed, found.settled_at) == (told.spans, told.consumed, told.settled_at)
        assert (found.settled_by, found.late_spans) == ("idle", 2)
        (kept,) = found.invocations
        assert (kept.invocation, kept.span_ids, kept.digest, kept.judged) == (
            one,
            told.changes[0].span_ids,
            "d1",
            False,
        )

    def test_span_ids_of_any_form_come_back(self, store: Store) -> None:
        """A span id that is no 16 hex digits is kept as it is."""
        one = invocation()
        change = replace(
            settlement(one).changes[0], span_ids=frozenset({"00000000000000ab", "odd", "ABCDEF0123456789"})
        )
        store.save_traces([settlement(one, changes=(change,))])
        found = store.trace(one.trace_id)
        assert found is not None
        assert found.invocations[0].span_ids == change.span_ids

    def test_unknown_ids_give_none(self, store: Store) -> None:
        """What was never stored is not there."""
        assert store.trace("f" * 32) is None
        assert store.invocation("nobody") is None
        assert store.decisions("f" * 32) == []

    def test_positions_of_settled_traces(self, store: Store) -> None:
        """Only settled traces have a position, and that of the newest settlement."""
        one, other = invocation("a"), invocation("b")
        store.save_traces([settlement(one), settlement(other, consumed=JournalPosition(2, 5))])
        store.save_traces([settlement(one, consumed=JournalPosition(3, 1))])
        found = store.consumed_positions([one.trace_id, other.trace_id, "f" * 32])
        assert found == {one.trace_id: JournalPosition(3, 1), other.trace_id: JournalPosition(2, 5)}

    def test_saving_twice_changes_nothing(self, store: Store) -> None:
        """A settlement that is replayed after a crash neither counts nor queues again."""
        one = settlement(invocation())
        store.save_traces([one])
        before = store.trace(one.trace_id)
        store.save_traces([one, one])
        assert store.trace(one.trace_id) == before
        assert figures(store, TallyName.INVOCATIONS) == {("restaurant-bot", "1.4", "production", "root_ended"): 1}
        run = store.execute_run(request(), take_all)
        assert run is not None
        assert (run.considered, run.evaluations) == (1, 1)

    def test_an_older_settlement_does_not_replace_a_newer(self, store: Store) -> None:
        """The first settlement, replayed after the second was stored, leaves the second in place."""
        first = settlement(invocation())
        second = settlement(
            invocation(revision=2, final_response="later"), consumed=JournalPosition(1, 200), spans=b"all", digest="d2"
        )
        store.save_traces([first])
        store.save_traces([second])
        store.save_traces([first])
        found = store.trace(first.trace_id)
        assert found is not None
        assert (found.spans, found.consumed) == (b"all", JournalPosition(1, 200))
        assert found.invocations[0].invocation.final_response == "later"

    def test_a_revision_replaces_and_keeps_decisions(self, store: Store) -> None:
        """A revision of a considered invocation is not considered again, and is counted once."""
        store.save_traces([settlement(invocation())])
        store.execute_run(request(), take_all)
        revised = invocation(revision=2, user_input="later", agent_version="1.5")
        store.save_traces([settlement(revised, consumed=JournalPosition(1, 200), digest="d2")])
        assert store.invocation(revised.id) == revised
        run = store.execute_run(request(tick=T0 + 120), take_all)
        assert run is not None
        assert run.considered == 0
        assert sum(figures(store, TallyName.INVOCATIONS).values()) == 1
        (claimed,) = store.claim_evaluations(10, T0 + 121, 60)
        assert (claimed.revision, claimed.invocation.user_input) == (2, "later")

    def test_rejudge_asks_for_the_same_rubric_versions_again(self, store: Store) -> None:
        """A judged invocation that changed gets pending evaluations of what it was drawn for, with its u and probability."""
        evaluations = draw_and_claim(store, invocation(), rubrics=(BOOKING, TONE))
        store.finish_evaluations([(one, verdict_of(one)) for one in evaluations])
        assert store.claim_evaluations(10, T0 + 200, 60) == ()
        revised = settlement(
            invocation(revision=2), consumed=JournalPosition(1, 200), rejudge=True, settled_at=T0 + 200
        )
        store.save_traces([revised])
        again = store.claim_evaluations(10, T0 + 201, 60)
        assert [(e.rubric, e.number, e.inclusion_probability, e.revision, e.attempts) for e in again] == [
            (e.rubric, e.number, e.inclusion_probability, 2, 0) for e in evaluations
        ]

    def test_rejudge_leaves_what_was_never_judged_in_the_queue_once(self, store: Store) -> None:
        """A revision of an invocation that is still pending, or was not drawn, makes no further evaluation."""
        store.save_traces([settlement(invocation("a")), settlement(invocation("b"))])
        store.save_traces([settlement(invocation("b", revision=2), consumed=JournalPosition(1, 200), rejudge=True)])
        assert store.claim_evaluations(10, T0 + 59, 60) == ()
        store.execute_run(request(), take_all)
        store.save_traces([settlement(invocation("a", revision=2), consumed=JournalPosition(1, 200), rejudge=True)])
        assert sorted(e.invocation.revision for e in store.claim_evaluations(10, T0 + 61, 60)) == [2, 2]

    def test_without_rejudge_the_verdict_stands(self, store: Store) -> None:
        """A change that is not to be judged again leaves the verdict and asks for nothing."""
        evaluations = draw_and_claim(store, invocation())
        store.finish_evaluations([(one, verdict_of(one)) for one in evaluations])
        store.save_traces([settlement(invocation(revision=2), consumed=JournalPosition(1, 200))])
        assert store.claim_evaluations(10, T0 + 200, 60) == ()
        (verdict,) = store.list_verdicts(Query()).items
        assert verdict["revision"] == 1
        found = store.trace(evaluations[0].invocation.trace_id)
        assert found is not None
        assert found.invocations[0].judged

    def test_earlier_revisions_are_kept_with_what_was_said_of_them(self, store: Store) -> None:
        """A revision and a new verdict leave the old ones to be read, newest first, five at most; the newest is not among them."""
        (first,) = draw_and_claim(store, invocation())
        store.finish_evaluations([(first, verdict_of(first, Outcome.FAIL))])
        assert store.earlier_revisions(first.invocation.id) == ()
        for n in range(2, 9):
            revised = invocation(revision=n, user_input=f"text {n}")
            store.save_traces([settlement(revised, consumed=JournalPosition(1, n * 100), rejudge=True)])
            (again,) = store.claim_evaluations(10, T0 + 61 + n, 60)
            store.finish_evaluations([(again, verdict_of(again))])
            if n == 2:
                (kept,) = store.earlier_revisions(first.invocation.id)
                assert invocation_json(kept.invocation) == invocation_json(invocation())
                assert [(v["verdict"], v["revision"]) for v in kept.verdicts] == [("fail", 1)]
                assert kept.verdicts[0]["explanation"] == verdict_of(first).judgement.explanation
        kept_all = store.earlier_revisions(first.invocation.id)
        assert [one.invocation.revision for one in kept_all] == [7, 6, 5, 4, 3]
        assert [one.invocation.user_input for one in kept_all][:2] == ["text 7", "text 6"]
        assert all([v["verdict"] for v in one.verdicts] == ["pass"] for one in kept_all)
        assert store.earlier_revisions("other") == ()

    def test_a_claim_of_an_older_revision_is_void(self, store: Store) -> None:
        """When data comes while an evaluation is under way, the old result is ignored and the new revision is judged."""
        (old,) = draw_and_claim(store, invocation())
        store.save_traces([settlement(invocation(revision=2), consumed=JournalPosition(1, 200))])
        store.finish_evaluations([(old, verdict_of(old, Outcome.FAIL))])
        assert store.list_verdicts(Query()).items == ()
        (new,) = store.claim_evaluations(10, T0 + 62, 60)
        store.finish_evaluations([(new, verdict_of(new))])
        assert [v["verdict"] for v in store.list_verdicts(Query()).items] == ["pass"]

    def test_a_merged_invocation_leads_to_the_one_that_holds_it(self, store: Store) -> None:
        """The later of two merged invocations is not considered, judged, listed or in rates; its id leads to the other."""
        first = invocation("a")
        second, drawn = invocation("b", trace_id=first.trace_id), invocation("c", trace_id=first.trace_id)
        store.save_traces([settlement(first, drawn)])
        store.execute_run(request(), take_all)
        judged = next(e for e in store.claim_evaluations(10, T0 + 61, 60) if e.invocation.id == drawn.id)
        store.finish_evaluations([(judged, verdict_of(judged))])
        store.save_traces([settlement(first, second, consumed=JournalPosition(1, 150))])
        merged = {second.id: first.id, drawn.id: first.id}
        whole = replace(first, revision=2)
        store.save_traces([settlement(whole, consumed=JournalPosition(1, 200), merged=merged)])
        assert store.invocation(second.id) == whole
        assert store.invocation(drawn.id) == whole
        run = store.execute_run(request(tick=T0 + 120), take_all)
        assert run is not None
        assert run.considered == 0
        assert store.judged("m", 0, T0 * 2) == []
        assert [item["id"] for item in pages(store.list_invocations)] == [first.id]
        assert list(pages(store.list_verdicts)) == []
        found = store.trace(first.trace_id)
        assert found is not None
        assert [kept.invocation.id for kept in found.invocations] == [first.id]
        assert sum(figures(store, TallyName.VERDICTS).values()) == 1

    def test_a_merge_gives_up_pending_evaluations(self, store: Store) -> None:
        """What was drawn and not yet judged is judged no more once it is part of another."""
        first, second = invocation("a"), invocation("b", trace_id=invocation("a").trace_id)
        store.save_traces([settlement(first, second)])
        store.execute_run(request(), take_all)
        merging = settlement(replace(first, revision=2), consumed=JournalPosition(1, 200), merged={second.id: first.id})
        store.save_traces([merging])
        assert [e.invocation.id for e in store.claim_evaluations(10, T0 + 61, 60)] == [first.id]

    def test_everything_is_there_after_opening_again(self, store: Store, open_again: Callable[[], Store]) -> None:
        """Closing and opening loses nothing and may be done twice."""
        one = settlement(invocation())
        store.save_traces([one])
        store.close()
        store.close()
        again = open_again()
        assert again.invocation(invocation().id) == invocation()
        assert again.oldest_waiting("m") == one.settled_at
