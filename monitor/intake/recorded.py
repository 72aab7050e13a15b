"""Recorded export requests grouped to what is assembled together; what the daemon's intake would leave out is left out here.

Traces that make one turn go together, by the same rules as in the daemon, which gets them one by one (see turns.py). Unlike the daemon, which
keeps no log record without a trace id (contract section 3), this gives such records to the span that names the same response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from collectors.otlp.request import Item, decode, split
from collectors.sink import RejectReason, Signal
from collectors.span import LogRecord, Span
from monitor.assembly import SetUp, Ties, ties
from monitor.assembly.astray import RESPONSE_ID, adopted
from monitor.assembly.deduplicate import unique_spans
from monitor.assembly.joining import turns_of
from monitor.assembly.reading import senders
from monitor.intake.groups import together
from monitor.intake.linking import linked_pairs
from monitor.intake.loose import Loose


@dataclass(slots=True)
class Recorded:
    """Spans and log records that are assembled together, and spans of other traces that set their agents up."""

    spans: list[Span] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    beside: list[Span] = field(default_factory=list)


def recorded_traces(
    requests: Iterable[tuple[bytes, Signal]], rejected: Callable[[RejectReason], None] = lambda reason: None
) -> Iterator[Recorded]:
    """What each trace, or all traces of one turn, hold, in order of first appearance. `rejected` hears of every span and log record that the daemon
    would reject.
    """
    traces: dict[str, Recorded] = {}
    astray: list[LogRecord] = []
    for body, signal in requests:
        items = split(body, signal).items
        kept = [ordinal for ordinal, item in enumerate(items) if _is_wanted(item)]
        for item in items:
            if item.fault is not None:
                rejected(item.fault)
        decoded = decode(body, signal, kept, traceless=True)
        for span in decoded.spans:
            traces.setdefault(span.trace_id, Recorded()).spans.append(span)
        for record in decoded.logs:
            if record.trace_id:
                traces.setdefault(record.trace_id, Recorded()).logs.append(record)
            elif RESPONSE_ID in record.attributes:
                astray.append(record)
    for record in adopted(astray, [span for one in traces.values() for span in one.spans]) if astray else ():
        traces[record.trace_id].logs.append(record)
    yield from _joined(traces)


def _is_wanted(item: Item) -> bool:
    """What the daemon keeps, and log records without a trace id, which may turn out to belong to a span."""
    return item.valid and not item.own_telemetry and (item.genai or not item.trace_id)


def _joined(traces: dict[str, Recorded]) -> Iterator[Recorded]:
    found = {trace_id: ties(one.spans, one.logs) for trace_id, one in traces.items()}
    turns = turns_of(piece for tied in found.values() for piece in tied.pieces)
    setups = _setups(traces, found)
    for group in together(traces, [*([piece.trace_id for piece in turn] for turn in turns), *_linked(traces, found)]):
        whole = Recorded()
        agents: set[int] = set()
        for trace_id in group:
            whole.spans += traces[trace_id].spans
            whole.logs += traces[trace_id].logs
            agents |= found[trace_id].agents
        whole.beside = [
            span for key in sorted(agents) for setup, span in setups.get(key, ()) if setup.trace_id not in group
        ]
        yield whole


def _linked(traces: dict[str, Recorded], found: dict[str, Ties]) -> list[tuple[str, str]]:
    """Pairs of traces of which one was sent messages from inside of the other's runs."""
    wanted = {tied.linked.trace_id for tied in found.values() if tied.linked is not None}
    sent = {trace_id: senders(traces[trace_id].spans, traces[trace_id].logs) for trace_id in wanted & traces.keys()}

    def belongs(one: Loose, sender: Loose) -> bool:
        return one.linked is not None and sent[sender.trace_id].sent(one.linked)

    known = {
        trace_id: Loose(trace_id, None, tied.pieces, tied.linked, _start(traces[trace_id].spans))
        for trace_id, tied in found.items()
    }
    return linked_pairs(known.keys(), known, belongs) if sent else []


def _start(spans: Iterable[Span]) -> int:
    return min((span.start_time_unix_nano for span in spans), default=0)


def _setups(traces: dict[str, Recorded], found: dict[str, Ties]) -> dict[int, list[tuple[SetUp, Span]]]:
    """Spans that set agents up, by the agent's key."""
    spans: dict[tuple[str, str], Span] = {}
    wanted = {(setup.trace_id, setup.span_id) for tied in found.values() for setup in tied.setups}
    for trace_id in {trace_id for trace_id, _ in wanted}:
        spans |= {(trace_id, span.span_id): span for span in unique_spans(traces[trace_id].spans)}
    by_agent: dict[int, list[tuple[SetUp, Span]]] = {}
    for tied in found.values():
        for setup in tied.setups:
            by_agent.setdefault(setup.key, []).append((setup, spans[setup.trace_id, setup.span_id]))
    return by_agent
