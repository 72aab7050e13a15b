"""Turns over several traces: traces are found by keys, and count as one wherever somebody asks for one of them."""

from __future__ import annotations

from dataclasses import replace

from monitor.model.run import JournalPosition, Query, TiedTrace, TraceSettlement, TurnTie
from monitor.store.protocol import Store
from tests.contracts.store_material import T0, invocation, settlement

A, B, C = (invocation(name).trace_id for name in "abc")


def tied(trace: str, turn: str | None, *keys: tuple[int, int], settled_at: float = T0) -> TraceSettlement:
    """A trace without an invocation of its own."""
    told = settlement(invocation(), trace_id=trace, changes=(), tie=TurnTie(turn, keys, trace.encode()))
    return replace(told, settled_at=settled_at, spans=b"raw spans of " + trace.encode())


def found(store: Store, *keys: int, windows: tuple[tuple[int, int, int], ...] = (), limit: int = 10) -> set[str]:
    """The traces with a key, or with one in a window."""
    return {one.trace_id for one in store.tied_traces([], keys, windows, limit)}


class TiesContract:
    """What a store promises of turns over several traces."""

    def test_traces_are_found_by_keys(self, store: Store) -> None:
        """By a key at any time or in a window, the newest first; by an id; each with its pieces and the turn that it is named after."""
        store.save_traces(
            [tied(A, None, (5, 100), (-7, 100)), tied(B, None, (5, 200)), tied(C, None, (2**63 - 1, 300))]
        )
        assert found(store, 5) == {A, B}
        assert found(store, 5, limit=1) == {B}
        assert found(store, -7, 2**63 - 1) == {A, C}
        assert found(store, windows=((5, 100, 199),)) == {A}
        assert store.tied_traces([C, "f" * 32], [], [], 1) == [TiedTrace(C, C, C.encode())]

    def test_a_turn_is_found_whole_and_can_change(self, store: Store) -> None:
        """One trace of a turn brings the others; a trace that leaves the turn is alone, and its keys are those of its newest tie."""
        store.save_traces([tied(A, A, (1, 0)), tied(B, A, (2, 0))])
        whole = {TiedTrace(A, A, A.encode()), TiedTrace(B, A, B.encode())}
        assert set(store.tied_traces([], [2], [], 9)) == whole
        store.save_traces([tied(A, None, (1, 0)), tied(B, None, (3, 0))])
        assert (found(store, 1), found(store, 2), found(store, 3)) == ({A}, set(), {B})

    def test_any_trace_of_a_turn_tells_of_its_invocation(self, store: Store) -> None:
        """Listings, explanations and the trace itself give the turn's invocation for each of its traces; to forget one is to forget all."""
        one = invocation("a")
        store.save_traces([replace(tied(B, A, (1, 0))), settlement(one, tie=TurnTie(A, (), b""))])
        for trace in (A, B):
            assert [item["id"] for item in store.list_invocations(Query(trace_id=trace)).items] == [one.id]
            known = store.trace(trace)
            assert known is not None
            assert [kept.invocation.id for kept in known.invocations] == [one.id]
            assert store.decisions(trace)
        assert store.forget(trace_id=B, now=T0) == 1
        told = store.invocation(one.id)
        assert told is not None
        assert told.final_response is None
        for trace in (A, B):
            known = store.trace(trace)
            assert known is not None
            assert known.spans is None

    def test_what_was_to_be_forgotten_takes_its_turn_with_it(self, store: Store) -> None:
        """A trace that was forgotten while it was open goes on a stored turn: neither its words nor the turn's are kept."""
        one = invocation("a")
        store.save_traces([settlement(one)])
        store.forget(trace_id=B, now=T0)
        changed = replace(settlement(one).changes[0], invocation=replace(one, revision=2), digest="d2")
        told = settlement(one, changes=(changed,), consumed=JournalPosition(9, 9), tie=TurnTie(A, (), b""))
        store.save_traces([told, tied(B, A, (1, 0))])
        kept = store.invocation(one.id)
        assert kept is not None
        assert (kept.revision, kept.final_response) == (2, None)

    def test_ties_are_forgotten_after_a_day(self, store: Store) -> None:
        """Newer ties push out those of more than a day before; one without pieces stays until a newer one has its key."""
        day = 24 * 3600.0
        setup = replace(tied(C, None, (4, 10)), tie=TurnTie(None, ((4, 10),), b""))
        store.save_traces([tied(A, None, (1, 0)), setup])
        store.save_traces([tied(B, None, (2, 20), settled_at=T0 + day + 1)])
        assert (found(store, 1), found(store, 2), found(store, 4)) == (set(), {B}, {C})
        newer = replace(tied(A, None, (4, 20), settled_at=T0 + 2 * day + 2), tie=TurnTie(None, ((4, 20),), b""))
        store.save_traces([newer])
        store.save_traces([tied(B, None, (2, 20), settled_at=T0 + 3 * day + 4)])
        assert found(store, 4) == {A}

    def test_no_more_ties_come_than_go(self, store: Store) -> None:
        """However many are saved at a time, those of a day ago are gone by then: the table does not grow with time."""
        many = range(300)
        store.save_traces([tied(f"{number:032x}", None, (number, 0)) for number in many])
        store.save_traces([tied(f"a{number:031x}", None, (number, 0), settled_at=T0 + 86_401) for number in many])
        assert len(found(store, *many)) == len(many)
