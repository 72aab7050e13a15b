"""The head of an invocation without its content: an exact but partial reading of traces of the plainest shape, straight from the wire.

Most traces are never judged, and of those only this is needed. It is certain or it is nothing: whatever might make the full assembly say
something else (another dialect, several agents, handoffs, copies, missing parents, odd values) gives None, and the trace is assembled. Which
dialects read a span is asked of the dialects themselves, once per kind of span.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from collectors.otlp.checked import CheckedResource, CheckedScope, CheckedSpan
from collectors.otlp.request import RawItem
from collectors.span import Scope, Span
from monitor.assembly.assemble import AssemblyContext
from monitor.assembly.conventions.agent_framework import AgentFramework
from monitor.assembly.conventions.autogen import AutoGen
from monitor.assembly.conventions.gen_ai import GenAi
from monitor.assembly.conventions.identity import CONVERSATION_KEYS, Identity, is_conversation
from monitor.assembly.conventions.reader import PLACEHOLDERS
from monitor.assembly.conventions.table import CONVENTIONS, worth_asking
from monitor.assembly.facts import Field, SpanClass
from monitor.assembly.record import Record
from monitor.assembly.sampling_state import upstream_probability
from monitor.assembly.values import text_of, withheld
from monitor.model.invocation import Assembled, Completeness, Invocation, SettledBy

MAX_SPANS = 1000
MAX_DEPTH = 64
"""Larger and deeper traces are rare, and assembled."""

MAX_KEYS, MAX_LENGTH, MAX_RESOURCE = 96, 8192, 32_768
"""So are spans with more attributes, or with longer keys, names and resources: what is remembered of them has to be small."""

FAILED = "error"
"""Stands for the text of an error, which is content and not read."""

_OPERATION, _CONVERSATION, _RESPONSE = "gen_ai.operation.name", "gen_ai.conversation.id", "gen_ai.response.id"
_DECIDING = (_OPERATION, "gen_ai.provider.name", "gen_ai.system")
"""Attributes whose values tell dialects apart (`recognises` of the conventions that look at `gen_ai.*`)."""

_OTHER_WORDS = frozenset[str]().union(*(one.words for one in CONVENTIONS)) - {"gen_ai"} | {
    "metadata", "codex", "browser", "deployment",
}  # fmt: skip
"""First words of keys that make a span somebody else's to read."""

_OTHER_CONVERSATIONS = frozenset(CONVERSATION_KEYS) - {_CONVERSATION}
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
_FAILURE = 2  # the status code ERROR
_NO_PARENT = (b"", bytes(8))


_BY_ROOT = Completeness(SettledBy.ROOT_ENDED)


class _Uncertain(Exception):
    """The trace is to be assembled."""


class _Seen(NamedTuple):
    """A span as far as it was read: ids and times, its class (OTHER: nothing to do with agents), and its attributes by key."""

    span_id: bytes
    parent_id: bytes
    start: int
    end: int
    span_class: SpanClass
    convention: str
    keys: frozenset[str]
    attributes: Any  # asking for a key that is not in `keys` would make one
    message: Any
    resource: bytes

    @property
    def failed(self) -> bool:
        """Whether its status says so."""
        return bool(self.message.status.code == _FAILURE)


def sketch(spans: Sequence[RawItem], trace_id: str, context: AssemblyContext) -> list[Assembled] | None:
    """What `assemble` makes of these spans of one trace, heads only: ids, times, names, tokens and whether there was an error.

    Content, tools, what lacks and where it came from are not read. One invocation, or none in traffic without agents. None: not certain.
    The trace's root has ended and so have all spans; there are no log records. Never raises for what the bytes hold.
    """
    if context.keep_attributes or context.late_spans or not 0 < len(spans) <= MAX_SPANS:
        return None
    try:
        seen = [_seen(one) for one in spans]
        if len({one.span_id for one in seen}) < len(seen):
            return None  # copies are counted
        if any(one.parent_id in _NO_PARENT and one.message.links for one in seen):
            return None  # it may be a part of another trace's run
        if all(one.span_class is SpanClass.OTHER for one in seen):
            return []
        if context.settled_by is not SettledBy.ROOT_ENDED:
            return None
        return [_invocation(_Family.of(seen), trace_id, context)]
    except (_Uncertain, DecodeError, UnicodeDecodeError):
        return None


def _seen(raw: RawItem) -> _Seen:
    item, resource, scope, _ = raw
    span = CheckedSpan.FromString(item)
    attributes = span.attributes
    named = tuple(attributes)
    is_large = len(item) + len(scope) > MAX_LENGTH  # else none of its texts is long
    if len(named) > MAX_KEYS or (is_large and sum(map(len, named)) > MAX_LENGTH):
        raise _Uncertain
    keys = _keys_of(named)
    said = tuple([attributes[key].string_value for key in keys.deciding]) if keys.deciding else ()
    name = span.name
    if is_large and len(name) + len(scope) + len(span.trace_state) + sum(map(len, said)) > MAX_LENGTH:
        raise _Uncertain
    if len(resource) > MAX_RESOURCE:
        raise _Uncertain
    kind = _kind_of(keys, name, scope, said)
    if kind is None or (span.events and not _plain_events(span, kind[0])):
        raise _Uncertain
    return _Seen(
        span.span_id, span.parent_span_id, span.start_time_unix_nano, span.end_time_unix_nano, kind[0], kind[1], keys.all,
        attributes, span, resource,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class _Keys:
    """The keys of a span's attributes, and those of `_DECIDING` among them; one object for all spans that have the same ones."""

    all: frozenset[str]
    deciding: tuple[str, ...]


@lru_cache(maxsize=4096)
def _keys_of(keys: tuple[str, ...]) -> _Keys:
    return _Keys(frozenset(keys), tuple(key for key in _DECIDING if key in keys))


def _plain_events(span: Any, span_class: SpanClass) -> bool:
    """Whether there are exceptions only, and they change nothing: a model call's may stand for its failure."""
    counts = span_class is SpanClass.MODEL and span.status.code != _FAILURE
    return not counts and all(event.name == "exception" for event in span.events)


@lru_cache(maxsize=4096)
def _kind_of(told: _Keys, name: str, scope: bytes, said: tuple[str, ...]) -> tuple[SpanClass, str] | None:
    """The class of spans of this kind and whose dialect says so, OTHER where none reads them; None where it takes more to tell."""
    keys = told.all
    attributes: dict[str, Any] = dict.fromkeys(keys)
    attributes.update(zip(told.deciding, said, strict=True))
    record = Record(Span("", "", name=name, attributes=attributes, scope=Scope(CheckedScope.FromString(scope).name)))
    if record.shape.prefixes & _OTHER_WORDS or keys & _OTHER_CONVERSATIONS:
        return None
    readers = [one for one in worth_asking(record.shape) if one.recognises(record)]
    if "gen_ai" not in record.shape.prefixes:
        return (SpanClass.OTHER, "") if all(isinstance(one, Identity) for one in readers) else None
    if not all(isinstance(one, _ALIKE) for one in readers):
        return None
    if any(key not in _KNOWN for key in keys if key.startswith("gen_ai")):
        return None
    found = next((one.read(record).get(Field.CLASS) for one in readers), None)
    return (found.value, found.convention) if found is not None and found.value in _CLASSES else None


class _Family(NamedTuple):
    """The one agent of a trace, and its model calls in order; `members` are all spans of its run."""

    agent: _Seen
    models: list[_Seen]
    members: list[_Seen]

    @classmethod
    def of(cls, seen: Sequence[_Seen]) -> _Family:
        """Raises _Uncertain where the spans are no single tree with one agent above all that agents do."""
        by_id = {one.span_id: one for one in seen}
        agents = [one for one in seen if one.span_class is SpanClass.AGENT]
        roots = [one for one in seen if one.parent_id in _NO_PARENT]
        if len(by_id) < len(seen) or len(agents) != 1 or len(roots) != 1 or not _is_rooted(agents[0], by_id):
            raise _Uncertain
        members = [one for one in seen if _is_inside(one, agents[0], by_id)]
        models = [one for one in members if one.span_class is SpanClass.MODEL]
        models.sort(key=lambda one: (one.start, one.span_id))
        if any(later.start <= earlier.end for earlier, later in pairwise(models)):
            raise _Uncertain  # one call may be recorded twice
        return cls(agents[0], models, members)


def _is_rooted(agent: _Seen, by_id: Mapping[bytes, _Seen]) -> bool:
    """Whether all that is above an agent is here, and does not go in a circle."""
    node: _Seen | None = agent
    for _ in range(MAX_DEPTH):
        if node is None or node.parent_id in _NO_PARENT:
            return node is not None
        node = by_id.get(node.parent_id)
    return False


def _is_inside(one: _Seen, agent: _Seen, by_id: Mapping[bytes, _Seen]) -> bool:
    """Whether a span is the agent or below it. Outside there may be only what has nothing to do with agents."""
    if one.end < one.start or not one.end:
        raise _Uncertain
    if one.parent_id == agent.span_id or one is agent:  # nearly all
        return True
    node = one
    for _ in range(MAX_DEPTH):
        if node is agent:
            return True
        if node.parent_id in _NO_PARENT:
            if one.span_class is not SpanClass.OTHER:
                raise _Uncertain
            return False
        above = by_id.get(node.parent_id)
        if above is None or (one.span_class is SpanClass.MODEL and above.span_class is SpanClass.MODEL):
            raise _Uncertain
        node = above
    raise _Uncertain


def _invocation(family: _Family, trace_id: str, context: AssemblyContext) -> Assembled:
    agent, models, members = family
    for raw in {one.resource for one in members}:
        _resource(raw)  # every text is to be valid, not only the agent's
    resource = _resource(agent.resource)
    responses = [_text(one, _RESPONSE) for one in models]
    span_id = agent.span_id.hex()
    failed = agent.failed or bool(models and models[-1].failed)
    invocation = Invocation(
        id=f"{trace_id}-{span_id}",
        trace_id=trace_id,
        span_id=span_id,
        started_at=agent.start,
        ended_at=agent.end,
        completeness=_BY_ROOT,
        convention=agent.convention,
        collector=context.collector,
        conversation_id=_conversation(family, responses),
        agent_name=_agent_name(agent),
        agent_version=_text(agent, "gen_ai.agent.version") or resource.version,
        environment=resource.environment,
        service=resource.service,
        model=_model(family),
        error=FAILED if failed else None,
        model_calls=len(models),
        input_tokens=_tokens(family, "gen_ai.usage.input_tokens", responses),
        output_tokens=_tokens(family, "gen_ai.usage.output_tokens", responses),
        inclusion_probability=_probability(agent.message.trace_state),
        operation=_text_as_it_is(agent, _OPERATION),
    )
    return Assembled(invocation, frozenset([one.span_id.hex() for one in members]))


class _Resource(NamedTuple):
    """What an invocation takes from its agent's resource."""

    service: str | None
    version: str | None
    environment: str | None


@lru_cache(maxsize=1024)
def _resource(raw: bytes) -> _Resource:
    found = {pair.key: pair.value.string_value for pair in CheckedResource.FromString(raw).attributes}
    environment = text_of(found.get("deployment.environment.name")) or text_of(found.get("deployment.environment"))
    return _Resource(text_of(found.get("service.name")), text_of(found.get("service.version")), environment)


@lru_cache(maxsize=4096)
def _is_usable(text: str) -> bool:
    """As `Reader.text`: placeholders and redaction markers count as absent."""
    return text.strip().lower() not in PLACEHOLDERS and withheld(text) is None


def _text(one: _Seen, key: str) -> str | None:
    """A short text; None where it is absent, a placeholder, or no text."""
    text: str | None = one.attributes[key].string_value if key in one.keys else None
    if text and len(text) > MAX_LENGTH:
        raise _Uncertain
    return text if text and _is_usable(text) else None


def _text_as_it_is(one: _Seen, key: str) -> str | None:
    return text_of(one.attributes[key].string_value) if key in one.keys else None


def _agent_name(agent: _Seen) -> str:
    name = _text(agent, "gen_ai.agent.name")
    if name is None:
        raise _Uncertain  # it may be in the span's name, or in a step
    return name


def _conversation(family: _Family, responses: Collection[str | None]) -> str | None:
    if _CONVERSATION not in family.agent.keys:
        if any(_CONVERSATION in one.keys for one in family.members):
            raise _Uncertain
        return None
    conversation: str = family.agent.attributes[_CONVERSATION].string_value
    if not conversation or not is_conversation(conversation) or conversation in responses:
        raise _Uncertain
    others = (one for one in family.members if one.span_class is not SpanClass.MODEL and _RESPONSE in one.keys)
    if any(one.attributes[_RESPONSE].string_value == conversation for one in others):
        raise _Uncertain
    return conversation


def _model(family: _Family) -> str | None:
    for key in ("gen_ai.request.model", "gen_ai.response.model"):
        for one in (*family.models, family.agent):
            found = _text(one, key)
            if found is not None:
                return found
    return None


def _tokens(family: _Family, key: str, responses: Sequence[str | None]) -> int | None:
    """The sum over all model calls, each response once; the agent's own figure only where no call has one."""
    total: int | None = None
    answered: set[str] = set()
    for one, response in zip(family.models, responses, strict=True):
        if key not in one.keys or response in answered:
            continue
        if response is not None:
            answered.add(response)
        total = (total or 0) + _count(one, key)
    return _count(family.agent, key) if total is None and key in family.agent.keys else total


def _count(one: _Seen, key: str) -> int:
    number: int = one.attributes[key].int_value
    if number < 0 or (not number and one.attributes[key].WhichOneof("value") != "int_value"):
        raise _Uncertain
    return number


@lru_cache(maxsize=1024)
def _probability(trace_state: str) -> float:
    return upstream_probability(trace_state)
