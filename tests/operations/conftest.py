"""Daemons that are killed at the end of a test that did not stop them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.judge_server import JudgeServer, judge_server

Start = Callable[..., Daemon]
Sections = Mapping[str, Any] | Callable[[Daemon], Mapping[str, Any]]
"""A configuration, or one that needs to know the daemon's ports."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a daemon on a configuration, in the folder of the test."""
    started: list[Daemon] = []

    def start(sections: Sections, ready: bool = True, environment: Mapping[str, str] | None = None) -> Daemon:
        daemon = Daemon(tmp_path, {}, environment)
        daemon.write(sections(daemon) if callable(sections) else sections)
        started.append(daemon)
        return daemon.start(ready)

    yield start
    for daemon in started:
        if daemon.process is not None and daemon.process.poll() is None:
            daemon.kill()


@pytest.fixture
def judge() -> Iterator[JudgeServer]:
    """A judge that answers at once."""
    with judge_server() as server:
        yield server
