"""`python -m bench NAME …`: the benchmarks by name, one module each; `python -m bench --help` lists them, `python -m bench` alone runs `load`."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = {
    "load": "intake, way to a verdict, judge calls, scrapes, memory, start and growth, each beside its ceiling; --quick: under two minutes",
    "compare": "the figures of this project beside Phoenix, MLflow, prometheus_client and AsyncOpenAI, each with its bar (needs ../shared)",
    "judging": "judge calls here, beside the bare AsyncOpenAI call and the peers' runners, on one scripted server",
    "statistics": "coverage of the intervals over rates, sizes and sampling designs; false alarms and delay of the detector",
    "assembly": "invocations per second and memory of assembly at 10,000 to 1,000,000 spans; memory of an open trace",
    "alerts": "false alarms of 20 clean seeds, and how soon a bad one is seen, with real Prometheus and Alertmanager",
}


def main(arguments: list[str]) -> int:
    """Run one of them with the rest of the arguments."""
    arguments = arguments or ["load"]
    if arguments[0] not in BENCHMARKS:
        print("\n".join(f"{name:12} {text}" for name, text in BENCHMARKS.items()))
        return 0 if arguments[0] in ("-h", "--help") else 2
    return int(importlib.import_module(f"bench.{arguments[0]}").main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
