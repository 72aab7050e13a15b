"""Conversations: complete after silence, considered once by each monitor, revised by late turns, kept and erased with their turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from typing import Any

from monitor.model.invocation import Capture, Invocation, ToolCall
from monitor.model.run import Candidate, Level, Query, RunRequest, TraceSettlement
from monitor.model.tallies import TallyName
from monitor.model.verdict import NotSelected, Outcome
from monitor.store.protocol import Store
from tests.contracts.store_material import (
    BOOKING,
    SECRET,
    T0,
    figures,
    invocation,
    leave_all,
    request,
    settlement,
    take_all,
    verdict_of,
)
from tests.contracts.store_runs_contract import halve

NAME = "conversation:c"
IDLE = T0 + 1_000


def turn(name: str, at: float, **changes: Any) -> Invocation:
    """A turn of conversation c that began `at` seconds after T0 and took a second."""
    start = int((T0 + at) * 1e9)
    return invocation(
        name, conversation_id="c", started_at=start, ended_at=start + 10**9, user_input=f"{SECRET} {name}", **changes
    )


def settled(one: Invocation, at: float | None = None, **changes: Any) -> TraceSettlement:
    """A trace with one turn, while `talks` is a monitor of conversations and `m` one of invocations."""
    when = one.ended_at / 1e9 + 30 if at is None else T0 + at
    plain: dict[str, Any] = {"settled_at": when, "conversation_monitors": ("talks",)}
    return settlement(one, **(plain | changes))


def talks(tick: float = IDLE + 60, **changes: Any) -> RunRequest:
    """A tick of the monitor of conversations."""
    return request("talks", tick, level=Level.CONVERSATION, **changes)


def complete(store: Store, at: float = IDLE) -> int:
    """Complete what has been silent for 500 s."""
    return store.complete_conversations(at - 500, ("talks",), at)


def converse(store: Store, *turns: Invocation) -> None:
    """Store turns, and complete their conversations."""
    store.save_traces([settled(one) for one in turns])
    assert complete(store) == len({(one.conversation_id, one.service, one.environment) for one in turns})


def seen(store: Store, run: RunRequest) -> list[Candidate]:
    """The candidates of a run that draws all of them."""
    found: list[Candidate] = []
    store.execute_run(run, lambda candidates, carry: found.extend(candidates) or take_all(candidates, carry))  # type: ignore[func-returns-value]
    return found


def content(store: Store, one: Invocation) -> str | None:
    """What is stored of what a user said."""
    found = store.invocation(one.id)
    assert found is not None
    return found.user_input


class ConversationsContract:
    """What a store promises of conversations."""

    def test_figures_that_are_too_large_stop_nothing(self, store: Store) -> None:
        """Turns that claim more tokens than fit a number are summed as far as it goes, and the conversation is complete."""
        converse(store, *(turn(name, at, input_tokens=2**63 - 1, model_calls=2**62) for at, name in enumerate("abc")))
        assert store.list_invocations(Query(conversation_id="c")).items

    def test_a_silent_conversation_is_complete(self, store: Store) -> None:
        """It waits while a turn is younger than the silence; then it is one candidate with what all turns say of it, and no invocation is."""
        first = turn(
            "a", 0, agent_version="1.3", inclusion_probability=0.5, error="broke", attributes={"tenant": "x", "k": 1}
        )
        last = turn("b", 100, tool_calls=(ToolCall("pay"),), inclusion_probability=1.0, attributes={"tenant": "y"})
        store.save_traces([settled(last), settled(first)])
        assert store.complete_conversations(T0 + 130, ("talks",), T0 + 630) == 0
        assert seen(store, talks()) == []
        assert complete(store) == 1
        assert complete(store) == 0
        (found,) = seen(store, talks(IDLE + 61))
        assert (found.invocation_id, found.trace_id, found.turns, found.revision) == (NAME, last.trace_id, 2, 1)
        assert (found.agent_version, found.has_error, found.upstream_probability) == ("1.4", True, 0.5)
        assert (found.tools, found.attributes) == (
            ("find_table", "book_table", "book_table", "pay"),
            {"tenant": "y", "k": 1},
        )
        assert (found.ended_at, found.settled_at, found.sampling_key) == (T0 + 101, IDLE, "c")
        assert {one.invocation_id for one in seen(store, request(tick=IDLE))} == {first.id, last.id}

    def test_turns_are_in_the_order_in_which_they_began(self, store: Store) -> None:
        """Whatever the order in which they were stored, and in how many batches."""
        for number, order in enumerate(permutations((0, 1, 2))):
            turns = [turn(f"{number}/{place}", 10 * place, service=f"s{number}") for place in range(3)]
            for place in order:
                store.save_traces([settled(turns[place], at=50)])
            complete(store)
            found = store.invocation(NAME if number == 0 else next(self._ids(store, turns[0])))
            assert found is not None
            assert [one.id for one in found.turns] == [one.id for one in turns]

    @staticmethod
    def _ids(store: Store, one: Invocation) -> Any:
        return (d["invocation_id"] for d in store.decisions(one.trace_id) if "conversation" in d["invocation_id"])

    def test_a_conversation_reads_as_its_turns(self, store: Store) -> None:
        """Asked by the first turn, answered by the last, with all tool calls; agent, end and span are the last turn's."""
        first, last = turn("a", 0, final_response="Which day?"), turn("b", 100)
        converse(store, last, first)
        found = store.invocation(NAME)
        assert found is not None
        assert (found.user_input, found.final_response) == (first.user_input, last.final_response)
        assert (found.trace_id, found.span_id, found.ended_at) == (last.trace_id, last.span_id, last.ended_at)
        assert len(found.tool_calls) == 6
        assert found.completeness.capture["tool_calls[5].result"] is Capture.NOT_CAPTURED
        assert found.turns == (first, replace(last, history=()))

    def test_the_same_id_elsewhere_is_another_conversation(self, store: Store) -> None:
        """Another service or environment with the same conversation id has a conversation of its own, told by its name."""
        converse(store, turn("a", 0), turn("b", 1, environment="staging"), turn("c", 2, service="other"), turn("d", 3))
        names = sorted(one.invocation_id for one in seen(store, talks()))
        assert len(names) == 3
        assert names[0] == NAME
        assert all(name.startswith(f"{NAME}@") for name in names[1:])
        assert sorted(len(found.turns) for name in names if (found := store.invocation(name))) == [1, 1, 2]

    def test_a_late_turn_makes_a_revision(self, store: Store) -> None:
        """It keeps its draw and probability, is judged again where it was judged, and is counted once; its end is the late turn's."""
        converse(store, turn("a", 0))
        store.execute_run(talks(), take_all)
        (evaluation,) = store.claim_evaluations(10, IDLE + 61, 60)
        store.finish_evaluations([(evaluation, verdict_of(evaluation, Outcome.FAIL))])
        late = turn("b", 1_500)
        store.save_traces([settled(late)])
        assert not store.claim_evaluations(10, IDLE + 1_000, 60)
        assert complete(store, T0 + 3_000) == 1
        (again,) = store.claim_evaluations(10, T0 + 3_001, 60)
        assert (again.revision, again.number, again.inclusion_probability) == (2, evaluation.number, 0.5)
        assert [one.id for one in again.invocation.turns] == [turn("a", 0).id, late.id]
        store.finish_evaluations([(again, verdict_of(again, Outcome.PASS))])
        (verdict,) = store.list_verdicts(Query()).items
        assert (verdict["invocation_id"], verdict["verdict"], verdict["revision"]) == (NAME, "pass", 2)
        assert (verdict["trace_id"], verdict["span_id"]) == (late.trace_id, late.span_id)
        assert sum(figures(store, TallyName.VERDICTS).values()) == 1
        assert sum(figures(store, TallyName.VERDICTS_REVISED).values()) == 1
        (judged,) = store.judged("talks", T0, T0 + 9_000)
        assert judged.ended_at == late.ended_at / 1e9
        (earlier,) = store.earlier_revisions(NAME)
        assert [one.id for one in earlier.invocation.turns] == [turn("a", 0).id]
        assert (earlier.invocation.revision, [one["verdict"] for one in earlier.verdicts]) == (1, ["fail"])
        assert store.execute_run(talks(T0 + 4_000), take_all).considered == 0  # type: ignore[union-attr]

    def test_under_ignore_a_complete_conversation_stays(self, store: Store) -> None:
        """Under `late_spans: ignore` a turn that comes after it was complete changes nothing; the turn is an invocation all the same."""
        converse(store, turn("a", 0))
        store.save_traces([settled(turn("b", 1_200), late_turns=False)])
        assert complete(store, T0 + 100_000) == 0
        assert len(store.invocation(NAME).turns) == 1  # type: ignore[union-attr]
        assert content(store, turn("b", 1_200)) is not None

    def test_a_conversation_that_is_never_silent_is_complete_after_a_day(self, store: Store) -> None:
        """It is considered as settled by max_age, and goes on as revisions; the turn that comes in the same day waits for the next."""
        for hour in range(24):
            store.save_traces([settled(turn(f"h{hour}", 3_600 * hour))])
            assert store.complete_conversations(T0 + 3_600 * hour - 3_600, ("talks",), T0 + 3_600 * hour) == 0
        now = T0 + 24 * 3_600 + 60
        assert store.complete_conversations(now - 9_000, ("talks",), now) == 1
        (found,) = seen(store, talks(now + 1))
        assert (found.turns, found.settled_by) == (24, "max_age")
        store.save_traces([settled(turn("later", 24 * 3_600 + 100))])
        assert len(store.invocation(NAME).turns) == 24  # type: ignore[union-attr]
        assert store.complete_conversations(now - 9_000, ("talks",), now + 3_600) == 0

    def test_of_very_many_turns_the_first_and_last_are_read(self, store: Store) -> None:
        """A conversation id that is used for ever costs no more than a thousand turns to read."""
        store.save_traces([settled(turn(str(n), n, tool_calls=(), history=()), at=5_000) for n in range(1_100)])
        complete(store, T0 + 10_000)
        (found,) = seen(store, talks(T0 + 10_001))
        assert found.turns == 1_100
        whole = store.invocation(NAME)
        assert whole is not None
        begun = [int(one.started_at / 1e9 - T0) for one in whole.turns]
        assert begun == [*range(200), *range(300, 1_100)]

    def test_late_spans_of_a_turn_revise_its_conversation(self, store: Store) -> None:
        """What a turn turned out to be is seen; one that did not change makes no revision."""
        one = turn("a", 0)
        converse(store, one)
        store.save_traces([settled(replace(one, revision=2, final_response="Sorry, full."), digest="d2", rejudge=True)])
        assert complete(store, IDLE + 700) == 1
        found = store.invocation(NAME)
        assert found is not None
        assert (found.revision, found.final_response) == (2, "Sorry, full.")

    def test_a_turn_that_belongs_elsewhere_leaves(self, store: Store) -> None:
        """Late data that moves a turn to another conversation, or merges it into another turn, takes it out of its conversation."""
        one, two, three = turn("a", 0), turn("b", 10), turn("c", 20)
        converse(store, one, two, three)
        moved = replace(three, revision=2, conversation_id="d")
        store.save_traces([settled(moved, digest="d2", rejudge=True), settled(one, merged={two.id: one.id})])
        assert complete(store, IDLE + 700) == 2
        whole, other = store.invocation(NAME), store.invocation("conversation:d")
        assert whole is not None
        assert other is not None
        assert [turn_.id for turn_ in whole.turns] == [one.id]
        assert [turn_.id for turn_ in other.turns] == [three.id]
        store.save_traces([settled(replace(one, revision=2, conversation_id="d"), digest="d3", rejudge=True)])
        complete(store, IDLE + 1_400)
        assert NAME not in {found.invocation_id for found in seen(store, talks(IDLE + 2_000))}

    def test_content_is_kept_until_the_conversation_was_considered(self, store: Store) -> None:
        """Turns that no monitor drew keep their content until their conversation was considered, and as long as it is drawn."""
        turns = [turn("a", 0), turn("b", 1, service="other")]
        store.save_traces([settled(one) for one in turns])
        store.execute_run(request(), leave_all(NotSelected.SAMPLED_OUT))
        assert store.drop_unwanted_content() == 0
        complete(store)
        assert store.drop_unwanted_content() == 0
        whole = self._draw_first(store)
        store.drop_unwanted_content()
        assert [content(store, one) is not None for one in turns] == [whole == NAME, whole != NAME]

    @staticmethod
    def _draw_first(store: Store) -> str:
        drawn: list[str] = []

        def decide(candidates: Any, carry: float) -> Any:
            plan = take_all(candidates, carry)
            drawn.append(plan.decisions[0].invocation_id)
            rest = (replace(d, drawn=False, reason=NotSelected.SAMPLED_OUT) for d in plan.decisions[1:])
            return replace(plan, decisions=(plan.decisions[0], *rest))

        store.execute_run(talks(), decide)
        return drawn[0]

    def test_content_of_a_drawn_conversation_stays_until_it_is_judged(self, store: Store) -> None:
        """Under `store_content: none` as long as an evaluation of it is pending, then it goes, from turns and verdict."""
        one = turn("a", 0)
        converse(store, one)
        store.execute_run(request(), leave_all(NotSelected.SAMPLED_OUT))
        store.execute_run(talks(), take_all)
        assert store.drop_unwanted_content(judged_too=True) == 0
        (evaluation,) = store.claim_evaluations(10, IDLE + 61, 60)
        assert evaluation.invocation.user_input == one.user_input
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        assert store.drop_unwanted_content(judged_too=True) == 2
        assert content(store, one) is None
        assert SECRET not in str(store.list_verdicts(Query()).items)

    def test_content_is_kept_for_every_monitor_of_conversations(self, store: Store) -> None:
        """The first to leave a conversation out lets nothing go that another has yet to consider, or has drawn."""
        one, both = turn("a", 0), ("talks", "more")
        store.save_traces([settled(one, monitors=(), conversation_monitors=both)])
        store.complete_conversations(IDLE - 500, both, IDLE)
        store.execute_run(talks(), leave_all(NotSelected.SAMPLED_OUT))
        assert store.drop_unwanted_content() == 0
        store.execute_run(request("more", IDLE + 60, level=Level.CONVERSATION), take_all)
        assert store.drop_unwanted_content() == 0
        (evaluation,) = store.claim_evaluations(10, IDLE + 61, 60)
        assert (evaluation.monitor, evaluation.invocation.user_input) == ("more", one.user_input)

    def test_what_a_budget_gave_up_keeps_no_content(self, store: Store) -> None:
        """A conversation that a cut run has given up holds its turns' content no longer."""
        one = turn("a", 0)
        converse(store, one)
        store.execute_run(request(), leave_all(NotSelected.SAMPLED_OUT))
        store.execute_run(talks(), take_all)
        assert store.cut_run("talks", talks().tick, halve, IDLE + 70) == 1  # type: ignore[arg-type]
        store.drop_unwanted_content()
        assert content(store, one) is None

    def test_monitors_that_are_gone_keep_no_conversations(self, store: Store) -> None:
        """What waits for retired monitors is let go, complete or not, and the content of the turns with it."""
        whole, other = turn("a", 0), replace(turn("b", 800), conversation_id="open")
        converse(store, whole)
        store.save_traces([settled(other)])
        store.execute_run(request(tick=IDLE + 60), leave_all(NotSelected.SAMPLED_OUT))
        assert store.retire_monitors(["m"]) == 1
        assert store.complete_conversations(IDLE + 60, (), IDLE + 60) == 1
        store.drop_unwanted_content()
        assert [content(store, one) for one in (whole, other)] == [None, None]
        assert store.invocation("conversation:open") is None

    def test_turns_that_come_while_no_monitor_wants_conversations_are_not_lost(self, store: Store) -> None:
        """They are seen and judged with the conversation's next revision, whether another turn comes after them or not, and in either order
        of their coming and the monitors' going.
        """
        converse(store, turn("a", 0))
        store.execute_run(talks(), take_all)
        (evaluation,) = store.claim_evaluations(10, IDLE + 61, 60)
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        seen_with: list[int] = []
        for number, (before, between, after) in enumerate(((0, 1, 1), (1, 1, 0), (0, 1, 0), (1, 0, 0))):
            at = 10_000.0 * (number + 1)
            for name, count, monitors in (("x", before, ("talks",)), ("y", between, ()), ("z", after, ("talks",))):
                if name == "y":
                    assert store.complete_conversations(T0 + at, (), T0 + at) == before  # set aside, and only once
                    assert store.complete_conversations(T0 + at, (), T0 + at) == 0
                late = turn(f"{name}{number}", at)
                store.save_traces([settled(late, conversation_monitors=monitors)] * count)
                at += 40
            assert store.complete_conversations(T0 + at + 100, (), T0 + at + 100) == (after or not before)
            assert complete(store, T0 + at + 1_000) == 1
            (again,) = store.claim_evaluations(10, T0 + at + 1_001, 60)
            seen_with.append(len(again.invocation.turns))
            assert again.revision == number + 2
            store.finish_evaluations([(again, verdict_of(again))])
        assert seen_with == [3, 5, 6, 7]

    def test_a_turn_of_a_judged_conversation_is_kept_once_somebody_wants_it(self, store: Store) -> None:
        """One that came while no monitor wanted conversations is kept no longer than any, and from the next revision on as long as it is drawn."""
        lost, kept = turn("b", 2_000), turn("c", 4_000)
        converse(store, turn("a", 0))
        store.execute_run(talks(), take_all)
        for late in (lost, kept):
            at = late.ended_at / 1e9 - T0
            store.save_traces([settled(late, monitors=(), conversation_monitors=())])
            if late is kept:
                complete(store, T0 + at + 1_000)
            assert store.complete_conversations(T0 + at + 60, (), T0 + at + 60) == (late is lost)
            store.drop_unwanted_content()
        assert [content(store, one) for one in (lost, kept)] == [None, kept.user_input]
        read_again = turn("d", 6_000)  # by a backfill, while a monitor wants conversations
        store.save_traces([settled(read_again, monitors=(), conversation_monitors=())])
        store.drop_unwanted_content()
        assert content(store, read_again) == read_again.user_input

    def test_a_conversation_that_nobody_wants_expires(self, store: Store) -> None:
        """One whose last turn came while no monitor wanted conversations leaves nothing when its time is over."""
        converse(store, turn("a", 0))
        store.save_traces([settled(turn("b", 2_000), conversation_monitors=())])
        store.expire(T0 + 900_000, 50_000, 60_000, None)
        assert store.invocation(NAME) is None
        store.save_traces([settled(turn("c", 900_000))])
        assert complete(store, T0 + 910_000) == 1
        assert len(store.invocation(NAME).turns) == 1  # type: ignore[union-attr]

    def test_a_changed_level_passes_over_what_waits(self, store: Store) -> None:
        """Invocations that wait for a monitor that is now about conversations are not drawn as such, and kept no longer."""
        one = turn("a", 0)
        store.save_traces([settled(one, monitors=("talks",), conversation_monitors=())])
        assert seen(store, talks()) == []
        assert store.oldest_waiting("talks") is None
        store.drop_unwanted_content()
        assert content(store, one) is None

    def test_a_trace_tells_the_fate_of_its_conversations(self, store: Store) -> None:
        """Decisions, verdicts and evaluations of a trace are also those of the conversations that it has a turn of."""
        first, last = turn("a", 0), turn("b", 100)
        store.save_traces([settled(first), settled(last)])
        (waiting,) = [d for d in store.decisions(first.trace_id) if d["monitor"] == "talks"]
        assert (waiting["decision"], waiting["invocation_id"]) == ("waiting", NAME)
        assert "not complete yet: 2 turns" in waiting["detail"]
        complete(store)
        store.execute_run(talks(), take_all)
        (evaluation,) = store.claim_evaluations(10, IDLE + 61, 60)
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        for one in (first, last):
            (drawn,) = [d for d in store.decisions(one.trace_id) if d["monitor"] == "talks"]
            assert (drawn["decision"], drawn["invocation_id"], len(drawn["evaluations"])) == ("drawn", NAME, 1)
            for listing in (store.list_verdicts, store.list_evaluations):
                assert [item["invocation_id"] for item in listing(Query(trace_id=one.trace_id)).items] == [NAME]
        assert {item["id"] for item in store.list_invocations(Query()).items} == {first.id, last.id}
        trace = store.trace(last.trace_id)
        assert trace is not None
        assert [stored.invocation.id for stored in trace.invocations] == [last.id]

    def test_forgetting_a_turn_forgets_what_was_said_of_the_conversation(self, store: Store) -> None:
        """By its trace the turn's words and the verdict's; by its conversation all of it; numbers stay, and what was touched is invocations."""
        first, last = turn("a", 0), turn("b", 100)
        converse(store, first, last)
        store.execute_run(talks(), take_all)
        (evaluation,) = store.claim_evaluations(10, IDLE + 61, 60)
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        assert store.forget(trace_id=first.trace_id) == 1
        (verdict,) = store.list_verdicts(Query()).items
        assert SECRET not in str(verdict)
        assert verdict["score"] == 0.72
        found = store.invocation(NAME)
        assert found is not None
        assert [one.user_input for one in found.turns] == [last.user_input]
        assert found.completeness.capture["turns"] is Capture.REDACTED
        assert store.forget(conversation_id="c") == 2
        assert SECRET not in str(store.invocation(NAME))

    def test_a_complete_conversation_is_forgotten_by_its_name(self, store: Store) -> None:
        """The full names that listings show pick one of several conversations of an id; that of the first has no suffix."""
        mine, other = turn("a", 0), turn("b", 1, service="other")
        store.save_traces([settled(mine), settled(other)])
        complete(store)
        assert store.forget(conversation_id=NAME) == 1
        assert sorted(content(store, one) is None for one in (mine, other)) == [False, True]
        assert SECRET not in str(store.invocation(NAME))
        (second,) = (one.invocation_id for one in seen(store, talks()) if one.invocation_id != NAME)
        assert store.forget(conversation_id=second) == 1
        assert [content(store, one) for one in (mine, other)] == [None, None]

    def test_retention_takes_conversations_with_their_turns(self, store: Store) -> None:
        """Content goes by age, rows later; a conversation that goes on keeps its row, one that is over leaves nothing."""
        converse(store, turn("a", 0))
        store.execute_run(talks(), take_all)
        (evaluation,) = store.claim_evaluations(10, IDLE + 61, 60)
        store.finish_evaluations([(evaluation, verdict_of(evaluation))])
        store.expire(T0 + 50_040, 50_000, 60_000, None)
        assert SECRET not in str(store.list_verdicts(Query()).items)
        store.save_traces([settled(turn("b", 80_000))])
        complete(store, T0 + 90_000)
        store.expire(T0 + 100_000, 50_000, 60_000, None)
        found = store.invocation(NAME)
        assert found is not None
        assert [one.id for one in found.turns] == [turn("b", 80_000).id]
        store.expire(T0 + 900_000, 50_000, 60_000, None)
        assert store.invocation(NAME) is None
        assert store.decisions(turn("b", 80_000).trace_id) == []

    def test_completing_survives_a_restart(self, store: Store, open_again: Callable[[], Store]) -> None:
        """An open conversation is completed by the next process, and one completion counts for all."""
        store.save_traces([settled(turn("a", 0))])
        other = open_again()
        assert complete(other) == 1
        assert complete(store) == 0
        assert len(seen(other, talks(rubrics=(BOOKING,)))) == 1
