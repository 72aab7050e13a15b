"""`rubricd forget`: erase the content of a trace or a conversation; numbers, ids and tallies stay."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from monitor.commands.client import Server, add_server_arguments
from monitor.commands.exits import CommandFailed, Exit
from monitor.commands.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--trace-id` or `--conversation-id`, which of the id's conversations, and the server."""
    parser.epilog = "example: rubricd forget --conversation-id c-1041"
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--trace-id", metavar="T", help="the trace whose content is erased")
    which.add_argument(
        "--conversation-id",
        metavar="C",
        help="the conversation whose content is erased: in all services and environments that use the id, or only the one of a full name (conversation:ID@suffix)",
    )
    parser.add_argument("--service", metavar="S", help="of the conversations of that id only this service's")
    parser.add_argument("--environment", metavar="E", help="of the conversations of that id only this environment's")
    add_server_arguments(parser)


def command(arguments: argparse.Namespace) -> int:
    """Ask the daemon to erase; exit 1 when it knows nothing of it."""
    server = Server(arguments.server, arguments.token_file)
    if arguments.trace_id is not None and (arguments.service or arguments.environment):
        raise CommandFailed(Exit.WRONG_INPUT, "--service and --environment go with --conversation-id")
    asked = {name: getattr(arguments, name) for name in ("trace_id", "conversation_id", "service", "environment")}
    answer = server.request("DELETE", "/api/v1/invocations", **asked)
    count = (answer or {}).get("forgotten", 0)
    if not count:
        raise CommandFailed(Exit.NO, "no stored invocation is of that trace or conversation")
    said = f"erased the content of {_counted(count, 'invocation')}"
    conversations = (answer or {}).get("conversations")
    if conversations:
        said += f" in {_counted(len(conversations), 'conversation')}: {', '.join(map(_told, conversations))}"
    say(f"{said}; verdicts and tallies stay as numbers")
    return Exit.DONE


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' if count != 1 else ''}"


def _told(one: Mapping[str, Any]) -> str:
    """A conversation by its service and environment, names that senders chose: nothing of them reaches the terminal as a command."""
    service, environment = ("".join(filter(str.isprintable, one[name])) for name in ("service", "environment"))
    place = f"service {service}" if service else "service not known"
    return f"{place}{f' in {environment}' if environment else ''} ({_counted(one['turns'], 'turn')})"
