"""Our logs: one line an event on stderr, JSON or text, never with content."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

from monitor.clock import rfc3339

ROOTS = ("monitor", "collectors")
OTHERS = ("aiohttp", "asyncio", "opentelemetry", "apscheduler", "grpc", "openai", "httpx2")
"""Libraries whose warnings are worth a line of ours; the words of their exceptions, which can quote requests, are left out."""
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logging(level: str, style: str) -> None:
    """Send our log lines to stderr. May be called again (reload)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    for name in (*ROOTS, *OTHERS):
        root = logging.getLogger(name)
        for old in root.handlers[:]:
            root.removeHandler(old)
        root.addHandler(handler)
        root.setLevel(level.upper() if name in ROOTS else "ERROR")
        root.propagate = False


def places(error: BaseException | None) -> list[str]:
    """The kinds of an exception and its causes, each with the places it came through; never its message, which may quote content."""
    found: list[str] = []
    while error is not None and len(found) < 8:
        frames = traceback.extract_tb(error.__traceback__)
        way = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames[-6:]))
        found.append(f"{type(error).__name__} at {way}" if way else type(error).__name__)
        error = error.__cause__ or error.__context__
    return found


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _PLAIN}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the event's own fields; of exceptions the kinds and places."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        line: dict[str, Any] = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = places(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        fields = " ".join(f"{key}={value}" for key, value in _fields(record).items())
        text = f"{rfc3339(record.created)} {record.levelname.lower():7} {record.name} {record.getMessage()}"
        text = f"{text} {fields}" if fields else text
        return f"{text} exception={places(record.exc_info[1])}" if record.exc_info else text
