"""The demo's screen: a live table on a terminal, a few lines and a final table elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from monitor.commands.demo_traffic import Phase, Traffic
from monitor.commands.printing import percent

if TYPE_CHECKING:
    from monitor.passrates import PassRate

BAR_CELLS = 20
LINE_SECONDS = 5.0


class Screen:
    """Shows pass rates as they fill up. Use it as a context manager."""

    def __init__(self) -> None:
        self._console = Console()
        if not self._console.is_terminal:
            self._console.width = 130
        self._live = Live(console=self._console, refresh_per_second=4) if self._console.is_terminal else None
        self._phase: Phase | None = None
        self._last: tuple[Sequence[PassRate], Traffic] | None = None

    def __enter__(self) -> Screen:
        """Take the terminal."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back, with the last table on it."""
        if self._live is not None:
            self._live.stop()
        elif self._last is not None and kind is None:
            self._console.print(_table(*self._last))

    def show(self, rates: Sequence[PassRate], traffic: Traffic) -> None:
        """Show the rates as they stand."""
        self._last = (rates, traffic)
        if self._live is not None:
            self._live.update(_table(rates, traffic))
        elif traffic.phase is not self._phase:
            self._phase = traffic.phase
            judged = sum(rate.estimate.judged for rate in rates)
            self._console.print(
                f"{traffic.sent} invocations sent, {judged} verdicts: {traffic.phase.value}", highlight=False
            )


def _table(rates: Sequence[PassRate], traffic: Traffic) -> Group:
    shown = Table(box=None, padding=(0, 2, 0, 0))
    for column, justify in (
        ("agent", "left"), ("version", "left"), ("rubric", "left"), ("judged", "right"), ("pass rate", "right"),
        ("95 % interval", "right"), ("", "left"),
    ):  # fmt: skip
        shown.add_column(column, justify=justify, header_style="bold", no_wrap=True)  # type: ignore[arg-type]
    for rate in sorted(rates, key=lambda one: (one.group.agent, one.group.rubric, one.group.agent_version)):
        shown.add_row(*_row(rate))
    head = Text(f"{traffic.sent} invocations sent: {traffic.phase.value}")
    return Group(head, Text(), shown)


def _row(rate: PassRate) -> tuple[Text, ...]:
    group, found = rate.group, rate.estimate
    interval = f"{percent(found.lower)} to {percent(found.upper)}" if found.rate is not None else "–"
    filled = round((found.rate or 0.0) * BAR_CELLS)
    good = found.rate is not None and found.rate >= 0.9
    bar = Text("█" * filled, style="green" if good else "red") + Text("░" * (BAR_CELLS - filled), style="dim")
    return (
        Text(group.agent), Text(group.agent_version), Text(group.rubric), Text(str(found.judged)),
        Text(percent(found.rate)), Text(interval), bar,
    )  # fmt: skip
