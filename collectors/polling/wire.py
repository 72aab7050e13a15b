"""Protobuf fields of messages that we have no declaration of (protobuf encoding specification, "Message Structure")."""

from __future__ import annotations

from collections.abc import Iterator

from collectors.sink import MalformedRequest

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The (field number, value) pairs of a message: varints as int, all else as bytes. Raises MalformedRequest."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise MalformedRequest("the answer is no protobuf message")
        if at + length > len(message):
            raise MalformedRequest("the answer is cut off")
        yield number, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
    raise MalformedRequest("the answer is no protobuf message, or is cut off")
