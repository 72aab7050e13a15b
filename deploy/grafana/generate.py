"""Writes the dashboards beside it, *.json; with `--check` says which are not up to date. Needs grafana-foundation-sdk (extra `dev`). Run it from the repository's root.

`python -m deploy.grafana.generate` after a change of a dashboard or of a metric.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.judge import judge
from deploy.grafana.overview import overview
from deploy.grafana.panels import numbered
from deploy.grafana.pipeline import pipeline
from deploy.grafana.rubric import rubric
from deploy.prometheus.generate import ROOT, stale

FOLDER = ROOT / "deploy" / "grafana"
DASHBOARDS = (overview, rubric, judge, pipeline)


def texts() -> dict[Path, str]:
    """What each file should be."""
    built = [numbered(make()) for make in DASHBOARDS]
    return {
        FOLDER / f"{one.uid}.json": json.dumps(one, cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False)
        + "\n"
        for one in built
    }


def main(arguments: list[str]) -> int:
    """Write what is not up to date, or only say so."""
    old = stale(wanted := texts())
    for file in old:
        sys.stdout.write(f"{file.relative_to(ROOT)}: not up to date\n")
        if "--check" not in arguments:
            file.write_text(wanted[file], encoding="utf-8")
    return 1 if old and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
