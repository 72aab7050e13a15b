"""The collectors that a configuration can name. Adding one is a module of its own and a line in `_CATALOGUE`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collectors.collector import Collector
from collectors.otlp.config import OtlpConfig
from collectors.otlp.section import ConfigFault, parse_otlp
from collectors.sink import IntakeMeter, SpanSink

if TYPE_CHECKING:
    from collectors.polling.building import Surroundings
    from collectors.polling.clock import PollClock
    from collectors.polling.cursors import CursorStore

__all__ = ["ConfigFault", "build_collector", "parse_config"]

Parse = Callable[[Any, Path | None], Any]
Build = Callable[[str, Any, "Surroundings"], Collector]


@dataclass(frozen=True, slots=True)
class CollectorType:
    """How a collector's configuration is read, and how a collector is made of it."""

    parse: Parse
    build: Build


def _otlp(name: str, config: OtlpConfig, given: Surroundings) -> Collector:
    from collectors.otlp.receiver import OtlpReceiver

    return OtlpReceiver(name, config, given.sink, given.meter)


def _module(kind: str) -> CollectorType:
    """A type whose module `collectors.KIND` has `parse_KIND` and `build_KIND`; it is loaded when a configuration names it."""

    def parse(raw: Any, folder: Path | None) -> Any:
        return getattr(importlib.import_module(f"collectors.{kind}"), f"parse_{kind}")(raw, folder)

    def build(name: str, config: Any, given: Surroundings) -> Collector:
        built: Collector = getattr(importlib.import_module(f"collectors.{kind}"), f"build_{kind}")(name, config, given)
        return built

    return CollectorType(parse, build)


_CATALOGUE: Mapping[str, CollectorType] = {
    "otlp": CollectorType(parse_otlp, _otlp),
    "tempo": _module("tempo"),
    "jaeger": _module("jaeger"),
    "otlp_file": _module("otlp_file"),
    "phoenix": _module("phoenix"),
    "langfuse": _module("langfuse"),
}
_PROMISED = ("kafka", "files")
"""Types of the contract that come in a later version."""


def type_of(name: str) -> str:
    """The type of a collector's name in the configuration: `tempo/prod` is a `tempo`."""
    return name.partition("/")[0]


def parse_config(kind: str, raw: Any, folder: Path | None = None) -> Any:
    """The configuration of a collector of that type from its YAML values; None is the default.

    Relative files are relative to `folder`. Raises ConfigFault with every fault; an unknown type is one at the place ().
    """
    return _known(kind).parse(raw, folder)


def build_collector(
    name: str,
    config: Any,
    sink: SpanSink,
    meter: IntakeMeter,
    *,
    clock: PollClock | None = None,
    cursors: CursorStore | None = None,
) -> Collector:
    """A collector, not yet started. `config` is what `parse_config` returned, or the YAML values themselves.

    Pollers go by `clock`, which they need, and keep how far they have read in `cursors`, without it in memory. Raises ConfigFault.
    """
    from collectors.polling.building import Surroundings
    from collectors.polling.clock import NoClock
    from collectors.polling.cursors import MemoryCursors

    known = _known(type_of(name))
    parsed = known.parse(config, None) if config is None or isinstance(config, Mapping) else config
    return known.build(name, parsed, Surroundings(sink, meter, clock or NoClock(), cursors or MemoryCursors()))


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
