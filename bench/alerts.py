"""`python -m bench alerts`: how many false alarms agents raise that are well, and how soon one that turns bad is seen. All parts are real.

Each seed is a run of its own: a new daemon with an empty store, Prometheus with the rules of `rubricd rules`, Alertmanager and a webhook, and an agent
whose runs, sent to the OTLP port, fail at random but rarely enough for its objective. Then the agents of the first seeds turn bad, and the
time until the webhook knows is taken. Exit status 1 when a clean seed raised anything, pending alerts included. Needs Debian's prometheus
and prometheus-alertmanager; 20 seeds take a minute of CPU and five to ten minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.daemon import wait_for
from tests.support.watching import Run, Watch, watching_daemon

OBJECTIVE, CLEAN, BAD = 0.95, 0.97, 0.60
GOOD_RUN, FAILING_RUN = Run(4, "Done, a table for four."), Run(12, "Done, a table for twelve.")
RULES_SECONDS = 5.0
"""Rules are evaluated every second; recordings, alerts and notifications follow each other."""

CONFIGURATION: dict[str, Any] = {
    "rubrics": [
        {
            "name": "party_size_limit",
            "kind": "check",
            "expect": {"tool_arguments": {"tool": "book_table", "schema": {"properties": {"party_size": {"maximum": 8}}}}},
        }
    ],
    "monitors": {
        "bookings": {
            "rubrics": {"party_size_limit": {"objective": OBJECTIVE}},
            "schedule": {"every": "1s"},
            "windows": ["1h"],
            "regression": {"false_alarm_every": 10_000},
        }
    },
    "metrics": {"zero_for": "4s"},
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench alerts", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="clean seeds (default: %(default)s)")
    parser.add_argument("--runs", type=int, default=100, help="runs of each clean agent (default: %(default)s)")
    parser.add_argument("--bad", type=int, default=3, help="agents that then turn bad (default: %(default)s)")
    given = parser.parse_args(arguments)
    raised: list[str] = []
    for seed in range(given.seeds):
        with tempfile.TemporaryDirectory() as folder, watching_daemon(Path(folder), CONFIGURATION) as watch:
            failing, found = clean(watch, seed, given.runs)
            raised += found
            print(f"seed {seed}: {failing} of {given.runs} runs fail, alarms {len(found)}", flush=True)
            if seed < given.bad:
                runs, seconds, names = turned_bad(watch, seed)
                print(f"seed {seed} turns bad ({BAD:.0%} passing): {names} after {runs} bad runs, {seconds:.0f} s")
    print(f"clean: {given.seeds} seeds at {CLEAN:.0%} passing, objective {OBJECTIVE:.0%}, {given.runs} runs each")
    print(f"clean: alarms {len(raised)}" + "".join(f"\n  {one}" for one in raised))
    return 1 if raised else 0


def clean(watch: Watch, seed: int, runs: int) -> tuple[int, list[str]]:
    """Send what a clean agent does; how many runs failed, and every alert that came of it."""
    sent = drawn(random.Random(seed), CLEAN, runs)
    watch.send(agent(seed), sent)
    watch.judged(agent(seed), runs)
    evaluated_at = time.monotonic() + RULES_SECONDS
    wait_for(lambda: time.monotonic() > evaluated_at, "rules to be evaluated on everything")
    pending = watch.prometheus.api("alerts")["alerts"]
    failing = sum(run is FAILING_RUN for run in sent)
    return failing, [str(alert["labels"]) for alert in (*watch.webhook.alerts, *pending)]


def turned_bad(watch: Watch, seed: int) -> tuple[int, float, list[str]]:
    """Send bad runs ten at a time until the webhook hears of the agent; how many that took, how long, and which alerts came."""
    dice, started, sent = random.Random(1000 + seed), time.monotonic(), 0

    def heard() -> list[str]:
        return sorted({one["labels"]["alertname"] for one in watch.webhook.alerts if one["labels"].get("agent") == agent(seed)})  # fmt: skip

    while not heard() and sent < 500:
        watch.send(agent(seed), drawn(dice, BAD, 10))
        sent += 10
        waited_until = time.monotonic() + 3
        wait_for(lambda until=waited_until: heard() or time.monotonic() > until, "an alert, or three seconds")
    return sent, time.monotonic() - started, heard()


def drawn(dice: random.Random, passing: float, count: int) -> list[Run]:
    """Runs that pass with a probability."""
    return [GOOD_RUN if dice.random() < passing else FAILING_RUN for _ in range(count)]


def agent(seed: int) -> str:
    """The agent of a seed."""
    return f"seed-{seed:02d}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
