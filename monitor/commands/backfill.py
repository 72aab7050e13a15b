"""`rubricd backfill --monitor NAME --since T --until T`: score history on a running daemon."""

from __future__ import annotations

import argparse
import time
from typing import Any
from urllib.parse import quote

from monitor.commands.client import Server, add_server_arguments
from monitor.commands.exits import CommandFailed, Exit, not_done
from monitor.commands.printing import json_lines, note, say

ASK_SECONDS = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Monitor, times, budget, and the server."""
    parser.epilog = "example: rubricd backfill --monitor booking-quality --since 7d --until 1d --dry-run"
    parser.add_argument("--monitor", metavar="NAME", help="whose rubrics and selection")
    parser.add_argument(
        "--since",
        metavar="T",
        help="invocations (or conversations) that ended from then on: RFC 3339, or a duration before now",
    )
    parser.add_argument("--until", metavar="T", help="and before then (default: now)")
    parser.add_argument(
        "--dry-run", action="store_true", help="only say how many, what they cost, and how wide the interval gets"
    )
    parser.add_argument("--errors", action="store_true", help="judge failed evaluations again instead of drawing")
    parser.add_argument(
        "--limit", metavar="N", type=int, help="draw about so many invocations (or conversations) at most"
    )
    parser.add_argument("--max-tokens", metavar="N", type=int, help="stop when so many tokens are used")
    parser.add_argument("--max-usd", metavar="USD", type=float, help="stop when so much is spent")
    parser.add_argument(
        "--collector", metavar="NAME", help="read this polling collector's source again first (tempo/prod, say)"
    )
    parser.add_argument("--no-wait", action="store_true", help="begin it and return; the daemon goes on by itself")
    parser.add_argument(
        "--cancel", metavar="ID", help="end a running backfill (backfill-3, say) instead of beginning one"
    )
    parser.add_argument("--json", action="store_true", help="the result as one JSON line")
    add_server_arguments(parser)


def command(arguments: argparse.Namespace) -> int:
    """Begin a backfill and follow it; the daemon finishes it whether anyone follows or not."""
    server = Server(arguments.server, arguments.token_file)
    if arguments.cancel is not None:
        return _cancel(server, arguments.cancel, as_json=arguments.json)
    missing = [f"--{name}" for name in ("monitor", "since") if getattr(arguments, name) is None]
    if missing:
        raise CommandFailed(Exit.WRONG_INPUT, f"backfill needs {' and '.join(missing)}; see `rubricd backfill --help`")
    answer = server.request("POST", "/api/v1/backfills", **_parameters(arguments))
    if answer is None:
        raise CommandFailed(Exit.NOT_DONE, "the daemon has no backfills: it is an older version")
    if arguments.dry_run and arguments.collector is None:
        json_lines([answer]) if arguments.json else _print_preview(answer)
        return Exit.DONE
    if arguments.no_wait:
        json_lines([answer]) if arguments.json else say(
            f"{answer['id']} has begun"
            + (f": about {answer['expected']} evaluations" if arguments.collector is None else "")
        )
        return Exit.DONE
    return _follow(server, answer, as_json=arguments.json)


def _cancel(server: Server, identifier: str, *, as_json: bool) -> int:
    found = server.request("POST", f"/api/v1/backfills/{quote(identifier, safe='')}/cancel")
    if found is None:
        raise CommandFailed(Exit.WRONG_INPUT, f"the daemon knows no backfill {identifier!r}")
    json_lines([found]) if as_json else say(f"{found['id']}: {found['status']}: {found['judged']} judged")
    return Exit.DONE


def _parameters(arguments: argparse.Namespace) -> dict[str, str | int | None]:
    return {
        "monitor": arguments.monitor,
        "since": arguments.since,
        "until": arguments.until,
        "dry_run": "true" if arguments.dry_run else None,
        "errors": "true" if arguments.errors else None,
        "limit": arguments.limit,
        "max_tokens": arguments.max_tokens,
        "collector": arguments.collector,
        "max_usd": None if arguments.max_usd is None else str(arguments.max_usd),
    }


def _follow(server: Server, begun: dict[str, Any], *, as_json: bool) -> int:
    said = ""
    while True:
        found = next((one for one in server.items("/api/v1/backfills") if one["id"] == begun["id"]), None)
        if found is None:
            raise not_done(f"{begun['id']}: the daemon does not know it any more")
        line = _progress(found)
        if line != said:
            note(line)
            said = line
        if found["status"] != "running":
            break
        time.sleep(ASK_SECONDS)
    if as_json:
        json_lines([found])
    elif found["dry_run"] and found["estimate"]:
        _print_estimate(found)
    else:
        say(
            f"{found['id']}: {found['status']}: {found['judged']} judged, {found['failed']} failed, {found['tokens']} tokens"
        )
    return Exit.DONE if found["status"] == "done" else Exit.NOT_DONE


def _progress(found: dict[str, Any]) -> str:
    if found["collector"] and not found["expected"]:
        line = f"{found['id']}: {found['collector']} read up to {found['read_until']}: {found['traces']} traces"
        return f"{line}; {found['message']}" if found["message"] else line
    line = f"{found['id']}: {found['judged'] + found['failed']} of about {max(found['expected'], found['evaluations'])} evaluations"
    return f"{line}; {found['message']}" if found["message"] else line


def _print_preview(answer: dict[str, Any]) -> None:
    """An older daemon tells neither level nor errors."""
    what = f"{answer.get('level', 'invocation')}s"
    if answer.get("errors"):
        say(f"{answer['matched']} evaluations of {what} that ended then have failed and can be judged again")
        say(f"{answer['evaluations']} would be judged again: {_use(answer)}")
        return
    say(f"{answer['looked_at']} {what} ended then, {answer['matched']} match and were not considered yet")
    if answer["without_content"]:
        say(f"{answer['without_content']} of them cannot be judged any more: their content was erased")
    _print_cost(answer)


def _print_estimate(found: dict[str, Any]) -> None:
    """A search tells how many traces there are; which of them match, only their spans would."""
    say(f"{found['traces']} traces began then in {found['collector']}; if all of them match:")
    if found["cut"]:
        say("the source had more at once than it gives: there are more traces than these")
    _print_cost(found["estimate"])


def _use(answer: dict[str, Any]) -> str:
    tokens = "tokens not known yet" if answer["tokens"] is None else f"about {answer['tokens']:,} tokens"
    usd = "cost not known" if answer["usd"] is None else f"about {answer['usd']:,.2f} USD"
    return f"{tokens}, {usd}"


def _print_cost(answer: dict[str, Any]) -> None:
    say(f"{answer['drawn']} would be drawn, {answer['evaluations']} evaluations: {_use(answer)}")
    if answer["interval_width"] is not None:
        say(
            f"the 95 % interval of the pass rate would be about {answer['interval_width']:.1%} wide at a rate of {answer['interval_at']:.0%}"
        )
