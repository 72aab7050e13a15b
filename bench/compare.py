"""`python -m bench compare`: the figures that this project holds itself to, beside Phoenix, MLflow, prometheus_client and AsyncOpenAI, in one run.

Drives the scripts of the shared folder (`--shared`, else RUBRICD_SHARED, else ../shared) against this checkout, and prints each figure with its bar.
Peers live in environments of their own: `--phoenix-python DIR/bin/python` (arize-phoenix) and `--mlflow-python DIR/bin/python` (mlflow); rows of a peer
that is not given are left out. A round takes about 7 minutes with both peers and 2 without; five rounds about 35 minutes. Run it on a quiet machine:
ratios of CPU seconds hold on a busy one, wall clock and latencies do not. Figures go to `--json` after every round, so a run that is cut short is not lost.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.compare_parts import disk, judge, kept, peers, scrape, upb
from bench.compare_rows import evaluated
from bench.measured import keep, machine, say, table
from bench.target import ROOT

PARTS = ("peers", "upb", "kept", "disk", "scrape", "judge")


def main(arguments: Sequence[str]) -> int:
    """Run the rounds and print the table. Exit status 1 when a figure that was measured misses its bar."""
    parser = argparse.ArgumentParser(prog="python -m bench compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--shared", type=Path, default=Path(os.environ.get("RUBRICD_SHARED", ROOT.parent / "shared")))
    parser.add_argument("--phoenix-python", help="interpreter of an environment with arize-phoenix")
    parser.add_argument("--mlflow-python", help="interpreter of an environment with mlflow")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.5, help="length of each closed loop (default: %(default)s)")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, of: %(default)s")
    parser.add_argument(
        "--dir", type=Path, help="a folder on a real disk for the stores (default: the system's temporary one)"
    )
    parser.add_argument(
        "--json", type=Path, default=Path("bench-compare.json"), help="where the figures go (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {
        "machine": machine(),
        "settings": {"rounds": given.rounds, "seconds": given.seconds},
        "measured": {},
    }
    began = time.monotonic()
    for number in range(given.rounds):
        for name in given.only.split(","):
            say(f"round {number + 1} of {given.rounds}: {name} ({time.monotonic() - began:.0f} s so far)")
            _add(found["measured"], name, partial(PART[name], given, number))
            keep(given.json, found)
    found["rows"] = [row for row in evaluated(found["measured"]) if row]
    found["seconds"] = round(time.monotonic() - began)
    keep(given.json, found)
    print(table(found["rows"]))
    print(
        f"{given.rounds} rounds in {found['seconds']} s; {found['machine']}; medians, in brackets the lowest and highest; all figures in {given.json}"
    )
    return 1 if any(row["reached"] == "MISSED" for row in found["rows"]) else 0


def _add(measured: dict[str, list[float]], name: str, run: Callable[[], dict[str, float]]) -> None:
    """Add a round's figures; a part that fails says so and leaves the others alone."""
    try:
        for key, value in run().items():
            measured.setdefault(key, []).append(value)
    except (OSError, RuntimeError, TimeoutError, subprocess.SubprocessError) as error:
        say(f"{name} failed: {error}")


PART: dict[str, Callable[[argparse.Namespace, int], dict[str, float]]] = {
    "peers": peers, "upb": upb, "kept": kept, "disk": disk, "scrape": scrape, "judge": judge,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
