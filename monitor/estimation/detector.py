"""The e-detector: evidence that a pass rate has fallen below a target since some time or other, whenever that was.

Shiryaev and Roberts' sum of e-processes started at every judged invocation, averaged over several drops (Shin, Ramdas and Rinaldo 2024,
"E-detectors"). For each pass rate theta below the target p0 the sum goes R = (1 + R) L with L the likelihood ratio of the result; M is the mean of
the R. While every next invocation passes with probability p0 or more, M - n has no upward drift, so the mean number of judged invocations until
M >= A is at least A, whatever depends on whatever. A plain e-process would have spent its evidence during the good time and gone blind.

- Weights: a result of weight w, where W is the largest that could have been drawn with it, is the bet 1 + v (L - 1) with v = w / W. Its mean under
  the null is at most 1 because that of w (y - p0) is at least 0: the inverse-probability-weighted results are what is bet on.
- Conversations: turns hang together, so a conversation is one bet. With a share a of it for each turn, shares adding up to at most 1,
  the product of L^a is at most the mean of the L (arithmetic over geometric), however the turns depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

FAIL_ODDS = (1.45, 2.15, 3.35, 5.3, 9.0, 17.0)
"""The drops that are bet on: by how much the odds of failing have grown. At 0.95: to 0.93, 0.90, 0.85, 0.78, 0.68 and 0.53."""

SHARES = (0.10, 0.20, 0.30, 0.20, 0.15, 0.05)
"""How the stake is split over them; most on the middle."""

_HIGHEST = 1e280


@dataclass(frozen=True, slots=True)
class Detector:
    """The sums of one series against one target; `add` gives the next. Plain numbers, so a restart goes on where it was.

    `levels` are the R; `rises` the cumulative sums of log L since they were last at 0, and `starts` when that was: where a change that is found
    has most likely begun (Page 1954).
    """

    target: float
    levels: tuple[float, ...] = (0.0,) * len(FAIL_ODDS)
    rises: tuple[float, ...] = (0.0,) * len(FAIL_ODDS)
    starts: tuple[float, ...] = (0.0,) * len(FAIL_ODDS)

    def add(self, passed: bool, at: float, weight: float = 1.0, share: float = 1.0) -> Detector:
        """With one more result at a time (seconds), of relative weight v in (0, 1], that is so much of its conversation."""
        levels, rises, starts = [], [], []
        for place, rate in enumerate(rates(self.target)):
            ratio = rate / self.target if passed else (1.0 - rate) / (1.0 - self.target)
            gain = share * math.log1p(weight * (ratio - 1.0))
            levels.append(min(_HIGHEST, (1.0 + self.levels[place]) * math.exp(gain)))
            starts.append(at if self.rises[place] <= 0.0 else self.starts[place])
            rises.append(max(0.0, self.rises[place] + gain))
        return replace(self, levels=tuple(levels), rises=tuple(rises), starts=tuple(starts))

    @property
    def evidence(self) -> float:
        """M: an alarm at A or more has a mean of at least A judged invocations between false ones."""
        return math.fsum(share * level for share, level in zip(SHARES, self.levels, strict=True))

    @property
    def log_evidence(self) -> float | None:
        """The natural logarithm of M; None before the first result."""
        return math.log(self.evidence) if self.evidence > 0.0 else None

    @property
    def since(self) -> float:
        """When the drop that the evidence speaks for has most likely begun (seconds)."""
        leading = max(range(len(SHARES)), key=lambda place: SHARES[place] * self.levels[place])
        return self.starts[leading]

    def restarted(self) -> Detector:
        """Without any evidence."""
        return Detector(self.target)

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return {"target": self.target, "levels": self.levels, "rises": self.rises, "starts": self.starts}

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Detector:
        """What `as_json` gave; without evidence where it was made for other drops than are bet on now."""
        if len(kept["levels"]) != len(SHARES):
            return cls(kept["target"])
        return cls(kept["target"], tuple(kept["levels"]), tuple(kept["rises"]), tuple(kept["starts"]))


def rates(target: float) -> tuple[float, ...]:
    """The pass rates below a target that are bet on."""
    failing = (1.0 - target) / target
    return tuple(1.0 / (1.0 + failing * odds) for odds in FAIL_ODDS)


@dataclass(frozen=True, slots=True)
class Turns:
    """How many judged turns a conversation has, as seen so far, forgetting slowly: the sum of 2 t - 1 over turns t is that of squared sizes."""

    count: float = 0.0
    squares: float = 0.0
    memory: float = 1000.0

    def seen(self, turn: int) -> Turns:
        """With one more judged turn, the `turn`-th of its conversation."""
        fade = 1.0 - 1.0 / self.memory
        return replace(self, count=self.count * fade + 1.0, squares=self.squares * fade + 2.0 * turn - 1.0)

    @property
    def usual(self) -> float:
        """The size of the conversation that a turn belongs to, on average; 1 before any."""
        return max(1.0, self.squares / self.count) if self.count > 0 else 1.0

    def share(self, turn: int) -> float:
        """What part of its conversation a turn is taken for: the shares of one conversation add up to at most 1, and past that turns are 0."""
        return max(0.0, min(1.0, self.usual - (turn - 1))) / self.usual
