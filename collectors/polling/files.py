"""Following files of OTLP. A file is known by its first record, so that it may be renamed, compressed or copied and is still the same.

The cursor holds for each file how far it was read, as an offset in the decompressed data behind a whole record.
"""

from __future__ import annotations

import asyncio
import glob
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

from collectors.otlp.request import split
from collectors.polling.building import Surroundings
from collectors.polling.delivery import Parcel
from collectors.polling.feed import FeedPage
from collectors.polling.records import Damaged, Record, open_plain, records
from collectors.sink import Encoding, MalformedRequest, RejectReason, Signal

LOG = logging.getLogger(__name__)

PAGE_BYTES, PAGE_RECORDS = 8 * 1024**2, 500
_FORGET_SECONDS = 7 * 86400.0
_NOTE_SECONDS = 3600.0
_REFUSED_SECONDS = 3600.0
"""For so long after a file's last record that was no OTLP the collector's problem names it."""

_JSON_KEYS = ((b'"resourceSpans"', Signal.TRACES), (b'"resourceLogs"', Signal.LOGS))
_OTHER_KEYS = (b'"resourceMetrics"', b'"resourceProfiles"')

_BOM = b"\xef\xbb\xbf"

_Version = tuple[int, int, int, int]
"""Device, inode, size and time of change: the same again, nothing was written."""


@dataclass(slots=True)
class _Opened:
    """A file being read, kept between pages: going on in compressed data is cheap, going back to a place is not."""

    key: str
    offset: int
    stream: IO[bytes]
    left: Iterator[Record]


@dataclass(slots=True)
class _Page:
    """What one reading brings together."""

    positions: dict[str, dict[str, Any]]
    parcels: list[Parcel] = field(default_factory=list)
    size: int = 0
    more: bool = False
    lag_seconds: float = 0.0
    finished: set[_Version] = field(default_factory=set)

    @property
    def full(self) -> bool:
        return self.size >= PAGE_BYTES or len(self.parcels) >= PAGE_RECORDS


@dataclass(slots=True)
class _Refused:
    """A file's records that were no OTLP: how many, the offset behind the first, and when the last was read."""

    first: int
    at: float
    count: int = 0


class FileFeed:
    """See Feed."""

    def __init__(self, name: str, options: Mapping[str, Any], given: Surroundings) -> None:
        self._name, self._clock, self._meter = name, given.clock, given.meter
        self._include, self._exclude = options["include"], options["exclude"]
        self._from_end = options["start_at"] == "end"
        self._longest: int = options["max_record_bytes"]
        self._finished: set[_Version] = set()
        self._opened: _Opened | None = None
        self._faults: dict[str, str] = {}
        self._refused: dict[str, _Refused] = {}

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The globs."""
        return tuple(self._include)

    @property
    def problem(self) -> str | None:
        """The first file that cannot be read, or that there is none, or that held records which are no OTLP within the last hour."""
        refused = (
            f"{file}: {one.count} records are no OTLP and were left out, the first before byte {one.first}"
            for file, one in self._refused.items()
        )
        return next(chain(self._faults.values(), refused), None)

    async def open(self) -> None:
        """Nothing to do: files are looked for at each poll."""

    async def close(self) -> None:
        """Close the file under way."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.stream.close()

    async def read(self, cursor: Any) -> FeedPage:
        """The next records of the files, those written longest ago first."""
        return await asyncio.to_thread(self._read, cursor)

    # -- in a thread --------------------------------------------------------------------------------------------------
    def _read(self, cursor: Any) -> FeedPage:
        now = self._clock.now()
        saved = cursor.get("files") if isinstance(cursor, dict) else None
        page = _Page(dict(saved) if isinstance(saved, dict) else {})
        files = self._files()
        self._faults = {} if files else {"": f"no file matches {', '.join(self._include)}"}
        for path, version in files:
            if version in self._finished:
                continue
            try:
                self._read_file(path, version, page, now, first_start=cursor is None)
            except (OSError, Damaged) as error:
                self._fail(path, error)
            if page.full:
                page.more = True
                page.lag_seconds = max(0.0, now - version[3] / 1e9)
                break
        present = {version for _, version in files}
        kept = {str(path) for path, _ in files}
        for file, one in list(self._refused.items()):
            if file not in kept or now - one.at >= _REFUSED_SECONDS:
                del self._refused[file]
        positions = {key: one for key, one in page.positions.items() if now - one["at"] < _FORGET_SECONDS}

        def taken() -> None:
            self._finished = (self._finished | page.finished) & present

        return FeedPage(page.parcels, {"files": positions}, page.more, page.lag_seconds, taken, self._note_refused)

    def _files(self) -> list[tuple[Path, _Version]]:
        left_out = {path for one in self._exclude for path in glob.glob(one, recursive=True)}  # noqa: PTH207 - absolute patterns
        found: dict[Path, _Version] = {}
        for pattern in self._include:
            for name in glob.glob(pattern, recursive=True):  # noqa: PTH207 - absolute patterns
                path = Path(name)
                with suppress(OSError):  # rotated away meanwhile: found under its new name next time
                    status = path.stat()
                    if name not in left_out and path.is_file():
                        found[path] = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        return sorted(found.items(), key=lambda item: (item[1][3], str(item[0])))

    def _read_file(self, path: Path, version: _Version, page: _Page, now: float, *, first_start: bool) -> None:
        opened = self._open(path, page.positions, now, first_start=first_start)
        if opened is None:
            return
        try:
            for record in opened.left:
                self._take(path, record, page)
                opened.offset = record.end
                page.positions[opened.key] = {"offset": record.end, "at": now}
                if page.full:
                    self._opened = opened
                    return
        except BaseException:
            opened.stream.close()
            raise
        opened.stream.close()
        page.finished.add(version)

    def _open(
        self, path: Path, positions: dict[str, dict[str, Any]], now: float, *, first_start: bool
    ) -> _Opened | None:
        """The file, at the place where reading goes on; None while not even its first record is whole."""
        stream = open_plain(path)
        try:
            first = next(records(stream, 0, self._longest), None)
            if first is None:
                stream.close()
                return None
            key = _key(first)
            if key not in positions and first_start and self._from_end:
                positions[key] = {"offset": _end(stream, self._longest), "at": now}
            offset = int(positions.get(key, {}).get("offset", 0))
            if key in positions and now - positions[key]["at"] >= _NOTE_SECONDS:
                positions[key] = {"offset": offset, "at": now}
            going_on, self._opened = self._opened, None
            if going_on is not None:
                if going_on.key == key and going_on.offset == offset:
                    stream.close()
                    return going_on
                going_on.stream.close()
            return _Opened(key, offset, stream, records(stream, offset, self._longest))
        except BaseException:
            stream.close()
            raise

    def _take(self, path: Path, record: Record, page: _Page) -> None:
        if record.body is None:
            LOG.error("%s: a record of %s is larger than max_record_size and is left out", self._name, path)
            self._meter.rejected(self._name, RejectReason.TOO_LARGE)
            return
        page.size += len(record.body)
        body = record.body.removeprefix(_BOM).strip(b" \t\r")  # not of line breaks: protobuf begins with that byte
        if not body:
            return
        signals = _json_signals(body) if body[:1] == b"{" else [_signal_of(body)]
        encoding = Encoding.JSON if body[:1] == b"{" else Encoding.PROTOBUF
        found = [Parcel(body, signal, encoding, str(path), record.end) for signal in signals or ()]
        if signals is None:
            self._meter.rejected(self._name, RejectReason.MALFORMED)
            self._note_refused([Parcel(body, file=str(path), end=record.end)])
        page.parcels += found

    def _note_refused(self, parcels: Sequence[Parcel]) -> None:
        """Say where records were no OTLP: in the problem, and of each file once in the log."""
        for one in parcels:
            if one.file not in self._refused:
                LOG.error("%s: a record of %s before byte %d is no OTLP and is left out", self._name, one.file, one.end)
            noted = self._refused.setdefault(one.file, _Refused(one.end, 0.0))
            noted.count, noted.at = noted.count + 1, self._clock.now()

    def _fail(self, path: Path, error: OSError | Damaged) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self._faults[str(path)] = f"{path}: {reason or type(error).__name__}"


def _json_signals(body: bytes) -> list[Signal] | None:
    """The requests that a JSON record holds by its keys; none for metrics, None for what is no OTLP."""
    found = [signal for key, signal in _JSON_KEYS if key in body]
    return found if found or any(key in body for key in _OTHER_KEYS) else None


def _signal_of(body: bytes) -> Signal:
    """Spans begin with a trace id, where log records have a time: what has no valid span is logs."""
    try:
        items = split(body, Signal.TRACES).items
    except MalformedRequest:
        return Signal.LOGS
    return Signal.TRACES if not items or any(item.valid for item in items) else Signal.LOGS


def _key(first: Record) -> str:
    return hashlib.sha256(first.body or str(first.end).encode()).hexdigest()[:32]


def _end(stream: IO[bytes], longest: int) -> int:
    """The offset behind the last whole record."""
    end = 0
    for record in records(stream, 0, longest):
        end = record.end
    return end
