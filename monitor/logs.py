"""Our logs: one line an event on stderr, JSON or text, never with content."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from monitor.clock import rfc3339

ROOTS = ("monitor", "collectors")
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logging(level: str, style: str) -> None:
    """Send our log lines to stderr. May be called again (reload)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else TextLines())
    for name in ROOTS:
        root = logging.getLogger(name)
        for old in root.handlers[:]:
            root.removeHandler(old)
        root.addHandler(handler)
        root.setLevel(level.upper())
        root.propagate = False


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _PLAIN}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the event's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record. A traceback goes into `exception`: types and places, and our own messages."""
        line: dict[str, Any] = {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """The same for people."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        fields = " ".join(f"{key}={value}" for key, value in _fields(record).items())
        text = f"{rfc3339(record.created)} {record.levelname.lower():7} {record.name} {record.getMessage()}"
        text = f"{text} {fields}" if fields else text
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text
