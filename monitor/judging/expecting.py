"""What an evaluation is thought to use before it is asked: from the length of its prompt, corrected by what such evaluations have used. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from monitor.judging.client import ChatMessage
from monitor.judging.limits import Reservation
from monitor.model.verdict import Usage
from monitor.settings.tree import Prices

CHARACTERS_A_TOKEN = 4
EXPECTED_OUTPUT_TOKENS = 400
_NEWEST = 0.2
"""How much the newest evaluation counts in the average."""

ALL_THERE_IS = Reservation(math.inf, math.inf)


@dataclass(slots=True)
class Expectation:
    """What evaluations by one judge are thought to use. Nothing is known before the first has ended: until then one has all that is left to itself."""

    prices: Prices | None
    _factors: dict[str, float] = field(default_factory=dict)

    def of(self, rubric: str, messages: Sequence[ChatMessage], samples: int) -> Reservation:
        """For a rubric and its prompt, asked so many times. Without prices the cost is not known, and 0."""
        if not self._factors:
            return ALL_THERE_IS
        factor = self._factors.get(rubric, max(self._factors.values()))
        given, made = _bare(messages, samples)
        millionths = given * self.prices.input_per_million + made * self.prices.output_per_million if self.prices else 0
        return Reservation(factor * (given + made), factor * millionths / 1_000_000)

    def learn(self, rubric: str, messages: Sequence[ChatMessage], samples: int, used: Usage) -> None:
        """An evaluation has ended and used so much."""
        if used.requests and used.input_tokens + used.output_tokens:
            factor = (used.input_tokens + used.output_tokens) / sum(_bare(messages, samples))
            before = self._factors.get(rubric, factor)
            self._factors[rubric] = before + _NEWEST * (factor - before)


def _bare(messages: Sequence[ChatMessage], samples: int) -> tuple[float, float]:
    """Input and output tokens before they are corrected."""
    characters = sum(len(message.content) for message in messages)
    return samples * characters / CHARACTERS_A_TOKEN, float(samples * EXPECTED_OUTPUT_TOKENS)
