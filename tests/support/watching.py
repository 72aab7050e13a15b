"""A daemon under watch: real Prometheus with the rules generated for it, real Alertmanager, and a webhook at the end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from tests.support.agents import provider, run_agent
from tests.support.alertmanager import Alertmanager, Webhook
from tests.support.daemon import Daemon, wait_for
from tests.support.prometheus import Prometheus

ROOT = Path(__file__).resolve().parents[2]


class Run(NamedTuple):
    """A run to send: the party size that its tool call books, and the answer (None: none)."""

    party_size: int
    answer: str | None


@dataclass
class Watch:
    """A daemon and all that watches it."""

    daemon: Daemon
    prometheus: Prometheus
    webhook: Webhook

    def send(self, agent: str, runs: Iterable[Run]) -> None:
        """Runs of an agent through the OTLP port, exported by the SDK."""
        tracers = provider(OTLPSpanExporter(endpoint=f"http://127.0.0.1:{self.daemon.http_port}/v1/traces"), agent)
        for run in runs:
            tool = {"name": "book_table", "arguments": {"party_size": run.party_size}}
            run_agent(tracers, agent, "A table, please.", run.answer, tool)
        tracers.shutdown()

    def judged(self, agent: str, count: int, rubric: str = "party_size_limit") -> None:
        """Wait until Prometheus has seen that many verdicts of a rubric."""
        query = f'sum(rubricd_verdicts_total{{agent="{agent}",rubric="{rubric}"}})'
        wait_for(lambda: self.prometheus.value(query) == count, f"{count} verdicts of {agent}", 60)


@contextmanager
def watching_daemon(folder: Path, configuration: Mapping[str, Any]) -> Iterator[Watch]:
    """Start everything and wait for the first scrape; needs `prometheus` and `prometheus-alertmanager` on the path."""
    with ExitStack() as stack:
        daemon = Daemon(folder, configuration).start()
        stack.callback(daemon.kill)
        webhook = Webhook()
        stack.callback(webhook.stop)
        manager = Alertmanager("prometheus-alertmanager", folder / "alertmanager", webhook.url)
        stack.callback(manager.stop)
        rules = folder / "rubricd.rules.yml"
        rules.write_text(generated_rules(daemon.file), encoding="utf-8")
        target = f"127.0.0.1:{daemon.server_port}"
        prometheus = Prometheus("prometheus", folder / "prometheus", target, [rules], manager.address)
        stack.callback(prometheus.stop)
        wait_for(lambda: prometheus.value("up") == 1, "the first scrape")
        yield Watch(daemon, prometheus, webhook)


def generated_rules(file: Path) -> str:
    """What `rubricd rules` writes for a configuration."""
    command = [sys.executable, "-m", "monitor", "rules", "-c", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
