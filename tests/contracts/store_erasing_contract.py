"""Erasing: people forgotten, what nobody wanted, retention."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor.model.conversation import conversation_name
from monitor.model.invocation import Capture, Invocation
from monitor.model.run import JournalPosition, Query
from monitor.model.tallies import TallyName
from monitor.model.verdict import NotSelected
from monitor.store.protocol import Store
from tests.contracts.store_material import (
    BOOKING,
    SECRET,
    T0,
    TONE,
    draw_and_claim,
    figures,
    invocation,
    leave_all,
    request,
    settlement,
    take_all,
    verdict_of,
)

DAY = 86400.0


def said(store: Store, name: str) -> str | None:
    """The stored user input of an invocation."""
    found = store.invocation(invocation(name).id)
    assert found is not None
    return found.user_input


class ErasingContract:
    """What a store promises of erasing."""

    def test_forgetting_a_trace_erases_what_was_said(self, store: Store) -> None:
        """Messages, arguments, results, spans, explanations and attributes go; numbers, names, ids and tallies stay."""
        evaluations = draw_and_claim(store, invocation("a"), invocation("b"))
        store.finish_evaluations([(one, verdict_of(one)) for one in evaluations])
        before = store.tallies()
        assert store.forget(trace_id=invocation("a").trace_id) == 1
        found = store.invocation(invocation("a").id)
        assert found is not None
        assert (found.user_input, found.final_response, found.history, found.attributes) == (None, None, (), {})
        assert [(call.name, call.arguments, call.result) for call in found.tool_calls] == [
            (name, None, None) for name in ("find_table", "book_table", "book_table")
        ]
        assert (found.input_tokens, found.agent_name, found.trace_id) == (
            1_000,
            "restaurant-bot",
            invocation("a").trace_id,
        )
        assert found.completeness.capture["user_input"] is Capture.REDACTED
        assert found.completeness.capture["tool_calls[0].result"] is Capture.REDACTED
        trace = store.trace(invocation("a").trace_id)
        assert trace is not None
        assert trace.spans is None
        verdicts = {v["trace_id"]: v for v in store.list_verdicts(Query()).items}
        gone, kept = verdicts[invocation("a").trace_id], verdicts[invocation("b").trace_id]
        assert SECRET not in str(gone)
        assert (gone["verdict"], gone["score"], gone["criteria"][0]["score"], gone["criteria"][0]["votes"]) == (
            "pass", 0.72, 5, {"5": 2, "4": 1},
        )  # fmt: skip
        assert SECRET in str(kept)
        assert said(store, "b") == SECRET
        assert store.tallies() == before

    def test_earlier_revisions_are_forgotten_too(self, store: Store) -> None:
        """What late data replaced goes with the invocation's content, also when it was replaced after its erasing."""
        (first,) = draw_and_claim(store, invocation("a"))
        store.finish_evaluations([(first, verdict_of(first))])
        for n in (2, 3):
            revised = settlement(invocation("a", revision=n), consumed=JournalPosition(1, n * 100), rejudge=True)
            store.save_traces([revised])
            (again,) = store.claim_evaluations(10, T0 + 100 * n, 60)
            store.finish_evaluations([(again, verdict_of(again))])
            if n == 2:
                assert len(store.earlier_revisions(first.invocation.id)) == 1
                store.forget(trace_id=first.invocation.trace_id)
            assert store.earlier_revisions(first.invocation.id) == ()

    def test_forgetting_a_conversation_goes_over_its_traces(self, store: Store) -> None:
        """All invocations of the conversation are erased, those of others are not."""
        store.save_traces(
            [settlement(invocation("a")), settlement(invocation("b")), settlement(invocation("c", conversation_id="x"))]
        )
        assert store.forget(conversation_id="conversation-1") == 2
        assert [said(store, name) for name in "abc"] == [None, None, SECRET]
        assert store.forget(conversation_id="nobody") == 0

    def test_forgetting_needs_one_of_both(self, store: Store) -> None:
        """Neither and both are mistakes of the caller."""
        with pytest.raises(ValueError, match="one of them"):
            store.forget()
        with pytest.raises(ValueError, match="one of them"):
            store.forget(trace_id="a", conversation_id="b")

    def test_what_was_forgotten_does_not_come_back(self, store: Store) -> None:
        """Late data of a forgotten trace, and verdicts that come in after it, are stored without content."""
        (evaluation,) = draw_and_claim(store, invocation())
        store.forget(trace_id=invocation().trace_id)
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        (verdict,) = store.list_verdicts(Query()).items
        assert (verdict["verdict"], verdict["explanation"]) == ("pass", "")
        late = invocation(revision=2)
        other = invocation("late", trace_id=late.trace_id)
        store.save_traces([settlement(late, other, consumed=JournalPosition(1, 200))])
        assert said(store, "a") is None
        found = store.invocation(other.id)
        assert found is not None
        assert found.user_input is None
        trace = store.trace(late.trace_id)
        assert trace is not None
        assert trace.spans is None

    def test_what_is_forgotten_while_it_is_open_is_stored_without_content(self, store: Store) -> None:
        """A trace, or what began in a conversation before it was to be forgotten, settles later: known, without content or spans."""
        assert store.forget(trace_id=invocation("a").trace_id, now=T0 + 1) == 0
        assert store.forget(conversation_id="c", now=T0 + 1) == 0
        later = int((T0 + 2) * 1e9)
        kept = invocation("later", conversation_id="c", started_at=later, ended_at=later + 1)
        store.expire(T0 + 30, 1e6, 1e6, None)
        store.save_traces([settlement(one) for one in (invocation("a"), invocation("b", conversation_id="c"), kept)])
        for name in ("a", "b"):
            found = store.invocation(invocation(name).id)
            assert found is not None
            assert (found.user_input, found.attributes) == (None, {})
            trace = store.trace(found.trace_id)
            assert trace is not None and trace.spans is None
        assert store.invocation(kept.id) == kept

    def test_one_of_the_conversations_of_an_id_is_forgotten(self, store: Store) -> None:
        """By service, environment or full name, stored or still open; those of the id elsewhere stay. The bare id means all of them."""
        places = {"a": ("shop", "live"), "b": ("shop", "test"), "c": ("desk", "live"), "d": ("desk", "test")}

        def turns(prefix: str) -> list[Invocation]:
            return [invocation(prefix + n, service=s, environment=e) for n, (s, e) in places.items()]

        def left(prefix: str) -> str:
            return "".join(name for name in places if said(store, prefix + name) is not None)

        store.save_traces([settlement(one) for one in turns("")])
        name = conversation_name(("conversation-1", "shop", "test"), taken=True)
        steps = (
            ({"conversation_id": name.removeprefix("conversation:")}, "acd"),
            ({"conversation_id": "conversation-1", "service": "desk", "environment": "live"}, "ad"),
            ({"conversation_id": "conversation-1", "environment": "live"}, "d"),
            ({"conversation_id": name, "service": "desk"}, "d"),
            ({"conversation_id": "conversation:conversation-1"}, ""),
        )
        for number, (asked, kept) in enumerate(steps):
            named = store.conversations_named(**asked)
            assert store.forget(**asked, now=T0 + 1) == sum(count for _, count in named)
            assert left("") == kept
            store.save_traces([settlement(one) for one in turns(str(number))])
            assert left(str(number)) == kept
        assert [count for _, count in store.conversations_named("conversation-1")] == [6, 6, 6, 6]

    def test_an_erased_invocation_is_still_judged(self, store: Store) -> None:
        """A pending evaluation of forgotten content is claimed, and its invocation says that the content is redacted."""
        store.save_traces([settlement(invocation())])
        store.execute_run(request(), take_all)
        store.forget(trace_id=invocation().trace_id)
        (evaluation,) = store.claim_evaluations(10, T0 + 61, 60)
        assert evaluation.invocation.completeness.capture["final_response"] is Capture.REDACTED

    def test_unwanted_content_goes_when_all_have_considered(self, store: Store) -> None:
        """Content goes once every monitor has looked and none has drawn; what one has drawn is kept."""
        store.save_traces(
            [settlement(invocation("a"), monitors=("m", "n")), settlement(invocation("b"), monitors=("n",))]
        )
        store.execute_run(request("m"), leave_all(NotSelected.SAMPLED_OUT))
        assert store.drop_unwanted_content() == 0
        store.execute_run(request("n"), lambda c, carry: replace(
            take_all(c, carry), decisions=tuple(
                replace(d, drawn=d.invocation_id == invocation("b").id, reason=None if d.invocation_id == invocation("b").id else NotSelected.OVER_CAP)
                for d in take_all(c, carry).decisions
            ),
        ))  # fmt: skip
        assert store.drop_unwanted_content() == 1
        assert [said(store, name) for name in "ab"] == [None, SECRET]
        spans = [getattr(store.trace(invocation(name).trace_id), "spans", None) for name in "ab"]
        assert spans[0] is None
        assert spans[1] is not None
        assert store.drop_unwanted_content() == 0

    def test_judged_content_goes_once_every_evaluation_has_ended(self, store: Store) -> None:
        """Where nothing is to be kept, content stays until the last evaluation has ended, and then goes with its explanations."""
        store.save_traces([settlement(invocation())])
        store.execute_run(request(rubrics=(BOOKING, TONE)), take_all)
        first, second = store.claim_evaluations(10, T0 + 61, 60)
        store.finish_evaluations([(first, verdict_of(first))])
        assert store.drop_unwanted_content(judged_too=True) == 0
        assert said(store, "a") == SECRET
        store.finish_evaluations([(second, verdict_of(second))])
        assert store.drop_unwanted_content() == 0
        assert store.drop_unwanted_content(judged_too=True) == 1
        assert said(store, "a") is None
        assert {item["explanation"] for item in store.list_verdicts(Query()).items} <= {"", None}
        assert len(store.list_verdicts(Query()).items) == 2

    def test_a_replay_does_not_bring_back_what_was_dropped(self, store: Store) -> None:
        """A settlement that is stored again after a crash leaves erased content and spans erased."""
        told = settlement(invocation(), monitors=())
        store.save_traces([told])
        assert store.drop_unwanted_content() == 1
        store.save_traces([told])
        assert said(store, "a") is None
        trace = store.trace(told.trace_id)
        assert trace is not None
        assert trace.spans is None

    def test_unwanted_content_goes_in_bounded_steps(self, store: Store) -> None:
        """At most `limit` a call, until there is none."""
        store.save_traces([settlement(invocation(str(n)), monitors=()) for n in range(5)])
        assert [store.drop_unwanted_content(2) for _ in range(4)] == [2, 2, 1, 0]

    def test_spans_stay_while_an_invocation_of_the_trace_is_wanted(self, store: Store) -> None:
        """A trace of two invocations keeps its raw spans for the one that was drawn."""
        first, second = invocation("a"), invocation("b", trace_id=invocation("a").trace_id)
        store.save_traces([settlement(first, second)])
        store.execute_run(request(), lambda c, carry: replace(
            take_all(c, carry), decisions=tuple(
                replace(d, drawn=d.invocation_id == first.id, reason=None if d.invocation_id == first.id else NotSelected.OVER_CAP)
                for d in take_all(c, carry).decisions
            ),
        ))  # fmt: skip
        assert store.drop_unwanted_content() == 1
        trace = store.trace(first.trace_id)
        assert trace is not None
        assert trace.spans is not None

    def test_content_goes_after_its_retention_and_verdicts_stay(self, store: Store) -> None:
        """Content older than its retention is erased, explanations included; younger content and all figures stay."""
        (evaluation,) = draw_and_claim(store, invocation("old"))
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        store.save_traces([settlement(invocation("young"), settled_at=T0 + 10 * DAY)])
        store.expire(T0 + 30 + 14 * DAY + 1, 14 * DAY, 180 * DAY, None)
        assert said(store, "old") is None
        assert said(store, "young") == SECRET
        (verdict,) = store.list_verdicts(Query()).items
        assert (verdict["score"], verdict["explanation"]) == (0.72, "")
        trace = store.trace(invocation("old").trace_id)
        assert trace is not None
        assert trace.spans is None
        assert len(store.judged("m", 0, T0 * 2)) == 1

    def test_rows_go_after_the_retention_of_verdicts_and_tallies_stay(self, store: Store) -> None:
        """Old invocations go with all that hangs on them; tallies, the rubric versions and the newest run stay."""
        for n in range(3):
            store.save_traces([settlement(invocation(f"old{n}"))])
            store.execute_run(request(tick=T0 + 60 + n), take_all)
        (first, *_) = store.claim_evaluations(1, T0 + 70, 60)
        store.finish_evaluations([(first, verdict_of(first))])
        store.save_traces(
            [settlement(invocation("waiting")), settlement(invocation("young"), settled_at=T0 + 100 * DAY)]
        )
        store.fail_run(request(tick=T0 + 90), "broken")
        store.remember_rubric("aaaaaaaaaaaa", {"name": "booking"}, T0)
        before = figures(store, TallyName.VERDICTS) | figures(store, TallyName.INVOCATIONS)
        store.expire(T0 + 181 * DAY, 14 * DAY, 180 * DAY, None)
        assert [item["id"] for item in store.list_invocations(Query()).items] == [invocation("young").id]
        assert store.list_verdicts(Query()).items == store.list_evaluations(Query()).items == ()
        assert store.trace(invocation("old0").trace_id) is None
        assert store.decisions(invocation("old0").trace_id) == []
        assert store.oldest_waiting("m") == T0 + 100 * DAY
        assert [run["outcome"] for run in store.list_runs(Query()).items] == ["failed", "done"]
        newest = store.last_run("m", completed=True)
        assert newest is not None
        assert newest.tick == T0 + 62
        assert store.rubric_definition("aaaaaaaaaaaa") is not None
        assert figures(store, TallyName.VERDICTS) | figures(store, TallyName.INVOCATIONS) == before

    def test_a_row_that_expired_under_a_worker_is_ignored(self, store: Store) -> None:
        """A result for an invocation that was deleted meanwhile changes nothing."""
        (evaluation,) = draw_and_claim(store, invocation())
        store.expire(T0 + 181 * DAY, 14 * DAY, 180 * DAY, None)
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        store.postpone_evaluation(evaluation, T0)
        store.release_evaluations([evaluation])
        assert figures(store, TallyName.VERDICTS) == {}

    def test_the_oldest_content_goes_first_when_space_is_short(self, store: Store) -> None:
        """Above the size content goes from the oldest on, no further than needed; heads stay."""
        noise = "".join(f"{n:x}" for n in range(60_000))
        for n in range(400):
            store.save_traces(
                [settlement(invocation(str(n), final_response=noise[n : n + 20_000]), settled_at=T0 + n, spans=None)]
            )
        store.expire(T0 + 400, 14 * DAY, 180 * DAY, 2 * 1024**2)
        kept = [n for n in range(400) if said(store, str(n)) is not None]
        assert 20 < len(kept) < 380
        assert kept == list(range(400 - len(kept), 400))
        assert len(list(store.list_invocations(Query(limit=1_000)).items)) == 400
