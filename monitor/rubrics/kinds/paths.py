"""Context mapping: `{{…}}` in a text stands for what a path finds in the invocation's JSON (contract section 3). Pure.

A path is a name with steps: `.name`, `['any name']`, `[0]`, `[-1]`, `[*]`, and `[?name=='search']` (items whose field has that text); JSONPath's `$`
before it and `[?(@.name=='search')]` are understood. The
names that Foundry's data mapping uses are known: `item.query`, `item.response`, `item.context`, `item.tool_calls`, `item.tool_definitions`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_PLACE = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_STEP = re.compile(
    r"""\.?(?P<name>[A-Za-z_][\w-]*)|\[\s*(?:(?P<index>-?\d{1,9})|(?P<all>\*)|'(?P<quoted>[^']*)'|"(?P<double>[^"]*)"
    |\?\s*(?P<open>\()?\s*(?:@\.)?(?P<field>[\w-]+)\s*==\s*['"](?P<wanted>[^'"]*)['"]\s*(?(open)\)))\s*\]""",
    re.VERBOSE,
)
_ALIASES = {
    "item.query": "user_input",
    "item.response": "final_response",
    "item.context": "tool_calls[*].result",
    "item.tool_calls": "tool_calls",
    "item.tool_definitions": "tool_definitions",
}
FIELDS = frozenset({
    "id", "trace_id", "conversation_id", "agent_name", "agent_version", "environment", "service", "model", "started_at", "ended_at",
    "system_instructions", "user_input", "history", "tool_definitions", "tool_calls", "final_response", "error", "model_calls",
    "input_tokens", "output_tokens", "attributes", "turns",
})  # fmt: skip
"""Where a path may begin; `turns` is there of conversations."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: into a key, to an index, over all items, or over the items whose `field` equals `key`."""

    key: str | None = None
    index: int | None = None
    field: str | None = None


def parse_path(text: str) -> tuple[Step, ...]:
    """The steps of a path. Raises ValueError saying what is wrong with it."""
    for alias, path in _ALIASES.items():
        if text == alias or text.startswith((f"{alias}.", f"{alias}[")):
            text = path + text[len(alias) :]
    rooted = text.startswith(("$.", "$["))
    steps, at = list[Step](), int(rooted)
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(f"`{{{{{text}}}}}` cannot be read from its character {at + 1} on")
        steps.append(_step(match))
        at = match.end()
    if not steps or steps[0].key not in FIELDS:
        raise ValueError(
            f"`{{{{{text}}}}}` does not begin with a field of the invocation: one of {', '.join(sorted(FIELDS))}"
        )
    return tuple(steps)


def _step(match: re.Match[str]) -> Step:
    if match["index"] is not None:
        return Step(index=int(match["index"]))
    if match["all"] is not None:
        return Step()
    if match["field"] is not None:
        return Step(match["wanted"], field=match["field"])
    return Step(next(match[key] for key in ("name", "quoted", "double") if match[key] is not None))


def find(data: Any, steps: Sequence[Step]) -> list[Any]:
    """What the path finds, in order; empty where there is nothing. Nulls are nothing."""
    found = [data]
    for step in steps:
        found = [value for item in found for value in _into(item, step)]
    return [item for item in found if item is not None and item not in ("", [], {})]


def _into(item: Any, step: Step) -> Iterator[Any]:
    if step.field is not None and isinstance(item, list):
        yield from (one for one in item if isinstance(one, Mapping) and one.get(step.field) == step.key)
    elif step.key is not None and step.field is None and isinstance(item, Mapping):
        yield item.get(step.key)
    elif step.index is not None and isinstance(item, list) and -len(item) <= step.index < len(item):
        yield item[step.index]
    elif step == Step() and isinstance(item, list):
        yield from item


def check_template(template: str) -> None:
    """Raises ValueError when a place of the text cannot be read, or when it has none."""
    places = _PLACE.findall(template)
    if not places:
        raise ValueError("has no `{{…}}`: name a field of the invocation, as in `{{tool_calls[*].result}}`")
    for place in places:
        parse_path(place)


def fill(template: str, data: Any) -> str | None:
    """The text with what its paths find; several findings stand on lines of their own. None when a path finds nothing."""
    texts = []
    for place in _PLACE.findall(template):
        found = find(data, parse_path(place))
        if not found:
            return None
        texts.append("\n".join(map(_text, found)))
    filled = iter(texts)
    return _PLACE.sub(lambda _: next(filled), template)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
