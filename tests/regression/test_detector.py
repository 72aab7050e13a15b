"""The e-detector: its guarantee computed from its own numbers, not from ours."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.estimation.charts import shiryaev_roberts
from monitor.estimation.detector import SHARES, Detector, Turns, rates

targets = st.floats(0.05, 0.995)


def test_levels_are_shiryaev_and_roberts() -> None:
    """Each level is the sum of the published recursion for its rate, and the evidence is their weighted mean."""
    results = [True] * 10 + [False, True, False, False, True, False]
    detector = Detector(0.95)
    for place, passed in enumerate(results):
        detector = detector.add(passed, float(place))
    wanted = [shiryaev_roberts(results, 0.95, rate) for rate in rates(0.95)]
    assert detector.levels == pytest.approx(wanted)
    assert math.fsum(SHARES) == pytest.approx(1.0)
    assert detector.evidence == pytest.approx(sum(s * w for s, w in zip(SHARES, wanted, strict=True)))


@given(target=targets, weight=st.floats(0.001, 1.0), share=st.floats(0.05, 1.0), before=st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_a_step_gains_one_at_most(target: float, weight: float, share: float, before: int) -> None:
    """At the target M grows by at most 1 a verdict in the mean, of any weight and share of a conversation: hence the mean time between false alarms."""
    chance, detector = random.Random(before), Detector(target)
    for n in range(before):
        detector = detector.add(chance.random() < target, float(n))
    mean = target * detector.add(True, 0.0, weight, share).evidence
    mean += (1 - target) * detector.add(False, 0.0, weight, share).evidence
    assert mean <= (detector.evidence + 1.0) * (1 + 1e-9)


@given(target=targets, light=st.floats(0.01, 1.0), flagged=st.floats(0.01, 0.99), fails=st.floats(0.0, 1.0))
@settings(max_examples=200, deadline=None)
def test_weighted_verdicts_are_fair(target: float, light: float, flagged: float, fails: float) -> None:
    """Over-sampling a part of the traffic that fails more often gives no evidence while the traffic as a whole is at the target."""
    rest = ((1 - target) - flagged * fails) / (1 - flagged)
    if not 0 <= rest <= 1:
        return
    heavy = flagged / (
        flagged + (1 - flagged) * light
    )  # share of the sample that is flagged: taken whole, the rest with `light`
    detector = Detector(target).add(False, 0.0)
    mean = 0.0
    for share, failing, weight in ((heavy, fails, light), (1 - heavy, rest, 1.0)):
        mean += share * failing * detector.add(False, 0.0, weight).evidence
        mean += share * (1 - failing) * detector.add(True, 0.0, weight).evidence
    assert mean <= (detector.evidence + 1.0) * (1 + 1e-9)


def test_shares_of_a_conversation_add_up_to_one() -> None:
    """Turns of one conversation are one bet: their shares add up to at most 1, and a lone turn is a whole one."""
    assert Turns().share(1) == 1.0
    turns = Turns()
    for _ in range(100):
        for turn in (1, 2, 3, 4):
            turns = turns.seen(turn)
    assert turns.usual == pytest.approx(4.0, rel=0.05)
    assert sum(turns.share(turn) for turn in range(1, 20)) <= 1.0 + 1e-9


def test_a_step_with_correlated_turns_gains_one_at_most() -> None:
    """Turns that all fail or all pass together, split into shares, gain no more in the mean than a single verdict would."""
    whole = Detector(0.95)
    passed = failed = whole
    for _ in range(4):
        passed, failed = passed.add(True, 0.0, 1.0, 0.25), failed.add(False, 0.0, 1.0, 0.25)
    assert 0.95 * passed.evidence + 0.05 * failed.evidence <= 4.0 + 1e-9


def test_series_share_out_one_promise() -> None:
    """Forty series at their objective that take verdicts in turn alarm together at most once in the promised number of verdicts, restarts included."""
    chance, promised, verdicts, alarms = random.Random(9), 300.0, 12_000, 0
    series = [Detector(0.9) for _ in range(40)]
    for n in range(verdicts):
        place = n % len(series)
        series[place] = series[place].add(chance.random() < 0.9, float(n))
        if series[place].evidence >= promised:
            series[place], alarms = series[place].restarted(), alarms + 1
    assert 0 < alarms <= verdicts / promised


def test_since_is_where_the_drop_began() -> None:
    """The time named is near the change, not the start of the stream nor the alarm."""
    chance, detector, places = random.Random(5), Detector(0.95), []
    for n in range(600):
        detector = detector.add(chance.random() < (0.95 if n < 400 else 0.6), float(n))
        places.append(detector.since)
    assert 395 <= detector.since <= 410


def test_a_restart_changes_nothing() -> None:
    """Kept as JSON and read again, a detector goes on to the same numbers to the last bit."""
    chance, detector = random.Random(2), Detector(0.9)
    again = detector
    for n in range(300):
        passed = chance.random() < 0.85
        detector = detector.add(passed, float(n))
        again = Detector.from_json(json.loads(json.dumps(again.add(passed, float(n)).as_json())))
    assert again == detector
