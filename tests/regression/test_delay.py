"""How long a drop takes to be found, as `rubricd check` tells it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from monitor.cli import main
from monitor.regression.delay import verdicts_to_alarm

CONFIGURATION = """
judges: {default: {model: judge-model, base_url: "http://localhost:1/v1"}}
monitors:
  booking:
    rubrics: {intent_resolution: {objective: 0.95}, answers_within_a_minute: {}}
    sample: {max_per_hour: 30}
    regression: {false_alarm_every: 10000}
    trust: {judge_twice: 0.5}
  plain:
    rubrics: [answers_within_a_minute]
"""


def test_larger_drops_are_found_sooner() -> None:
    """From 0.95 to 0.85 takes about 70 judged invocations at one false alarm in 10,000 (the benchmark's median), less for more, longer for less."""
    middle = verdicts_to_alarm(0.95, 0.85, 10_000.0)
    large, small = verdicts_to_alarm(0.95, 0.6, 10_000.0), verdicts_to_alarm(0.95, 0.9, 10_000.0)
    assert middle is not None and large is not None and small is not None
    assert middle == pytest.approx(70, abs=20)
    assert large < middle < small
    assert verdicts_to_alarm(0.95, 0.9499, 1e9) is None


def test_check_tells_it_for_each_objective(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hours follow from the cap; calls for judging twice are in the cost; without an objective there is no alarm."""
    file = tmp_path / "rubricd.yaml"
    file.write_text(CONFIGURATION)
    assert main(["check", "-c", str(file), "--json"]) == 0
    booking, plain = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    (drop,) = booking["drops"]
    assert (drop["rubric"], drop["from"], drop["to"]) == ("intent_resolution", 0.95, 0.9)
    assert drop["hours"] == pytest.approx(drop["judged"] / 30, abs=0.1)
    assert booking["judges"][0]["calls_per_day"] == 30 * 24 * 1.5
    assert plain["drops"] == []
    assert main(["check", "-c", str(file)]) == 0
    out = capsys.readouterr().out
    assert "raises an alarm after about" in out and "no objective, no alarm" in out
