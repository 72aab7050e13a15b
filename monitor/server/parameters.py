"""Query parameters: declared once, checked here, and shown in openapi.json. Pure; time is an argument."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from monitor.clock import from_rfc3339
from monitor.server.problems import BadParameter
from monitor.settings.units import parse_duration

DEFAULT_LIMIT = 100
MAX_LIMIT = 1000
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPACE_FOR_PLUS = re.compile(r" (?=\d\d:\d\d$)")

Read = Callable[[str, float], Any]
"""The value of a parameter's text at a time (seconds since 1970-01-01Z). Raises ValueError saying what would be right."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query: how it is read, its JSON Schema, and what it is for."""

    name: str
    text: str
    read: Read
    schema: Mapping[str, Any]
    required: bool = False


def _word(value: str, _now: float) -> str:
    if not value:
        raise ValueError("is empty; give a value or leave it out")
    return value


def _choice(value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"should be one of {', '.join(choices)}")
    return value


def read_trace_id(value: str) -> str:
    """A trace id in lower case. Raises ValueError."""
    if not _TRACE_ID.fullmatch(value.lower()):
        raise ValueError("should be a trace id of 32 hex digits")
    return value.lower()


_YEAR_2200 = 7_258_118_400.0


def _read_time(value: str, now: float) -> float:
    """A time, or so long before now. A `+` that was not escaped has become a space."""
    try:
        return now - parse_duration(value)
    except ValueError:
        pass
    try:
        moment = from_rfc3339(_SPACE_FOR_PLUS.sub("+", value))
        if not 0 <= moment < _YEAR_2200:
            raise ValueError("no time that anything could have happened at")
        return moment
    except (ValueError, OverflowError):
        raise ValueError("should be an RFC 3339 time like 2026-11-18T09:00:00Z, or a duration like 1h30m") from None


def _limit(value: str) -> int:
    digits = value.lstrip("0")[:9] if value.isascii() and value.isdigit() else ""
    if not digits or int(digits) > MAX_LIMIT:
        raise ValueError(f"should be a whole number from 1 to {MAX_LIMIT}")
    return int(digits)


def word(name: str, text: str, required: bool = False) -> Parameter:
    """Any text that is not empty."""
    return Parameter(name, text, _word, {"type": "string", "minLength": 1}, required)


def number(name: str, text: str, most: int, default: int) -> Parameter:
    """A whole number from 1."""

    def read(value: str, _now: float) -> int:
        if not (value.isascii() and value.isdigit()) or not 1 <= int(value[:9]) <= most:
            raise ValueError(f"should be a whole number from 1 to {most}")
        return int(value)

    return Parameter(name, text, read, {"type": "integer", "minimum": 1, "maximum": most, "default": default})


def one_of(name: str, text: str, choices: Sequence[str]) -> Parameter:
    """One of a closed list."""
    return Parameter(name, text, lambda value, _: _choice(value, choices), {"type": "string", "enum": list(choices)})


def trace_id(required: bool = False) -> Parameter:
    """A trace id; upper case is taken too."""
    schema = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
    return Parameter("trace_id", "32 hex digits", lambda value, _: read_trace_id(value), schema, required)


def flag(name: str, text: str) -> Parameter:
    """`true` or `false`."""
    choices = ("true", "false")
    schema = {"type": "boolean"}
    return Parameter(name, text, lambda value, _: _choice(value, choices) == "true", schema)


_BELOW = 1e15


def _amount(value: str, kind: type[int] | type[float]) -> float:
    wrong = f"should be a {'whole ' if kind is int else ''}number above 0 and below {_BELOW:,.0f}"
    try:
        found = kind(value)
    except ValueError:
        raise ValueError(wrong) from None
    if not 0 < found < _BELOW:
        raise ValueError(wrong)
    return found


def amount(name: str, text: str, kind: type[int] | type[float] = int) -> Parameter:
    """A number above 0, whole or not, that a double holds exactly."""
    schema = {"type": "integer" if kind is int else "number", "exclusiveMinimum": 0, "exclusiveMaximum": _BELOW}
    return Parameter(name, text, lambda value, _: _amount(value, kind), schema)


def time_of(name: str, text: str, *, required: bool = False) -> Parameter:
    """A time, RFC 3339 or a duration before now."""
    found = _time(name, text)
    return replace(found, required=required)


def _time(name: str, text: str) -> Parameter:
    schema = {"type": "string", "examples": ["2026-11-18T09:00:00Z", "1h30m"]}
    return Parameter(name, f"{text}; RFC 3339, or a duration before now", _read_time, schema)


SINCE = _time("since", "the earliest time")
UNTIL = _time("until", "the time before which")
LIMIT = Parameter(
    "limit",
    "how many items at most",
    lambda value, _: _limit(value),
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
)
CURSOR = word("cursor", "next_cursor of the page before")
PAGE = (SINCE, UNTIL, LIMIT, CURSOR)
"""What every listing takes."""


def read_query(parameters: Sequence[Parameter], query: Sequence[tuple[str, str]], now: float) -> dict[str, Any]:
    """The values of the given parameters by name. Raises BadParameter for one that is unknown, given twice, missing or wrong."""
    known = {parameter.name: parameter for parameter in parameters}
    found: dict[str, Any] = {}
    for name, text in query:
        if name not in known:
            raise BadParameter(name, _unknown(name, list(known)))
        if name in found:
            raise BadParameter(name, "is given twice; give it once")
        found[name] = _read(known[name], text, now)
    for parameter in parameters:
        if parameter.required and parameter.name not in found:
            raise BadParameter(parameter.name, f"is missing; give {parameter.text}")
    if found.get("since", float("-inf")) > found.get("until", float("inf")):
        raise BadParameter("until", "lies before `since`; give a later time, or a shorter duration")
    return found


def _read(parameter: Parameter, text: str, now: float) -> Any:
    try:
        return parameter.read(text, now)
    except ValueError as error:
        raise BadParameter(parameter.name, str(error)) from None


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"is no parameter here; did you mean `{near[0]}`?"
    return f"is no parameter here; the parameters are {', '.join(sorted(known))}" if known else "is no parameter here"
