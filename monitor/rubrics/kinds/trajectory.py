"""Comparing the tools that were called with those expected: exact, in order, or in any order, with precision, recall and F1.

Exact: the same calls in the same order. In order: the expected ones appear in that order, others between them are allowed. Any order:
each expected one appears, as often as expected. Precision = matched / called, recall = matched / expected, as multisets of calls.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.model.invocation import ToolCall


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """An expected call; with `arguments` they must be equal too, None ignores them."""

    tool: str
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """Whether the calls match, and how far."""

    held: bool
    precision: float
    recall: float
    f1: float


def canonical(value: Any) -> str:
    """A JSON value as text that is the same for equal values: 1 and 1.0 are one number, the order of keys is nothing."""
    return json.dumps(_plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [_plain(item) for item in value]
    return value


def match(mode: str, calls: Sequence[ToolCall], expected: Sequence[ExpectedCall]) -> Match:
    """Compare calls with expected ones; `mode` is exact, in_order or any_order."""
    by_arguments = {item.tool for item in expected if item.arguments is not None}
    made = [_key(call.name, call.arguments if call.name in by_arguments else None) for call in calls]
    wanted = [_key(item.tool, item.arguments) for item in expected]
    common = sum((Counter(made) & Counter(wanted)).values())
    precision = common / len(made) if made else float(not wanted)
    recall = common / len(wanted) if wanted else 1.0
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    if mode == "exact":
        held = made == wanted
    elif mode == "in_order":
        rest = iter(made)
        held = all(any(call == item for call in rest) for item in wanted)
    else:
        held = common == len(wanted)
    return Match(held, precision, recall, f1)


def _key(tool: str, arguments: Any) -> tuple[str, str]:
    return tool, "" if arguments is None else canonical(arguments)
