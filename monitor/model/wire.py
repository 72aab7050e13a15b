"""Invocations and verdicts as the JSON of contract.md sections 3 and 4, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from monitor.model.conversation import PREFIX, conversation, is_conversation, turn_order
from monitor.model.invocation import (
    Capture,
    Completeness,
    Invocation,
    Message,
    SettledBy,
    ToolCall,
    ToolDefinition,
    ToolStatus,
)
from monitor.model.verdict import Verdict


class InvalidInvocation(ValueError):
    """A JSON object that is no invocation; the message names the field and what would be right."""


def time_text(nanoseconds: int | None) -> str | None:
    """Nanoseconds since 1970-01-01Z as RFC 3339 in UTC with nine digits, None for None."""
    if nanoseconds is None:
        return None
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def time_nanoseconds(text: str | None) -> int | None:
    """The inverse of `time_text`; takes any RFC 3339 time. Raises ValueError for other text."""
    if text is None:
        return None
    head, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    moment = datetime.fromisoformat(head + (rest[len(digits) :] if rest else ""))
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: write Z or an offset")
    return int(moment.timestamp()) * 1_000_000_000 + int(digits.ljust(9, "0")[:9] or 0)


def invocation_json(invocation: Invocation) -> dict[str, Any]:
    """The invocation as a JSON object with all keys of contract.md section 3. A conversation has `turns` besides: its invocations in order."""
    whole = _invocation_json(invocation)
    return whole | {"turns": [_invocation_json(turn) for turn in invocation.turns]} if invocation.turns else whole


def conversation_json(invocation: Invocation) -> dict[str, Any]:
    """A conversation as its turns alone, for programs: nothing stands in it twice."""
    return {
        "id": invocation.id,
        "conversation_id": invocation.conversation_id,
        "revision": invocation.revision,
        "turns": [_invocation_json(turn) for turn in invocation.turns],
    }


def _invocation_json(invocation: Invocation) -> dict[str, Any]:
    done = invocation.completeness
    return {
        "id": invocation.id,
        "trace_id": invocation.trace_id,
        "span_id": invocation.span_id,
        "parent_id": invocation.parent_id,
        "conversation_id": invocation.conversation_id,
        "agent_name": invocation.agent_name,
        "agent_version": invocation.agent_version,
        "environment": invocation.environment,
        "service": invocation.service,
        "model": invocation.model,
        "convention": invocation.convention,
        "collector": invocation.collector,
        "started_at": time_text(invocation.started_at),
        "ended_at": time_text(invocation.ended_at),
        "revision": invocation.revision,
        "system_instructions": invocation.system_instructions,
        "user_input": invocation.user_input,
        "history": [{"role": m.role, "parts": [dict(p) for p in m.parts]} for m in invocation.history],
        "tool_definitions": [
            {"name": d.name, "description": d.description, "parameters": d.parameters}
            for d in invocation.tool_definitions
        ],
        "tool_calls": [_tool_call_json(call) for call in invocation.tool_calls],
        "final_response": invocation.final_response,
        "error": invocation.error,
        "model_calls": invocation.model_calls,
        "input_tokens": invocation.input_tokens,
        "output_tokens": invocation.output_tokens,
        "attributes": dict(invocation.attributes),
        "inclusion_probability": invocation.inclusion_probability,
        "completeness": {
            "settled_by": done.settled_by.value,
            "missing": list(done.missing),
            "capture": {path: reason.value for path, reason in done.capture.items()},
            "late_spans": done.late_spans,
        },
    }


def _tool_call_json(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "name": call.name,
        "arguments": call.arguments,
        "result": call.result,
        "error": call.error,
        "status": call.status.value,
        "span_id": call.span_id,
        "agent_name": call.agent_name,
        "started_at": time_text(call.started_at),
        "ended_at": time_text(call.ended_at),
    }


def invocation_from_json(data: Mapping[str, Any]) -> Invocation:
    """The inverse of `invocation_json`; keys other than the ids and times may be left out, of a conversation all but `turns`.

    Raises InvalidInvocation naming the field.
    """
    if data.get("turns"):
        return _conversation_from_json(data)
    for key in ("id", "trace_id", "started_at", "ended_at"):
        if not isinstance(data.get(key), str):
            raise InvalidInvocation(f"{key}: {data.get(key)!r} is no text; an invocation has {key} as text")
    probability = data.get("inclusion_probability", 1.0)
    if not isinstance(probability, int | float) or isinstance(probability, bool) or not 0 < probability <= 1:
        raise InvalidInvocation(f"inclusion_probability: {probability!r} is no probability above 0, 1 at most")
    known = {"id", "trace_id", "span_id", "parent_id", "conversation_id", "agent_name", "agent_version", "environment"}
    known |= {"service", "model", "revision", "system_instructions", "user_input", "final_response", "error"}
    known |= {"model_calls", "input_tokens", "output_tokens", "inclusion_probability", "convention", "collector"}
    try:
        plain = {key: data[key] for key in known if key in data}
        plain.setdefault("span_id", plain["id"].rpartition("-")[2])
        plain.setdefault("convention", "json")
        done = data.get("completeness") or {}
        return Invocation(
            **plain,
            started_at=time_nanoseconds(data["started_at"]) or 0,
            ended_at=time_nanoseconds(data["ended_at"]) or 0,
            history=tuple(Message(m["role"], tuple(m.get("parts") or ())) for m in data.get("history") or ()),
            tool_definitions=tuple(
                ToolDefinition(d["name"], d.get("description"), d.get("parameters"))
                for d in data.get("tool_definitions") or ()
            ),
            tool_calls=tuple(_tool_call(call) for call in data.get("tool_calls") or ()),
            attributes=data.get("attributes") or {},
            completeness=Completeness(
                SettledBy(done.get("settled_by", "idle")),
                tuple(done.get("missing") or ()),
                {path: Capture(reason) for path, reason in (done.get("capture") or {}).items()},
                done.get("late_spans", 0),
            ),
        )
    except (TypeError, ValueError, KeyError, AttributeError) as fault:
        raise InvalidInvocation(f"not an invocation of contract section 3: {fault}") from fault


def _conversation_from_json(data: Mapping[str, Any]) -> Invocation:
    given = data["turns"]
    if not isinstance(given, list) or not all(isinstance(turn, Mapping) and not turn.get("turns") for turn in given):
        raise InvalidInvocation("turns: is no list of invocations; a conversation has its turns there, in order")
    turns = sorted((invocation_from_json(turn) for turn in given), key=turn_order)
    name = data.get("id") or f"{PREFIX}{data.get('conversation_id') or turns[-1].conversation_id}"
    revision = data.get("revision", 1)
    if not isinstance(name, str) or not is_conversation(name) or not isinstance(revision, int):
        raise InvalidInvocation(f"id: {name!r} is none of a conversation; those begin with `{PREFIX}`")
    return conversation(turns, name, revision)


def _tool_call(data: Mapping[str, Any]) -> ToolCall:
    return ToolCall(
        name=data["name"],
        id=data.get("id"),
        arguments=data.get("arguments"),
        result=data.get("result"),
        result_known=data.get("result") is not None or data.get("status") == "ok",
        error=data.get("error"),
        status=ToolStatus(data.get("status", "unknown")),
        span_id=data.get("span_id"),
        agent_name=data.get("agent_name"),
        started_at=time_nanoseconds(data.get("started_at")),
        ended_at=time_nanoseconds(data.get("ended_at")),
    )


def verdict_json(verdict: Verdict, trace_link: str | None = None) -> dict[str, Any]:
    """The verdict, or the failed evaluation, as the JSON object of contract.md section 4."""
    judged = verdict.judgement
    failure = judged.failure
    return {
        "invocation_id": verdict.invocation_id,
        "trace_id": verdict.trace_id,
        "span_id": verdict.span_id,
        "conversation_id": verdict.conversation_id,
        "agent_name": verdict.agent_name,
        "agent_version": verdict.agent_version,
        "environment": verdict.environment,
        "ended_at": time_text(int(verdict.ended_at * 1e6) * 1000),
        "monitor": verdict.monitor,
        "rubric": verdict.rubric,
        "rubric_version": verdict.rubric_version,
        "judge": verdict.judge,
        "judge_model": judged.judge_model,
        "verdict": judged.outcome.value if judged.outcome else None,
        "score": judged.score,
        "score_range": list(judged.score_range),
        "threshold": judged.threshold,
        "explanation": judged.explanation,
        "unjudgeable_reason": judged.unjudgeable_reason,
        "error": {"type": failure.type.value, "message": failure.message} if failure else None,
        "criteria": [
            {
                "id": c.id,
                "score": c.score,
                "applicable": c.applicable,
                "weight": c.weight,
                "explanation": c.explanation,
                "evidence": list(c.evidence),
                "votes": dict(c.votes) if c.votes is not None else None,
            }
            for c in judged.criteria
        ],
        "details": dict(judged.details),
        "inclusion_probability": verdict.inclusion_probability,
        "revision": verdict.revision,
        "input_tokens": judged.usage.input_tokens,
        "output_tokens": judged.usage.output_tokens,
        "cost_usd": judged.usage.cost_usd,
        "judged_at": time_text(int(verdict.judged_at * 1e6) * 1000),
        "links": {"trace": trace_link},
    }
