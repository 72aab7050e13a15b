from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest

from collectors.otlp.body import (
    Compression,
    TooLarge,
    compression_of,
    encoding_of,
    sniffed_compression,
    unpack,
)
from collectors.sink import Encoding, MalformedRequest, Overloaded

MIB = 1 << 20


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("application/x-protobuf", Encoding.PROTOBUF),
        ("application/json", Encoding.JSON),
        ("application/json; charset=utf-8", Encoding.JSON),
        ("Application/JSON;charset=UTF-8", Encoding.JSON),
        ("text/plain", None),
        ("", None),
        ("application/jsonl", None),
    ],
)
def test_the_content_type_counts_without_parameters(header: str, encoding: Encoding | None) -> None:
    """Protobuf and JSON are told apart by the media type alone; anything else is not OTLP."""
    assert encoding_of(header) is encoding


@pytest.mark.parametrize(
    ("header", "compression"),
    [
        ("", Compression.NONE),
        ("identity", Compression.NONE),
        ("gzip", Compression.GZIP),
        (" GZIP ", Compression.GZIP),
        ("deflate", Compression.DEFLATE),
        ("br", None),
        ("zstd", None),
        ("gzip, gzip", None),
    ],
)
def test_known_compressions_are_told(header: str, compression: Compression | None) -> None:
    """gzip, deflate and none are understood, once; others and several on top of each other are not."""
    assert compression_of(header) is compression


def test_grpc_messages_show_their_compression() -> None:
    """Gzip and zlib data are recognised by their first bytes; no export request begins like them."""
    assert sniffed_compression(gzip.compress(b"x", mtime=0)) is Compression.GZIP
    assert [sniffed_compression(zlib.compress(b"x", level)) for level in (0, 1, 6, 9)] == [Compression.DEFLATE] * 4
    for message in (b"", b"\x0a", b"\x0a\x00", b"\x78", b"x!", b"\x1f"):
        assert sniffed_compression(message) is Compression.NONE


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 7])
def test_packed_bodies_come_back(size: int) -> None:
    """What was packed by gzip or zlib is unpacked to the same bytes, whatever its size."""
    body = bytes(range(256)) * (size // 256 + 1)
    body = body[:size]
    assert unpack(gzip.compress(body, mtime=0), Compression.GZIP, size) == body
    assert unpack(zlib.compress(body), Compression.DEFLATE, size) == body
    assert unpack(body, Compression.NONE, size) == body


def test_bodies_that_do_not_shrink_come_back() -> None:
    """A body that is as large packed as unpacked is fed piece by piece."""
    import random

    body = random.Random(1).randbytes(3 * MIB)
    assert unpack(gzip.compress(body, 1, mtime=0), Compression.GZIP, len(body)) == body


def test_gzip_of_several_members_is_one_body() -> None:
    """Gzip data may be several streams after each other (RFC 1952), but not without bound."""
    assert unpack(gzip.compress(b"one ", mtime=0) + gzip.compress(b"two"), Compression.GZIP, 100) == b"one two"
    with pytest.raises(MalformedRequest, match="members"):
        unpack(gzip.compress(b"", mtime=0) * 1000, Compression.GZIP, 100)


@pytest.mark.parametrize("compression", Compression)
def test_one_byte_over_the_limit_is_too_large(compression: Compression) -> None:
    """The limit holds for the unpacked bytes, to the byte."""
    pack = {Compression.NONE: bytes, Compression.GZIP: gzip.compress, Compression.DEFLATE: zlib.compress}[compression]
    assert len(unpack(pack(bytes(1000)), compression, 1000)) == 1000
    with pytest.raises(TooLarge, match="999 bytes"):
        unpack(pack(bytes(1000)), compression, 999)


def test_unpacking_stops_at_the_limit() -> None:
    """Public report gzip-that-grows: memory stays near the limit, whatever the body would grow to."""
    packed = gzip.compress(bytes(200 * MIB), 1, mtime=0)
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            unpack(packed, Compression.GZIP, MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB


@pytest.mark.parametrize(
    ("body", "compression"),
    [
        (b"ten bytes.", Compression.GZIP),
        (b"", Compression.GZIP),
        (gzip.compress(bytes(1000), mtime=0)[:15], Compression.GZIP),
        (gzip.compress(bytes(1000), mtime=0)[:-1], Compression.GZIP),
        (gzip.compress(b"x", mtime=0) + b"garbage", Compression.GZIP),
        (gzip.compress(b"x", mtime=0)[:-5] + b"\0\0\0\0\0", Compression.GZIP),
        (b"ten bytes.", Compression.DEFLATE),
        (zlib.compress(b"x")[:-1], Compression.DEFLATE),
        (zlib.compress(b"x") + b"more", Compression.DEFLATE),
        (zlib.compress(b"x", wbits=-15), Compression.DEFLATE),
    ],
)
def test_data_that_are_cut_or_damaged_are_malformed(body: bytes, compression: Compression) -> None:
    """What cannot be unpacked to its end is refused as malformed."""
    with pytest.raises(MalformedRequest, match=str(compression)):
        unpack(body, compression, 10_000)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "the body is no gzip data"),
        (b"\x1f", "the gzip data are cut"),
        (gzip.compress(b"x", mtime=0)[:-1], "the gzip data are cut"),
        (gzip.compress(b"x", mtime=0) + b"garbage", "bytes follow the gzip data"),
    ],
)
def test_what_is_said_of_gzip_is_what_is_wrong(body: bytes, said: str) -> None:
    """What is no gzip is not called cut."""
    with pytest.raises(MalformedRequest, match=said):
        unpack(body, Compression.GZIP, 10_000)


def test_a_reservation_stops_unpacking() -> None:
    """`grow` hears of every piece and can refuse the next."""
    sizes: list[int] = []

    def grow(size: int) -> None:
        sizes.append(size)
        if sum(sizes) > 2 * MIB:
            raise Overloaded("full")

    with pytest.raises(Overloaded):
        unpack(gzip.compress(bytes(50 * MIB), 1, mtime=0), Compression.GZIP, 100 * MIB, grow)
    assert sum(sizes) <= 3 * MIB
