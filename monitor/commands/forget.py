"""`rubricd forget`: erase the content of a trace or a conversation; numbers, ids and tallies stay."""

from __future__ import annotations

import argparse

from monitor.commands.client import Server, add_server_arguments
from monitor.commands.exits import CommandFailed, Exit
from monitor.commands.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--trace-id` or `--conversation-id`, and the server."""
    parser.epilog = "example: rubricd forget --conversation-id c-1041"
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--trace-id", metavar="T", help="the trace whose content is erased")
    which.add_argument("--conversation-id", metavar="C", help="the conversation whose content is erased")
    add_server_arguments(parser)


def command(arguments: argparse.Namespace) -> int:
    """Ask the daemon to erase; exit 1 when it knows nothing of it."""
    server = Server(arguments.server, arguments.token_file)
    answer = server.request(
        "DELETE", "/api/v1/invocations", trace_id=arguments.trace_id, conversation_id=arguments.conversation_id
    )
    count = (answer or {}).get("forgotten", 0)
    if not count:
        raise CommandFailed(Exit.NO, "no stored invocation is of that trace or conversation")
    say(f"erased the content of {count} invocation{'s' if count != 1 else ''}; verdicts and tallies stay as numbers")
    return Exit.DONE
