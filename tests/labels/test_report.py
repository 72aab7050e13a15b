"""What labels say of a judge, against numbers worked out by hand and by simulation."""

from __future__ import annotations

import random

import pytest

from monitor.labels.draw import draw_for_labels
from monitor.labels.instrument import AgreementKey, agreement_ratios, human_agreement, moved
from monitor.labels.report import Judgement, calibration, corrected_rate, refusal, report, settled_labels
from monitor.model.labels import Against, JudgeCheck, Label, Labelled
from monitor.model.run import Judged

PASS, FAIL, UNSURE = Label.PASS, Label.FAIL, Label.UNSURE
T0 = 1_790_000_000.0


def judged(number: int, outcome: str = "pass", version: str = "v1", rubric: str = "booking") -> Judged:
    return Judged(rubric, version, "bot", "1", "", outcome, 1.0, T0 + number, None, f"i{number}")


def labelled(human: Label, judge: str, who: str = "ada", number: int = 0, probability: float | None = 1.0) -> Labelled:
    return Labelled(f"i{number}", "m", "booking", "v1", judge, human, who, probability)


def said(human: Label, judge: str, count: int, probability: float | None = 1.0) -> list[Judgement]:
    return [Judgement("v1", human, judge, probability)] * count


def test_a_draw_has_half_failures_and_says_how_likely_each_was() -> None:
    """Of 900 passed and 100 failed, 100 drawn are 50 of each, with their probabilities; the order tells nothing."""
    rows = [judged(n) for n in range(900)] + [judged(n, "fail") for n in range(900, 1000)]
    rows += [judged(5000, "not_applicable"), judged(5001, version="v0"), judged(5002, rubric="tone")]
    drawn = draw_for_labels(rows, "m", "booking", "v1", 100, "d", T0)
    assert len(drawn) == len({one.draw_id for one in drawn}) == 100
    assert {(one.verdict, one.probability) for one in drawn} == {("pass", 50 / 900), ("fail", 0.5)}
    assert 10 < sum(one.verdict == "fail" for one in drawn[:50]) < 40
    assert drawn == draw_for_labels(rows[::-1], "m", "booking", "v1", 100, "d", T0)
    assert {one.invocation_id for one in drawn} != {
        one.invocation_id for one in draw_for_labels(rows, "m", "booking", "v1", 100, "e", T0)
    }


def test_a_draw_takes_what_there_is() -> None:
    """With 3 failures all are drawn, and the rest of the size are passes; with fewer judged than asked for all are."""
    rows = [judged(n) for n in range(50)] + [judged(n, "fail") for n in range(50, 53)]
    drawn = draw_for_labels(rows, "m", "booking", "v1", 20, "d", T0)
    assert sum(one.verdict == "fail" for one in drawn) == 3 and len(drawn) == 20
    assert {one.probability for one in draw_for_labels(rows, "m", "booking", "v1", 200, "d", T0)} == {1.0}
    assert draw_for_labels([], "m", "booking", "v1", 5, "d", T0) == []


def test_most_labelers_decide_and_a_tie_is_unsure() -> None:
    """One invocation counts once, however many people labelled it."""
    rows = [labelled(PASS, "pass", "a"), labelled(FAIL, "pass", "b"), labelled(FAIL, "pass", "c")]
    rows += [labelled(PASS, "fail", "a", 1), labelled(FAIL, "fail", "b", 1), labelled(UNSURE, "fail", "c", 1)]
    found = settled_labels(rows)["m", "booking"]
    assert [one.human for one in found] == [FAIL, UNSURE]


def test_weights_undo_the_draw() -> None:
    """Sensitivity is the population's although failures were drawn ten times as densely."""
    sample = said(PASS, "pass", 45, 0.05) + said(PASS, "fail", 10, 0.5) + said(FAIL, "fail", 40, 0.5)
    sample += said(FAIL, "pass", 5, 0.05)
    found = calibration(sample)
    assert found.sensitivity == pytest.approx(900 / 920)
    assert found.specificity == pytest.approx(80 / 180)
    assert found.negatives < 45  # fewer effective labels than labels


def test_labels_that_were_not_drawn_do_not_correct() -> None:
    """They count for agreement, and the corrected rate is refused for want of drawn ones."""
    sample = said(PASS, "pass", 50, None) + said(FAIL, "fail", 50, None)
    found = report(("m", "booking"), sample, (0.9, 1000.0))
    assert found.agreement.agreement == 1.0 and found.drawn == 0
    assert found.sensitivity is None and found.corrected is None and found.powered is None
    assert "0 drawn labels pass" in (found.refused or "")


def test_a_judge_no_better_than_chance_is_refused() -> None:
    """Where sensitivity and specificity add up to 1 there is no corrected rate."""
    sample = said(PASS, "pass", 20) + said(PASS, "fail", 20) + said(FAIL, "pass", 20) + said(FAIL, "fail", 20)
    assert "no better than chance" in (refusal(calibration(sample)) or "")
    assert corrected_rate(0.5, 100, calibration(sample)) is None


def test_corrected_rates_come_near_the_truth() -> None:
    """A lenient judge shows 0.885 of a true 0.80; both corrections hold 0.80 in at least 90 of 100 seeded samples, the judged interval in none to speak of."""
    chance, hits, naive = random.Random(4), [0, 0], 0
    for _ in range(100):
        truth = [chance.random() < 0.8 for _ in range(2000)]
        verdicts = [chance.random() < (0.98 if ok else 0.5) for ok in truth]
        rows = [judged(n, "pass" if ok else "fail") for n, ok in enumerate(verdicts)]
        drawn = draw_for_labels(rows, "m", "booking", "v1", 200, f"d{chance.random()}", T0)
        sample = [
            Judgement("v1", PASS if truth[int(one.invocation_id[1:])] else FAIL, one.verdict, one.probability)
            for one in drawn
        ]
        found = report(("m", "booking"), sample, (sum(verdicts) / 2000, 2000.0))
        assert found.powered is not None and found.corrected is not None and found.observed is not None
        hits[0] += found.powered.interval[0] <= 0.8 <= found.powered.interval[1]
        hits[1] += found.corrected.interval[0] <= 0.8 <= found.corrected.interval[1]
        naive += found.observed.interval[0] <= 0.8 <= found.observed.interval[1]
    assert min(hits) >= 90 and naive == 0


def check(key: str, verdict: str, round_: float, against: Against = Against.GOLDEN, version: str = "v1") -> JudgeCheck:
    return JudgeCheck(against, "booking", version, "default", key, "pass", verdict, round_, T0 + round_)


def test_what_people_would_judge_is_a_share() -> None:
    """With few labels the prediction-powered interval leaves [0, 1]; it is reported as a share."""
    rows = said(PASS, "pass", 5) + said(FAIL, "pass", 1)
    found = report(("m", "booking"), rows, (0.95, 50.0)).powered
    assert found is not None
    assert found.rate + 1.96 * found.standard_error > 1.0 == found.interval[1]
    assert 0.0 < found.interval[0] < found.rate


def test_agreement_is_the_newest_rounds() -> None:
    """Golden agreement is of the newest round only, self-agreement of the newest self-checks."""
    checks = [check("a", "fail", 1), check("b", "fail", 1), check("a", "pass", 2), check("b", "fail", 2)]
    checks += [check("x", "pass", 0, Against.SELF), check("y", "pass", 0, Against.SELF)]
    assert agreement_ratios(checks) == {
        AgreementKey("booking", "default", Against.GOLDEN): 0.5,
        AgreementKey("booking", "default", Against.SELF): 1.0,
    }
    assert human_agreement(said(PASS, "pass", 3) + said(FAIL, "pass", 1) + said(UNSURE, "pass", 9)) == 0.75
    assert human_agreement([]) is None


def test_the_instrument_moved_when_more_cases_turn_wrong_than_right() -> None:
    """Eight of thirty golden cases that turn wrong are a drop; two are not, nor are cases that were wrong from the start."""

    def rounds(turned: int, wrong: int = 0) -> list[JudgeCheck]:
        first = [check(str(n), "fail" if n < wrong else "pass", 1) for n in range(30)]
        return first + [check(str(n), "fail" if n < wrong or n >= 30 - turned else "pass", 2) for n in range(30)]

    assert moved(rounds(8)) == {"v1"}
    assert moved(rounds(2)) == frozenset() and moved(rounds(0, wrong=20)) == frozenset()
    assert moved([check("a", "fail", 1)]) == frozenset()
