"""How a monitor samples: its settings with the contract's defaults filled in, compiled once."""

from __future__ import annotations

from dataclasses import dataclass, field

from monitor.sampling.selection import Selection
from monitor.settings.tree import MonitorSettings

DEFAULT_RATE = 1.0
DEFAULT_MAX_PER_HOUR = 60.0


@dataclass(frozen=True, slots=True)
class SamplingRule:
    """What a draw goes by. `max_per_hour` None means no cap; `always` None means that nothing is drawn in any case. `neyman` splits the cap by what
    strata showed in the past, not by their size alone. `afford` is the most that budgets let this one run draw; `always` is drawn in any
    case and counts towards it. None where no budget says.
    """

    selection: Selection = field(default_factory=Selection)
    rate: float = DEFAULT_RATE
    max_per_hour: float | None = None
    stratify_by: tuple[str, ...] = ()
    always: Selection | None = None
    salt: str = ""
    include_incomplete: bool = True
    neyman: bool = False
    min_per_stratum: int = 1
    afford: int | None = None


def sampling_rule(settings: MonitorSettings, *, needs_judge: bool) -> SamplingRule:
    """The rule of a monitor. What it leaves out defaults to rate 1.0 and, where a judge is needed, 60 an hour (contract section 2).

    `needs_judge` is False where all rubrics of the monitor are deterministic: those cost nothing, so there is no cap.
    """
    sample = settings.sample
    default_cap = DEFAULT_MAX_PER_HOUR if needs_judge else None
    return SamplingRule(
        selection=Selection.of(settings.select),
        rate=DEFAULT_RATE if sample.rate is None else sample.rate,
        max_per_hour=default_cap if sample.max_per_hour is None else sample.max_per_hour,
        stratify_by=sample.stratify_by,
        always=None if sample.always is None else Selection.of(sample.always),
        salt=sample.salt,
        include_incomplete=settings.include_incomplete,
        neyman=sample.allocation == "neyman",
        min_per_stratum=sample.min_per_stratum,
    )
