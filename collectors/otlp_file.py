"""The collector `otlp_file`: files as the OpenTelemetry Collector's file exporter writes them, followed while they grow and rotate."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from collectors.collector import Collector
from collectors.polling.building import Surroundings, feed_collector
from collectors.polling.config import Pace, PollerConfig
from collectors.polling.section import Bytes, PacedSection, Seconds, validated


class OtlpFileSection(PacedSection):
    """`include`: globs of files, `exclude`: globs of those left out. `start_at`: where a collector begins in files that it finds at its first start."""

    include: list[str] = Field(min_length=1)
    exclude: list[str] = Field(default_factory=list)
    start_at: Literal["beginning", "end"] = "beginning"
    interval: Seconds = 2.0
    max_record_size: Bytes = 64 * 1024**2


def parse_otlp_file(raw: Any, folder: Path | None = None) -> PollerConfig:
    """The configuration of an `otlp_file` collector; relative globs are relative to `folder`. Raises ConfigFault."""
    section = validated(OtlpFileSection, raw)
    options = {
        "include": tuple(_absolute(glob, folder) for glob in section.include),
        "exclude": tuple(_absolute(glob, folder) for glob in section.exclude),
        "start_at": section.start_at,
        "max_record_bytes": section.max_record_size,
    }
    return PollerConfig("otlp_file", Pace(interval=section.interval), options=options)


def build_otlp_file(name: str, config: PollerConfig, given: Surroundings) -> Collector:
    """A collector that follows files."""
    from collectors.polling.file_history import FileHistory, from_beginning
    from collectors.polling.files import FileFeed

    history = FileHistory(lambda: FileFeed(name, from_beginning(config.options), given), given)
    return feed_collector(name, FileFeed(name, config.options, given), config.pace.interval, given, history)


def _absolute(glob: str, folder: Path | None) -> str:
    expanded = Path(glob).expanduser()
    return str(expanded if folder is None else folder / expanded)
