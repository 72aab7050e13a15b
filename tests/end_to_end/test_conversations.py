"""Conversations with real parts: turns of real SDKs, a daemon that is killed in the middle, a judge, and two monitors on the same traffic."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from tests.support.agents import provider, run_agent
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import MARKER, JudgeServer, judge_server

TALK = "order/7 & more"
NAME = f"conversation:{TALK}"
RUBRICS = [
    {"name": "booked_once", "kind": "check", "expect": {"tool_order": {"mode": "exact", "calls": ["book_table"]}}},
    {"name": "polite", "statement": "The answer never blames the user."},
]


def configuration(judge: JudgeServer, idle: str) -> dict[str, Any]:
    """A monitor of invocations and one of conversations, both run every second; a conversation is complete after so much silence."""
    monitor: dict[str, Any] = {
        "sample": {"max_per_hour": 10_000_000},
        "schedule": {"every": "1s", "catch_up": 100},
        "windows": ["1h"],
    }
    return {
        "assembly": {"settle_after": "200ms", "idle_timeout": "2s", "conversation_idle": idle},
        "judges": {"default": {"model": "judge-model", "base_url": judge.url, "timeout": "5s"}},
        "rubrics": RUBRICS,
        "monitors": {
            "turns": {**monitor, "rubrics": ["booked_once"]},
            "talks": {**monitor, "rubrics": ["booked_once", "polite"], "level": "conversation"},
        },
    }


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A judge that passes every record without the marker word."""
    with judge_server() as server:
        yield server


@pytest.fixture
def daemon(tmp_path: Path, judge: JudgeServer) -> Iterator[Daemon]:
    """A daemon that is killed at the end, if it still runs."""
    made = Daemon(tmp_path, configuration(judge, "1h")).start()
    yield made
    if made.process is not None and made.process.poll() is None:
        made.kill()


def say(daemon: Daemon, question: str, answer: str, *, talk: str = TALK, books: bool = False) -> str:
    """One turn; its trace id."""
    tracers = provider(OTLPSpanExporter(endpoint=f"http://127.0.0.1:{daemon.http_port}/v1/traces"))
    tool = {"name": "book_table", "arguments": {"party_size": 4}} if books else None
    trace_id = run_agent(tracers, "shop-bot", question, answer, tool, talk)
    tracers.shutdown()
    return trace_id


def verdicts(daemon: Daemon, monitor: str) -> list[dict[str, Any]]:
    """What a monitor has said lately."""
    return daemon.items(f"/api/v1/verdicts?since=1h&monitor={monitor}")


def records(judge: JudgeServer) -> list[str]:
    """What the judge was shown."""
    return [body["messages"][1]["content"] for body in judge.requests]


def explained(daemon: Daemon, trace_id: str) -> str:
    """What `rubricd explain` prints."""
    done = subprocess.run(
        [sys.executable, "-m", "monitor", "explain", trace_id, "--server", daemon.url],
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True,
    )  # fmt: skip
    return done.stdout


def test_a_conversation_is_judged_whole(daemon: Daemon, judge: JudgeServer) -> None:
    """Two turns with a kill between them are one verdict a rubric, at the last turn; a late turn replaces it and is counted once; the monitor
    of invocations judges each turn on its own; explain, API and forget know the conversation.
    """
    first = say(daemon, "A table for four.", "Which day?")
    other = say(daemon, "Hello.", "Hi.", talk="other")
    wait_for(lambda: len(daemon.items("/api/v1/invocations?since=1h")) == 2, "the first turns")
    assert f"talks: {NAME}: waits: the conversation is not complete yet: 1 turn so far" in explained(daemon, first)
    daemon.kill()
    daemon.start()
    last = say(daemon, "Friday.", "Booked.", books=True)
    wait_for(lambda: len(daemon.items("/api/v1/invocations?since=1h")) == 3, "the last turn")
    daemon.write(configuration(judge, "1s"))
    assert daemon.status("/-/reload", "POST") == 200
    wait_for(lambda: len(verdicts(daemon, "talks")) == 4, "verdicts of both conversations")
    found = {one["rubric"]: one for one in verdicts(daemon, "talks") if one["invocation_id"] == NAME}
    assert {name: one["verdict"] for name, one in found.items()} == {"booked_once": "pass", "polite": "pass"}
    assert {(one["trace_id"], one["conversation_id"], one["revision"]) for one in found.values()} == {(last, TALK, 1)}
    record = next(text for text in records(judge) if "Which day?" in text)
    assert "turn 2 of 2" in record
    assert "Friday." in record
    whole = daemon.get(f"/api/v1/invocations/{quote(NAME, safe='')}")
    assert [turn["trace_id"] for turn in whole["turns"]] == [first, last]
    assert (whole["user_input"], whole["final_response"]) == ("A table for four.", "Booked.")

    late = say(daemon, "Once more, please.", f"Your fault. {MARKER}", books=True)
    wait_for(lambda: [one["revision"] for one in verdicts(daemon, "talks")].count(2) == 2, "the revision", 40)
    found = {one["rubric"]: one for one in verdicts(daemon, "talks") if one["invocation_id"] == NAME}
    assert {name: one["verdict"] for name, one in found.items()} == {"booked_once": "fail", "polite": "fail"}
    assert {one["trace_id"] for one in found.values()} == {late}

    wait_for(lambda: len(verdicts(daemon, "turns")) == 4, "verdicts of all turns")
    assert {one["trace_id"]: one["verdict"] for one in verdicts(daemon, "turns")} == {
        first: "fail", other: "fail", last: "pass", late: "pass",
    }  # fmt: skip
    wait_for(lambda: daemon.metric("rubricd_verdicts_total", monitor="talks") == 4, "the count")
    assert daemon.metric("rubricd_verdicts_revised_total", monitor="talks", to="fail") == 2
    assert daemon.metric("rubricd_invocations_total") == 4
    assert daemon.metric("rubricd_pass_rate_ratio", monitor="talks", rubric="polite") == pytest.approx(0.5)
    told = explained(daemon, first)
    assert f"talks: {NAME}: drawn for judging" in told
    assert "polite: fail" in told
    (listed,) = daemon.items(f"/api/v1/invocations?level=conversation&conversation_id={quote(TALK)}")
    assert len(listed["turns"]) == 3
    assert daemon.get(f"/api/v1/invocations?conversation_id={quote(TALK)}")["items"][0]["id"].startswith(late)
    assert daemon.stop() == 0
