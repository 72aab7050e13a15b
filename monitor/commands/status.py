"""`rubricd status`: what a running daemon does and where it stands."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

from monitor.commands.client import Server, add_server_arguments
from monitor.commands.exits import Exit
from monitor.commands.printing import json_lines, percent, say, table

LOOKED_AT = 500
"""Newest invocations that tell which dialect an agent speaks and what its telemetry lacks."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The server and the form."""
    parser.epilog = "example: rubricd status --server http://rubricd:8464"
    parser.add_argument("--json", action="store_true", help="one collector, judge or monitor a line as JSON")
    add_server_arguments(parser)


def command(arguments: argparse.Namespace) -> int:
    """Print collectors, judges, monitors and pass rates; exit 3 when no daemon answers."""
    server = Server(arguments.server, arguments.token_file)
    collectors, monitors = server.items("/api/v1/collectors"), server.items("/api/v1/monitors")
    judges = server.items("/api/v1/judges")
    if arguments.json:
        json_lines([{"collector": one} for one in collectors])
        json_lines([{"judge": one} for one in judges])
        json_lines([{"monitor": one} for one in monitors])
        return Exit.DONE
    _collectors(collectors)
    if judges:
        _judges(judges)
    _agents(server.items("/api/v1/invocations", limit=LOOKED_AT))
    _monitors(monitors)
    _pass_rates(monitors)
    return Exit.DONE


def _collectors(collectors: Sequence[dict[str, Any]]) -> None:
    columns = ("collector", "listens or reads", "spans/s", "open traces", "problem")
    rows = [
        (
            one["name"],
            ", ".join(one["endpoints"]),
            _number(one.get("spans_per_second")),
            one.get("open_traces"),
            one["problem"] or "none",
        )
        for one in collectors
    ]
    table("collectors", columns, rows, right=("spans/s", "open traces"))


def _agents(invocations: Sequence[dict[str, Any]]) -> None:
    """Per agent the dialects of its telemetry, and which fields that lacks, among the newest invocations."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in invocations:
        found.setdefault(one["agent_name"] or one["service"] or "unknown", []).append(one)
    rows = []
    for agent, of_agent in sorted(found.items()):
        lacks = Counter(field for one in of_agent for field in one["completeness"]["missing"])
        shown = ", ".join(f"{field} {count / len(of_agent):.0%}" for field, count in lacks.most_common(6))
        rows.append(
            (agent, ", ".join(sorted({one["convention"] for one in of_agent})), len(of_agent), shown or "nothing")
        )
    if rows:
        table(
            "agents, by the newest invocations",
            ("agent", "dialect", "looked at", "telemetry lacks"),
            rows,
            right=("looked at",),
        )


def _judges(judges: Sequence[dict[str, Any]]) -> None:
    columns = ("judge", "model", "content goes to", "tokens today", "USD today", "budget left", "problem")
    rows = [
        (
            one["name"], one["model"], one["host"], one["tokens_today"], _number(one["usd_today"]),
            percent(one["budget_remaining_ratio"]), one["problem"] or "none",
        )
        for one in judges
    ]  # fmt: skip
    table("judges", columns, rows, right=("tokens today", "USD today", "budget left"))


def _monitors(monitors: Sequence[dict[str, Any]]) -> None:
    columns = ("monitor", "of", "state", "schedule", "last run", "took", "drew", "next run", "pending")
    rows = []
    for one in monitors:
        last = one["last_run"] or {}
        state = one["state"].replace("_", " ")
        level = one.get("level", "invocation")
        rows.append(
            (one["name"], f"{level}s", state, one["schedule"], _time(last.get("tick")), last.get("considered"), last.get("drawn"),
             _time(one["next_run"]), one["pending"])
        )  # fmt: skip
    table("monitors", columns, rows, right=("took", "drew", "pending"))
    for one in monitors:
        if one["waiting_for_judge"]:
            say(f"{one['name']}: wait for a judge: {', '.join(one['waiting_for_judge'])}")


def _pass_rates(monitors: Sequence[dict[str, Any]]) -> None:
    rows = [
        (
            monitor["name"], rate["rubric"], rate["agent"], rate["agent_version"] or "", rate["window"], percent(rate["rate"]),
            f"{percent(rate['lower'])} to {percent(rate['upper'])}", rate["judged"], rate["unscored"], percent(rate["coverage"]),
        )
        for monitor in monitors
        for rate in monitor["pass_rates"]
    ]  # fmt: skip
    columns = (
        "monitor",
        "rubric",
        "agent",
        "version",
        "window",
        "pass rate",
        "95 % interval",
        "judged",
        "unscored",
        "coverage",
    )
    if rows:
        table("pass rates", columns, rows, right=columns[5:])
    else:
        say("nothing has been judged in the monitors' windows")


def _time(text: str | None) -> str | None:
    return None if text is None else f"{text[:10]} {text[11:19]}Z"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"
