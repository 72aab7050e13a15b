"""The journal's folder on disk: its lock, its segment files, and the one segment that is written."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from monitor.intake.faults import FaultKind, JournalUnwritable
from monitor.intake.frames import SEGMENT_HEADER, segment_header

SUFFIX = ".journal"
LOCK_NAME = "lock"
_IOV_MAX = 512  # Linux takes at most 1024 buffers in one call
_PROBE = bytes(64 * 1024)


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment by its file name, `<number>-<seed>.journal`."""

    number: int
    seed: int
    path: Path


def list_segments(folder: Path) -> list[SegmentFile]:
    """The segments of a folder by number. Files of other names are left alone."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        number, _, seed = path.name.removesuffix(SUFFIX).partition("-")
        if number.isdecimal() and len(seed) == 8:
            found.append(SegmentFile(int(number), int(seed, 16), path))
    return sorted(found, key=lambda segment: segment.number)


def sync_folder(folder: Path) -> None:
    """Make created and deleted names durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class FolderLock:
    """Keeps a second process out of the folder for as long as this one lives; the kernel lets go when it dies."""

    def __init__(self, folder: Path) -> None:
        """Take the lock. Raises JournalUnwritable (kind locked) when another process has it, OSError when it cannot be made."""
        path = folder / LOCK_NAME
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            message = f"journal folder {folder} is in use by another rubricd (process {owner}); "
            raise JournalUnwritable(FaultKind.LOCKED, message + "give each its own storage.path") from None
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError:
            os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Let the next process in."""
        os.close(self._descriptor)


class SegmentWriter:
    """The segment at the end of the journal. `size` is its durable length: all that was acknowledged lies before it.

    After an `append` that failed, `torn` says that bytes may lie behind the durable end, and `spoiled` that the kernel failed to
    write pages back: what a later sync of this file says is worth nothing, so it takes no more frames. Only the committer writes.
    """

    def __init__(self, folder: Path, number: int, seed: int) -> None:
        """Create the file and make it durable, name included. Raises OSError and leaves nothing behind."""
        self.file = SegmentFile(number, seed, folder / f"{number:012d}-{seed:08x}{SUFFIX}")
        self.size = SEGMENT_HEADER.size
        self.torn = False
        self.spoiled = False
        self._descriptor = os.open(self.file.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _write(self._descriptor, [segment_header(number, seed)], 0)
            os.fdatasync(self._descriptor)
            sync_folder(folder)
        except OSError:
            os.close(self._descriptor)
            self.file.path.unlink(missing_ok=True)
            raise

    @property
    def empty(self) -> bool:
        """Whether no frame has been written."""
        return self.size == SEGMENT_HEADER.size

    def append(self, parts: Sequence[bytes]) -> None:
        """Write behind the durable end and make it durable. Raises OSError; then `cut` before anything else."""
        self.torn = True
        length = _write(self._descriptor, parts, self.size)
        self._sync()
        self.size += length
        self.torn = False

    def leave_room(self, length: int, most: int, share: float) -> None:
        """Raise OSError (disk full) where that many bytes would leave less room on the disk than `share` of it, or than `most` bytes."""
        disk = os.fstatvfs(self._descriptor)
        if disk.f_bavail * disk.f_frsize < length + min(most, share * disk.f_blocks * disk.f_frsize):
            raise OSError(errno.ENOSPC, "the rest of the disk is left to the store")

    def probe(self) -> None:
        """Find out whether a write would last, and leave nothing of it. Raises OSError when it would not."""
        self.torn = True
        _write(self._descriptor, [_PROBE], self.size)
        self._sync()
        self.cut()

    def cut(self) -> None:
        """Take back what a failed write may have left. Raises OSError when that fails as well."""
        os.ftruncate(self._descriptor, self.size)
        self.torn = False

    def close(self) -> None:
        """Close the file. It stays even when empty: its number must not be given again."""
        os.close(self._descriptor)

    def _sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            self.spoiled = True
            raise


def _write(descriptor: int, parts: Sequence[bytes], offset: int) -> int:
    """Write all parts at the offset, however the kernel splits the work; the number of bytes."""
    start = offset
    waiting: list[bytes | memoryview] = list(parts)
    at = 0
    while at < len(waiting):
        written = os.pwritev(descriptor, waiting[at : at + _IOV_MAX], offset)
        if not written and any(len(part) for part in waiting[at:]):
            raise OSError(errno.EIO, "nothing was written")
        offset += written
        while at < len(waiting) and written >= len(waiting[at]):
            written -= len(waiting[at])
            at += 1
        if written:
            waiting[at] = memoryview(waiting[at])[written:]
    return offset - start
