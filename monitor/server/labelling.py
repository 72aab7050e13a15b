"""Labels over the API: a draw for people, what they said, and what that says of the judge."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from monitor.labels.labels import WEEK, Labels, UnknownSeries
from monitor.labels.report import LabelReport
from monitor.model.invocation import Invocation
from monitor.model.labels import HumanLabel, Label
from monitor.server.problems import BadParameter, Refused

MOST_LABELS = 1000
DEFAULT_SIZE = 100
_KEYS = frozenset({"draw_id", "invocation_id", "rubric", "label", "labeler", "comment", "user_input", "final_response"})
_TEXTS = ("draw_id", "invocation_id", "rubric", "labeler", "comment")


def drawn_json(labels: Labels, query: Mapping[str, Any], now: float) -> Sequence[Mapping[str, Any]]:
    """Draw, and show what people need to decide; never what the judge said."""
    try:
        drawn = labels.draw(
            query["monitor"], query["rubric"], query.get("size", DEFAULT_SIZE), query.get("since", now - WEEK)
        )
    except UnknownSeries as error:
        raise BadParameter("rubric", str(error)) from None
    return [
        {
            "draw_id": draw.draw_id,
            "invocation_id": draw.invocation_id,
            "rubric": draw.rubric,
            "user_input": _asked(invocation) if invocation else None,
            "final_response": invocation.final_response if invocation else None,
            "label": "",
            "labeler": "",
            "comment": "",
        }
        for draw, invocation in drawn
    ]


def _asked(invocation: Invocation) -> str | None:
    """What the answer is to be judged against: the request, of a conversation all that was said before its last answer."""
    if not invocation.turns:
        return invocation.user_input
    said = []
    for turn in invocation.turns:
        said += [f"User: {turn.user_input or '(not recorded)'}", f"Agent: {turn.final_response or '(none)'}"]
    return "\n\n".join(said[:-1])


def take_labels(labels: Labels, body: bytes) -> Mapping[str, Any]:
    """Keep the labels of a body; what is about nothing that is known is told by its place."""
    given = read_labels(body)
    refused = labels.take(given)
    return {
        "taken": len(given) - len(refused),
        "refused": [
            {"item": place, "reason": "no such invocation is stored, or the draw did not draw it for this rubric"}
            for place in refused
        ],
    }


def read_labels(body: bytes) -> list[HumanLabel]:
    """The labels of `{"items": […]}` or of a bare list. Raises Refused naming the first item that is wrong; never quotes it."""
    try:
        value: Any = json.loads(body or b"null")
    except ValueError:
        raise Refused(HTTPStatus.BAD_REQUEST, "the body is no JSON") from None
    items = value.get("items") if isinstance(value, dict) else value
    if not isinstance(items, list) or len(items) > MOST_LABELS:
        raise Refused(HTTPStatus.BAD_REQUEST, f'the body should be {{"items": […]}} with at most {MOST_LABELS} labels')
    return [_label(place, item) for place, item in enumerate(items)]


def _label(place: int, item: Any) -> HumanLabel:
    def wrong(key: str, right: str) -> Refused:
        return Refused(HTTPStatus.BAD_REQUEST, f"items[{place}].{key}: {right}", parameter=f"items[{place}].{key}")

    if not isinstance(item, dict):
        raise wrong("", "should be an object")
    unknown = sorted(item.keys() - _KEYS)
    if unknown:
        raise wrong(str(unknown[0])[:64], f"is no key here; the keys are {', '.join(sorted(_KEYS))}")
    for key in _TEXTS:
        if not isinstance(item.get(key) or "", str):
            raise wrong(key, "should be a text")
    for key in ("invocation_id", "rubric"):
        if not item.get(key):
            raise wrong(key, "is missing")
    if item.get("label") not in list(Label):
        raise wrong("label", f"should be one of {', '.join(Label)}")
    return HumanLabel(
        invocation_id=item["invocation_id"],
        rubric=item["rubric"],
        label=Label(item["label"]),
        labeler=item.get("labeler") or "unknown",
        draw_id=item.get("draw_id") or None,
        comment=item.get("comment") or "",
    )


def reports_json(labels: Labels, query: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """What labels say of each rubric, with the labels that its judge's verdicts differ from."""
    try:
        reports = labels.reports(query.get("monitor"), query.get("rubric"))
    except UnknownSeries as error:
        raise BadParameter("monitor", str(error)) from None
    return [{**asdict(one), "disagreements": _disagreements(labels, one)} for one in reports]


def _disagreements(labels: Labels, one: LabelReport) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "invocation_id": row.invocation_id,
            "judge": row.verdict,
            "label": row.label.value,
            "labeler": row.labeler,
            "comment": row.comment,
        }
        for row in labels.disagreements(one.monitor, one.rubric)
    ]
