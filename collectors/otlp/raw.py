"""The items of an export request as they came, for a request that many ask for their part of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import chain, groupby, repeat
from operator import attrgetter
from typing import NamedTuple

from collectors.otlp.items import parse
from collectors.sink import Signal


class RawItem(NamedTuple):
    """A span or log record as it came, with the resource and the scope that it came under; each a protobuf message."""

    item: bytes
    resource: bytes
    scope: bytes
    place: int
    """Which scope of the request it came under, counted through all resources."""


_raw_item = partial(tuple.__new__, RawItem)  # what RawItem._make does, in a third of the time


class RawItems:
    """The items of a request as they came, by ordinal, and requests of some of them."""

    __slots__ = ("_places", "items")

    def __init__(self, body: bytes, signal: Signal) -> None:
        """Raises MalformedRequest for bytes that are no request."""
        self._places: list[tuple[bytes, bytes]] = []
        self.items: list[RawItem] = []
        for entry in parse(body, signal).resources:
            resource = b"".join(entry.resource)
            around = _field(_RESOURCE, resource) if entry.resource else b""
            behind = _field(_SCHEMA_URL, entry.schema_url) if entry.schema_url else b""
            for inner in entry.scopes:
                scope, place = b"".join(inner.scope), len(self._places)
                before = _field(_SCOPE, scope) if inner.scope else b""
                after = _field(_SCHEMA_URL, inner.schema_url) if inner.schema_url else b""
                self._places.append((around + behind, before + after))
                self.items += map(_raw_item, zip(inner.items, repeat(resource), repeat(scope), repeat(place)))

    def request(self, chosen: Sequence[RawItem]) -> bytes:
        """The request with only those items, which are in order: the same to any reader as that of `select`."""
        return b"".join(self.pieces(chosen))

    def pieces(self, chosen: Sequence[RawItem]) -> list[bytes]:
        """That request in pieces to be joined; the items themselves among them, uncopied."""
        pieces: list[bytes] = []
        for place, group in groupby(chosen, key=_place_of):
            around, inside = self._places[place]
            items = [one[0] for one in group]
            starts = [_item_start(len(item)) for item in items]
            size = len(inside) + sum(map(len, items)) + sum(map(len, starts))
            head = b"".join((_SCOPES, _length(size), inside))
            pieces += _ENTRY, _length(len(around) + len(head) + size - len(inside)), around, head
            pieces += chain.from_iterable(zip(starts, items, strict=True))
        return pieces


_ENTRY, _RESOURCE, _SCOPES = b"\x0a", b"\x0a", b"\x12"
_SCOPE, _ITEM, _SCHEMA_URL = b"\x0a", b"\x12", b"\x1a"
"""Tags of length-delimited fields 1, 2 and 3 (see `schema`, split form)."""

_place_of = attrgetter("place")


@lru_cache(maxsize=8192)
def _item_start(length: int) -> bytes:
    """What stands before an item of that length."""
    return _ITEM + _length(length)


def _field(tag: bytes, value: bytes) -> bytes:
    return b"".join((tag, _length(len(value)), value))


def _length(number: int) -> bytes:
    """A length as protobuf writes it: seven bits a byte, the lowest first."""
    if number < 0x80:
        return number.to_bytes(1, "little")
    if number < 0x4000:
        return bytes((number & 0x7F | 0x80, number >> 7))
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
