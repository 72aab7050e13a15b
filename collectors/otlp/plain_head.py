"""The head of an export request as exporters send it, read by a shorter way than an HTTP parser's.

Anything that is not exactly that is for the HTTP parser, which then sees the same bytes from the first on: nothing is refused here. So what is read here has
one meaning only: a request line, fields without folding, one Content-Length, no other framing.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from collectors.otlp.body import Compression, compression_of, encoding_of
from collectors.sink import Encoding, Signal

LONGEST_HEAD = 8192
MOST_FIELDS = 128  # as many as the HTTP parser takes, which refuses more
_BEGIN = b"POST /v1/"
_HEAD = re.compile(
    rb"POST /v1/(traces|logs) HTTP/1\.1((?:\r\n[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*)+)"
)  # RFC 9112, sections 3 and 5
_LENGTH = re.compile(rb"[0-9]{1,12}")
_READ = frozenset({b"content-type", b"content-length", b"content-encoding", b"authorization", b"connection"})
_UNUSUAL = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"te", b"trailer", b"http2-settings"})
_SIGNALS = {b"traces": Signal.TRACES, b"logs": Signal.LOGS}


class PlainHead(NamedTuple):
    """What a request's head says; `length` is that of the body in bytes, `media_type` is without parameters."""

    signal: Signal
    encoding: Encoding
    compression: Compression
    media_type: str
    length: int
    authorization: str | None


def may_become_plain(begun: bytes) -> bool:
    """Whether these first bytes of a request can be those of a plain head."""
    return begun.startswith(_BEGIN) or _BEGIN.startswith(begun)


def plain_head(head: bytes) -> PlainHead | None:
    """Read a head, without the empty line at its end; None when it is not plain."""
    found = _HEAD.fullmatch(head)
    if found is None:
        return None
    lines = found[2].split(b"\r\n")[1:]
    if len(lines) > MOST_FIELDS:
        return None
    fields: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        name = name.lower()
        if name in _UNUSUAL or name in fields:
            return None
        if name in _READ:
            fields[name] = value.strip(b" \t")
    return _read(_SIGNALS[found[1]], fields)


def _read(signal: Signal, fields: dict[bytes, bytes]) -> PlainHead | None:
    length, authorization = fields.get(b"content-length", b""), fields.get(b"authorization")
    media_type = fields.get(b"content-type", b"").decode("latin-1")
    encoding = encoding_of(media_type)
    compression = compression_of(fields.get(b"content-encoding", b"").decode("latin-1"))
    if encoding is None or compression is None or not _LENGTH.fullmatch(length):
        return None
    if fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    return PlainHead(
        signal,
        encoding,
        compression,
        media_type.partition(";")[0].strip().lower(),
        int(length),
        None if authorization is None else authorization.decode("utf-8", "surrogateescape"),
    )
