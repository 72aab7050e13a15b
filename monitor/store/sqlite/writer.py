"""The one writer: a thread that owns the writing connection and lets many small transactions share a commit."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from monitor.store.protocol import StoreTooNew, StoreUnwritable
from monitor.store.sqlite.connections import open_for_writing
from monitor.store.sqlite.faults import translated, unwritable

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

_JOBS_PER_COMMIT = 256


@dataclass(slots=True)
class _Job:
    work: Work[Any]
    durable: bool = True
    transaction: bool = True
    future: Future[Any] = field(default_factory=Future)


class Writer:
    """Runs functions of a connection, each as one transaction, and answers when they are committed.

    Functions that come while a commit is under way share the next one, each in a savepoint of its own: one that raises is
    undone alone. `durable` ones are on the disk when they return (synchronous = FULL): traces, because the journal is cut
    behind them, runs, because they are draws, and verdicts, because judges were paid. The others (claims, leases) survive the
    death of the process, but the last of them may be lost with the machine, which is harmless: such a claim is made again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = open_for_writing(path)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="store-writer", daemon=True)
        self._thread.start()

    def call(self, work: Work[Result], *, durable: bool = True) -> Result:
        """Run `work(connection)` as one transaction and return what it returned. Raises what it raised, or StoreUnwritable."""
        result: Result = self._ask(_Job(work, durable))
        return result

    def outside(self, work: Work[Result]) -> Result:
        """Run `work(connection)` on the writer's connection outside of a transaction: what SQLite cannot do within one."""
        result: Result = self._ask(_Job(work, transaction=False))
        return result

    def _ask(self, job: _Job) -> Any:
        with self._lock:
            if self._closed:
                raise unwritable(self._path, "it is closed")
            self._jobs.put(job)
        return job.future.result()

    def close(self) -> None:
        """Finish what was asked for and close; may be called twice."""
        with self._lock:
            closing, self._closed = not self._closed, True
        if closing:
            self._jobs.put(None)
        self._thread.join()

    def _serve(self) -> None:
        running = True
        while running:
            jobs, running = self._next_jobs()
            try:
                self._commit([job for job in jobs if job.transaction])
                self._run_outside([job for job in jobs if not job.transaction])
            except BaseException as error:
                _fail(jobs, error)
                self._recover()
        self._connection.close()

    def _next_jobs(self) -> tuple[list[_Job], bool]:
        """Wait for a job and take all that can share its commit; False when the writer is to end after them."""
        jobs: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == _JOBS_PER_COMMIT:
                return jobs, True
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, True
        return jobs, False

    def _commit(self, jobs: Sequence[_Job]) -> None:
        if not jobs:
            return
        connection = self._connection
        with translated(self._path):
            level = "FULL" if any(job.durable for job in jobs) else "NORMAL"
            connection.execute(f"PRAGMA synchronous = {level}")
            connection.execute("BEGIN IMMEDIATE")
            outcomes = [self._attempt(job, alone=len(jobs) == 1) for job in jobs]
            if connection.in_transaction:
                connection.execute("COMMIT")
        for job, (result, error) in zip(jobs, outcomes, strict=True):
            job.future.set_exception(error) if error else job.future.set_result(result)

    def _run_outside(self, jobs: Sequence[_Job]) -> None:
        for job in jobs:
            with translated(self._path):
                job.future.set_result(job.work(self._connection))

    def _attempt(self, job: _Job, *, alone: bool) -> tuple[Any, BaseException | None]:
        """Run one job; an error undoes it and nothing else, unless SQLite has already undone the whole transaction."""
        connection = self._connection
        if not alone:
            connection.execute("SAVEPOINT job")
        try:
            with translated(self._path):
                result = job.work(connection)
        except Exception as error:
            if not connection.in_transaction:
                raise
            connection.execute("ROLLBACK" if alone else "ROLLBACK TO job")
            if not alone:
                connection.execute("RELEASE job")
            return None, error
        if not alone:
            connection.execute("RELEASE job")
        return result, None

    def _recover(self) -> None:
        """Leave a failed transaction. A connection that cannot even roll back is replaced; when that fails, it is tried again next time."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            with suppress(StoreUnwritable, StoreTooNew):
                broken, self._connection = self._connection, open_for_writing(self._path)
                broken.close()


def _fail(jobs: Sequence[_Job], error: BaseException) -> None:
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(error)
