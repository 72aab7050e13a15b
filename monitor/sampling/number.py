"""The sampling number: a hash that decides, so that the same population drawn again gives the same sample."""

from __future__ import annotations

import hashlib
import math

_BELOW_ONE = math.nextafter(1.0, 0.0)


def sampling_number(key: str, salt: str = "") -> float:
    """The number u in [0, 1) of a key: the first 8 bytes, big-endian, of SHA-256("rubricd:" + salt + ":" + key), divided by 2^64.

    The key is the lower-case hex trace id, for conversations the conversation id. It is independent of OpenTelemetry's randomness (the
    trace id's last 7 bytes) on purpose: only then does the upstream probability multiply in.
    """
    digest = hashlib.sha256(f"rubricd:{salt}:{key}".encode(errors="surrogatepass")).digest()
    # The quotient of the 1024 largest integers rounds up to 1.0, which is no member of [0, 1).
    return min(int.from_bytes(digest[:8], "big") / 2**64, _BELOW_ONE)
