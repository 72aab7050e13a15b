"""A real Prometheus scrapes a page full of hostile label text, with exemplars."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from monitor.clock import SystemClock
from monitor.exporters.prometheus.labels import clean
from monitor.model.tallies import TallyName
from monitor.model.verdict import Outcome
from tests.exporters.figures import TRACE, Exporter, FigureStore, Seen, watched
from tests.support.daemon import wait_for
from tests.support.prometheus import Prometheus

HOSTILE = [
    '"',
    "\\",
    '\\"',
    "a\nb",
    "{",
    "},",
    "# EOF",
    " ",
    "é" * 80,
    "\ud83d",
    "\u2028",
    "\x00",
    "agent='x'",
    "😀" * 64,
]


@pytest.mark.service
def test_a_real_prometheus_takes_the_page(tmp_path: Path, required_program: Callable[[str, str], str]) -> None:
    """The target is up, every agent is told apart under its cleaned name, and the exemplar is found by Prometheus."""
    program = required_program("prometheus", "apt-get install prometheus")
    store = FigureStore(SystemClock())  # type: ignore[arg-type]
    for agent in HOSTILE:
        store.judge("m", Seen(agent, store.clock.now(), Outcome.FAIL, agent_version=agent, environment=agent))
        store.count(TallyName.SCORE_BUCKET, le="0.5", monitor="m", rubric="tone", agent=agent)
    exporter = Exporter(store, watched("tone"))

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, kind = exporter.exposition.page(self.headers.get("Accept", ""))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    prometheus = Prometheus(program, tmp_path, f"127.0.0.1:{server.server_port}")
    try:
        wait_for(lambda: prometheus.value("up") is not None, "a first scrape")
        assert prometheus.value("up") == 1.0
        found = prometheus.api("query", query='rubricd_verdicts_total{verdict="fail"}')["result"]
        assert {series["metric"]["agent"] for series in found} == {clean(agent) for agent in HOSTILE}
        assert sum(float(series["value"][1]) for series in found) == len(HOSTILE)
        assert prometheus.value("count(rubricd_pass_rate_upper_ratio)") == 3 * len({clean(agent) for agent in HOSTILE})
        assert prometheus.value('sum(rubricd_score_bucket{le="+Inf"})') == len(HOSTILE)
        exemplars = prometheus.api("query_exemplars", query="rubricd_verdicts_total", start="0", end="9999999999")
        labels = [exemplar["labels"] for series in exemplars for exemplar in series["exemplars"]]
        assert labels
        assert all(one == {"trace_id": TRACE} for one in labels)
    finally:
        prometheus.stop()
        server.shutdown()
        thread.join()
        server.server_close()
