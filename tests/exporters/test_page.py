"""The page as Prometheus reads it: any label text, both formats, no line that would fail a scrape."""

from __future__ import annotations

import math
import subprocess
from collections.abc import Callable, Iterable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import Counter, Histogram, exposition
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from prometheus_client.utils import floatToGoString

from monitor.clock import ManualClock
from monitor.exporters.prometheus import OPENMETRICS, TEXT
from monitor.exporters.prometheus.exposition import wants_openmetrics
from monitor.exporters.prometheus.page import number
from monitor.model.run import PendingCount
from monitor.model.tallies import TallyName
from monitor.model.verdict import Outcome
from tests.exporters.figures import TRACE, Exporter, FigureStore, Seen, watched

ACCEPT_OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"


def _filled(*texts: str, exemplar: str = TRACE) -> Exporter:
    """A page on which every label that is not ours carries the texts."""
    store = FigureStore(ManualClock())
    rubrics = [text for text in texts if text] or ["tone"]
    for text in texts:
        for outcome in (*Outcome, None):
            store.judge("m", Seen(text, store.clock.now(), outcome, rubrics[0], text, text, text))
        labels = {"monitor": "m", "rubric": rubrics[0], "agent": text}
        store.count(TallyName.VERDICTS, 1.0, (exemplar, store.clock.now()), **labels, verdict="fail")
        store.count(TallyName.UNJUDGEABLE, reason=f"missing:{text}", **labels)
        store.count(TallyName.INVOCATIONS, agent=text, settled_by=text)
        store.count(TallyName.SCORE_BUCKET, le="0.7", **labels)
        store.count(TallyName.SCORE_SUM, 0.65, **labels)
        store.count(TallyName.DIMENSION_SCORE_BUCKET, le="4.0", dimension=text, **labels)
        store.count(TallyName.DIMENSION_SCORE_SUM, 4.0, dimension=text, **labels)
        store.count(TallyName.EVALUATION_ERRORS, reason=text, monitor="m", rubric=rubrics[0])
        store.count("some_later_metric", anything=text)
    store.count(TallyName.RUNS, monitor="m", outcome="done")
    store.waiting.append(PendingCount("m", 3, store.clock.now() - 60))
    store.clock.advance(1.0)
    return Exporter(store, watched(*rubrics, labels={"team": texts[0], "job": "x", "9": "y", texts[0]: "z"}))


def _samples(metrics: Iterable[Metric]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    found = {}
    for metric in metrics:
        for sample in metric.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, f"{key} stands on the page twice"
            found[key] = sample.value
    return found


texts = st.text(max_size=80) | st.text(st.sampled_from('\\"\n{}#,= aé\u2028\ud83c\x00\x85'), max_size=70)


@given(st.lists(texts, min_size=1, max_size=4, unique=True))
@example(["a\ud83c", "a\ud800"])
@example(["x" * 70, "x" * 80])
@example(['\\"', "\\", "\n", "{", "}", "# EOF", " "])
@settings(max_examples=40, deadline=None)
def test_any_label_text(found: list[str]) -> None:
    """Whatever agents, versions, environments and rubrics are called, the page parses in both formats and says what the registry says."""
    exporter = _filled(*found)
    text, kind = exporter.exposition.page()
    assert kind == TEXT
    assert text == exposition.generate_latest(exporter.registry)
    rich, kind = exporter.exposition.page(ACCEPT_OPENMETRICS)
    assert kind == OPENMETRICS
    assert rich == openmetrics_exposition.generate_latest(exporter.registry)
    registry = _samples(exporter.registry.collect())
    assert _samples(parse_openmetrics(rich.decode())) == registry
    assert set(_samples(parse_text(text.decode())).values()) == set(registry.values())
    for (_, labels), value in registry.items():
        assert all(len(text) <= 64 and text.isprintable() for _, text in labels)
        assert not math.isnan(value)


def test_promtool_takes_it(required_program: Callable[[str, str], str]) -> None:
    """Prometheus's own checker finds the page well-formed and has nothing to say against names and help texts of ours."""
    promtool = required_program("promtool", "apt-get install prometheus")
    exporter = _filled('a"\\\n', "ü" * 80, "plain", "\ud83c")
    page, _ = exporter.exposition.page()
    done = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, timeout=30, check=False)
    assert done.stdout.decode() + done.stderr.decode() == ""
    assert done.returncode == 0


@pytest.mark.parametrize("bad", ["", "0" * 31, "0" * 33, TRACE.upper(), f'{TRACE[:31]}"', f"{TRACE}\n", "zz" * 16])
def test_only_hex_trace_ids_are_exemplars(bad: str) -> None:
    """A trace id that is not 32 lower-case hex digits never becomes an exemplar; a right one stands on the failing verdict alone."""
    page, _ = _filled("a", exemplar=bad).exposition.page(ACCEPT_OPENMETRICS)
    lines = [line for line in page.decode().splitlines() if " # {" in line]
    assert lines
    assert all(line.startswith("rubricd_verdicts_total{") and 'verdict="fail"' in line for line in lines)
    assert all(f'# {{trace_id="{TRACE}"}} 1.0 ' in line for line in lines)
    assert not any(bad and f'"{bad}"' in line for line in lines)


def test_exemplars_only_where_asked_for() -> None:
    """The text format carries no exemplars: Prometheus would refuse the whole page."""
    page, _ = _filled("a").exposition.page()
    assert b" # {" not in page


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/plain", False),
        ("application/openmetrics-text", True),
        (ACCEPT_OPENMETRICS, True),
        ("text/plain;q=1,application/openmetrics-text;version=1.0.0;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=x", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
    ],
)
def test_format_is_negotiated(accept: str, wanted: bool) -> None:
    """OpenMetrics is answered where it is asked for and not outweighed, else text."""
    assert wants_openmetrics(accept) is wanted


def test_no_created_series() -> None:
    """Neither the process's metrics nor the store's come with `_created` series, in either format."""
    exporter = _filled("a")
    Counter("rubricd_things", "Things.", registry=exporter.registry).inc()
    Histogram("rubricd_sizes", "Sizes.", registry=exporter.registry).observe(1)
    for accept in ("", ACCEPT_OPENMETRICS):
        page, _ = exporter.exposition.page(accept)
        assert b"rubricd_things_total 1.0" in page
        assert b"_created" not in page


@given(st.floats(allow_nan=False) | st.integers(-(10**9), 10**9).map(float))
def test_numbers(value: float) -> None:
    """A number is written as prometheus_client writes it, and reads back as the same number."""
    assert number(value) == floatToGoString(value)
    assert float(number(value)) == value
