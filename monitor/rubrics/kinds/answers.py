"""Reading the values of a judge's reply: exact words, finite numbers in range, every criterion once. Nothing is guessed or clamped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from monitor.model.verdict import ErrorType
from monitor.rubrics.kinds.kind import ReplyFault
from monitor.rubrics.kinds.votes import NOT_APPLICABLE

YES_NO: Mapping[str, bool] = {"yes": True, "pass": True, "no": False, "fail": False}
_NOT_APPLICABLE_WORDS = frozenset({NOT_APPLICABLE, "not applicable", "n/a"})
_DECORATION = " \t\r\n*_`\"'.,;:!#>"
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_EXPLANATION_KEYS = ("reasoning", "reason", "explanation", "rationale")
MAX_EXPLANATION = 4000
MAX_QUOTES = 20


def bare(text: str) -> str:
    """A word without case, blanks and the marks that models put around it: `**Yes.**` is `yes`."""
    return text.strip(_DECORATION).lower()


def is_not_applicable(value: Any) -> bool:
    """Whether the judge says, in these words, that the criterion does not apply."""
    return isinstance(value, str) and (bare(value) in _NOT_APPLICABLE_WORDS)


def yes_or_no(value: Any, where: str) -> bool | ReplyFault:
    """The verdict on a statement; only the exact words count, so that `not yes` and `unknown` are no verdict."""
    word = bare(value) if isinstance(value, str) else ""
    if word in YES_NO:
        return YES_NO[word]
    return ReplyFault(ErrorType.UNPARSEABLE, f"{where}: the verdict is none of yes, no, not_applicable")


def word(value: Any, words: Mapping[str, bool], where: str) -> bool | ReplyFault | None:
    """What a label means; None where it says that the criterion does not apply. Only the exact words count."""
    if is_not_applicable(value):
        return None
    said = bare(value) if isinstance(value, str) else ""
    if said in words:
        return words[said]
    return ReplyFault(ErrorType.UNPARSEABLE, f"{where}: the verdict is none of {', '.join(words)}, {NOT_APPLICABLE}")


def number(value: Any, low: float, high: float, where: str, *, whole: bool) -> int | float | ReplyFault:
    """A grade: a finite number from low to high. Truth values and words are refused; a text of digits is its number."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip(_DECORATION)):
        value = float(value.strip(_DECORATION))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:  # NaN
        return ReplyFault(ErrorType.UNPARSEABLE, f"{where}: the score is no number")
    if not low <= value <= high or (whole and value != int(value)):
        kind = "whole number" if whole else "number"
        return ReplyFault(ErrorType.OUT_OF_RANGE, f"{where}: the score is no {kind} from {low:g} to {high:g}")
    return int(value) if value == int(value) else value


def explanation(item: Mapping[str, Any]) -> str:
    """The judge's reasoning, cut to a bound; empty where it gave none."""
    found = next((item[key] for key in _EXPLANATION_KEYS if isinstance(item.get(key), str)), "")
    return str(found)[:MAX_EXPLANATION]


def evidence(item: Mapping[str, Any]) -> tuple[str, ...]:
    """The quotes that the judge gave; one text counts as one quote."""
    quotes = item.get("evidence")
    if isinstance(quotes, str):
        quotes = [quotes] if quotes.strip() else []
    return tuple(quote[:MAX_EXPLANATION] for quote in quotes or () if isinstance(quote, str))[:MAX_QUOTES]


def by_id(reply: Mapping[str, Any], key: str, ids: Sequence[str]) -> Mapping[str, Mapping[str, Any]] | ReplyFault:
    """The part of the reply for every id, each exactly once; what a judge says of other ids is left out.

    Takes what the schema asks for, `{key: {id: {…}}}`; the same as a list of objects with `id`; and for a single criterion the bare object.
    """
    answers = reply.get(key)
    if isinstance(answers, list):
        answers = _from_list(answers)
    if answers is None and len(ids) == 1 and ({"verdict", "score"} & reply.keys()):
        answers = {ids[0]: reply}
    if isinstance(answers, ReplyFault):
        return answers
    if not isinstance(answers, Mapping) or not all(isinstance(item, Mapping) for item in answers.values()):
        return ReplyFault(ErrorType.UNPARSEABLE, f"the reply has no `{key}` with one object for each id")
    missing = [id_ for id_ in ids if id_ not in answers]
    if missing:
        return ReplyFault(
            ErrorType.INCOMPLETE_ANSWER, f"{key}: nothing for {missing[0]!r} ({len(missing)} of {len(ids)} missing)"
        )
    return {id_: answers[id_] for id_ in ids}


def _from_list(items: Sequence[Any]) -> Mapping[str, Any] | ReplyFault:
    found: dict[str, Any] = {}
    for item in items:
        id_ = item.get("id") if isinstance(item, Mapping) else None
        if not isinstance(id_, str) or id_ in found:
            return ReplyFault(ErrorType.INCOMPLETE_ANSWER, "an id is missing or given twice")
        found[id_] = item
    return found
