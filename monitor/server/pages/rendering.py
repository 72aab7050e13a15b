"""Templates and what they may use. Autoescape is on for every one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from monitor.clock import from_rfc3339
from monitor.server.pages.shown_text import bare, plain

FOLDER = Path(__file__).parent
MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
_MISSING = Markup('<span class="none">–</span>')


@cache
def static_files() -> Mapping[str, tuple[bytes, str]]:
    """The shipped files by name: body and media type."""
    return {
        file.name: (file.read_bytes(), MEDIA_TYPES[file.suffix])
        for file in sorted((FOLDER / "static").iterdir())
        if file.suffix in MEDIA_TYPES
    }


@cache
def static_version() -> str:
    """Changes with any of the files, so that browsers may keep them for long."""
    digest = hashlib.sha256()
    for name, (body, _) in static_files().items():
        digest.update(name.encode() + body)
    return digest.hexdigest()[:12]


def environment() -> Environment:
    """The templates with their filters."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "percent": percent,
        "count": count,
        "number": number,
        "decimals": lambda value: _MISSING if value is None else f"{value:.2f}",
        "seconds": seconds_text,
        "size": size,
        "clock": clock_time,
        "hour": lambda at: datetime.fromtimestamp(at, UTC).strftime("%d %b %H:%M"),
        "utc": lambda at: datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "words": lambda text: str(text).replace("_", " "),
        "text": plain,
        "bare": lambda text: bare(str(text)),
        "sentence": sentence,
        "path": lambda text: quote(str(text), safe=""),
    }
    made.globals |= {"href": href, "static": lambda name: f"/static/{name}?v={static_version()}"}
    return made


def href(path: str, *parts: str, **query: object) -> str:
    """An address of ours: `{}` in the path is filled with the parts, escaped; query values that are None or empty are left out."""
    filled = path.format(*(quote(part, safe="") for part in parts))
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{filled}?{urlencode(given)}" if given else filled


def percent(share: float | None, digits: int = 1) -> str | Markup:
    """`94.2 %`. What is not all of it is never shown as 100 %, nor what is something as 0 %."""
    if share is None:
        return _MISSING
    if share in (0, 1):
        return f"{share * 100:.0f} %"
    smallest = 10.0**-digits
    shown = round(share * 100, digits)
    if shown <= 0:
        return f"< {smallest:.{digits}f} %"
    return f"> {100 - smallest:.{digits}f} %" if shown >= 100 else f"{shown:.{digits}f} %"


def sentence(text: str) -> Markup:
    """A sentence of ours with names in backquotes, which are shown as code."""
    parts = text.split("`")
    return Markup("").join(
        plain(part) if n % 2 == 0 else Markup("<code>{}</code>").format(plain(part)) for n, part in enumerate(parts)
    )


def count(value: float | None) -> str | Markup:
    """A whole number with narrow blanks between thousands."""
    return _MISSING if value is None else f"{value:,.0f}".replace(",", "\u202f")


def number(value: float | None) -> str | Markup:
    """A number as short as it can be."""
    return _MISSING if value is None else f"{value:.3g}"


def seconds_text(value: float | None) -> str | Markup:
    """A length of time: `350 ms`, `4.2 s`, `3 min`, `5 h`, `2 d`."""
    if value is None:
        return _MISSING
    if value < 1:
        return f"{value * 1000:.0f} ms"
    for size_of, unit, least in ((86400, "d", 2 * 86400), (3600, "h", 7200), (60, "min", 120)):
        if value >= least:
            return f"{value / size_of:.0f} {unit}"
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def size(value: float | None) -> str | Markup:
    """Bytes: `12 KiB`."""
    if value is None:
        return _MISSING
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def clock_time(at: Any, now: float | None = None) -> Markup:
    """A time (seconds, or RFC 3339) as a `time` element, in UTC: today only the hour, else with the day. Scripts add how long ago."""
    if at is None:
        return _MISSING
    moment = datetime.fromtimestamp(from_rfc3339(at[:26].rstrip("Z") + "Z") if isinstance(at, str) else at, UTC)
    today = now is not None and datetime.fromtimestamp(now, UTC).date() == moment.date()
    shown = moment.strftime("%H:%M:%S" if today else "%d %b %H:%M")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment.strftime("%Y-%m-%d %H:%M:%S UTC"), shown
    )


def page_arguments(**values: Any) -> Mapping[str, Any]:
    """What every template expects, with what one page adds."""
    return {"refresh": None, **values}
