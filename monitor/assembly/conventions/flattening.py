"""Lists that are flattened into attributes: `llm.input_messages.0.message.role`, `gen_ai.prompt.1.content`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from collectors.span import Attributes
from monitor.assembly.record import Record, Shape
from monitor.assembly.told import Places

MAX_SEGMENTS = 24
"""Keys with more segments are no messages; they are left out."""

_MANY_KEYS = 96
"""The places in spans with more attributes than this are not remembered: they seldom come twice."""


def flattened(record: Record, prefix: str) -> list[dict[str, Any]]:
    """The objects behind `prefix.N.key` attributes, by N; gaps and a first N above 0 are accepted.

    Deeper numeric segments become lists again: `prefix.0.tool_calls.1.id` is `[{"tool_calls": [{"id": …}]}]`.
    """
    items = [nested(record.attributes, places) for places in layout(record.shape, prefix)]
    return [item for item in items if isinstance(item, dict)]


def layout(shape: Shape, prefix: str) -> tuple[Places, ...]:
    """The places of each item behind a prefix, in order of the numbers."""
    return (_remembered if len(shape.keys) <= _MANY_KEYS else _layout)(shape, prefix)


def _layout(shape: Shape, prefix: str) -> tuple[Places, ...]:
    found: dict[int, list[tuple[tuple[str, ...], str]]] = {}
    lead, start = prefix + ".", len(prefix) + 1
    for key in shape.ordered:
        if not key.startswith(lead) or key.count(".", start) >= MAX_SEGMENTS:
            continue
        number, *path = key[start:].split(".")
        if number.isdecimal() and len(number) < 9:
            found.setdefault(int(number), []).append((tuple(path), key))
    return tuple(tuple(places) for _, places in sorted(found.items()))


_remembered = lru_cache(maxsize=512)(_layout)


def nested(attributes: Attributes, places: Places) -> Any:
    """The object whose values are at these places; a bare value where there is nothing inside the item."""
    root: dict[str, Any] = {}
    for path, key in places:
        _insert(root, ("", *path), attributes[key])
    return _lists(root[""])


def _insert(node: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for segment in path[:-1]:
        inner = node.get(segment)
        if not isinstance(inner, dict):
            inner = node[segment] = {}
        node = inner
    if not isinstance(node.get(path[-1]), dict):
        node[path[-1]] = value


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(key.isdecimal() and len(key) < 9 for key in node):
        return _listed(node)
    return {key: _lists(item) for key, item in node.items()}


def _listed(node: Mapping[str, Any]) -> list[Any]:
    numbered = sorted([(int(key), item) for key, item in node.items()], key=lambda pair: pair[0])
    return [_lists(item) for _, item in numbered]
