"""The listing of answers: by agent, version, verdict, rubric, criterion and time, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.model.browsing import AnswerQuery
from monitor.model.verdict import Outcome
from monitor.server.pages.asked import Asked, Desk, Rendered
from monitor.server.pages.reasons import counts
from monitor.server.pages.rendering import href
from monitor.server.parameters import PAGE, Parameter, one_of, read_query, word

PATH = "/invocations"
PAGE_SIZE = 50
TIMES = ("1h", "6h", "1d", "7d", "30d")
_WORDS = (
    "agent",
    "agent_version",
    "environment",
    "conversation_id",
    "monitor",
    "rubric",
    "rubric_version",
    "criterion",
)
PARAMETERS: tuple[Parameter, ...] = (
    *(word(name, f"the {name}".replace("_", " ")) for name in _WORDS),
    one_of("verdict", "the verdict", [outcome.value for outcome in Outcome]),
    *PAGE,
)


def invocations(desk: Desk, asked: Asked) -> Rendered:
    """A page of answers. Raises BadParameter, InvalidCursor."""
    given = dict(asked.query)
    values = {"limit": PAGE_SIZE, **read_query(PARAMETERS, list(given.items()), asked.now)}
    page = desk.context.store.list_answers(AnswerQuery(**values))
    filters = {parameter.name: given.get(parameter.name) for parameter in PARAMETERS if parameter.name != "cursor"}
    older = href(PATH, **filters, cursor=page.next_cursor) if page.next_cursor else None
    shown: Mapping[str, Any] = {
        "items": page.items,
        "filters": filters,
        "filtered": any(filters.values()),
        "of_verdicts": AnswerQuery(**values).of_verdicts,
        "older": older,
        "newest": href(PATH, **filters) if "cursor" in given else None,
        "times": TIMES,
        "outcomes": [outcome.value for outcome in Outcome],
        "monitors": [status["name"] for status in asked.monitors],
        "rubrics": sorted({rubric.rubric for monitor in desk.context.watched() for rubric in monitor.rubrics}),
        "agents": sorted(counts(desk.context.store.tallies(), "").seen)[:500],
    }
    return Rendered("invocations.html", shown)
