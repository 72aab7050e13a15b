"""Reads recorded cases and scores reconstructed invocations with the comparison tool that lies beside the recordings."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from collectors.otlp.file import read_file
from collectors.otlp.request import decode
from collectors.sink import Signal
from collectors.span import LogRecord, Span
from monitor.assembly import AssemblyContext, assemble
from monitor.commands.files import assembled_invocations
from monitor.model.invocation import Assembled, SettledBy
from monitor.model.wire import invocation_json

CONTEXT = AssemblyContext(SettledBy.IDLE, "otlp")


def load(files: Iterable[Path]) -> tuple[list[Span], list[LogRecord]]:
    """All spans and log records of recorded files."""
    spans: list[Span] = []
    logs: list[LogRecord] = []
    for file in files:
        for body, signal in read_file(file):
            decoded = decode(body, signal)
            if signal is Signal.TRACES:
                spans += decoded.spans
            else:
                logs += decoded.logs
    return spans, logs


def reconstruct(files: Iterable[Path], context: AssemblyContext = CONTEXT) -> list[Assembled]:
    """The invocations of recorded files, by start, then id."""
    return assemble(*load(files), context)


def as_json(made: Iterable[Assembled]) -> list[dict[str, Any]]:
    """Invocations as `reconstruct --json` prints them."""
    return [json.loads(json.dumps(invocation_json(one.invocation))) for one in made]


def comparison(shared: Path) -> ModuleType:
    """The comparison tool, answering from this process."""
    spec = importlib.util.spec_from_file_location("compare_invocations", shared / "tools" / "compare_invocations.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.answer = lambda command, files: (as_json(assembled_invocations(files)), "")
    return module
