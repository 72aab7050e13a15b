"""Recorded OTLP files as the commands read them: to export requests, and to invocations by the daemon's own code path."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.exits import wrong_input

if TYPE_CHECKING:
    from collectors.sink import Signal
    from monitor.model.invocation import Assembled


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


def assembled_invocations(files: Sequence[Path], keep_attributes: Sequence[str] = ()) -> list[Assembled]:
    """All invocations of recorded files, settled as `idle` at the end of input; by started_at, then id."""
    from monitor.assembly import AssemblyContext, assemble
    from monitor.intake.recorded import recorded_traces
    from monitor.model.invocation import SettledBy

    context = AssemblyContext(SettledBy.IDLE, collector="file", keep_attributes=tuple(keep_attributes))
    found: list[Assembled] = []
    for spans, logs in recorded_traces(read_requests(files)):
        found.extend(assemble(spans, logs, context))
    return sorted(found, key=lambda item: (item.invocation.started_at, item.invocation.id))
