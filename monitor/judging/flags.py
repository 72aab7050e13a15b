"""What is odd about a record or its judging, as figures: flags are counted and shown, and never change a verdict. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum

MAX_SEARCHED = 200_000
"""Characters of a record that are searched."""


class Flag(StrEnum):
    """Why a person may want to look at a verdict (label `flag` of `judge_flags_total`)."""

    TEXT_FOR_THE_JUDGE = "text_for_the_judge"
    TRUNCATED_RECORD = "truncated_record"
    UNVERIFIED_EVIDENCE = "unverified_evidence"
    DISAGREEMENT = "disagreement"


_VERDICT = r"[\"'“*_`]{0,3}\s{0,3}[:=]\s{0,3}[\"'“*_`]{0,3}(?:yes|no|pass(?:ed)?|fail(?:ed)?|true|10|[0-9])\b"
_FOR_THE_JUDGE = re.compile(
    rf"""
    \b(?:verdict|grade){_VERDICT}
    | \b(?:ignore|disregard|forget|override)\b.{{0,40}}\b(?:instructions?|prompts?|rubrics?|rules|criteria|above|previous)\b
    | \b(?:dear|hello|hi|hey|attention|note\ to(?:\ the)?|to\ the|as\ (?:the|an?))\ (?:\w+\ )?(?:judges?|graders?|evaluators?|llm|language\ model)\b
    | \b(?:you\ are|act\ as)\ (?:the|an?|now)\ (?:\w+\ )?(?:judge|grader|evaluator)\b
    | \b(?:give|award|assign|return|output|respond\ with|reply\ with|rate|grade|score|mark)\b.{{0,40}}\b(?:highest|maximum|full|perfect|top|passing)\ (?:score|grade|marks?|rating|points)\b
    | \b(?:mark|judge|rate|grade|evaluate|count)\ (?:this|the|it|my)\b.{{0,40}}\ as\ (?:pass(?:ed|ing)?|correct|yes|perfect)\b
    | \b(?:end|begin|start)\ of\ (?:the\ )?(?:record|transcript|rubric|evaluation)\b
    | </?(?:rubric|verdict|evaluation|judge|score)>
    """,
    re.IGNORECASE | re.VERBOSE,
)


_WORDS = (
    "verdict", "grade", "ignore", "disregard", "forget", "override", "judge", "evaluator", "llm", "language model", "score", "marks", "rating",
    "points", "as pass", "as correct", "as yes", "as perfect", "end of", "begin of", "start of", "<rubric", "</rubric", "evaluation>",
)  # fmt: skip
"""One of these is in every text that the pattern finds; looking for them takes a hundredth of the time."""


def speaks_to_the_judge(text: str) -> bool:
    """Whether a record holds text that looks meant for whoever judges it. A hint for people, no boundary: the fence around the record is."""
    searched = text[:MAX_SEARCHED]
    folded = searched.casefold()
    return any(word in folded for word in _WORDS) and _FOR_THE_JUDGE.search(searched) is not None


def flags(record: str, truncated: Collection[str], unverified: int, agreement: float | None) -> tuple[str, ...]:
    """The flags of one evaluation, in a fixed order."""
    found = {
        Flag.TEXT_FOR_THE_JUDGE: speaks_to_the_judge(record),
        Flag.TRUNCATED_RECORD: bool(truncated),
        Flag.UNVERIFIED_EVIDENCE: unverified > 0,
        Flag.DISAGREEMENT: agreement is not None and agreement < 1,
    }
    return tuple(flag.value for flag, raised in found.items() if raised)
