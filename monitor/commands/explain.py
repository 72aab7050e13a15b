"""`rubricd explain TRACE_ID`: why a trace was or was not judged, per monitor."""

from __future__ import annotations

import argparse
import re
from typing import Any

from monitor.commands.client import Server, add_server_arguments
from monitor.commands.exits import CommandFailed, Exit, wrong_input
from monitor.commands.printing import json_lines, say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The trace id, `--json` and the server."""
    parser.epilog = "example: rubricd explain 97b1ed9d7cdcbf7125b461730decbc33"
    parser.add_argument("trace_id", metavar="TRACE_ID", help="32 hex digits")
    parser.add_argument("--json", action="store_true", help="one decision a line as JSON")
    add_server_arguments(parser)


def command(arguments: argparse.Namespace) -> int:
    """Print each decision; exit 1 when the daemon knows nothing of the trace."""
    trace_id = arguments.trace_id.lower()
    if not re.fullmatch(r"[0-9a-f]{32}", trace_id):
        raise wrong_input(f"TRACE_ID {arguments.trace_id}: a trace id is 32 hex digits")
    server = Server(arguments.server, arguments.token_file)
    decisions = server.items("/api/v1/decisions", trace_id=trace_id)
    if arguments.json:
        json_lines(decisions)
        return Exit.DONE if decisions else Exit.NO
    if not decisions:
        raise CommandFailed(Exit.NO, _nothing_known(server, trace_id))
    verdicts = {
        (verdict["invocation_id"], verdict["monitor"], verdict["rubric_version"]): verdict
        for verdict in server.items("/api/v1/verdicts", trace_id=trace_id)
    }
    for decision in decisions:
        _print(decision, verdicts)
    return Exit.DONE


def _nothing_known(server: Server, trace_id: str) -> str:
    if server.get(f"/api/v1/traces/{trace_id}") is not None:
        return "the trace has settled and waits for the next run of the monitors"
    from monitor.sampling import sampling_number

    number = sampling_number(trace_id)
    rates = [monitor.get("rate") for monitor in server.items("/api/v1/monitors")]
    if rates and all(isinstance(rate, float) and number >= rate for rate in rates):
        return f"its sampling number u={number:.6f} is at or above the rate of every monitor: its spans are not kept at intake"
    return f"no invocation of this trace is stored (u={number:.6f}): it has not settled yet, it holds no agent spans, or its spans never came here"


Verdicts = dict[tuple[str, str, str], dict[str, Any]]


def _print(decision: dict[str, Any], verdicts: Verdicts) -> None:
    u, probability = decision.get("u"), decision.get("inclusion_probability")
    figures = f"u={u:.6f}" if u is not None else ""
    figures += f", inclusion probability {probability:.4g}" if probability is not None else ""
    who = decision["monitor"]
    if decision["invocation_id"].startswith("conversation:"):
        who = f"{who}: {decision['invocation_id']}"
    if decision["decision"] == "waiting":
        say(
            f"{who}: waits: {decision['detail']}"
            if decision.get("detail")
            else f"{who}: waits for the monitor's next run"
        )
        return
    if decision["decision"] != "drawn":
        detail = f" ({decision['detail']})" if decision.get("detail") else ""
        say(f"{who}: not judged: {decision['reason']}{detail} [{figures}]")
        return
    detail = f" ({decision['detail']})" if decision.get("detail") else ""
    say(f"{who}: drawn for judging{detail} [{figures}]")
    for evaluation in decision.get("evaluations", ()):
        key = (decision["invocation_id"], decision["monitor"], evaluation["rubric_version"])
        say(f"  {evaluation['rubric']}: {_standing(evaluation, verdicts.get(key))}")


def _standing(evaluation: dict[str, Any], verdict: dict[str, Any] | None) -> str:
    """Where one evaluation stands: its verdict with score and explanation, its error, or that it waits."""
    if verdict is not None:
        if verdict["verdict"] == "unjudgeable":
            return f"unjudgeable: {verdict['unjudgeable_reason']}"
        text = str(verdict["verdict"])
        if verdict["score"] is not None:
            text += f", score {verdict['score']:g} (threshold {verdict['threshold']:g})"
        return f"{text}: {verdict['explanation']}" if verdict["explanation"] else text
    if evaluation.get("error"):
        return f"evaluation error: {evaluation['error']['type']}: {evaluation['error']['message']}"
    attempts = evaluation.get("attempts") or 0
    return "waits to be judged" + (f", {attempts} attempts so far" if attempts else "")
