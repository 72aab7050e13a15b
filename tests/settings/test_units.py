"""Durations and sizes as people write them."""

import pytest

from monitor.settings.units import duration_text, parse_duration, parse_size, size_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("200ms", 0.2), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("7d", 604800), ("1.5s", 1.5), ("0s", 0)],
)
def test_a_duration_is_seconds(text: str, seconds: float) -> None:
    """Every unit of the contract, alone and joined, is read as seconds."""
    assert seconds == parse_duration(text)


@pytest.mark.parametrize("text", ["30", "", "s", "5 minutes", "-5s", "1h 30m", 30, 1.5, None, True, "5M"])
def test_anything_else_is_no_duration(text: object) -> None:
    """A number without a unit, or any other text, is refused and the message shows how to write it."""
    with pytest.raises(ValueError, match="30s"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "count"), [("1B", 1), ("64MiB", 64 * 2**20), ("8GiB", 8 * 2**30), ("1.5KiB", 1536), ("2MB", 2_000_000)]
)
def test_a_size_is_bytes(text: str, count: int) -> None:
    """Binary and decimal units are read as bytes."""
    assert count == parse_size(text)


@pytest.mark.parametrize("text", ["64", 64, "64 MiB or so", "x", None, "64mib"])
def test_anything_else_is_no_size(text: object) -> None:
    """A number without a unit is refused and the message shows how to write it."""
    with pytest.raises(ValueError, match="64MiB"):
        parse_size(text)


@pytest.mark.parametrize("text", ["200ms", "30s", "1m30s", "1h", "7d", "1d1h"])
def test_durations_are_written_as_they_are_read(text: str) -> None:
    """`duration_text` is the inverse of `parse_duration`."""
    assert text == duration_text(parse_duration(text))


@pytest.mark.parametrize("text", ["1B", "64MiB", "8GiB", "1536B"])
def test_sizes_are_written_as_they_are_read(text: str) -> None:
    """`size_text` is the inverse of `parse_size`."""
    assert parse_size(text) == parse_size(size_text(parse_size(text)))
