"""Model calls that each have a trace of their own: which of them make one turn (reference: conventions, section 8.7).

Evidence, strongest first: the same response (recorded twice), an answer to a tool call that the earlier one asked for, the previous
response's id, a history that is the earlier call word for word. Where content is switched off, a call that says nothing goes to the one
turn of its process that waits for tools, if there is exactly one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from monitor.assembly.facts import Field, SpanClass, value
from monitor.assembly.messages import answers_in, calls_in, fingerprint, lacking
from monitor.assembly.neighbourhood import Surroundings, Unit
from monitor.assembly.pieces import NOTHING, Call, Piece, key_of
from monitor.assembly.segmentation import Segment
from monitor.assembly.tree import Node
from monitor.assembly.turns import given

_LOOKED_AT = 8
"""With more turns waiting than this nobody can tell which one goes on."""

PATIENCE_NS = 5 * 60 * 1_000_000_000
"""How long a turn without content waits for its next model call."""

PieceId = tuple[str, str]


def joined(segments: Sequence[Segment], around: Surroundings) -> list[Segment]:
    """The segments, with lone model calls that make one turn put together. Others stay as they are."""
    kept: list[Segment] = []
    by_piece: dict[PieceId, Segment] = {}
    pieces: list[Piece] = []
    for one in segments:
        piece = piece_of(one, around)
        if piece is None:
            kept.append(one)
        else:
            pieces.append(piece)
            by_piece[piece.id] = one
    for turn in turns_of(pieces):
        first, *others = (by_piece[piece.id] for piece in turn)
        for other in others:
            first.members += other.members
            first.joined = True
        kept.append(first)
    return kept


def is_lone(root: Node) -> bool:
    """Whether a root is a model call that nothing encloses."""
    return root.span_class is SpanClass.MODEL and (root.parent is None or root.parent.phantom)


# -- reading pieces ------------------------------------------------------------------------------------------------------
def piece_of(one: Segment, around: Surroundings) -> Piece | None:
    """The piece that a segment is; None where an agent or a request encloses its model calls."""
    models = _models(one, around) if is_lone(one.root) else []
    if not models:
        return None
    first, last = models[0], models[-1]
    waits = value(last.node.facts, Field.ASKS) is True or bool(calls_in(value(last.node.facts, Field.OUTPUT) or ()))
    return Piece(
        one.root.trace_id,
        one.root.span_id,
        one.root.start,
        one.root.end,
        tuple(key_of(key) for key in needed(first)),
        key_of(_talk(first.node)),
        key_of(_asked_for(first)),
        key_of(_talk(last.node)),
        key_of(_asked_for(last)),
        lacking(value(first.node.facts, Field.INPUT) or ()) is not None,
        waits,
        _tokens(first.node),
        _tokens(last.node),
        tuple(map(_call, models)),
    )


def _models(one: Segment, around: Surroundings) -> list[Unit]:
    units = [around.units[id(node)] for node in one.members if id(node) in around.units]
    return [unit for unit in units if unit.node.span_class is SpanClass.MODEL]


def _call(unit: Unit) -> Call:
    node = unit.node
    response = value(node.facts, Field.RESPONSE_ID)
    return Call(
        node.start,
        node.end,
        key_of(_service(node)),
        key_of(node.span.scope.name if node.span else ""),
        key_of(str(value(node.facts, Field.MODEL))),
        key_of(f"response {response}") if response else NOTHING,
        bool(value(node.facts, Field.OUTPUT)),
        tuple(key_of(key) for key in left(unit)),
    )


def needed(unit: Unit) -> Iterator[str]:
    """Keys of what a trace's first model call goes on from, beside a record of the same response."""
    facts, service = unit.node.facts, _service(unit.node)
    previous = value(facts, Field.PREVIOUS_RESPONSE)
    messages = value(facts, Field.INPUT) or ()
    parts = given(messages)
    if parts.asked and not parts.after:
        return  # a new user message begins a new turn
    for part in reversed(answers_in(parts.after or messages)):
        if part.get("id"):
            yield f"call {part['id']} {service}"
    for part in reversed(calls_in(parts.after)):
        if part.get("id"):
            yield f"call {part['id']} {service}"
    if previous:
        yield f"after {previous} {service}"
    told = [message for message in messages if message.role != "system"]
    while told and told[-1].role == "tool":
        told.pop()
    if told and told[-1].role == "assistant":
        yield f"said {fingerprint(told)} {service}"


def left(unit: Unit) -> Iterator[str]:
    """Keys of what may go on from a model call."""
    facts, service = unit.node.facts, _service(unit.node)
    response = value(facts, Field.RESPONSE_ID)
    if response:
        yield f"after {response} {service}"
    spoken = value(facts, Field.OUTPUT) or ()
    for part in calls_in(spoken):
        if part.get("id"):
            yield f"call {part['id']} {service}"
    if calls_in(spoken):
        yield f"said {fingerprint((*(value(facts, Field.INPUT) or ()), *spoken))} {service}"


def _asked_for(unit: Unit) -> str:
    return _talk(unit.node) + fingerprint(value(unit.node.facts, Field.INPUT) or ())


def _service(node: Node) -> str:
    return str(node.span.resource.attributes.get("service.name")) if node.span else ""


def _tokens(node: Node) -> int:
    found = value(node.facts, Field.INPUT_TOKENS)
    return found if isinstance(found, int) and 0 <= found < 2**63 else -1


def _talk(node: Node) -> str:
    """The process and the conversation that a call names."""
    attributes = node.span.resource.attributes if node.span else {}
    process = f"{attributes.get('service.name')} {attributes.get('service.instance.id')}"
    return f"{process} {value(node.facts, Field.CONVERSATION)} "


# -- putting turns together ----------------------------------------------------------------------------------------------
class _Turn:
    """A turn under way: its pieces in order, and the talk and question under which it waits."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.waits_as: tuple[int, int] | None = None


def turns_of(pieces: Iterable[Piece], settled: Mapping[PieceId, str] | None = None) -> list[list[Piece]]:
    """The pieces that make one turn, in order of time. What a piece belongs to depends only on those before it.

    Pieces in `settled` belong to the turn that is named there: earlier ones whose turns have been put together already.
    """
    turns = _Turns()
    named: dict[str, _Turn] = {}
    found: list[_Turn] = []
    for piece in sorted(pieces, key=lambda one: one.key):
        name = settled.get(piece.id) if settled else None
        turn = named.get(name) if name is not None else turns.waiting_for(piece)
        if turn is None:
            turn = _Turn()
            found.append(turn)
            if name is not None:
                named[name] = turn
        turn.pieces.append(piece)
        turns.note(turn, piece)
    return [turn.pieces for turn in found]


class _Turns:
    """Turns by what would continue them."""

    def __init__(self) -> None:
        self._by_key: dict[int, _Turn] = {}
        self._by_response: dict[int, tuple[_Turn, Call]] = {}
        self._open: dict[int, dict[int, _Turn]] = {}
        self._asked: dict[int, dict[int, _Turn]] = {}
        self._newest: dict[int, _Turn] = {}

    def waiting_for(self, piece: Piece) -> _Turn | None:
        """The turn that a piece continues, None for a turn of its own."""
        first = piece.calls[0]
        known = self._by_response.get(first.response) if first.response else None
        if known is not None and _same_call(known[1], first):
            return known[0]
        for key in piece.needs:
            if key in self._by_key:
                return self._by_key[key]
        return self._beside(piece) or self._only_open(piece)

    def _beside(self, piece: Piece) -> _Turn | None:
        """The turn whose newest call a record without content repeats: another instrumentation's, within its time."""
        turn = self._newest.get(piece.talk)
        if turn is None or not piece.says_nothing:
            return None
        other, first = turn.pieces[-1].calls[-1], piece.calls[0]
        inside = other.start <= first.start and first.end <= other.end
        return turn if inside and other.scope != first.scope and other.model == first.model else None

    def _only_open(self, piece: Piece) -> _Turn | None:
        """The one turn of the process that waits for tools, for a call that says nothing, or only repeats what that turn was asked.

        A call that goes on has been given more than the one before: with no more input tokens it is another turn's.
        """
        waiting = self._open.get(piece.talk) if piece.says_nothing else self._asked.get(piece.asked)
        turn = _only(waiting, piece) if waiting else None
        return turn if turn is not None and _may_go_on(turn.pieces[-1], piece) else None

    def note(self, turn: _Turn, piece: Piece) -> None:
        """Remember what a turn's newest piece, which it has already, may be continued by."""
        for call in piece.calls:
            if call.response:
                self._by_response[call.response] = turn, call
            for key in call.leaves:
                self._by_key[key] = turn
        self._newest[piece.last_talk] = turn
        if turn.waits_as is not None:
            self._open[turn.waits_as[0]].pop(id(turn), None)
            self._asked[turn.waits_as[1]].pop(id(turn), None)
        turn.waits_as = (piece.last_talk, piece.last_asked) if piece.waits else None
        if piece.waits:
            self._open.setdefault(piece.last_talk, {})[id(turn)] = turn
            self._asked.setdefault(piece.last_asked, {})[id(turn)] = turn


def _only(waiting: dict[int, _Turn], piece: Piece) -> _Turn | None:
    """The one turn that waits at a time; turns that have waited too long are forgotten."""
    now = piece.calls[0].start
    for turn in list(itertools.islice(waiting.values(), _LOOKED_AT)):
        if turn.pieces[-1].calls[-1].end + PATIENCE_NS < now:
            del waiting[id(turn)]
    if len(waiting) > _LOOKED_AT:
        return None
    fit = [turn for turn in waiting.values() if turn.pieces[-1].calls[-1].end <= now]
    return fit[0] if len(fit) == 1 else None


def _may_go_on(before: Piece, piece: Piece) -> bool:
    """Whether a call may have been given what the one before was, and more. The very same question needs proof of that."""
    if before.last_tokens < 0 or piece.tokens < 0:
        return True
    return piece.tokens > before.last_tokens - piece.says_nothing


def _same_call(earlier: Call, call: Call) -> bool:
    """Whether two records of one response are of one call: of two emitters, at once, or the earlier one without its answer yet.

    A cache hands out an old response, id included, for a new call.
    """
    if (earlier.scope, earlier.service) != (call.scope, call.service):
        return call.start <= earlier.end + PATIENCE_NS
    return call.start <= earlier.end or not earlier.answered
