"""What a page is made from, and what it is when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from monitor.server.context import ServerContext, Status
from monitor.server.pages.guard import Visitor
from monitor.server.pages.kept import KeptFigures


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a page: values of path, query and form by name (empty ones left out), and who asks.

    `collectors`, `judges` and `monitors` are what the program told of itself when the request came: only the event loop may ask.
    """

    path: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str]
    visitor: Visitor
    now: float
    url: str
    collectors: Sequence[Status] = ()
    judges: Sequence[Status] = ()
    monitors: Sequence[Status] = ()


@dataclass(frozen=True, slots=True)
class Rendered:
    """A page to be: its template with values."""

    template: str
    values: Mapping[str, Any]
    status: HTTPStatus = HTTPStatus.OK


@dataclass(frozen=True, slots=True)
class PlainText:
    """A whole text by itself."""

    text: str


@dataclass(frozen=True, slots=True)
class GoTo:
    """Another page of ours instead, asked for with GET."""

    path: str


Made = Rendered | PlainText | GoTo


@dataclass(frozen=True, slots=True)
class Desk:
    """What views work with. They block and run in threads."""

    context: ServerContext
    kept: KeptFigures
