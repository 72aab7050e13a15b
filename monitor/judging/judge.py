"""A judge: one configured model, asked about invocations by rubrics. Failures are values; nothing is raised."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from monitor.clock import Clock
from monitor.judging.abilities import AbilityMemory
from monitor.judging.asking import Asked, Asker, Call
from monitor.judging.client import ChatMessage, JudgeClient
from monitor.judging.expecting import Expectation
from monitor.judging.flags import flags
from monitor.judging.limits import DailyBudget, DailyUse, RateLimiter, next_day
from monitor.judging.programs import judge_without_model
from monitor.judging.prompting import system_message, user_message
from monitor.judging.redact import redacted
from monitor.judging.reply import Question
from monitor.judging.seeing import Seen, look
from monitor.judging.transcript import Transcript, TranscriptLimits, transcript
from monitor.model.invocation import Invocation
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement, Outcome, Usage
from monitor.rubrics.kinds.kind import JudgedKind, Sample, is_judged
from monitor.rubrics.kinds.needs import absent, unmet
from monitor.rubrics.kinds.spec import JudgedSpec
from monitor.rubrics.rubric import Rubric
from monitor.rubrics.version import JudgeParameters, judge_parameters
from monitor.settings.privacy import NOTHING, Redaction
from monitor.settings.tree import JudgeSettings
from monitor.telemetry import Telemetry

_TIMEOUTS_AN_EVALUATION = 4
_SHOWN_REPLY = 2000


@dataclass(frozen=True, slots=True)
class _Task:
    """One evaluation, ready to be asked."""

    rubric: Rubric
    kind: JudgedKind
    spec: JudgedSpec
    parameters: JudgeParameters
    question: Question
    shown: Transcript
    messages: tuple[ChatMessage, ...]


@dataclass(slots=True)
class Judge:
    """Evaluates invocations by judged rubrics with one model. Used from one event loop.

    `redaction` is what is replaced in what the model sees, where an evaluation does not say otherwise. `new_mark` makes the random mark of a call. `stopped` says why every call fails
    until someone acts (key, model, credit); a call that succeeds clears it.
    """

    name: str
    settings: JudgeSettings
    client: JudgeClient
    clock: Clock
    telemetry: Telemetry | None = None
    redaction: Redaction = NOTHING
    use: DailyUse | None = None
    memory: AbilityMemory = field(default_factory=AbilityMemory)
    transcript_limits: TranscriptLimits = field(default_factory=TranscriptLimits)
    new_mark: Callable[[], str] = lambda: secrets.token_hex(8)
    limiter: RateLimiter = field(init=False)
    budget: DailyBudget = field(init=False)
    asker: Asker = field(init=False)
    expected: Expectation = field(init=False)
    _told: tuple[JudgedSpec, bool, str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.limiter = RateLimiter(self.settings.limits, self.clock)
        self.budget = DailyBudget(self.settings.limits, self.use)
        self.expected = Expectation(self.settings.prices)
        self.asker = Asker(
            self.name, self.settings, self.client, self.clock, self.limiter, self.budget, self.memory, self.telemetry
        )

    @property
    def stopped(self) -> str | None:
        """Why the last call failed in a way that every other call would; None when the judge works."""
        return self.asker.stopped

    def out_of_budget(self) -> str | None:
        """The daily limit that is used up, or None."""
        return self.budget.exhausted(self.clock.now())

    @property
    def deadline_seconds(self) -> float:
        """No evaluation takes longer, however many samples and repairs it needs; a claim's lease is longer."""
        return self.settings.timeout * _TIMEOUTS_AN_EVALUATION

    async def evaluate(
        self,
        rubric: Rubric,
        invocation: Invocation,
        parameters: JudgeParameters | None = None,
        redaction: Redaction | None = None,
        purse: DailyBudget | None = None,
        patience: float | None = None,
    ) -> Judgement:
        """Judge an invocation. `parameters` and `redaction` are those of the rubric version that it was drawn for, else the configured ones. `purse` is
        the budget of who asks, beside the judge's own: what the evaluation is thought to use is reserved in both while it runs. `patience`
        is how many seconds it waits in each for those under way; then it fails as one for which the budget is used up, to be tried again.

        A rubric that needs no model is judged without one. Calls no model when the invocation lacks what the rubric needs.
        """
        kind, spec = rubric.behaviour, rubric.spec
        if not is_judged(kind) or not isinstance(spec, JudgedSpec):
            return await judge_without_model(rubric, invocation)
        asked = parameters or judge_parameters(self.settings)
        nothing = absent(invocation, spec.only_with)
        if nothing is not None:
            text = f"The run has no {nothing.replace('_', ' ')}."
            return _judgement(rubric, Judgement(Outcome.NOT_APPLICABLE, explanation=text), asked)
        reason = unmet(invocation, kind.needs(spec))
        if reason is not None:
            return _judgement(rubric, Judgement(Outcome.UNJUDGEABLE, unjudgeable_reason=reason), asked)
        spent = self.out_of_budget()
        if spent is not None:
            return self._spent(rubric, spent, asked)
        seen = look(kind, spec, await self._redacted(invocation, self.redaction if redaction is None else redaction))
        if isinstance(seen, str):
            return _judgement(rubric, Judgement(Outcome.UNJUDGEABLE, unjudgeable_reason=seen), asked)
        return await self._within_budget(self._task(rubric, kind, seen.spec, seen, asked), purse, patience)

    def _spent(self, rubric: Rubric, limit: str, parameters: JudgeParameters, whose: str = "") -> Judgement:
        wait = next_day(self.clock.now()) - self.clock.now()
        message = f"{limit} of {whose or f'judge {self.name}'} is used up until the next day (UTC)"
        return _failed(rubric, EvaluationFailure(ErrorType.RATE_LIMITED, message, False, wait), parameters)

    async def _within_budget(self, task: _Task, purse: DailyBudget | None, patience: float | None) -> Judgement:
        """Ask once there is room in the budgets; who asks is looked at first, always in the same order, so that none waits for another in a circle."""
        name, messages, samples = task.rubric.name, task.messages, task.spec.num_samples
        with ExitStack() as held:
            for budget, whose in ((purse, "the monitor"), (self.budget, "")):
                if budget is not None:
                    try:
                        async with asyncio.timeout(patience):
                            reserved = await budget.reserve(
                                self.clock, lambda: self.expected.of(name, messages, samples)
                            )
                    except TimeoutError:
                        message = "the evaluation waits for what others leave of a day's budget"
                        return _failed(task.rubric, EvaluationFailure(ErrorType.RATE_LIMITED, message), task.parameters)
                    if isinstance(reserved, str):
                        return self._spent(task.rubric, reserved, task.parameters, whose)
                    held.callback(budget.give_back, reserved)
            judgement = await self._ask(task)
            self.expected.learn(name, messages, samples, judgement.usage)
            return judgement

    @staticmethod
    async def _redacted(invocation: Invocation, redaction: Redaction) -> Invocation:
        if redaction.presidio:
            return await asyncio.to_thread(redacted, invocation, redaction)
        return redacted(invocation, redaction)

    def _task(
        self, rubric: Rubric, kind: JudgedKind, spec: JudgedSpec, seen: Seen, parameters: JudgeParameters
    ) -> _Task:
        mark = self.new_mark()
        shown = transcript(seen.invocation, mark, seen.view, self.transcript_limits)
        messages = (
            ChatMessage("system", self._system(kind, spec, bool(seen.invocation.turns))),
            ChatMessage("user", user_message(shown.text, mark)),
        )
        return _Task(rubric, kind, spec, parameters, Question(kind, spec, shown.text), shown, messages)

    def _system(self, kind: JudgedKind, spec: JudgedSpec, conversation: bool) -> str:
        """The system message, the same for all invocations of a rubric; rendered once for the rubric read last."""
        if self._told is None or self._told[0] is not spec or self._told[1] is not conversation:
            self._told = (spec, conversation, system_message(kind, spec, conversation=conversation))
        return self._told[2]

    async def _ask(self, task: _Task) -> Judgement:
        calls: list[Call] = []
        started = self.clock.monotonic()
        try:
            async with asyncio.timeout(self.deadline_seconds):
                asked = await self._samples(task, calls)
        except TimeoutError:
            failure = EvaluationFailure(
                ErrorType.TIMEOUT, "the evaluation did not end within its deadline", temporary=True
            )
            return _failed(task.rubric, failure, task.parameters, calls)
        good = [item.sample for item in asked if item.sample is not None]
        if len(good) < task.spec.enough:
            return _failed(task.rubric, _failure(asked, len(good), task.spec), task.parameters, calls, asked)
        judgement = task.kind.combine(task.spec, good)
        details = {
            **judgement.details,
            **_details(task, judgement, asked, good, calls),
            "seconds": round(self.clock.monotonic() - started, 3),
        }
        if self.telemetry:
            for flag in details.get("flags", ()):
                self.telemetry.judge_flags.labels(self.name, task.rubric.name, flag).inc()
        return _judgement(task.rubric, replace(judgement, details=details), task.parameters, calls)

    async def _samples(self, task: _Task, calls: list[Call]) -> list[Asked]:
        """Ask in waves: at first as many as a majority needs, then one by one while the answer is open."""
        asked: list[Asked] = []
        wanted = task.spec.num_samples
        while len(asked) < wanted:
            good = [item.sample for item in asked if item.sample is not None]
            left = wanted - len(asked)
            settled = len(good) >= task.spec.enough and task.kind.settled(task.spec, good, len(good) + left)
            hopeless = len(good) + left < task.spec.enough or any(item.stops for item in asked)
            if settled or hopeless:
                break
            wave = 1 if asked else wanted // 2 + 1
            kwargs: dict[str, Any] = {"steady": wanted == 1}
            asked += await asyncio.gather(
                *(self.asker.ask(task.question, task.messages, task.parameters, calls, **kwargs) for _ in range(wave))
            )
        return asked

    async def close(self) -> None:
        """Give up connections."""
        await self.client.close()


def _agreement(judgement: Judgement) -> float | None:
    """The share of votes that went to the answer that was kept, over all criteria; None when asked once."""
    votes = [criterion.votes for criterion in judgement.criteria if criterion.votes]
    cast = sum(sum(vote.values()) for vote in votes)
    return sum(max(vote.values()) for vote in votes) / cast if cast else None


def _details(
    task: _Task, judgement: Judgement, asked: Sequence[Asked], good: Sequence[Sample], calls: Sequence[Call]
) -> dict[str, Any]:
    """What is worth knowing of how the verdict came about: figures, names and field paths, never content."""
    last = next((call for call in reversed(calls) if call.answered), calls[-1])
    failed = Counter(item.failure.type.value for item in asked if item.failure is not None)
    unverified = _unverified(good, task.shown.text)
    agreement = _agreement(judgement)
    details: dict[str, Any] = {
        "flags": list(flags(task.shown.text, task.shown.truncated, unverified, agreement)),
        "agreement": agreement,
        "samples": len(good),
        "failed_samples": dict(failed),
        "reply_format": last.format.value,
        "returned_model": last.model,
        "system_fingerprint": last.system_fingerprint,
        "truncated": list(task.shown.truncated),
        "unverified_evidence": unverified,
    }
    return {key: value for key, value in details.items() if value}


def _judgement(
    rubric: Rubric, judgement: Judgement, parameters: JudgeParameters, calls: Sequence[Call] = ()
) -> Judgement:
    """The judgement with the rubric's scale, the model that was asked, and what it consumed."""
    return replace(
        judgement,
        score_range=rubric.behaviour.score_range(rubric.spec),
        threshold=rubric.threshold,
        usage=usage(calls),
        judge_model=parameters.model,
    )


def _failed(
    rubric: Rubric,
    failure: EvaluationFailure,
    parameters: JudgeParameters,
    calls: Sequence[Call] = (),
    asked: Sequence[Asked] = (),
) -> Judgement:
    """A failed evaluation. What the judge said instead is kept as its explanation, for people: content, and erased like it."""
    said = next((item.said for item in asked if item.said), "")[:_SHOWN_REPLY]
    return _judgement(rubric, Judgement(None, failure=failure, explanation=said), parameters, calls)


def _failure(asked: Sequence[Asked], good: int, spec: JudgedSpec) -> EvaluationFailure:
    failures = [item.failure for item in asked if item.failure is not None]
    temporary = next((failure for failure in failures if failure.temporary), None)
    stopping = next((item.failure for item in asked if item.stops and item.failure is not None), None)
    if stopping is not None:
        return stopping
    if good == 0:
        return temporary or failures[0]
    names = ", ".join(sorted({failure.type.value for failure in failures}))
    return EvaluationFailure(
        ErrorType.NO_QUORUM,
        f"{good} of {spec.num_samples} samples could be read, {spec.enough} are needed ({names})",
        temporary=temporary is not None,
        retry_after_seconds=temporary.retry_after_seconds if temporary else None,
    )


def usage(calls: Sequence[Call]) -> Usage:
    """What calls consumed together; the cost is None as soon as that of one is not known."""
    costs = [call.cost_usd for call in calls]
    known = [cost for cost in costs if cost is not None]
    return Usage(
        requests=len(calls),
        input_tokens=sum(call.input_tokens or 0 for call in calls),
        output_tokens=sum(call.output_tokens or 0 for call in calls),
        cost_usd=sum(known) if costs and len(known) == len(costs) else None,
    )


def _unverified(samples: Sequence[Sample], shown: str) -> int:
    """How many of the first sample's quotes are not found in what was shown, but for case and blanks."""
    quotes = [quote for answer in samples[0].values() for quote in answer.evidence] if samples else []
    if not quotes:
        return 0
    text = " ".join(shown.split()).casefold()
    return sum(" ".join(quote.strip(" \"'“”….").split()).casefold() not in text for quote in quotes)
