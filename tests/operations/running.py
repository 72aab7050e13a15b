"""A daemon process for tests of its operation: one fast monitor, and small helpers around the real process."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from tests.support.agents import provider, run_agent
from tests.support.daemon import Daemon

LIMIT = {"name": "party_size_limit", "kind": "check",
         "expect": {"tool_arguments": {"tool": "book_table", "schema": {"properties": {"party_size": {"maximum": 8}}}}}}  # fmt: skip


def polite(threshold: float = 0.8) -> dict[str, Any]:
    """A judged rubric; another threshold is another version."""
    return {
        "name": "polite",
        "kind": "properties",
        "threshold": threshold,
        "properties": [{"id": "blame", "text": "No blame."}],
    }


def configuration(
    judge_url: str | None = None, rubrics: list[dict[str, Any]] | None = None, **sections: Any
) -> dict[str, Any]:
    """A monitor that runs every second, with a judge where one is given."""
    judged = {"judges": {"default": {"model": "m", "base_url": judge_url, "timeout": "10s"}}} if judge_url else {}
    found = rubrics if rubrics is not None else [LIMIT, *([polite()] if judge_url else [])]
    monitor = {
        "rubrics": [rubric["name"] for rubric in found],
        "sample": {"rate": 1.0, "max_per_hour": 10_000_000},
        "schedule": {"every": "1s", "catch_up": 600},  # a restart takes many ticks on a busy machine
        "windows": ["1h"],
    }
    return {**judged, "rubrics": found, "monitors": {"bookings": monitor}, **sections}


def send(daemon: Daemon, runs: int, answer: str = "Done.") -> set[str]:
    """So many agent runs over HTTP; their trace ids."""
    tracers = provider(OTLPSpanExporter(endpoint=f"http://127.0.0.1:{daemon.http_port}/v1/traces"))
    ids = {
        run_agent(tracers, "shop-bot", "A table.", answer, {"name": "book_table", "arguments": {"party_size": 4}})
        for _ in range(runs)
    }
    tracers.shutdown()
    return ids


def versions(daemon: Daemon) -> dict[str, str]:
    """The rubric versions in force."""
    return {rubric["name"]: rubric["version"] for rubric in daemon.get("/api/v1/monitors")["items"][0]["rubrics"]}


def reload(daemon: Daemon) -> tuple[int, dict[str, Any]]:
    """Status and answer of `POST /-/reload`."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(daemon.url + "/-/reload", method="POST"), timeout=20
        ) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def answered(
    port: int,
    method: str,
    path: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    host: str = "127.0.0.1",
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one request on a connection of its own."""
    connection = http.client.HTTPConnection(host, port, timeout=20)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()
