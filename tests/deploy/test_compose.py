"""The laptop's stack and the Collector recipe: files that exist, ports that fit, configurations that the programs understand where they are here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from monitor.configuration import load_configuration

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
COMPOSE = DEPLOY / "compose"


def read(path: Path) -> Any:
    """A YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_what_is_mounted_exists() -> None:
    """Every file and folder that a service mounts is in the repository, and rubricd runs without a right on a read-only root."""
    services = read(COMPOSE / "compose.yaml")["services"]
    for name, service in services.items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (COMPOSE / source).exists(), (name, volume)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
    rubricd = services["rubricd"]
    assert rubricd["read_only"]
    assert rubricd["cap_drop"] == ["ALL"]
    assert (COMPOSE / rubricd["build"]["context"] / rubricd["build"]["dockerfile"]).is_file()


@pytest.mark.service
def test_docker_compose_takes_the_file(required_program: Callable[[str, str], str], tmp_path: Path) -> None:
    """The real `docker compose config`, which needs no Docker, finds no fault in the stack, resolves its mounts, and refuses an unknown key."""
    compose = required_program("rubricd-docker-compose", "bash deploy/ci-tools.sh")

    def config(file: Path) -> subprocess.CompletedProcess[str]:
        command = [compose, "-f", str(file), "config", "--format", "json"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    found = config(COMPOSE / "compose.yaml")
    assert (found.returncode, found.stderr) == (0, "")
    services = json.loads(found.stdout)["services"]
    assert set(services) == {"rubricd", "collector", "prometheus", "grafana"}
    sources = [mount["source"] for one in services.values() for mount in one["volumes"] if mount["type"] == "bind"]
    assert len(sources) == 6
    assert all(Path(source).exists() for source in sources)
    (tmp_path / "compose.yaml").write_text((COMPOSE / "compose.yaml").read_text().replace("read_only:", "readonly:"))
    wrong = config(tmp_path / "compose.yaml")
    assert wrong.returncode != 0
    assert "'readonly' not allowed" in wrong.stderr


@pytest.mark.parametrize(
    "file", [COMPOSE / "rubricd.yaml", DEPLOY / "image" / "rubricd.yaml"], ids=lambda path: path.parent.name
)
def test_the_daemon_understands_its_file(file: Path) -> None:
    """The configurations of stack and image are without a fault, open to the network, with state on the volume."""
    settings = load_configuration(file, {}).settings
    assert settings.server.endpoint == "0.0.0.0:8464"
    assert settings.storage.path == "/var/lib/rubricd"
    assert set(settings.monitors["default"].rubrics) == set(
        load_configuration(DEPLOY.parent / "config" / "rubricd.yaml", {}).settings.monitors["default"].rubrics
    )


@pytest.mark.parametrize(
    "file",
    [COMPOSE / "collector.yaml", DEPLOY / "collector" / "agents-to-rubricd.yaml"],
    ids=lambda path: path.parent.name,
)
def test_collector_pipelines_use_what_is_declared(file: Path) -> None:
    """Each receiver, processor, exporter and extension of a Collector's pipelines is declared, and each declared one is used."""
    recipe = read(file)
    pipelines = recipe["service"]["pipelines"].values()
    for section in ("receivers", "processors", "exporters"):
        used = {name for pipeline in pipelines for name in pipeline.get(section, [])}
        assert used == set(recipe.get(section, {})), section
    assert set(recipe["service"].get("extensions", [])) == set(recipe.get("extensions", {}))
    for exporter in recipe["exporters"].values():
        assert exporter["retry_on_failure"]["enabled"]
        assert exporter["sending_queue"]["enabled"]


@pytest.mark.service
def test_prometheus_understands_its_file(required_program: Callable[[str, str], str], tmp_path: Path) -> None:
    """Promtool takes the stack's Prometheus configuration, with the shipped rules where they are mounted."""
    promtool = required_program("promtool", "apt-get install prometheus")
    text = (COMPOSE / "prometheus.yml").read_text().replace("/etc/prometheus/rules", str(DEPLOY / "prometheus"))
    (tmp_path / "prometheus.yml").write_text(text)
    found = subprocess.run(
        [promtool, "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert "1 rule files found" in found.stdout


def test_grafana_finds_the_dashboards() -> None:
    """The provisioned data source is the one that the dashboards' alerts name, and the folder of dashboards is the mounted one."""
    source = read(COMPOSE / "grafana" / "datasources" / "prometheus.yaml")["datasources"][0]
    assert source["uid"] == "prometheus"
    path = read(COMPOSE / "grafana" / "dashboards" / "rubricd.yaml")["providers"][0]["options"]["path"]
    mounted = read(COMPOSE / "compose.yaml")["services"]["grafana"]["volumes"]
    assert f"../grafana:{path}:ro" in mounted
