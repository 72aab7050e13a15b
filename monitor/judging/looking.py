"""Judging by looking alone."""

from __future__ import annotations

from monitor.model.invocation import Invocation
from monitor.model.verdict import Judgement
from monitor.rubrics.kinds.kind import is_deterministic
from monitor.rubrics.rubric import Rubric


def judge_deterministic(rubric: Rubric, invocation: Invocation) -> Judgement:
    """The judgement of a rubric that needs neither model nor program. Raises TypeError for one that does."""
    kind = rubric.behaviour
    if not is_deterministic(kind):
        raise TypeError(f"{rubric.kind} rubrics are not judged by looking alone")
    return kind.judge(rubric.spec, invocation)
