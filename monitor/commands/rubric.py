"""`rubricd rubric list | show | import | test | generate`: shipped and configured rubrics, and where new ones come from."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands import rubric_generate, rubric_import, rubric_test
from monitor.commands.exits import Exit, wrong_input
from monitor.commands.printing import json_lines, say, table

if TYPE_CHECKING:
    from monitor.rubrics.library import RubricLibrary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, with which rubric."""
    parser.epilog = "example: rubricd rubric show intent_resolution"
    actions = parser.add_subparsers(dest="action", metavar="list|show|import|test|generate", required=True)
    listing = _action(actions, "list", "all rubrics that can be named", _list, "rubricd rubric list")
    listing.add_argument("--json", action="store_true", help="JSON Lines")
    showing = _action(actions, "show", "one rubric in full", _show, "rubricd rubric show intent_resolution")
    showing.add_argument("name", metavar="NAME", help="the rubric's name")
    for made in (listing, showing):
        made.add_argument("-c", "--config", metavar="FILE", type=Path, help="a configuration, for its own rubrics")
    for name, module in (("import", rubric_import), ("test", rubric_test), ("generate", rubric_generate)):
        made = _action(actions, name, module.HELP, module.command, module.EXAMPLE)
        module.add_arguments(made)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    help_: str,
    run: Callable[[argparse.Namespace], int],
    example: str,
) -> argparse.ArgumentParser:
    made = actions.add_parser(name, help=help_, description=help_, epilog=f"example: {example}")
    made.set_defaults(run_action=run)
    return made


def command(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    done: int = arguments.run_action(arguments)
    return done


def library_of(file: Path | None) -> RubricLibrary:
    """The shipped rubrics, and those of a configuration where one is named."""
    from monitor.configuration import load_configuration
    from monitor.resources import config_folder
    from monitor.rubrics.library import RubricLibrary
    from monitor.settings.document import ConfigurationError

    try:
        if file is None:
            return RubricLibrary.shipped(config_folder() / "rubrics")
        return load_configuration(file, os.environ, elsewhere=True).library
    except ConfigurationError as error:
        raise wrong_input(str(error)) from error


def _list(arguments: argparse.Namespace) -> int:
    rows = [
        (
            rubric.name,
            rubric.kind,
            "judge" if rubric.judged else "none",
            rubric.threshold,
            " ".join((rubric.description or "").split()),
        )
        for rubric in library_of(arguments.config)
    ]
    columns = ("name", "kind", "needs", "threshold", "description")
    if arguments.json:
        json_lines(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        table("", columns, rows)
    return Exit.DONE


def _show(arguments: argparse.Namespace) -> int:
    import yaml

    from monitor.rubrics.library import UnknownRubric
    from monitor.rubrics.version import rubric_version

    try:
        rubric = library_of(arguments.config).get(arguments.name)
    except UnknownRubric as error:
        raise wrong_input(str(error)) from error
    if not rubric.judged:
        say(f"# version {rubric_version(rubric, None)}")
    written = rubric.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude={"folder", "content"})
    document = {"name": rubric.name, "kind": rubric.kind} | written
    say(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120).strip())
    return Exit.DONE
