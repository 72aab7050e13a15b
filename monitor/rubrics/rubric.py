"""A rubric as the rest of the program sees it, whatever its kind."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.rubrics.kinds.catalogue import KINDS
from monitor.rubrics.kinds.kind import Kind, is_judged
from monitor.rubrics.kinds.spec import RubricSpec


@dataclass(frozen=True, slots=True)
class Rubric:
    """What good is, to be judged of one invocation. `spec` is the document as its kind has read it.

    `threshold` is on the rubric's own scale. `judged` rubrics ask a model: without a configured judge they wait, and nothing is sent.
    """

    name: str
    kind: str
    spec: RubricSpec
    threshold: float
    requires: tuple[str, ...]
    judged: bool
    description: str | None = None
    owner: str | None = None

    @property
    def behaviour(self) -> Kind:
        """The kind itself."""
        return KINDS[self.kind]


def rubric_from(spec: RubricSpec) -> Rubric:
    """The rubric of a validated document."""
    kind = KINDS[spec.kind]
    return Rubric(
        name=spec.name,
        kind=spec.kind,
        spec=spec,
        threshold=kind.threshold(spec),
        requires=spec.requires,
        judged=is_judged(kind),
        description=spec.description,
        owner=spec.owner,
    )
