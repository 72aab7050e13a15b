"""What a rubric kind is: what it needs of an invocation, how it asks, how it reads the answer, how it passes.

A kind does no I/O. A deterministic kind judges by itself; a judged kind says what to ask a model and what its replies mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol, TypeGuard, runtime_checkable

from monitor.model.invocation import Invocation
from monitor.model.verdict import ErrorType, Judgement
from monitor.rubrics.kinds.needs import Need
from monitor.rubrics.kinds.spec import RubricSpec


@dataclass(frozen=True, slots=True)
class Answer:
    """What one reply says of one criterion.

    `value` is True or False for a statement, a number for a grade, None where the judge found the criterion not applicable.
    """

    id: str
    value: bool | int | float | None
    explanation: str = ""
    evidence: tuple[str, ...] = ()


Sample = Mapping[str, Answer]
"""One whole reply: an answer for every criterion of the rubric, in the rubric's order."""


@dataclass(frozen=True, slots=True)
class ReplyFault:
    """Why a reply is no answer. The message names the place and never carries the reply's text."""

    type: ErrorType
    message: str


class Kind(Protocol):
    """What all kinds tell."""

    @property
    def name(self) -> str:
        """The kind, as `kind` names it."""
        ...

    @property
    def spec(self) -> type[RubricSpec]:
        """The model of a rubric document of this kind."""
        ...

    def needs(self, spec: Any) -> tuple[Need, ...]:
        """What the invocation must have; lacking one it is unjudgeable."""
        ...

    def threshold(self, spec: Any) -> float:
        """The score from which the rubric passes, on its own scale, inclusive."""
        ...

    def score_range(self, spec: Any) -> tuple[float, float]:
        """The rubric's own scale."""
        ...


@runtime_checkable
class DeterministicKind(Kind, Protocol):
    """A kind that needs no model."""

    def judge(self, spec: Any, invocation: Invocation) -> Judgement:
        """The judgement, from the invocation alone."""
        ...


@runtime_checkable
class ProgramKind(Kind, Protocol):
    """A kind that is judged by a program of the team's own."""

    def read_output(self, spec: Any, output: str) -> Judgement | ReplyFault:
        """What the program printed, as a judgement; or why it is none."""
        ...


@runtime_checkable
class JudgedKind(Kind, Protocol):
    """A kind that asks a model, once or several times."""

    def criteria(self, spec: Any) -> Mapping[str, str]:
        """What a reply must answer: the text of each criterion by its id."""
        ...

    def reply_schema(self, spec: Any) -> dict[str, Any]:
        """The JSON Schema of a reply, in the strict form of structured outputs: evidence before reasoning before verdict."""
        ...

    def variables(self, spec: Any) -> Mapping[str, Any]:
        """What the prompt template of this kind shows besides the instructions."""
        ...

    def labelled(self, items: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """A reply of the form of `reply_schema` from its parts by criterion, for judges that answer in labelled text."""
        ...

    def read(self, spec: Any, reply: Mapping[str, Any]) -> Sample | ReplyFault:
        """What a reply means: every criterion exactly once, exact words, values in range; or why it is no answer."""
        ...

    def settled(self, spec: Any, samples: Sequence[Sample], wanted: int) -> bool:
        """Whether further samples, up to `wanted` in all, can change nothing."""
        ...

    def combine(self, spec: Any, samples: Sequence[Sample]) -> Judgement:
        """The judgement from one or more samples."""
        ...


@lru_cache(maxsize=256)
def _is(kind: type, protocol: type) -> bool:
    """Whether instances of the kind keep a protocol: the check by `isinstance` alone takes a third of a millisecond."""
    return all(hasattr(kind, name) for name in protocol.__dict__ if not name.startswith("_"))


def is_bound(kind: Kind) -> TypeGuard[BoundKind]:
    """Whether the kind takes its criteria from the invocation."""
    return _is(type(kind), BoundKind)


def is_judged(kind: Kind) -> TypeGuard[JudgedKind]:
    """Whether the kind asks a model."""
    return _is(type(kind), JudgedKind)


def is_program(kind: Kind) -> TypeGuard[ProgramKind]:
    """Whether the kind is judged by a program."""
    return _is(type(kind), ProgramKind)


def is_deterministic(kind: Kind) -> TypeGuard[DeterministicKind]:
    """Whether the kind judges by looking alone."""
    return _is(type(kind), DeterministicKind)


@runtime_checkable
class BoundKind(JudgedKind, Protocol):
    """A judged kind whose criteria come from the invocation itself."""

    def bound(self, spec: Any, invocation: Invocation) -> Any:
        """The rubric document with what it takes from this one invocation, as the judge is shown it."""
        ...
