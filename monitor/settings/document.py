"""YAML with the line of every key, so that a fault can be shown as `file:line: key: reason`."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from collectors.reasons import reason_of

Path = tuple[str | int, ...]

MOST_CHARACTERS = 4 * 1024 * 1024
MOST_NODES = 200_000
"""Nodes of a document with its aliases written out; more is an attack or a slip."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in a file: where, which key, and what would be right."""

    file: str
    line: int
    key: str
    reason: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.key}: {self.reason}" if self.key else f"{where}: {self.reason}"


class ConfigurationError(Exception):
    """Configuration or rubrics are wrong; `faults` has all that was found, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__("\n".join(str(fault) for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML document: its data, and the line of each key by path. Of a key given twice the data has the last value; `repeated` has the faults."""

    file: str
    data: Any
    lines: dict[Path, int] = field(default_factory=dict)
    line: int = 1
    repeated: tuple[tuple[Path, Fault], ...] = ()

    def fault(self, path: Sequence[str | int], reason: str) -> Fault:
        """A fault at the path, or at the nearest place above it that the file shows."""
        known = tuple(path)
        while known and known not in self.lines:
            known = known[:-1]
        return Fault(self.file, self.lines.get(known, self.line), dotted(path), reason)


def dotted(path: Sequence[str | int]) -> str:
    """`("monitors", "a", "windows", 0)` as `monitors.a.windows[0]`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def read_documents(text: str, file: str) -> list[Document]:
    """All YAML documents of a text. Raises ConfigurationError for text that is no YAML and for a key given twice."""
    documents = survey_documents(text, file)
    faults = [fault for document in documents for _, fault in document.repeated]
    if faults:
        raise ConfigurationError(faults)
    return documents


def survey_documents(text: str, file: str) -> list[Document]:
    """The same with keys given twice told beside what is right. Raises ConfigurationError for text that is no YAML."""
    if len(text) > MOST_CHARACTERS:
        raise ConfigurationError(
            [Fault(file, 0, "", f"is longer than {MOST_CHARACTERS} characters: no configuration is")]
        )
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.SafeLoader) if node is not None]
    except RecursionError as error:
        raise ConfigurationError([Fault(file, 0, "", "no YAML: nested too deeply")]) from error
    except yaml.MarkedYAMLError as error:
        raise ConfigurationError([_no_yaml(error, file)]) from error
    except yaml.YAMLError as error:
        raise ConfigurationError([Fault(file, 0, "", f"no YAML: {error}")]) from error
    return [_document(node, file) for node in nodes]


class _HoldsItself(Exception):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path


def _no_yaml(error: yaml.MarkedYAMLError, file: str) -> Fault:
    mark = error.problem_mark
    reason = " ".join(part for part in (error.context, error.problem) if part)
    return Fault(file, mark.line + 1 if mark else 0, "", f"no YAML: {reason}")


def _merged(node: yaml.MappingNode) -> list[yaml.Node]:
    """The maps that `<<` takes into a map."""
    merged: list[yaml.Node] = []
    for key, value in node.value:
        if key.tag == "tag:yaml.org,2002:merge":
            merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
    return merged


def _document(node: yaml.Node, file: str) -> Document:
    lines: dict[Path, int] = {}
    repeated: list[tuple[Path, Fault]] = []
    constructor = yaml.SafeLoader("")

    built_nodes = itertools.count()
    around: list[yaml.Node] = []

    def build(node: yaml.Node, path: Path) -> Any:
        if next(built_nodes) > MOST_NODES:
            raise ValueError("too large: aliases make more than it holds")
        if any(node is one for one in around):
            raise _HoldsItself(path)
        around.append(node)
        built = build_inside(node, path)
        around.pop()
        return built

    def build_inside(node: yaml.Node, path: Path) -> Any:
        lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for merge in _merged(node):
                if any(merge is one for one in around):
                    raise _HoldsItself((*path, "<<"))
            constructor.flatten_mapping(node)
            built: dict[Any, Any] = {}
            for key_node, value_node in node.value:
                key = constructor.construct_object(key_node, deep=True)
                if not isinstance(key, Hashable):
                    raise ValueError(f"line {key_node.start_mark.line + 1}: a list or map is no key")
                here = (*path, key if isinstance(key, (str, int)) else str(key))
                if key in built:
                    fault = Fault(file, key_node.start_mark.line + 1, dotted(here), "is given twice")
                    repeated.append((here, fault))
                lines[here] = key_node.start_mark.line + 1
                built[key] = build(value_node, here)
            return built
        if isinstance(node, yaml.SequenceNode):
            return [build(item, (*path, index)) for index, item in enumerate(node.value)]
        return constructor.construct_object(node, deep=True)

    try:
        data = build(node, ())
    except _HoldsItself as error:
        reason = "an alias holds itself: `*` names a map or list that it stands in"
        raise ConfigurationError([Document(file, None, lines).fault(error.path, reason)]) from error
    except yaml.MarkedYAMLError as error:
        raise ConfigurationError([_no_yaml(error, file)]) from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError([Fault(file, node.start_mark.line + 1, "", f"no YAML: {error}")]) from error
    return Document(file, data, lines, node.start_mark.line + 1, tuple(repeated))


def validation_faults(
    error: ValidationError, document: Document, model: type[BaseModel], prefix: Sequence[str | int] = ()
) -> list[Fault]:
    """A pydantic error as faults of the document; unknown keys come with the nearest known one."""
    reasons: dict[Path, list[str]] = {}
    for item in error.errors(include_url=False, include_input=False):
        path = _key(item["loc"])
        if item["type"] == "extra_forbidden":
            reason = unknown_key(str(path[-1]), known_keys(model, path[:-1]))
        else:
            reason = reason_of(item)
        reasons.setdefault(path, []).append(reason)
    faults = [
        document.fault((*prefix, *path), _either(found))
        for path, found in reasons.items()
        if not any(len(other) > len(path) and other[: len(path)] == path and _is_union(found) for other in reasons)
    ]
    return sorted(faults, key=lambda fault: (fault.line, fault.key))


def keys_of(error: ValidationError) -> list[Path]:
    """The places that a pydantic error is about, each once."""
    return list(dict.fromkeys(_key(item["loc"]) for item in error.errors(include_url=False, include_input=False)))


def _key(location: Path) -> Path:
    return tuple(part for part in location if not _names_a_type(part))


def _is_union(reasons: Sequence[str]) -> bool:
    """Whether the reasons tell only that a value is of none of a union's types."""
    return all(reason.startswith("should be a ") for reason in reasons)


def _either(reasons: Sequence[str]) -> str:
    """One reason; the branches of a union are joined: `should be a text or a list`."""
    if len(reasons) > 1 and _is_union(reasons):
        return " or ".join([reasons[0], *(one.removeprefix("should be ") for one in dict.fromkeys(reasons[1:]))])
    return reasons[0]


def _names_a_type(part: str | int) -> bool:
    """Whether a part of a location names a branch of a union (`str`, `list[str]`), not a key."""
    return isinstance(part, str) and (part in ("str", "int", "float", "bool") or "[" in part)


def meant_keys(error: ValidationError, model: type[BaseModel]) -> list[Path]:
    """The places of the known keys that unknown ones are taken for."""
    paths = [_key(item["loc"]) for item in error.errors(include_url=False) if item["type"] == "extra_forbidden"]
    return [(*path[:-1], key) for path in paths for key in _near(str(path[-1]), known_keys(model, path[:-1]))]


def _near(key: str, known: Sequence[str]) -> list[str]:
    return difflib.get_close_matches(key, known, n=1, cutoff=0.6)


def unknown_key(key: str, known: Sequence[str]) -> str:
    """The reason for an unknown key, with the nearest known key where one is near."""
    near = _near(key, known)
    if near:
        return f"is no key here; did you mean `{near[0]}`?"
    return f"is no key here; the keys are {', '.join(sorted(known))}" if known else "is no key here"


def known_keys(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The keys that a model takes at a path inside it; empty where they are free."""
    current: Any = model
    for part in path:
        current = _step(current, part)
    current = _unwrap(current)
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _step(annotation: Any, part: str | int) -> Any:
    current = _unwrap(annotation)
    if isinstance(current, type) and issubclass(current, BaseModel):
        return current.model_fields[str(part)].annotation if part in current.model_fields else None
    arguments = get_args(current)
    return arguments[-1] if arguments and arguments[-1] is not Ellipsis else arguments[0] if arguments else None


def _unwrap(annotation: Any) -> Any:
    """The model, dict or tuple inside an optional."""
    options = [a for a in get_args(annotation) if a is not type(None)]
    if type(None) in get_args(annotation) and len(options) == 1:
        return options[0]
    return annotation
