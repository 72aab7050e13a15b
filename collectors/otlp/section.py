"""The section `collectors.otlp` of the configuration: from YAML values to an OtlpConfig, every fault named."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from collectors.otlp.config import MAX_REQUEST_BYTES, OtlpConfig, ReceiverConfig, TlsConfig
from collectors.otlp.endpoint import parse_endpoint
from collectors.reasons import reason_of

Place = tuple[str | int, ...]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_SMALLEST, _LARGEST = 1024, 1024**3
"""A message of more than 1 GiB does not fit the runtime's buffers; one of less than 1 KiB is no export request."""

_IN_FLIGHT_REQUESTS = 4


class ConfigFault(Exception):
    """A collector's configuration is wrong; `faults` are pairs of the place below the collector's key and the reason."""

    def __init__(self, faults: Sequence[tuple[Place, str]]) -> None:
        super().__init__("; ".join(f"{'.'.join(map(str, place)) or 'collector'}: {reason}" for place, reason in faults))
        self.faults = tuple(faults)


def _endpoint(text: str) -> str:
    parse_endpoint(text)
    return text


def _size(text: object) -> int:
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or match[2] not in _UNITS:
        raise ValueError("is no size: write it with a unit, like 64MiB")
    size = int(float(match[1]) * _UNITS[match[2]])
    if not _SMALLEST <= size <= _LARGEST:
        raise ValueError("should be from 1KiB to 1GiB")
    return size


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, strict=True)


class _Tls(_Section):
    cert_file: str
    key_file: str
    client_ca_file: str | None = None


class _Auth(_Section):
    bearer_token_file: str


class _Protocol(_Section):
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = None
    tls: _Tls | None = None
    auth: _Auth | None = None
    max_request_size: Annotated[int, BeforeValidator(_size)] = MAX_REQUEST_BYTES


class _Protocols(_Section):
    grpc: _Protocol | None = None
    http: _Protocol | None = None


class _Otlp(_Section):
    protocols: _Protocols | None = None


_MODELS: dict[Place, type[BaseModel]] = {
    (): _Otlp,
    ("protocols",): _Protocols,
    **{("protocols", name): _Protocol for name in _Protocols.model_fields},
    **{("protocols", name, "tls"): _Tls for name in _Protocols.model_fields},
    **{("protocols", name, "auth"): _Auth for name in _Protocols.model_fields},
}


def parse_otlp(raw: Any, folder: Path | None = None) -> OtlpConfig:
    """The configuration of an `otlp` collector; None is both listeners with their defaults.

    When `protocols` is given only the ones listed there are opened, `http: ` with nothing behind it with its defaults. Relative files
    are relative to `folder`. Raises ConfigFault with every fault found.
    """
    if raw is None:
        return OtlpConfig()
    try:
        section = _Otlp.model_validate(raw)
    except ValidationError as error:
        raise ConfigFault([_fault(item) for item in error.errors(include_url=False, include_input=False)]) from None
    if section.protocols is None:
        return OtlpConfig()
    listed = section.protocols.model_fields_set
    if not listed:
        raise ConfigFault([(("protocols",), "names no protocol: list grpc, http or both, or leave `protocols` out")])
    defaults = OtlpConfig()
    grpc = _receiver(section.protocols.grpc, defaults.grpc, folder) if "grpc" in listed else None
    http = _receiver(section.protocols.http, defaults.http, folder) if "http" in listed else None
    _check_apart(grpc, http)
    return OtlpConfig(grpc, http)


def _receiver(given: _Protocol | None, default: ReceiverConfig | None, folder: Path | None) -> ReceiverConfig:
    assert default is not None
    if given is None:
        return default

    def file(name: str) -> str:
        return str(folder / name) if folder is not None else name

    tls = None
    if given.tls is not None:
        authority = given.tls.client_ca_file
        tls = TlsConfig(
            file(given.tls.cert_file), file(given.tls.key_file), file(authority) if authority is not None else None
        )
    return replace(
        default,
        endpoint=given.endpoint or default.endpoint,
        max_request_bytes=given.max_request_size,
        max_in_flight_bytes=_IN_FLIGHT_REQUESTS * given.max_request_size,
        tls=tls,
        bearer_token_file=file(given.auth.bearer_token_file) if given.auth is not None else None,
    )


def _check_apart(grpc: ReceiverConfig | None, http: ReceiverConfig | None) -> None:
    """Both protocols on one port cannot be."""
    if grpc is None or http is None:
        return
    first, second = parse_endpoint(grpc.endpoint), parse_endpoint(http.endpoint)
    if first.port and first == second:
        raise ConfigFault([(("protocols", "http", "endpoint"), "is the endpoint of grpc, too: give each its own port")])


def _fault(error: Any) -> tuple[Place, str]:
    """A pydantic error as a place and what would be right."""
    place: Place = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        return place, _unknown(str(place[-1]), list(_MODELS[place[:-1]].model_fields))
    return place, reason_of(error)


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"is no key here; did you mean `{near[0]}`?" if near else f"is no key here; the keys are {', '.join(known)}"
