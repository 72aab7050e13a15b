"""The contract of a judge client: one question to one model, answered with a value whatever happens.

`tests/contracts/judge_client_contract.py` proves it of the real client and of the scripted one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class ReplyFormat(StrEnum):
    """How a server is asked for JSON, best first."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    TEXT = "text"


class FaultKind(StrEnum):
    """What kept a call from being answered."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    STATUS = "status"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message to the judge: role system, user or assistant."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One call. `timeout_seconds` bounds it wholly; `max_tokens_key` is the name by which the server takes the token limit."""

    model: str
    messages: tuple[ChatMessage, ...]
    timeout_seconds: float
    schema: Mapping[str, Any]
    format: ReplyFormat = ReplyFormat.JSON_SCHEMA
    temperature: float | None = None
    max_tokens: int | None = None
    max_tokens_key: str = "max_completion_tokens"


@dataclass(frozen=True, slots=True)
class RateHeaders:
    """What the server said of its limits, for requests and for tokens: limit, what remains, seconds until it is full again."""

    limit_requests: float | None = None
    remaining_requests: float | None = None
    reset_requests_seconds: float | None = None
    limit_tokens: float | None = None
    remaining_tokens: float | None = None
    reset_tokens_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """An answer. Token counts are None where the server did not say; `refusal` is the model's own refusal where the server tells it."""

    text: str | None
    finish_reason: str | None = None
    refusal: str | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    rate: RateHeaders = field(default_factory=RateHeaders)


@dataclass(frozen=True, slots=True)
class CallFault:
    """A call without an answer. `said` is the server's message: it tells faults apart and goes nowhere else, for it may quote content."""

    kind: FaultKind
    status: int | None = None
    code: str = ""
    parameter: str = ""
    said: str = ""
    retry_after_seconds: float | None = None
    rate: RateHeaders = field(default_factory=RateHeaders)


class JudgeClient(Protocol):
    """Asks a model. `complete` never raises for anything that a server, a network or a model does, returns within the request's
    timeout, and may be called concurrently. `close` may be called twice; after it nothing is asked.
    """

    async def complete(self, request: JudgeRequest) -> JudgeReply | CallFault:
        """The model's answer, or what kept it from answering."""
        ...

    async def close(self) -> None:
        """Give up connections."""
        ...
