"""`rubricd rules -c FILE`: recording and alerting rules from the monitors, for Prometheus, its operator, or Grafana."""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Mapping
from itertools import islice, pairwise, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.exits import Exit, wrong_input

if TYPE_CHECKING:
    from monitor.configuration import Configuration
    from monitor.exporters.rules import Gaps, RuleSource
    from monitor.settings.tree import Schedule

FORMATS = ("prometheus", "prometheusrule", "grafana")
HEADING = "# Made by `rubricd rules`; change the configuration and make it anew instead of editing.\n"
_FRIDAY = 1_704_448_800.0
"""2024-01-05T10:00Z. Gaps are measured from a fixed Friday: the same configuration gives the same rules, and the first days hold a weekend."""
_TICKS, _YEAR = 3000, 366 * 86400.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, the form of the rules, and what tells this rubricd from others."""
    parser.epilog = (
        "example: rubricd rules -c rubricd.yaml > rubricd.rules.yml && promtool check rules rubricd.rules.yml"
    )
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, required=True, help="the configuration")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="default: %(default)s")
    parser.add_argument(
        "--match", metavar="NAME=VALUE", action="append", default=[],
        help="label that tells this rubricd from others in the same Prometheus, such as namespace=agents; repeatable",
    )  # fmt: skip
    parser.add_argument(
        "--datasource", metavar="UID", default="prometheus", help="uid of Grafana's data source (default: %(default)s)"
    )


def command(arguments: argparse.Namespace) -> int:
    """Write the rules to stdout."""
    import sys

    from monitor.configuration import load_configuration
    from monitor.settings.document import ConfigurationError

    match = _match(arguments.match)
    try:
        configuration = load_configuration(arguments.config, os.environ)
    except ConfigurationError as error:
        raise wrong_input(str(error)) from error
    sys.stdout.write(rules_text(source_of(configuration, match), arguments.format, arguments.datasource))
    return Exit.DONE


def source_of(configuration: Configuration, match: Mapping[str, str] | None = None) -> RuleSource:
    """What the rules of a configuration are made of. Rubrics that wait for a judge have none."""
    from monitor.exporters.rules import rule_source

    settings = configuration.settings
    gaps = {name: gaps_of(monitor.schedule) for name, monitor in settings.monitors.items()}
    return rule_source(settings, configuration.watched(), gaps, match)


def rules_text(source: RuleSource, form: str, datasource: str = "prometheus") -> str:
    """The rules as a file of one of FORMATS."""
    from monitor.exporters import rules

    if form == "grafana":
        return rules.grafana_provisioning(rules.alert_rules(source), datasource, HEADING)
    if form == "prometheusrule":
        return rules.prometheus_rule_resource(rules.rule_groups(source), heading=HEADING)
    return rules.prometheus_rules(rules.rule_groups(source), HEADING)


def gaps_of(schedule: Schedule) -> Gaps:
    """The usual (median) and the longest time between two ticks; of a cron expression within a year or its first 3000 ticks."""
    from monitor.exporters.rules import Gaps
    from monitor.scheduling.ticks import ticks_of

    if schedule.every is not None:
        return Gaps(schedule.every, schedule.every)
    ticks = takewhile(lambda tick: tick < _FRIDAY + _YEAR, islice(ticks_of(schedule).after(_FRIDAY), _TICKS))
    found = [later - earlier for earlier, later in pairwise(ticks)]
    return Gaps(statistics.median(found), max(found)) if found else Gaps(_YEAR, _YEAR)


def _match(given: list[str]) -> dict[str, str]:
    import re

    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
            raise wrong_input(f"--match {text}: write it as NAME=VALUE with a label's name, like namespace=agents")
        found[name] = value
    return found
