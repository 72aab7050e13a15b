"""`rubricd rubric list | show`: the shipped and configured rubrics. `import`, `test` and `generate` come later."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.exits import Exit, wrong_input
from monitor.commands.printing import json_lines, say, table

if TYPE_CHECKING:
    from monitor.rubrics.library import RubricLibrary

LATER = ("import", "test", "generate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, with which rubric."""
    parser.epilog = "example: rubricd rubric show intent_resolution"
    parser.add_argument("action", metavar="list|show", help="`import`, `test` and `generate` come with a later version")
    parser.add_argument("name", metavar="NAME", nargs="?", help="for show: the rubric's name")
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="a configuration, for its own rubrics")
    parser.add_argument("--json", action="store_true", help="JSON Lines")


def command(arguments: argparse.Namespace) -> int:
    """List the rubrics, or show one in full with its version."""
    if arguments.action in LATER:
        raise wrong_input(
            f"`rubric {arguments.action}` is promised for a later version; this one has `list` and `show`"
        )
    library = library_of(arguments.config)
    if arguments.action == "list":
        _list(library, arguments.json)
    elif arguments.action == "show" and arguments.name:
        _show(library, arguments.name)
    else:
        raise wrong_input("write `rubricd rubric list` or `rubricd rubric show NAME`")
    return Exit.DONE


def library_of(file: Path | None) -> RubricLibrary:
    """The shipped rubrics, and those of a configuration where one is named."""
    from monitor.configuration import load_configuration
    from monitor.resources import config_folder
    from monitor.rubrics.library import RubricLibrary
    from monitor.settings.document import ConfigurationError

    try:
        if file is None:
            return RubricLibrary.shipped(config_folder() / "rubrics")
        return load_configuration(file, os.environ).library
    except ConfigurationError as error:
        raise wrong_input(str(error)) from error


def _list(library: RubricLibrary, as_json: bool) -> None:
    rows = [
        (
            rubric.name,
            rubric.kind,
            "judge" if rubric.judged else "none",
            rubric.threshold,
            " ".join((rubric.description or "").split()),
        )
        for rubric in library
    ]
    columns = ("name", "kind", "needs", "threshold", "description")
    if as_json:
        json_lines(dict(zip(columns, row, strict=True)) for row in rows)
    else:
        table("", columns, rows)


def _show(library: RubricLibrary, name: str) -> None:
    import yaml

    from monitor.rubrics.library import UnknownRubric
    from monitor.rubrics.version import rubric_version

    try:
        rubric = library.get(name)
    except UnknownRubric as error:
        raise wrong_input(str(error)) from error
    if not rubric.judged:
        say(f"# version {rubric_version(rubric, None)}")
    written = rubric.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    say(
        yaml.safe_dump(
            {"name": rubric.name, "kind": rubric.kind} | written, sort_keys=False, allow_unicode=True, width=120
        ).strip()
    )
