"""Spans and log records as a tree that is cut into invocations."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.span import LogRecord, Span
from monitor.assembly.conventions.table import worth_asking
from monitor.assembly.deduplicate import unique_logs, unique_spans
from monitor.assembly.deltas import resolve_deltas
from monitor.assembly.facts import Facts, Field, Found, SpanClass, merge
from monitor.assembly.linking import Linked, Senders, adopt_linked, follow_links, linked, resumed
from monitor.assembly.logspans import with_log_spans
from monitor.assembly.neighbourhood import Surroundings, survey
from monitor.assembly.record import Record
from monitor.assembly.repair import adopt_orphans, retold
from monitor.assembly.segmentation import Segment, segment
from monitor.assembly.tree import Tree, build


def read(record: Record) -> Facts:
    """What all conventions that recognise a span say of it, the most usable source of each fact first."""
    facts: dict[Field, Found] = {}
    for convention in worth_asking(record.shape):
        if convention.recognises(record):
            found = convention.read(record)
            if facts:
                merge(facts, found)
            else:
                facts = found
    return facts


def segmented(spans: Sequence[Span], logs: Sequence[LogRecord]) -> tuple[Tree, Surroundings, list[Segment]]:
    """The tree of spans of one trace, or of traces that belong together, what surrounds each span, and the invocations."""
    tree = build(*with_log_spans(unique_spans(spans), unique_logs(logs)), read)
    resolve_deltas(tree.nodes)
    if follow_links(tree):
        tree = retold(tree)
    around = survey(tree)
    segments = segment(tree, around)
    followed = _followed(tree)
    while followed and adopt_linked(tree.roots, followed, segments):  # a message may be sent by who was sent one
        tree = _as_told(retold(tree))
        around = survey(tree)
        segments = segment(tree, around)
    if adopt_orphans(segments, around):
        tree = retold(tree)
        around = survey(tree)
        segments = segment(tree, around)
    return tree, around, resumed(segments, followed) if followed else segments


def senders(spans: Sequence[Span], logs: Sequence[LogRecord]) -> Senders:
    """What of a trace's spans may have sent messages that are a part of its runs."""
    return Senders(segmented(spans, logs)[2])


def _followed(tree: Tree) -> dict[str, Linked]:
    """The traces in the tree that were sent messages from another one in it."""
    found = linked(tree.roots)
    present = {node.trace_id for node in tree.nodes} if found else set()
    return {trace_id: one for trace_id, one in found.items() if one.trace_id in present}


def _as_told(tree: Tree) -> Tree:
    """The tree before anything was concluded from a span's place in it."""
    for node in tree.nodes:
        found = node.facts.get(Field.CLASS)
        node.span_class = found.value if found is not None else SpanClass.OTHER
    return tree
