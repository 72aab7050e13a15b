"""Which traces make one turn: those that have just come, those that wait, and those that are stored. Pure but for the look-ups it is given.

What a piece belongs to depends only on those before it (`assembly.joining`), so what was decided before the earliest open piece stands.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from monitor.assembly.joining import PATIENCE_NS, turns_of
from monitor.assembly.pieces import Piece
from monitor.intake.groups import together
from monitor.intake.loose import Loose, asks, is_silent, linked_to, waits

_MOST = 1000
"""Traces that are looked at together at most; past it, only what hangs together by ids is followed further."""

_SECOND = 1_000_000_000
_REACH_NS = 2 * PATIENCE_NS
"""How far back a turn may have begun its newest call that waits for a call without content."""

Window = tuple[int, int, int]
"""A key, and from when until when, in whole seconds."""


LookUp = Callable[[Collection[int], Collection[Window], Collection[str]], Iterable[Loose]]
"""Traces, stored or waiting, with one of the keys, with the key of a window in its time, or that are named; and all that share their turns."""


def neighbourhood(
    fresh: Sequence[Loose],
    look_up: LookUp,
    known: Iterable[Loose] = (),
    awaited: Callable[[str], bool] = lambda trace_id: False,
) -> dict[str, Loose]:
    """The fresh traces with all that may be of one turn with them, by trace id; `known` are stored ones that share their turns.

    `awaited`: whether some trace may be linked to one. What a stored trace is linked to was decided when it was stored.
    """
    seen = {one.trace_id: one for one in (*known, *fresh)}
    begin = _begin(fresh)
    asked: set[int] = set()
    named: set[str] = set()
    frontier: Sequence[Loose] = fresh
    while frontier:
        pieces = [piece for one in frontier for piece in one.pieces]
        asking = (one for one in frontier if one.trace_id not in named or _names_one_of(fresh, one))
        links = {linked_to(one.trace_id) for one in asking if awaited(one.trace_id)}
        keys = ({key for piece in pieces for key in piece.ties} | links) - asked
        asked |= keys
        senders = {
            one.linked.trace_id
            for one in frontier
            if one.linked is not None and (one.turn is None or frontier is fresh)
        }
        senders -= seen.keys() | named
        named |= senders
        windows: set[Window] = set()
        if len(seen) < _MOST:
            windows.update(_before(piece) for piece in pieces if piece.key >= begin)
            windows.update(window for piece in pieces if frontier is fresh for window in _after(piece))
        wanted = keys or windows or senders
        found = {one.trace_id: one for one in look_up(keys, windows, senders)} if wanted else {}
        frontier = [one for trace_id, one in found.items() if trace_id not in seen]
        seen |= {one.trace_id: one for one in frontier}
    return seen


def _names_one_of(fresh: Iterable[Loose], loose: Loose) -> bool:
    """Whether a trace is linked to a fresh one, which decides what it sent itself."""
    return loose.linked is not None and any(one.trace_id == loose.linked.trace_id for one in fresh)


def _begin(fresh: Iterable[Loose]) -> tuple[int, int, str]:
    """From where on everything is decided anew: the earliest of the pieces that have come."""
    return min((piece.key for one in fresh for piece in one.pieces), default=(2**64, 0, ""))


def _before(piece: Piece) -> Window:
    """When and under which key there may be what a piece without content, or with a question that waits already, belongs to."""
    key = piece.talk if piece.says_nothing else waits(piece.asked)
    return key, max(0, piece.start - _REACH_NS) // _SECOND, piece.start // _SECOND


def _after(piece: Piece) -> Iterator[Window]:
    """When and under which key there may be such pieces that belong to this one."""
    since, until = piece.start // _SECOND, (piece.calls[-1].end + PATIENCE_NS) // _SECOND
    yield is_silent(piece.last_talk), since, until
    if piece.waits:
        yield asks(piece.last_asked), since, until


@dataclass(frozen=True, slots=True)
class Affected:
    """Turns that are to be stored together: new ones, and stored ones whose traces are others now. Each is a list of traces, by time."""

    turns: tuple[tuple[Loose, ...], ...]

    @property
    def traces(self) -> list[Loose]:
        """All traces in it."""
        return [one for turn in self.turns for one in turn]

    @property
    def waits(self) -> bool:
        """Whether a turn waits for tools: its newest call asked for some."""
        return any(pieces[-1].waits for turn in self.turns if (pieces := _pieces(turn)))

    @property
    def linked_to(self) -> list[str]:
        """The traces that its own were sent messages from."""
        return [one.linked.trace_id for turn in self.turns for one in turn if one.linked is not None]

    @property
    def lacks_beginning(self) -> bool:
        """Whether a turn goes on from a call that is not here."""
        return any(pieces[0].needs for turn in self.turns if (pieces := _pieces(turn)))


def _pieces(turn: Iterable[Loose]) -> list[Piece]:
    return sorted((piece for one in turn for piece in one.pieces), key=lambda one: one.key)


def affected(
    fresh: Sequence[Loose], known: Mapping[str, Loose], linked: Iterable[tuple[str, str]] = ()
) -> list[Affected]:
    """The turns of the fresh traces and those that they change; `known` is their neighbourhood, `linked` the pairs of it that are tied by links."""
    begin = _begin(fresh)
    come = {one.trace_id for one in fresh}
    settled = {
        piece.id: one.turn
        for one in known.values()
        if one.turn is not None
        for piece in one.pieces
        if piece.key < begin
    }
    order = sorted(known, key=lambda trace_id: known[trace_id].key)
    made = turns_of((piece for one in known.values() for piece in one.pieces), settled)
    turns = together(order, [*([piece.trace_id for piece in turn] for turn in made), *linked])
    before = _stored_turns(known)
    result: list[Affected] = []
    for joint in together(order, [*turns, *before.values()]):
        members = set(joint)
        inside = [turn for turn in turns if turn[0] in members]
        if come & members or {frozenset(turn) for turn in inside} != {
            frozenset(turn) for turn in before.values() if turn[0] in members
        }:
            result.append(Affected(tuple(tuple(known[one] for one in turn) for turn in inside)))
    return result


def _stored_turns(known: Mapping[str, Loose]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in known.values():
        if one.turn is not None:
            found.setdefault(one.turn, []).append(one.trace_id)
    return found
