"""`rubricd run`: the daemon."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from monitor.commands.exits import Exit, not_done, wrong_input

LATER_ROLES = ("collect", "score", "export")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The configuration and the role."""
    parser.epilog = "example: rubricd run -c /etc/rubricd/rubricd.yaml"
    parser.add_argument(
        "-c",
        "--config",
        metavar="FILE",
        type=Path,
        help="default: RUBRICD_CONFIG, else the shipped default configuration",
    )
    parser.add_argument(
        "--role", default="all", help="`all`; `collect`, `score` and `export` come with a later version"
    )


def command(arguments: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT, then drain. A configuration fault is exit 2, a start that fails exit 3."""
    if arguments.role in LATER_ROLES:
        raise wrong_input(f"--role {arguments.role}: is promised for a later version; only `all` can be used yet")
    if arguments.role != "all":
        raise wrong_input(f"--role {arguments.role}: no such role; `all` is the only one")
    file = configuration_file(arguments.config)
    from monitor.app import StartFailed, WrongStore, run_daemon
    from monitor.settings.document import ConfigurationError

    try:
        asyncio.run(run_daemon(file, os.environ))
    except ConfigurationError as error:
        raise wrong_input(f"the configuration is wrong, nothing was started:\n{error}") from error
    except WrongStore as error:
        raise wrong_input(str(error)) from error
    except StartFailed as error:
        raise not_done(str(error)) from error
    return Exit.DONE


def configuration_file(named: Path | None) -> Path:
    """The file to read: named, else RUBRICD_CONFIG, else the shipped default. A ./rubricd.yaml that nobody named is pointed out."""
    from monitor.commands.printing import note
    from monitor.configuration import default_file

    if named is not None:
        return named
    if os.environ.get("RUBRICD_CONFIG"):
        return Path(os.environ["RUBRICD_CONFIG"])
    if Path("rubricd.yaml").exists():
        note(
            "rubricd: there is a ./rubricd.yaml, which is not read: name it with `-c rubricd.yaml`; running the shipped default"
        )
    return default_file()
