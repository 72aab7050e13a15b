"""The head of an invocation without its content: an exact but partial reading of traces of the plainest shape, straight from the wire.

Most traces are never judged, and of those only this is needed. It is certain or it is nothing: whatever might make the full assembly say
something else (another dialect, several agents, handoffs, copies, missing parents, odd values) gives None, and the trace is assembled. Which
dialects read a span is asked of the dialects themselves, once per kind of span.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from collectors.otlp.lazy import BlankSpans, CheckedResource, count_in, text_in
from collectors.otlp.request import RawItem
from monitor.assembly.assemble import AssemblyContext
from monitor.assembly.conventions.identity import is_conversation
from monitor.assembly.conventions.reader import PLACEHOLDERS
from monitor.assembly.facts import SpanClass
from monitor.assembly.kinds import CONVERSATION, OPERATION, RESPONSE, Kind, keys_of, kind_of
from monitor.assembly.sampling_state import upstream_probability
from monitor.assembly.values import SENTINELS, text_of, withheld
from monitor.model.invocation import Assembled, Completeness, Invocation, SettledBy

MAX_SPANS = 1000
MAX_DEPTH = 64
"""Larger and deeper traces are rare, and assembled."""

MAX_KEYS, MAX_LENGTH, MAX_RESOURCE = 96, 8192, 32_768
"""So are spans with more attributes, or with longer keys, names and resources: what is remembered of them has to be small."""

FAILED = "error"
"""Stands for the text of an error, which is content and not read."""

_FAILURE = 2  # the status code ERROR
_LONGEST_MARKER = max(map(len, PLACEHOLDERS | SENTINELS)) + 8
"""Longer texts are no placeholder and no marker, with the room of `withheld` for blanks around."""
_COUNTS = 2**53
"""Larger numbers are no counts (`values.number_of`)."""
_NO_ATTRIBUTES: Mapping[str, Any] = {}
_NO_PARENT = (b"", bytes(8))


_BY_ROOT = Completeness(SettledBy.ROOT_ENDED)


class _Uncertain(Exception):
    """The trace is to be assembled."""


class _Seen(NamedTuple):
    """A span as far as it was read."""

    span_id: bytes
    parent_id: bytes
    start: int
    end: int
    kind: Kind
    attributes: Any
    """The bytes of values by key."""
    message: Any
    resource: bytes

    @property
    def failed(self) -> bool:
        """Whether its status says so."""
        return bool(self.message.status.code == _FAILURE)


def sketch(
    spans: Sequence[RawItem], trace_id: str, context: AssemblyContext, blanks: BlankSpans
) -> list[Assembled] | None:
    """What `assemble` makes of these spans of one trace, heads only: ids, times, names, tokens and whether there was an error.

    Content, tools, what lacks and where it came from are not read. One invocation, or none in traffic without agents. None: not certain.
    The trace's root has ended and so have all spans; there are no log records. Never raises for what the bytes hold. They are read into
    `blanks`, which the caller's thread alone uses.
    """
    if context.keep_attributes or context.late_spans or not 0 < len(spans) <= MAX_SPANS:
        return None
    try:
        messages = blanks.take(len(spans), sum([len(one[0]) for one in spans]))
        seen = [
            _seen(blank, item, resource, scope)
            for blank, (item, resource, scope, _) in zip(messages, spans, strict=False)
        ]
        by_id = {one.span_id: one for one in seen}
        if len(by_id) < len(seen):
            return None  # copies are counted
        if any(one.parent_id in _NO_PARENT and one.message.links for one in seen):
            return None  # it may be a part of another trace's run
        agents = [one for one in seen if one.kind.span_class is SpanClass.AGENT]
        if not agents and all(one.kind.span_class is SpanClass.OTHER for one in seen):
            return []
        if context.settled_by is not SettledBy.ROOT_ENDED or len(agents) != 1:
            return None
        return [_invocation(_family(seen, agents[0], by_id), trace_id, context)]
    except (_Uncertain, DecodeError, UnicodeDecodeError):
        return None


def _seen(span: Any, item: bytes, resource: bytes, scope: bytes) -> _Seen:
    span.ParseFromString(item)
    attributes = span.attributes
    named = tuple(attributes)
    is_large = len(item) + len(scope) > MAX_LENGTH  # else none of its texts is long
    if len(named) > MAX_KEYS or len(resource) > MAX_RESOURCE or (is_large and sum(map(len, named)) > MAX_LENGTH):
        raise _Uncertain
    keys = keys_of(named)
    said = tuple([attributes[key] for key in keys.deciding]) if keys.deciding else ()
    name = span.name
    if is_large and len(name) + len(scope) + len(span.trace_state) + sum(map(len, said)) > MAX_LENGTH:
        raise _Uncertain
    kind = kind_of(keys, name, scope, said)
    if kind is None or (span.events and not _plain_events(span, kind.span_class)):
        raise _Uncertain
    return tuple.__new__(  # what _Seen(…) does, in half the time
        _Seen,
        (
            span.span_id, span.parent_span_id, span.start_time_unix_nano, span.end_time_unix_nano, kind, attributes, span, resource,
        ),
    )  # fmt: skip


def _plain_events(span: Any, span_class: SpanClass) -> bool:
    """Whether there are exceptions only, and they change nothing: a model call's may stand for its failure."""
    counts = span_class is SpanClass.MODEL and span.status.code != _FAILURE
    return not counts and all(event.name == "exception" for event in span.events)


class _Family(NamedTuple):
    """The one agent of a trace, and its model calls in order; `members` are all spans of its run."""

    agent: _Seen
    models: list[_Seen]
    members: list[_Seen]


def _family(seen: Sequence[_Seen], agent: _Seen, by_id: Mapping[bytes, _Seen]) -> _Family:
    """Raises _Uncertain where the spans are no single tree with one agent above all that agents do."""
    roots, agent_id = 0, agent.span_id
    members: list[_Seen] = []
    models: list[_Seen] = []
    for one in seen:
        if one.end < one.start or not one.end:
            raise _Uncertain
        parent = one.parent_id
        if parent in _NO_PARENT:
            roots += 1
        if parent == agent_id or one is agent or _is_inside(one, agent, by_id):
            members.append(one)
            if one.kind.span_class is SpanClass.MODEL:
                models.append(one)
    if roots != 1 or not _is_rooted(agent, by_id):
        raise _Uncertain
    models.sort(key=_by_start)
    if any(later.start <= earlier.end for earlier, later in pairwise(models)):
        raise _Uncertain  # one call may be recorded twice
    return _Family(agent, models, members)


def _by_start(one: _Seen) -> tuple[int, bytes]:
    return one.start, one.span_id


def _is_rooted(agent: _Seen, by_id: Mapping[bytes, _Seen]) -> bool:
    """Whether all that is above an agent is here, and does not go in a circle."""
    node: _Seen | None = agent
    for _ in range(MAX_DEPTH):
        if node is None or node.parent_id in _NO_PARENT:
            return node is not None
        node = by_id.get(node.parent_id)
    return False


def _is_inside(one: _Seen, agent: _Seen, by_id: Mapping[bytes, _Seen]) -> bool:
    """Whether a span is below the agent. Outside there may be only what has nothing to do with agents."""
    node = one
    for _ in range(MAX_DEPTH):
        if node is agent:
            return True
        if node.parent_id in _NO_PARENT:
            if one.kind.span_class is not SpanClass.OTHER:
                raise _Uncertain
            return False
        above = by_id.get(node.parent_id)
        is_model = one.kind.span_class is SpanClass.MODEL
        if above is None or (is_model and above.kind.span_class is SpanClass.MODEL):
            raise _Uncertain
        node = above
    raise _Uncertain


def _invocation(family: _Family, trace_id: str, context: AssemblyContext) -> Assembled:
    agent, models, members = family
    for raw in {one.resource for one in members}:
        _resource(raw)  # every text is to be valid, not only the agent's
    resource = _resource(agent.resource)
    responses = [_response(one) for one in models]
    span_id = agent.span_id.hex()
    failed = agent.failed or bool(models and models[-1].failed)
    invocation = Invocation(
        id=f"{trace_id}-{span_id}",
        trace_id=trace_id,
        span_id=span_id,
        started_at=agent.start,
        ended_at=agent.end,
        completeness=_BY_ROOT,
        convention=agent.kind.convention,
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
        attributes=_NO_ATTRIBUTES,
        inclusion_probability=_probability(agent.message.trace_state),
        operation=_operation(agent),
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


def _text(one: _Seen, key: str) -> str | None:
    """A short text that many spans share; None where it is absent, a placeholder, or no text."""
    value = one.attributes.get(key)
    return None if value is None else _shared_text(value)


@lru_cache(maxsize=4096)
def _shared_text(value: bytes) -> str | None:
    text = _any_text(value)
    return text if text and _is_usable(text) else None


def _any_text(value: bytes) -> str | None:
    """Raises _Uncertain for what is long, and for a value that may have come in pieces."""
    if not 0 < len(value) <= MAX_LENGTH:
        raise _Uncertain
    return text_in(value)


def _is_usable(text: str) -> bool:
    """As `Reader.text`: placeholders and redaction markers count as absent."""
    return text.strip().lower() not in PLACEHOLDERS and withheld(text) is None


def _response(model: _Seen) -> str | None:
    """The response's id, which hardly two have in common."""
    if not model.kind.has_response:
        return None
    text = _any_text(model.attributes[RESPONSE])
    return text if text and (len(text) > _LONGEST_MARKER or _is_usable(text)) else None


def _operation(agent: _Seen) -> str | None:
    value = agent.attributes.get(OPERATION)
    return None if value is None else _shared_text_as_it_is(value)


@lru_cache(maxsize=1024)
def _shared_text_as_it_is(value: bytes) -> str | None:
    return text_of(_any_text(value))


def _agent_name(agent: _Seen) -> str:
    name = _text(agent, "gen_ai.agent.name")
    if name is None:
        raise _Uncertain  # it may be in the span's name, or in a step
    return name


def _conversation(family: _Family, responses: Collection[str | None]) -> str | None:
    if not family.agent.kind.has_conversation:
        if any(one.kind.has_conversation for one in family.members):
            raise _Uncertain
        return None
    conversation = _any_text(family.agent.attributes[CONVERSATION])
    if not conversation or not is_conversation(conversation) or conversation in responses:
        raise _Uncertain
    others = [one for one in family.members if one.kind.has_response and one.kind.span_class is not SpanClass.MODEL]
    if others and conversation in [_any_text(one.attributes[RESPONSE]) for one in others]:
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
        value = one.attributes.get(key)
        if value is None or response in answered:
            continue
        if response is not None:
            answered.add(response)
        total = (total or 0) + _count(value)
    value = family.agent.attributes.get(key) if total is None else None
    return total if value is None else _count(value)


def _count(value: bytes) -> int:
    number = count_in(value)
    if number is None or not 0 <= number < _COUNTS:
        raise _Uncertain
    return number


@lru_cache(maxsize=1024)
def _probability(trace_state: str) -> float:
    return upstream_probability(trace_state)
