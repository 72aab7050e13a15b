"""When a trace is complete enough to be judged (contract section 3, `settled_by`). Pure: all times are arguments, in seconds.

OTLP has no end of a trace, so completeness is inferred. Silence counts only while we listen: after a restart senders need time to
deliver what they could not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from collectors.span import Span
from monitor.model.invocation import SettledBy


@dataclass(frozen=True, slots=True)
class SettlingRules:
    """The figures of `assembly` in the configuration; durations in seconds."""

    settle_after: float = 30.0
    idle_timeout: float = 900.0
    max_age: float = 6 * 3600.0
    max_spans: int = 100_000


class SpanHead(NamedTuple):
    """What settling looks at of a span: its id, its parent's (eight zero bytes at a root), and whether it has ended."""

    span_id: bytes
    parent_span_id: bytes
    ended: bool


class TraceState(NamedTuple):
    """What is known of an open trace. `complete`: its root and all spans that we know of have ended, and no parent is missing.

    `settled_before` is set when an earlier settlement of the trace is stored: what came now is late data. A complete trace whose turn may
    go on in another one is held until `held_until`.
    """

    first_received: float
    last_received: float
    span_count: int
    complete: bool
    end_marker: bool = False
    settled_before: bool = False
    held_until: float = 0.0


class Due(NamedTuple):
    """When a trace settles if nothing more comes for it, and by which rule."""

    at: float
    by: SettledBy


_NO_PARENT = bytes(8)


def is_complete(heads: Iterable[SpanHead]) -> bool:
    """Whether the root and all known spans have ended and every parent is there.

    A span whose parent we do not have is a root only provisionally: the trace is not complete. Of several copies of a span one that has
    ended is enough.
    """
    ended: dict[bytes, bool] = {}
    parents: set[bytes] = set()
    has_root = False
    for head in heads:
        ended[head.span_id] = head.ended or ended.get(head.span_id, False)
        if head.parent_span_id == _NO_PARENT:
            has_root = True
        else:
            parents.add(head.parent_span_id)
    return has_root and all(ended.values()) and parents <= ended.keys()


def complete_spans(spans: Iterable[Span]) -> bool:
    """`is_complete` of decoded spans."""
    return is_complete(
        SpanHead(bytes.fromhex(span.span_id), bytes.fromhex(span.parent_span_id or "0" * 16), span.ended)
        for span in spans
    )


def due(state: TraceState, rules: SettlingRules, listening_since: float) -> Due:
    """When and by what the trace settles as things stand; of two rules the earlier one, and root_ended where both fall together.

    After a restart a trace past its age still gets `settle_after` of listening, in which the rest of it may come.
    """
    silence_from = max(state.last_received, listening_since)
    quiet_at = silence_from + rules.settle_after
    if state.end_marker:
        return Due(silence_from, SettledBy.END_MARKER)
    if state.span_count > rules.max_spans:
        return Due(silence_from, SettledBy.MAX_AGE)
    if state.complete:
        at, by = max(quiet_at, state.held_until), SettledBy.ROOT_ENDED
    elif state.settled_before:
        at, by = quiet_at, SettledBy.IDLE
    else:
        at, by = silence_from + rules.idle_timeout, SettledBy.IDLE
    too_old_at = max(state.first_received + rules.max_age, listening_since + rules.settle_after)
    return Due(too_old_at, SettledBy.MAX_AGE) if too_old_at < at else Due(at, by)
