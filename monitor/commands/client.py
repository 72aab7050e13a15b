"""Speaking to a running daemon by its API: what `status`, `explain` and `forget` share."""

from __future__ import annotations

import argparse
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from monitor.commands.exits import CommandFailed, Exit, not_done, wrong_input

DEFAULT_SERVER = "http://localhost:8464"
TIMEOUT_SECONDS = 30


def add_server_arguments(parser: argparse.ArgumentParser) -> None:
    """`--server` and `--token-file`."""
    parser.add_argument(
        "--server",
        metavar="URL",
        default=os.environ.get("RUBRICD_SERVER", DEFAULT_SERVER),
        help=f"the daemon's server port (default: RUBRICD_SERVER, else {DEFAULT_SERVER})",
    )
    parser.add_argument("--token-file", metavar="FILE", type=Path, help="file with a bearer token for the server")


class Server:
    """A running daemon, by its API. Faults end the command: unreachable is exit 3, a refused request exit 2."""

    def __init__(self, url: str, token_file: Path | None = None, option: str = "--server") -> None:
        """`option` is the one that named the URL. Ends the command for what is no URL, or a file without a token."""
        if not _is_url(url):
            raise wrong_input(f"{option} {url}: write a URL such as {DEFAULT_SERVER}")
        self._url, self._option = url.rstrip("/"), option
        self._token = self._read_token(token_file)

    @staticmethod
    def _read_token(file: Path | None) -> str | None:
        if file is None:
            return None
        try:
            lines = file.read_text(encoding="utf-8").split()
        except OSError as error:
            raise wrong_input(f"--token-file {file}: cannot be read: {error.strerror}") from error
        if not lines:
            raise wrong_input(f"--token-file {file}: is empty; it holds a bearer token")
        return lines[0]

    def request(self, method: str, path: str, /, body: Any = None, **parameters: str | int | None) -> Any:
        """The JSON answer of one request under the server's URL, None for a 404; `body` is sent as JSON."""
        query = urllib.parse.urlencode({key: value for key, value in parameters.items() if value is not None})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}{path}{'?' + query if query else ''}", data, method=method)  # noqa: S310
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise self._refused(error) from error
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise not_done(
                f"no daemon answers at {self._url}: {reason}; is `rubricd run` up, and is {self._option} right?"
            ) from error

    def _refused(self, error: urllib.error.HTTPError) -> CommandFailed:
        try:
            problem = json.loads(error.read())
            text = problem.get("detail") or problem.get("title")
        except (ValueError, AttributeError, OSError):
            text = error.reason
        status = Exit.WRONG_INPUT if error.code < 500 else Exit.NOT_DONE
        return CommandFailed(status, f"{self._url} answered {error.code}: {text}")

    def get(self, path: str, **parameters: str | int | None) -> Any:
        """GET, None for a 404."""
        return self.request("GET", path, **parameters)

    def items(self, path: str, **parameters: str | int | None) -> list[dict[str, Any]]:
        """The items of a listing's first page."""
        page = self.get(path, **parameters)
        return self.items_of(page)

    def items_of(self, answer: Any) -> list[dict[str, Any]]:
        """The items of an answer that is a listing. Anything else is no rubricd's, and ends the command."""
        items = answer.get("items") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self.stranger()
        return items

    def stranger(self) -> CommandFailed:
        """What ends the command where something else than a rubricd answered."""
        return not_done(f"{self._url} answers, but not as a rubricd does; is {self._option} right?")


def _is_url(text: str) -> bool:
    """Whether it is an http or https URL with a host, its port a number."""
    try:
        parts = urllib.parse.urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
