"""What can be wrong with the journal's folder, told apart so that a person knows what to do."""

from __future__ import annotations

import errno
import os
from enum import StrEnum
from pathlib import Path


class FaultKind(StrEnum):
    """Why the journal cannot be written."""

    DISK_FULL = "disk_full"
    READ_ONLY = "read_only"
    PERMISSION = "permission"
    FILE_LIMIT = "file_limit"
    IO_ERROR = "io_error"
    LOCKED = "locked"
    NEWER_FORMAT = "newer_format"
    OTHER = "other"


_KINDS = {
    errno.ENOSPC: FaultKind.DISK_FULL,
    errno.EDQUOT: FaultKind.DISK_FULL,
    errno.EROFS: FaultKind.READ_ONLY,
    errno.EACCES: FaultKind.PERMISSION,
    errno.EPERM: FaultKind.PERMISSION,
    errno.EFBIG: FaultKind.FILE_LIMIT,
    errno.EMFILE: FaultKind.FILE_LIMIT,
    errno.ENFILE: FaultKind.FILE_LIMIT,
    errno.EIO: FaultKind.IO_ERROR,
}

_ADVICE = {
    FaultKind.DISK_FULL: "the disk or quota is full; free space or enlarge the volume",
    FaultKind.READ_ONLY: "the file system is read-only; mount it writable or set storage.path to a writable folder",
    FaultKind.PERMISSION: "permission denied; give the folder to that user or set storage.path to another folder",
    FaultKind.FILE_LIMIT: "a limit on file size or open files is reached; raise the limit of the process",
    FaultKind.IO_ERROR: "the disk reports an input/output error; check the device",
}


_PASSING = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.ETIMEDOUT}


class JournalUnwritable(Exception):
    """The journal cannot be used at present: nothing was taken, or could be read. The message names the folder and the user id."""

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @classmethod
    def of(cls, error: OSError, folder: Path) -> JournalUnwritable:
        """The fault behind an operating system error that happened in the journal's folder."""
        kind = _KINDS.get(error.errno or 0, FaultKind.OTHER)
        reason = _ADVICE.get(kind) or (error.strerror or type(error).__name__)
        return cls(kind, f"journal folder {folder} cannot be written by user id {os.geteuid()}: {reason}")


def may_pass(error: OSError) -> bool:
    """Whether what could not be read is there, and can be read when the process or the machine is better off."""
    return error.errno in _PASSING


class FrameUnreadable(Exception):
    """A journal frame that was written is gone or damaged; the message names segment and offset."""


def place_of(error: Exception) -> str:
    """The kind of an exception and where in the code it was raised; never its message, which may carry content."""
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    place = f"{where.tb_frame.f_globals.get('__name__')}:{where.tb_lineno}" if where else "unknown place"
    return f"{type(error).__name__} in {place}"
