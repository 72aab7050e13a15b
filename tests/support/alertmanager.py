"""A real Alertmanager that sends every alert to a webhook of the test."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.support.daemon import free_port, wait_for


class Webhook:
    """Receives what Alertmanager sends; `alerts` holds every alert of every notification, in order."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        webhook = self

        class Receiver(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                webhook.alerts.extend(body["alerts"])
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where to send alerts."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def firing(self, name: str, **labels: str) -> list[dict[str, Any]]:
        """The notifications that an alert of that name, and with these labels, fires."""
        return [
            alert
            for alert in self.alerts
            if alert["status"] == "firing"
            and alert["labels"]["alertname"] == name
            and all(alert["labels"].get(key) == value for key, value in labels.items())
        ]

    def stop(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Alertmanager:
    """One Alertmanager process on loopback that notifies at once and does not look for peers."""

    def __init__(self, program: str, folder: Path, webhook: str) -> None:
        self.port = free_port()
        folder.mkdir(parents=True, exist_ok=True)
        route = {"receiver": "test", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"}
        receivers = [{"name": "test", "webhook_configs": [{"url": webhook, "send_resolved": True}]}]
        (folder / "alertmanager.yml").write_text(yaml.safe_dump({"route": route, "receivers": receivers}))
        self._log = (folder / "alertmanager.log").open("wb")
        self.process = subprocess.Popen(
            [
                program, f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'data'}",
                f"--web.listen-address={self.address}", "--cluster.listen-address=",
            ],
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        wait_for(self._ready, "Alertmanager to be ready")

    @property
    def address(self) -> str:
        """Host and port, as Prometheus wants it."""
        return f"127.0.0.1:{self.port}"

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(10)
        self._log.close()
