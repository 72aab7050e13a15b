"""Files of OTLP are followed: growth, rotation, compression, records in any form, and deaths in the middle."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collectors.catalogue import parse_config
from collectors.otlp_file import build_otlp_file
from collectors.polling.building import Surroundings
from collectors.polling.poller import Poller
from collectors.sink import RejectReason
from monitor.clock import ManualClock
from tests.support.polled import CountingMeter, DyingCursors, Killed, SpanSinkByTrace
from tests.support.trace_world import TraceWorld, WorldSpan, document, expected, invocations, protobuf

zstd = pytest.importorskip("backports.zstd")


class Files:
    """A folder that a file exporter writes to, and a poller that follows it."""

    def __init__(self, folder: Path, count: int = 30, **options: Any) -> None:
        self.folder = folder
        self.clock = ManualClock()
        self.world = TraceWorld(self.clock, count, 900.0, 300.0)
        self.left = self.world.by_visibility()
        self.sink, self.cursors, self.meter = SpanSinkByTrace(), DyingCursors(), CountingMeter()
        self.options = options
        self.poller = self.made()

    def made(self) -> Poller:
        raw = {"include": [str(self.folder / "*.json*"), str(self.folder / "*.pb*")], **self.options}
        given = Surroundings(self.sink, self.meter, self.clock, self.cursors, random.Random(1).random)
        poller = build_otlp_file("otlp_file", parse_config("otlp_file", raw), given)
        assert isinstance(poller, Poller)
        return poller

    async def open(self) -> Files:
        await self.poller.engine.open()
        return self

    async def restart(self) -> None:
        await self.poller.engine.close()
        self.poller = self.made()
        await self.poller.engine.open()

    def next_spans(self) -> list[WorldSpan]:
        """The spans that have become visible."""
        now = self.clock.now()
        found = [span for span in self.left if span.visible_at <= now]
        self.left = self.left[len(found) :]
        return found

    def write(self, spans: list[WorldSpan], name: str = "traces.json") -> None:
        """One line for each span."""
        with (self.folder / name).open("ab") as file:
            for span in spans:
                file.write(json.dumps(document([span])).encode() + b"\n")

    async def read_all(self) -> None:
        while await self.poller.turn() == 0.0:
            pass

    def check_all(self, every: int = 1) -> None:
        assert self.sink.spans.keys() == self.world.traces.keys()
        for number, (trace_id, trace) in enumerate(self.world.traces.items()):
            came = self.sink.ids[trace_id]
            assert came == {span.document["spanId"] for span in trace.spans}
            if number % every == 0:
                assert invocations(self.sink.spans.of(trace_id)) == expected(trace)


async def test_ten_thousand_traces_out_of_order_rotated_with_a_crash_in_the_middle(tmp_path: Path) -> None:
    """10,000 traces in the order in which they were exported, rotated now and then, a death in the middle: each once, and equal."""
    files = await Files(tmp_path, 10_000).open()
    for step in range(30):
        files.clock.advance(60)
        if step % 7 == 6 and (tmp_path / "traces.json").exists():
            (tmp_path / "traces.json").rename(tmp_path / f"traces-2026-11-{step:02}.json")
        files.write(files.next_spans())
        files.cursors.die_at = files.cursors.saves + 2 if step == 15 else None
        try:
            await files.read_all()
        except Killed:
            files.cursors.die_at = None
            await files.restart()
    assert not files.left
    await files.read_all()
    files.check_all(every=20)
    assert (
        sum(files.sink.arrivals.values()) < 20_000 + 1_000
    )  # the page that the dead process had handed over, once more


@pytest.mark.parametrize("after", [False, True])
async def test_a_death_at_any_save_loses_nothing(tmp_path: Path, after: bool) -> None:
    """Before or after the cursor is written."""
    files = await Files(tmp_path).open()
    files.cursors.after = after
    while files.left:
        files.clock.advance(60)
        files.write(files.next_spans())
        files.cursors.die_at = files.cursors.saves + 1
        with pytest.raises(Killed):
            await files.read_all()
            files.cursors.die_at = None
            raise Killed
        files.cursors.die_at = None
        await files.restart()
    await files.read_all()
    files.check_all()


async def test_half_a_line_waits_for_the_rest(tmp_path: Path) -> None:
    """What is not yet whole at the end of a file is not taken and not lost."""
    files = await Files(tmp_path, 1).open()
    line = json.dumps(document(files.left)).encode() + b"\n"
    for at in range(0, len(line), 300):
        with (tmp_path / "t.json").open("ab") as file:
            file.write(line[at : at + 300])
        await files.read_all()
        assert bool(files.sink.spans) == (at + 300 >= len(line))
    files.check_all()


def _lines(spans: list[WorldSpan]) -> bytes:
    return b"".join(json.dumps(document([span])).encode() + b"\n" for span in spans)


def _framed(spans: list[WorldSpan], pack: Callable[[bytes], bytes] = lambda body: body) -> bytes:
    bodies = [pack(protobuf([span])) for span in spans]
    return b"".join(struct.pack(">I", len(body)) + body for body in bodies)


FORMS: dict[str, tuple[str, Callable[[list[WorldSpan]], bytes]]] = {
    "json lines": ("a.json", _lines),
    "json lines with a byte order mark and windows line ends": ("a.json", lambda s: b"\xef\xbb\xbf" + _lines(s).replace(b"\n", b"\r\n")),
    "gzip": ("a.json.gz", lambda s: gzip.compress(_lines(s))),
    "zstd": ("a.json.zst", lambda s: zstd.compress(_lines(s))),
    "protobuf with lengths": ("a.pb", _framed),
    "protobuf records in zstd, as the exporter compresses": ("a.pb", lambda s: _framed(s, zstd.compress)),
    "json records in zstd": ("a.pb", lambda s: b"".join(struct.pack(">I", len(b)) + b for b in (zstd.compress(json.dumps(document([one])).encode()) for one in s))),
    "protobuf with lengths, gzipped": ("a.pb.gz", lambda s: gzip.compress(_framed(s))),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_of_record_is_read(tmp_path: Path, form: str) -> None:
    """JSON lines and records with lengths; plain, gzip, zstd as a whole or each record."""
    files = await Files(tmp_path).open()
    name, write = FORMS[form]
    (tmp_path / name).write_bytes(write(files.left))
    await files.read_all()
    assert files.poller.problem is None
    files.check_all()


async def test_a_file_that_was_read_is_not_read_again_under_another_name(tmp_path: Path) -> None:
    """Renamed, compressed or copied: the same records are known by the first of them."""
    files = await Files(tmp_path).open()
    files.write(files.left[:20])
    await files.read_all()
    before = files.sink.arrivals.copy()
    content = (tmp_path / "traces.json").read_bytes()
    (tmp_path / "traces.json").rename(tmp_path / "traces-1.json")
    (tmp_path / "copy.json").write_bytes(content)
    (tmp_path / "traces-1.json.gz").write_bytes(gzip.compress(content))
    await files.restart()
    await files.read_all()
    assert files.sink.arrivals == before
    files.write(files.left[20:])
    await files.read_all()
    files.check_all()


async def test_a_file_cut_to_nothing_and_written_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    """Rotation by copy and truncate."""
    files = await Files(tmp_path).open()
    files.write(files.left[:40])
    await files.read_all()
    (tmp_path / "traces.json").write_bytes(b"")
    await files.read_all()
    files.write(files.left[40:])
    await files.read_all()
    files.check_all()


async def test_from_the_end_only_what_is_new_is_read(tmp_path: Path) -> None:
    """`start_at: end` leaves out what was there at the first start, not what came while we were away."""
    files = Files(tmp_path, start_at="end")
    files.write(files.left[:20])
    await files.open()
    await files.read_all()
    assert not files.sink.spans
    await files.restart()
    files.write(files.left[20:])
    await files.read_all()
    assert sum(files.sink.arrivals.values()) == len(files.left) - 20


async def test_bad_records_are_counted_and_the_others_are_taken(tmp_path: Path) -> None:
    """A line that is no OTLP, one that is too large, metrics and blank lines are left out."""
    files = await Files(tmp_path, max_record_size="64KiB").open()
    rest = _lines(files.left)
    bad = b'{"what": 1}\n{broken\n\n{"resourceMetrics": []}\n' + b"x" * 70_000 + b"\n"
    (tmp_path / "a.json").write_bytes(bad + rest)
    await files.read_all()
    files.check_all()
    assert files.meter.counts == {RejectReason.MALFORMED: 2, RejectReason.TOO_LARGE: 1}


async def test_what_is_no_otlp_is_said_with_file_and_byte(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Text, binary and JSON that only looks like OTLP: counted each, logged once a file, and the collector's problem for an hour."""
    files = await Files(tmp_path).open()
    bad = b"garbage\n" + b'{"resourceSpans": 7}\n' + bytes(range(128, 250)) + b"\n" + b'{"what": 1}\n'
    (tmp_path / "a.json").write_bytes(bad + _lines(files.left))
    await files.read_all()
    files.check_all()
    place = f"{tmp_path / 'a.json'}"
    assert files.meter.counts == {RejectReason.MALFORMED: 1}  # the sink counts what it refuses
    assert (files.poller.problem or "").startswith(f"{place}: 4 records are no OTLP and were left out")
    (line,) = [one.getMessage() for one in caplog.records if "no OTLP" in one.getMessage()]
    assert f"a record of {place} before byte" in line
    files.clock.advance(3601)
    await files.read_all()
    assert files.poller.problem is None


async def test_a_damaged_file_is_the_problem_and_stops_no_other(tmp_path: Path) -> None:
    """Its name and what is wrong are said; what could be read of it is taken."""
    files = await Files(tmp_path).open()
    assert files.poller.problem is None
    await files.poller.turn()
    assert "no file matches" in (files.poller.problem or "")
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(_lines(files.left))[:-20])
    files.write(files.left)
    await files.read_all()
    assert "cut.json.gz: the compressed data are cut" in (files.poller.problem or "")
    files.check_all()


async def test_a_page_is_handed_over_before_the_next_is_read(tmp_path: Path) -> None:
    """A large file is read in pages, compressed ones too, each with its own cursor."""
    files = await Files(tmp_path, 600).open()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(_lines(files.left)))
    assert await files.poller.turn() == 0.0
    assert 0 < sum(files.sink.arrivals.values()) < 1200
    assert files.cursors.saves == 1
    await files.restart()
    await files.read_all()
    files.check_all(every=10)
    assert sum(files.sink.arrivals.values()) == 1200


async def test_a_collector_polls_by_itself_until_it_is_stopped(tmp_path: Path) -> None:
    """Start, drain and stop, twice: the life of a collector."""
    files = Files(tmp_path)
    files.write(files.left)
    await files.poller.start()
    while len(files.sink.spans) < 30:
        await asyncio.sleep(0.01)
    await files.poller.drain()
    await files.poller.stop()
    await files.poller.stop()
    files.check_all()


async def test_the_past_is_read_from_all_files_again(tmp_path: Path) -> None:
    """Rotated and compressed files included, from their beginnings, only the requests of the time asked for, and polling goes on where it was."""
    files = await Files(tmp_path, 60, start_at="end").open()
    spans = sorted(files.left, key=lambda span: span.start)
    older, newer = spans[:60], spans[60:]
    (tmp_path / "a.json.gz").write_bytes(
        gzip.compress(b"".join(json.dumps(document([s])).encode() + b"\n" for s in older))
    )
    (tmp_path / "b.json").write_text("".join(json.dumps(document([s])) + "\n" for s in newer), encoding="utf-8")
    await files.poller.turn()
    assert not files.sink.spans
    history = files.poller.history
    assert history is not None
    since, until = (older[29].start + older[30].start) / 2, (newer[29].start + newer[30].start) / 2
    wanted = {span.document["spanId"] for span in spans if since <= span.start < until}
    for deliver_as in (None, "again"):
        at, traces = since, 0
        while at < until:
            stretch = await history.read(at, until, deliver_as)
            at, traces = stretch.until, traces + stretch.traces
        assert traces == len({span.trace_id for span in spans if since <= span.start < until})
    assert {one for ids in files.sink.ids.values() for one in ids} == wanted
    assert files.sink.collectors == {"again"}
    files.sink.spans.clear()
    await files.poller.turn()
    assert not files.sink.spans
