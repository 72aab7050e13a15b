"""The command line: arguments and exit statuses only. Commands are imported when they run, so that each starts quickly."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from monitor.commands.exits import CommandFailed, Exit
from monitor.version import __version__

COMMANDS: dict[str, str] = {
    "run": "the daemon: receive spans, judge on a schedule, export pass rates",
    "demo": "see the main job in a minute, on recorded agent traffic",
    "init": "write an annotated configuration and a rubric of each kind",
    "check": "validate configuration and rubrics, and say what a day can cost",
    "status": "what a running daemon does: collectors, monitors, pass rates, spend",
    "explain": "why a trace was or was not judged",
    "reconstruct": "recorded OTLP files to invocations",
    "score": "score recorded OTLP or invocations offline",
    "replay": "send recorded OTLP to any OTLP endpoint",
    "rubric": "list, show, import, test and draft rubrics",
    "forget": "erase the content of a trace, or of the conversations of an id",
    "schema": "JSON Schema of configuration and rubric files",
    "backfill": "score stored history",
    "labels": "draw judged invocations for people to label, import their labels, report on the judge",
    "rules": "recording and alerting rules from the monitors",
}
LATER: frozenset[str] = frozenset()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status (contract section 1)."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(argv)
    except CommandFailed as failure:
        print(f"rubricd: {failure}", file=sys.stderr)  # noqa: T201
        return int(failure.status)
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            sys.stderr.close()
            return int(Exit.DONE)
        print(f"rubricd: {error.filename or 'the output'}: {error.strerror}", file=sys.stderr)  # noqa: T201
        return int(Exit.NOT_DONE)
    except KeyboardInterrupt:
        return 130


def _run(argv: list[str]) -> int:
    if argv and argv[0] in LATER:
        raise CommandFailed(
            Exit.WRONG_INPUT, f"`{argv[0]}` is promised for a later version of rubricd; this one does not have it"
        )
    parser = argparse.ArgumentParser(
        prog="rubricd",
        description="Continuous monitor for production LLM agents: OTLP spans in, rubric pass rates out.",
        epilog="example: rubricd demo",
    )
    parser.add_argument("--version", action="version", version=f"rubricd {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    named = argv[0] if argv and argv[0] in COMMANDS else None
    for name, text in COMMANDS.items():
        sub = commands.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name == named:
            command = importlib.import_module(f"monitor.commands.{name}")
            command.add_arguments(sub)
            sub.set_defaults(command_function=command.command)
    parsed = parser.parse_args(argv)
    return int(parsed.command_function(parsed))


if __name__ == "__main__":
    sys.exit(main())
