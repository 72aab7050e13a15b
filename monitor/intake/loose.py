"""Traces that may make one turn with others, as what is kept of them: found by keys, packed into some hundred bytes, without content."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from monitor.assembly.linking import How, Linked, Target
from monitor.assembly.pieces import Piece, key_of, packed_pieces, unpacked_pieces

_SECOND = 1_000_000_000
_NO_TRACE = bytes(16)
_HEAD = struct.Struct("<16sQB")
_OTHER = struct.Struct("<16s")
_TARGET = struct.Struct("<8sB")

Key = tuple[int, int]
"""A key of 64 bits, and a time in whole seconds."""

ANY_LINKED = key_of("linked to another trace")
"""The key of all stored traces that say which other one sent them messages."""


@dataclass(frozen=True, slots=True)
class Loose:
    """A trace that may be of a turn with others. `turn` is the stored turn that it is in, its own id while alone; None: not stored.

    `pieces` are its model calls that nothing encloses. `linked` is the trace that it was sent messages from, or goes on with. `start` is when it began,
    nanoseconds, told of those that are linked or linked to.
    """

    trace_id: str
    turn: str | None
    pieces: tuple[Piece, ...] = ()
    linked: Linked | None = None
    start: int = 0

    @property
    def key(self) -> tuple[int, int, str]:
        """The order of traces in a turn."""
        return min((piece.key for piece in self.pieces), default=(self.start, 0, self.trace_id))


def linked_to(trace_id: str) -> int:
    """The key of traces that were sent messages from a trace."""
    return key_of(f"linked to {trace_id}")


def keys_of(loose: Loose) -> tuple[Key, ...]:
    """The keys by which a trace is found."""
    found = piece_keys(loose.pieces)
    if loose.linked is None:
        return found
    return (*found, (linked_to(loose.linked.trace_id), _seconds(loose.start)))


def piece_keys(pieces: Iterable[Piece]) -> tuple[Key, ...]:
    """The keys by which model calls that nothing encloses are found, each with a time."""
    found: dict[Key, None] = {}
    for piece in pieces:
        keys = [*sorted(piece.ties), piece.last_talk, asks(piece.asked)]
        keys += [is_silent(piece.talk)] if piece.says_nothing else []
        keys += [waits(piece.last_asked)] if piece.waits else []
        found |= dict.fromkeys((key, _seconds(piece.start)) for key in keys)
    return tuple(found)


def stored_keys(loose: Loose) -> tuple[Key, ...]:
    """The keys by which a stored trace is found."""
    found = keys_of(loose)
    return found if loose.linked is None else (*found, (ANY_LINKED, _seconds(loose.start)))


def _seconds(at: int) -> int:
    return min(at // _SECOND, 2**32 - 1)


def asks(asked: int) -> int:
    """The key of who was asked that."""
    return key_of(f"asks {asked}")


def waits(asked: int) -> int:
    """The key of who was asked that and waits for tools."""
    return key_of(f"waits {asked}")


def is_silent(talk: int) -> int:
    """The key of calls without content in a talk."""
    return key_of(f"silent {talk}")


def packed(loose: Loose) -> bytes:
    """What is kept of a trace, but for its id and its turn; never empty."""
    pieces = packed_pieces(loose.pieces)
    if pieces and loose.linked is None:
        return pieces
    targets = loose.linked.targets if loose.linked is not None else ()
    head = _HEAD.pack(_NO_TRACE, loose.start, len(targets))
    other = _OTHER.pack(bytes.fromhex(loose.linked.trace_id)) if loose.linked is not None else b""
    told = [_TARGET.pack(bytes.fromhex(one.span_id), one.how) for one in targets]
    return b"".join((head, other, *told, pieces))


def unpacked(trace_id: str, turn: str | None, kept: bytes) -> Loose:
    """The inverse of `packed`. Raises struct.error for what is no such thing."""
    if not kept.startswith(_NO_TRACE):  # no piece begins so
        return Loose(trace_id, turn, unpacked_pieces(kept))
    _, start, count = _HEAD.unpack_from(kept)
    at, linked = _HEAD.size, None
    if count:
        (other,) = _OTHER.unpack_from(kept, at)
        at += _OTHER.size
        end = at + count * _TARGET.size
        targets = tuple([Target(span.hex(), How(how)) for span, how in _TARGET.iter_unpack(kept[at:end])])
        linked, at = Linked(other.hex(), targets), end
    return Loose(trace_id, turn, unpacked_pieces(kept[at:]), linked, start)
