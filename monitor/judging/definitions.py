"""The rubrics that evaluations were drawn for, by version, from their stored definitions: a reload or restart changes nothing for them."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.model.verdict import ErrorType, EvaluationFailure
from monitor.rubrics.rubric import Rubric
from monitor.rubrics.version import (
    JudgeParameters,
    UnusableDefinition,
    from_definition,
    parameters_from,
    redaction_from,
)
from monitor.settings.privacy import USUAL, Redaction
from monitor.store.protocol import Store

_MOST_KEPT = 500


@dataclass(frozen=True, slots=True)
class DrawnFor:
    """A rubric version, ready to be judged by: the rubric, the parameters of its judge (None without one), and what that is not to see."""

    rubric: Rubric
    parameters: JudgeParameters | None
    redaction: Redaction = USUAL


class Definitions:
    """Reads and keeps definitions. Blocks on the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, DrawnFor | EvaluationFailure] = {}

    def get(self, version: str) -> DrawnFor | EvaluationFailure:
        """The rubric of a version, or why it cannot be judged by."""
        if version not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[version] = self._read(version)
        return self._known[version]

    def _read(self, version: str) -> DrawnFor | EvaluationFailure:
        stored = self._store.rubric_definition(version)
        if stored is None:
            return EvaluationFailure(
                ErrorType.EVALUATOR_FAILED, f"the store has no definition of rubric version {version}"
            )
        try:
            return DrawnFor(from_definition(stored), parameters_from(stored), redaction_from(stored))
        except UnusableDefinition as error:
            return EvaluationFailure(ErrorType.EVALUATOR_FAILED, f"rubric version {version}: {error}")
