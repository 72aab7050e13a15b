"""Which invocations a monitor is about: globs over the head of an invocation."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from monitor.model.run import Candidate
from monitor.settings.tree import MonitorSettings, Select

Values = tuple[str, ...]
"""What a candidate has under a key, as texts; empty where the key is absent."""


def looks_at_tools(monitor: MonitorSettings) -> bool:
    """Whether a monitor selects by the tools that were called, which only assembly tells."""
    return any(
        select is not None and "tool" in select.model_fields_set for select in (monitor.select, monitor.sample.always)
    )


def agent_label(candidate: Candidate) -> str:
    """The `agent` label: agent name, else service name, else `unknown` (contract section 6)."""
    return candidate.agent_name or candidate.service or "unknown"


def _single(value: str | None) -> Values:
    return () if value is None else (value,)


_HEADS: Mapping[str, Callable[[Candidate], Values]] = {
    "agent": lambda c: (agent_label(c),),
    "agent_version": lambda c: _single(c.agent_version),
    "model": lambda c: _single(c.model),
    "environment": lambda c: _single(c.environment),
    "service": lambda c: _single(c.service),
    "operation": lambda c: _single(c.operation),
    "tool": lambda c: c.tools,
    "collector": lambda c: _single(c.collector or None),
}


@dataclass(frozen=True, slots=True)
class _Condition:
    """One key of `select`. Without globs it matches only where the key is absent."""

    key: str
    values: Callable[[Candidate], Values]
    wanted: tuple[re.Pattern[str], ...] = ()
    excluded: tuple[re.Pattern[str], ...] = ()

    def matches(self, candidate: Candidate) -> bool:
        values = self.values(candidate)
        if not self.wanted and not self.excluded:
            return not values
        if any(pattern.match(value) for pattern in self.excluded for value in values):
            return False
        return not self.wanted or any(pattern.match(value) for pattern in self.wanted for value in values)


@dataclass(frozen=True, slots=True)
class Selection:
    """A compiled `select`: its keys are joined by AND, the globs of a list by OR, and `!` excludes whatever else matches.

    Globs (`*`, `?`, `[abc]`) are case-sensitive and match the whole value. A list of nothing but exclusions matches all the rest, also
    where the key is absent; a null matches only an absent key. `agent` is what the `agent` label shows, and is absent where there is no
    agent name. `tool` looks at all tools that were called: one that matches is enough, one that is excluded is too.
    """

    conditions: tuple[_Condition, ...] = ()
    has_error: bool | None = None

    @classmethod
    def of(cls, select: Select) -> Selection:
        """Compile a section of the configuration."""
        given = [key for key in _HEADS if key in select.model_fields_set]
        conditions = [_condition(key, _values_of(key, getattr(select, key)), getattr(select, key)) for key in given]
        conditions += [
            _condition(f"attributes.{name}", _attribute(name), globs) for name, globs in select.attributes.items()
        ]
        return cls(tuple(conditions), select.has_error)

    def mismatch(self, candidate: Candidate) -> str | None:
        """The first key that does not match, never its value; None where all match."""
        for condition in self.conditions:
            if not condition.matches(candidate):
                return condition.key
        if self.has_error is not None and candidate.has_error is not self.has_error:
            return "has_error"
        return None

    def matches(self, candidate: Candidate) -> bool:
        """Whether all keys match."""
        return self.mismatch(candidate) is None


def _values_of(key: str, globs: str | list[str] | None) -> Callable[[Candidate], Values]:
    """How a key is read. A null for `agent` asks for the name itself: the label is never absent."""
    if key == "agent" and globs is None:
        return lambda candidate: _single(candidate.agent_name)
    return _HEADS[key]


def _attribute(name: str) -> Callable[[Candidate], Values]:
    return lambda candidate: _texts(candidate.attributes.get(name))


def _condition(key: str, values: Callable[[Candidate], Values], globs: str | list[str] | None) -> _Condition:
    listed = [] if globs is None else [globs] if isinstance(globs, str) else globs
    return _Condition(
        key,
        values,
        _compile(glob for glob in listed if not glob.startswith("!")),
        _compile(glob[1:] for glob in listed if glob.startswith("!")),
    )


def _compile(globs: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(fnmatch.translate(glob)) for glob in globs)


def _texts(value: Any) -> Values:
    """An attribute's value as texts: a list's members one by one, other values as JSON writes them."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, (list, tuple)):
        return tuple(text for member in value for text in _texts(member))
    return (json.dumps(value, separators=(",", ":"), sort_keys=True, default=str),)
