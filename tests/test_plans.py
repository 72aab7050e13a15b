"""What follows from a configuration for intake."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.configuration import load_configuration
from monitor.intake.options import settlement_options
from monitor.plans import early_drop

RUBRICS = "rubrics: [no_tool_errors], sample: {rate: 0.1}"


@pytest.mark.parametrize(
    ("level", "largest", "invocations", "talks"),
    [("invocation", 0.1, ("m", "other"), ()), ("conversation", None, ("other",), ("m",))],
)
def test_a_monitor_of_conversations_ends_early_drop(
    tmp_path: Path, level: str, largest: float | None, invocations: tuple[str, ...], talks: tuple[str, ...]
) -> None:
    """Spans are dropped at intake by trace id only while every monitor draws by it; invocations wait for monitors of their own level."""
    file = tmp_path / "rubricd.yaml"
    file.write_text(f"monitors:\n  m: {{{RUBRICS}, level: {level}}}\n  other: {{{RUBRICS}}}\n")
    configuration = load_configuration(file, {})
    assert early_drop(configuration).rate == largest
    options = settlement_options(configuration.settings, ())
    assert (options.monitors, options.conversation_monitors) == (invocations, talks)


def test_a_rubric_of_conversations_is_a_version_of_its_own(tmp_path: Path) -> None:
    """The same rubric judges something else there: its series are not those of invocations, and the definition says so."""
    file = tmp_path / "rubricd.yaml"
    file.write_text(f"monitors:\n  m: {{{RUBRICS}, level: conversation}}\n  other: {{{RUBRICS}}}\n")
    configuration = load_configuration(file, {})
    versions = {name: configuration.refs(name)[0].version for name in ("m", "other")}
    assert versions["m"] != versions["other"]
    levels = {version: definition.get("level") for version, definition in configuration.definitions()}
    assert levels == {versions["m"]: "conversation", versions["other"]: None}
