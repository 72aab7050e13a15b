"""The unmodified Dockerfile, built on Debian's packages under the names of its base images, and the chart's pod run from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.image.lock import _BLOCK, normal
from monitor.commands.demo_traffic import Traffic
from monitor.version import __version__
from tests.deploy.rendering import INSTALL, ROOT, one, render
from tests.support.daemon import free_port, wait_for

pytestmark = pytest.mark.service
Find = Callable[[str, str], str]
CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=2000:2000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
USER = 65532


@dataclass(frozen=True)
class Engine:
    """podman and buildah with a storage of their own. `driver` is `overlay` where the kernel lets it: `vfs` copies the whole image for each layer."""

    folder: Path
    podman: str
    buildah: str
    driver: str = "vfs"

    def run(
        self, program: str, *arguments: str, seconds: float = 300, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """One call; a failure shows what was said."""
        storage = [
            "--root",
            str(self.folder / "storage"),
            "--runroot",
            str(self.folder / "run"),
            "--storage-driver",
            self.driver,
        ]
        environment = {**os.environ, "CONTAINERS_CONF": str(self.folder / "containers.conf")}
        found = subprocess.run(
            [program, *storage, *arguments],
            capture_output=True,
            text=True,
            timeout=seconds,
            env=environment,
            check=False,
        )
        assert not check or found.returncode == 0, f"{arguments[:3]}: {found.stderr[-3000:]}{found.stdout[-2000:]}"
        return found


@pytest.fixture(scope="module")
def engine(required_program: Find) -> Iterator[Engine]:
    """Container tools, and the base images under the names that the Dockerfile gives."""
    helm = Path(required_program("helm", INSTALL))
    bases = helm.parent.parent / "share" / "rubricd-bases"
    if not (bases / "runtime.tar").is_file():
        required_program("rubricd-bases", INSTALL)
    folder = Path(tempfile.mkdtemp(prefix="image-"))  # podman takes no run folder of more than 50 characters
    (folder / "containers.conf").write_text(CONTAINERS)
    made = Engine(folder, required_program("podman", INSTALL), required_program("buildah", INSTALL), "overlay")
    if made.run(made.buildah, "info", check=False).returncode != 0:
        made = replace(made, driver="vfs")
    dockerfile = (ROOT / "Dockerfile").read_text()
    for argument, base in (("BUILD_IMAGE", "build"), ("RUNTIME_IMAGE", "runtime")):
        name = next(line.partition("=")[2] for line in dockerfile.splitlines() if line.startswith(f"ARG {argument}="))
        made.run(made.podman, "import", "--quiet", str(bases / f"{base}.tar"), name)
    yield made
    made.run(made.buildah, "rm", "--all", check=False)
    made.run(made.podman, "rm", "--all", "--force", check=False)
    subprocess.run(["umount", str(folder / "storage" / "overlay")], capture_output=True, check=False)
    subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], check=False)


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    """The image, built without a change. The certificates of the machine let pip reach the package registry from within."""
    (engine.folder / "pip.conf").write_text("[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n")
    mounts = ["--volume", "/etc/ssl/certs:/etc/ssl/certs:ro", "--volume", f"{engine.folder}/pip.conf:/etc/pip.conf:ro"]
    mounts += ["--volume", "/usr/share/ca-certificates:/usr/share/ca-certificates:ro"]
    engine.run(
        engine.buildah, "bud", "--pull-never", "--isolation", "chroot", "--format", "docker", "--timestamp", "1700000000",
        *mounts, "--build-arg", "REVISION=abc123", "-t", "localhost/rubricd:test", str(ROOT), seconds=500,
    )  # fmt: skip
    return "localhost/rubricd:test"


def test_the_dockerfile_is_clean(required_program: Find) -> None:
    """Hadolint has nothing to say but what the Dockerfile itself excuses."""
    hadolint = required_program("hadolint", INSTALL)
    found = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_the_image_says_what_it_is(engine: Engine, image: str) -> None:
    """Numeric user, entry point and health check in exec form, OCI labels, the ports, and a bounded size."""
    found = json.loads(engine.run(engine.podman, "image", "inspect", image).stdout)[0]
    config = found["Config"]
    assert config["User"] == f"{USER}:{USER}"
    assert config["Entrypoint"] == ["/opt/rubricd/bin/rubricd"]
    assert found["Healthcheck"]["Test"][0] == "CMD"
    assert config["StopSignal"] in ("SIGTERM", "15")
    assert set(config["ExposedPorts"]) == {"4317/tcp", "4318/tcp", "8464/tcp"}
    labels = config["Labels"]
    assert labels["org.opencontainers.image.revision"] == "abc123"
    assert {"title", "description", "licenses", "version"} <= {label.rpartition(".")[2] for label in labels}
    assert found["Size"] < 220e6


def test_the_image_holds_no_tools(engine: Engine, image: str) -> None:
    """No shell, no package manager, no compiler and no test code; the program's files belong to root, its state's folder to its user."""
    container = engine.run(engine.buildah, "from", "--pull-never", image).stdout.strip()
    root = Path(engine.run(engine.buildah, "mount", container).stdout.strip())
    for program in ("bin/sh", "bin/bash", "usr/bin/apt-get", "usr/bin/gcc", "opt/rubricd/bin/pip", "usr/bin/pip3"):
        assert not (root / program).exists(), program
    packages = root / "opt" / "rubricd" / "lib" / "python3.13" / "site-packages"
    assert not list(packages.glob("pip*"))
    assert not list(packages.glob("pytest*"))
    assert (packages / "monitor" / "__pycache__").is_dir()
    compiled = list(packages.rglob("*.pyc"))
    assert len(compiled) > 1000
    assert all(
        path.read_bytes()[4] == 1 for path in compiled
    )  # checked by nothing; a time in it would make each image another one
    assert all(path.lstat().st_uid == 0 for path in packages.rglob("*"))
    assert (root / "var" / "lib" / "rubricd").stat().st_uid == USER


@pytest.fixture(scope="module")
def bill(required_program: Find, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Name and version of what `deploy/sbom.sh` lists."""
    required_program("cyclonedx-py", INSTALL)
    file = tmp_path_factory.mktemp("bill") / "bill.json"
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run(
        ["bash", str(ROOT / "deploy" / "sbom.sh"), str(file)], check=True, capture_output=True, env=environment
    )
    components = json.loads(file.read_text())["components"]
    assert all(one["purl"].startswith("pkg:pypi/") for one in components)
    return {normal(one["name"]): one["version"] for one in components}


def test_the_bill_of_materials_is_the_images(engine: Engine, image: str, bill: dict[str, str]) -> None:
    """The bill lists, by name and version, the very distributions that the image holds besides rubricd."""
    container = engine.run(engine.buildah, "from", "--pull-never", image).stdout.strip()
    root = Path(engine.run(engine.buildah, "mount", container).stdout.strip())
    found = distributions(path=[str(root / "opt/rubricd/lib/python3.13/site-packages")])
    assert bill | {"rubricd": __version__} == {normal(one.metadata["Name"]): one.version for one in found}


def test_every_locked_wheel_exists_for_arm64(bill: dict[str, str], tmp_path: Path) -> None:
    """Pip finds, for Python 3.13 on 64-bit ARM, a wheel under one of the locked hashes for everything that the image holds: it can be built there."""
    lock = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    blocks = [match[0] for match in _BLOCK.finditer(lock) if normal(match[1]) in bill]
    (tmp_path / "runtime.txt").write_text("\n".join(blocks))
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(41, 16, -1)]
    command = [
        sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--target", str(tmp_path / "none"),
        *platforms, "--platform=manylinux2014_aarch64", "--python-version=3.13", "--implementation=cp", "--abi=cp313", "--abi=abi3", "--abi=none",
        "--only-binary=:all:", "--no-deps", "--require-hashes", "-r", str(tmp_path / "runtime.txt"), "--report", str(tmp_path / "report.json"),
    ]  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    wheels = [item["download_info"]["url"] for item in json.loads((tmp_path / "report.json").read_text())["install"]]
    assert len(wheels) == len(bill)
    assert sum("aarch64" in wheel for wheel in wheels) > 10


class Pod:
    """The pod that the chart renders, run by podman on the host's network."""

    def __init__(self, engine: Engine, image: str, helm: str) -> None:
        self.engine = engine
        self.ports = {name: free_port() for name in ("grpc", "http", "server")}
        values = {
            "image": {"repository": image.partition(":")[0], "tag": image.partition(":")[2], "pullPolicy": "Never"},
            "config": {
                "collectors": {"otlp": {"protocols": {name: {"endpoint": f"127.0.0.1:{self.ports[name]}"} for name in ("grpc", "http")}}},
                "server": {"endpoint": f"127.0.0.1:{self.ports['server']}"},
                "assembly": {"settle_after": "1s", "idle_timeout": "10s"},
                "monitors": {"default": {"schedule": {"every": "2s", "catch_up": 1000}}},
                "metrics": {"zero_for": "1s"},
            },
        }  # fmt: skip
        (engine.folder / "values.yaml").write_text(yaml.safe_dump(values))
        things = render(helm, engine.folder / "values.yaml")
        self.spec = one(things, "StatefulSet")["spec"]["template"]["spec"]
        # podman knows pods, not StatefulSets, and maps no ports of the host's network; the claim becomes a volume.
        self.spec |= {"hostNetwork": True}
        del self.spec["serviceAccountName"], self.spec["containers"][0]["ports"]
        self.spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "rubricd-data"}})
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "rubricd"}, "spec": self.spec}
        (engine.folder / "pod.yaml").write_text(yaml.safe_dump_all([one(things, "ConfigMap"), pod]))

    def up(self) -> float:
        """Start it; the seconds until it was ready."""
        began = time.monotonic()
        self.engine.run(self.engine.podman, "play", "kube", str(self.engine.folder / "pod.yaml"))
        try:
            wait_for(lambda: b'"ready"' in self.get("/readyz"), "the pod to be ready", 90)
        except AssertionError as error:
            said = self.engine.run(self.engine.podman, "logs", "rubricd-rubricd", check=False)
            raise AssertionError(f"{error}\n{(said.stdout + said.stderr)[-3000:]}") from None
        return time.monotonic() - began

    def get(self, path: str) -> bytes:
        """An answer, empty without one."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['server']}{path}", timeout=5) as answer:
                return bytes(answer.read())
        except OSError:
            return b""

    def items(self, path: str) -> list[dict[str, Any]]:
        """The first page of a listing."""
        return list(json.loads(self.get(path))["items"])

    def status(self) -> dict[str, str]:
        """The kernel's word on the process."""
        pid = self.engine.run(
            self.engine.podman, "inspect", "rubricd-rubricd", "--format", "{{.State.Pid}}"
        ).stdout.strip()
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)} | {"pid": pid}

    def stop(self) -> tuple[float, int]:
        """SIGTERM with the chart's grace period; the seconds it took and the exit status."""
        began = time.monotonic()
        grace = str(self.spec["terminationGracePeriodSeconds"])
        self.engine.run(self.engine.podman, "stop", "--time", grace, "rubricd-rubricd")
        seconds = time.monotonic() - began
        status = self.engine.run(self.engine.podman, "inspect", "rubricd-rubricd", "--format", "{{.State.ExitCode}}")
        return seconds, int(status.stdout)

    def down(self) -> None:
        """Remove it; its volume stays."""
        self.engine.run(self.engine.podman, "play", "kube", "--down", str(self.engine.folder / "pod.yaml"), check=False)


def test_the_demo_traffic_goes_through_the_pod(engine: Engine, image: str, required_program: Find) -> None:
    """The chart's pod runs as its user without a right, on a read-only root; the demo's traffic is judged; SIGTERM in its middle drains
    in time; a new pod on the same volume has lost nothing and judged nothing twice.
    """
    pod = Pod(engine, image, required_program("helm", INSTALL))
    try:
        ready = pod.up()
        status = pod.status()
        assert status["Uid"].split() == [str(USER)] * 4
        assert (status["CapEff"], status["NoNewPrivs"], status["Seccomp"]) == ("0" * 16, "1", "2")
        mounts = Path(f"/proc/{status['pid']}/mountinfo").read_text().splitlines()
        assert [line.split()[5].split(",")[0] for line in mounts if line.split()[4] == "/"] == ["ro"]
        endpoints = [f"grpc://127.0.0.1:{pod.ports['grpc']}", f"http://127.0.0.1:{pod.ports['http']}"]
        traffic = Traffic.recorded(ROOT / "config" / "demo", endpoints, 10)
        traffic.send()
        assert traffic.sent == 30
        seconds, exit_status = pod.stop()
        sys.stdout.write(f"ready after {ready:.1f} s, drained in {seconds:.1f} s\n")
        assert exit_status == 0
        assert seconds < 20
        pod.down()
        pod.up()
        query = "/api/v1/verdicts?since=1h&rubric=run_succeeded&limit=1000"
        wait_for(lambda: len(pod.items(query)) >= 30, "all of the traffic to be judged", 40)
        verdicts = pod.items(query)
        assert len({one["trace_id"] for one in verdicts}) == len(verdicts) == 30
    finally:
        pod.down()
