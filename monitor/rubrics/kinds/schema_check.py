"""JSON Schema (2020-12) checks that neither fetch anything nor run away: only local references, patterns matched in linear time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monitor.rubrics.kinds.regex_search import PatternError, compiled
from monitor.rubrics.kinds.schema_references import check_references

_MAX_MISTAKES = 3


def check_schema(schema: Mapping[str, Any]) -> None:
    """Raises ValueError saying where the schema is wrong."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    for keyword, value in _walk(schema):
        if keyword == "$ref" and isinstance(value, str) and not value.startswith("#"):
            raise ValueError("`$ref` can only point into the same schema (`#/…`)")
        if keyword == "patternProperties" or (keyword == "pattern" and isinstance(value, str)):
            for pattern in value if isinstance(value, Mapping) else [value]:
                _check_pattern(pattern)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"no JSON Schema at {error.json_path}: {error.message}") from error
    check_references(schema)


def _check_pattern(pattern: str) -> None:
    try:
        compiled(pattern)
    except PatternError as error:
        raise ValueError(f"a pattern that cannot be used: {error}") from error


def _walk(schema: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield str(key), value
            yield from _walk(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _walk(item)


def mistakes(schema: Mapping[str, Any], value: Any) -> list[str]:
    """What is wrong with the value, at most three mistakes as `place: what`; empty when it follows the schema."""
    from jsonschema import Draft202012Validator, validators
    from referencing import Registry

    extend: Any = validators.extend
    validator = extend(Draft202012Validator, {"pattern": _pattern})(schema, registry=Registry())
    try:
        found = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    except RecursionError:
        return ["$: nested too deeply to be checked"]
    return [f"{error.json_path}: {error.message}"[:300] for error in found[:_MAX_MISTAKES]]


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(instance, "string") and not compiled(pattern).found_in(instance):
        yield ValidationError(f"does not match the pattern {pattern!r}")
