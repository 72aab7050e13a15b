"""A turn's piece: a model call that nothing encloses, as all that joining looks at. A hundred or two bytes, without content.

Kept beside the spans, so that whether two traces make one turn can be told without reading them again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

_CALL = struct.Struct("<QQqqqqBH")
_PIECE = struct.Struct("<16s8sQQqqqqqqBBHH")
_KEY = struct.Struct("<q")

NOTHING = 0
"""The key of what is not there."""


def key_of(text: str) -> int:
    """A key as 64 bits: among a million of them two are equal with a chance of 3e-8."""
    return int(_KEY.unpack(blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest())[0])


@dataclass(frozen=True, slots=True)
class Call:
    """A model call as what goes on from it, or records it once more, looks at it.

    Times are nanoseconds. `leaves` are the keys of what may go on from it; `service`, `scope`, `model` and `response` are compared only,
    `response` is NOTHING without an id. `answered`: its output is recorded.
    """

    start: int
    end: int
    service: int
    scope: int
    model: int
    response: int
    answered: bool
    leaves: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """Model calls of one trace below one root, in order, at least one.

    `needs` are keys of what the first call goes on from, strongest first. `talk` is the process and conversation, `asked` that with the
    whole input: of the first call, and of the last one. `says_nothing`: the first call's input is not recorded. `waits`: the last call
    asked for tools. `tokens` are the input tokens of the first and the last call, -1 unknown.
    """

    trace_id: str
    span_id: str
    start: int
    end: int
    needs: tuple[int, ...]
    talk: int
    asked: int
    last_talk: int
    last_asked: int
    says_nothing: bool
    waits: bool
    tokens: int
    last_tokens: int
    calls: tuple[Call, ...]

    @property
    def key(self) -> tuple[int, int, str]:
        """The order in which turns are put together: by start, of equal ones the longer first."""
        return self.start, -self.end, self.span_id

    @property
    def id(self) -> tuple[str, str]:
        """Which piece it is."""
        return self.trace_id, self.span_id

    @property
    def ties(self) -> frozenset[int]:
        """All keys that another piece of its turn, or another record of its calls, has as well."""
        responses = (call.response for call in self.calls if call.response)
        return frozenset((*self.needs, *responses, *(key for call in self.calls for key in call.leaves)))

    @property
    def quiet_talk(self) -> int:
        """The key under which a call that says nothing is found by what it may belong to."""
        return key_of(f"nothing said {self.talk}") if self.says_nothing else NOTHING


def packed_pieces(pieces: Iterable[Piece]) -> bytes:
    """Pieces as bytes, to be kept. Their ids must be those of OTLP: 32 and 16 hex digits."""
    return b"".join(map(_packed, pieces))


def _packed(piece: Piece) -> bytes:
    head = _PIECE.pack(
        bytes.fromhex(piece.trace_id), bytes.fromhex(piece.span_id), piece.start, piece.end, piece.talk, piece.asked, piece.last_talk,
        piece.last_asked, piece.tokens, piece.last_tokens, piece.says_nothing, piece.waits, len(piece.needs), len(piece.calls),
    )  # fmt: skip
    calls = [
        _CALL.pack(call.start, call.end, call.service, call.scope, call.model, call.response, call.answered, len(call.leaves))
        + _keys(call.leaves)
        for call in piece.calls
    ]  # fmt: skip
    return b"".join((head, _keys(piece.needs), *calls))


def _keys(keys: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(keys)}q", *keys)


def unpacked_pieces(packed: bytes) -> tuple[Piece, ...]:
    """The inverse of `packed_pieces`. Raises struct.error for what is no such thing."""
    found: list[Piece] = []
    at = 0
    while at < len(packed):
        piece, at = _unpacked(packed, at)
        found.append(piece)
    return tuple(found)


def _unpacked(packed: bytes, at: int) -> tuple[Piece, int]:
    (
        trace_id,
        span_id,
        start,
        end,
        talk,
        asked,
        last_talk,
        last_asked,
        tokens,
        last_tokens,
        silent,
        waits,
        needed,
        count,
    ) = _PIECE.unpack_from(packed, at)
    needs, at = _read_keys(packed, at + _PIECE.size, needed)
    calls: list[Call] = []
    for _ in range(count):
        began, ended, service, scope, model, response, answered, left = _CALL.unpack_from(packed, at)
        leaves, at = _read_keys(packed, at + _CALL.size, left)
        calls.append(Call(began, ended, service, scope, model, response, bool(answered), leaves))
    return Piece(
        trace_id.hex(), span_id.hex(), start, end, needs, talk, asked, last_talk, last_asked, bool(silent), bool(waits), tokens,
        last_tokens, tuple(calls),
    ), at  # fmt: skip


def _read_keys(packed: bytes, at: int, count: int) -> tuple[tuple[int, ...], int]:
    return struct.unpack_from(f"<{count}q", packed, at), at + count * _KEY.size
