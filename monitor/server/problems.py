"""Errors as RFC 9457 problem details. They say what would be right and never quote content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aiohttp import web

PROBLEM_JSON = "application/problem+json"


class Refused(Exception):
    """A request that is not answered as asked; becomes a problem detail with the members of `more`."""

    def __init__(self, status: HTTPStatus, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.more = more


class BadParameter(Refused):
    """A query or path parameter is wrong: names it, and what would be right."""

    def __init__(self, parameter: str, right: str) -> None:
        super().__init__(HTTPStatus.BAD_REQUEST, f"{parameter}: {right}", parameter=parameter)


def problem(
    status: HTTPStatus, detail: str, more: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None
) -> web.Response:
    """The answer of a problem."""
    body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail, **(more or {})}
    return web.Response(
        status=status.value,
        body=json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
        content_type=PROBLEM_JSON,
        headers=dict(headers or {}),
    )
