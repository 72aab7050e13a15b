"""`rubricd status`: what a running daemon does and where it stands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from monitor.commands.client import Server, add_server_arguments
from monitor.commands.exits import Exit
from monitor.commands.printing import json_lines, percent, say, shortened, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The server and the form."""
    parser.epilog = "example: rubricd status --server http://rubricd:8464"
    parser.add_argument("--json", action="store_true", help="one collector, judge, monitor or dialect a line as JSON")
    add_server_arguments(parser)


def command(arguments: argparse.Namespace) -> int:
    """Print collectors, judges, monitors and pass rates; exit 3 when no daemon answers."""
    server = Server(arguments.server, arguments.token_file)
    collectors, monitors = server.items("/api/v1/collectors"), server.items("/api/v1/monitors")
    judges, dialects = server.items("/api/v1/judges"), server.items("/api/v1/dialects")
    if arguments.json:
        json_lines([{"collector": one} for one in collectors])
        json_lines([{"judge": one} for one in judges])
        json_lines([{"monitor": one} for one in monitors])
        json_lines([{"dialect": one} for one in dialects])
        return Exit.DONE
    _collectors(collectors)
    if judges:
        _judges(judges)
    _dialects(dialects)
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


def _dialects(dialects: Sequence[dict[str, Any]]) -> None:
    """Per agent the dialects of its telemetry, and which fields that lacks, among the newest invocations."""
    rows = [
        (
            shortened(one["agent"]),
            one["convention"],
            one["collector"],
            one["invocations"],
            _lacks(one["missing"], one["looked_at"]),
        )
        for one in sorted(dialects, key=lambda one: (one["agent"], -one["invocations"]))
    ]
    if rows:
        columns = ("agent", "dialect", "collector", "invocations", "telemetry lacks")
        table("agents, by the newest invocations", columns, rows, right=("invocations",))


def _lacks(missing: dict[str, int], looked_at: int) -> str:
    """The fields that most often lack, with the share of the invocations that were looked at."""
    if not looked_at:
        return "not looked at"
    most = sorted(missing.items(), key=lambda item: (-item[1], item[0]))[:6]
    return ", ".join(f"{field} {count / looked_at:.0%}" for field, count in most) or "nothing"


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
            monitor["name"], rate["rubric"], shortened(rate["agent"]), shortened(rate["agent_version"]) or "",
            shortened(rate["environment"]) or "", rate["window"], percent(rate["rate"]),
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
        "environment",
        "window",
        "pass rate",
        "95 % interval",
        "judged",
        "unscored",
        "coverage",
    )
    if rows:
        table("pass rates", columns, rows, right=columns[6:])
    else:
        say("nothing has been judged in the monitors' windows")


def _time(text: str | None) -> str | None:
    return None if text is None else f"{text[:10]} {text[11:19]}Z"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"
