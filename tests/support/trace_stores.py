"""Real trace stores as processes of a test: Jaeger, Tempo and Phoenix, each on free ports with nothing kept."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.support.daemon import free_port, wait_for


class TraceStore:
    """A running store: `url` is its query API, `otlp` where spans are sent by OTLP over HTTP."""

    def __init__(
        self, command: list[str], folder: Path, url: str, otlp: str, ready: str, environment: Mapping[str, str]
    ) -> None:
        self.url, self.otlp = url, otlp
        self._log = (folder / "store.log").open("wb")
        self.process = subprocess.Popen(
            command, stdout=self._log, stderr=self._log, cwd=folder, env=dict(environment), stdin=subprocess.DEVNULL
        )
        try:
            wait_for(lambda: self._answers(ready), f"the store to be ready, see {folder / 'store.log'}", 90)
        except BaseException:
            self.stop()
            raise

    def _answers(self, ready: str) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the store ended with status {self.process.returncode}")
        try:
            with urllib.request.urlopen(ready, timeout=5) as answer:
                return int(answer.status) == 200
        except (OSError, urllib.error.HTTPError):
            return False

    def send(self, body: bytes) -> None:
        """Deliver an export request in protobuf."""
        request = urllib.request.Request(
            f"{self.otlp}/v1/traces", body, {"Content-Type": "application/x-protobuf"}, method="POST"
        )

        def sent() -> bool:
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return int(answer.status) == 200
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    raise
                return False
            except OSError:
                return False  # its receiver opens later than its query API

        wait_for(sent, "the store to take spans", 60)

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait(10)
        self._log.close()


def jaeger(program: str, folder: Path) -> TraceStore:
    """Jaeger 2 with its memory storage."""
    otlp, query, grpc, health = (free_port() for _ in range(4))
    configuration: dict[str, Any] = {
        "service": {
            "extensions": ["jaeger_storage", "jaeger_query", "healthcheckv2"],
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
            "telemetry": {"metrics": {"level": "none"}},
        },
        "extensions": {
            "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 100000}}}},
            "jaeger_query": {
                "storage": {"traces": "memory"},
                "http": {"endpoint": f"127.0.0.1:{query}"},
                "grpc": {"endpoint": f"127.0.0.1:{grpc}"},
            },
            "healthcheckv2": {"use_v2": True, "http": {"endpoint": f"127.0.0.1:{health}"}},
        },
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{otlp}"}}}},
        "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
    }
    file = folder / "jaeger.yaml"
    file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
    url = f"http://127.0.0.1:{query}"
    return TraceStore(
        [program, "--config", str(file)], folder, url, f"http://127.0.0.1:{otlp}", f"{url}/api/services", {}
    )


def tempo(program: str, folder: Path) -> TraceStore:
    """Tempo in one process over a folder."""
    otlp, http, grpc = (free_port() for _ in range(3))
    configuration: dict[str, Any] = {
        "server": {"http_listen_address": "127.0.0.1", "http_listen_port": http, "grpc_listen_address": "127.0.0.1", "grpc_listen_port": grpc},
        "distributor": {"receivers": {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{otlp}"}}}}},
        "memberlist": {"bind_addr": ["127.0.0.1"], "bind_port": free_port()},
        "ingester": {
            "lifecycler": {"address": "127.0.0.1", "ring": {"kvstore": {"store": "inmemory"}, "replication_factor": 1}},
            "trace_idle_period": "1s", "flush_check_period": "1s", "max_block_duration": "5m",
        },
        "compactor": {"ring": {"kvstore": {"store": "inmemory"}}},
        "query_frontend": {"search": {"max_duration": "0s"}},
        "querier": {"frontend_worker": {"frontend_address": f"127.0.0.1:{grpc}"}},
        "storage": {"trace": {"backend": "local", "local": {"path": str(folder / "blocks")}, "wal": {"path": str(folder / "wal")}}},
        "usage_report": {"reporting_enabled": False},
    }  # fmt: skip
    file = folder / "tempo.yaml"
    file.write_text(yaml.safe_dump(configuration), encoding="utf-8")
    url = f"http://127.0.0.1:{http}"
    return TraceStore([program, f"-config.file={file}"], folder, url, f"http://127.0.0.1:{otlp}", f"{url}/ready", {})


def phoenix(program: str, folder: Path) -> TraceStore:
    """Phoenix over a folder."""
    port, grpc = free_port(), free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        "PHOENIX_WORKING_DIR": str(folder), "PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(grpc),
        "PHOENIX_HOST": "127.0.0.1", "PHOENIX_TELEMETRY_ENABLED": "false", "HOME": str(folder),
        "PATH": str(Path(program).parent),
    }  # fmt: skip
    return TraceStore([program, "serve"], folder, url, url, f"{url}/healthz", environment)
