"""Collects a span's facts from its attributes: one helper per kind of value, each noting the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from collectors.span import Attributes
from monitor.assembly.definitions import definitions_of
from monitor.assembly.facts import Field, Found, SpanClass, rank
from monitor.assembly.messages import read_messages, text_in, withheld_text
from monitor.assembly.opaque import opaque_messages
from monitor.assembly.parts import result_value
from monitor.assembly.record import Record
from monitor.assembly.values import decode, decode_any, number_of, plain, withheld
from monitor.model.invocation import Capture

PLACEHOLDERS = frozenset({"", "unknown", "none", "null", "undefined", "n/a", "<not specified>"})
"""Texts that instrumentations write where they know nothing."""

_ASKING = frozenset({"tool_calls", "tool_call", "tool-calls", "tool_use", "tooluse", "function_call", "toolcalls"})

MAX_SEGMENTS = 24
"""Flattened keys with more segments are no messages; they are left out."""


class Reader:
    """The facts of one span in one dialect, as they are found. The first usable source of a field wins."""

    def __init__(self, record: Record, convention: str) -> None:
        self.record = record
        self.convention = convention
        self.facts: dict[Field, Found] = {}

    def put(self, field: Field, value: Any, source: str, *, capture: Capture | None = None, weak: bool = False) -> None:
        """Note a value, unless a source at least as usable has been noted."""
        current = self.facts.get(field)
        if current is None:
            self.facts[field] = Found(value, source, self.convention, capture, weak)
            return
        found = Found(value, source, self.convention, capture, weak)
        if rank(found) < rank(current):
            self.facts[field] = found

    def classify(self, span_class: SpanClass | None, source: str) -> None:
        """Note the span's class, the first time only."""
        if span_class is not None and Field.CLASS not in self.facts:
            self.facts[Field.CLASS] = Found(span_class, source, self.convention)

    def text(self, field: Field, *keys: str, weak: bool = False) -> None:
        """A short text (a name, an id, a model): placeholders and redaction markers count as absent."""
        attributes = self.record.attributes
        for key in keys:
            value = attributes.get(key)
            if isinstance(value, str) and value.strip().lower() not in PLACEHOLDERS and withheld(value) is None:
                self.put(field, value, key, weak=weak)
                return

    def finish(self, *keys: str) -> None:
        """Whether the model stopped in order to call tools, by a finish reason or a list of them."""
        for key in keys:
            value = self.record.attributes.get(key)
            value = decode(value) if isinstance(value, str) else value
            reasons = [value] if isinstance(value, str) else value if isinstance(value, list | tuple) else []
            if reasons:
                self.put(Field.ASKS, any(str(reason).lower() in _ASKING for reason in reasons), key)
                return

    def count(self, field: Field, *keys: str) -> None:
        """A count of tokens."""
        for key in keys:
            number = number_of(self.record.attributes.get(key))
            if number is not None:
                self.put(field, number, key)
                return

    def messages(self, field: Field, role: str, value: Any, source: str) -> None:
        """Messages in a content value; None is absent."""
        if value is None:
            return
        found, reason = read_messages(value, role)
        if found or reason is not None:
            self.put(field, found, source, capture=reason)

    def opaque(self, field: Field, role: str, *keys: str) -> None:
        """Input or output of any shape, from each of the attributes that is present."""
        for key in keys:
            content = self.record.attributes.get(key)
            if content is not None:
                found, reason = opaque_messages(content, role)
                self.put(field, found, key, capture=reason)

    def tool(
        self, name: tuple[str, ...], call_id: tuple[str, ...], arguments: tuple[str, ...], result: tuple[str, ...]
    ) -> None:
        """A tool run's facts, each from the first attribute that is present."""
        self.text(Field.TOOL_NAME, *name)
        self.text(Field.CALL_ID, *call_id)
        given = lookup(self.record.attributes, *arguments)
        if given is not None:
            self.arguments(*given)
        answer = lookup(self.record.attributes, *result)
        if answer is not None:
            self.result(result_value(_opened(unquoted(answer[0]))), answer[1])

    def definitions(self, *keys: str) -> None:
        """Tools that were offered, from the first attribute that holds any."""
        for key in keys:
            found = definitions_of(self.record.attributes.get(key))
            if found:
                self.put(Field.DEFINITIONS, found, key, weak=all(one.parameters is None for one in found))
                return

    def names(self, names: Iterable[str], source: str) -> None:
        """Tools of which only the names are recorded."""
        found = definitions_of([name for name in names if name])
        if found:
            self.put(Field.DEFINITIONS, found, source, weak=True)

    def instructions(self, value: Any, source: str) -> None:
        """System instructions: plain text, JSON text, a list of parts or of texts."""
        if value is None or value == "":
            return
        found, reason = read_messages(value, "system")
        text = text_in(found)
        if text is not None:
            self.put(Field.SYSTEM, text, source)
        elif reason is not None or found:
            self.put(Field.SYSTEM, None, source, capture=reason or withheld_text(found) or Capture.NOT_CAPTURED)

    def arguments(self, value: Any, source: str) -> None:
        """Tool arguments: the decoded JSON value when it decodes, else the text; an empty text is no arguments."""
        reason = withheld(value)
        if reason is not None:
            self.put(Field.ARGUMENTS, None, source, capture=reason)
        elif value is not None and value != "":
            self.put(Field.ARGUMENTS, plain(decode_any(value)), source)

    def result(self, value: Any, source: str) -> None:
        """A tool's result as a value that is there, None included (attributes that are absent are not passed)."""
        reason = withheld(value)
        if reason is not None:
            self.put(Field.RESULT, None, source, capture=reason)
        else:
            self.put(Field.RESULT, plain(value), source)


def unquoted(value: Any) -> Any:
    """A result attribute as what it stands for: a JSON text or null is decoded, JSON objects stay the text that the model saw."""
    if isinstance(value, str):
        if value.lstrip()[:1] == '"':
            return decode(value, 1)
        if value.strip() == "null":
            return None
        if value.startswith(("content=", "ToolMessage(")):
            decoded = decode(value, 1)  # the repr of a LangChain tool message
            return result_value(decoded) if isinstance(decoded, Mapping) else value
    return value


def _opened(value: Any) -> Any:
    """JSON text of a wrapped tool answer as its structure, so that the wrapping can be taken off; other text as it is."""
    decoded = decode(value, 1)
    wrapped = isinstance(decoded, Mapping | list) and result_value(decoded) is not decoded
    return decoded if wrapped else value


def lookup(attributes: Attributes, *keys: str) -> tuple[Any, str] | None:
    """The first of the attributes that is present and not null, with its key."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value, key
    return None


def flattened(attributes: Attributes, prefix: str) -> list[dict[str, Any]]:
    """The objects behind `prefix.N.key` attributes, by N; gaps and a first N above 0 are accepted.

    Deeper numeric segments become lists again: `prefix.0.tool_calls.1.id` is `[{"tool_calls": [{"id": …}]}]`.
    """
    root: dict[str, Any] = {}
    start = len(prefix) + 1
    for key, value in attributes.items():
        if key.startswith(prefix + ".") and key.count(".", start) < MAX_SEGMENTS:
            _insert(root, key[start:].split("."), value)
    return [item for item in _listed(root) if isinstance(item, dict)]


def _insert(node: dict[str, Any], path: list[str], value: Any) -> None:
    for segment in path[:-1]:
        inner = node.get(segment)
        if not isinstance(inner, dict):
            inner = node[segment] = {}
        node = inner
    if not isinstance(node.get(path[-1]), dict):
        node[path[-1]] = value


def _listed(node: Mapping[str, Any]) -> list[Any]:
    numbered = sorted((int(key), item) for key, item in node.items() if key.isdecimal() and len(key) < 9)
    return [_lists(item) for _, item in numbered]


def _lists(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node and all(key.isdecimal() and len(key) < 9 for key in node):
        return _listed(node)
    return {key: _lists(item) for key, item in node.items()}
