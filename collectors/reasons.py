"""What is wrong with a value of the configuration, in the words of people who write YAML: what would be right, never a library's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RIGHT: Mapping[str, str] = {
    "missing": "is missing",
    "bool_parsing": "should be true or false",
    "bool_type": "should be true or false",
    "string_pattern_mismatch": "should match {pattern}",
    "enum": "should be {expected}",
    "literal_error": "should be {expected}",
    "finite_number": "should be a finite number",
    "greater_than": "should be greater than {gt}",
    "greater_than_equal": "should be greater than or equal to {ge}",
    "int_from_float": "should be a whole number",
    "int_parsing": "should be a whole number",
    "int_parsing_size": "should be a smaller number",
    "int_type": "should be a whole number",
    "float_parsing": "should be a number",
    "float_type": "should be a number",
    "invalid_key": "should have texts as its keys",
    "less_than": "should be less than {lt}",
    "less_than_equal": "should be less than or equal to {le}",
    "none_required": "should be empty",
    "string_too_short": "should have at least {min_length} characters",
    "string_too_long": "should have at most {max_length} characters",
    "string_type": "should be a text",
    "string_sub_type": "should be a text",
    "string_unicode": "should be a text",
    "too_short": "should have at least {min_length} entries",
    "too_long": "should have at most {max_length} entries",
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type"), "should be a map"),
    **dict.fromkeys(("dataclass_type", "dataclass_exact_type"), "should be a map"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "frozen_set_type", "iterable_type"), "should be a list"),
}
"""By pydantic's type of an error; the members of its `ctx` fill the braces."""


def reason_of(error: Mapping[str, Any]) -> str:
    """What would be right, from an entry of pydantic's `ValidationError.errors()`. Our own validators say it themselves."""
    kind, context = error["type"], error.get("ctx", {})
    if kind == "value_error":
        return str(error["msg"]).removeprefix("Value error, ").strip()
    template = _RIGHT.get(kind)
    if template is None:
        return "has a value that cannot be used here"
    text = template.format_map(context)
    if context.get("min_length", context.get("max_length")) == 1:
        text = text.replace("entries", "entry").replace("characters", "character")
    if kind == "literal_error" and text.endswith((" True", " False")):
        text = text.replace("True", "true").replace("False", "false")
    return text
