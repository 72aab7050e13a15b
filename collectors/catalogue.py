"""The collectors that a configuration can name. Adding one is a module of its own and a line in `_CATALOGUE`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collectors.collector import Collector
from collectors.otlp.config import OtlpConfig
from collectors.otlp.section import ConfigFault, parse_otlp
from collectors.sink import IntakeMeter, SpanSink

__all__ = ["ConfigFault", "build_collector", "parse_config"]

Parse = Callable[[Any, Path | None], OtlpConfig]
Build = Callable[[str, OtlpConfig, SpanSink, IntakeMeter], Collector]


@dataclass(frozen=True, slots=True)
class CollectorType:
    """How a collector's configuration is read, and how a collector is made of it."""

    parse: Parse
    build: Build


def _otlp(name: str, config: OtlpConfig, sink: SpanSink, meter: IntakeMeter) -> Collector:
    from collectors.otlp.receiver import OtlpReceiver

    return OtlpReceiver(name, config, sink, meter)


_CATALOGUE: Mapping[str, CollectorType] = {
    "otlp": CollectorType(parse_otlp, _otlp),
}
_PROMISED = ("tempo", "jaeger", "kafka", "files")
"""Types of the contract that come in a later version."""


def type_of(name: str) -> str:
    """The type of a collector's name in the configuration: `tempo/prod` is a `tempo`."""
    return name.partition("/")[0]


def parse_config(kind: str, raw: Any, folder: Path | None = None) -> OtlpConfig:
    """The configuration of a collector of that type from its YAML values; None is the default.

    Relative files are relative to `folder`. Raises ConfigFault with every fault; an unknown type is one at the place ().
    """
    return _known(kind).parse(raw, folder)


def build_collector(name: str, config: Any, sink: SpanSink, meter: IntakeMeter) -> Collector:
    """A collector, not yet started. `config` is what `parse_config` returned, or the YAML values themselves.

    Raises ConfigFault.
    """
    known = _known(type_of(name))
    parsed = config if isinstance(config, OtlpConfig) else known.parse(config, None)
    return known.build(name, parsed, sink, meter)


def _known(kind: str) -> CollectorType:
    if kind in _CATALOGUE:
        return _CATALOGUE[kind]
    if kind in _PROMISED:
        raise ConfigFault([((), f"`{kind}` is promised for a later version; only {_types()} can be used yet")])
    near = difflib.get_close_matches(kind, _CATALOGUE, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"the types are {_types()}"
    raise ConfigFault([((), f"`{kind}` is no type of collector; {hint}")])


def _types() -> str:
    return ", ".join(f"`{kind}`" for kind in _CATALOGUE)
