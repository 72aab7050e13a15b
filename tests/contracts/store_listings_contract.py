"""Listings of the API: shapes, order, filters, pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from monitor.clock import from_rfc3339
from monitor.model.run import Query
from monitor.model.verdict import NotSelected, Outcome
from monitor.model.wire import invocation_json, verdict_json
from monitor.store.protocol import InvalidCursor, Store
from tests.contracts.store_material import (
    BOOKING,
    T0,
    TONE,
    draw_and_claim,
    failure_of,
    invocation,
    leave_all,
    pages,
    request,
    settlement,
    take_all,
    verdict_of,
)


def at(name: str, second: float, **changes: Any) -> Any:
    """An invocation that ended so many seconds after T0."""
    return invocation(name, ended_at=int((T0 + second) * 1e9), **changes)


class ListingsContract:
    """What a store promises of listings."""

    def test_invocations_have_the_contracts_shape(self, store: Store) -> None:
        """An item is the JSON of contract section 3."""
        store.save_traces([settlement(invocation())])
        assert store.list_invocations(Query()).items == (invocation_json(invocation()),)

    def test_invocations_come_newest_first_and_by_filter(self, store: Store) -> None:
        """By trace, agent and the time of the end in [since, until)."""
        store.save_traces(
            [settlement(at("a", 1)), settlement(at("b", 3)), settlement(at("c", 2, agent_name=None, service="shop"))]
        )

        def ids(**query: Any) -> list[str]:
            return [item["id"] for item in pages(store.list_invocations, **query)]

        a, b, c = (invocation(name).id for name in "abc")
        assert ids() == [b, c, a]
        assert ids(agent="shop") == [c]
        assert ids(trace_id=invocation("b").trace_id) == [b]
        assert ids(since=T0 + 2) == [b, c]
        assert ids(since=T0 + 1, until=T0 + 3) == [c, a]

    def test_an_end_that_no_clock_tells_leads_no_list(self, store: Store) -> None:
        """An invocation that says it ended years after its settling ended at its settling; one of a clock that is wrong by days keeps its time."""
        years, days = 40 * 366 * 86400, 3 * 86400
        odd = at("odd", years, started_at=int((T0 + years) * 1e9) - 1)
        store.save_traces([settlement(at("a", 31)), settlement(odd), settlement(at("ahead", days))])
        found = {item["id"]: item for item in store.list_invocations(Query()).items}
        assert list(found) == [invocation(name).id for name in ("ahead", "a", "odd")]
        assert [from_rfc3339(found[odd.id][name]) for name in ("started_at", "ended_at")] == [T0 + 30] * 2
        assert from_rfc3339(found[invocation("ahead").id]["ended_at"]) == T0 + days
        stored = store.invocation(odd.id)
        assert stored is not None and stored.ended_at == int((T0 + 30) * 1e9)

    def test_verdicts_have_the_contracts_shape(self, store: Store) -> None:
        """An item is the JSON of contract section 4, with criteria, explanations and usage."""
        (evaluation,) = draw_and_claim(store, invocation())
        verdict = verdict_of(evaluation)
        store.finish_evaluations([(evaluation, verdict)])
        (item,) = store.list_verdicts(Query()).items
        assert item == verdict_json(verdict)
        assert json.loads(json.dumps(item)) == item

    def test_verdicts_by_filter_and_time(self, store: Store) -> None:
        """By monitor, rubric, verdict, agent and trace, and by the invocation's end or the time of judging."""
        evaluations = draw_and_claim(store, at("a", 1), at("b", 2), rubrics=(BOOKING, TONE))
        for n, evaluation in enumerate(sorted(evaluations, key=lambda e: (e.invocation.ended_at, e.rubric.rubric))):
            outcome = Outcome.FAIL if evaluation.rubric is TONE or n == 0 else Outcome.PASS
            store.finish_evaluations([(evaluation, verdict_of(evaluation, outcome, judged_at=T0 + 200 - n))])

        def found(**query: Any) -> list[tuple[str, str]]:
            ids = {invocation(name).id: name for name in "ab"}
            return [(ids[item["invocation_id"]], item["rubric"]) for item in pages(store.list_verdicts, **query)]

        assert sorted(found()) == [("a", "booking"), ("a", "tone"), ("b", "booking"), ("b", "tone")]
        assert {name for name, _ in found()[:2]} == {"b"}
        assert found(by="judged_at")[0] == ("a", "booking")
        assert found(rubric="tone") == [("b", "tone"), ("a", "tone")]
        assert found(verdict="pass", rubric="booking") == [("b", "booking")]
        assert {name for name, _ in found(since=T0 + 2)} == {"b"}
        assert found(by="judged_at", since=T0 + 200) == [("a", "booking")]
        assert found(monitor="other") == found(agent="nobody") == []
        assert len(found(trace_id=invocation("a").trace_id)) == 2

    def test_pages_go_through_everything_once(self, store: Store) -> None:
        """With equal times and new items coming in, pages neither repeat nor lose what was there at the start."""
        store.save_traces([settlement(at(str(n), n // 4)) for n in range(25)])
        first = store.list_invocations(Query(limit=10))
        store.save_traces([settlement(at("new", 1_000))])
        ids = [item["id"] for item in first.items]
        page = first
        while page.next_cursor is not None:
            page = store.list_invocations(Query(limit=10, cursor=page.next_cursor))
            ids += [item["id"] for item in page.items]
        assert len(ids) == 25
        assert set(ids) == {invocation(str(n)).id for n in range(25)}
        assert store.list_invocations(Query(limit=26)).next_cursor is None

    def test_the_limit_is_bounded(self, store: Store) -> None:
        """A limit below 1 or above 1000 is cut, not refused."""
        store.save_traces([settlement(at(str(n), n)) for n in range(3)])
        assert len(store.list_invocations(Query(limit=0)).items) == 1
        assert len(store.list_invocations(Query(limit=10**9)).items) == 3

    @pytest.mark.parametrize("cursor", ["x", "", "bm9uc2Vuc2U", "W10", "WzFd", "e30", "WzEsMiwzXQ", "\u00e9"])
    def test_a_foreign_cursor_is_refused(self, store: Store, cursor: str) -> None:
        """What is no cursor of the listing is an error of its own, with what to do instead."""
        with pytest.raises(InvalidCursor, match="next_cursor"):
            store.list_invocations(Query(cursor=cursor))

    def test_evaluations_by_state(self, store: Store) -> None:
        """Pending, done and failed evaluations are told apart, newest first, failed ones with the failure."""
        evaluations = draw_and_claim(store, at("a", 1), at("b", 2), at("c", 3))
        store.finish_evaluations(
            [(evaluations[0], verdict_of(evaluations[0])), (evaluations[1], failure_of(evaluations[1]))]
        )
        states = {state: list(pages(store.list_evaluations, state=state)) for state in ("pending", "done", "error")}
        assert [item["id"] for item in states["pending"]] == [evaluations[2].id]
        assert (states["pending"][0]["claimed"], states["pending"][0]["error"]) == (True, None)
        assert [(item["verdict"], item["failed"]) for item in states["done"]] == [("pass", None)]
        assert states["error"][0]["failed"]["error"]["type"] == "timeout"
        everything = list(pages(store.list_evaluations, limit=2))
        assert [item["id"] for item in everything] == sorted((e.id for e in evaluations), reverse=True)
        assert list(pages(store.list_evaluations, monitor="other")) == []
        assert json.loads(json.dumps(everything)) == everything

    def test_runs_newest_first(self, store: Store) -> None:
        """Runs of all monitors come by tick, with outcome, figures, strata and error."""
        store.save_traces([settlement(invocation(), monitors=("m", "n"))])
        store.execute_run(request("m"), take_all)
        store.execute_run(request("n"), leave_all(NotSelected.FILTERED))
        store.fail_run(request("m", T0 + 120), "disk full")
        found = list(pages(store.list_runs, limit=1))
        assert [(run["monitor"], run["outcome"]) for run in found] == [("m", "failed"), ("n", "done"), ("m", "done")]
        assert found[0]["error"] == "disk full"
        assert (found[2]["tick"], found[2]["drawn"], found[2]["strata"][0]["probability"]) == (
            "2026-09-21T14:14:20.000000Z",
            1,
            0.5,
        )
        assert [run["monitor"] for run in pages(store.list_runs, monitor="n")] == ["n"]
        assert [run["outcome"] for run in pages(store.list_runs, since=T0 + 61)] == ["failed"]
        assert json.loads(json.dumps(found)) == found
