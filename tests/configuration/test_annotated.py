"""The annotated configuration of `rubricd init` shows every key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from monitor.resources import config_folder
from monitor.settings.document import ConfigurationError
from monitor.settings.load import parse_settings
from monitor.settings.tree import Settings

Key = tuple[str, str]


def uncommented(text: str) -> str:
    """The file with every key that is commented out put in force: a section of its own loses `# `, a key of a section its `#`."""
    lines, section = [], False
    for line in text.splitlines():
        key = re.match(r"#( +)([a-z_]+):", line)
        if key is None:
            section = section and line.startswith("#")
            lines.append(line)
            continue
        section = section or (len(key[1]) == 1 and key[2] in Settings.model_fields)
        lines.append(line[2:] if section else f" {line[1:]}")
    return "\n".join(lines)


def sections(annotation: Any) -> Iterator[type[BaseModel]]:
    """The sections in a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from sections(argument)


def known(model: type[BaseModel]) -> Iterator[Key]:
    """Every key of a section and of those below it, with the section's name."""
    for name, field in model.model_fields.items():
        yield model.__name__, name
        for inner in sections(field.annotation):
            yield from known(inner)


def shown(value: Any) -> Iterator[Key]:
    """The keys that a tree was given."""
    if isinstance(value, BaseModel):
        for name in value.model_fields_set:
            yield type(value).__name__, name
            yield from shown(getattr(value, name))
    elif isinstance(value, dict):
        for one in value.values():
            yield from shown(one)


def test_every_key_is_in_the_annotated_file() -> None:
    """With all that is commented out put in force the file is right, and has each key of the tree at its place."""
    text = uncommented((config_folder() / "init" / "rubricd.yaml").read_text(encoding="utf-8"))
    environment = {"OPENAI_API_KEY": "k", "OTLP_TOKEN": "t"}
    assert set(known(Settings)) - set(shown(parse_settings(text, "r.yaml", environment).settings)) == set()


def test_least_values_are_documented() -> None:
    """What would be refused as too small is said where people set it: in the annotated file, and in the schema that editors show."""
    text = (config_folder() / "init" / "rubricd.yaml").read_text(encoding="utf-8")
    (spans,) = (line for line in text.splitlines() if "max_open_spans:" in line)
    (journal,) = (line for line in text.splitlines() if "journal: {max_size:" in line)
    for line, least, below, right in (
        (spans, "at least 1000", "assembly: {max_open_spans: 999}", "assembly: {max_open_spans: 1000}"),
        (journal, "at least 1MiB", "storage: {journal: {max_size: 1023KiB}}", "storage: {journal: {max_size: 1MiB}}"),
    ):
        assert least in line
        with pytest.raises(ConfigurationError):
            parse_settings(below, "r.yaml", {})
        parse_settings(right, "r.yaml", {})
    parts = Settings.model_json_schema()["$defs"]
    assert parts["Journal"]["properties"]["max_size"]["description"] == "At least 1MiB."
    assert parts["Assembly"]["properties"]["max_open_spans"]["minimum"] == 1000
