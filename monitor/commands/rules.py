"""`rubricd rules -c FILE`: recording and alerting rules from the monitors, for Prometheus, its operator, or Grafana."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.exits import Exit, wrong_input

if TYPE_CHECKING:
    from monitor.configuration import Configuration
    from monitor.exporters.rules import RuleSource

FORMATS = ("prometheus", "prometheusrule", "grafana")
HEADING = "# Made by `rubricd rules`; change the configuration and make it anew instead of editing.\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, the form of the rules, and what tells this rubricd from others."""
    parser.epilog = (
        "example: rubricd rules -c rubricd.yaml > rubricd.rules.yml && promtool check rules rubricd.rules.yml"
    )
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, required=True, help="the configuration")
    parser.add_argument(
        "--any-monitor", action="store_true",
        help="rules that hold whatever monitors there are, without burn rates and without the monitors' own labels; only links are read from FILE",
    )  # fmt: skip
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
        configuration = load_configuration(arguments.config, os.environ, elsewhere=True)
    except ConfigurationError as error:
        raise wrong_input(str(error)) from error
    source = source_of(configuration, match, any_monitor=arguments.any_monitor)
    sys.stdout.write(rules_text(source, arguments.format, arguments.datasource))
    return Exit.DONE


def source_of(
    configuration: Configuration, match: Mapping[str, str] | None = None, *, any_monitor: bool = False
) -> RuleSource:
    """What the rules of a configuration are made of; with `any_monitor` of its links only. Rubrics that wait for a judge have none."""
    from monitor.exporters.rules import ANY_MONITOR, rule_source

    found = rule_source(configuration.settings, configuration.watched(), match)
    return replace(found, monitors=(ANY_MONITOR,)) if any_monitor else found


def rules_text(source: RuleSource, form: str, datasource: str = "prometheus") -> str:
    """The rules as a file of one of FORMATS."""
    from monitor.exporters import rules

    if form == "grafana":
        return rules.grafana_provisioning(rules.alert_rules(source), datasource, HEADING)
    if form == "prometheusrule":
        return rules.prometheus_rule_resource(rules.rule_groups(source), heading=HEADING)
    return rules.prometheus_rules(rules.rule_groups(source), HEADING)


def _match(given: list[str]) -> dict[str, str]:
    import re

    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not value or not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name):
            raise wrong_input(f"--match {text}: write it as NAME=VALUE with a label's name, like namespace=agents")
        found[name] = value
    return found
