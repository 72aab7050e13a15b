"""`privacy.drop_attributes`: attributes that are taken out of spans and log records before anyone reads or stores them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from collectors.otlp import schema
from collectors.otlp.items import parse
from collectors.sink import Signal

Dropped = Callable[[bytes], bool]
"""Whether an attribute of that key (as on the wire) is dropped."""


def dropped_by(globs: Sequence[str]) -> Dropped | None:
    """The test of a key against case-sensitive globs that match the whole key; None without globs."""
    if not globs:
        return None

    @lru_cache(maxsize=4096)
    def dropped(key: bytes) -> bool:
        text = key.decode(errors="replace")
        return any(fnmatchcase(text, glob) for glob in globs)

    return dropped


def scrub(body: bytes, signal: Signal, dropped: Dropped) -> bytes:
    """The protobuf request without the dropped attributes of its resources, scopes, spans, events, links and log records.

    What cannot be read as such a message is left out.
    """
    request = parse(body, signal)
    message = schema.Span if signal is Signal.TRACES else schema.LogRecord
    for resource in request.resources:
        resource.resource[:] = _scrubbed([b"".join(resource.resource)], schema.Resource, dropped)
        for scope in resource.scopes:
            scope.scope[:] = _scrubbed([b"".join(scope.scope)], schema.Scope, dropped)
            scope.items[:] = _scrubbed(scope.items, message, dropped)
    result: bytes = request.SerializeToString()
    return result


def _scrubbed(raws: Sequence[bytes], kind: Any, dropped: Dropped) -> list[bytes]:
    return [scrubbed for raw in raws if (scrubbed := _without(raw, kind, dropped)) is not None]


def _without(raw: bytes, kind: Any, dropped: Dropped) -> bytes | None:
    try:
        message = kind.FromString(raw)
    except schema.DecodeError:
        return None
    places = [message]
    if kind is schema.Span:
        places += [*message.events, *message.links]
    for place in places:
        attributes = place.attributes
        for at in reversed(range(len(attributes))):
            if dropped(attributes[at].key):
                del attributes[at]
    result: bytes = message.SerializeToString()
    return result
