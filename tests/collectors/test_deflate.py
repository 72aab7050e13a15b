from __future__ import annotations

import random
import zlib

import pytest

from collectors import deflate


@pytest.mark.parametrize("codec", [deflate.CODEC, zlib])
@pytest.mark.parametrize("size", [0, 1, 5119, 5120, 5121, 40_000])
def test_the_checksum_is_that_of_zlib(codec: object, size: int) -> None:
    """Whoever computes it and in whatever pieces, a journal written on one machine is read on every other."""
    data = random.Random(size).randbytes(size)
    assert deflate.crc32(data, 0x12345678, codec) == zlib.crc32(data, 0x12345678)
