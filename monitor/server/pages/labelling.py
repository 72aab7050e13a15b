"""The labels queue: a random draw, one invocation after the other with the judge's verdict hidden, and agreement afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from monitor.labels.labels import WEEK, Labels, UnknownSeries
from monitor.model.labels import HumanLabel, Label, LabelDraw
from monitor.model.run import Query
from monitor.server.pages.asked import Asked, Desk, GoTo, Rendered
from monitor.server.pages.rendering import href
from monitor.server.pages.transcript import as_html, turns
from monitor.server.problems import BadParameter, Refused

QUEUE_SECONDS = 30 * 86400.0
"""Draws older than this are no longer offered."""
DEFAULT_SIZE, MOST = 20, 1000
MOST_COMMENT = 4_000
DISAGREEMENTS_SHOWN = 10


def labels_page(desk: Desk, asked: Asked) -> Rendered:
    """What waits to be labelled by whom, the form of a new draw, and what labels say of the judges."""
    labels, labeler = _labels(desk), asked.query.get("labeler", "")
    draws = desk.context.store.open_draws(labeler, asked.now - QUEUE_SECONDS)
    queues = Counter((draw.monitor, draw.rubric) for draw in draws)
    reports = labels.reports()
    values: Mapping[str, Any] = {
        "labeler": labeler,
        "queues": sorted(queues.items()),
        "series": [(one.name, rubric.rubric) for one in desk.context.watched() for rubric in one.rubrics],
        "size": DEFAULT_SIZE,
        "reports": reports,
        "disagreements": [
            row for one in reports for row in labels.disagreements(one.monitor, one.rubric)[-DISAGREEMENTS_SHOWN:]
        ],
    }
    return Rendered("labels.html", values)


def draw(desk: Desk, asked: Asked) -> GoTo:
    """Draw judged invocations of the last week for people; on to the first of them."""
    monitor, _, rubric = asked.form.get("series", "").partition(" / ")
    size = asked.form.get("size", str(DEFAULT_SIZE))
    if not (size.isascii() and size.isdigit()) or not 1 <= int(size[:9]) <= MOST:
        raise BadParameter("size", f"should be a whole number from 1 to {MOST}")
    labeler = asked.form.get("labeler", "")
    try:
        drawn = _labels(desk).draw(monitor, rubric, int(size), asked.now - WEEK)
    except UnknownSeries as error:
        raise BadParameter("series", str(error)) from None
    if not drawn:
        raise Refused(HTTPStatus.NOT_FOUND, "nothing of that monitor and rubric has passed or failed within a week")
    return GoTo(href("/labels/next", monitor=monitor, rubric=rubric, labeler=labeler))


def next_label(desk: Desk, asked: Asked) -> Rendered | GoTo:
    """The next invocation of a queue, without what the judge said of it; back to the queues when there is none."""
    labeler, wanted = asked.query.get("labeler", ""), (asked.query.get("monitor"), asked.query.get("rubric"))
    draws = desk.context.store.open_draws(labeler, asked.now - QUEUE_SECONDS)
    waiting = [one for one in draws if (one.monitor, one.rubric) == wanted]
    for one in waiting:
        invocation = desk.context.store.invocation(one.invocation_id)
        if invocation is not None:
            values = {
                "draw": one,
                "invocation": invocation,
                "conversation": as_html(turns(invocation), {}),
                "question": _question(desk, one),
                "labeler": labeler,
                "left": len(waiting),
                "labels": list(Label),
            }
            return Rendered("label.html", values)
    return GoTo(href("/labels", labeler=labeler))


def take_label(desk: Desk, asked: Asked) -> GoTo:
    """Keep a label; on to what the judge had said."""
    form = asked.form
    if form.get("label") not in list(Label):
        raise BadParameter("label", f"should be one of {', '.join(Label)}")
    found = _draw(desk, form.get("draw"))
    labeler = form.get("labeler", "unknown")
    given = HumanLabel(
        found.invocation_id,
        found.rubric,
        Label(form["label"]),
        labeler,
        found.draw_id,
        form.get("comment", "")[:MOST_COMMENT],
    )
    if _labels(desk).take([given]):
        raise Refused(HTTPStatus.NOT_FOUND, "the invocation is no longer stored")
    return GoTo(href("/labels/answered", draw=found.draw_id, label=given.label.value, labeler=labeler))


def answered(desk: Desk, asked: Asked) -> Rendered | GoTo:
    """What the judge had said of a draw, for the person who has labelled it; others label it first."""
    found, labeler = _draw(desk, asked.query.get("draw")), asked.query.get("labeler", "")
    draws = desk.context.store.open_draws(labeler, asked.now - QUEUE_SECONDS)
    onward = href("/labels/next", monitor=found.monitor, rubric=found.rubric, labeler=labeler)
    if any(one.draw_id == found.draw_id for one in draws):
        return GoTo(onward)
    left = sum((one.monitor, one.rubric) == (found.monitor, found.rubric) for one in draws)
    values: Mapping[str, Any] = {
        "draw": found,
        "label": asked.query.get("label"),
        "labeler": labeler,
        "verdict": _verdict(desk, found),
        "left": left,
        "onward": onward,
    }
    return Rendered("answered.html", values)


def _labels(desk: Desk) -> Labels:
    if desk.context.labels is None:
        raise Refused(HTTPStatus.NOT_FOUND, "this process keeps no labels")
    return desk.context.labels


def _draw(desk: Desk, draw_id: str | None) -> LabelDraw:
    found = desk.context.store.label_draw(draw_id or "")
    if found is None:
        raise Refused(HTTPStatus.NOT_FOUND, "no draw of that id is stored")
    return found


def _verdict(desk: Desk, found: LabelDraw) -> Mapping[str, Any] | None:
    """The verdict that was drawn, with its explanation, while it is stored."""
    page = desk.context.store.list_verdicts(
        Query(trace_id=found.invocation_id[:32], monitor=found.monitor, rubric=found.rubric)
    )
    return next((one for one in page.items if one["rubric_version"] == found.rubric_version), None)


def _question(desk: Desk, found: LabelDraw) -> Mapping[str, Any]:
    """What the rubric asks: its description and criteria, as far as its definition tells them."""
    stored = desk.context.store.rubric_definition(found.rubric_version) or {}
    meaning = stored.get("meaning") or {}
    criteria: list[tuple[str, str]] = [
        (one["id"], one.get("description", "")) for one in meaning.get("dimensions") or ()
    ]
    criteria += [(one["id"], one.get("text", "")) for one in meaning.get("properties") or ()]
    levels: Sequence[tuple[str, str]] = [(str(level), text) for level, text in (meaning.get("levels") or {}).items()]
    return {
        "description": stored.get("description"),
        "instructions": meaning.get("instructions"),
        "criteria": criteria,
        "levels": levels,
        "threshold": meaning.get("threshold"),
    }
