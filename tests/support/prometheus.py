"""A real Prometheus that scrapes one daemon, with rules and an Alertmanager where wanted, and PromQL answers from it."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.daemon import free_port, wait_for


class Prometheus:
    """One Prometheus process with its own folder and port, scraping every second with exemplars on."""

    def __init__(
        self, program: str, folder: Path, target: str, rules: Sequence[Path] = (), alertmanager: str | None = None
    ) -> None:
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        configuration: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file) for file in rules],
            "scrape_configs": [{"job_name": "rubricd", "static_configs": [{"targets": [target]}]}],
        }
        if alertmanager is not None:
            configuration["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
        (folder / "prometheus.yml").write_text(yaml.safe_dump(configuration))
        self._log = (folder / "prometheus.log").open("wb")
        self.process = subprocess.Popen(
            [
                program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{self.port}", "--enable-feature=exemplar-storage",
            ],
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        wait_for(self._ready, "Prometheus to be ready")

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def api(self, path: str, **parameters: str) -> Any:
        """The data of one API answer."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def value(self, query: str) -> float | None:
        """The single value of an instant query, None without a result."""
        result = self.api("query", query=query)["result"]
        assert len(result) <= 1, result
        return float(result[0]["value"][1]) if result else None

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(10)
        self._log.close()
