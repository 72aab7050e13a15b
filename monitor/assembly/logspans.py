"""Log records of command-line coding agents as spans: Claude Code, Codex and Gemini CLI tell their steps in records, with or without spans.

A record of a model call or of a tool that ran becomes a span that ended when the record was written and lasted as long as it says. It belongs
to the record's span where that came; else to the turn that the newest prompt of its conversation began. Where the trace has spans of the steps
themselves, records are only evidence, as everywhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from collectors.span import LogRecord, Span, StatusCode
from monitor.assembly.values import canonical, number_of, text_of

PROMPTS = frozenset({"claude_code.user_prompt", "codex.user_prompt", "gemini_cli.user_prompt"})
STEPS = frozenset(
    {
        "claude_code.api_request",
        "claude_code.api_error",
        "claude_code.tool_result",
        "codex.sse_event",
        "codex.tool_result",
    }
    | {"gemini_cli.api_response", "gemini_cli.api_error", "gemini_cli.tool_call"}
)
BODIES = frozenset({"claude_code.api_response_body"})
"""Records that tell more of a step before them, which names the same request."""

_STEP_SPANS = ("claude_code.llm_request", "claude_code.tool", "anthropic.")
_CONVERSATIONS = ("session.id", "conversation.id")
_MS = 1_000_000


def name_of(record: LogRecord) -> str:
    """A record's event name with the program's word before it, which Claude Code leaves out in some versions."""
    bare = record.event_name
    return (
        f"claude_code.{bare}" if record.scope.name.startswith("com.anthropic.claude_code") and "." not in bare else bare
    )


@dataclass(slots=True)
class _Turns:
    """What the records of one trace become: spans, and the records that stay records."""

    known: frozenset[str]
    root: str
    spans: list[Span] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    turns: dict[str, int] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)

    def take(self, record: LogRecord) -> None:
        """One record, in order of time."""
        name = name_of(record)
        if name in STEPS and not (name == "codex.sse_event" and not _is_last(record)):
            self._step(record, name)
        elif name in PROMPTS and record.span_id not in self.known:
            self.turns[_conversation(record)] = len(self.spans)
            made = _span(record, name, "")
            free = record.span_id and record.span_id not in self.made
            self._add(replace(made, span_id=record.span_id) if free else made)
        elif name in BODIES and record.span_id not in self.known:
            self.logs.append(
                replace(record, span_id=self.requests.get(str(record.attributes.get("request_id")), record.span_id))
            )
        else:
            self.logs.append(record)

    def _add(self, span: Span) -> None:
        self.spans.append(span)
        self.made.add(span.span_id)

    def _step(self, record: LogRecord, name: str) -> None:
        place = self.turns.get(_conversation(record))
        turn = self.spans[place] if place is not None else None
        if record.span_id in self.known or turn is None:
            parent = record.span_id or self.root or _id(record.trace_id, _conversation(record))
        else:
            parent = turn.span_id
        made = _span(record, name, parent)
        self._add(made)
        self.requests[str(record.attributes.get("request_id"))] = made.span_id
        if turn is not None and place is not None and parent == turn.span_id:
            self.spans[place] = replace(turn, end_time_unix_nano=max(turn.end_time_unix_nano, made.end_time_unix_nano))


def is_told(span: Span) -> bool:
    """Whether a span is made of a log record: it has no id by which anyone else would know it."""
    return span.name in STEPS or span.name in PROMPTS


def with_log_spans(spans: Sequence[Span], logs: Sequence[LogRecord]) -> tuple[Sequence[Span], Sequence[LogRecord]]:
    """The spans with those that records stand for, in order of start, and the records that are left."""
    if not any(name_of(record) in STEPS or name_of(record) in PROMPTS for record in logs):
        return spans, logs
    told = {span.trace_id for span in spans if _tells_steps(span)}
    kept: list[LogRecord] = [record for record in logs if record.trace_id in told]
    added: list[Span] = []
    for trace_id in dict.fromkeys(record.trace_id for record in logs if record.trace_id not in told):
        own = [span for span in spans if span.trace_id == trace_id]
        known = frozenset(span.span_id for span in own)
        turns = _Turns(known, next((span.span_id for span in own if span.parent_span_id not in known), ""))
        for record in sorted(_of(trace_id, logs), key=lambda one: one.time_unix_nano):
            turns.take(record)
        added += turns.spans
        kept += turns.logs
    ordered = sorted((*spans, *added), key=lambda span: (span.start_time_unix_nano, span.trace_id, span.span_id))
    return ordered, sorted(kept, key=lambda record: record.time_unix_nano)


def _of(trace_id: str, logs: Iterable[LogRecord]) -> Iterable[LogRecord]:
    return (record for record in logs if record.trace_id == trace_id)


def _tells_steps(span: Span) -> bool:
    return span.name.startswith(_STEP_SPANS) or "gen_ai.operation.name" in span.attributes


def _is_last(record: LogRecord) -> bool:
    """Whether an event of a stream is the one that ends it, with the tokens."""
    return record.attributes.get("event.kind") == "response.completed"


def _conversation(record: LogRecord) -> str:
    return next((text for key in _CONVERSATIONS if (text := text_of(record.attributes.get(key)))), "")


def _span(record: LogRecord, name: str, parent: str) -> Span:
    lasted = number_of(record.attributes.get("duration_ms")) or 0
    failed = record.attributes.get("error", record.attributes.get("error.message"))
    return Span(
        trace_id=record.trace_id,
        span_id=_id(record.trace_id, f"{name} {record.time_unix_nano} {canonical(dict(record.attributes))}"),
        parent_span_id=parent,
        name=name,
        start_time_unix_nano=max(0, record.time_unix_nano - lasted * _MS),
        end_time_unix_nano=record.time_unix_nano,
        attributes=record.attributes,
        status_code=StatusCode.ERROR if failed else StatusCode.UNSET,
        status_message=text_of(failed) or "",
        resource=record.resource,
        scope=record.scope,
    )


def _id(trace_id: str, rest: str) -> str:
    return blake2b(f"{trace_id} {rest}".encode(), digest_size=8).hexdigest()
