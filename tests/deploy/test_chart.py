"""The Helm chart: rendered by the real helm with many values, held against Kubernetes' schemas and the restricted profile."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.configuration import load_configuration
from tests.deploy.rendering import CHART, INSTALL, ROOT, VALUES, Thing, helm, one, pods, render, things_of, unrestricted

pytestmark = pytest.mark.service
Find = Callable[[str, str], str]


@pytest.fixture(scope="module")
def program(required_program: Find) -> str:
    return required_program("helm", INSTALL)


@pytest.fixture(scope="module")
def rendered(program: str) -> dict[str, list[Thing]]:
    """Every values file's objects."""
    return {values.stem: render(program, values) for values in VALUES}


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_lint_finds_nothing(program: str, values: Path) -> None:
    """`helm lint --strict` has no complaint with any of the values."""
    found = helm(program, "lint", "--strict", str(CHART), "-f", str(values))
    assert found.returncode == 0, found.stdout
    assert "ERROR" not in found.stdout
    assert "WARNING" not in found.stdout


def test_objects_are_what_kubernetes_takes(
    rendered: dict[str, list[Thing]], required_program: Find, tmp_path: Path
) -> None:
    """kubernetes-validate, strict, knows every object and every key of it (custom resources apart)."""
    validate = required_program("kubernetes-validate", INSTALL)
    files = []
    for name, things in rendered.items():
        files.append(tmp_path / f"{name}.yaml")
        files[-1].write_text(yaml.safe_dump_all(things))
    found = subprocess.run(
        [validate, "--strict", "-k", "1.35.0", *map(str, files)], capture_output=True, text=True, check=False
    )
    said = found.stdout + found.stderr
    assert found.returncode == 0, said
    assert said.count(" passed for ") == sum(
        thing["apiVersion"] != "monitoring.coreos.com/v1" for things in rendered.values() for thing in things
    )


def test_custom_resources_fit_their_definitions(rendered: dict[str, list[Thing]], required_program: Find) -> None:
    """ServiceMonitors and PrometheusRules fit models of their CRDs, without a key that those do not know."""
    python = Path(required_program("kubernetes-validate", INSTALL)).resolve().parent / "python"
    things = [
        thing for made in rendered.values() for thing in made if thing["apiVersion"] == "monitoring.coreos.com/v1"
    ]

    wrong = json.loads(json.dumps(one(things, "PrometheusRule")))
    wrong["spec"]["groups"][0]["intervall"] = "1s"
    script = str(Path(__file__).parent / "crd_models.py")
    found = subprocess.run(
        [str(python), script], input=json.dumps([*things, wrong]), capture_output=True, text=True, check=False
    )
    assert found.stdout.splitlines() == ["PrometheusRule.spec.groups[0].intervall: unknown key", "4"], found.stderr
    assert len(things) == 3


@pytest.mark.parametrize("values", VALUES, ids=lambda path: path.stem)
def test_pods_keep_the_restricted_profile(rendered: dict[str, list[Thing]], values: Path) -> None:
    """Every pod, the test's too, is allowed in a namespace of the restricted Pod Security Standard, and its root file system is read-only."""
    found = list(pods(rendered[values.stem]))
    assert len(found) == 2
    for pod in found:
        assert unrestricted(pod) == []
        assert pod["automountServiceAccountToken"] is False
        assert all(container["securityContext"]["readOnlyRootFilesystem"] for container in pod["containers"])
        assert all(container["resources"]["limits"]["memory"] for container in pod["containers"])


@pytest.mark.parametrize("change", ["hostNetwork", "hostPath", "root", "escalation", "seccomp", "capability"])
def test_the_restricted_profile_is_really_asked(rendered: dict[str, list[Thing]], change: str) -> None:
    """A pod that breaks one rule of the profile is found."""
    pod = json.loads(json.dumps(next(iter(pods(rendered["default"])))))
    container = pod["containers"][0]
    if change == "hostNetwork":
        pod["hostNetwork"] = True
    elif change == "hostPath":
        pod["volumes"].append({"name": "h", "hostPath": {"path": "/"}})
    elif change == "root":
        pod["securityContext"]["runAsUser"] = 0
    elif change == "escalation":
        del container["securityContext"]["allowPrivilegeEscalation"]
    elif change == "seccomp":
        del pod["securityContext"]["seccompProfile"]
    else:
        container["securityContext"]["capabilities"]["add"] = ["SYS_ADMIN"]
    assert unrestricted(pod)


@pytest.mark.parametrize("values", [path for path in VALUES if path.stem != "own-objects"], ids=lambda path: path.stem)
def test_the_daemon_understands_its_configuration(
    rendered: dict[str, list[Thing]], values: Path, tmp_path: Path
) -> None:
    """The ConfigMap's files, laid out as mounted, are a configuration without a fault."""
    data = next(
        thing for thing in rendered[values.stem] if thing["kind"] == "ConfigMap" and "rubricd.yaml" in thing["data"]
    )["data"]
    for name, text in data.items():
        (tmp_path / name).write_text(text)
    configuration = load_configuration(tmp_path / "rubricd.yaml", {"JUDGE_CONCURRENCY": "8"}, elsewhere=True)
    assert configuration.settings.server.endpoint == "0.0.0.0:8464"
    assert configuration.settings.storage.path == "/var/lib/rubricd"


def test_judge_values_arrive(rendered: dict[str, list[Thing]], tmp_path: Path) -> None:
    """Large numbers stay whole, a monitor set to null is gone, rubric text is not read as a template, and the key is a mounted file."""
    things = rendered["judged"]
    data = one(things, "ConfigMap")["data"]
    assert "{{ this is text, not a template }}" in data["rubrics.courtesy.yaml"]
    for name, text in data.items():
        (tmp_path / name).write_text(text)
    configuration = load_configuration(tmp_path / "rubricd.yaml", {"JUDGE_CONCURRENCY": "8"}, elsewhere=True)
    judge = configuration.settings.judges["default"]
    assert (judge.limits.tokens_per_day, judge.max_concurrency) == (5_000_000, 8)
    assert set(configuration.settings.monitors) == {"support", "checks"}
    assert [ref.rubric for ref in configuration.refs("support")] == ["courtesy", "intent_resolution"]
    pod = one(things, "StatefulSet")["spec"]["template"]["spec"]
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert judge.api_key_file == f"{mounted['judge-default']}/key"
    volume = next(volume for volume in pod["volumes"] if volume["name"] == "judge-default")
    assert volume["secret"] == {"secretName": "openai", "items": [{"key": "api-key", "path": "key"}]}


def test_security_values_arrive(rendered: dict[str, list[Thing]], tmp_path: Path) -> None:
    """Tokens and certificates of the secrets are files that the configuration names; probes speak TLS where the port does."""
    things = rendered["secured"]
    configuration = yaml.safe_load(one(things, "ConfigMap")["data"]["rubricd.yaml"])
    pod = one(things, "StatefulSet")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    receivers = configuration["collectors"]["otlp"]["protocols"]
    named = [
        receivers[protocol]["tls"][key]
        for protocol in ("grpc", "http")
        for key in ("cert_file", "key_file", "client_ca_file")
    ]
    named += [receivers[protocol]["auth"]["bearer_token_file"] for protocol in ("grpc", "http")]
    named += [configuration["server"]["tls"]["cert_file"], configuration["server"]["auth"]["bearer_token_file"]]
    assert all(str(Path(name).parent) in mounts for name in named)
    assert "client_ca_file" not in configuration["server"]["tls"]
    assert pod["containers"][0]["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "api", "scheme": "HTTPS"}
    assert one(things, "ServiceMonitor")["spec"]["endpoints"][0]["scheme"] == "https"


def test_probes_ask_the_right_thing(rendered: dict[str, list[Thing]]) -> None:
    """Startup and readiness ask /readyz, liveness /healthz alone, which depends on nothing outside; without a client certificate only the port."""
    container = one(rendered["default"], "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    asked = {probe: container[f"{probe}Probe"]["httpGet"]["path"] for probe in ("startup", "readiness", "liveness")}
    assert asked == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/healthz"}
    container = one(rendered["client-certificates"], "StatefulSet")["spec"]["template"]["spec"]["containers"][0]
    assert container["livenessProbe"]["tcpSocket"] == {"port": "api"}
    assert container["readinessProbe"]["grpc"]["port"] == 4317


def test_the_grace_period_covers_a_drain() -> None:
    """The grace period is longer than what a drain takes at most: evaluations, the OTLP exporter, the last scrape, and closing."""
    from monitor.app import DRAIN_SECONDS
    from monitor.settings.tree import Server

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert values["terminationGracePeriodSeconds"] >= DRAIN_SECONDS + 5 + Server().final_scrape + 15


def test_rules_are_the_tested_ones(rendered: dict[str, list[Thing]]) -> None:
    """The PrometheusRule holds exactly the groups of the file that promtool tests, templates of Prometheus untouched, and then the team's own."""
    groups = one(rendered["monitored"], "PrometheusRule")["spec"]["groups"]
    tested = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rubricd.rules.yml").read_text())["groups"]
    assert groups[:-1] == tested
    assert groups[-1]["rules"][0]["annotations"]["summary"] == "{{ $labels.monitor }} is not reliable"


def test_dashboards_are_the_tested_ones(rendered: dict[str, list[Thing]]) -> None:
    """Each dashboard is in a ConfigMap with the label of Grafana's sidecar, byte by byte, below the limit of a ConfigMap."""
    maps = [thing for thing in rendered["monitored"] if thing["metadata"]["labels"].get("grafana_dashboard") == "1"]
    shown = {name: text for thing in maps for name, text in thing["data"].items()}
    assert shown == {file.name: file.read_text() for file in (ROOT / "deploy" / "grafana").glob("*.json")}
    assert all(len(text) < 1_000_000 for text in shown.values())
    assert all(thing["metadata"]["annotations"] == {"grafana_folder": "Agents"} for thing in maps)


def test_the_network_is_closed(rendered: dict[str, list[Thing]]) -> None:
    """Telemetry and figures come from whom the values name, and out go DNS and the named rules only."""
    spec = one(rendered["isolated"], "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert [rule["ports"][0]["port"] for rule in spec["ingress"]] == ["otlp-grpc", "api"]
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {53, 443}
    assert one(rendered["no-volume"], "NetworkPolicy")["spec"]["ingress"][0]["from"] == [{"podSelector": {}}]


def test_unready_pods_are_scraped(rendered: dict[str, list[Thing]]) -> None:
    """The scraped service keeps pods that start or drain, and only it is selected by the ServiceMonitor."""
    things = rendered["monitored"]
    wanted = one(things, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    services = [
        thing for thing in things if thing["kind"] == "Service" and wanted <= thing["metadata"]["labels"].items()
    ]
    assert [service["spec"].get("publishNotReadyAddresses") for service in services] == [True]


def test_an_upgrade_keeps_the_data(program: str, rendered: dict[str, list[Thing]], tmp_path: Path) -> None:
    """A newer chart, and every values file that leaves `persistence` alone, changes nothing of a StatefulSet that cannot be changed, and claims outlive
    the release.
    """
    newer = tmp_path / "rubricd"
    shutil.copytree(CHART, newer)
    text = (newer / "Chart.yaml").read_text().replace("0.1.0", "9.9.9")
    (newer / "Chart.yaml").write_text(text)
    before = one(rendered["default"], "StatefulSet")
    after = one(render(program, None, newer), "StatefulSet")
    assert after["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/version"] == "9.9.9"
    others = [one(rendered[name], "StatefulSet") for name in rendered if name not in OTHER_VOLUMES]
    assert len(others) >= 6
    for other in (after, *others):
        for key in ("selector", "volumeClaimTemplates", "serviceName", "podManagementPolicy"):
            assert before["spec"][key] == other["spec"][key], key
        assert before["metadata"]["name"] == other["metadata"]["name"]
        assert other["spec"]["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}  # fmt: skip


def test_the_values_schema_is_strict_everywhere() -> None:
    """Every object of values.schema.json names all of its keys, or the pattern that names follow, and takes no others; free are only `global`, which
    belongs to parent charts, and what is a JSON Schema or a tool's arguments by its meaning.
    """
    schema = json.loads((CHART / "values.schema.json").read_text())

    def loose(node: Any, place: str) -> Iterator[str]:
        if isinstance(node, dict):
            is_object = node.get("type") == "object" or "properties" in node
            if is_object and "additionalProperties" not in node and place.rpartition("/")[2] != "properties":
                yield place
            if node.get("additionalProperties") is True:
                yield place
            for key, value in node.items():
                yield from loose(value, f"{place}/{key}")
        elif isinstance(node, list):
            for index, value in enumerate(node):
                yield from loose(value, f"{place}/{index}")

    free = (
        "/global",
        "/Arguments/properties/schema",
        "/Call/properties/arguments/anyOf/0",
        "/final_response_schema/anyOf/0",
    )
    assert [place for place in loose(schema, "") if not place.endswith(free)] == []


def test_every_value_is_documented() -> None:
    """Each key of values.yaml has a `# --` comment above it, or each of its own keys has."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    open_keys: list[tuple[int, str]] = []
    missing = []
    for above, line in pairwise(lines):
        key = re.match(r"( *)([A-Za-z]+):(.*)", line)
        if key is None:
            continue
        depth = len(key[1])
        open_keys = [(at, name) for at, name in open_keys if at < depth]
        told = above.strip().startswith("#")
        if not told and key[3].strip() and not open_keys:
            missing.append(line)
        if told:
            open_keys.append((depth, key[2]))
    assert missing == []


@pytest.mark.parametrize(
    ("setting", "restarts"),
    [("config.monitors.default.schedule.every=2m", False), ("config.server.external_url=https://r.example", True)],
)
def test_only_what_needs_it_restarts_the_pod(
    program: str, rendered: dict[str, list[Thing]], setting: str, restarts: bool
) -> None:
    """A change that a running daemon reloads leaves the pod's template alone; one that it cannot take over makes a new pod."""
    before = one(rendered["default"], "StatefulSet")["spec"]["template"]
    after = one(render(program, None, CHART, "--set", setting), "StatefulSet")["spec"]["template"]
    assert (before != after) is restarts


OTHER_VOLUMES = {"no-volume", "own-objects", "placed"}
"""Values files that say where the data are, or rename the release's objects."""

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"image": {"tagg": "1"}}, "tagg"),
    ({"replicas": 2}, "/replicas"),
    ({"config": {"monitors": {"m": {"rubrics": ["r"], "schedul": {"every": "1m"}}}}}, "schedul"),
    ({"config": {"rubrics": [{"name": "polite", "statment": "No blame."}]}}, "/config/rubrics/0"),
    ({"config": {"storage": {"retention": {"content": "14 days"}}}}, "/config/storage/retention/content"),
    ({"config": {"judges": {"default": {"base_url": "https://j.example"}}}}, "model"),
    ({"config": {"collectors": {"otlp": {"protocols": {"grpc": {"endpoint": "0.0.0.0"}}}}}}, "endpoint"),
    ({"extraVolumes": [{"name": "host", "hostPath": {"path": "/"}}]}, "hostPath"),
    ({"securityContext": {"privileged": True}}, "/securityContext/privileged"),
    ({"terminationGracePeriodSeconds": 30}, "/terminationGracePeriodSeconds"),
    ({"persistence": {"size": "twenty"}}, "/persistence/size"),
    ({"service": {"ports": {"grpc": 99999}}}, "/service/ports/grpc"),
    ({"judgeKeys": {"fast": {"existingSecret": "s", "key": "k"}}}, "judgeKeys.fast"),
    ({"affinity": {"podAntiAffinitee": {}}}, "podAntiAffinitee"),
    ({"rubrics": {"Courtesy.txt": "name: x"}}, "Courtesy.txt"),
    ({"image": {"digest": "sha256:beef"}}, "/image/digest"),
]


@pytest.mark.parametrize(("values", "named"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
def test_wrong_values_are_refused(program: str, tmp_path: Path, values: dict[str, Any], named: str) -> None:
    """A misspelled key, a wrong value, a setting that would not be safe: nothing is rendered, and the message names the place."""
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    found = helm(program, "template", "test", str(CHART), "-f", str(tmp_path / "values.yaml"))
    assert found.returncode != 0
    assert named in found.stderr


def test_the_notes_say_what_to_do_next(program: str) -> None:
    """After an install three commands are shown, and what is not set."""
    found = helm(
        program,
        "install",
        "test",
        str(CHART),
        "--dry-run=client",
        "--namespace",
        "agents",
        "--disable-openapi-validation",
    )
    notes = found.stdout.partition("NOTES:")[2]
    assert found.returncode == 0, found.stderr
    assert "rollout status statefulset/test-rubricd" in notes
    assert "OTEL_EXPORTER_OTLP_ENDPOINT=http://test-rubricd.agents.svc:4317" in notes
    assert "rubricd status" in notes
    assert "403" in notes


def test_plain_manifests_build_with_kustomize(required_program: Find, tmp_path: Path) -> None:
    """The base and the monitoring component build with the real kustomize and are what the chart renders by default."""
    kubectl = required_program("kubectl", INSTALL)
    for part in ("base", "monitoring"):
        shutil.copytree(ROOT / "deploy" / "kubernetes" / part, tmp_path / part)
    (tmp_path / "kustomization.yaml").write_text(
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: agents\nresources: [base]\ncomponents: [monitoring]\n"
    )
    found = subprocess.run([kubectl, "kustomize", str(tmp_path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    things = things_of(found.stdout)
    assert {"StatefulSet", "Service", "ConfigMap", "ServiceMonitor", "PrometheusRule"} <= {
        thing["kind"] for thing in things
    }
    assert all(thing["metadata"]["namespace"] == "agents" for thing in things)
    assert all(unrestricted(pod) == [] for pod in pods(things))


def test_nothing_has_drifted(program: str) -> None:
    """Values schema, rules, dashboards and plain manifests are what deploy/generate.py writes of their sources."""
    import sys

    found = subprocess.run(
        [sys.executable, str(ROOT / "deploy" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
