"""Audits what rubricd is built of: the lock, what is installed, licences, and known vulnerabilities. Run it by the Python that has the lock installed.

    .venv/bin/python deploy/audit.py             exit 1 and a line for each fault
    .venv/bin/python deploy/audit.py --require   … also where no vulnerability service answered

Vulnerabilities are asked for by pip-audit (deploy/ci-tools.sh installs it) at PyPI's service, or at one that speaks OSV's protocol: RUBRICD_OSV_URL.
A service that does not answer, or knows none of the packages (an index behind a mirror), is no clean bill: the last line then says NOT AUDITED.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "constraints.txt"
_PIN = re.compile(r"([A-Za-z0-9._-]+)==([^\s;\\]+)(?:\s*;[^\\]*)?")
_HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")
SECONDS = 300

OUTSIDE = frozenset({"pip", "rubricd", "setuptools", "wheel"})
"""Not from the lock: what makes the environment, and the program itself."""

ALLOWED = (
    "MIT", "BSD", "Apache", "ISC", "PSF", "Python Software Foundation", "MPL-2.0", "Mozilla Public License 2.0", "Unlicense", "0BSD", "CC0",
)  # fmt: skip
"""Licences that a program under Apache-2.0 can be shipped with; text of the metadata's licence has to name one of them."""

KNOWN: Mapping[str, str] = {}
"""Packages whose metadata names no licence: what it is, by their source."""


def normal(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> tuple[dict[str, str], list[str]]:
    """Name and version of each entry of a lock, and what is wrong with it: an entry that is not pinned by version and hash, or an option."""
    found, faults = {}, []
    for entry in re.sub(r"\\\n", " ", text).splitlines():
        entry = entry.strip()
        if not entry or entry.startswith("#"):
            continue
        pin = _PIN.match(entry)
        if pin is None:
            faults.append(f"lock: `{entry[:60]}` is not pinned as name==version")
        elif not _HASH.search(entry):
            faults.append(f"lock: {pin[1]} has no sha256 hash")
        else:
            found[normal(pin[1])] = pin[2]
    return found, faults


def drift(locked: Mapping[str, str], installed: Mapping[str, str]) -> list[str]:
    """Installed distributions that are not the locked ones."""
    return [
        f"installed: {name} {version}, and the lock has {locked.get(name, 'none')}"
        for name, version in sorted(installed.items())
        if name not in OUTSIDE and locked.get(name) != version
    ]


def licence(distribution: Distribution) -> str:
    """What its metadata says: the SPDX expression, else classifiers, else the first line of the licence's text."""
    metadata = distribution.metadata
    classifiers = [line.rpartition(" :: ")[2] for line in metadata.get_all("Classifier", []) if "License ::" in line]
    text = (
        metadata.get("License-Expression")
        or "; ".join(classifiers)
        or (metadata.get("License") or "").partition("\n")[0]
    )
    return text or KNOWN.get(normal(metadata["Name"]), "")


def licences(found: Mapping[str, str]) -> list[str]:
    """Packages whose licence is none of those allowed."""
    return [
        f"licence: {name} is under `{text or 'nothing that its metadata names'}`"
        for name, text in sorted(found.items())
        if name not in OUTSIDE and not any(word in text for word in ALLOWED)
    ]


def vulnerabilities(report: Mapping[str, object]) -> tuple[list[str], int]:
    """A line for each vulnerability of a report of pip-audit, and how many packages the service knew."""
    faults, known = [], 0
    for one in report["dependencies"]:  # type: ignore[attr-defined]
        known += "skip_reason" not in one
        for vuln in one.get("vulns", ()):
            fixed = ", ".join(vuln["fix_versions"]) or "no version"
            faults.append(f"vulnerable: {one['name']} {one['version']}: {vuln['id']}, fixed in {fixed}")
    return faults, known


def asked(lock: Path) -> tuple[list[str], int, str]:
    """Faults, how many packages were audited, and why not all."""
    program = shutil.which("pip-audit")
    if program is None:
        return [], 0, "pip-audit is not installed: bash deploy/ci-tools.sh"
    command = [program, "--require-hashes", "--disable-pip", "-r", str(lock), "-f", "json", "--progress-spinner", "off"]
    url = os.environ.get("RUBRICD_OSV_URL")
    command += ["--vulnerability-service", "osv", "--osv-url", url] if url else []
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)  # noqa: S603
        faults, known = vulnerabilities(json.loads(ran.stdout))
    except (subprocess.TimeoutExpired, ValueError, KeyError):
        return [], 0, "the vulnerability service did not answer"
    return faults, known, "the service does not know these packages: is the index a mirror?"


def audit(require: bool) -> Iterator[str]:
    """Every fault; what was found otherwise goes to stdout."""
    locked, faults = pins(LOCK.read_text(encoding="utf-8"))
    yield from faults
    here = {normal(one.metadata["Name"]): one for one in distributions()}
    yield from drift(locked, {name: one.version for name, one in here.items()})
    checked = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    yield from () if checked.returncode == 0 else (f"installed: {line}" for line in checked.stdout.splitlines())
    yield from licences({name: licence(one) for name, one in here.items()})
    sys.stdout.write(
        f"lock: {len(locked)} packages pinned by version and hash; installed, consistent and licensed: {len(here)}\n"
    )
    found, known, reason = asked(LOCK)
    yield from found
    if known < len(locked):
        said = f"NOT AUDITED for known vulnerabilities: {len(locked) - known} of {len(locked)} packages ({reason})"
        yield from (said,) if require else ()
        sys.stdout.write(said + "\n")
    else:
        sys.stdout.write(f"vulnerabilities: {known} packages audited, {len(found)} known\n")


def main() -> int:
    """1 with any fault."""
    faults = list(audit("--require" in sys.argv[1:]))
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
