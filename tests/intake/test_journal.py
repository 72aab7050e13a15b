"""The journal on a good disk: order, group commit, rotation, limits, trimming, replay, and one owner."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collectors.sink import Overloaded, Signal
from monitor.clock import ManualClock
from monitor.intake.faults import FaultKind, FrameUnreadable, JournalUnwritable
from monitor.intake.frames import SEGMENT_HEADER, Frame
from monitor.intake.journal import Journal
from monitor.intake.segment import list_segments
from monitor.model.run import JournalPosition

ROOT = Path(__file__).resolve().parents[2]
Open = Callable[..., Journal]


@pytest.fixture
def open_journal(tmp_path: Path) -> Iterator[Open]:
    """Opens journals on one folder and closes them at the end."""
    opened: list[Journal] = []

    def start(**limits: float) -> Journal:
        for journal in opened:
            journal.close()
        opened.append(Journal(tmp_path / "journal", ManualClock(), **limits))  # type: ignore[arg-type]
        return opened[-1]

    yield start
    for journal in opened:
        journal.close()


def put(journal: Journal, body: bytes, **how: object) -> JournalPosition:
    return journal.append(body, Signal.TRACES, "otlp", 5.0, **how).result(timeout=10)  # type: ignore[arg-type]


def test_a_frame_is_read_back_with_all_that_was_said_of_it(open_journal: Open) -> None:
    """A frame keeps body, signal, collector, time of arrival and the rate of the early drop."""
    journal = open_journal()
    position = journal.append(b"logs!", Signal.LOGS, "tempo/prød", 12.25, kept_below=0.1).result(timeout=10)
    frame = journal.read(position)
    assert (frame.body, frame.signal, frame.collector) == (b"logs!", Signal.LOGS, "tempo/prød")
    assert (frame.received_at, frame.kept_below, frame.position) == (12.25, 0.1, position)


def test_frames_come_back_in_order_after_reopening(open_journal: Open) -> None:
    """What was acknowledged is replayed in the order of positions by the next process, over several segments."""
    journal = open_journal(segment_bytes=2_000)
    bodies = [bytes([n]) * 300 for n in range(40)]
    positions = [put(journal, body) for body in bodies]
    again = open_journal()
    replayed = list(again.replay())
    assert [frame.body for frame in replayed] == bodies
    assert [frame.position for frame in replayed] == positions
    assert positions == sorted(positions)
    assert len({position.segment for position in positions}) > 3
    assert again.damages == []


def test_an_empty_body_and_many_small_frames_in_one_batch(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of more frames than one system call takes is written whole, empty bodies included."""
    journal = open_journal()
    gate = Gate(monkeypatch)
    first = journal.append(b"first", Signal.TRACES, "otlp", 0.0)
    gate.reached.wait(10)
    waiting = [journal.append(b"x" * (n % 3), Signal.TRACES, "otlp", float(n)) for n in range(1500)]
    gate.open()
    first.result(timeout=10)
    for n, future in enumerate(waiting):
        assert journal.read(future.result(timeout=10)).body == b"x" * (n % 3)


class Gate:
    """Holds back os.fdatasync until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.calls = 0
        self._opened = threading.Event()
        real = os.fdatasync

        def held(descriptor: int) -> None:
            self.calls += 1
            self.reached.set()
            assert self._opened.wait(10)
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", held)

    def open(self) -> None:
        """Let all through."""
        self._opened.set()


def test_nothing_is_acknowledged_before_the_sync(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The future and the note come only after fdatasync has returned; one sync serves all that waited meanwhile."""
    journal = open_journal()
    gate = Gate(monkeypatch)
    noted: list[JournalPosition] = []
    first = journal.append(b"a", Signal.TRACES, "otlp", 0.0, noted=noted.append)
    assert gate.reached.wait(10)
    others = [journal.append(b"b", Signal.TRACES, "otlp", 0.0, noted=noted.append) for _ in range(20)]
    assert not first.done()
    assert noted == []
    gate.open()
    positions = [future.result(timeout=10) for future in (first, *others)]
    assert noted == positions == sorted(positions)
    assert gate.calls == 2


def test_a_batch_is_noted_before_anybody_is_told(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """All frames of one sync are noted first, so that who waits is woken once; a frame that cannot be noted fails alone."""
    journal = open_journal()
    gate = Gate(monkeypatch)
    happened: list[str] = []

    def refuse(_: JournalPosition) -> None:
        raise RuntimeError

    journal.append(b"first", Signal.TRACES, "otlp", 0.0)
    assert gate.reached.wait(10)
    noted = (lambda _: happened.append("noted"), refuse, lambda _: happened.append("noted"))
    waiting = [journal.append(b"x", Signal.TRACES, "otlp", 0.0, noted=one) for one in noted]
    for future in waiting:
        future.add_done_callback(lambda _: happened.append("told"))
    gate.open()
    assert isinstance(waiting[1].exception(timeout=10), RuntimeError)
    assert journal.read(waiting[2].result(timeout=10)).body == b"x"
    put(journal, b"after")  # the committer has come back from all callbacks
    assert happened == ["noted", "noted", "told", "told", "told"]


def test_one_who_stops_waiting_does_not_stop_the_write(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """A future that its owner tries to cancel resolves all the same, and the committer lives on."""
    journal = open_journal()
    gate = Gate(monkeypatch)
    future = journal.append(b"a", Signal.TRACES, "otlp", 0.0)
    assert not future.cancel()
    gate.open()
    assert journal.read(future.result(timeout=10)).body == b"a"
    put(journal, b"b")


def test_a_full_journal_refuses_and_takes_again_after_trimming(open_journal: Open) -> None:
    """Past max_bytes an append is Overloaded with a wait of 1 to 3 s; settled segments make room again."""
    journal = open_journal(segment_bytes=3_000, max_bytes=10_000)
    list(journal.replay())
    with pytest.raises(Overloaded, match="full of unsettled data") as refused:
        for _ in range(20):
            put(journal, b"x" * 900)
    assert 1 <= refused.value.retry_after_seconds <= 3
    assert journal.size <= 10_000
    put(journal, b"survivor", over_limit=True)
    assert journal.trim(needed=()) > 5_000
    put(journal, b"x" * 900)


def test_trim_keeps_needed_segments_and_the_active_one(open_journal: Open) -> None:
    """Only closed segments that nobody needs are deleted; frames of the others stay readable."""
    journal = open_journal(segment_bytes=1_000)
    list(journal.replay())
    positions = [put(journal, bytes([n]) * 600) for n in range(6)]
    needed = positions[2].segment
    journal.trim({needed})
    assert list(journal.segments()) == [needed, journal.active]
    assert journal.read(positions[2]).body == bytes([2]) * 600
    with pytest.raises(FrameUnreadable, match="segment"):
        journal.read(positions[0])


def test_nothing_is_trimmed_before_the_replay_is_done(open_journal: Open) -> None:
    """A trim that comes before the replay has ended deletes nothing."""
    put(open_journal(), b"kept")
    journal = open_journal()
    replay = journal.replay()
    next(replay)
    assert journal.trim(()) == 0
    assert list(replay) == []
    assert journal.trim(()) > 0


def test_positions_never_go_back(open_journal: Open) -> None:
    """After everything was trimmed and the process restarted within the same second, new positions are still higher."""
    journal = open_journal()
    before = put(journal, b"a")
    for _ in range(3):
        journal = open_journal()
        list(journal.replay())
        journal.trim(())
    assert before < put(journal, b"b")


def test_a_segment_can_be_closed_on_request(open_journal: Open) -> None:
    """`rotate` begins a fresh segment so that a quiet journal can be trimmed to nothing."""
    journal = open_journal()
    list(journal.replay())
    old = put(journal, b"a").segment
    journal.rotate()
    new = put(journal, b"b").segment
    assert new > old
    journal.trim({new})
    assert old not in journal.segments()


def test_closing_makes_durable_what_waits(open_journal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """`close` lets waiting appends finish; afterwards an append is Overloaded, and closing again is harmless."""
    journal = open_journal()
    gate = Gate(monkeypatch)
    futures = [journal.append(bytes([n]), Signal.TRACES, "otlp", 0.0) for n in range(5)]
    closing = threading.Thread(target=journal.close)
    closing.start()
    gate.open()
    closing.join(10)
    assert all(future.done() for future in futures)
    with pytest.raises(Overloaded, match="closing"):
        journal.append(b"late", Signal.TRACES, "otlp", 0.0)
    journal.close()
    assert [frame.body for frame in open_journal().replay()] == [bytes([n]) for n in range(5)]


def test_two_journals_never_share_a_folder(open_journal: Open, tmp_path: Path) -> None:
    """A second process on the same folder is turned away with a message that names folder, process and remedy."""
    open_journal()
    program = (
        "import sys; from pathlib import Path\n"
        "from monitor.clock import SystemClock\nfrom monitor.intake.journal import Journal\n"
        "from monitor.intake.faults import JournalUnwritable\n"
        "try:\n    Journal(Path(sys.argv[1]), SystemClock())\n"
        "except JournalUnwritable as fault:\n    print(fault.kind.value, fault)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "journal")]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    assert said.startswith("locked ")
    assert str(tmp_path / "journal") in said
    assert str(os.getpid()) in said
    assert "storage.path" in said


def test_the_lock_goes_with_its_owner(open_journal: Open) -> None:
    """After the owner has closed, the folder can be opened again by the same process."""
    open_journal().close()
    put(open_journal(), b"a")


def test_a_newer_format_is_refused(open_journal: Open, tmp_path: Path) -> None:
    """A segment of a newer version stops the start with a message that names the file; nothing is touched."""
    put(open_journal(), b"a")
    open_journal().close()
    path = list_segments(tmp_path / "journal")[0].path
    raw = bytearray(path.read_bytes())
    raw[8] = 9
    crc_at = SEGMENT_HEADER.size - 4
    raw[crc_at : crc_at + 4] = zlib.crc32(bytes(raw[:crc_at])).to_bytes(4, "little")
    path.write_bytes(raw)
    with pytest.raises(JournalUnwritable, match="newer rubricd") as refused:
        open_journal()
    assert refused.value.kind is FaultKind.NEWER_FORMAT
    assert path.name in str(refused.value)


def test_journal_bytes_inside_a_request_are_no_frames(open_journal: Open, tmp_path: Path) -> None:
    """A body that holds a copy of real frames cannot put frames into a replay, even where the frame around it is damaged."""
    journal = open_journal()
    put(journal, b"forged")
    journal.close()
    copied = list_segments(tmp_path / "journal")[-1].path.read_bytes()
    journal = open_journal()
    position = put(journal, b"head" + copied)
    put(journal, b"after")
    journal.close()
    path = next(segment.path for segment in list_segments(tmp_path / "journal") if segment.number == position.segment)
    raw = bytearray(path.read_bytes())
    raw[position.offset] ^= 0xFF
    path.write_bytes(raw)
    again = open_journal()
    bodies = [frame.body for frame in again.replay() if isinstance(frame, Frame)]
    assert bodies == [b"forged", b"after"]
    assert len(again.damages) == 1
