"""The writer: one thread, shared commits, each job undone alone."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from monitor.store.sqlite.writer import Writer


def count(connection: sqlite3.Connection) -> int:
    """How many rows of state there are."""
    return int(connection.execute("SELECT count(*) FROM state").fetchone()[0])


def put(name: str) -> object:
    """A job that writes a row."""
    return lambda connection: connection.execute("INSERT INTO state VALUES (?, '0')", (name,))


def together(writer: Writer, jobs: list[object]) -> list[BaseException | None]:
    """Ask for jobs from a thread each while the writer is busy, so that they share a commit; returns what each raised."""
    busy, go = threading.Event(), threading.Event()
    raised: list[BaseException | None] = [None] * len(jobs)

    def hold(connection: sqlite3.Connection) -> None:
        busy.set()
        go.wait(10)

    def ask(place: int) -> None:
        try:
            writer.call(jobs[place])  # type: ignore[arg-type]
        except BaseException as error:
            raised[place] = error

    threads = [threading.Thread(target=writer.call, args=(hold,))]
    threads[0].start()
    assert busy.wait(10)
    for place in range(len(jobs)):
        threads.append(threading.Thread(target=ask, args=(place,)))
        threads[-1].start()
        while writer._jobs.qsize() <= place:
            pass
    go.set()
    for thread in threads:
        thread.join()
    return raised


def test_jobs_that_wait_share_a_commit(tmp_path: Path) -> None:
    """Ten jobs asked for while one runs take one transaction between them."""
    writer = Writer(tmp_path / "db")
    statements: list[str] = []
    writer.outside(lambda c: c.set_trace_callback(statements.append))
    assert together(writer, [put(str(n)) for n in range(10)]) == [None] * 10
    writer.outside(lambda c: c.set_trace_callback(None))
    assert writer.call(count) == 10
    assert statements.count("COMMIT") == 2
    writer.close()


def test_a_job_that_raises_is_undone_alone(tmp_path: Path) -> None:
    """One bad job in a shared commit gets its own error and leaves the others' work in place."""
    writer = Writer(tmp_path / "db")

    def half_done(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO state VALUES ('half', '0')")
        raise ZeroDivisionError

    raised = together(writer, [put("a"), half_done, put("b"), put("a")])
    assert [type(error) for error in raised] == [type(None), ZeroDivisionError, type(None), sqlite3.IntegrityError]
    assert writer.call(lambda c: c.execute("SELECT name FROM state ORDER BY name").fetchall()) == [("a",), ("b",)]
    writer.close()


def test_a_job_alone_that_raises_is_undone(tmp_path: Path) -> None:
    """The same without others to share with."""
    writer = Writer(tmp_path / "db")
    with pytest.raises(sqlite3.IntegrityError):
        writer.call(lambda c: [c.execute("INSERT INTO state VALUES ('a', '0')") for _ in range(2)])
    assert writer.call(count) == 0
    writer.close()


def test_what_must_last_is_synced(tmp_path: Path) -> None:
    """A commit with a durable job in it is synced to the disk; one without is not."""
    writer = Writer(tmp_path / "db")
    level = lambda c: c.execute("PRAGMA synchronous").fetchone()[0]  # noqa: E731
    assert writer.call(level) == 2
    assert writer.call(level, durable=False) == 1
    assert writer.call(level, durable=True) == 2
    writer.close()


def test_close_finishes_what_was_asked_for(tmp_path: Path) -> None:
    """Jobs that were queued before the close are done."""
    writer = Writer(tmp_path / "db")
    threads = [threading.Thread(target=writer.call, args=(put(str(n)),)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    writer.close()
    again = Writer(tmp_path / "db")
    assert again.call(count) == 20
    again.close()
