"""Recorded OTLP: what the Collector's file exporter writes, and what one saves by hand.

JSON (a request a line, one document, or several), protobuf (one request, or records with a 4-byte big-endian length in front), each
also gzipped. Which signal a request carries is told by its content.
"""

from __future__ import annotations

import gzip
import json
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collectors.otlp import schema
from collectors.otlp.items import TRACE_ID_BYTES, parse
from collectors.otlp.otlp_json import convert, read_json
from collectors.sink import MalformedRequest, Signal

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_KEYS = {"resourceSpans": Signal.TRACES, "resourceLogs": Signal.LOGS}
_SKIPPED_KEYS = ("resourceMetrics", "resourceProfiles")
_LENGTH = struct.Struct(">I")
_FIRST_FIELD = b"\x0a"
_LONGEST_LENGTH_BYTE = 8  # records are shorter than 128 MiB, so their length begins with a control character
_FIRST_BYTES = 64
_OF_NO_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""Bytes that JSON never has as they are, and protobuf has early: lengths and tags."""


class UnreadableFile(Exception):
    """A file that holds no OTLP; the message names the file and the line or record, and what would be right."""


def read_file(path: Path | str) -> Iterator[tuple[bytes, Signal]]:
    """The export requests of a file as protobuf bytes, in order, each with its signal; metrics are left out.

    Raises UnreadableFile for content that is none, and OSError for a file that cannot be opened.
    """
    yield from read_content(Path(path).read_bytes(), str(path))


def read_content(content: bytes, path: str) -> Iterator[tuple[bytes, Signal]]:
    """The same for the content of a file that messages call `path`."""
    data = _unpacked(content, path)
    try:
        if data[:1] == _FIRST_FIELD and _is_request(data):
            yield data, _signal_of(data)
        elif data and data[0] < _LONGEST_LENGTH_BYTE:
            yield from _records(data)
        else:
            yield from _documents(data)
    except MalformedRequest as error:
        raise UnreadableFile(f"{path}: {error}") from None
    except _At as error:
        raise UnreadableFile(f"{path}:{error.line}: {error}") from None


class _At(Exception):
    """A fault at a line."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


def _unpacked(data: bytes, path: str) -> bytes:
    if data.startswith(_ZSTD):
        raise UnreadableFile(f"{path}: is zstd data: unpack it first, gzip is understood")
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (EOFError, OSError, zlib.error):
        raise UnreadableFile(f"{path}: the gzip data are cut or damaged") from None


def _is_request(data: bytes) -> bool:
    """Whether this is protobuf; a JSON file may begin with the same byte, a line break."""
    try:
        parse(data, Signal.TRACES)
    except MalformedRequest:
        return False
    return True


def _signal_of(data: bytes) -> Signal:
    """Spans begin with a trace id of 16 bytes, where log records have a time."""
    for resource in parse(data, Signal.TRACES).resources:
        for scope in resource.scopes:
            for raw in scope.items:
                try:
                    is_span = len(schema.Span.FromString(raw).trace_id) == TRACE_ID_BYTES
                except schema.DecodeError:
                    is_span = False
                return Signal.TRACES if is_span else Signal.LOGS
    return Signal.TRACES


def _records(data: bytes) -> Iterator[tuple[bytes, Signal]]:
    """Records with their length in front."""
    at = number = 0
    while at < len(data):
        number += 1
        (length,) = _LENGTH.unpack_from(data, at) if at + _LENGTH.size <= len(data) else (len(data),)
        record = data[at + _LENGTH.size : at + _LENGTH.size + length]
        at += _LENGTH.size + length
        if len(record) < length:
            raise MalformedRequest(f"record {number} is cut")
        if record[:1] == b"{":
            yield from _requests(_json(record, 1), 1)
        elif _is_request(record):
            yield record, _signal_of(record)
        else:
            raise MalformedRequest(f"record {number} is no protobuf export request")


def _documents(data: bytes) -> Iterator[tuple[bytes, Signal]]:
    """JSON: line by line where the first line is a document, else document by document."""
    if _OF_NO_TEXT.search(data, 0, _FIRST_BYTES):
        raise MalformedRequest(
            "is neither OTLP JSON nor a whole protobuf export request: it is cut, damaged or something else"
        )
    lines = data.split(b"\n")
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return
    try:
        read_json(lines[first])
    except MalformedRequest:
        yield from _spread(data.decode("utf-8-sig", "surrogateescape"))
        return
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield from _requests(_json(line, number), number)


def _json(text: bytes, line: int) -> Any:
    try:
        return read_json(text)
    except MalformedRequest as error:
        raise _At(line, str(error)) from None


def _spread(text: str) -> Iterator[tuple[bytes, Signal]]:
    """JSON documents that take several lines each."""
    decoder = json.JSONDecoder()
    at, end = _next_document(text, 0), len(text)
    while at < end:
        line = text.count("\n", 0, at) + 1
        try:
            document, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            raise _At(error.lineno, f"column {error.colno}: no JSON: {error.msg}") from None
        except (RecursionError, ValueError):
            raise _At(line, "the JSON is nested too deep, or a number is too long") from None
        yield from _requests(document, line)
        at = _next_document(text, at)


def _next_document(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _requests(document: Any, line: int) -> Iterator[tuple[bytes, Signal]]:
    """The requests of one JSON document: an export request, or a list of such."""
    for request in document if isinstance(document, list) else [document]:
        if not isinstance(request, dict):
            raise _At(line, "should be an OTLP export request, a JSON object")
        found = [signal for key, signal in _KEYS.items() if key in request]
        if not found and request and not any(key in request for key in _SKIPPED_KEYS):
            raise _At(line, "has neither resourceSpans nor resourceLogs: is it an OTLP export request?")
        for signal in found:
            try:
                yield convert(request, signal).body, signal
            except MalformedRequest as error:
                raise _At(line, str(error)) from None
