"""`python -m bench NAME …`: the benchmarks by name, one module each; `python -m bench` lists them."""

from __future__ import annotations

import importlib
import sys

BENCHMARKS = {
    "compare": "the figures of this project beside Phoenix, MLflow, prometheus_client and AsyncOpenAI, each with its bar (needs ../shared)",
    "judging": "judge calls here, beside the bare AsyncOpenAI call and the peers' runners, on one scripted server",
    "statistics": "coverage of the intervals over rates, sizes and sampling designs; false alarms and delay of the detector",
    "assembly": "invocations per second and memory of assembly at 10,000 to 1,000,000 spans; memory of an open trace",
    "alerts": "false alarms of 20 clean seeds, and how soon a bad one is seen, with real Prometheus and Alertmanager",
}


def main(arguments: list[str]) -> int:
    """Run one of them with the rest of the arguments."""
    if not arguments or arguments[0] not in BENCHMARKS:
        print("\n".join(f"{name:12} {text}" for name, text in BENCHMARKS.items()))
        return 2 if arguments else 0
    return int(importlib.import_module(f"bench.{arguments[0]}").main(arguments[1:]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
