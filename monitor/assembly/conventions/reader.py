"""Collects a span's facts from its attributes: one helper per kind of value, each noting the source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from collectors.span import Attributes
from monitor.assembly.definitions import definitions_of
from monitor.assembly.facts import Field, Found, SpanClass, rank
from monitor.assembly.messages import lacking, listed_messages, read_messages, text_in, withheld_text
from monitor.assembly.opaque import opaque_messages
from monitor.assembly.record import Record, Shape, by_shape
from monitor.assembly.results import result_value
from monitor.assembly.values import SENTINELS, decode, decode_any, number_of, plain, withheld
from monitor.model.invocation import Capture, Message

PLACEHOLDERS = frozenset({"", "unknown", "none", "null", "undefined", "n/a", "<not specified>"})
"""Texts that instrumentations write where they know nothing."""

_NO_TEXTS = PLACEHOLDERS | SENTINELS

_ASKING = frozenset({"tool_calls", "tool_call", "tool-calls", "tool_use", "tooluse", "function_call", "toolcalls"})


class Texts:
    """Which short texts a dialect reads, each from the first of some keys. What a span's keys leave of them is worked out once."""

    def __init__(self, wanted: Mapping[Field, Sequence[str]]) -> None:
        self._wanted = wanted
        self.present = by_shape(self._present)

    def _present(self, shape: Shape) -> tuple[tuple[Field, tuple[str, ...]], ...]:
        """The fields that a span with these keys may tell, with those of their keys that it has."""
        found = [(field, tuple(key for key in keys if key in shape.keys)) for field, keys in self._wanted.items()]
        return tuple((field, keys) for field, keys in found if keys)


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
            if isinstance(value, str) and value.strip().lower() not in _NO_TEXTS:
                self.put(field, value, key, weak=weak)
                return

    def texts(self, wanted: Texts) -> None:
        """Several short texts, as `text` does each."""
        for field, keys in wanted.present(self.record.shape):
            self.text(field, *keys)

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
        told: tuple[Message, ...] | None = None
        if isinstance(value, str):
            told = self.record.told.messages(value, role)
        elif isinstance(value, list):
            told = listed_messages(value, role)
        found, reason = read_messages(value, role) if told is None else (told, lacking(told))
        if found or reason is not None:
            self.put(field, found, source, capture=reason)

    def prompts(self, name: str) -> None:
        """What a user asked, from each of the span's log records of that name."""
        for event in self.record.events:
            if event.name == name:
                self.messages(
                    Field.INPUT, "user", event.attributes.get("prompt"), f"{event.source} {event.name} prompt"
                )

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
