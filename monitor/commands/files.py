"""Recorded OTLP files as the commands read them: to export requests, and to invocations by the daemon's own code path."""

from __future__ import annotations

import json
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.exits import wrong_input
from monitor.commands.printing import note

if TYPE_CHECKING:
    from collectors.sink import RejectReason, Signal
    from monitor.model.invocation import Assembled, Invocation


STANDARD_INPUT = Path("-")


@dataclass(frozen=True, slots=True)
class _Input:
    """A file by the name that messages call it. What can be read only once (standard input, a pipe) is held in `held`."""

    name: str
    path: Path
    held: bytes | None = None

    def content(self) -> bytes:
        """All of it. Ends the command when it cannot be read."""
        try:
            return self.path.read_bytes() if self.held is None else self.held
        except OSError as error:
            raise wrong_input(f"{self.name}: cannot be read: {error.strerror}") from error

    def first_line(self) -> bytes:
        """The first line; empty when it cannot be read."""
        if self.held is not None:
            return self.held.partition(b"\n")[0]
        try:
            with self.path.open("rb") as lines:
                return lines.readline()
        except OSError:
            return b""


def _inputs(files: Sequence[Path]) -> list[_Input]:
    """The files of a command line; `-` is standard input."""
    if list(files).count(STANDARD_INPUT) > 1:
        raise wrong_input("-: standard input can be read only once")
    return [_input(file) for file in files]


def _input(file: Path) -> _Input:
    if file == STANDARD_INPUT:
        if sys.stdin is None:
            raise wrong_input("-: standard input is closed")
        return _Input("standard input", file, sys.stdin.buffer.read())
    found = _Input(str(file), file)
    try:
        mode = file.stat().st_mode
    except OSError:
        return found  # told when it is read
    return found if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else _Input(str(file), file, found.content())


def read_requests(files: Sequence[Path]) -> Iterator[tuple[bytes, Signal]]:
    """The export requests (protobuf) of recorded OTLP files, in order; `-` is standard input. Ends the command for what cannot be read."""
    yield from _requests(_inputs(files))


def _requests(inputs: Sequence[_Input]) -> Iterator[tuple[bytes, Signal]]:
    from collectors.otlp.file import UnreadableFile, read_content

    for one in inputs:
        try:
            yield from read_content(one.content(), one.name)
        except UnreadableFile as error:
            raise wrong_input(str(error)) from error


def assembled_invocations(
    files: Sequence[Path], keep_attributes: Sequence[str] = (), *, explain: bool = False
) -> list[Assembled]:
    """All invocations of recorded files, settled as `idle` at the end of input; by started_at, then id. Says on standard error how many spans and
    log records were rejected. `-` is standard input.
    """
    return _assembled(_inputs(files), keep_attributes, explain=explain)


def _assembled(
    inputs: Sequence[_Input], keep_attributes: Sequence[str] = (), *, explain: bool = False
) -> list[Assembled]:
    from monitor.assembly import AssemblyContext, assemble
    from monitor.intake.recorded import recorded_traces
    from monitor.model.invocation import SettledBy

    context = AssemblyContext(SettledBy.IDLE, collector="file", keep_attributes=tuple(keep_attributes), explain=explain)
    found: list[Assembled] = []
    rejected: list[RejectReason] = []
    for one in recorded_traces(_requests(inputs), rejected.append):
        found.extend(assemble(one.spans, one.logs, context, one.beside))
    if rejected:
        reasons = ", ".join(f"{reason.value}: {count}" for reason, count in Counter(rejected).most_common())
        note(f"rubricd: {len(rejected)} spans or log records were rejected ({reasons})")
    return sorted(found, key=lambda item: (item.invocation.started_at, item.invocation.id))


def read_invocations(files: Sequence[Path]) -> list[Invocation]:
    """The invocations of files that hold recorded OTLP or invocation JSON Lines (contract section 3); of conversations their turns. Each id once, the
    newest revision of it; says on standard error how many were given more than once. `-` is standard input.
    """
    inputs = _inputs(files)
    recorded = [one for one in inputs if not _holds_invocations(one)]
    found = [item.invocation for item in _assembled(recorded)]
    for one in inputs:
        if one not in recorded:
            found.extend(_invocation_lines(one))
    return _once(found)


def _once(invocations: Sequence[Invocation]) -> list[Invocation]:
    """Each id at its first place, as its newest revision; of equal ones the first."""
    newest: dict[str, Invocation] = {}
    for one in invocations:
        earlier = newest.get(one.id)
        if earlier is None or one.revision > earlier.revision:
            newest[one.id] = one
    if len(newest) < len(invocations):
        note(f"rubricd: {len(invocations) - len(newest)} invocations were given more than once and count once")
    return list(newest.values())


def _holds_invocations(file: _Input) -> bool:
    """Whether the first line is an invocation as `reconstruct --json` prints it."""
    try:
        first = json.loads(file.first_line())
    except ValueError:
        return False
    return isinstance(first, dict) and "trace_id" in first and "completeness" in first


def _invocation_lines(file: _Input) -> Iterator[Invocation]:
    from monitor.model.wire import InvalidInvocation, invocation_from_json

    for number, line in enumerate(file.content().decode("utf-8", "replace").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            one = invocation_from_json(json.loads(line))
        except (ValueError, InvalidInvocation, AttributeError) as error:
            raise wrong_input(f"{file.name}:{number}: no invocation: {error}") from error
        yield from one.turns or (one,)
