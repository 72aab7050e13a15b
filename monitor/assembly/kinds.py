"""Which kinds of spans a sketch may read: what keys, name and scope say of a span's class, asked of the dialects once per kind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from collectors.otlp.lazy import CheckedScope, text_in
from collectors.span import Scope, Span
from monitor.assembly.conventions.agent_framework import AgentFramework
from monitor.assembly.conventions.autogen import AutoGen
from monitor.assembly.conventions.gen_ai import GenAi
from monitor.assembly.conventions.identity import CONVERSATION_KEYS, Identity
from monitor.assembly.conventions.table import CONVENTIONS, worth_asking
from monitor.assembly.facts import Field, SpanClass
from monitor.assembly.record import Record

OPERATION, CONVERSATION, RESPONSE = "gen_ai.operation.name", "gen_ai.conversation.id", "gen_ai.response.id"
_DECIDING = (OPERATION, "gen_ai.provider.name", "gen_ai.system")
"""Attributes whose values tell dialects apart (`recognises` of the conventions that look at `gen_ai.*`)."""

_OTHER_WORDS = frozenset[str]().union(*(one.words for one in CONVENTIONS)) - {"gen_ai"} | {
    "metadata", "codex", "browser", "deployment",
}  # fmt: skip
"""First words of keys that make a span somebody else's to read."""

_OTHER_CONVERSATIONS = frozenset(CONVERSATION_KEYS) - {CONVERSATION}
_KNOWN = frozenset(
    f"gen_ai.{name}"
    for name in (
        "operation.name", "provider.name", "system", "agent.name", "agent.id", "agent.description", "agent.version",
        "conversation.id", "request.model", "response.model", "response.id", "request.temperature", "request.top_p",
        "request.top_k", "request.max_tokens", "request.frequency_penalty", "request.presence_penalty",
        "request.stop_sequences", "request.seed", "request.choice.count", "request.encoding_formats", "request.stream",
        "response.finish_reasons", "output.type", "usage.input_tokens", "usage.output_tokens", "input.messages",
        "output.messages", "system_instructions", "tool.definitions", "tool.name", "tool.type", "tool.description",
        "tool.call.id", "tool.call.arguments", "tool.call.result", "data_source.id", "embeddings.dimension.count",
    )
)  # fmt: skip
_ALIKE = (GenAi, AgentFramework, AutoGen, Identity)
"""Dialects that read a span as `gen_ai` does, some of which only say whose it is."""

_CLASSES = frozenset({SpanClass.AGENT, SpanClass.MODEL, SpanClass.TOOL, SpanClass.STEP})


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What spans with the same keys, name and scope have in common. Class OTHER: nothing to do with agents."""

    span_class: SpanClass
    convention: str
    has_conversation: bool
    has_response: bool


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The keys of a span's attributes, and those of `_DECIDING` among them; one object for all spans that have the same ones."""

    all: frozenset[str]
    deciding: tuple[str, ...]


@lru_cache(maxsize=4096)
def keys_of(keys: tuple[str, ...]) -> Keys:
    """The keys of a span's attributes, as the wire has them."""
    return Keys(frozenset(keys), tuple(key for key in _DECIDING if key in keys))


@lru_cache(maxsize=4096)
def kind_of(told: Keys, name: str, scope: bytes, said: tuple[bytes, ...]) -> Kind | None:
    """What spans of this kind are, of class OTHER where nobody reads them; None where it takes more to tell."""
    keys = told.all
    attributes: dict[str, Any] = dict.fromkeys(keys)
    attributes.update((key, text_in(value) or "") for key, value in zip(told.deciding, said, strict=True))
    record = Record(Span("", "", name=name, attributes=attributes, scope=Scope(CheckedScope.FromString(scope).name)))
    if record.shape.prefixes & _OTHER_WORDS or keys & _OTHER_CONVERSATIONS:
        return None
    readers = [one for one in worth_asking(record.shape) if one.recognises(record)]
    marks = (CONVERSATION in keys, RESPONSE in keys)
    if "gen_ai" not in record.shape.prefixes:
        return Kind(SpanClass.OTHER, "", *marks) if all(isinstance(one, Identity) for one in readers) else None
    if not all(isinstance(one, _ALIKE) for one in readers):
        return None
    if any(key not in _KNOWN for key in keys if key.startswith("gen_ai")):
        return None
    found = next((one.read(record).get(Field.CLASS) for one in readers), None)
    return Kind(found.value, found.convention, *marks) if found is not None and found.value in _CLASSES else None
