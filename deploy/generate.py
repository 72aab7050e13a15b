"""Writes what deploy/ holds of other files: the chart's values schema, rules and dashboards, and the plain manifests rendered from it.

    python deploy/generate.py            writes
    python deploy/generate.py --check    exit 1 and the names of files that are not what would be written

Rendering needs `helm` on the PATH (deploy/ci-tools.sh installs it); without it --check says so and exits 3.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent
ROOT = DEPLOY.parent
CHART = DEPLOY / "helm" / "rubricd"
MANIFESTS = DEPLOY / "kubernetes"
HEADING = "# Rendered from deploy/helm/rubricd by deploy/generate.py; change the chart instead.\n"
sys.path[:0] = [str(ROOT), str(DEPLOY)]


def schema() -> dict[Path, str]:
    """values.schema.json."""
    from values_schema import values_schema

    from monitor.commands.schema import schema as daemon_schema

    text = json.dumps(
        values_schema(daemon_schema("configuration"), daemon_schema("rubrics")), indent=1, ensure_ascii=False
    )
    return {CHART / "values.schema.json": text + "\n"}


def copies() -> dict[Path, str]:
    """The tested rules and the dashboards, in the chart's own folder: a chart cannot read outside of it."""
    pairs = [
        (file, CHART / "files" / "rules" / file.name) for file in sorted((DEPLOY / "prometheus").glob("*.rules.yml"))
    ]
    pairs += [
        (file, CHART / "files" / "dashboards" / file.name) for file in sorted((DEPLOY / "grafana").glob("*.json"))
    ]
    return {target: source.read_text(encoding="utf-8") for source, target in pairs}


def manifests(helm: str) -> dict[Path, str]:
    """The plain manifests: the chart's default without anything of Helm, and the monitoring objects as a component."""
    everything = ["--set", "serviceMonitor.enabled=true,prometheusRule.enabled=true,dashboards.enabled=true"]
    base, monitoring = rendered(helm), rendered(helm, *everything)
    added = {name: text for name, text in monitoring.items() if name not in base}
    found = {MANIFESTS / "base" / name: HEADING + text for name, text in base.items()}
    found |= {MANIFESTS / "monitoring" / name: HEADING + text for name, text in added.items()}
    found[MANIFESTS / "base" / "kustomization.yaml"] = kustomization("Kustomization", base)
    found[MANIFESTS / "monitoring" / "kustomization.yaml"] = kustomization("Component", added)
    return found


def rendered(helm: str, *arguments: str) -> dict[str, str]:
    """The chart's objects by file name, without test pods."""
    command = [helm, "template", "rubricd", str(CHART), "--namespace", "rubricd", "--skip-tests", *arguments]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603
    return {file_name(document): plain(document) for document in documents(text)}


def documents(text: str) -> Iterator[str]:
    """The YAML documents of a rendering."""
    yield from (part.strip("\n") for part in ("\n" + text).split("\n---\n") if "\nkind: " in part)


def file_name(document: str) -> str:
    """`statefulset.yaml`; with the name of what is not the only one of its kind."""
    import yaml

    thing = yaml.safe_load(document)
    name = thing["metadata"]["name"].removeprefix("rubricd").strip("-")
    return f"{thing['kind'].lower()}{'-' + name if name else ''}.yaml"


def plain(document: str) -> str:
    """An object without what says that Helm made it, and without a namespace: kustomize sets that."""
    dropped = (
        "helm.sh/chart:",
        "app.kubernetes.io/managed-by:",
        "namespace: rubricd",
        "# Source:",
        "app.kubernetes.io/instance: rubricd",
    )
    lines = [line for line in document.splitlines() if not line.strip().startswith(dropped)]
    return "\n".join(lines) + "\n"


def kustomization(kind: str, names: dict[str, str]) -> str:
    """The kustomization of those files."""
    version = "v1beta1" if kind == "Kustomization" else "v1alpha1"
    resources = "".join(f"  - {name}\n" for name in sorted(names))
    return f"{HEADING}apiVersion: kustomize.config.k8s.io/{version}\nkind: {kind}\nresources:\n{resources}"


def stale(folder: Path, wanted: dict[Path, str]) -> list[Path]:
    """Files in a generated folder that would not be written."""
    return [file for file in folder.rglob("*") if file.is_file() and file not in wanted]


def main() -> int:
    """Write, or compare."""
    helm = shutil.which("helm")
    if helm is None:
        sys.stderr.write("helm is not installed: bash deploy/ci-tools.sh\n")
        return 3
    check = "--check" in sys.argv[1:]
    wrong: list[Path] = []
    for made in (schema, copies, lambda: manifests(helm)):  # in this order: rendering reads what the first two write
        wanted = made()
        wrong += [
            path for path, text in wanted.items() if not path.is_file() or path.read_text(encoding="utf-8") != text
        ]
        if not check:
            for path, text in wanted.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        folders = {path.parents[0] for path in wanted if path.parent != CHART}
        for folder in folders:
            for file in stale(folder, wanted):
                wrong.append(file)
                if not check:
                    file.unlink()
    if check and wrong:
        sys.stderr.write("run `python deploy/generate.py`, these differ:\n")
        sys.stderr.writelines(f"  {path.relative_to(ROOT)}\n" for path in wrong)
    return 1 if check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
