"""Asking a model once for one sample: the form it can answer in, one repair of a broken reply, limits, cost and figures."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor.clock import Clock
from monitor.judging.abilities import Abilities, AbilityMemory
from monitor.judging.client import CallFault, ChatMessage, FaultKind, JudgeClient, JudgeReply, JudgeRequest, ReplyFormat
from monitor.judging.expecting import CHARACTERS_A_TOKEN, EXPECTED_OUTPUT_TOKENS
from monitor.judging.limits import DailyBudget, RateLimiter
from monitor.judging.prompting import repair_message
from monitor.judging.reply import Question, read_reply
from monitor.judging.retry import Classified, classify, delay_seconds
from monitor.model.verdict import ErrorType, EvaluationFailure
from monitor.rubrics.kinds.kind import ReplyFault, Sample
from monitor.rubrics.version import JudgeParameters
from monitor.settings.tree import JudgeSettings
from monitor.telemetry import Telemetry

_LARGER_BUDGET = 4
_OK = "ok"


@dataclass(frozen=True, slots=True)
class Call:
    """What one call consumed and who answered; tokens are None where the server did not say, the cost where no price is known. `answered` is False
    for a call that timed out: its input is our estimate, for the provider may bill it all the same.
    """

    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    format: ReplyFormat
    model: str | None = None
    system_fingerprint: str | None = None
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of one sample: its answers, or a failure. `said` is an unusable reply; `stops` that every other call would fail too."""

    sample: Sample | None = None
    failure: EvaluationFailure | None = None
    stops: bool = False
    said: str = ""


@dataclass(slots=True)
class _Attempt:
    """Where the asking for one sample stands."""

    messages: tuple[ChatMessage, ...]
    abilities: Abilities
    max_tokens: int | None
    stops: int
    repaired: bool = False
    enlarged: bool = False


@dataclass(slots=True)
class Asker:
    """Asks one model."""

    judge: str
    settings: JudgeSettings
    client: JudgeClient
    clock: Clock
    limiter: RateLimiter
    budget: DailyBudget
    memory: AbilityMemory
    telemetry: Telemetry | None
    _stop: EvaluationFailure | None = None
    _stops: int = 0
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.settings.max_concurrency)

    @property
    def stopped(self) -> str | None:
        """Why every call fails until someone acts; None after a call that succeeded."""
        return self._stop.message if self._stop else None

    async def ask(
        self,
        question: Question,
        messages: tuple[ChatMessage, ...],
        parameters: JudgeParameters,
        calls: list[Call],
        *,
        steady: bool,
    ) -> Asked:
        """One sample. Every call is added to `calls`. `steady` asks for temperature 0 where none is configured: a single sample should
        be the same again, several are to differ.
        """
        model = parameters.deployment or parameters.model
        temperature = 0.0 if parameters.temperature is None and steady else parameters.temperature
        attempt = _Attempt(messages, self.memory.of(self.settings, model), parameters.max_tokens, self._stops)
        while True:
            request = self._request(model, temperature, attempt, question)
            reply = await self._call(request, attempt, calls)
            if isinstance(reply, Asked):
                return reply
            if isinstance(reply, CallFault):
                done = self._fault(classify(reply), attempt, request)
            else:
                self.memory.learn(self.settings, model, attempt.abilities)
                done = self._reply(reply, attempt, question, request)
            if done is not None:
                return done

    def _request(self, model: str, temperature: float | None, attempt: _Attempt, question: Question) -> JudgeRequest:
        able = attempt.abilities
        return JudgeRequest(
            model=model,
            messages=attempt.messages,
            timeout_seconds=self.settings.timeout,
            schema=question.kind.reply_schema(question.spec),
            format=able.format,
            temperature=temperature if able.temperature else None,
            max_tokens=attempt.max_tokens if able.token_keys else None,
            max_tokens_key=able.token_keys[0] if able.token_keys else "",
        )

    # -- one call ------------------------------------------------------------------------------------------------------
    async def _call(
        self, request: JudgeRequest, attempt: _Attempt, calls: list[Call]
    ) -> JudgeReply | CallFault | Asked:
        estimated = _estimated_tokens(request)
        async with self._slots:
            if self._stop is not None and self._stops != attempt.stops:
                return Asked(failure=self._stop, stops=True)  # the judge stopped while this call waited its turn
            wait = self.limiter.wait_seconds(estimated)
            if wait > 2 * self.settings.timeout:
                return Asked(failure=EvaluationFailure(ErrorType.RATE_LIMITED, no_room(self.judge), True, wait))
            await self.limiter.acquire(estimated)
            started = self.clock.monotonic()
            try:
                reply = await self.client.complete(request)
            except asyncio.CancelledError:  # the evaluation's deadline, or the end of the process
                self._account_unanswered(request, estimated, calls)
                raise
            seconds = self.clock.monotonic() - started
        self.limiter.correct(reply.rate)
        if self.telemetry:
            self.telemetry.judge_duration.labels(self.judge, request.model).observe(seconds)
        if isinstance(reply, JudgeReply):
            self._account(request, reply, estimated, calls)
        elif reply.kind is FaultKind.TIMEOUT:
            self._account_unanswered(request, estimated, calls)
        else:
            self.limiter.settle(estimated, 0)
        return reply

    def _account_unanswered(self, request: JudgeRequest, estimated: float, calls: list[Call]) -> None:
        """Count the prompt of a request that got no answer in time: it reached the provider, who may bill it."""
        tokens = round(_prompt_tokens(request.messages))
        prices = self.settings.prices
        cost = None if prices is None else tokens * prices.input_per_million / 1_000_000
        calls.append(Call(tokens, 0, cost, request.format, answered=False))
        self.limiter.settle(estimated, tokens)
        self.budget.spend(self.clock.now(), tokens, cost)
        if self.telemetry is not None:
            self.telemetry.judge_tokens.labels(self.judge, request.model, "unanswered").inc(tokens)
            self._show_cost(request, cost)

    def _account(self, request: JudgeRequest, reply: JudgeReply, estimated: float, calls: list[Call]) -> None:
        known = reply.input_tokens is not None and reply.output_tokens is not None
        used = (reply.input_tokens or 0) + (reply.output_tokens or 0)
        cost = self._cost(reply)
        calls.append(
            Call(reply.input_tokens, reply.output_tokens, cost, request.format, reply.model, reply.system_fingerprint)
        )
        self.limiter.settle(estimated, used if known else estimated)
        self.budget.spend(self.clock.now(), used if known else round(estimated), cost)
        if self.telemetry is None:
            return
        self.telemetry.judge_tokens.labels(self.judge, request.model, "input").inc(reply.input_tokens or 0)
        self.telemetry.judge_tokens.labels(self.judge, request.model, "output").inc(reply.output_tokens or 0)
        self._show_cost(request, cost)

    def _show_cost(self, request: JudgeRequest, cost: float | None) -> None:
        assert self.telemetry is not None
        if cost is not None:
            self.telemetry.judge_cost.labels(self.judge, request.model).inc(cost)
        left = self.budget.remaining_ratio(self.clock.now())
        if left is not None:
            self.telemetry.judge_budget_remaining.labels(self.judge).set(left)

    def _cost(self, reply: JudgeReply) -> float | None:
        """USD of a call; None without prices or without token counts."""
        prices = self.settings.prices
        if prices is None or reply.input_tokens is None or reply.output_tokens is None:
            return None
        millionths = reply.input_tokens * prices.input_per_million + reply.output_tokens * prices.output_per_million
        return millionths / 1_000_000

    def _count(self, request: JudgeRequest, outcome: str) -> None:
        if self.telemetry:
            self.telemetry.judge_requests.labels(self.judge, request.model, outcome).inc()

    # -- what came back ----------------------------------------------------------------------------------------------------
    def _fault(self, found: Classified, attempt: _Attempt, request: JudgeRequest) -> Asked | None:
        """Ask in another way where the server refused this one; None to go on."""
        self._count(request, found.failure.type.value)
        other = attempt.abilities.without(found.refused) if found.refused else None
        if other is not None:
            attempt.abilities = other
            return None
        if found.stops_judge:
            self._stop, self._stops = found.failure, self._stops + 1
        if found.failure.type is ErrorType.RATE_LIMITED and found.failure.temporary:
            self.limiter.hold(delay_seconds(1, found.failure.retry_after_seconds))
        return Asked(failure=found.failure, stops=found.stops_judge)

    def _reply(self, reply: JudgeReply, attempt: _Attempt, question: Question, request: JudgeRequest) -> Asked | None:
        """Read a reply; None to ask once more."""
        self._stop = None
        found = self._answer(reply, question)
        if not isinstance(found, ReplyFault):
            self._count(request, _OK)
            return Asked(sample=found)
        self._count(request, found.type.value)
        said = reply.refusal or reply.text or ""
        if self._again(found, reply, attempt, said):
            return None
        return Asked(failure=EvaluationFailure(found.type, found.message), said=said)

    @staticmethod
    def _answer(reply: JudgeReply, question: Question) -> Sample | ReplyFault:
        """The finish reason comes before the text: what is in a torn or filtered reply is no verdict."""
        if reply.refusal:
            return ReplyFault(ErrorType.REFUSED, "the judge declined")
        if reply.finish_reason == "content_filter":
            return ReplyFault(ErrorType.CONTENT_FILTER, "the provider's content filter stopped the reply")
        if reply.finish_reason == "length":
            if not (reply.text or "").strip():
                return ReplyFault(
                    ErrorType.EMPTY_REPLY, "the reply is empty: its token limit was used up before the verdict"
                )
            return ReplyFault(
                ErrorType.TRUNCATED, "the reply was cut off at its token limit; raise the judge's max_tokens"
            )
        return read_reply(reply.text, question)

    @staticmethod
    def _again(fault: ReplyFault, reply: JudgeReply, attempt: _Attempt, said: str) -> bool:
        """Whether to ask once more: a cut-off reply with a larger token limit where one is set, any other broken one with its fault."""
        if reply.finish_reason == "length":
            if attempt.max_tokens is None or attempt.enlarged:
                return False
            attempt.max_tokens, attempt.enlarged = attempt.max_tokens * _LARGER_BUDGET, True
            return True
        if attempt.repaired or fault.type is ErrorType.CONTENT_FILTER:
            return False
        attempt.repaired = True
        if fault.type not in (ErrorType.REFUSED, ErrorType.EMPTY_REPLY):
            attempt.messages = (
                *attempt.messages,
                ChatMessage("assistant", said[:20_000]),
                ChatMessage("user", repair_message(fault.message)),
            )
        return True


def no_room(judge: str) -> str:
    """What a failure says whose judge was not asked, for our own limit of its rate left no room."""
    return f"the rate limit of judge {judge} leaves no room yet"


def _estimated_tokens(request: JudgeRequest) -> float:
    return _prompt_tokens(request.messages) + (request.max_tokens or EXPECTED_OUTPUT_TOKENS)


def _prompt_tokens(messages: Sequence[ChatMessage]) -> float:
    return sum(len(message.content) for message in messages) / CHARACTERS_A_TOKEN
