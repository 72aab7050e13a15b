"""Tool definitions in normal form, from every shape in which models are offered tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from monitor.assembly.values import decode, plain, text_of, withheld
from monitor.model.invocation import ToolDefinition

_SCHEMA_KEYS = (
    "parameters",
    "inputSchema",
    "input_schema",
    "parameters_json_schema",
    "parametersJsonSchema",
    "args_schema",
)
_LISTS = ("function_declarations", "functionDeclarations", "function_tools", "tools", "functions")

_REMEMBERED = 32_768
"""Texts up to this many characters are read once: an agent sends the same definitions with each model call."""


def definitions_of(value: Any) -> tuple[ToolDefinition, ...]:
    """The tool definitions in a content value: a list of OpenAI, Anthropic, Bedrock, Gemini, MCP or plain definitions, or of names."""
    if isinstance(value, str) and len(value) <= _REMEMBERED:
        return _told(value)
    return _definitions(value, 0)


@lru_cache(maxsize=64)
def _told(text: str) -> tuple[ToolDefinition, ...]:
    return _definitions(text, 0)


def _definitions(value: Any, nesting: int) -> tuple[ToolDefinition, ...]:
    value = decode(value)
    if isinstance(value, dict) and nesting < 4:
        for key in _LISTS:
            if isinstance(value.get(key), list | tuple):
                return _definitions(value[key], nesting + 1)
        one = definition_of(value)
        return (one,) if one else ()
    if not isinstance(value, list | tuple) or nesting >= 4:
        return ()
    found: list[ToolDefinition] = []
    for item in value:
        item = decode(item)
        nested = (
            next((item[key] for key in _LISTS if isinstance(item.get(key), list)), None)
            if isinstance(item, dict)
            else None
        )
        one = definition_of(item) if nested is None else None
        found += _definitions(nested, nesting + 1) if nested is not None else [one] if one else []
    return united(found)


def definition_of(value: Any) -> ToolDefinition | None:
    """One tool definition, None where there is no name."""
    if isinstance(value, str):
        return ToolDefinition(value) if value.strip() and withheld(value) is None and len(value) < 200 else None
    if not isinstance(value, dict):
        return None
    for wrapper in ("function", "toolSpec", "tool", "kwargs"):
        inner = decode(value.get(wrapper))
        if isinstance(inner, dict) and text_of(inner.get("name")):
            value = inner
            break
    name = text_of(value.get("name"))
    if name is None or withheld(name) is not None:
        kind = text_of(value.get("type"))
        return (
            ToolDefinition(kind)
            if kind and kind not in ("function", "tool", "object") and "name" not in value
            else None
        )
    description = text_of(value.get("description"))
    return ToolDefinition(name, description if withheld(description) is None else None, schema_of(value))


def schema_of(value: Mapping[str, Any]) -> Any:
    """The JSON Schema of a definition's parameters, None where it has none."""
    for key in _SCHEMA_KEYS:
        schema = decode(value[key]) if key in value else None
        if isinstance(schema, dict):
            inner = schema.get("json", schema.get("jsonSchema", schema))
            return plain(inner if isinstance(inner, dict) else schema)
    return None


def united(definitions: Iterable[ToolDefinition]) -> tuple[ToolDefinition, ...]:
    """Each name once, in order of first mention, with the richest description and parameters."""
    found: dict[str, ToolDefinition] = {}
    for one in definitions:
        known = found.get(one.name)
        if known is None:
            found[one.name] = one
        elif known.parameters is None or known.description is None:
            description = known.description if known.description is not None else one.description
            parameters = known.parameters if known.parameters is not None else one.parameters
            found[one.name] = ToolDefinition(one.name, description, parameters)
    return tuple(found.values())
