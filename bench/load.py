"""`python -m bench load` (and `make bench`): what intake, judging, scraping and starting cost on this machine, each beside its bare ceiling.

Needs nothing but this checkout; Linux. `--quick` takes about a minute and a half, all of it about twelve minutes and 5 GB of disk (`--journal-gb 10`: 12 GB).
Prints tables and writes JSON. CPU seconds hold on a busy machine, wall clock and latencies do not: docs/performance.md says how to read the figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import intake, judges, room, scrape
from bench.measured import keep, machine, say, table

Rows = list[dict[str, Any]]


def scrapes(given: argparse.Namespace, folder: Path) -> Rows:
    """CPU of a page, by series, beside plain prometheus_client."""
    sizes = (1_000, 10_000) if given.quick else (1_000, 10_000, 100_000)
    return [scrape.measure(folder / str(size), size, 3 if given.quick else 5) for size in sizes]


SECTIONS: dict[str, tuple[str, Callable[[argparse.Namespace, Path], Rows]]] = {
    "intake": ("Intake, closed loop of 8 senders, until all is stored; the ceiling writes the same durably and does nothing else", intake.closed_loops),
    "end_to_end": ("Sent until judged by a deterministic rubric", intake.judged),
    "judges": ("Judge calls at 200 ms from claim to stored verdict, beside the bare AsyncOpenAI call", judges.throughput),
    "backlog": ("Memory and speed with many evaluations waiting in the store", judges.backlogs),
    "scrape": ("A page of /metrics, beside plain prometheus_client with the same series", scrapes),
    "open": ("Memory by open traces of 8 spans", room.open_traces),
    "unsettled": ("Memory and CPU by backlog: spans in the journal that have not settled", room.unsettled),
    "start": ("Start with a journal to replay", room.start),
    "growth": ("CPU per span by rate offered", intake.growth),
}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Run the sections and print their tables."""
    parser = argparse.ArgumentParser(prog="python -m bench load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under two minutes")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, of: %(default)s")
    parser.add_argument(
        "--journal-gb", type=float, default=2.0, help="journal of the section `start` (default: %(default)s)"
    )
    parser.add_argument("--dir", type=Path, help="a folder on a real disk (default: the system's temporary one)")
    parser.add_argument(
        "--json", type=Path, default=Path("bench-load.json"), help="where the figures go (default: %(default)s)"
    )
    given = parser.parse_args(arguments)
    found: dict[str, Any] = {"machine": machine(), "quick": given.quick, "sections": {}}
    began = time.monotonic()
    for name in given.only.split(","):
        title, measure = SECTIONS[name]
        say(f"{name} ({time.monotonic() - began:.0f} s so far)")
        with tempfile.TemporaryDirectory(dir=given.dir) as folder:
            found["sections"][name] = measure(given, Path(folder))
        print(f"\n## {title}\n{table(found['sections'][name])}", flush=True)
        keep(given.json, found)
    print(f"\n{found['machine']}; {time.monotonic() - began:.0f} s; figures in {given.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
