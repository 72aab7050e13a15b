"""`python -m bench.target`: the daemon as the benchmarks drive it, in one process that is the daemon itself.

Writes a configuration into `--dir` and becomes `rubricd run`. One deterministic rubric with an hourly tick: what is measured is the way of spans from the
socket to a stored, readable invocation, without the judging that no ingesting peer does, unless `--every` says otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def configuration(
    folder: Path,
    http: int,
    grpc: int,
    server: int,
    rate: float = 1.0,
    every: str = "1h",
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A daemon on loopback with three ports that settles after 200 ms and keeps `rate` of all traces; `more` is merged over it."""
    return {
        "collectors": {
            "otlp": {
                "protocols": {"grpc": {"endpoint": f"127.0.0.1:{grpc}"}, "http": {"endpoint": f"127.0.0.1:{http}"}}
            }
        },
        "storage": {"path": str(folder / "data")},
        "assembly": {"settle_after": "200ms"},
        "server": {"endpoint": f"127.0.0.1:{server}"},
        "monitors": {
            "bench": {"rubrics": ["final_answer_present"], "sample": {"rate": rate}, "schedule": {"every": every}}
        },
        **(more or {}),
    }


def environment() -> dict[str, str]:
    """The environment of a daemon of this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def command(folder: Path) -> list[str]:
    """The command that runs what `write` has configured."""
    return [sys.executable, "-m", "monitor", "run", "-c", str(folder / "rubricd.yaml")]


def write(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write the configuration (JSON is YAML, too)."""
    (folder / "rubricd.yaml").write_text(json.dumps(settings), encoding="utf-8")


def main(arguments: Sequence[str]) -> None:
    """Write the configuration and become the daemon."""
    parser = argparse.ArgumentParser(prog="python -m bench.target", description=__doc__)
    for name in ("http-port", "grpc-port", "server-port"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--every", default="1h")
    given = parser.parse_args(arguments)
    write(
        given.dir,
        configuration(given.dir, given.http_port, given.grpc_port, given.server_port, given.rate, given.every),
    )
    os.chdir(given.dir)
    os.execve(sys.executable, command(given.dir), environment())


if __name__ == "__main__":
    main(sys.argv[1:])
