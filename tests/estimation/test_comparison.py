"""Many tests at once: e-values under any dependence."""

from __future__ import annotations

import math

import pytest

from monitor.estimation.comparison import e_benjamini_hochberg


@pytest.mark.parametrize(
    ("evidence", "rejected"),
    [
        ([100.0, 30.0, 2.0, 1.0], [True, False, False, False]),  # 100 >= 4/0.05; 30 < 4/(0.05 x 2)
        ([100.0, 45.0, 2.0, 1.0], [True, True, False, False]),
        ([45.0, 45.0, 2.0, 1.0], [True, True, False, False]),  # neither alone, both together
        ([45.0, 1.0, 2.0, 1.0], [False] * 4),
        ([], []),
    ],
)
def test_e_values_are_rejected_together(evidence: list[float], rejected: list[bool]) -> None:
    """The k largest are rejected where the k-th reaches m / (alpha k), worked out by hand (Wang and Ramdas 2022)."""
    assert e_benjamini_hochberg([math.log(value) for value in evidence], 0.05) == rejected
