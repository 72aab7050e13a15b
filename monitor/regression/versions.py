"""One agent version against the one before it, in the verdicts of one series."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from monitor.estimation.versions import PairedTest
from monitor.model.evidence import LoggedVerdict

MOST_KEPT = 2000
"""Verdicts of a version that are kept to be compared with; the newest."""


@dataclass(slots=True)
class VersionTest:
    """Pairs each verdict of the newest version with one of the version before, each used once.

    Under unequal sampling a verdict takes part with the probability of its relative weight, decided by a hash, which leaves an equal sample. Of a conversation
    only the first turn takes part.
    """

    current: str | None = None
    before: str | None = None
    mine: list[int] = field(default_factory=list)
    theirs: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    test: PairedTest = field(default_factory=lambda: PairedTest(one_sided=True))
    done: bool = False

    def add(self, row: LoggedVerdict) -> None:
        """Take a verdict into account."""
        if not row.agent_version or row.turn > 1 or _number(row.invocation_id) >= row.weight:
            return
        result = int(row.passed)
        if row.agent_version == self.before:
            self.theirs.append(result)
        else:
            if row.agent_version != self.current:
                self._begin(row.agent_version)
            self.mine.append(result)
            self.waiting.append(result)
        del self.mine[:-MOST_KEPT], self.theirs[:-MOST_KEPT], self.waiting[:-MOST_KEPT]
        while self.theirs and self.waiting and self.before is not None:
            self.test = self.test.add(bool(self.theirs.pop()), bool(self.waiting.pop(0)))

    def _begin(self, version: str) -> None:
        self.before, self.current = self.current, version
        self.theirs, self.mine, self.waiting = self.mine, [], []
        self.test, self.done = PairedTest(one_sided=True), False

    @property
    def rates(self) -> tuple[float | None, float | None]:
        """Pass rates of the version before and of the newest one, of the pairs."""
        pairs = self.test.pairs
        return (self.test.first_passes / pairs, self.test.second_passes / pairs) if pairs else (None, None)

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON."""
        test = self.test
        return {
            "current": self.current,
            "before": self.before,
            "mine": _bits(self.mine),
            "theirs": _bits(self.theirs),
            "waiting": _bits(self.waiting),
            "test": [test.log_evidence, test.first_passes, test.second_passes, test.pairs],
            "done": self.done,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> VersionTest:
        """What `as_json` gave."""
        return cls(
            kept["current"],
            kept["before"],
            _of_bits(kept["mine"]),
            _of_bits(kept["theirs"]),
            _of_bits(kept["waiting"]),
            replace(PairedTest(*kept["test"]), one_sided=True),
            kept["done"],
        )


def _bits(results: list[int]) -> str:
    return "".join(map(str, results))


def _of_bits(text: str) -> list[int]:
    return [int(bit) for bit in text]


def _number(invocation_id: str) -> float:
    """A number in [0, 1) that depends on the invocation alone, and on nothing that sampling looks at."""
    digest = hashlib.sha256(f"rubricd:versions:{invocation_id}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48
