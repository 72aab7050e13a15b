"""What the sections of all pollers have in common: from YAML values to a PollerConfig, every fault named."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from collectors.otlp.section import ConfigFault
from collectors.polling.config import ClientTls, Credentials, HttpConfig, Pace
from collectors.reasons import reason_of

Place = tuple[str | int, ...]

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_LARGEST = 1024**3
_PACE, _HTTP = Pace(), HttpConfig("")
"""The defaults."""


def _duration(text: object) -> float:
    if not isinstance(text, str) or not re.fullmatch(rf"({_PART.pattern})+", text.strip()):
        raise ValueError("is no duration: write it with a unit, like 30s, 5m or 1h30m")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))


def _size(text: object) -> int:
    match = _SIZE.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None or match[2] not in _UNITS:
        raise ValueError("is no size: write it with a unit, like 64MiB")
    size = int(float(match[1]) * _UNITS[match[2]])
    if not 1024 <= size <= _LARGEST:
        raise ValueError("should be from 1KiB to 1GiB")
    return size


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is no URL: write http://host:port or https://host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("carries credentials: give them under `auth`")
    if parts.query or parts.fragment:
        raise ValueError("is the URL that API paths are appended to: leave out what follows `?` or `#`")
    return text.rstrip("/")


Seconds = Annotated[float, BeforeValidator(_duration)]
Bytes = Annotated[int, BeforeValidator(_size)]
Url = Annotated[str, AfterValidator(_url)]


class Section(BaseModel):
    """A section of a poller: unknown keys are faults."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, strict=True)


class _Basic(Section):
    username: str
    password: str | None = None
    password_file: str | None = None

    @model_validator(mode="after")
    def _one_password(self) -> _Basic:
        if (self.password is None) == (self.password_file is None):
            raise ValueError("give `password_file` or `password: ${env:NAME}`, one of them")
        return self


class _Auth(Section):
    bearer_token: str | None = None
    bearer_token_file: str | None = None
    basic: _Basic | None = None

    @model_validator(mode="after")
    def _one_way(self) -> _Auth:
        if sum(way is not None for way in (self.bearer_token, self.bearer_token_file, self.basic)) != 1:
            raise ValueError("give one of `bearer_token_file`, `bearer_token: ${env:NAME}`, `basic`")
        return self


class _Tls(Section):
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None

    @model_validator(mode="after")
    def _a_pair(self) -> _Tls:
        if (self.cert_file is None) != (self.key_file is None):
            raise ValueError("`cert_file` and `key_file` go together")
        return self


class PacedSection(Section):
    """How often a source is polled."""

    interval: Seconds = _PACE.interval

    @model_validator(mode="after")
    def _not_too_often(self) -> PacedSection:
        if self.interval < 1:
            raise ValueError("`interval` is at least 1s")
        return self


class HttpSection(PacedSection):
    """A source that is asked over HTTP."""

    endpoint: Url
    headers: dict[str, str] = Field(default_factory=dict)
    auth: _Auth | None = None
    tls: _Tls | None = None
    timeout: Seconds = _HTTP.timeout
    requests_per_second: float = Field(_HTTP.requests_per_second, gt=0, le=10_000, strict=False)
    max_concurrency: int = Field(_PACE.max_concurrency, ge=1, le=256)
    max_response_size: Bytes = _HTTP.max_response_bytes


class WindowSection(HttpSection):
    """A trace store that is searched by windows of time."""

    overlap: Seconds = _PACE.overlap
    lookback: Seconds = _PACE.lookback
    catch_up: Seconds = _PACE.catch_up
    max_results: int = Field(_PACE.max_results, ge=1, le=1_000_000)


SectionType = TypeVar("SectionType", bound=Section)


def validated(model: type[SectionType], raw: Any) -> SectionType:
    """The section of that type. Raises ConfigFault with every fault found."""
    try:
        return model.model_validate({} if raw is None else raw)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise ConfigFault([_fault(model, item) for item in faults]) from None


def pace_of(section: HttpSection) -> Pace:
    """The pace that a section asks for."""
    if not isinstance(section, WindowSection):
        return Pace(interval=section.interval, max_concurrency=section.max_concurrency)
    return Pace(
        interval=section.interval,
        overlap=section.overlap,
        lookback=section.lookback,
        catch_up=section.catch_up,
        max_results=section.max_results,
        max_concurrency=section.max_concurrency,
    )


def http_of(section: HttpSection, folder: Path | None) -> HttpConfig:
    """How a section's source is reached; relative files are relative to `folder`."""
    auth, tls = section.auth, section.tls or _Tls()
    basic = auth.basic if auth else None
    credentials = Credentials(
        bearer_token=auth.bearer_token if auth else None,
        bearer_token_file=_file(auth.bearer_token_file, folder) if auth else None,
        username=basic.username if basic else None,
        password=basic.password if basic else None,
        password_file=_file(basic.password_file, folder) if basic else None,
    )
    authority, certificate, key = (_file(one, folder) for one in (tls.ca_file, tls.cert_file, tls.key_file))
    return HttpConfig(
        section.endpoint,
        dict(section.headers),
        credentials,
        ClientTls(authority, certificate, key, tls.server_name),
        section.timeout,
        section.requests_per_second,
        section.max_response_size,
    )


def _file(name: str | None, folder: Path | None) -> str | None:
    return name if name is None or folder is None else str(folder / name)


def _fault(model: type[BaseModel], error: Any) -> tuple[Place, str]:
    """A pydantic error as a place and what would be right."""
    place: Place = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        return place, _unknown(str(place[-1]), _keys(model, place[:-1]))
    return place, reason_of(error)


def _keys(model: type[BaseModel], place: Place) -> list[str]:
    """The keys that a section knows, wherever it stands in the tree."""
    for key in place:
        found = model.model_fields.get(str(key))
        inner = [kind for kind in _types(found.annotation) if issubclass(kind, BaseModel)] if found else []
        if not inner:
            return []
        model = inner[0]
    return list(model.model_fields)


def _types(annotation: Any) -> Iterable[type]:
    return [kind for kind in getattr(annotation, "__args__", (annotation,)) if isinstance(kind, type)]


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"is no key here; did you mean `{near[0]}`?" if near else f"is no key here; the keys are {', '.join(known)}"
