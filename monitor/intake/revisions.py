"""What late data makes of stored invocations: which new one is which old one, what changed, what was merged. Pure.

Once stored an id never changes (contract section 3): data that moves an invocation's root makes a revision under the old id, data that
merges two marks the later one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from monitor.model.invocation import Assembled, Invocation
from monitor.model.run import InvocationChange, StoredInvocation
from monitor.model.wire import invocation_json


@dataclass(frozen=True, slots=True)
class Revision:
    """What is to be stored: new and changed invocations, and ids that are no longer with the id that holds them now."""

    changes: tuple[InvocationChange, ...]
    merged: Mapping[str, str]


def digest(invocation: Invocation) -> str:
    """A hash of what the invocation means: SHA-256 over canonical JSON, without revision and how it settled."""
    data = invocation_json(invocation)
    del data["revision"]
    del data["completeness"]["late_spans"], data["completeness"]["settled_by"]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()


def _plain(value: Any) -> Any:
    """What JSON does not have: bytes as hex, other mappings and sequences as theirs, anything else by its text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    return str(value)


def first(assembled: Sequence[Assembled]) -> Revision:
    """All invocations of a trace that has not been stored yet."""
    return Revision(tuple(_new(one) for one in assembled), {})


def revise(stored: Sequence[StoredInvocation], assembled: Sequence[Assembled]) -> Revision:
    """The invocations of a trace with late data against those that are stored of it."""
    heirs = _heirs(stored, assembled)
    changes: list[InvocationChange] = []
    merged: dict[str, str] = {}
    for place, one in enumerate(assembled):
        ancestors = sorted((old for old, heir in zip(stored, heirs, strict=True) if heir == place), key=_age)
        if not ancestors:
            changes.append(_new(one))
            continue
        keeper, *absorbed = ancestors
        merged |= {old.invocation.id: keeper.invocation.id for old in absorbed}
        change = _changed(keeper, one)
        if change is not None:
            changes.append(change)
    return Revision(tuple(changes), merged)


def with_late(revision: Revision, stored: Sequence[StoredInvocation]) -> tuple[Revision, int]:
    """With `late_spans` of changed invocations counted: spans that were not among those stored. And how many these are together."""
    before = {old.invocation.id: old for old in stored}
    changes: list[InvocationChange] = []
    total = 0
    for change in revision.changes:
        old = before.get(change.invocation.id)
        if old is not None:
            added = len(change.span_ids - old.span_ids)
            done = replace(change.invocation.completeness, late_spans=old.invocation.completeness.late_spans + added)
            change = replace(change, invocation=replace(change.invocation, completeness=done))
            total += added
        changes.append(change)
    return replace(revision, changes=tuple(changes)), total


def _heirs(stored: Sequence[StoredInvocation], assembled: Sequence[Assembled]) -> list[int | None]:
    """For each stored invocation the new one that continues it: the one of its id, else that with which it shares most spans."""
    places = {one.invocation.id: place for place, one in enumerate(assembled)}
    return [
        places[old.invocation.id] if old.invocation.id in places else _most_shared(old, assembled) for old in stored
    ]


def _most_shared(old: StoredInvocation, assembled: Sequence[Assembled]) -> int | None:
    best, shared = None, 0
    for place, one in enumerate(assembled):
        common = len(old.span_ids & one.span_ids)
        if common > shared:
            best, shared = place, common
    return best


def _age(old: StoredInvocation) -> tuple[int, str]:
    return old.invocation.started_at, old.invocation.id


def _new(one: Assembled) -> InvocationChange:
    return InvocationChange(one.invocation, one.span_ids, digest(one.invocation))


def _changed(old: StoredInvocation, one: Assembled) -> InvocationChange | None:
    """The next revision under the old id, or None when the late data changed nothing.

    It is always to be judged again: whether it has been judged only the store knows, in the transaction that puts the revision in place. A
    verdict may have come since `old` was read. (Under `late_spans: ignore` late data is not brought here.)
    """
    invocation = replace(one.invocation, id=old.invocation.id, revision=old.invocation.revision + 1)
    mark = digest(invocation)
    if mark == old.digest:
        return None
    return InvocationChange(invocation, one.span_ids, mark, rejudge=True)
