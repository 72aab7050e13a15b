"""What `rubricd rules` generates: form, labels, annotations, drift of the committed files, and what promtool says of them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from deploy.prometheus.generate import ROOT, stale, texts
from monitor.cli import main
from monitor.commands.rules import rules_text, source_of
from monitor.configuration import load_configuration
from monitor.exporters.rules import RuleSource
from monitor.exporters.rules.rule import AlertName
from monitor.exporters.rules.wording import _PARAMETERS
from monitor.scheduling.gaps import gaps_of
from monitor.server.endpoints import ENDPOINTS
from monitor.settings.tree import Schedule

PROMETHEUS = ROOT / "deploy" / "prometheus"
EXAMPLE = PROMETHEUS / "example" / "rubricd.yaml"
INSTALL = "apt-get install prometheus"
ANNOTATIONS = {"summary", "description", "runbook_url", "dashboard_url", "traces_url"}
AWKWARD = """
rubrics:
  - {name: 'say "no" {{ $x }} \\ more', statement: "It says no."}
judges: {j: {model: m, base_url: "http://localhost:1/v1"}}
monitors:
  'odd {{ "name" }} & co':
    rubrics: {'say "no" {{ $x }} \\ more': {objective: 0.9, judge: j}}
    labels: {team: "a {{ b"}
    schedule: {every: 90s}
  plain:
    rubrics: [run_succeeded]
    schedule: {cron: "0 9 * * 1-5"}
"""


def example(**match: str) -> RuleSource:
    """The documented example."""
    return source_of(load_configuration(EXAMPLE, {}), match)


def awkward(folder: Path) -> RuleSource:
    """A configuration whose names hold quotes, backslashes and template braces."""
    (folder / "rubricd.yaml").write_text(AWKWARD, encoding="utf-8")
    return source_of(load_configuration(folder / "rubricd.yaml", {}))


def rules(source: RuleSource) -> list[dict[str, Any]]:
    """All rules of the file for Prometheus."""
    return [rule for group in yaml.safe_load(rules_text(source, "prometheus"))["groups"] for rule in group["rules"]]


def alerts(source: RuleSource) -> list[dict[str, Any]]:
    """All alerting rules."""
    return [rule for rule in rules(source) if "alert" in rule]


def test_committed_files_are_up_to_date() -> None:
    """The rule files in deploy/ are what their configurations give today."""
    assert [str(file) for file in stale(texts())] == []


def test_every_alert_of_the_contract_is_generated() -> None:
    """The example has each of the ten alerts, and no other."""
    assert {rule["alert"] for rule in alerts(example())} == {name.value for name in AlertName}


def test_alerts_carry_what_the_contract_says() -> None:
    """Each alert has all annotations; those of a monitor have its name, its labels and its own annotations."""
    for rule in alerts(example()):
        assert set(rule["annotations"]) == ANNOTATIONS
        assert rule["labels"]["severity"] in ("page", "ticket")
        if rule["labels"].get("monitor") == "bookings":
            assert rule["labels"]["team"] == "bookings"
            assert rule["labels"]["severity"] == "page"
            assert rule["annotations"]["runbook_url"] == "https://runbooks.example/bookings"


def test_runbook_links_lead_to_sections() -> None:
    """The page that links point to has a section for each alert."""
    text = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    sections = {heading.lower() for heading in re.findall(r"^## (\w+)$", text, re.MULTILINE)}
    wanted = {urlsplit(rule["annotations"]["runbook_url"]).fragment for rule in alerts(source_of(load_configuration(ROOT / "config/rubricd.yaml", {})))}  # fmt: skip
    assert wanted <= sections
    assert {name.value.lower() for name in AlertName} <= sections


def test_links_ask_the_api_for_what_it_takes() -> None:
    """Every place that an alert leads to is a path of the server, and every parameter one that the path takes."""
    known = {endpoint.path: {parameter.name for parameter in endpoint.parameters} for endpoint in ENDPOINTS if endpoint.method == "GET"}  # fmt: skip
    for rule in alerts(example()):
        url = urlsplit(rule["annotations"]["traces_url"].replace("{{", "").replace("}}", "").replace(" ", ""))
        assert set(parse_qs(url.query)) <= known[url.path], url.path
    for path, parameters in _PARAMETERS.items():
        assert parameters <= known[path]


def test_quality_alerts_need_an_objective() -> None:
    """Without objectives there is no alert on quality, and shadows have none either."""
    default = source_of(load_configuration(ROOT / "config/rubricd.yaml", {}))
    assert not {rule["alert"] for rule in alerts(default)} & {"RubricdQualityBudgetBurn", "RubricdQualityRegression"}
    rubrics = {
        rule["labels"].get("rubric") for rule in alerts(example()) if rule["alert"] == "RubricdQualityBudgetBurn"
    }
    assert rubrics == {"party_size_limit", "intent_resolution"}


def test_biased_samples_are_not_counted() -> None:
    """Where errors are always judged, burn alerts read weighted gauges and no counter."""
    found = [r["expr"] for r in alerts(example()) if r["alert"] == "RubricdQualityBudgetBurn" and r["labels"]["monitor"] == "errors-first"]  # fmt: skip
    assert found
    assert all("rubricd_pass_rate_upper_ratio" in expr and "rubricd_verdicts" not in expr for expr in found)


def test_ranges_hold_two_intervals_of_the_schedule() -> None:
    """No range over verdicts of the monitor that scores twice a day is shorter than a day."""
    found = " ".join(rule["expr"] for rule in alerts(example()) if rule["labels"].get("monitor") == "nightly")
    ranges = re.findall(r"rubricd_verdicts\w*:increase(\w+)\{", found) + re.findall(r"rubricd_verdicts_total\{[^}]*\}\[(\w+)\]", found)  # fmt: skip
    assert set(ranges) <= {"1d", "2d", "3d"}
    assert ranges
    burn = next(r for r in alerts(example()) if r["alert"] == "RubricdQualityBudgetBurn" and r["labels"]["monitor"] == "nightly")  # fmt: skip
    assert burn["keep_firing_for"] == "1d"


def test_match_keeps_rubricds_apart() -> None:
    """With a matching label every selector asks for it, and recordings keep it."""
    for rule in rules(example(namespace="agents")):
        selectors = re.findall(r"(?:rubricd_\w+|:rubricd_\w+:\w+)(\{[^}]*\})?", rule["expr"])
        assert selectors
        assert all('namespace="agents"' in selector for selector in selectors), rule["expr"]
        assert "by (" not in rule["expr"] or re.findall(r"by \((\w+)", rule["expr"])[0] == "namespace"


def test_the_same_configuration_gives_the_same_rules() -> None:
    """Two generations are equal, with cron schedules too."""
    assert rules_text(example(), "prometheus") == rules_text(example(), "prometheus")


def test_gaps_of_schedules() -> None:
    """The usual gap of working days is a day and the longest a week-end; of `every` both are the interval."""
    assert gaps_of(Schedule(cron="0 9 * * 1-5")) == (86400, 3 * 86400)
    assert gaps_of(Schedule(cron="*/5 * * * *")) == (300, 300)
    assert gaps_of(Schedule.model_validate({"every": "90s"})) == (90, 90)
    assert gaps_of(Schedule(cron="0 0 29 2 *")).longest > 300 * 86400


def test_grafana_rules_stand_alone() -> None:
    """Grafana's file names no recording, has every alert once with its own uid and title, and says what missing data means."""
    document = yaml.safe_load(rules_text(example(), "grafana", "my-uid"))
    found = [rule for group in document["groups"] for rule in group["rules"]]
    assert len(found) == len(alerts(example()))
    assert len({rule["uid"] for rule in found}) == len({rule["title"] for rule in found}) == len(found)
    for rule in found:
        assert len(rule["uid"]) <= 40
        assert (rule["noDataState"], rule["execErrState"]) == ("OK", "Error")
        query, condition = rule["data"]
        assert ":increase" not in query["model"]["expr"]
        assert query["datasourceUid"] == "my-uid"
        assert rule["condition"] == condition["refId"]
        assert not any("$value " in text for text in rule["annotations"].values())
        assert set(rule["annotations"]) == ANNOTATIONS
        assert rule["labels"]["alert"] in {name.value for name in AlertName}


def test_the_resource_of_the_operator_holds_the_same_groups() -> None:
    """PrometheusRule is the plain file under `spec`."""
    resource = yaml.safe_load(rules_text(example(), "prometheusrule"))
    assert (resource["apiVersion"], resource["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert resource["spec"] == yaml.safe_load(rules_text(example(), "prometheus"))


def test_the_command_writes_rules(capsys: pytest.CaptureFixture[str]) -> None:
    """`rubricd rules -c FILE` writes the file on stdout and nothing else."""
    assert main(["rules", "-c", str(EXAMPLE)]) == 0
    assert capsys.readouterr().out == EXAMPLE.with_name("rubricd.rules.yml").read_text(encoding="utf-8")


def test_shipped_rules_hold_for_any_monitor(capsys: pytest.CaptureFixture[str]) -> None:
    """What chart and image ship names no monitor, rubric or judge, and has every alert but the burn of budgets, which goes by an objective."""
    assert main(["rules", "-c", str(ROOT / "config" / "rubricd.yaml"), "--any-monitor"]) == 0
    text = capsys.readouterr().out
    assert text == (PROMETHEUS / "rubricd.rules.yml").read_text(encoding="utf-8")
    found = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    assert not [rule["expr"] for rule in found if re.search(r'(monitor|rubric|judge)="', rule["expr"])]
    assert not [rule for rule in found if {"monitor", "rubric", "judge"} & set(rule.get("labels", {}))]
    assert {rule["alert"] for rule in found if "alert" in rule} == {name.value for name in AlertName} - {"RubricdQualityBudgetBurn"}  # fmt: skip
    assert all(set(rule["annotations"]) == ANNOTATIONS for rule in found if "alert" in rule)


@pytest.mark.parametrize("match", ["namespace", "=x", "a-b=c", "a="])
def test_a_wrong_match_is_refused(match: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 says how to write it."""
    assert main(["rules", "-c", str(EXAMPLE), "--match", match]) == 2
    assert "NAME=VALUE" in capsys.readouterr().err


def test_a_wrong_configuration_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 with file, line and key."""
    (tmp_path / "rubricd.yaml").write_text("monitors: {a: {rubrics: [run_succeeded], windowz: [1h]}}\n")
    assert main(["rules", "-c", str(tmp_path / "rubricd.yaml")]) == 2
    assert "rubricd.yaml:1: " in capsys.readouterr().err


@pytest.mark.service
@pytest.mark.parametrize("kind", ["any", "default", "example", "awkward", "matched"])
def test_promtool_takes_the_rules(kind: str, tmp_path: Path, required_program: Callable[[str, str], str]) -> None:
    """`promtool check rules` finds nothing, not even with names that hold quotes, backslashes and template braces."""
    sources = {
        "any": lambda: source_of(
            load_configuration(ROOT / "config/rubricd.yaml", {}), {"cluster": "a"}, any_monitor=True
        ),
        "default": lambda: source_of(load_configuration(ROOT / "config/rubricd.yaml", {})),
        "example": example,
        "awkward": lambda: awkward(tmp_path),
        "matched": lambda: example(namespace="agents"),
    }
    file = tmp_path / "rubricd.rules.yml"
    file.write_text(rules_text(sources[kind](), "prometheus"), encoding="utf-8")
    checked = subprocess.run([required_program("promtool", INSTALL), "check", "rules", "--lint=all", "--lint-fatal", str(file)], capture_output=True, text=True, check=False)  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_awkward_names_stay_text(tmp_path: Path) -> None:
    """A monitor's labels cannot hide what identifies an alert, and braces in names are not read as templates."""
    found = [rule for rule in alerts(awkward(tmp_path)) if rule["labels"].get("team")]
    assert found
    for rule in found:
        assert rule["labels"]["monitor"] == 'odd {{ "{{" }} "name" }} & co'
        assert rule["labels"]["team"] == 'a {{ "{{" }} b'


@pytest.mark.service
@pytest.mark.parametrize(
    "file", ["rubricd.rules.test.yml", "example/rubricd.rules.test.yml", "example/rubricd.slow.rules.test.yml"]
)
def test_the_rule_tests_beside_the_rules_hold(file: str, required_program: Callable[[str, str], str]) -> None:
    """`promtool test rules`: exact labels and annotations, low traffic, bursts, resets, absence."""
    ran = subprocess.run([required_program("promtool", INSTALL), "test", "rules", str(PROMETHEUS / file)], capture_output=True, text=True, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.service
def test_promtool_takes_the_expressions_for_grafana(
    tmp_path: Path, required_program: Callable[[str, str], str]
) -> None:
    """The written-out expressions are PromQL of Prometheus 2.42, for the example and for awkward names."""
    texts = [rules_text(source, "grafana") for source in (example(), awkward(tmp_path))]
    found = [rule for text in texts for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    checks = [
        {"record": f"check:{place}", "expr": rule["data"][0]["model"]["expr"]} for place, rule in enumerate(found)
    ]
    file = tmp_path / "grafana.rules.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "grafana", "rules": checks}]}), encoding="utf-8")
    checked = subprocess.run([required_program("promtool", INSTALL), "check", "rules", str(file)], capture_output=True, text=True, check=False)  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr
