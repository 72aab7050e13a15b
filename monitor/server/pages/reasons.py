"""Why a monitor has judged nothing, or little: counts by reason from the tallies, and the name that a glob may have meant. Pure."""

from __future__ import annotations

import difflib
import fnmatch
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.model.run import Tally
from monitor.model.tallies import TallyName


@dataclass(frozen=True, slots=True)
class MonitorCounts:
    """What tallies say of a monitor since its first run. `seen` are the agents of all invocations, by how many each has had."""

    selected: int = 0
    not_selected: Mapping[str, int] = field(default_factory=dict)
    verdicts: Mapping[str, int] = field(default_factory=dict)
    unjudgeable: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, int] = field(default_factory=dict)
    seen: Mapping[str, int] = field(default_factory=dict)

    @property
    def considered(self) -> int:
        """How many settled invocations the monitor has looked at."""
        return self.selected + sum(self.not_selected.values())


NOT_SELECTED = {
    "filtered": "did not match `select`",
    "sampled_out": "were sampled out by `sample.rate`",
    "over_cap": "were over the cap `sample.max_per_hour`",
    "over_budget": "were over a budget",
    "incomplete": "were incomplete (`include_incomplete: false`)",
    "missed": "belong to ticks that were missed and not caught up",
}


def counts(tallies: Sequence[Tally], monitor: str) -> MonitorCounts:
    """The counts of one monitor."""

    def by(metric: str, label: str, of_monitor: bool = True) -> dict[str, int]:
        found: dict[str, int] = {}
        for tally in tallies:
            if tally.metric == metric and tally.value and (not of_monitor or tally.labels["monitor"] == monitor):
                found[tally.labels[label]] = found.get(tally.labels[label], 0) + int(tally.value)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    return MonitorCounts(
        selected=sum(by(TallyName.SELECTED, "monitor").values()),
        not_selected=by(TallyName.NOT_SELECTED, "reason"),
        verdicts=by(TallyName.VERDICTS, "verdict"),
        unjudgeable=by(TallyName.UNJUDGEABLE, "reason"),
        errors=by(TallyName.EVALUATION_ERRORS, "reason"),
        seen=by(TallyName.INVOCATIONS, "agent", of_monitor=False),
    )


def why_nothing(monitor: Mapping[str, Any], known: MonitorCounts, open_traces: int | None) -> list[str]:
    """Sentences, the most telling first, for a monitor without a judged invocation."""
    return list(_sentences(monitor, known, open_traces))


def _sentences(monitor: Mapping[str, Any], known: MonitorCounts, open_traces: int | None) -> Iterator[str]:
    waiting = monitor.get("waiting_for_judge") or []
    if waiting:
        yield f"{_listed(waiting)} {_verb(waiting, 'waits', 'wait')} for a judge: configure `judges`, and name it in the monitor."
    if monitor.get("state") == "waiting_for_judge":
        return
    if not known.considered:
        yield from _nothing_considered(monitor, known, open_traces)
        return
    globs = list(_globs(monitor, known))
    yield from globs
    if not known.selected:
        yield from _not_selected(known, explained={"filtered"} if globs else set())
    elif not sum(known.verdicts.values()):
        yield from _not_judged(monitor, known)
    elif known.verdicts.get("pass", 0) + known.verdicts.get("fail", 0):
        yield "Nothing that ended within this window has been judged; earlier invocations have. A longer window shows them."
    else:
        yield from _says_nothing(known)


def _nothing_considered(monitor: Mapping[str, Any], known: MonitorCounts, open_traces: int | None) -> Iterator[str]:
    if open_traces:
        yield f"{open_traces:,} traces are open: they are judged once they have settled."
    if known.seen:
        yield "Invocations are stored, and the monitor has not looked at any: it begins with those that settle after it was added."
    elif not open_traces:
        yield "No invocation has settled yet: point your agents' OTLP exporter at a collector of this daemon (Health shows where)."
    if monitor.get("next_run"):
        yield "The next run is due soon."


def _globs(monitor: Mapping[str, Any], known: MonitorCounts) -> Iterator[str]:
    """A glob of `select.agent` that matches no agent seen."""
    given = (monitor.get("select") or {}).get("agent")
    globs = [] if given is None else [given] if isinstance(given, str) else list(given)
    wanted = [glob for glob in globs if not glob.startswith("!")]
    if not wanted or not known.seen or any(_matches(glob, known.seen) for glob in wanted):
        return
    of = f"{known.selected:,} of {known.considered:,} settled invocations matched"
    nearest = _nearest(wanted, list(known.seen))
    yield f"{of} agent glob {_listed(f'`{glob}`' for glob in wanted)}; nearest seen `{nearest}`."


def _matches(glob: str, seen: Mapping[str, int]) -> bool:
    return any(re.fullmatch(fnmatch.translate(glob), agent) for agent in seen)


def _nearest(globs: Sequence[str], seen: Sequence[str]) -> str:
    """The agent most like the letters of a glob."""

    def likeness(agent: str) -> float:
        letters = (re.sub(r"[*?\[\]]", "", glob) for glob in globs)
        return max(
            difflib.SequenceMatcher(None, part.lower(), agent[: max(1, len(part))].lower()).ratio() for part in letters
        )

    return max(seen[:500], key=likeness)


def _not_selected(known: MonitorCounts, explained: Collection[str]) -> Iterator[str]:
    for reason, count in known.not_selected.items():
        if reason not in explained:
            yield f"{count:,} of {known.considered:,} settled invocations {NOT_SELECTED.get(reason, reason)}."


def _not_judged(monitor: Mapping[str, Any], known: MonitorCounts) -> Iterator[str]:
    if monitor.get("pending"):
        yield f"{monitor['pending']:,} evaluations wait for a judge or are being judged."
    for reason, count in known.errors.items():
        yield f"{count:,} evaluations failed: {reason}."


def _says_nothing(known: MonitorCounts) -> Iterator[str]:
    total = sum(known.verdicts.values())
    if known.verdicts.get("not_applicable"):
        yield f"{known.verdicts['not_applicable']:,} of {total:,} verdicts: the rubric does not apply."
    for reason, count in known.unjudgeable.items():
        yield f"{count:,} of {total:,} verdicts: unjudgeable, {reason}."


def _listed(names: Any) -> str:
    found = list(names)
    return ", ".join(found[:-1]) + f" and {found[-1]}" if len(found) > 1 else "".join(found)


def _verb(names: Sequence[str], one: str, many: str) -> str:
    return one if len(names) == 1 else many
