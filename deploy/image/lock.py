"""Prints, with their hashes, the locked requirements that the program (`runtime`) or its build (`build`) needs.

constraints.txt locks everything, the tools of developers too. pip resolves which of it is needed on this platform (a dry run, nothing is
installed), and those blocks are printed; what is printed is installed with --require-hashes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

_BLOCK = re.compile(r"^([A-Za-z0-9._-]+)==(\S+).*(?:\n[ \t]+--hash=.*)+", re.MULTILINE)


def wanted(which: str) -> list[str]:
    """The requirements that pyproject.toml names."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    return list(project["project"]["dependencies"] if which == "runtime" else project["build-system"]["requires"])


def resolved(requirements: list[str], pins: list[str]) -> set[str]:
    """The names of what pip would install for those requirements under those pins."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(pins))
        constraints.flush()
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
            "--report",
            "-",
        ]
        command += ["--only-binary", ":all:", "--constraint", constraints.name, *requirements]
        report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)  # noqa: S603
    return {normal(item["metadata"]["name"]) for item in report["install"]}


def normal(name: str) -> str:
    """A distribution's name as the index compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Print the lock; a requirement that is not locked ends the build."""
    blocks = {normal(match[1]): match for match in _BLOCK.finditer(Path("constraints.txt").read_text(encoding="utf-8"))}
    names = resolved(wanted(sys.argv[1]), [f"{match[1]}=={match[2]}" for match in blocks.values()])
    missing = names - set(blocks)
    if missing:
        sys.exit(f"constraints.txt does not lock {', '.join(sorted(missing))}: run `make lock`")
    print("\n".join(blocks[name][0] for name in sorted(names)))  # noqa: T201


if __name__ == "__main__":
    main()
