"""What kinds have in common whose rubric lists what is judged, one reply answering all of it: `weighted` lists dimensions, `properties` statements."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from monitor.model.verdict import Criterion
from monitor.rubrics.kinds import answers, votes
from monitor.rubrics.kinds.asking import judged_needs, reply_object
from monitor.rubrics.kinds.kind import Answer, ReplyFault, Sample
from monitor.rubrics.kinds.needs import Need
from monitor.rubrics.kinds.spec import JudgedSpec, Share


class ListedSpec(JudgedSpec):
    """Keys of a rubric document that lists what is judged."""

    threshold: Share = 0.5


class Listable(Protocol):
    """An entry of the list; `always_applicable` leaves the judge no way out."""

    @property
    def id(self) -> str:
        """Its id in replies and verdicts."""
        ...

    @property
    def always_applicable(self) -> bool:
        """Whether "not applicable" is no answer."""
        ...


SpecT = TypeVar("SpecT", bound=ListedSpec)
ItemT = TypeVar("ItemT", bound=Listable)


class ListedKind(Generic[SpecT, ItemT]):
    """Asks for an answer on each entry. A kind says what an entry's answer looks like, and what the answers come to."""

    key: str
    """Where the answers stand in a reply."""
    field: str
    """Where the answer itself stands in the part of an entry."""

    @abstractmethod
    def items(self, spec: SpecT) -> Sequence[ItemT]:
        """The entries, in the rubric's order."""

    @abstractmethod
    def text(self, item: ItemT) -> str:
        """What an entry says."""

    @abstractmethod
    def answer_schema(self, item: ItemT) -> dict[str, Any]:
        """The JSON Schema of an entry's answer."""

    @abstractmethod
    def said(self, item: ItemT, value: Any) -> bool | int | float | ReplyFault:
        """What an answer means that does not say "not applicable"."""

    def needs(self, spec: SpecT) -> tuple[Need, ...]:
        """What `requires` names, and what the rubric is about."""
        return judged_needs(spec)

    def threshold(self, spec: SpecT) -> float:
        """The share from which it passes."""
        return spec.threshold

    def score_range(self, spec: SpecT) -> tuple[float, float]:
        """A share."""
        return 0.0, 1.0

    def criteria(self, spec: SpecT) -> Mapping[str, str]:
        """The entries by id."""
        return {item.id: self.text(item) for item in self.items(spec)}

    def reply_schema(self, spec: SpecT) -> dict[str, Any]:
        """One object for each entry, by id."""
        return reply_object(self.key, {item.id: {self.field: self.answer_schema(item)} for item in self.items(spec)})

    def labelled(self, items: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """The parts, by id."""
        return {self.key: items}

    def read(self, spec: SpecT, reply: Mapping[str, Any]) -> Sample | ReplyFault:
        """An answer for every entry."""
        parts = answers.by_id(reply, self.key, [item.id for item in self.items(spec)])
        if isinstance(parts, ReplyFault):
            return parts
        sample: dict[str, Answer] = {}
        for item in self.items(spec):
            part = parts[item.id]
            said: bool | int | float | ReplyFault | None = None
            if item.always_applicable or not answers.is_not_applicable(part.get(self.field)):
                said = self.said(item, part.get(self.field))
            if isinstance(said, ReplyFault):
                return said
            sample[item.id] = Answer(item.id, said, answers.explanation(part), answers.evidence(part))
        return sample

    def settled(self, spec: SpecT, samples: Sequence[Sample], wanted: int) -> bool:
        """Whether every entry's vote is decided."""
        return votes.settled(samples, wanted)


def criterion(id_: str, counted: votes.Counted, weight: float | None = None) -> Criterion:
    """An entry's part of the verdict; a statement that holds scores 1."""
    said = counted.answer
    score = float(said.value) if isinstance(said.value, bool) else said.value
    return Criterion(id_, score, said.value is not None, weight, said.explanation, said.evidence, counted.votes)
