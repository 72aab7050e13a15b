"""One invocation: the conversation, what is missing of it, and every verdict with its evidence marked where it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from monitor.model.browsing import AnswerQuery, EarlierRevision
from monitor.model.conversation import PREFIX
from monitor.model.invocation import Invocation
from monitor.model.run import Query
from monitor.server.pages.asked import Asked, Desk, PlainText, Rendered
from monitor.server.pages.evidence import Quotation, find_quotations
from monitor.server.pages.shown_text import SHORT
from monitor.server.pages.transcript import as_html, texts, turns
from monitor.server.problems import Refused

_ORDER = ("fail", "unjudgeable", "pass", "not_applicable")
_BEST_OF_DIMENSIONS = 5.0
SIBLINGS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Quote:
    """Evidence of a criterion; `anchor` is where it stands in the conversation, None where it was not found."""

    text: str
    anchor: str | None


@dataclass(frozen=True, slots=True)
class CriterionView:
    """A criterion of a verdict. `what` is its text in the rubric; `short` says that it lacks something."""

    said: Mapping[str, Any]
    what: str | None
    best: float | None
    short: bool
    quotes: Sequence[Quote]


@dataclass(frozen=True, slots=True)
class VerdictView:
    """A verdict with its criteria, those that fell short first."""

    said: Mapping[str, Any]
    criteria: Sequence[CriterionView]


def invocation_page(desk: Desk, asked: Asked) -> Rendered:
    """The page of the invocation named in the path. Raises Refused with 404."""
    newest = _found(desk, asked)
    earlier = desk.context.store.earlier_revisions(newest.id) if newest.revision > 1 else ()
    found, verdicts = _asked_for(desk, asked, newest, earlier)
    conversation = turns(found)
    quotations = [quotation for _, quotation in _quotations(verdicts)]
    marks = find_quotations(texts(conversation), quotations)
    anchors = {mark.anchor for one in marks.values() for mark in one}
    told = desk.context.store.decisions(found.trace_id)
    decisions = [one for one in told if one["invocation_id"] == found.id]
    values: Mapping[str, Any] = {
        "invocation": found,
        "conversation": as_html(conversation, marks),
        "verdicts": [_view(desk, place, verdict, anchors) for place, verdict in enumerate(verdicts)],
        "decisions": decisions,
        "gaps": _gaps(found),
        "trace_url": _trace_url(desk.context.trace_link(), found.trace_id),
        "siblings": _siblings(desk, found),
        "wholes": [] if found.turns else _wholes(told, found),
        "seconds": (found.ended_at - found.started_at) / 1e9,
        "revisions": [newest.revision, *(one.invocation.revision for one in earlier)] if earlier else [],
        "newest": newest.revision,
        "merged": asked.path["id"] != found.id,
    }
    return Rendered("invocation.html", values)


def whole_text(desk: Desk, asked: Asked) -> PlainText:
    """All of one text of an invocation (`?part=tool_calls[0].result`). Raises Refused with 404."""
    newest = _found(desk, asked)
    earlier = desk.context.store.earlier_revisions(newest.id) if "revision" in asked.query else ()
    text = texts(turns(_revision(asked, newest, earlier) or newest)).get(asked.query.get("part", ""))
    if text is None:
        raise Refused(HTTPStatus.NOT_FOUND, "the invocation has no such text")
    return PlainText(text)


def _found(desk: Desk, asked: Asked) -> Invocation:
    found = desk.context.store.invocation(asked.path["id"])
    if found is None:
        raise Refused(
            HTTPStatus.NOT_FOUND, "no invocation of that id is stored: it was never here, or is past its retention"
        )
    return found


def _revision(asked: Asked, newest: Invocation, earlier: Sequence[EarlierRevision]) -> Invocation | None:
    """The earlier revision that is asked for, None for the newest. Raises Refused with 404 for one that is not kept."""
    wanted = asked.query.get("revision")
    if wanted is None or wanted == str(newest.revision):
        return None
    for one in earlier:
        if wanted == str(one.invocation.revision):
            return one.invocation
    raise Refused(HTTPStatus.NOT_FOUND, "that revision of the invocation is not kept any more, or never was")


def _asked_for(
    desk: Desk, asked: Asked, newest: Invocation, earlier: Sequence[EarlierRevision]
) -> tuple[Invocation, list[Mapping[str, Any]]]:
    """The revision that is asked for, with its verdicts: those that were replaced, and those that no later data has changed."""
    found = _revision(asked, newest, earlier)
    if found is None:
        return newest, _in_order(_verdicts(desk, newest))
    replaced = [verdict for one in earlier if one.invocation is found for verdict in one.verdicts]
    standing = [one for one in _verdicts(desk, newest) if one["revision"] == found.revision]
    return found, _in_order([*replaced, *standing])


def _in_order(verdicts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(verdicts, key=lambda one: (_ORDER.index(one["verdict"]), one["monitor"], one["rubric"]))


def _verdicts(desk: Desk, invocation: Invocation) -> list[Mapping[str, Any]]:
    page = desk.context.store.list_verdicts(Query(trace_id=invocation.trace_id, limit=1000))
    return [one for one in page.items if one["invocation_id"] == invocation.id]


def _quotations(verdicts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Quotation]]:
    """Each quotation with its anchor: verdict, criterion and place."""
    for place, verdict in enumerate(verdicts):
        for number, criterion in enumerate(verdict["criteria"]):
            kind = SHORT if _falls_short(verdict, criterion) else "good"
            for nth, text in enumerate(criterion["evidence"]):
                anchor = f"e{place}-{number}-{nth}"
                yield anchor, Quotation(text, anchor, kind)


def _best(verdict: Mapping[str, Any], criterion: Mapping[str, Any]) -> float:
    return _BEST_OF_DIMENSIONS if criterion["weight"] is not None else float(verdict["score_range"][1])


def _falls_short(verdict: Mapping[str, Any], criterion: Mapping[str, Any]) -> bool:
    return criterion["applicable"] and criterion["score"] is not None and criterion["score"] < _best(verdict, criterion)


def _view(desk: Desk, place: int, verdict: Mapping[str, Any], anchors: set[str]) -> VerdictView:
    definition = desk.context.store.rubric_definition(verdict["rubric_version"]) or {}
    what = _criteria_texts(definition.get("meaning") or {})
    views = []
    for number, criterion in enumerate(verdict["criteria"]):
        quotes = [
            Quote(text, anchor if (anchor := f"e{place}-{number}-{nth}") in anchors else None)
            for nth, text in enumerate(criterion["evidence"])
        ]
        short = _falls_short(verdict, criterion)
        views.append(CriterionView(criterion, what.get(criterion["id"]), _best(verdict, criterion), short, quotes))
    views.sort(key=lambda view: (not view.short, not view.said["applicable"]))
    return VerdictView(verdict, views)


def _criteria_texts(meaning: Mapping[str, Any]) -> dict[str, str]:
    """What the criteria of a stored definition say, by id."""
    found = {one["id"]: one["description"] for one in meaning.get("dimensions") or () if "description" in one}
    return found | {one["id"]: one["text"] for one in meaning.get("properties") or () if "text" in one}


def _gaps(invocation: Invocation) -> list[str]:
    """What the telemetry did not carry at all."""
    return [name.replace("_", " ") for name in invocation.completeness.missing]


def _trace_url(template: str | None, trace_id: str) -> str | None:
    """The trace in the tracing UI, only where that is a web address."""
    url = template.replace("{trace_id}", trace_id) if template else None
    return url if url and urlsplit(url).scheme in ("http", "https") else None


def _wholes(decisions: Sequence[Mapping[str, Any]], invocation: Invocation) -> list[str]:
    """The conversation that it is a turn of, where that is complete and known as such."""
    found = (one["invocation_id"] for one in decisions if one["settled_by"] is not None)
    own = f"{PREFIX}{invocation.conversation_id}"
    return sorted({name for name in found if name == own or name.startswith(f"{own}@")})


def _siblings(desk: Desk, invocation: Invocation) -> list[str]:
    """Other invocations of the same trace, a few."""
    page = desk.context.store.list_answers(AnswerQuery(trace_id=invocation.trace_id, limit=SIBLINGS_SHOWN + 1))
    return [one["id"] for one in page.items if one["id"] != invocation.id][:SIBLINGS_SHOWN]
