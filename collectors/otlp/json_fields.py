"""How each field of OTLP/JSON is read: hex ids, integer enums, 64-bit integers as numbers or texts, base64, and what has no range there.

The tables are read off opentelemetry-proto's descriptors, so that what the protocol adds comes along by itself.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.otlp import schema
from collectors.otlp.items import SPAN_ID_BYTES, TRACE_ID_BYTES

_WRONG_ID = b"\x00"
"""Stands for an id that is no hex of the right length: as bytes it has the wrong length, too."""

_ID_BYTES = {"trace_id": TRACE_ID_BYTES, "span_id": SPAN_ID_BYTES, "parent_span_id": SPAN_ID_BYTES}
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_URL_SAFE = str.maketrans("-_", "+/")


class Misfit(Exception):
    """A value of the wrong type or range; knows its place and what would be right, not the value."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.place = place

    def under(self, parent: str) -> Misfit:
        """The same seen from one level up."""
        self.place = parent + (f".{self.place}" if self.place and not self.place.startswith("[") else self.place)
        return self

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


@dataclass(frozen=True, slots=True)
class Field:
    """How a field is read from JSON: by `convert`, as a text (None), as a message, or as the bytes of a `nested` message."""

    name: str
    repeated: bool
    is_message: bool
    is_pair: bool
    nested: Any
    convert: Callable[[Any], Any] | None


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Misfit("should be true or false")
    return value


def _double(value: Any) -> float:
    """A number, or one of protobuf's texts NaN, Infinity, -Infinity."""
    try:
        if isinstance(value, (int, float, str)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise Misfit("should be a number")


def _base64(value: Any) -> bytes:
    """Standard or URL-safe base64, padded or not."""
    try:
        text = value.translate(_URL_SAFE).rstrip("=")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (AttributeError, TypeError, ValueError, binascii.Error):
        raise Misfit("should be base64 text") from None


def _hex_id(length: int) -> Callable[[Any], bytes]:
    def convert(value: Any) -> bytes:
        if not isinstance(value, str):
            raise Misfit(f"should be a string of {2 * length} hex digits")
        if not value:
            return b""
        try:
            raw = bytes.fromhex(value)
        except ValueError:
            return _WRONG_ID
        return raw if len(value) == 2 * length == 2 * len(raw) else _WRONG_ID

    return convert


def _integer(low: int, high: int, names: Mapping[str, int] | None = None) -> Callable[[Any], int]:
    """An integer of a range, as a number or as text; an enum's names are understood although OTLP has only its numbers."""

    def convert(value: Any) -> int:
        number = None
        if isinstance(value, str):
            number = (names or {}).get(value)
            if number is None and _INTEGER.fullmatch(value):
                number = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, float) and value.is_integer():
            number = int(value)
        if number is None or not low <= number <= high:
            raise Misfit(f"should be an integer from {low} to {high}")
        return number

    return convert


def _converter(field: Any) -> Callable[[Any], Any] | None:
    """How the values of a scalar field are read; None for texts."""
    if field.name in _ID_BYTES:
        return _hex_id(_ID_BYTES[field.name])
    signed, unsigned = (field.TYPE_INT32, field.TYPE_INT64), (field.TYPE_UINT32, field.TYPE_FIXED32)
    if field.type == field.TYPE_ENUM:
        return _integer(
            -(2**31), 2**31 - 1, {name: value.number for name, value in field.enum_type.values_by_name.items()}
        )
    if field.type in signed:
        bits = 31 if field.type == field.TYPE_INT32 else 63
        return _integer(-(2**bits), 2**bits - 1)
    if field.type in (*unsigned, field.TYPE_UINT64, field.TYPE_FIXED64):
        return _integer(0, 2 ** (32 if field.type in unsigned else 64) - 1)
    if field.name == "bytes_value":
        return _base64
    return {field.TYPE_BOOL: _boolean, field.TYPE_DOUBLE: _double}.get(field.type)


def _read_off(descriptor: Any) -> dict[str, Field]:
    nested = {"array_value": schema.ArrayValue, "kvlist_value": schema.KeyValueList}
    return {
        field.json_name: Field(
            name=field.name,
            repeated=field.is_repeated,
            is_message=field.message_type is not None,
            is_pair=field.message_type is not None and field.message_type.name == "KeyValue",
            nested=nested.get(field.name) if descriptor.name == "AnyValue" else None,
            convert=_converter(field),
        )
        for field in descriptor.fields
        if not field.name.endswith("_strindex")  # of profiles: not for us to read
    }


def _plans() -> dict[str, dict[str, Field]]:
    """The fields by JSON key of every message that a request can hold, by the message's full name."""
    plans: dict[str, dict[str, Field]] = {}
    pending = [kind.DESCRIPTOR for kind in (schema.Span, schema.LogRecord, schema.Resource, schema.Scope)]
    pending += [schema.ArrayValue.DESCRIPTOR, schema.KeyValueList.DESCRIPTOR]
    while pending:
        descriptor = pending.pop()
        if descriptor.full_name not in plans:
            plans[descriptor.full_name] = _read_off(descriptor)
            pending += [field.message_type for field in descriptor.fields if field.message_type is not None]
    return plans


_PLANS = _plans()


def fields_of(descriptor: Any) -> dict[str, Field]:
    """The fields by JSON key of a message that a request can hold."""
    return _PLANS[descriptor.full_name]
