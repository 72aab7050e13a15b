"""Recorded OTLP files as the commands read them: to export requests, and to invocations by the daemon's own code path."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.exits import wrong_input
from monitor.commands.printing import note

if TYPE_CHECKING:
    from collectors.sink import RejectReason, Signal
    from monitor.model.invocation import Assembled, Invocation


def read_requests(files: Sequence[Path]) -> Iterator[tuple[bytes, Signal]]:
    """The export requests (protobuf) of recorded OTLP files, in order. Ends the command for what cannot be read."""
    from collectors.otlp.file import UnreadableFile, read_file

    for file in files:
        try:
            yield from read_file(file)
        except UnreadableFile as error:
            raise wrong_input(str(error)) from error
        except OSError as error:
            raise wrong_input(f"{file}: cannot be read: {error.strerror}") from error


def assembled_invocations(
    files: Sequence[Path], keep_attributes: Sequence[str] = (), *, explain: bool = False
) -> list[Assembled]:
    """All invocations of recorded files, settled as `idle` at the end of input; by started_at, then id. Says on standard error how many spans and
    log records were rejected.
    """
    from monitor.assembly import AssemblyContext, assemble
    from monitor.intake.recorded import recorded_traces
    from monitor.model.invocation import SettledBy

    context = AssemblyContext(SettledBy.IDLE, collector="file", keep_attributes=tuple(keep_attributes), explain=explain)
    found: list[Assembled] = []
    rejected: list[RejectReason] = []
    for one in recorded_traces(read_requests(files), rejected.append):
        found.extend(assemble(one.spans, one.logs, context, one.beside))
    if rejected:
        reasons = ", ".join(f"{reason.value}: {count}" for reason, count in Counter(rejected).most_common())
        note(f"rubricd: {len(rejected)} spans or log records were rejected ({reasons})")
    return sorted(found, key=lambda item: (item.invocation.started_at, item.invocation.id))


def read_invocations(files: Sequence[Path]) -> list[Invocation]:
    """The invocations of files that hold recorded OTLP or invocation JSON Lines (contract section 3); of conversations their turns. Each id once, the
    newest revision of it; says on standard error how many were given more than once.
    """
    recorded = [file for file in files if not _holds_invocations(file)]
    found = [item.invocation for item in assembled_invocations(recorded)]
    for file in files:
        if file not in recorded:
            found.extend(_invocation_lines(file))
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


def _holds_invocations(file: Path) -> bool:
    """Whether the first line is an invocation as `reconstruct --json` prints it."""
    try:
        with file.open("rb") as lines:
            first = json.loads(lines.readline())
    except (OSError, ValueError):
        return False
    return isinstance(first, dict) and "trace_id" in first and "completeness" in first


def _invocation_lines(file: Path) -> Iterator[Invocation]:
    from monitor.model.wire import InvalidInvocation, invocation_from_json

    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            one = invocation_from_json(json.loads(line))
        except (ValueError, InvalidInvocation, AttributeError) as error:
            raise wrong_input(f"{file}:{number}: no invocation: {error}") from error
        yield from one.turns or (one,)
