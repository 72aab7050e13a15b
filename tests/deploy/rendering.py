"""The chart as the real `helm` renders it, and what the restricted Pod Security Standard asks of pods."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "rubricd"
VALUES = sorted((Path(__file__).parent / "values").glob("*.yaml"))
Thing = dict[str, Any]

INSTALL = "bash deploy/ci-tools.sh"
RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def helm(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """One call of helm."""
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


def things_of(text: str) -> list[Thing]:
    """The objects of a rendering."""
    return [thing for thing in yaml.safe_load_all(text) if thing]


def render(program: str, values: Path | None = None, chart: Path = CHART, *arguments: str) -> list[Thing]:
    """The objects of a release `test` in the namespace `agents`."""
    named = ["-f", str(values)] if values else []
    found = helm(program, "template", "test", str(chart), "--namespace", "agents", *named, *arguments)
    assert found.returncode == 0, found.stderr
    return things_of(found.stdout)


def one(things: list[Thing], kind: str, ending: str = "") -> Thing:
    """The only object of that kind, or of those whose name ends so."""
    found = [thing for thing in things if thing["kind"] == kind and thing["metadata"]["name"].endswith(ending)]
    assert len(found) == 1, [thing["metadata"]["name"] for thing in found]
    return found[0]


def pods(things: list[Thing]) -> Iterator[Mapping[str, Any]]:
    """The pod specs of all objects."""
    for thing in things:
        if thing["kind"] == "Pod":
            yield thing["spec"]
        elif thing["kind"] in ("StatefulSet", "Deployment", "DaemonSet", "Job"):
            yield thing["spec"]["template"]["spec"]


def unrestricted(pod: Mapping[str, Any]) -> list[str]:
    """What keeps a pod from the restricted profile (Kubernetes, Pod Security Standards)."""
    whole = pod.get("securityContext", {})
    faults = [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    for volume in pod.get("volumes", []):
        faults += [f"volume {volume['name']}: {kind}" for kind in set(volume) - {"name"} - RESTRICTED_VOLUMES]
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        own = container.get("securityContext", {})
        if not own.get("runAsNonRoot", whole.get("runAsNonRoot")):
            faults.append("runAsNonRoot")
        if own.get("runAsUser", whole.get("runAsUser")) == 0:
            faults.append("runAsUser")
        if own.get("seccompProfile", whole.get("seccompProfile", {})).get("type") not in (
            "RuntimeDefault",
            "Localhost",
        ):
            faults.append("seccompProfile")
        if own.get("allowPrivilegeEscalation") is not False:
            faults.append("allowPrivilegeEscalation")
        capabilities = own.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            faults.append("capabilities")
        faults += ["hostPort" for port in container.get("ports", []) if port.get("hostPort")]
        if own.get("privileged"):
            faults.append("privileged")
    return faults
