"""Writes the generated rule files of this folder and of ../grafana; with `--check` says which are not up to date. Run it from the repository's root.

`python -m deploy.prometheus.generate` (with the project installed) after a change of rules or of the default configuration.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from monitor.commands.rules import rules_text, source_of
from monitor.configuration import load_configuration

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = "deploy/prometheus/example"

ANY_MONITOR = ("deploy/prometheus/rubricd.rules.yml", "deploy/grafana/alerting/rubricd.yaml")
"""The files that chart and compose file ship: they hold whatever monitors are configured."""

FILES: Mapping[str, tuple[str, str]] = {
    ANY_MONITOR[0]: ("config/rubricd.yaml", "prometheus"),
    ANY_MONITOR[1]: ("config/rubricd.yaml", "grafana"),
    f"{EXAMPLE}/rubricd.rules.yml": (f"{EXAMPLE}/rubricd.yaml", "prometheus"),
    f"{EXAMPLE}/rubricd.prometheusrule.yaml": (f"{EXAMPLE}/rubricd.yaml", "prometheusrule"),
    "deploy/grafana/example/alerting.yaml": (f"{EXAMPLE}/rubricd.yaml", "grafana"),
}
"""Each generated file with its configuration and format."""


def texts() -> dict[Path, str]:
    """What each file should be."""
    return {
        ROOT / name: rules_text(
            source_of(load_configuration(ROOT / configuration, {}), any_monitor=name in ANY_MONITOR), form
        )
        for name, (configuration, form) in FILES.items()
    }


def stale(wanted: Mapping[Path, str]) -> list[Path]:
    """The files that are not what they should be."""
    return [file for file, text in wanted.items() if not file.is_file() or file.read_text(encoding="utf-8") != text]


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
