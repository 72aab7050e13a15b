"""Invocations of which only the head was read at their settling, assembled from the stored spans when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from collectors.otlp.request import decode
from collectors.sink import Signal
from collectors.span import LogRecord, Span
from monitor.assembly import AssemblyContext, assemble
from monitor.intake import stored_spans
from monitor.intake.revisions import digest
from monitor.model.invocation import Assembled, Invocation
from monitor.model.run import InvocationChange, StoredInvocation

_A_DAY_NS = 86400 * 10**9


def assemble_later(blob: bytes, head: Invocation) -> InvocationChange:
    """See AssembleLater."""
    traces, logs = stored_spans.unpack(blob)
    return assembled_of(decode(traces, Signal.TRACES).spans, decode(logs, Signal.LOGS).logs, head)


def assembled_of(spans: Sequence[Span], records: Sequence[LogRecord], head: Invocation) -> InvocationChange:
    """The invocation that a head stands for, out of all spans and log records of its trace. Raises ValueError when it is not in them."""
    done = head.completeness
    found = _own(assemble(spans, records, AssemblyContext(done.settled_by, head.collector, (), done.late_spans)), head)
    if found is None:
        raise ValueError(f"invocation {head.id} is not in the stored spans of its trace")
    invocation = replace(found.invocation, id=head.id, revision=head.revision, attributes=head.attributes)
    told = digest(invocation)
    if invocation.ended_at > head.ended_at + _A_DAY_NS:  # the store moved times that cannot be
        invocation = replace(invocation, started_at=head.started_at, ended_at=head.ended_at)
    return InvocationChange(invocation, found.span_ids, told)


def _own(found: Sequence[Assembled], head: Invocation) -> Assembled | None:
    """The one of its id; another version of the program may call the only one there is by another."""
    same = next((one for one in found if one.invocation.id == head.id), None)
    return found[0] if same is None and len(found) == 1 else same


def whole(stored: StoredInvocation, spans: Sequence[Span], records: Sequence[LogRecord]) -> StoredInvocation:
    """A stored invocation with what its spans say, where only its head was read before."""
    if stored.assembled:
        return stored
    change = assembled_of(spans, records, stored.invocation)
    return replace(stored, invocation=change.invocation, span_ids=change.span_ids, digest=change.digest, assembled=True)
