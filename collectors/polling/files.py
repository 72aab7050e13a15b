"""Following files of OTLP. A file is known by its first record, so that it may be renamed, compressed or copied and is still the same.

The cursor holds for each file how far it was read, as an offset in the decompressed data behind a whole record.
"""

from __future__ import annotations

import asyncio
import glob
import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
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

    @property
    def endpoints(self) -> tuple[str, ...]:
        """The globs."""
        return tuple(self._include)

    @property
    def problem(self) -> str | None:
        """The first file that cannot be read, or that there is none."""
        return next(iter(self._faults.values()), None)

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
        positions = {key: one for key, one in page.positions.items() if now - one["at"] < _FORGET_SECONDS}

        def taken() -> None:
            self._finished = (self._finished | page.finished) & present

        return FeedPage(page.parcels, {"files": positions}, page.more, page.lag_seconds, taken)

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
        parcels = _json_parcels(body) if body[:1] == b"{" else [Parcel(body, _signal_of(body))]
        if parcels is None:
            LOG.error("%s: a record of %s before byte %d is no OTLP", self._name, path, record.end)
            self._meter.rejected(self._name, RejectReason.MALFORMED)
        else:
            page.parcels += parcels

    def _fail(self, path: Path, error: OSError | Damaged) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self._faults[str(path)] = f"{path}: {reason or type(error).__name__}"


def _json_parcels(body: bytes) -> list[Parcel] | None:
    """The requests of a JSON record by its keys; none for metrics, None for what is no OTLP."""
    found = [Parcel(body, signal, Encoding.JSON) for key, signal in _JSON_KEYS if key in body]
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
