"""What every judge client must do, run on each implementation: a subclass gives a client whose other side is in a named mode.

The modes are those of `tests.support.judge_server`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager

import pytest

from monitor.judging.client import (
    CallFault,
    ChatMessage,
    FaultKind,
    JudgeClient,
    JudgeReply,
    JudgeRequest,
    ReplyFormat,
)

SCHEMA = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "verdict": {"type": "string", "enum": ["yes", "no"]}},
    "required": ["reasoning", "verdict"],
    "additionalProperties": False,
}


def request(timeout: float = 5.0, form: ReplyFormat = ReplyFormat.JSON_SCHEMA) -> JudgeRequest:
    messages = (ChatMessage("system", "Judge."), ChatMessage("user", "Grüße aus 東京"))
    return JudgeRequest("judge-model", messages, timeout, SCHEMA, form)


class JudgeClientContract:
    """Subclass it with `client_in`."""

    def client_in(self, mode: str) -> AbstractAsyncContextManager[JudgeClient]:
        """A client to a judge in that mode; it is closed at the end."""
        raise NotImplementedError

    async def answer(self, mode: str, timeout: float = 5.0) -> JudgeReply | CallFault:
        async with self.client_in(mode) as client:
            return await client.complete(request(timeout))

    async def test_an_answer_with_its_usage(self) -> None:
        """A reply has its text, finish reason, model and token counts."""
        reply = await self.answer("good")
        assert isinstance(reply, JudgeReply)
        assert '"verdict": "yes"' in (reply.text or "")
        assert (reply.finish_reason, reply.refusal) == ("stop", None)
        assert reply.input_tokens
        assert reply.output_tokens
        assert reply.model

    async def test_a_refusal_is_told(self) -> None:
        """The model's own refusal is a reply without text."""
        reply = await self.answer("refusal")
        assert isinstance(reply, JudgeReply)
        assert reply.refusal
        assert not reply.text

    @pytest.mark.parametrize(
        ("mode", "finish"), [("truncated", "length"), ("used_up", "length"), ("content_filter", "content_filter")]
    )
    async def test_the_finish_reason_is_told(self, mode: str, finish: str) -> None:
        """Why the model stopped is known."""
        reply = await self.answer(mode)
        assert isinstance(reply, JudgeReply)
        assert reply.finish_reason == finish

    async def test_an_empty_reply(self) -> None:
        """An empty text is a reply, not a fault of the call."""
        reply = await self.answer("empty")
        assert isinstance(reply, JudgeReply)
        assert reply.text == ""

    async def test_missing_usage_is_not_zero(self) -> None:
        """Token counts that the server does not give are None."""
        reply = await self.answer("no_usage")
        assert isinstance(reply, JudgeReply)
        assert (reply.input_tokens, reply.output_tokens) == (None, None)

    @pytest.mark.parametrize(
        ("mode", "status"),
        [
            ("unauthorized", 401),
            ("unknown_model", 404),
            ("rate_limited", 429),
            ("server_error", 500),
            ("overloaded", 503),
        ],
    )
    async def test_error_statuses(self, mode: str, status: int) -> None:
        """An error status is a value with its number."""
        fault = await self.answer(mode)
        assert isinstance(fault, CallFault)
        assert (fault.kind, fault.status) == (FaultKind.STATUS, status)

    async def test_retry_after(self) -> None:
        """What the server asks to wait is known."""
        fault = await self.answer("rate_limited")
        assert isinstance(fault, CallFault)
        assert fault.retry_after_seconds == 1.0

    async def test_what_was_wrong_can_be_told(self) -> None:
        """Codes and messages of the server reach the classification."""
        fault = await self.answer("no_credit")
        assert isinstance(fault, CallFault)
        assert "insufficient_quota" in f"{fault.code} {fault.said}"

    async def test_a_hung_server_is_given_up_in_time(self) -> None:
        """A call without an answer ends with its timeout."""
        started = time.monotonic()
        fault = await self.answer("hung", timeout=0.2)
        assert isinstance(fault, CallFault)
        assert fault.kind is FaultKind.TIMEOUT
        assert time.monotonic() - started < 2

    async def test_a_dropped_connection(self) -> None:
        """A connection that breaks is a connection fault, not a time-out."""
        fault = await self.answer("drop")
        assert isinstance(fault, CallFault)
        assert fault.kind is FaultKind.CONNECTION

    @pytest.mark.parametrize("mode", ["no_completion", "html"])
    async def test_an_answer_that_is_no_completion(self, mode: str) -> None:
        """Something else with status 200 is malformed."""
        fault = await self.answer(mode)
        assert isinstance(fault, CallFault)
        assert fault.kind is FaultKind.MALFORMED

    async def test_many_at_once(self) -> None:
        """Calls may overlap."""
        async with self.client_in("good") as client:
            replies = await asyncio.gather(*(client.complete(request()) for _ in range(20)))
        assert all(isinstance(reply, JudgeReply) for reply in replies)

    async def test_closing_twice(self) -> None:
        """A client may be closed twice, and asks nothing any more."""
        async with self.client_in("good") as client:
            await client.close()
            await client.close()
            fault = await client.complete(request(1.0))
        assert isinstance(fault, CallFault)
        assert fault.kind is FaultKind.CONNECTION
