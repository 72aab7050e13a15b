"""Kind `claims`: the answer's sentences, one by one: is each supported by what the record shows? Score = share that is.

A sentence without a claim (a greeting, an offer, a question) is not applicable and leaves the denominator. The sentences are cut by us,
not by the judge, and every one must be answered: none is left out unnoticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from monitor.model.invocation import Invocation
from monitor.model.verdict import Judgement, Outcome
from monitor.rubrics.kinds import answers, votes
from monitor.rubrics.kinds.asking import MAX_CRITERIA, named_needs, reply_object
from monitor.rubrics.kinds.kind import Answer, ReplyFault, Sample
from monitor.rubrics.kinds.listed import criterion
from monitor.rubrics.kinds.needs import Need
from monitor.rubrics.kinds.sentences import sentences
from monitor.rubrics.kinds.spec import JudgedSpec, Share

KEY = "sentences"
SUPPORTED, UNSUPPORTED, CONTRADICTED = "supported", "unsupported", "contradicted"
WORDS = {
    SUPPORTED: True,
    UNSUPPORTED: False,
    CONTRADICTED: False,
    "contradictory": False,
    "disputed": False,
}
"""Labels with what they mean; the last two are google-adk's."""


class ClaimsSpec(JudgedSpec):
    """A rubric document of this kind. Every claim must be supported unless `threshold` says less."""

    kind: Literal["claims"] = "claims"
    threshold: Share = 1.0

    @property
    def cut(self) -> tuple[str, ...]:
        """The sentences of the answer at hand; none before there is one."""
        return ()


class CutClaimsSpec(ClaimsSpec):
    """The rubric with the sentences of one answer."""

    pieces: tuple[str, ...]

    @property
    def cut(self) -> tuple[str, ...]:
        """The sentences of the answer at hand."""
        return self.pieces


class Claims:
    """Asks for a label on each sentence of the answer."""

    name = "claims"
    spec = ClaimsSpec

    def needs(self, spec: ClaimsSpec) -> tuple[Need, ...]:
        """What `requires` names, an answer, and what tools returned where they were called: without it sound claims would look made up."""
        own = (Need("final_response"), Need("tool_results", empty_is_known=True))
        return (*named_needs(spec), *own)

    def threshold(self, spec: ClaimsSpec) -> float:
        """The share from which it passes."""
        return spec.threshold

    def score_range(self, spec: ClaimsSpec) -> tuple[float, float]:
        """A share."""
        return 0.0, 1.0

    def bound(self, spec: ClaimsSpec, invocation: Invocation) -> CutClaimsSpec:
        """The rubric with the answer's sentences."""
        pieces = sentences(invocation.final_response or "", MAX_CRITERIA)
        return CutClaimsSpec.model_construct(**{**dict(spec), "pieces": pieces})

    def criteria(self, spec: ClaimsSpec) -> Mapping[str, str]:
        """The sentences by id: s1, s2, …"""
        return {f"s{index}": text for index, text in enumerate(spec.cut, start=1)}

    def reply_schema(self, spec: ClaimsSpec) -> dict[str, Any]:
        """One object for each sentence, by id."""
        label = {"type": "string", "enum": [SUPPORTED, UNSUPPORTED, CONTRADICTED, votes.NOT_APPLICABLE]}
        return reply_object(KEY, {id_: {"verdict": label} for id_ in self.criteria(spec)})

    def variables(self, spec: ClaimsSpec) -> Mapping[str, Any]:
        """How many sentences there are; their text is the agent's and stays in the record."""
        return {"count": len(spec.cut)}

    def labelled(self, items: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """The parts, by id."""
        return {KEY: items}

    def read(self, spec: ClaimsSpec, reply: Mapping[str, Any]) -> Sample | ReplyFault:
        """A label for every sentence."""
        items = answers.by_id(reply, KEY, list(self.criteria(spec)))
        if isinstance(items, ReplyFault):
            return items
        sample: dict[str, Answer] = {}
        for id_, item in items.items():
            said = answers.word(item.get("verdict"), WORDS, id_)
            if isinstance(said, ReplyFault):
                return said
            label = answers.bare(str(item.get("verdict")))
            why = answers.explanation(item)
            sample[id_] = Answer(id_, said, why if said else f"{label}: {why}".rstrip(": "), answers.evidence(item))
        return sample

    def settled(self, spec: ClaimsSpec, samples: Sequence[Sample], wanted: int) -> bool:
        """Whether every sentence's vote is decided."""
        return votes.settled(samples, wanted)

    def combine(self, spec: ClaimsSpec, samples: Sequence[Sample]) -> Judgement:
        """The share of sentences that are supported among those that claim something."""
        counted = {id_: votes.statement([sample[id_] for sample in samples]) for id_ in samples[0]}
        criteria = tuple(criterion(id_, said) for id_, said in counted.items())
        claims = [one for one in criteria if one.applicable]
        if not claims:
            text = "The answer claims nothing that could be checked."
            return Judgement(Outcome.NOT_APPLICABLE, threshold=spec.threshold, explanation=text, criteria=criteria)
        held = sum(bool(one.score) for one in claims)
        score = held / len(claims)
        broken = [f"{one.id} {one.explanation}" for one in claims if not one.score]
        summary = f"{held} of {len(claims)} claims are supported."
        return Judgement(
            Outcome.PASS if score >= spec.threshold else Outcome.FAIL,
            score=score,
            threshold=spec.threshold,
            explanation=f"{summary} Not so: {'; '.join(broken)}" if broken else summary,
            criteria=criteria,
        )
