"""How several replies become one answer.

"Not applicable" does not vote. Statements: more yes than no, so a tie is no (google-adk's rule). Grades: the lower median, so that a
tie takes the lower one. Both are fixed as soon as one value holds more than half of all samples asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.rubrics.kinds.kind import Answer, Sample

NOT_APPLICABLE = "not_applicable"


@dataclass(frozen=True, slots=True)
class Counted:
    """The answer that the samples come to, with what was voted; `votes` is None when asked once."""

    answer: Answer
    votes: Mapping[str, int] | None


def statement(answers: Sequence[Answer]) -> Counted:
    """The answer to a yes/no statement. The explanation is that of the first sample of the winning side."""
    votes = [answer.value for answer in answers if answer.value is not None]
    if not votes:
        return _counted(answers, None)
    return _counted(answers, sum(map(bool, votes)) * 2 > len(votes))


def grade(answers: Sequence[Answer]) -> Counted:
    """The grade that the samples come to: the lower median of those that found the criterion applicable."""
    grades = sorted(answer.value for answer in answers if answer.value is not None)
    return _counted(answers, grades[(len(grades) - 1) // 2] if grades else None)


def _counted(answers: Sequence[Answer], value: bool | int | float | None) -> Counted:
    kept = next(answer for answer in answers if answer.value == value and (answer.value is None) == (value is None))
    votes = Counter(_word(answer.value) for answer in answers) if len(answers) > 1 else None
    return Counted(kept, votes)


def _word(value: bool | int | float | None) -> str:
    if value is None:
        return NOT_APPLICABLE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}"


def settled(samples: Sequence[Sample], wanted: int) -> bool:
    """Whether every criterion's answer is fixed, whatever the samples up to `wanted` will say."""
    return bool(samples) and all(_fixed([sample[id_].value for sample in samples], wanted) for id_ in samples[0])


def _fixed(values: Sequence[bool | int | float | None], wanted: int) -> bool:
    if len(values) >= wanted:
        return True
    counts = Counter(value for value in values if value is not None)
    if any(count * 2 > wanted for count in counts.values()):
        return True
    return all(isinstance(value, bool) for value in counts) and counts[False] * 2 >= wanted
