"""Building OTLP/JSON out of what vendors' APIs give: attributes, times, ids."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HEX = re.compile(r"[0-9a-f]+")


def attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A map as OTLP/JSON attributes; None is left out."""
    return [{"key": key, "value": any_value(value)} for key, value in values.items() if value is not None]


def any_value(value: Any) -> dict[str, Any]:
    """A JSON value as an OTLP AnyValue."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if -(2**63) <= value < 2**63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(one) for one in value]}}
    if isinstance(value, dict):
        pairs = [{"key": str(key), "value": any_value(one)} for key, one in value.items()]
        return {"kvlistValue": {"values": pairs}}
    return {} if value is None else {"stringValue": str(value)}


def nanos(text: Any) -> int:
    """Nanoseconds since 1970-01-01Z of an ISO 8601 time (UTC where it has no zone), 0 for anything else."""
    moment = _moment(text)
    return 0 if moment is None else (moment - _EPOCH) // _MICROSECOND * 1000


def seconds(text: Any) -> float:
    """The same in seconds."""
    return nanos(text) / 1e9


def _moment(text: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def hex_id(value: Any, digits: int) -> str:
    """An id as so many hex digits: as it is where it has them, a UUID without its dashes, else a hash of it; "" for none."""
    if not isinstance(value, str) or not value:
        return ""
    plain = value.lower().replace("-", "")
    if len(plain) == digits and _HEX.fullmatch(plain):
        return plain
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def iso(moment: float) -> str:
    """Seconds since 1970-01-01Z as RFC 3339 with microseconds."""
    return datetime.fromtimestamp(max(0.0, moment), UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
