"""`rubricd init [DIR]`: an annotated configuration and a rubric of each kind; never overwrites."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from monitor.commands.exits import Exit, wrong_input
from monitor.commands.printing import say
from monitor.resources import config_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder to write to."""
    parser.epilog = "example: rubricd init my-monitor"
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", type=Path, default=Path(), help="default: the working directory"
    )


def command(arguments: argparse.Namespace) -> int:
    """Write the files, or none of them when one is there already."""
    source = config_folder() / "init"
    shipped = (file for file in sorted(source.rglob("*.*")) if file.suffix in (".yaml", ".py"))
    files = {file: arguments.folder / file.relative_to(source) for file in shipped}
    there = [str(target) for target in files.values() if target.exists()]
    if there:
        raise wrong_input(f"{', '.join(there)}: exists already and is not overwritten; name another folder")
    try:
        for file, target in files.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
            say(f"wrote {target}")
    except OSError as error:
        raise wrong_input(f"{error.filename}: cannot be written: {error.strerror}") from error
    configuration = shlex.quote(str(arguments.folder / "rubricd.yaml"))
    say(f"next: rubricd check -c {configuration}   then: rubricd run -c {configuration}")
    return Exit.DONE
