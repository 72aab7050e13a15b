"""The items of an export request as they came, for a request that many ask for their part of."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from collectors.otlp import schema
from collectors.otlp.items import parse
from collectors.sink import Signal


class RawItem(NamedTuple):
    """A span or log record as it came, with the resource and the scope that it came under; each a protobuf message."""

    item: bytes
    resource: bytes
    scope: bytes
    place: tuple[int, int]
    """The ordinals of resource and scope, by which items that came together are told."""


class RawItems:
    """The items of a request as they came, by ordinal, and requests of some of them; for a request that many ask for their part of."""

    __slots__ = ("_entries", "items")

    def __init__(self, body: bytes, signal: Signal) -> None:
        """Raises MalformedRequest for bytes that are no request."""
        self._entries = parse(body, signal).resources
        self.items: list[RawItem] = []
        for at, entry in enumerate(self._entries):
            resource = b"".join(entry.resource)
            for inside, scope in enumerate(entry.scopes):
                under = b"".join(scope.scope)
                self.items += [RawItem(raw, resource, under, (at, inside)) for raw in scope.items]

    def request(self, chosen: Sequence[RawItem]) -> bytes:
        """The request with only those items, which are in order: as `select`."""
        out = schema.SplitRequest()
        target: Any = None
        last = -1
        for (at, inside), group in groupby(chosen, key=lambda one: one.place):
            entry = self._entries[at]
            if at != last:
                target = out.resources.add(resource=entry.resource, schema_url=entry.schema_url)
            last = at
            scope = entry.scopes[inside]
            target.scopes.add(scope=scope.scope, items=[one.item for one in group], schema_url=scope.schema_url)
        result: bytes = out.SerializeToString()
        return result
