"""Which faults of a call are temporary, how long to wait, and which stop the judge. One place, pure but for `with_retries`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from monitor.clock import Clock
from monitor.judging.client import CallFault, FaultKind
from monitor.model.verdict import ErrorType, EvaluationFailure, Judgement

LONGEST_DELAY = 60.0
LONGEST_RETRY_AFTER = 3600.0
"""A server that asks for more is asked again after an hour all the same."""

_OUT_OF_CREDIT = (
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit balance",
    "insufficient credit",
)
_CONTENT_FILTER = ("content_filter", "content_policy_violation", "responsibleaipolicyviolation")
_MODERATED = ("moderation", "flagged", "content policy", "content management policy")
"""Words of providers and gateways that refuse a record with the status of a wrong key."""
_TOO_LONG = (
    "context_length_exceeded",
    "maximum context length",
    "context window",
    "string_above_max_length",
    "too many tokens",
)
_FORMAT = ("response_format", "json_schema", "json_object", "structured output", "grammar", "text.format")


@dataclass(frozen=True, slots=True)
class Classified:
    """A fault as an evaluation's failure. `stops_judge`: every other call would fail in the same way until someone acts.

    `refused` is the request parameter that the server does not take (`response_format`, `temperature`, `max_tokens`), `unknown` where it
    does not say which, "" where asking in another way would not help.
    """

    failure: EvaluationFailure
    stops_judge: bool = False
    refused: str = ""


def delay_seconds(attempt: int, retry_after_seconds: float | None = None) -> float:
    """How long to wait after the failed attempt number `attempt` (from 1): what the server asks for, else min(60, 2 + 2^(n-1)) s.

    The formula is azure-ai-evaluation's.
    """
    if retry_after_seconds is not None:
        return min(max(retry_after_seconds, 0.0), LONGEST_RETRY_AFTER)
    return min(LONGEST_DELAY, 2.0 + 2.0 ** min(attempt - 1, 10))


def classify(fault: CallFault) -> Classified:
    """What a fault means. Messages name the status and what to look at, never what the server said."""
    if fault.kind is FaultKind.TIMEOUT:
        return _temporary(ErrorType.TIMEOUT, "the judge did not answer within its timeout")
    if fault.kind is FaultKind.CONNECTION:
        return _temporary(ErrorType.CONNECTION, "no connection to the judge's endpoint")
    if fault.kind is FaultKind.MALFORMED:
        return _temporary(ErrorType.SERVER_ERROR, "the judge's endpoint did not answer with a chat completion")
    return _by_status(fault, fault.status or 0, f"{fault.code} {fault.said}".lower())


def _by_status(fault: CallFault, status: int, said: str) -> Classified:
    if status == 402 or (status in (403, 429) and any(word in said for word in _OUT_OF_CREDIT)):
        return _stopping(ErrorType.RATE_LIMITED, f"status {status}: the provider says that credit or quota is used up")
    if status == 429:
        return _temporary(ErrorType.RATE_LIMITED, "status 429: the provider limits the rate", fault.retry_after_seconds)
    if status == 403 and any(word in said for word in (*_CONTENT_FILTER, *_MODERATED)):
        return _bad_request(fault, status, said)  # the key is right: one record must not pause the judge for all others
    if status in (401, 403):
        return _stopping(
            ErrorType.UNAUTHORIZED, f"status {status}: the provider does not take the API key; check api_key"
        )
    if status == 404:
        return _stopping(ErrorType.UNKNOWN_MODEL, "status 404: no such model or path; check model and base_url")
    if status >= 500 and refused_parameter(fault) == "response_format":
        failure = EvaluationFailure(
            ErrorType.SERVER_ERROR, f"status {status}: the endpoint fails at structured replies", True
        )
        return Classified(failure, refused="response_format")
    if status >= 500 or status in (408, 409, 425):
        return _temporary(
            ErrorType.SERVER_ERROR, f"status {status} from the judge's endpoint", fault.retry_after_seconds
        )
    if status in (400, 413, 422):
        return _bad_request(fault, status, said)
    if 300 <= status < 400:
        return _stopping(
            ErrorType.CONNECTION,
            f"status {status}: base_url redirects; content is not sent elsewhere, name the final URL",
        )
    return _permanent(ErrorType.EVALUATOR_FAILED, f"status {status} from the judge's endpoint")


def _bad_request(fault: CallFault, status: int, said: str) -> Classified:
    if any(word in said for word in _CONTENT_FILTER) or (status == 403 and any(word in said for word in _MODERATED)):
        return _permanent(
            ErrorType.CONTENT_FILTER, f"status {status}: the provider's content filter declined the record"
        )
    if status == 413 or any(word in said for word in _TOO_LONG):
        return _permanent(ErrorType.EVALUATOR_FAILED, f"status {status}: the record is longer than the model takes")
    if "model" in fault.code.lower() and ("not_found" in fault.code.lower() or "does not exist" in said):
        return _stopping(ErrorType.UNKNOWN_MODEL, f"status {status}: no such model; check model")
    refused = refused_parameter(fault)
    failure = EvaluationFailure(
        ErrorType.EVALUATOR_FAILED,
        f"status {status}: the endpoint does not take the request{f' ({refused})' if refused else ''}",
        temporary=status == 422 and not refused,
    )
    return Classified(failure, refused=refused or "unknown")


def refused_parameter(fault: CallFault) -> str:
    """The optional parameter that a 400 or 422 complains of, "" for none that we know."""
    parameter, said = fault.parameter.lower(), fault.said.lower()
    for name in ("max_completion_tokens", "max_tokens", "temperature"):
        if parameter == name:
            return "max_tokens" if "tokens" in name else name
    if parameter.startswith("response_format") or (not parameter and any(word in said for word in _FORMAT)):
        return "response_format"
    if "max_completion_tokens" in said or "max_tokens" in said:
        return "max_tokens"
    return "temperature" if "temperature" in said else ""


def _temporary(type_: ErrorType, message: str, retry_after_seconds: float | None = None) -> Classified:
    return Classified(EvaluationFailure(type_, message, temporary=True, retry_after_seconds=retry_after_seconds))


def _permanent(type_: ErrorType, message: str) -> Classified:
    return Classified(EvaluationFailure(type_, message))


def _stopping(type_: ErrorType, message: str) -> Classified:
    return Classified(EvaluationFailure(type_, message), stops_judge=True)


async def with_retries(evaluate: Callable[[], Awaitable[Judgement]], max_attempts: int, clock: Clock) -> Judgement:
    """Evaluate until there is no temporary failure, at most `max_attempts` times, waiting between. For commands; the daemon's
    evaluations go back to the store instead.
    """
    attempt = 0
    while True:
        attempt += 1
        judgement = await evaluate()
        failure = judgement.failure
        if failure is None or not failure.temporary or attempt >= max_attempts:
            return judgement
        await clock.sleep(delay_seconds(attempt, failure.retry_after_seconds))
