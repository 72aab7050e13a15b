"""What the configuration says of settling and settlements, as intake reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from monitor.intake.settling import SettlingRules
from monitor.model.invocation import Invocation
from monitor.settings.privacy import StoreContent
from monitor.settings.tree import Assembly, LateSpans, Settings

Redact = Callable[[Invocation], Invocation]
"""Replaces what must not be stored (`privacy.redact.before: [store]`)."""


@dataclass(frozen=True, slots=True)
class SettlementOptions:
    """How settled traces are assembled and stored; `monitors` are those that are to consider their invocations, `conversation_monitors` those
    that are to consider the conversations of which these are turns.

    `keep_spans`: raw spans are stored, so that late data can be merged with them; without them it only counts.
    `heads_first`: of a trace that holds one plain invocation only the head is read at its settling (`assembly.sketch`); the rest
    when somebody asks. `journal_max_age` is in seconds.
    """

    monitors: tuple[str, ...] = ()
    keep_attributes: tuple[str, ...] = ()
    drop_attributes: tuple[str, ...] = ()
    late_spans: LateSpans = LateSpans.REJUDGE
    keep_spans: bool = True
    max_spans: int = 100_000
    journal_max_age: float = 24 * 3600.0
    redact: Redact | None = None
    conversation_monitors: tuple[str, ...] = ()
    heads_first: bool = False


def settling_rules(assembly: Assembly) -> SettlingRules:
    """The rules of the section `assembly`."""
    return SettlingRules(assembly.settle_after, assembly.idle_timeout, assembly.max_age, assembly.max_spans)


def settlement_options(
    settings: Settings, keep_attributes: tuple[str, ...], redact: Redact | None = None, *, by_tools: bool = False
) -> SettlementOptions:
    """The options of a configuration. `keep_attributes` are those of `assembly` and of every monitor's `select.attributes`; `by_tools`: a
    monitor selects by tools.

    With `redact` no raw spans are kept: they would hold what it takes out. Without raw spans, with attributes to keep, tools to select by or
    conversations, whose heads come of their turns, everything is assembled at its settling.
    """
    conversation_monitors = tuple(
        name for name, monitor in settings.monitors.items() if monitor.level == "conversation"
    )
    keep_spans = settings.privacy.store_content is not StoreContent.NONE and redact is None
    return SettlementOptions(
        monitors=tuple(name for name, monitor in settings.monitors.items() if monitor.level == "invocation"),
        keep_attributes=keep_attributes,
        drop_attributes=settings.privacy.drop_attributes,
        late_spans=settings.assembly.late_spans,
        keep_spans=keep_spans,
        max_spans=settings.assembly.max_spans,
        journal_max_age=settings.storage.journal.max_age,
        redact=redact,
        conversation_monitors=conversation_monitors,
        heads_first=keep_spans and not (keep_attributes or by_tools or conversation_monitors),
    )
