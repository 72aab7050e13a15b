"""The main job with real parts: SDK exporters, a daemon process, an OpenAI-compatible judge, and a real Prometheus where one is installed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

from tests.support.agents import provider, run_agent
from tests.support.daemon import Daemon, wait_for
from tests.support.judge_server import MARKER, JudgeServer, judge_server
from tests.support.prometheus import Prometheus

RUBRICS = [
    {"name": "party_size_limit", "kind": "check",
     "expect": {"tool_arguments": {"tool": "book_table", "schema": {"properties": {"party_size": {"maximum": 8}}}}}},
    {"name": "polite", "statement": "The answer never blames the user."},
]  # fmt: skip


def configuration(judge: JudgeServer, **sections: Any) -> dict[str, Any]:
    """A monitor with a deterministic and a judged rubric, run every second."""
    return {
        "judges": {"default": {"model": "judge-model", "base_url": judge.url, "timeout": "3s", "max_attempts": 4}},
        "rubrics": RUBRICS,
        "monitors": {
            "bookings": {
                "rubrics": {"party_size_limit": {"objective": 0.95}, "polite": {}},
                "sample": {"rate": 1.0, "max_per_hour": 10_000_000},
                "schedule": {"every": "1s", "catch_up": 100},
                "windows": ["1h"],
            }
        },
        **sections,
    }


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A judge that passes every record without the marker word."""
    with judge_server() as server:
        yield server


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Daemon]]:
    """Daemons started in the test; those still running at its end are killed."""
    daemons: list[Daemon] = []
    yield daemons
    for daemon in daemons:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.kill()


def send_runs(daemon: Daemon, good: int, bad: int) -> set[str]:
    """Runs of one agent over both transports in turn; bad ones book for too many and hold the marker word."""
    exporters = (
        GrpcExporter(endpoint=f"127.0.0.1:{daemon.grpc_port}", insecure=True),
        HttpExporter(endpoint=f"http://127.0.0.1:{daemon.http_port}/v1/traces"),
    )
    providers = [provider(exporter) for exporter in exporters]
    ids = set()
    for number in range(good + bad):
        size, answer = (4, "Done, a table for four.") if number < good else (12, f"Your fault. {MARKER}")
        tool = {"name": "book_table", "arguments": {"party_size": size}}
        ids.add(run_agent(providers[number % 2], "shop-bot", "A table, please.", answer, tool))
    for made in providers:
        made.shutdown()
    return ids


def judged(daemon: Daemon, count: int) -> bool:
    """Whether that many verdicts of either rubric are stored."""
    verdicts = daemon.items("/api/v1/verdicts?since=1h")
    return len(verdicts) >= 2 * count


def test_spans_become_pass_rates(tmp_path: Path, judge: JudgeServer, started: list[Daemon]) -> None:
    """Twelve runs over gRPC and HTTP, three of them bad, give both rubrics a pass rate of 0.75, one verdict each, and counted series."""
    daemon = Daemon(tmp_path, configuration(judge)).start()
    started.append(daemon)
    ids = send_runs(daemon, good=9, bad=3)
    wait_for(lambda: judged(daemon, 12), "all verdicts")
    verdicts = daemon.items("/api/v1/verdicts?since=1h")
    assert {verdict["trace_id"] for verdict in verdicts} == ids
    assert len(verdicts) == 24
    assert judge.count == 12
    rates = {rate["rubric"]: rate for rate in daemon.get("/api/v1/monitors")["items"][0]["pass_rates"]}
    assert rates["party_size_limit"]["rate"] == pytest.approx(0.75)
    assert rates["polite"]["rate"] == pytest.approx(0.75)
    assert rates["polite"]["lower"] == pytest.approx(0.4281, abs=1e-3)  # exact, 9 of 12
    wait_for(lambda: daemon.metric("rubricd_verdicts_total", verdict="fail") == 6, "the failures to be counted")
    assert daemon.metric("rubricd_verdicts_total", verdict="pass") == 18
    assert daemon.metric("rubricd_spans_received_total") == 36
    assert daemon.metric("rubricd_pass_rate_ratio", rubric="polite", agent="shop-bot", window="1h") == pytest.approx(
        0.75
    )
    assert daemon.stop() == 0


@pytest.mark.service
def test_prometheus_shows_the_pass_rate(
    tmp_path: Path, judge: JudgeServer, started: list[Daemon], required_program: Any
) -> None:
    """A real Prometheus scrapes the daemon: PromQL over the counters and the gauge both give the expected pass rate, with exemplars of failures."""
    program = required_program("prometheus", "apt-get install prometheus")
    daemon = Daemon(tmp_path, configuration(judge, metrics={"zero_for": "4s"})).start()
    started.append(daemon)
    prometheus = Prometheus(program, tmp_path / "prometheus", f"127.0.0.1:{daemon.server_port}")
    try:
        wait_for(
            lambda: prometheus.value("up") == 1, "the first scrape: targets are discovered some seconds after the start"
        )
        send_runs(daemon, good=9, bad=3)
        by_rubric = 'rubric="party_size_limit"'
        gauge = f"rubricd_pass_rate_ratio{{{by_rubric}}}"
        wait_for(lambda: prometheus.value(gauge) == pytest.approx(0.75), "the gauge in Prometheus")
        ratio = (
            f'sum(increase(rubricd_verdicts_total{{{by_rubric},verdict="pass"}}[5m]))'
            f' / sum(increase(rubricd_verdicts_total{{{by_rubric},verdict=~"pass|fail"}}[5m]))'
        )
        wait_for(
            lambda: prometheus.value(ratio) == pytest.approx(0.75),
            "the ratio of increases: series were seen at 0 first",
        )
        now = time.time()
        exemplars = prometheus.api(
            "query_exemplars", query="rubricd_verdicts_total", start=str(now - 600), end=str(now + 60)
        )
        failing = {item["trace_id"] for item in daemon.items("/api/v1/verdicts?since=1h&verdict=fail")}
        shown = {one["labels"]["trace_id"] for series in exemplars for one in series["exemplars"]}
        assert shown
        assert shown <= failing
        assert prometheus.value("up") == 1
    finally:
        prometheus.stop()


@pytest.mark.parametrize(
    "script", [["rate_limited", "server_error", "drop"], ["hung"]], ids=["429, 500, dropped", "slow"]
)
def test_a_judge_in_trouble_is_asked_again(
    tmp_path: Path, judge: JudgeServer, started: list[Daemon], script: list[str]
) -> None:
    """429, 500, a dropped connection and a hung call end in one verdict each all the same, and none counts as a fail of the agent."""
    judge.script = script
    daemon = Daemon(tmp_path, configuration(judge)).start()
    started.append(daemon)
    send_runs(daemon, good=2, bad=0)
    wait_for(lambda: judged(daemon, 2), "all verdicts", 60)
    verdicts = daemon.items("/api/v1/verdicts?since=1h")
    assert [verdict["verdict"] for verdict in verdicts] == ["pass"] * 4
    assert judge.count >= 2 + len(script)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("garbage", "unparseable"),
        ("refusal", "refused"),
        ("empty", "empty_reply"),
        ("truncated", "truncated"),
        ("out_of_range", "out_of_range"),
    ],
)
def test_a_judge_that_fails_is_not_an_agent_that_fails(
    tmp_path: Path, judge: JudgeServer, started: list[Daemon], mode: str, reason: str
) -> None:
    """Garbage, refusals, empty, torn and out-of-range answers are evaluation errors with their reason: no verdict, no pass rate, no fail."""
    if mode == "out_of_range":
        reason = "unparseable"  # a word that is no answer of a yes/no property
    judge.mode = mode
    daemon = Daemon(tmp_path, configuration(judge)).start()
    started.append(daemon)
    send_runs(daemon, good=1, bad=0)
    failed = wait_for(lambda: daemon.items("/api/v1/evaluations?state=error"), "the failed evaluation")
    assert [item["error"]["type"] for item in failed] == [reason]
    assert daemon.items("/api/v1/verdicts?since=1h&rubric=polite") == []
    assert daemon.metric("rubricd_evaluation_errors_total", rubric="polite", reason=reason) == 1
    assert daemon.metric("rubricd_pass_rate_ratio", rubric="polite") is None
    assert daemon.status("/readyz") == 200


def test_an_unreachable_judge_is_shown_and_loses_nothing(
    tmp_path: Path, judge: JudgeServer, started: list[Daemon]
) -> None:
    """With nobody at the judge's address intake and deterministic rubrics go on; once it is up the waiting evaluations are judged."""
    from tests.support.daemon import free_port

    port = free_port()
    sections = configuration(judge)
    sections["judges"]["default"] |= {"base_url": f"http://127.0.0.1:{port}/v1", "max_attempts": 20}
    daemon = Daemon(tmp_path, sections).start()
    started.append(daemon)
    send_runs(daemon, good=2, bad=0)
    wait_for(
        lambda: len(daemon.items("/api/v1/verdicts?since=1h&rubric=party_size_limit")) == 2, "deterministic verdicts"
    )
    assert daemon.status("/readyz") == 200
    assert daemon.metric("rubricd_evaluations_pending", monitor="bookings") == 2
    with judge_server(port=port):
        wait_for(lambda: judged(daemon, 2), "the waiting evaluations", 60)


def test_own_results_sent_back_do_not_loop(tmp_path: Path, judge: JudgeServer, started: list[Daemon]) -> None:
    """The exporter of evaluation results is pointed at the daemon's own receiver: records come, are dropped, and nothing is judged for them."""
    daemon = Daemon(tmp_path, {})
    sections = configuration(
        judge, exporters={"otlp": {"endpoint": f"127.0.0.1:{daemon.grpc_port}", "protocol": "grpc", "insecure": True}}
    )
    daemon.write(sections)
    daemon.start()
    started.append(daemon)
    send_runs(daemon, good=3, bad=0)
    wait_for(lambda: judged(daemon, 3), "all verdicts")
    wait_for(
        lambda: (daemon.metric("rubricd_spans_dropped_total", reason="own_telemetry") or 0) >= 6,
        "own records to be dropped",
    )
    assert len(daemon.items("/api/v1/invocations?since=1h")) == 3
    assert daemon.metric("rubricd_open_traces") == 0
    assert len(daemon.items("/api/v1/verdicts?since=1h")) == 6


def test_explain_says_why(tmp_path: Path, judge: JudgeServer, started: list[Daemon]) -> None:
    """`rubricd explain` tells the verdicts of a judged trace, and of an unknown one that nothing is stored."""
    import subprocess
    import sys

    daemon = Daemon(tmp_path, configuration(judge)).start()
    started.append(daemon)
    (trace_id,) = send_runs(daemon, good=0, bad=1)
    wait_for(lambda: judged(daemon, 1), "all verdicts")

    def explain(which: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "monitor", "explain", which, "--server", daemon.url],
            capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False,
        )  # fmt: skip

    told = explain(trace_id)
    assert told.returncode == 0, told.stderr
    assert "bookings: drawn for judging" in told.stdout
    assert "party_size_limit: fail" in told.stdout
    unknown = explain("0" * 31 + "1")
    assert unknown.returncode == 1
    assert "no invocation of this trace is stored" in unknown.stderr
