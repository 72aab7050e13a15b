"""What a judge is to see of an invocation by one rubric. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.judging.transcript import View
from monitor.model.invocation import Invocation
from monitor.model.wire import invocation_json
from monitor.rubrics.kinds.kind import JudgedKind, is_bound
from monitor.rubrics.kinds.paths import fill
from monitor.rubrics.kinds.spec import JudgedSpec


@dataclass(frozen=True, slots=True)
class Seen:
    """An invocation, redacted, with the rubric as it applies to it and the view of it."""

    invocation: Invocation
    spec: JudgedSpec
    view: View


def look(kind: JudgedKind, spec: JudgedSpec, invocation: Invocation) -> Seen | str:
    """The view; or the reason why the invocation is unjudgeable: a section of the rubric's `context` would be empty."""
    context: dict[str, str] = {}
    data = invocation_json(invocation) if spec.context else {}
    for name, template in spec.context.items():
        text = fill(template, data)
        if text is None:
            return f"missing:context.{name}"
        context[name] = text
    applied = kind.bound(spec, invocation) if is_bound(kind) else spec
    sentences = tuple(kind.criteria(applied).values()) if is_bound(kind) else ()
    return Seen(invocation, applied, View(spec.about, spec.hide, context, sentences))
