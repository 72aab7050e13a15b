from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.otlp.file import UnreadableFile, read_file
from collectors.otlp.request import decode
from collectors.sink import Signal
from tests.collectors.otlp.build import logs, record, span, traces

TRACE = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331"}
SPANS = {"resourceSpans": [{"scopeSpans": [{"spans": [TRACE]}]}]}
LOGS = {"resourceLogs": [{"scopeLogs": [{"logRecords": [TRACE]}]}]}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def write(content: bytes) -> Path:
        path = tmp_path / "recorded"
        path.write_bytes(content)
        return path

    return write


def signals(path: Path) -> list[tuple[Signal, int]]:
    """The signal and number of decoded items of each request."""
    found = []
    for body, signal in read_file(path):
        decoded = decode(body, signal)
        found.append((signal, len(decoded.spans) + len(decoded.logs)))
    return found


BOTH = [(Signal.TRACES, 1), (Signal.LOGS, 1)]
PRETTY = json.dumps(SPANS, indent=1).encode() + b"\n\n" + json.dumps(LOGS, indent=2).encode() + b"\n"
PRETTY_LINES = PRETTY.count(b"\n")
LINES = json.dumps(SPANS).encode() + b"\n\n" + json.dumps(LOGS).encode()


@pytest.mark.parametrize("packed", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(
    "content",
    [
        LINES,
        b"\n" + LINES.replace(b"\n", b"\r\n") + b"\n",
        b"\xef\xbb\xbf" + LINES,
        PRETTY,
        json.dumps([SPANS, LOGS], indent=1).encode(),
        json.dumps(SPANS | LOGS).encode(),
    ],
    ids=["lines", "blank lines and CRLF", "byte order mark", "pretty", "list", "both in one"],
)
def test_json_files_of_any_layout_are_read(
    write: Callable[[bytes], Path], content: bytes, packed: Callable[[bytes], bytes]
) -> None:
    """One request a line, pretty-printed documents, a list: each gives its requests in order, gzipped or not."""
    assert signals(write(packed(content))) == BOTH


def test_protobuf_files_are_read(write: Callable[[bytes], Path]) -> None:
    """A single request is told by its content, also where its length looks like JSON."""
    assert signals(write(traces(span()))) == [(Signal.TRACES, 1)]
    assert signals(write(logs(record()))) == [(Signal.LOGS, 1)]
    assert signals(write(gzip.compress(logs(record(time_unix_nano=0))))) == [(Signal.LOGS, 1)]
    brace = next(body for n in range(200) if (body := traces(span(name="x" * n)))[:2] == b"\n{")
    assert signals(write(brace)) == [(Signal.TRACES, 1)]


def test_length_prefixed_files_are_read(write: Callable[[bytes], Path]) -> None:
    """Records of the Collector's file exporter: a big-endian length of 4 bytes and a request."""
    bodies = [traces(span(), span()), logs(record()), json.dumps(SPANS).encode()]
    content = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    assert signals(write(content)) == [(Signal.TRACES, 2), (Signal.LOGS, 1), (Signal.TRACES, 1)]


def test_metrics_are_left_out(write: Callable[[bytes], Path]) -> None:
    """A file of all signals gives its spans and log records."""
    assert signals(write(b'{"resourceMetrics":[]}\n' + LINES + b"\n{}")) == BOTH


def test_an_empty_file_has_no_requests(write: Callable[[bytes], Path]) -> None:
    """Nothing recorded is nothing wrong."""
    assert signals(write(b"")) == []
    assert signals(write(b" \n\n")) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (LINES + b"\n{broken", ":4: line 1 column 2: no JSON"),
        (LINES + b"\n[7]", ":4: should be an OTLP export request"),
        (LINES + b'\n{"spans": []}', ":4: has neither resourceSpans nor resourceLogs"),
        (LINES + b'\n{"resourceSpans": 1}', ":4: resourceSpans: should be a list"),
        (PRETTY + b'{"a":\n\n oops}', f":{PRETTY_LINES + 3}: column 2: no JSON"),
        (PRETTY + b"\n7", f":{PRETTY_LINES + 2}: should be an OTLP export request"),
        (b"hello", ":1: column 1: no JSON"),
        (struct.pack(">I", 50) + b"short", ": record 1 is cut"),
        (struct.pack(">I", 1) + b"\xff", ": record 1 is no protobuf"),
        (b"\0\0", ": record 1 is cut"),
        (gzip.compress(LINES)[:-9], ": the gzip data are cut or damaged"),
        (b"\x28\xb5\x2f\xfdxx", ": is zstd data"),
        (b'{"a":' * 100_000, "nested too deep"),
    ],
)
def test_what_cannot_be_read_is_named_by_file_and_line(
    write: Callable[[bytes], Path], content: bytes, message: str
) -> None:
    """The message names the file, the line or record, and never what stands there."""
    path = write(content)
    with pytest.raises(UnreadableFile) as raised:
        list(read_file(path))
    assert str(raised.value).startswith(str(path))
    assert message in str(raised.value)
    assert "oops" not in str(raised.value)


def test_a_cut_protobuf_request_is_not_taken_for_json(write: Callable[[bytes], Path]) -> None:
    """Wherever a request is cut, also where its length looks like JSON, the message speaks of both formats and of no line or column."""
    brace = next(body for n in range(200) if (body := traces(span(name="x" * n)))[:2] == b"\n{")
    for body in (brace, traces(span(), span()), logs(record())):
        for cut in range(4, len(body)):
            path = write(body[:cut])
            with pytest.raises(UnreadableFile) as raised:
                list(read_file(path))
            expected = "is neither OTLP JSON nor a whole protobuf export request: it is cut, damaged or something else"
            assert str(raised.value) == f"{path}: {expected}"


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    """Opening is the operating system's to refuse."""
    with pytest.raises(FileNotFoundError):
        list(read_file(tmp_path / "missing"))


def test_every_recorded_file_is_read(shared: Path) -> None:
    """All recorded traces and logs, and the public cases, are read; each file has the signal its name says."""
    count: dict[str, int] = {}
    for path in [*(shared / "traces").glob("*/*.jsonl"), *(shared / "cases/public-reports").glob("*.otlp.*")]:
        expected = Signal.LOGS if path.name.endswith(".logs.jsonl") else Signal.TRACES
        found: list[Any] = [signal for _, signal in read_file(path)]
        assert found
        assert set(found) == {expected}
        count[expected] = count.get(expected, 0) + 1
    assert count[Signal.TRACES] > 300
    assert count[Signal.LOGS] > 50
