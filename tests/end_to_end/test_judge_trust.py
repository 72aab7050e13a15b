"""Regressions and judge trust on a real daemon: an alarm that outlives kill -9, a golden set, verdicts asked for twice, labels to corrected rates."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from monitor.model.wire import invocation_json
from tests.contracts.store_material import invocation
from tests.support.agents import provider, run_agent
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import MARKER, JudgeServer, judge_server

GOOD, BAD = "Done, a table for four.", f"Your fault. {MARKER}"


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A judge that passes every record without the marker word."""
    with judge_server() as server:
        yield server


@pytest.fixture
def daemon(tmp_path: Path, judge: JudgeServer) -> Iterator[Daemon]:
    """A daemon that judges each run at once, asks twice for every verdict, and knows two golden cases, one of them labelled otherwise than judged."""
    golden = [("a", GOOD, "pass"), ("b", GOOD, "fail")]
    (tmp_path / "golden.jsonl").write_text(
        "\n".join(
            json.dumps(
                {"id": name, "rubric": "polite", "label": label,
                 "invocation": invocation_json(invocation(name, final_response=answer))}
            )
            for name, answer, label in golden
        )
    )  # fmt: skip
    made = Daemon(
        tmp_path,
        {
            "judges": {"default": {"model": "judge-model", "base_url": judge.url}},
            "rubrics": [{"name": "polite", "statement": "The answer never blames the user."}],
            "monitors": {
                "bookings": {
                    "rubrics": {"polite": {"objective": 0.9}},
                    "sample": {"rate": 1.0, "max_per_hour": 10_000_000},
                    "schedule": {"every": "1s"},
                    "windows": ["1h"],
                    "regression": {"false_alarm_every": 200},
                    "trust": {"judge_twice": 1.0, "golden": {"file": "golden.jsonl"}},
                }
            },
        },
    ).start()
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


def send(daemon: Daemon, answer: str, count: int) -> None:
    """Runs of one agent that all end with the same answer."""
    made = provider(OTLPSpanExporter(endpoint=f"http://127.0.0.1:{daemon.http_port}/v1/traces"))
    for _ in range(count):
        run_agent(made, "shop-bot", "A table, please.", answer, {"name": "book_table", "arguments": {"party_size": 4}})
    made.shutdown()


def labels(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`rubricd labels …` as a process of its own."""
    command = [sys.executable, "-m", "monitor", "labels", *arguments, "--server", daemon.url]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=Path(__file__).parents[2]
    )


def regression(daemon: Daemon) -> float | None:
    """The gauge of the one agent."""
    return daemon.metric("rubricd_regression", agent="shop-bot", rubric="polite")


def test_an_alarm_outlives_kill_9_and_ends_with_an_acknowledgement(daemon: Daemon) -> None:
    """Bad runs raise one alarm; after kill -9 it stands as it was; acknowledged, it is gone and the evidence with it."""
    send(daemon, GOOD, 5)
    send(daemon, BAD, 15)
    wait_for(lambda: regression(daemon) == 1, "the alarm")
    (alarm,) = daemon.items("/api/v1/regressions")
    assert (alarm["agent"], alarm["rubric"], alarm["state"]) == ("shop-bot", "polite", "open")
    assert alarm["dimension"]["id"] == "statement"
    assert 1 <= len(alarm["failing"]) <= 5  # those that were judged when it was raised
    evidence = wait_for(lambda: _settled(daemon), "all evidence to be read")
    daemon.kill()
    daemon.start()
    wait_for(lambda: regression(daemon) == 1, "the alarm after the restart")
    assert daemon.metric("rubricd_regression_log_evidence", agent="shop-bot") == pytest.approx(evidence)
    assert daemon.items("/api/v1/regressions") == [alarm]
    assert daemon.status(f"/api/v1/regressions/{alarm['id']}/ack", "POST") == 200
    wait_for(lambda: regression(daemon) == 0, "the acknowledgement")
    assert daemon.metric("rubricd_regression_started_timestamp_seconds", agent="shop-bot") is None


def _settled(daemon: Daemon) -> float | None:
    """The log evidence once all 20 verdicts are in it: of a failure each since the alarm."""
    if len(daemon.items("/api/v1/verdicts?since=1h")) < 20:
        return None
    first = daemon.metric("rubricd_regression_log_evidence", agent="shop-bot")
    state = daemon.metric("rubricd_verdicts_total", verdict="fail", agent="shop-bot")
    return first if state == 15 and first is not None and _same_again(daemon, first) else None


def _same_again(daemon: Daemon, value: float) -> bool:
    """Whether the evidence has stood still for some pages, each a second old at most."""
    seen: list[Any] = []

    def still() -> bool:
        seen.append(daemon.metric("rubricd_regression_log_evidence", agent="shop-bot"))
        return len(seen) >= 25

    wait_for(still, "some pages")
    return all(one == value for one in seen)


def test_from_verdicts_to_corrected_rates(daemon: Daemon, tmp_path: Path) -> None:
    """The judge agrees with itself, half with the golden set, and with people as far as they say; labels correct the pass rate."""
    send(daemon, GOOD, 30)
    send(daemon, BAD, 12)
    wait_for(lambda: len(daemon.items("/api/v1/verdicts?since=1h")) == 42, "all verdicts")
    drawn = labels(daemon, "sample", "--monitor", "bookings", "--rubric", "polite", "--size", "42")
    assert drawn.returncode == 0, drawn.stderr
    rows = list(csv.DictReader(io.StringIO(drawn.stdout)))
    assert len(rows) == 42
    for place, row in enumerate(rows):
        right = "fail" if MARKER in row["final_response"] else "pass"
        row["label"] = right if place % 10 else {"pass": "fail", "fail": "pass"}[right]
    file = tmp_path / "labelled.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in rows))
    assert labels(daemon, "import", str(file), "--labeler", "ada").stdout == "42 labels taken\n"
    report = json.loads(labels(daemon, "report", "--json").stdout)
    assert (report["labels"], report["refused"]) == (42, None)
    wait_for(
        lambda: daemon.metric("rubricd_pass_rate_corrected_ratio", rubric="polite") is not None, "a corrected rate"
    )
    for against, ratio in (("self", 1.0), ("golden", 0.5), ("human", 37 / 42)):
        wait_for(
            lambda kind=against: (
                daemon.metric("rubricd_judge_agreement_ratio", rubric="polite", against=kind) is not None
            ),
            f"agreement with {against}",
        )
        assert daemon.metric("rubricd_judge_agreement_ratio", rubric="polite", against=against) == pytest.approx(ratio)
