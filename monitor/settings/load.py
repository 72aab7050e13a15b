"""Reading the configuration file: YAML, `${env:…}`, secrets, and the tree; every fault with file, line, key and what would be right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from monitor.settings.document import ConfigurationError, Document, Fault, survey_documents
from monitor.settings.salvage import concerns, follows, salvaged
from monitor.settings.section import FromEnvironment
from monitor.settings.tree import Settings

_REFERENCE = re.compile(r"\$\$|\$\{([^}]*)\}|\$\{")
_ENVIRONMENT = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_SECRET_PATHS = (
    ("judges", "*", "api_key"),
    ("exporters", "otlp", "headers", "*"),
    ("collectors", "*", "headers", "*"),
    ("collectors", "*", "auth", "bearer_token"),
    ("collectors", "*", "auth", "basic", "password"),
)
_PLAIN_HEADERS = frozenset({"x-scope-orgid", "x-tenant", "accept", "user-agent"})
"""Headers of collectors that are no secrets: names of tenants."""
_PARTS_OF_THEIR_OWN = ("collectors", "rubrics")
"""Sections that others validate, by rules of their own."""
KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The tree, and the document that it came from (for faults found later, by whoever knows rubrics and collectors).

    With `faults` the tree is only what is right of the file, for further checks; `wrong` are the places where it is not what the file says.
    """

    settings: Settings
    document: Document
    folder: Path
    faults: tuple[Fault, ...] = ()
    wrong: frozenset[KeyPath] = field(default_factory=frozenset)

    def sound(self, *path: str | int) -> bool:
        """Whether all at this place of the tree is what the file says."""
        return not concerns(path, self.wrong | {place for place, _ in self.document.repeated})

    def follows(self, fault: Fault) -> bool:
        """Whether a fault found later is about a value that is not what the file says."""
        return follows(fault, self.document, self.wrong)


def load_settings(file: Path, environment: Mapping[str, str]) -> LoadedSettings:
    """Read and validate one configuration file. Raises ConfigurationError with all faults found."""
    return _without_faults(survey_settings(file, environment))


def parse_settings(text: str, file: str, environment: Mapping[str, str]) -> LoadedSettings:
    """The same for a text that came from `file`."""
    return _without_faults(survey_text(text, file, environment))


def _without_faults(loaded: LoadedSettings) -> LoadedSettings:
    if loaded.faults:
        raise ConfigurationError(loaded.faults)
    return loaded


def survey_settings(file: Path, environment: Mapping[str, str]) -> LoadedSettings:
    """The same with faults told beside what is right. Raises ConfigurationError for a file that holds no map."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise ConfigurationError([Fault(str(file), 0, "", f"cannot be read: {reason}")]) from error
    return survey_text(text, str(file), environment)


def survey_text(text: str, file: str, environment: Mapping[str, str]) -> LoadedSettings:
    """The same for a text that came from `file`."""
    documents = survey_documents(text, file)
    if len(documents) > 1:
        raise ConfigurationError([Fault(file, documents[1].line, "", "a configuration is one YAML document")])
    document = documents[0] if documents else Document(file, {})
    if document.data is None:
        document = replace(document, data={})
    if not isinstance(document.data, dict):
        raise ConfigurationError([Fault(file, document.line, "", "a configuration is a map of sections")])
    unread: list[tuple[KeyPath, Fault]] = []
    data = _expand(document.data, (), document, environment, unread)
    found = salvaged(data, document, {path for path, _ in unread}, _PARTS_OF_THEIR_OWN)
    told = [*document.repeated, *unread]
    faults = _ordered([*_literal_secrets(document), *(fault for _, fault in told), *found.faults])
    folder = Path(file).parent
    return LoadedSettings(
        _resolve_paths(found.settings, folder),
        replace(document, data=data),
        folder,
        tuple(faults),
        frozenset(found.wrong),
    )


def _ordered(faults: list[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: (fault.line, fault.key))


def _expand(
    value: Any, path: KeyPath, document: Document, environment: Mapping[str, str], unread: list[tuple[KeyPath, Fault]]
) -> Any:
    """`${env:VAR}`, `${env:VAR:-default}` and `$$` in every text of the tree; `unread` is filled with the faults and their places."""
    if isinstance(value, dict):
        return {key: _expand(item, (*path, key), document, environment, unread) for key, item in value.items()}
    if isinstance(value, list):
        return [_expand(item, (*path, index), document, environment, unread) for index, item in enumerate(value)]
    if not isinstance(value, str) or "$" not in value:
        return value

    def substitute(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if match[1] is None:
            unread.append(
                (
                    path,
                    document.fault(path, "has a reference without its end: write ${env:NAME}, or $$ for a dollar sign"),
                )
            )
            return ""
        reference = _ENVIRONMENT.fullmatch(match[1])
        if reference is None:
            unread.append(
                (
                    path,
                    document.fault(path, f"{match[0]} is no reference: write ${{env:NAME}}, or $$ for a dollar sign"),
                )
            )
            return ""
        name, default = reference[1], reference[2]
        if name not in environment and default is None:
            unread.append(
                (
                    path,
                    document.fault(path, f"the environment has no {name}: set it, or write ${{env:{name}:-default}}"),
                )
            )
        return environment.get(name, default or "")

    expanded = _REFERENCE.sub(substitute, value)
    return expanded if path[0] in _PARTS_OF_THEIR_OWN else FromEnvironment(expanded)


def _literal_secrets(document: Document) -> Iterator[Fault]:
    for pattern in _SECRET_PATHS:
        for path, value in _at(document.data, pattern, ()):
            if path[-2] == "headers" and path[0] == "collectors" and str(path[-1]).lower() in _PLAIN_HEADERS:
                continue
            if isinstance(value, str) and not re.fullmatch(r"\s*(Bearer )?\$\{env:[A-Za-z_][A-Za-z0-9_]*\}\s*", value):
                alternative = "api_key_file" if path[-1] == "api_key" else "an environment variable"
                yield document.fault(path, f"is a literal secret: write ${{env:NAME}} instead, or use {alternative}")


def _at(data: Any, pattern: tuple[str, ...], path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    if not pattern:
        yield path, data
    elif isinstance(data, dict):
        for key, value in data.items():
            if pattern[0] in ("*", key):
                yield from _at(value, pattern[1:], (*path, key))


def _resolve_paths(settings: Settings, folder: Path) -> Settings:
    """Relative paths count from the file that names them; `storage.path` from the working directory."""

    def absolute(path: str) -> str:
        return str(folder / Path(path).expanduser())

    judges = {
        name: judge.model_copy(update={"api_key_file": absolute(judge.api_key_file)}) if judge.api_key_file else judge
        for name, judge in settings.judges.items()
    }
    server = settings.server
    if server.auth:
        token_file = absolute(server.auth.bearer_token_file)
        server = server.model_copy(update={"auth": server.auth.model_copy(update={"bearer_token_file": token_file})})
    if server.tls:
        files = {key: absolute(value) for key, value in server.tls.model_dump().items() if value}
        server = server.model_copy(update={"tls": server.tls.model_copy(update=files)})
    collectors = {name: _absolute_files(raw, folder) for name, raw in settings.collectors.items()}
    return settings.model_copy(update={"judges": judges, "server": server, "collectors": collectors})


def _absolute_files(raw: Any, folder: Path) -> Any:
    """Keys that end in `_file` hold paths, wherever they stand in a collector's section."""
    if not isinstance(raw, dict):
        return raw
    return {
        key: str(folder / Path(value).expanduser())
        if isinstance(value, str) and str(key).endswith("_file")
        else _absolute_files(value, folder)
        for key, value in raw.items()
    }
