"""OTLP/JSON to protobuf.

OTLP's JSON is protobuf's JSON mapping with differences (OTLP specification, "JSON Protobuf Encoding"): ids are hex, enums are integers,
unknown keys are ignored. protobuf's own parser refuses a whole request for one lone surrogate or one id in base64; here one
bad span is one bad span.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from collectors.otlp import schema
from collectors.otlp.decode import MAX_DEPTH
from collectors.otlp.json_fields import Field, Misfit, fields_of
from collectors.sink import MalformedRequest, Signal

UNREADABLE = b"\x07"
"""Stands for a span or log record that cannot be told in protobuf: no message begins so, and `split` rejects it alone."""

_TOO_DEEP = "the JSON is nested too deep"
_SURROGATE = re.compile("[\ud800-\udfff]")
_KEYS = {
    Signal.TRACES: ("resourceSpans", "scopeSpans", "spans", schema.Span),
    Signal.LOGS: ("resourceLogs", "scopeLogs", "logRecords", schema.LogRecord),
}


@dataclass(frozen=True, slots=True)
class Converted:
    """A request as protobuf. `repaired` counts texts that were not valid Unicode and values nested too deep.

    `message` names the first item that could not be converted, and why, "" when all could; `split` will reject these.
    """

    body: bytes
    repaired: int
    message: str = ""


def from_json(body: bytes, signal: Signal) -> Converted:
    """An OTLP/JSON export request as protobuf bytes with the same items in the same order.

    Raises MalformedRequest, naming the place, for text that is no JSON and for a request, resource or scope of the wrong shape.
    """
    return convert(read_json(body), signal)


def read_json(body: bytes) -> Any:
    """The JSON value of a text; bytes that are no UTF-8 are carried along as lone surrogates. Raises MalformedRequest."""
    try:
        return json.loads(body.decode("utf-8-sig", "surrogateescape"))
    except json.JSONDecodeError as error:
        raise MalformedRequest(f"line {error.lineno} column {error.colno}: no JSON: {error.msg}") from None
    except RecursionError:
        raise MalformedRequest(_TOO_DEEP) from None
    except ValueError:  # an integer of thousands of digits
        raise MalformedRequest("no JSON: a number is too long") from None


def convert(document: Any, signal: Signal) -> Converted:
    """As `from_json`, of a JSON value that has been read."""
    resources_key, scopes_key, items_key, kind = _KEYS[signal]
    out, writer = schema.SplitRequest(), _Writer()
    try:
        for r, resource in enumerate(_list_at(document, resources_key, "")):
            target, place = out.resources.add(), f"{resources_key}[{r}]"
            scopes = _list_at(resource, scopes_key, place)
            writer.surroundings(target, resource, "resource", schema.Resource, place)
            for s, scope in enumerate(scopes):
                inner, here = target.scopes.add(), f"{place}.{scopes_key}[{s}]"
                items = _list_at(scope, items_key, here)
                writer.surroundings(inner, scope, "scope", schema.Scope, here)
                inner.items.extend(
                    [writer.item(kind, item, f"{here}.{items_key}[{n}]") for n, item in enumerate(items)]
                )
    except Misfit as misfit:
        raise MalformedRequest(str(misfit)) from None
    except RecursionError:
        raise MalformedRequest(_TOO_DEEP) from None
    return Converted(out.SerializeToString(), writer.repaired, writer.message)


def _list_at(parent: Any, key: str, place: str) -> list[Any]:
    """The list under a key, empty where it is left out. Raises Misfit naming what is no object or no list."""
    if not isinstance(parent, dict):
        raise Misfit("should be an object", place or "the request")
    found = parent.get(key)
    if found is None:
        return []
    if not isinstance(found, list):
        raise Misfit("should be a list", f"{place}.{key}" if place else key)
    return found


class _Writer:
    """Fills messages of `schema` from JSON values and counts what had to be repaired."""

    def __init__(self) -> None:
        self.repaired = 0
        self.message = ""

    def surroundings(self, target: Any, given: dict[str, Any], key: str, kind: Any, place: str) -> None:
        """The resource or scope that items stand under, and the URL of its schema; raises Misfit."""
        if given.get(key) is not None:
            try:
                getattr(target, key).append(self._written(kind, given[key]))
            except Misfit as misfit:
                raise misfit.under(f"{place}.{key}") from None
        url = given.get("schemaUrl")
        if isinstance(url, str):
            target.schema_url = self.text(url)

    def item(self, kind: Any, given: Any, place: str) -> bytes:
        """A span or log record as bytes; one that is wrong as bytes that are none."""
        repaired = self.repaired
        try:
            return self._written(kind, given)
        except Misfit as misfit:
            self.repaired = repaired
            self.message = self.message or str(misfit.under(place))
            return UNREADABLE

    def _written(self, kind: Any, given: Any) -> bytes:
        message = kind()
        self._fill(message, given)
        written: bytes = message.SerializeToString()
        return written

    def _fill(self, message: Any, given: Any, depth: int = 0) -> None:
        """Put what a JSON object says into a message; unknown keys are ignored and null is the default."""
        if not isinstance(given, dict):
            raise Misfit("should be an object")
        known = fields_of(message.DESCRIPTOR)
        for key, value in given.items():
            field = known.get(key)
            if field is None or value is None:
                continue
            try:
                self._put(message, field, value, depth)
            except Misfit as misfit:
                raise misfit.under(key) from None

    def _put(self, message: Any, field: Field, value: Any, depth: int) -> None:
        if not field.repeated:
            self._put_one(message, field, value, depth)
            return
        if not isinstance(value, list):
            raise Misfit("should be a list")
        into = getattr(message, field.name)
        for place, element in enumerate(value):
            try:
                if field.is_message:
                    self._fill_one(into.add(), field, element, depth)
                else:
                    into.append(self._scalar(field, element))
            except Misfit as misfit:
                raise misfit.under(f"[{place}]") from None

    def _put_one(self, message: Any, field: Field, value: Any, depth: int) -> None:
        if field.nested is not None:
            self._put_nested(message, field, value, depth + 1)
        elif field.is_message:
            inner = getattr(message, field.name)
            inner.SetInParent()
            self._fill_one(inner, field, value, depth)
        else:
            setattr(message, field.name, self._scalar(field, value))

    def _fill_one(self, message: Any, field: Field, value: Any, depth: int) -> None:
        """A message; attributes with a text, nearly all there is, take a short cut."""
        if not (field.is_pair and self._fill_text_pair(message, value)):
            self._fill(message, value, depth)

    def _fill_text_pair(self, message: Any, value: Any) -> bool:
        """Fill a KeyValue from {"key": text, "value": {"stringValue": text}}; False for anything else."""
        if type(value) is not dict or len(value) != 2:
            return False
        key, inner = value.get("key"), value.get("value")
        text = inner.get("stringValue") if type(inner) is dict and len(inner) == 1 else None
        if type(key) is not str or type(text) is not str:
            return False
        message.key = self.text(key)
        message.value.string_value = self.text(text)
        return True

    def _put_nested(self, message: Any, field: Field, value: Any, depth: int) -> None:
        """The inside of an array or map as bytes; nothing where it is nested too deep."""
        if depth > MAX_DEPTH:
            self.repaired += 1
            return
        inner = field.nested()
        self._fill(inner, value, depth)
        setattr(message, field.name, inner.SerializeToString())

    def _scalar(self, field: Field, value: Any) -> Any:
        return self.text(value) if field.convert is None else field.convert(value)

    def text(self, value: Any) -> bytes:
        """A string as UTF-8; halves of surrogate pairs become U+FFFD."""
        if not isinstance(value, str):
            raise Misfit("should be a string")
        try:
            return value.encode()
        except UnicodeEncodeError:
            self.repaired += 1
            return _SURROGATE.sub("\ufffd", value).encode()
