"""A random draw of judged invocations for people to label. Pure: the same draw name gives the same draw."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from monitor.model.labels import LabelDraw
from monitor.model.run import Judged

_DRAWN = ("pass", "fail")


def draw_for_labels(
    judged: Sequence[Judged], monitor: str, rubric: str, rubric_version: str, size: int, name: str, now: float
) -> list[LabelDraw]:
    """Up to `size` of the rubric version's passed and failed, half of each where there are so many, each with its probability of being drawn.

    Few fail, and both kinds of error have to be measured: so failures are drawn more densely, and the probabilities make up for it. The order of the
    result is by chance too, and says nothing of the verdicts.
    """
    groups: dict[str, list[Judged]] = defaultdict(list)
    for row in judged:
        if row.rubric == rubric and row.rubric_version == rubric_version and row.outcome in _DRAWN:
            groups[row.outcome].append(row)
    wanted = _shares({outcome: len(rows) for outcome, rows in groups.items()}, size)
    drawn = []
    for outcome, rows in groups.items():
        kept = sorted(rows, key=lambda row: _number(name, row.invocation_id))[: wanted[outcome]]
        drawn += [(row, wanted[outcome] / len(rows)) for row in kept]
    drawn.sort(key=lambda pair: _number(f"{name}/order", pair[0].invocation_id))
    return [
        LabelDraw(
            draw_id=f"{name}-{place}",
            invocation_id=row.invocation_id,
            monitor=monitor,
            rubric=rubric,
            rubric_version=rubric_version,
            verdict=row.outcome,
            probability=probability,
            inclusion_probability=row.inclusion_probability,
            created_at=now,
        )
        for place, (row, probability) in enumerate(drawn, 1)
    ]


def _shares(sizes: dict[str, int], total: int) -> dict[str, int]:
    """Halves, and what one group cannot fill goes to the other; of an odd number the larger part to the passed."""
    fails = min(sizes.get("fail", 0), total // 2)
    passes = min(sizes.get("pass", 0), total - fails)
    return {"pass": passes, "fail": min(sizes.get("fail", 0), total - passes)}


def _number(name: str, invocation_id: str) -> str:
    return hashlib.sha256(f"rubricd:labels:{name}:{invocation_id}".encode(errors="surrogatepass")).hexdigest()
