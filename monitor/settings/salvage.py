"""What is right of a settings tree that has faults: later checks go on with it, so that every fault is shown at once. Pure."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from monitor.settings.document import Document, Fault, Path, dotted, keys_of, meant_keys, validation_faults
from monitor.settings.tree import Settings

ROUNDS = 10
"""What is left out may make a section wrong as a whole, which is left out in turn; a tree is less deep than this."""
UNNAMED = ""
"""Stands for the rubrics of a monitor that cannot be read. It is no rubric's name."""


@dataclass(slots=True)
class Salvage:
    """The tree without what is wrong. `faults` are those of the tree; `wrong` are the paths whose values are not what the file says."""

    settings: Settings
    faults: list[Fault] = field(default_factory=list)
    wrong: set[Path] = field(default_factory=set)


def salvaged(data: dict[str, Any], document: Document, unread: Collection[Path], own: Collection[str]) -> Salvage:
    """Validate the tree, and leave out what is wrong until the rest is right. `unread` are paths with faults that are told already; sections of `own`
    are checked by others and left as they are.
    """
    found = Salvage(Settings(), wrong=set(unread))
    left = data
    for number in range(ROUNDS):
        try:
            found.settings = Settings.model_validate(left)
            break
        except ValidationError as error:
            if number == 0:
                told = validation_faults(error, document, Settings)
                found.faults = [fault for fault in told if not _within(fault.key, unread)]
                found.wrong.update(path for path in meant_keys(error, Settings) if not _holds(data, path))
                left = copy.deepcopy(data)
                for path in unread:
                    if path[0] not in own:
                        found.wrong.update(_leave_out(left, path))
            for path in keys_of(error):
                found.wrong.update(_leave_out(left, path))
    else:
        found.wrong.add(())
    return found


def concerns(path: Path, wrong: Collection[Path]) -> bool:
    """Whether something wrong is at this place, above it or below it."""
    return any(one[: len(path)] == path[: len(one)] for one in wrong)


def follows(fault: Fault, document: Document, wrong: Collection[Path]) -> bool:
    """Whether a fault is about a value that is not what the file says."""
    return fault.file == document.file and _within(fault.key, wrong)


def _within(key: str, paths: Collection[Path]) -> bool:
    places = (dotted(path) for path in paths)
    return any(not place or key == place or key.startswith((f"{place}.", f"{place}[")) for place in places)


def _holds(data: Any, path: Path) -> bool:
    for part in path:
        if not isinstance(data, dict) or part not in data:
            return False
        data = data[part]
    return True


def _leave_out(data: dict[str, Any], path: Path) -> Iterator[Path]:
    """Take the value at the path, or what there is above it, out of the data; lists as a whole. Gives the paths that are wrong from then on."""
    if path[:1] == ("monitors",) and path[2:3] == ("rubrics",) and _rubrics_kept(data, path):
        if len(path) == 3:
            yield (*path, UNNAMED)
        return
    holder: dict[Any, Any] = data
    last: Path = ()
    value: Any = data
    for part in path:
        if not isinstance(value, dict) or part not in value:
            break
        holder, last, value = value, (*last, part), value[part]
    if last:
        del holder[last[-1]]
    else:
        data.clear()
    yield last


def _rubrics_kept(data: dict[str, Any], path: Path) -> bool:
    """The rubrics of a monitor are kept by name where they can be, so that their names are checked."""
    try:
        monitor = data["monitors"][path[1]]
        if not isinstance(monitor, dict):
            return False
        rubrics: Any = monitor.get("rubrics")
        if len(path) > 3:
            if len(path) == 4 and rubrics[path[3]] != {}:
                rubrics[path[3]] = {}
                return True
            return False
        if rubrics == {UNNAMED: {}}:
            return False
    except (KeyError, TypeError, IndexError):
        return False
    names = [name for name in rubrics if isinstance(name, str)] if isinstance(rubrics, list) else []
    monitor["rubrics"] = {name: {} for name in names} or {UNNAMED: {}}
    return True
