"""A judge client that answers from a script instead of a network, for tests and trials. It keeps the same contract as the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from monitor.judging.client import CallFault, FaultKind, JudgeReply, JudgeRequest

Line = JudgeReply | CallFault | str
"""What to answer: a whole reply, a fault, or just the text of a reply."""


class ScriptedClient:
    """Answers with the lines of the script in order, the last one again and again; or by a function of the request.

    `requests` keeps what was asked. `latency_seconds` is waited on the event loop, within the request's timeout.
    """

    def __init__(self, script: Iterable[Line] | Callable[[JudgeRequest], Line], latency_seconds: float = 0.0) -> None:
        self._answer = script if callable(script) else None
        self._lines = [] if callable(script) else list(script)
        self._latency_seconds = latency_seconds
        self.requests: list[JudgeRequest] = []
        self.closed = False
        self.most_at_once = 0
        self._running = 0

    async def complete(self, request: JudgeRequest) -> JudgeReply | CallFault:
        """The next line of the script."""
        if self.closed:
            return CallFault(FaultKind.CONNECTION)
        self.requests.append(request)
        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        try:
            async with asyncio.timeout(request.timeout_seconds):
                await asyncio.sleep(self._latency_seconds)
        except TimeoutError:
            return CallFault(FaultKind.TIMEOUT)
        finally:
            self._running -= 1
        line = self._next(request)
        return JudgeReply(line, "stop", input_tokens=100, output_tokens=20) if isinstance(line, str) else line

    def _next(self, request: JudgeRequest) -> Line:
        if self._answer is not None:
            return self._answer(request)
        if not self._lines:
            return ""
        return self._lines.pop(0) if len(self._lines) > 1 else self._lines[0]

    async def close(self) -> None:
        """Answer no more."""
        self.closed = True
