"""The sampling number."""

from __future__ import annotations

import pytest
from scipy import stats

from monitor.sampling import sampling_number
from tests.sampling.population import trace_id


@pytest.mark.parametrize(
    ("key", "salt", "expected"),
    [
        # sha256sum and bc
        ("4bf92f3577b34da6a3ce929d0e0e4736", "", 0.583140443075602578739),
        ("4bf92f3577b34da6a3ce929d0e0e4736", "shadow", 0.838140849965794193976),
        ("conversation-17", "", 0.117329601687033839487),
    ],
)
def test_the_number_is_the_contracts_hash(key: str, salt: str, expected: float) -> None:
    """The number is the first 8 bytes of SHA-256("rubricd:" + salt + ":" + key) over 2^64, as other programs compute it."""
    assert sampling_number(key, salt) == pytest.approx(expected, abs=1e-16)


def test_numbers_are_uniform() -> None:
    """The numbers of many trace ids are spread evenly over [0, 1)."""
    numbers = [sampling_number(trace_id(str(n))) for n in range(20_000)]
    assert stats.kstest(numbers, "uniform").pvalue > 0.001


def test_numbers_do_not_follow_the_upstream_sampler() -> None:
    """Among traces that an upstream sampler kept by the trace id's own randomness, the numbers are still uniform."""
    kept = [key for key in (trace_id(str(n)) for n in range(40_000)) if int(key[-14:], 16) >= 0.9 * 2**56]
    numbers = [sampling_number(key) for key in kept]
    assert len(kept) > 3_000
    assert stats.kstest(numbers, "uniform").pvalue > 0.001


def test_a_salt_makes_an_independent_draw() -> None:
    """Numbers with two salts are uncorrelated."""
    keys = [trace_id(str(n)) for n in range(20_000)]
    plain, salted = [sampling_number(key) for key in keys], [sampling_number(key, "second") for key in keys]
    assert abs(stats.pearsonr(plain, salted).statistic) < 0.03


def test_a_key_that_is_no_valid_unicode_has_a_number() -> None:
    """A conversation id with half a surrogate pair is hashed, not refused."""
    assert 0.0 <= sampling_number("\ud83d") < 1.0
