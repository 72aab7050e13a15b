"""Content as it lies on disk, by this program and by those before it."""

from __future__ import annotations

import zlib

import pytest

from monitor.compression import compressed
from monitor.intake.stored_spans import UnknownCodec, pack, unpack
from monitor.store.sqlite.blobs import as_it_is, unpacked

TRACES, LOGS = b"traces" * 50, b"logs" * 50
LAYOUT = len(TRACES).to_bytes(4, "big") + TRACES + LOGS
PLAIN = b"\x00"


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x01abc", b"\x02abc", b"\x03abc", pack(TRACES, LOGS)])
def test_what_its_maker_packed_comes_back(body: bytes) -> None:
    """Whatever it begins with."""
    assert unpacked(as_it_is(body)) == body


def test_spans_are_stored_without_another_copy() -> None:
    """They bear a mark of their own, so that the store puts nothing in front of them."""
    blob = pack(TRACES, LOGS)
    assert as_it_is(blob) is blob


@pytest.mark.parametrize(
    "stored", [PLAIN + b"\x01" + zlib.compress(LAYOUT), PLAIN + b"\x02" + compressed(LAYOUT), pack(TRACES, LOGS)]
)
def test_spans_of_every_version_are_read(stored: bytes) -> None:
    """By zlib and by zstd behind the store's own byte, as earlier versions wrote them, and without it."""
    assert unpack(unpacked(stored)) == (TRACES, LOGS)


@pytest.mark.parametrize("blob", [b"", b"\x04abc", b"\x03abc", b"\x02", b"\x01abc"])
def test_damaged_spans_are_told(blob: bytes) -> None:
    """An unknown codec and bytes that are none of the codec's are one error."""
    with pytest.raises(UnknownCodec):
        unpack(blob)
