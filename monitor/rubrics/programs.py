"""Which program a `code` rubric runs, as far as its file tells: the folder that it starts in, and a hash of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from monitor.rubrics.kinds.code import CodeSpec

_LARGEST_FILE = 64 * 1024 * 1024


def program_place(data: Mapping[str, Any], rubric_file: str) -> dict[str, str]:
    """`folder` and `content` of a `code` rubric. Files named in its command that exist are hashed, so that a changed program is another
    version; what those load in turn is not seen.
    """
    folder = Path(rubric_file).expanduser().absolute().parent
    digest = hashlib.sha256()
    found = False
    for path in _files(data, folder):
        if path.is_file() and path.stat().st_size <= _LARGEST_FILE:
            digest.update(path.read_bytes() + b"\0")
            found = True
    return {"folder": str(folder), "content": digest.hexdigest()[:16] if found else ""}


def current_content(spec: CodeSpec) -> str:
    """The hash of the program's files as they are now; `spec.content` is what they were when the rubric was read."""
    program = {"command": list(spec.command), "function": spec.function}
    return program_place(program, str(Path(spec.folder) / "rubric.yaml"))["content"]


def _files(data: Mapping[str, Any], folder: Path) -> list[Path]:
    command, function = data.get("command"), data.get("function")
    words = [command] if isinstance(command, str) else command if isinstance(command, list) else []
    files = [folder / word for word in words if isinstance(word, str) and word and not word.startswith("-")]
    if isinstance(function, str):
        module = folder.joinpath(*function.partition(":")[0].split("."))
        files += [module.with_suffix(".py"), module / "__init__.py"]
    return files
