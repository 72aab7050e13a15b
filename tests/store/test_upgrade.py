"""An upgrade keeps the data: a store that the first program wrote, opened by this one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from monitor.model.verdict import Outcome
from monitor.store.sqlite import SqliteStore
from monitor.store.sqlite.finding import row_of
from tests.contracts.store_material import T0, figures, invocation, pages, verdict_of

FIRST = Path(__file__).parent / "first_schema.sql"


@pytest.fixture
def upgraded(tmp_path: Path) -> SqliteStore:
    """The old store in the new program's hands."""
    with sqlite3.connect(tmp_path / "rubricd.db") as old:
        old.executescript(FIRST.read_text(encoding="utf-8"))
        old.execute("PRAGMA user_version = 1")
    old.close()
    return SqliteStore(tmp_path)


def schema(file: Path) -> list[tuple[str, ...]]:
    """What the database consists of."""
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY 1, 2"
        )
        rows = found.fetchall()
    connection.close()
    return rows


def test_verdicts_tallies_and_content_are_there(upgraded: SqliteStore) -> None:
    """Pass rates, counters and invocations of before the upgrade read as they did, and detection finds the old first verdicts."""
    (group,) = upgraded.window_figures("m", [T0 - 60], T0 + 60).totals
    assert (group.totals.passed, group.totals.failed, group.totals.passed_weight) == (2, 1, 4.0)
    assert sum(figures(upgraded, "verdicts_total").values()) == 3
    assert upgraded.invocation(invocation("a").id) == invocation("a", ended_at=int(T0 * 1e9))
    (said, *_) = pages(upgraded.list_verdicts)
    assert said["explanation"].startswith("because of table for")
    (head, *_) = pages(upgraded.list_invocations)
    assert (head["user_input"], head["final_response"]) == ("table for Ada Lovelace", "Your table is booked.")
    assert [row.passed for row in upgraded.verdict_log(0, 10)].count(False) == 1
    upgraded.close()


def test_what_was_pending_is_judged_on(upgraded: SqliteStore) -> None:
    """The evaluation that the old program had claimed is given out when its claim has run out, and counts once."""
    (evaluation,) = upgraded.claim_evaluations(10, T0 + 10_000, 60)
    upgraded.finish_evaluations([(evaluation, verdict_of(evaluation, Outcome.PASS))])
    assert sum(figures(upgraded, "verdicts_total").values()) == 4
    assert upgraded.claim_evaluations(10, T0 + 20_000, 60) == ()
    upgraded.close()


def columns(file: Path) -> dict[str, list[tuple[object, ...]]]:
    """The columns of each table."""
    with sqlite3.connect(file) as connection:
        names = [name for kind, name, _ in schema(file) if kind == "table"]
        found = {name: connection.execute(f"SELECT * FROM pragma_table_info('{name}')").fetchall() for name in names}
    connection.close()
    return found


def test_the_schema_is_that_of_a_new_store(upgraded: SqliteStore, tmp_path: Path) -> None:
    """An upgraded database has every table, column and index of a fresh one, but for the index of ids, which a fresh one has of few."""
    upgraded.close()
    SqliteStore(tmp_path / "fresh").close()
    old, new = tmp_path / "rubricd.db", tmp_path / "fresh" / "rubricd.db"
    assert columns(old) == columns(new)
    differing = {name for _, name, _ in set(schema(old)) ^ set(schema(new))}
    assert differing == {"invocations", "invocations_by_trace", "invocations_elsewhere"}


def test_an_old_file_keeps_its_pages(upgraded: SqliteStore, tmp_path: Path) -> None:
    """Larger pages are for new files only: nothing is written anew by an upgrade."""
    upgraded.close()
    SqliteStore(tmp_path / "fresh").close()
    sizes = []
    for folder in (tmp_path, tmp_path / "fresh"):
        with sqlite3.connect(folder / "rubricd.db") as connection:
            sizes += connection.execute("PRAGMA page_size").fetchone()
        connection.close()
    assert sizes == [4096, 8192]


@pytest.mark.parametrize("kind", ["old", "new"])
def test_an_invocation_is_found_by_its_id_without_a_scan(upgraded: SqliteStore, tmp_path: Path, kind: str) -> None:
    """Neither kind of database reads whole tables, or whole traces, for an id."""
    upgraded.close()
    if kind == "new":
        SqliteStore(tmp_path / "new").close()
    with sqlite3.connect(tmp_path / ("" if kind == "old" else "new") / "rubricd.db") as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN SELECT {row_of('?1')}", ("a-b",)).fetchall()
    connection.close()
    steps = [step for *_, step in plan if "invocations" in step or "own" in step or "other" in step]
    assert len(steps) == 2
    assert all("SEARCH" in step and "id=?" in step for step in steps), steps
