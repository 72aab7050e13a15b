"""Reloads go by content: every change is seen once, a wrong configuration stays out, and correcting it is a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from monitor import reloading
from monitor.clock import ManualClock
from monitor.configuration import Configuration, load_configuration
from monitor.reloading import Reloader
from monitor.settings.document import ConfigurationError
from monitor.telemetry import Telemetry

RUBRIC = "name: {name}\nkind: check\nexpect: {{max_tool_calls: 3}}\n"


class Bench:
    """A configuration folder, and a reloader that looks at it all the time."""

    def __init__(self, folder: Path, before_read: Callable[[], None] = lambda: None) -> None:
        self.file = folder / "rubricd.yaml"
        self.write("mine")
        self.applied: asyncio.Queue[Configuration] = asyncio.Queue()
        self.fault: Exception | None = None
        self.telemetry = Telemetry(CollectorRegistry())
        self.before_read = before_read
        self.reloader = Reloader(self._read, self._apply, self.telemetry, ManualClock(), self._read())

    def write(self, rubric: str, files: str = "rubrics/*.yaml") -> None:
        (self.file.parent / "rubrics").mkdir(exist_ok=True)
        (self.file.parent / "rubrics" / "a.yaml").write_text(RUBRIC.format(name=rubric))
        self.file.write_text(f"rubric_files: ['{files}']\nmonitors: {{m: {{rubrics: [mine]}}}}\n")

    def _read(self) -> Configuration:
        found = load_configuration(self.file, {})
        self.before_read()
        return found

    async def _apply(self, configuration: Configuration) -> None:
        if self.fault is not None:
            raise self.fault
        self.applied.put_nowait(configuration)

    def successful(self) -> float | None:
        return self.telemetry.registry.get_sample_value("rubricd_config_last_reload_successful")


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reloading, "LOOK_SECONDS", 0.01)


async def test_correcting_a_file_that_only_the_refused_configuration_names_is_a_change(tmp_path: Path) -> None:
    """A new configuration names another folder whose rubric is wrong; correcting that rubric puts the new configuration in force."""
    bench = Bench(tmp_path)
    bench.reloader.start()
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.yaml").write_text("name: mine\nkind: chck\n")
    bench.write("mine", "other/*.yaml")
    while bench.successful() != 0:
        await asyncio.sleep(0.005)
    (other / "b.yaml").write_text(RUBRIC.format(name="mine"))
    found = await asyncio.wait_for(bench.applied.get(), 5)
    assert found.settings.rubric_files == ("other/*.yaml",)
    assert bench.successful() == 1
    await bench.reloader.stop()


async def test_a_change_during_the_reading_is_not_lost(tmp_path: Path) -> None:
    """A file that changes after it was read and before the reload ends is read again at the next look."""
    bench = Bench(tmp_path)

    def change_once() -> None:
        bench.before_read = lambda: None
        (tmp_path / "rubrics" / "a.yaml").write_text(RUBRIC.format(name="mine").replace("3", "5"))

    bench.before_read = change_once
    bench.reloader.start()
    bench.reloader.request()
    versions = [(await asyncio.wait_for(bench.applied.get(), 5)).refs("m")[0].version for _ in range(2)]
    assert versions[0] != versions[1]
    await bench.reloader.stop()


async def test_what_could_not_be_put_in_force_is_tried_again(tmp_path: Path) -> None:
    """A right configuration that meets a fault while it is applied is reported as not reloaded, and applied once the fault is gone."""
    bench = Bench(tmp_path)
    bench.fault = OSError("disk full")
    bench.reloader.start()
    bench.reloader.request()
    while bench.successful() != 0:
        await asyncio.sleep(0.005)
    bench.fault = None
    await asyncio.wait_for(bench.applied.get(), 5)
    assert bench.successful() == 1
    await bench.reloader.stop()


async def test_an_emptied_file_takes_no_monitor_away(tmp_path: Path) -> None:
    """A file that is empty for a moment, as while it is written anew, is refused; the old configuration stays in force."""
    bench = Bench(tmp_path)
    bench.file.write_text("")
    with pytest.raises(ConfigurationError, match="does not take the last one away"):
        await bench.reloader.reload()
    assert bench.applied.empty()


async def test_nothing_is_done_where_nothing_changed(tmp_path: Path) -> None:
    """Looks at unchanged files reload nothing; a reload by hand that is refused raises and keeps the old configuration."""
    bench = Bench(tmp_path)
    bench.reloader.start()
    await asyncio.sleep(0.1)
    assert bench.applied.empty()
    await bench.reloader.stop()
    bench.file.write_text("montors: {}\n")
    with pytest.raises(ConfigurationError, match="did you mean `monitors`"):
        await bench.reloader.reload()
    assert bench.applied.empty()
