"""Printing for people and for programs: tables on a terminal, JSON Lines with `--json`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

NAME_CHARACTERS = 60
"""Of a name in a table. Names come from telemetry and can have any length; `--json` has them whole."""


def json_lines(objects: Iterable[Any]) -> None:
    """One JSON object a line on stdout."""
    for item in objects:
        sys.stdout.write(json.dumps(item, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def say(text: str = "") -> None:
    """A line on stdout."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line on stderr: progress and remarks."""
    sys.stderr.write(text + "\n")


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], right: Sequence[str] = ()) -> None:
    """A table on stdout; columns named in `right` are right-aligned. Nothing of a cell is read as markup."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=title or None, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    for column in columns:
        drawn.add_column(column, justify="right" if column in right else "left", header_style="bold", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text("–" if cell is None else str(cell)) for cell in row))
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160)
    console.print(drawn)


def shortened(name: str | None) -> str | None:
    """A name for a table's cell, its end cut where it is long."""
    return name if name is None or len(name) <= NAME_CHARACTERS else f"{name[: NAME_CHARACTERS - 1]}…"


def percent(value: float | None) -> str:
    """A rate as `93.1 %`, – for none."""
    return "–" if value is None else f"{value * 100:.1f} %"
