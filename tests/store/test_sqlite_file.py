"""The database file: how it is opened, refused, and what it keeps to itself."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from monitor.model.run import Query
from monitor.store.protocol import StoreTooNew, StoreUnwritable
from monitor.store.sqlite import SqliteStore
from monitor.store.sqlite.connections import open_for_writing
from monitor.store.sqlite.migrations import MIGRATIONS
from monitor.store.sqlite.space import give_back
from tests.contracts.store_material import SECRET, T0, draw_and_claim, invocation, settlement, verdict_of

ROOT = Path(__file__).parents[2]


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    """A database of a later rubricd is not touched, and the message names both versions."""
    SqliteStore(tmp_path).close()
    with sqlite3.connect(tmp_path / "rubricd.db") as newer:
        newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 3}")
    newer.close()
    with pytest.raises(StoreTooNew, match=rf"rubricd\.db.*version {len(MIGRATIONS) + 3}.*up to {len(MIGRATIONS)}"):
        SqliteStore(tmp_path)


def test_a_failed_migration_leaves_the_database_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A migration whose last statement fails undoes all of it, and the old program opens the database again."""
    SqliteStore(tmp_path).close()
    broken = (*MIGRATIONS, "CREATE TABLE added (n INTEGER) STRICT;\nINSERT INTO nowhere VALUES (1);\n")
    with monkeypatch.context() as patch:
        patch.setattr("monitor.store.sqlite.migrations.MIGRATIONS", broken)
        with pytest.raises(sqlite3.OperationalError):
            SqliteStore(tmp_path)
    connection = open_for_writing(tmp_path / "rubricd.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert connection.execute("SELECT name FROM sqlite_master WHERE name = 'added'").fetchone() is None
    connection.close()


def test_an_older_database_is_migrated_with_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with one more migration finds the data of the older one, migrated once."""
    store = SqliteStore(tmp_path)
    store.save_traces([settlement(invocation())])
    store.close()
    more = (*MIGRATIONS, "ALTER TABLE traces ADD COLUMN added INTEGER NOT NULL DEFAULT 7;\n")
    monkeypatch.setattr("monitor.store.sqlite.migrations.MIGRATIONS", more)
    for _ in range(2):
        store = SqliteStore(tmp_path)
        assert store.invocation(invocation().id) == invocation()
        store.close()
    with sqlite3.connect(tmp_path / "rubricd.db") as connection:
        assert connection.execute("SELECT added FROM traces").fetchall() == [(7,)]
    connection.close()


def test_two_programs_may_create_the_database_at_once(tmp_path: Path) -> None:
    """Processes that open an empty folder at the same time agree on one schema."""
    code = f"from pathlib import Path; from monitor.store.sqlite import SqliteStore; SqliteStore(Path({str(tmp_path)!r})).close()"
    children = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.PIPE) for _ in range(3)]
    assert [(child.communicate()[1], child.returncode) for child in children] == [(b"", 0)] * 3


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Where a file is in the way of the folder, the message names folder and user id."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnwritable, match=rf"{tmp_path}/file/data cannot be written by user id {os.getuid()}"):
        SqliteStore(tmp_path / "file" / "data")


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    """A file of something else is left alone."""
    (tmp_path / "rubricd.db").write_bytes(b"something else entirely\n" * 100)
    with pytest.raises(StoreUnwritable, match="no database"):
        SqliteStore(tmp_path)
    assert (tmp_path / "rubricd.db").read_bytes().startswith(b"something else")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can take another user id")
def test_a_read_only_folder_is_named_with_the_user(tmp_path: Path) -> None:
    """A folder of somebody else: the error says which folder and as whom we tried."""
    SqliteStore(tmp_path).close()
    for path in [tmp_path, *tmp_path.parents]:
        if path != Path("/tmp") and path != Path("/"):
            path.chmod(0o755)
    (tmp_path / "rubricd.db").chmod(0o644)
    code = textwrap.dedent(f"""
        import os
        from pathlib import Path
        from monitor.store.sqlite import SqliteStore
        from monitor.store.protocol import StoreUnwritable
        os.setgid(10001); os.setuid(10001)
        try:
            SqliteStore(Path({str(tmp_path)!r}))
        except StoreUnwritable as error:
            print(error)
    """)
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"folder {tmp_path} cannot be written by user id 10001" in found.stdout
    assert found.stdout.count("\n") == 1


def test_a_full_disk_stores_nothing_and_recovers(tmp_path: Path) -> None:
    """When there is no space the whole transaction fails with StoreUnwritable; reading goes on, and so does writing once there is."""
    store = SqliteStore(tmp_path)
    store.save_traces([settlement(invocation("a"))])
    pages = store._writer.call(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
    store._writer.outside(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchall())
    noise = "".join(f"{n:x}" for n in range(100_000))
    with pytest.raises(StoreUnwritable, match=rf"{tmp_path}.*disk is full"):
        store.save_traces([settlement(invocation("b", final_response=noise))])
    assert store.invocation(invocation("b").id) is None
    assert store.invocation(invocation("a").id) is not None
    store._writer.outside(lambda c: c.execute("PRAGMA max_page_count = 1000000").fetchall())
    store.save_traces([settlement(invocation("b", final_response=noise))])
    store.check_writable()
    assert store.invocation(invocation("b").id) is not None
    store.close()


def test_a_damaged_database_is_told(tmp_path: Path) -> None:
    """Pages overwritten with noise give StoreUnwritable when they are read, not an error of SQLite's."""
    store = SqliteStore(tmp_path)
    store.save_traces([settlement(invocation(str(n))) for n in range(50)])
    store.close()
    path = tmp_path / "rubricd.db"
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreUnwritable, match="damaged"):
        SqliteStore(tmp_path).list_invocations(Query())


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """After close nothing is read or written, and nobody waits for ever."""
    store = SqliteStore(tmp_path)
    store.close()
    with pytest.raises(StoreUnwritable, match="closed"):
        store.tallies()
    with pytest.raises(StoreUnwritable, match="closed"):
        store.check_writable()


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    """Folder and database are private, whatever the umask: they hold what people wrote."""
    before = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "data")
        store.save_traces([settlement(invocation())])
        modes = {
            path.name: stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "data", *(tmp_path / "data").iterdir()]
        }
    finally:
        os.umask(before)
    store.close()
    assert modes.pop("data") == 0o700
    assert set(modes) >= {"rubricd.db", "rubricd.db-wal"}
    assert set(modes.values()) == {0o600}


def test_forgotten_text_is_in_no_file(tmp_path: Path) -> None:
    """What was forgotten is overwritten: it is in neither the database nor the write-ahead log, compressed or not."""
    marks = {name: name.encode() * 30 for name in ("answer-mark", "spans-mark", "verdict-mark")}
    store = SqliteStore(tmp_path)
    for n in range(5):
        store.save_traces([settlement(invocation(f"other{n}"))])
    one = invocation("one", final_response="\x01".join(f"answer-mark-{n * n * 7919 % 99991}" for n in range(600)))
    store.save_traces([settlement(one, spans=os.urandom(3_000) + marks["spans-mark"][:11])])
    blobs = store._writer.call(
        lambda c: [
            c.execute("SELECT body FROM invocation_content ORDER BY invocation DESC LIMIT 1").fetchone()[0],
            c.execute("SELECT body FROM trace_spans ORDER BY trace DESC LIMIT 1").fetchone()[0],
        ]
    )
    traces = [blob[200:260] for blob in blobs]

    def present() -> list[bool]:
        whole = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        return [piece in whole for piece in traces]

    assert present() == [True, True]
    store.forget(trace_id=one.trace_id)
    assert present() == [False, False]
    store.close()
    assert present() == [False, False]


def test_the_file_shrinks_after_the_retention(tmp_path: Path) -> None:
    """Space of erased content is given back to the disk."""
    store = SqliteStore(tmp_path)
    for n in range(60):
        store.save_traces([settlement(invocation(str(n)), spans=os.urandom(60_000))])
    store.expire(T0 + 1, 1e9, 1e9, None)
    before = (tmp_path / "rubricd.db").stat().st_size
    store.expire(T0 + 100, 1, 1e9, None)
    after = (tmp_path / "rubricd.db").stat().st_size
    store.close()
    assert before > 3_000_000
    assert after < before / 5


def test_free_pages_are_given_back_by_the_thousand(tmp_path: Path) -> None:
    """One step gives back all of a thousand pages, not one: retention would else take minutes."""
    store = SqliteStore(tmp_path)
    store.save_traces([settlement(invocation(), spans=os.urandom(8_000_000))])
    store.forget(trace_id=invocation().trace_id)
    assert store._writer.call(lambda c: c.execute("PRAGMA freelist_count").fetchone()[0]) > 900
    assert store._writer.outside(give_back) == 0
    store.close()


def test_a_reader_sees_one_moment(tmp_path: Path) -> None:
    """What is committed while a snapshot is open is not in it, and readers do not hold up the writer."""
    store = SqliteStore(tmp_path)
    with store._reads.snapshot() as connection:
        assert connection.execute("SELECT count(*) FROM invocations").fetchone() == (0,)
        store.save_traces([settlement(invocation())])
        assert connection.execute("SELECT count(*) FROM invocations").fetchone() == (0,)
    with store._reads.snapshot() as connection:
        assert connection.execute("SELECT count(*) FROM invocations").fetchone() == (1,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM invocations")
    store.close()


def test_a_scan_of_a_large_table_is_not_needed(tmp_path: Path) -> None:
    """The statements that run all the time go by an index, whatever the tables have grown to."""
    store = SqliteStore(tmp_path)
    evaluations = draw_and_claim(store, *(invocation(str(n)) for n in range(30)))
    store.finish_evaluations([(one, verdict_of(one)) for one in evaluations[:10]])
    seen: list[str] = []
    store._writer.outside(lambda c: c.set_trace_callback(seen.append))
    store.save_traces([settlement(invocation(str(n)), monitors=("m",)) for n in range(30, 33)])
    store.claim_evaluations(5, T0 + 1_000, 60)
    store.drop_unwanted_content(5)
    store.cut_run("m", T0 + 60, lambda strata, drawn, taken: (strata, drawn), T0)
    store.expire(T0, 1, 1, None)
    store._writer.outside(lambda c: c.set_trace_callback(None))
    seen = [
        statement for statement in seen if statement.lstrip().split()[0] in ("SELECT", "UPDATE", "DELETE", "INSERT")
    ]
    plans = store._writer.call(
        lambda c: {
            text: [row[3] for row in c.execute(f"EXPLAIN QUERY PLAN {text}")] for text in seen if "?" not in text
        }
    )
    store.close()
    large = ("invocations", "evaluations", "verdicts", "decisions", "traces", "waiting", "content", "spans")
    scans = {text: step for text, steps in plans.items() for step in steps if step.startswith("SCAN") and "USING" not in step
             and any(name in step for name in large)}  # fmt: skip
    assert len(plans) > 20
    assert scans == {}


def test_the_secret_is_in_content_tables_only(tmp_path: Path) -> None:
    """No column outside the three tables of content holds what was said, nor do errors."""
    store = SqliteStore(tmp_path)
    evaluations = draw_and_claim(store, invocation("a"), invocation("b", error=f"failed for {SECRET}"))
    store.finish_evaluations([(one, verdict_of(one)) for one in evaluations])
    store.forget(trace_id=invocation("a").trace_id)
    store.forget(trace_id=invocation("b").trace_id)

    def everything(connection: sqlite3.Connection) -> str:
        names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return "".join(repr(connection.execute(f"SELECT * FROM {name}").fetchall()) for name in names)

    whole = store._writer.call(everything)
    store.close()
    assert invocation("a").id in whole
    assert SECRET not in whole


def test_a_long_reader_holds_up_no_writing(tmp_path: Path) -> None:
    """Retention and forgetting wait for a reader only a moment; what they erased leaves the log once no reader is in the way."""
    store, log = SqliteStore(tmp_path), tmp_path / "rubricd.db-wal"
    store.save_traces([settlement(invocation())])
    began = time.monotonic()
    with store._reads.snapshot() as connection:
        connection.execute("SELECT count(*) FROM invocations").fetchone()
        store.set_state("newer", 1)
        assert store.forget(trace_id=invocation().trace_id) == 1
        for _ in range(3):
            store.expire(T0, 1e6, 1e6, 10**12)
        store.check_writable()
        assert log.stat().st_size > 0
    assert time.monotonic() - began < 5.0  # a busy timeout of SQLite is 10 s
    store.expire(T0, 1e6, 1e6, 10**12)
    assert log.stat().st_size == 0
    store.set_state("newer", 2)
    store.expire(T0, 1e6, 1e6, 10**12)
    assert log.stat().st_size > 0  # nothing was erased: no need to hold up writers
    store.close()
