"""The journal after crashes and on bad disks: nothing acknowledged is lost, nothing lost is silent."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from collectors.sink import Signal
from monitor.clock import ManualClock, SystemClock
from monitor.intake.faults import FaultKind, JournalUnwritable
from monitor.intake.frames import DamageKind, said_of
from monitor.intake.journal import Journal
from monitor.intake.segment import list_segments
from monitor.model.run import JournalPosition
from tests.intake.appender import body_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def put(journal: Journal, body: bytes) -> JournalPosition:
    return journal.append(body, Signal.TRACES, "otlp", 5.0).result(timeout=10)


def written(folder: Path, bodies: list[bytes]) -> list[JournalPosition]:
    journal = Journal(folder, ManualClock())
    positions = [put(journal, body) for body in bodies]
    journal.close()
    return positions


def replayed(folder: Path) -> tuple[list[bytes], list[DamageKind]]:
    journal = Journal(folder, ManualClock())
    try:
        return [frame.body for frame in journal.replay()], [damage.kind for damage in journal.damages]
    finally:
        journal.close()


def segment_path(folder: Path, position: JournalPosition) -> Path:
    return next(segment.path for segment in list_segments(folder) if segment.number == position.segment)


def test_every_acknowledged_frame_outlives_sigkill(folder: Path) -> None:
    """A process killed while it appends leaves every frame whose future had resolved, whole and once, round after round."""
    acknowledged: set[int] = set()
    for killing in range(4):
        command = [sys.executable, "-m", "tests.intake.appender", str(folder), str(killing * 1_000_000)]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(150 + 37 * killing)]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.read().splitlines(keepends=True)
        child.wait(10)
        child.stdout.close()
        acknowledged |= {int(line) for line in lines if line.endswith(b"\n")}
        journal = Journal(folder, SystemClock())
        kept = {int(frame.body[:10]): frame for frame in journal.replay()}
        journal.close()
        assert acknowledged <= set(kept)
        assert all(frame.body == body_of(number) for number, frame in kept.items())
        assert {damage.kind for damage in journal.damages} <= {DamageKind.TORN_TAIL}
    assert len(acknowledged) > 600


@pytest.mark.parametrize("cut", [1, 9, 40, 140, 199])
def test_a_torn_tail_is_cut_and_reported(folder: Path, cut: int) -> None:
    """A last frame that is not whole is cut off and reported; the frames before it stay, and the next start finds nothing to report."""
    positions = written(folder, [b"a" * 100, b"b" * 160])
    path = segment_path(folder, positions[1])
    os.truncate(path, path.stat().st_size - cut)
    assert replayed(folder) == ([b"a" * 100], [DamageKind.TORN_TAIL])
    assert replayed(folder) == ([b"a" * 100], [])


def test_a_segment_torn_at_its_creation_is_reported(folder: Path) -> None:
    """A segment file of a few bytes is a torn write, not an error."""
    positions = written(folder, [b"a"])
    os.truncate(segment_path(folder, positions[0]), 7)
    assert replayed(folder) == ([], [DamageKind.TORN_TAIL])


@pytest.mark.parametrize("seed", range(25))
def test_corruption_loses_only_the_frames_it_hits(folder: Path, seed: int) -> None:
    """A few bytes overwritten anywhere lose the frames that they touch and no others, and are always reported."""
    draw = random.Random(seed)
    bodies = [draw.randbytes(draw.randrange(0, 400)) for _ in range(30)]
    positions = written(folder, bodies)
    path = segment_path(folder, positions[0])
    raw = bytearray(path.read_bytes())
    start = draw.randrange(len(raw))
    stop = min(len(raw), start + draw.randrange(1, 300))
    raw[start:stop] = bytes(byte ^ 0x55 for byte in raw[start:stop])
    path.write_bytes(raw)
    ends = [position.offset for position in positions[1:]] + [len(raw)]
    whole = [
        body
        for body, position, end in zip(bodies, positions, ends, strict=True)
        if stop <= position.offset or end <= start
    ]
    found, damages = replayed(folder)
    assert found == whole
    assert damages


def test_a_destroyed_segment_header_costs_no_frame(folder: Path) -> None:
    """The first bytes of a segment can be lost: its frames are still found, and the damage is reported."""
    positions = written(folder, [b"a", b"b"])
    path = segment_path(folder, positions[0])
    raw = bytearray(path.read_bytes())
    raw[:20] = bytes(20)
    path.write_bytes(raw)
    assert replayed(folder) == ([b"a", b"b"], [DamageKind.SEGMENT_HEADER])


class BadDisk:
    """Makes a system call of the journal fail, or fail after having written a part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.partial = 0
        self._patch = monkeypatch

    def fail(self, call: str, number: int, partial: int = 0) -> None:
        """From now on `os.<call>` fails with that error number."""
        self.number, self.partial = number, partial
        real: Callable[..., int] = getattr(os, call)

        def failing(descriptor: int, *rest: object) -> int:
            if not self.number:
                return real(descriptor, *rest)
            if self.partial:
                data = b"".join(rest[0])[: self.partial]  # type: ignore[arg-type]
                self.partial = 0
                return os.pwrite(descriptor, data, rest[1])  # type: ignore[arg-type]
            raise OSError(self.number, os.strerror(self.number))

        self._patch.setattr(os, call, failing)

    def heal(self) -> None:
        """All is well again."""
        self.number = 0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[BadDisk]:
    yield BadDisk(monkeypatch)


FAULTS = [
    ("pwritev", errno.ENOSPC, 0, FaultKind.DISK_FULL, "full"),
    ("pwritev", errno.ENOSPC, 50, FaultKind.DISK_FULL, "full"),
    ("pwritev", errno.EDQUOT, 70, FaultKind.DISK_FULL, "quota"),
    ("pwritev", errno.EROFS, 0, FaultKind.READ_ONLY, "read-only"),
    ("pwritev", errno.EIO, 10, FaultKind.IO_ERROR, "input/output"),
    ("pwritev", errno.EFBIG, 30, FaultKind.FILE_LIMIT, "limit"),
    ("fdatasync", errno.EIO, 0, FaultKind.IO_ERROR, "input/output"),
    ("fdatasync", errno.ENOSPC, 0, FaultKind.DISK_FULL, "full"),
]


@pytest.mark.parametrize(("call", "number", "partial", "kind", "word"), FAULTS)
def test_a_failed_write_is_told_apart_taken_back_and_survived(
    folder: Path, disk: BadDisk, call: str, number: int, partial: int, kind: FaultKind, word: str
) -> None:
    """A fault fails what waits with its own kind, leaves no byte of it, and the next append works once the disk is back."""
    journal = Journal(folder, ManualClock(), probe_seconds=60.0)
    put(journal, b"before")
    disk.fail(call, number, partial)
    with pytest.raises(JournalUnwritable, match=word) as fault:
        put(journal, b"lost" * 100)
    assert fault.value.kind is kind
    assert str(folder) in str(fault.value)
    assert f"user id {os.geteuid()}" in str(fault.value)
    assert journal.fault is fault.value
    disk.heal()
    position = put(journal, b"after")
    assert journal.fault is None
    assert journal.read(position).body == b"after"
    journal.close()
    assert replayed(folder) == ([b"before", b"after"], [])


def test_nothing_is_appended_behind_a_failed_frame_that_cannot_be_cut(
    folder: Path, disk: BadDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the failed frame cannot be truncated away every append fails; afterwards none of them is there."""
    journal = Journal(folder, ManualClock(), probe_seconds=60.0)
    put(journal, b"before")
    disk.fail("pwritev", errno.EIO, 30)
    cutting = BadDisk(monkeypatch)
    cutting.fail("ftruncate", errno.EIO)
    for _ in range(3):
        with pytest.raises(JournalUnwritable):
            put(journal, b"lost" * 100)
    disk.heal()
    with pytest.raises(JournalUnwritable):
        put(journal, b"lost" * 100)
    cutting.heal()
    put(journal, b"after")
    journal.close()
    assert replayed(folder) == ([b"before", b"after"], [])


def test_a_file_whose_sync_failed_takes_no_more_frames(folder: Path, disk: BadDisk) -> None:
    """After a failed fdatasync the kernel may have dropped pages: the next frame goes to a fresh segment."""
    journal = Journal(folder, ManualClock(), probe_seconds=60.0)
    before = put(journal, b"before")
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(JournalUnwritable):
        put(journal, b"lost")
    disk.heal()
    assert put(journal, b"after").segment > before.segment
    journal.close()


def test_the_journal_recovers_without_being_asked(folder: Path, disk: BadDisk) -> None:
    """While nobody appends, the fault goes away by itself once the disk is back, and the probe leaves nothing."""
    journal = Journal(folder, ManualClock(), probe_seconds=0.005)
    put(journal, b"before")
    disk.fail("pwritev", errno.ENOSPC, 20)
    with pytest.raises(JournalUnwritable):
        put(journal, b"lost")
    disk.heal()
    for _ in range(2000):
        if journal.fault is None:
            break
        journal._committer.join(0.005)
    assert journal.fault is None
    journal.close()
    assert replayed(folder) == ([b"before"], [])


def test_room_is_left_to_the_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is nearly full takes no new data, so that what has settled can still be stored, but survivors of an old segment; it is told once."""
    told: list[str] = []
    journal = Journal(folder, ManualClock(), probe_seconds=60.0, told=told.append)
    put(journal, b"before")
    real = os.fstatvfs(0)
    full = SimpleNamespace(f_bavail=2_000, f_blocks=100_000, f_frsize=real.f_frsize)
    with monkeypatch.context() as disk:
        disk.setattr(os, "fstatvfs", lambda _: full)
        for _ in range(2):
            with pytest.raises(JournalUnwritable, match="full"):
                put(journal, b"lost")
        assert journal.append(b"survivor", Signal.TRACES, "otlp", 5.0, over_limit=True).result(timeout=10)
    put(journal, b"after")
    journal.close()
    assert told == ["disk_full"]
    assert replayed(folder) == ([b"before", b"survivor", b"after"], [])


def test_damage_is_told_by_kind(folder: Path) -> None:
    """What the replay finds is told by kind, and said in one line that leaves out what a crash may do."""
    positions = written(folder, [b"a" * 100, b"b" * 100, b"c" * 100])
    path = segment_path(folder, positions[0])
    raw = bytearray(path.read_bytes())
    raw[positions[1].offset + 50] ^= 1
    path.write_bytes(raw[:-5])
    told: list[str] = []
    journal = Journal(folder, ManualClock(), told=told.append)
    assert [frame.body[:1] for frame in journal.replay()] == [b"a"]
    journal.close()
    assert told == ["corrupt", "torn_tail"]
    assert said_of(journal.damages).startswith("1 places were damaged at the start; the first is segment")
    assert said_of(journal.damages[1:]) == ""


def test_a_limit_on_file_size_is_got_over_by_a_fresh_segment(folder: Path) -> None:
    """A real EFBIG (RLIMIT_FSIZE) fails one append and no acknowledged frame; the journal goes on in the next segment."""
    program = """
import resource, sys
from pathlib import Path
from collectors.sink import Signal
from monitor.clock import SystemClock
from monitor.intake.faults import JournalUnwritable
from monitor.intake.journal import Journal
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
journal = Journal(Path(sys.argv[1]), SystemClock(), probe_seconds=60.0)
for number in range(30):
    try:
        journal.append(bytes([number]) * 9000, Signal.TRACES, "otlp", 0.0).result(10)
        print("ok", number)
    except JournalUnwritable as fault:
        print(fault.kind.value, number)
journal.close()
"""
    command = [sys.executable, "-c", program, str(folder)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=True).stdout
    outcome = [line.split() for line in said.splitlines()]
    taken = [int(number) for word, number in outcome if word == "ok"]
    assert {word for word, _ in outcome} == {"ok", "file_limit"}
    assert len(taken) > 20
    assert replayed(folder) == ([bytes([number]) * 9000 for number in taken], [])


def test_a_really_full_disk_and_a_really_read_only_one(tmp_path: Path) -> None:
    """On a small file system of its own: full is refused and got over when space is freed; read-only stops the start."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("unshare is not installed (package util-linux)")
    alone = [unshare, "--mount", "--map-root-user"]
    mount = f"mount -t tmpfs -o size=400k tmpfs {tmp_path}"
    if subprocess.run([*alone, "sh", "-c", mount], capture_output=True, timeout=30, check=False).returncode:
        pytest.skip("this machine lets no process mount a file system of its own")
    script = f"{mount} && {sys.executable} -m tests.intake.small_disk {tmp_path}"
    done = subprocess.run(
        [*alone, "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["disk_full", "read_only"]


def test_an_unusable_folder_stops_the_start(tmp_path: Path) -> None:
    """A path that is no folder is refused at opening with a message that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalUnwritable, match="file/journal"):
        Journal(tmp_path / "file" / "journal", ManualClock())
