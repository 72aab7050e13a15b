"""Nothing that was acknowledged is given up because of when it came, or because it cannot be read at present."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.intake.index import Index
from tests.intake.desk import Desk
from tests.intake.traffic import agent, run, tool, trace_id, traces

OpenDesk = Callable[..., Desk]
FEW = 5
"""Fewer items than one open trace counts as."""


@pytest.mark.parametrize("room", [FEW, None])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_process_without_file_descriptors_loses_nothing(
    open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch, room: int | None, restarts: bool
) -> None:
    """While no file can be opened nothing settles and nothing counts as damaged, parked or not; when one can all is there."""
    desk = open_desk(max_indexed=room)
    for number in range(5):
        desk.send(traces(*run(f"t{number}")))
    desk.journal.rotate().result(10)
    if restarts:
        desk.restart()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", no_file)
        assert desk.wait(31.0).traces == 0
    desk.wait(31.0)
    desk.wait(31.0)
    assert sorted(one.span_count for one in desk.store.saved) == [3] * 5
    assert desk.journal.damages == []


def test_a_segment_that_fills_and_closes_while_it_is_asked_what_is_needed_stays(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes between the answer and the deletion is kept, though nothing in its segment was needed when that was asked."""
    needed = Index.live_segments.fget  # type: ignore[attr-defined]

    def slowly(index: Index) -> set[int]:
        answer: set[int] = needed(index)
        if not index.open_items:
            desk.send(traces(*run("t")))
            desk.journal.rotate().result(10)
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(Index, "live_segments", property(slowly))
        desk.settler._housekeeping.step(desk.steady.now(), 3600.0, trim=True)
    assert desk.index.open_items == 3
    desk.wait(31.0)
    assert [one.span_count for one in desk.store.saved] == [3]


def no_file(*_: object, **__: object) -> None:
    """All file descriptors are in use."""
    raise OSError(errno.EMFILE, "Too many open files")


def test_the_first_frame_after_a_start_keeps_its_time(open_desk: OpenDesk) -> None:
    """It is read on behind what an earlier process left, which all came before the start; it did not, and settles by its own time."""
    small = open_desk(max_indexed=FEW)
    for number in range(2):
        small.send(traces(*run(f"before{number}")))
    small.restart()
    small.clock.advance(20.0)
    small.send(traces(tool("t"), agent("t")))
    small.clock.advance(15.0)
    small.send(traces(*run("other")))
    small.clock.advance(5.0)
    small.send(traces(tool("t", 2)))
    assert small.wait(500.0).late == 0
    assert {one.trace_id: one.span_count for one in small.store.saved}[trace_id("t").hex()] == 3
