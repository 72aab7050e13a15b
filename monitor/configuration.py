"""A whole configuration: the settings tree joined with the rubrics, collectors, judges and schedules that it names.

Everything that can be wrong is found here, before anything starts, and shown together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from collectors.catalogue import ConfigFault, parse_config
from monitor.consistency import inconsistencies, remarks
from monitor.judging.checks import CheckPlan
from monitor.judging.golden import GoldenCase, GoldenFault, read_golden
from monitor.model.run import RubricRef
from monitor.model.watched import RegressionRule, WatchedMonitor, WatchedRubric
from monitor.prerequisites import missing, unwritable
from monitor.resources import config_folder
from monitor.rubrics.library import RubricLibrary, UnknownRubric
from monitor.rubrics.rubric import Rubric
from monitor.rubrics.version import definition, rubric_version
from monitor.scheduling.cron import parse_cron
from monitor.scheduling.gaps import gaps_of
from monitor.scheduling.runner import ScheduledMonitor
from monitor.settings.document import ConfigurationError, Document, Fault
from monitor.settings.load import LoadedSettings, survey_settings
from monitor.settings.privacy import Redaction, before_judge
from monitor.settings.tree import JudgeSettings, MonitorSettings, Regression, Settings
from monitor.settings.units import parse_duration

DEFAULT_JUDGE = "default"


@dataclass(frozen=True, slots=True)
class ResolvedRubric:
    """A rubric of a monitor with the judge it resolves to; `ref` is None while it waits for a judge."""

    rubric: Rubric
    ref: RubricRef | None
    objective: float | None
    shadow: bool


@dataclass(frozen=True, slots=True)
class Configuration:
    """What the daemon runs by. `collectors` maps names to parsed collector configurations; `file` is for messages; `missing` is what is not on this
    machine, where that is no fault; `remarks` what is right, but may not be meant.
    """

    settings: Settings
    library: RubricLibrary
    collectors: Mapping[str, Any]
    resolved: Mapping[str, tuple[ResolvedRubric, ...]]
    file: str
    golden: Mapping[str, tuple[GoldenCase, ...]] = field(default_factory=dict)
    missing: tuple[Fault, ...] = ()
    remarks: tuple[Fault, ...] = ()

    def refs(self, monitor: str) -> tuple[RubricRef, ...]:
        """The rubrics of a monitor that can be judged now."""
        return tuple(resolved.ref for resolved in self.resolved[monitor] if resolved.ref is not None)

    def redaction(self, monitor: str) -> Redaction:
        """What a monitor's judges are not to see; for a monitor that is gone what `privacy.redact` says."""
        settings = self.settings.monitors.get(monitor)
        return before_judge(self.settings.privacy.redact, settings.redact if settings else None)

    def needs_judge(self, monitor: str) -> bool:
        """Whether any rubric of the monitor that can be judged now calls a judge."""
        return any(ref.judge is not None for ref in self.refs(monitor))

    def scheduled(self) -> dict[str, ScheduledMonitor]:
        """The monitors as they are run."""
        return {
            name: ScheduledMonitor(monitor, self.refs(name), self.needs_judge(name))
            for name, monitor in self.settings.monitors.items()
        }

    def check_plans(self) -> tuple[CheckPlan, ...]:
        """How the judges of each monitor are checked."""
        return tuple(
            CheckPlan(
                name,
                self.refs(name),
                monitor.trust.judge_twice,
                self.golden.get(name, ()),
                monitor.trust.golden.every if monitor.trust.golden else 0.0,
                self.redaction(name),
            )
            for name, monitor in self.settings.monitors.items()
        )

    def waiting(self) -> Iterator[tuple[str, str]]:
        """(monitor, rubric) pairs that wait for a judge to be configured."""
        for monitor, rubrics in self.resolved.items():
            yield from ((monitor, resolved.rubric.name) for resolved in rubrics if resolved.ref is None)

    def definitions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(version, definition) of every rubric that can be judged now."""
        for monitor, rubrics in self.resolved.items():
            conversations = self.settings.monitors[monitor].level == "conversation"
            redaction = self.redaction(monitor)
            for resolved in rubrics:
                if resolved.ref is not None:
                    judge = self.settings.judges.get(resolved.ref.judge) if resolved.ref.judge else None
                    version = resolved.ref.version
                    yield version, definition(resolved.rubric, judge, redaction, conversations=conversations)

    def watched(self) -> tuple[WatchedMonitor, ...]:
        """The monitors as figures about them need to know them."""
        return tuple(
            WatchedMonitor(
                name,
                tuple(self._watched_rubric(resolved) for resolved in self.resolved[name] if resolved.ref is not None),
                monitor.windows,
                monitor.max_unscored,
                monitor.labels,
                exact=monitor.interval == "exact",
                of_window=monitor.bounds == "window",
                interval=gaps_of(monitor.schedule).usual,
                longest_gap=gaps_of(monitor.schedule).longest,
                regression=_regression_rule(monitor.regression),
            )
            for name, monitor in self.settings.monitors.items()
        )

    def _watched_rubric(self, resolved: ResolvedRubric) -> WatchedRubric:
        ref = resolved.ref
        assert ref is not None
        judge = self.settings.judges.get(ref.judge) if ref.judge else None
        return WatchedRubric(
            ref.rubric,
            ref.version,
            resolved.rubric.kind,
            ref.judge,
            judge.model if judge else None,
            resolved.objective,
            resolved.shadow,
        )


def _regression_rule(settings: Regression) -> RegressionRule:
    often = settings.false_alarm_every
    rule = RegressionRule(
        settings.against,
        clear_after=settings.clear_after,
        baseline=settings.baseline,
        tolerance=settings.tolerance,
    )
    if isinstance(often, int):
        return replace(rule, every_invocations=float(often))
    return replace(rule, every_seconds=parse_duration(often))


def load_configuration(
    file: Path, environment: Mapping[str, str], *, elsewhere: bool = False, before_start: bool = False
) -> Configuration:
    """Read a configuration with all it names. Raises ConfigurationError with every fault found. With `elsewhere` the daemon is to run on another
    machine: what is missing on this one is no fault, but in the configuration's `missing`. With `before_start` a data folder that could not be
    written is missing, too; a daemon that runs knows better.
    """
    return configure(survey_settings(file, environment), elsewhere=elsewhere, before_start=before_start)


def default_file() -> Path:
    """The shipped default configuration."""
    return config_folder() / "rubricd.yaml"


def configure(loaded: LoadedSettings, *, elsewhere: bool = False, before_start: bool = False) -> Configuration:
    """Join the tree with rubrics and collectors. Raises ConfigurationError with every fault found, those of the tree among them; see
    `load_configuration`. Faults that only follow from others are left out.
    """
    faults: list[Fault] = [
        loaded.document.fault(("monitors", name), "a monitor's name has 1 to 64 printable characters")
        for name in loaded.settings.monitors
        if not (0 < len(name) <= 64 and name.isprintable() and name.strip())
    ]
    faults += [
        loaded.document.fault(("monitors", name), f"a monitor cannot be called `{name}`: no page could be linked to")
        for name in loaded.settings.monitors
        if name in (".", "..")
    ]
    library, doubtful = _library(loaded, faults)
    collectors = _collectors(loaded, faults)
    resolved = {
        name: tuple(_resolve(name, monitor, loaded, library, doubtful, faults))
        for name, monitor in loaded.settings.monitors.items()
    }
    golden = {
        name: _golden(name, monitor, loaded, faults)
        for name, monitor in loaded.settings.monitors.items()
        if monitor.trust.golden is not None
    }
    faults += inconsistencies(loaded, collectors)
    absent = (*missing(loaded), *(unwritable(loaded) if before_start else ()))
    if not elsewhere:
        faults += absent
    faults = [*loaded.faults, *(fault for fault in faults if not loaded.follows(fault))]
    if faults:
        raise ConfigurationError(sorted(faults, key=lambda fault: (fault.file, fault.line, fault.key)))
    remarked = tuple(remarks(loaded))
    return Configuration(loaded.settings, library, collectors, resolved, loaded.document.file, golden, absent, remarked)


def _golden(
    monitor: str, settings: MonitorSettings, loaded: LoadedSettings, faults: list[Fault]
) -> tuple[GoldenCase, ...]:
    """The golden cases of a monitor; each is about a rubric of the monitor."""
    assert settings.trust.golden is not None
    path = ("monitors", monitor, "trust", "golden", "file")
    file = loaded.folder / Path(settings.trust.golden.file).expanduser()
    try:
        cases = read_golden(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        faults.append(loaded.document.fault(path, f"{file} cannot be read: {reason}"))
        return ()
    except GoldenFault as error:
        faults.append(loaded.document.fault(path, f"{file}: {error}"))
        return ()
    strangers = sorted({case.rubric for case in cases} - settings.rubrics.keys())
    if strangers and loaded.sound("monitors", monitor, "rubrics"):
        known = ", ".join(settings.rubrics)
        faults.append(
            loaded.document.fault(path, f"{file}: rubric {strangers[0]!r} is none of this monitor's, which are {known}")
        )
    return tuple(cases)


@dataclass(frozen=True, slots=True)
class _Doubtful:
    """Rubrics that are there, but wrong. `complete` says that there are no others than those of the library and these."""

    names: frozenset[str]
    complete: bool

    def may_be(self, name: str) -> bool:
        """Whether a rubric that the library lacks may be there."""
        return name in self.names or not self.complete


def _library(loaded: LoadedSettings, faults: list[Fault]) -> tuple[RubricLibrary, _Doubtful]:
    shipped = RubricLibrary.shipped(config_folder() / "rubrics")
    before = len(faults)
    files = list(_rubric_files(loaded, faults))
    library, found = shipped.survey(files, loaded.document)
    complete = found.complete and len(faults) == before and loaded.sound("rubrics") and loaded.sound("rubric_files")
    faults += found.faults
    return library, _Doubtful(frozenset(item.name for item in found.wrong), complete)


def _rubric_files(loaded: LoadedSettings, faults: list[Fault]) -> Iterator[Path]:
    for index, pattern in enumerate(loaded.settings.rubric_files):
        try:
            path = Path(pattern).expanduser()
            root, relative = (
                (Path(path.anchor), path.relative_to(path.anchor)) if path.is_absolute() else (loaded.folder, path)
            )
            found = sorted(file for file in root.glob(str(relative)) if file.is_file())
        except (ValueError, IndexError, OSError, RuntimeError, NotImplementedError) as error:
            faults.append(
                loaded.document.fault(("rubric_files", index), f"{pattern!r} is no pattern of files: {error}")
            )
            continue
        if not found:
            faults.append(
                loaded.document.fault(("rubric_files", index), f"no file matches {pattern!r} below {root.resolve()}")
            )
        yield from found


def _collectors(loaded: LoadedSettings, faults: list[Fault]) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for name, raw in loaded.settings.collectors.items():
        try:
            parsed[name] = parse_config(name.partition("/")[0], raw)
        except ConfigFault as fault:
            faults.extend(loaded.document.fault(("collectors", name, *path), reason) for path, reason in fault.faults)
    return parsed


def _resolve(
    monitor: str,
    settings: MonitorSettings,
    loaded: LoadedSettings,
    library: RubricLibrary,
    doubtful: _Doubtful,
    faults: list[Fault],
) -> Iterator[ResolvedRubric]:
    document, judges = loaded.document, loaded.settings.judges
    if settings.schedule.cron is not None:
        try:
            parse_cron(settings.schedule.cron, settings.schedule.timezone)
        except ValueError as error:
            faults.append(document.fault(("monitors", monitor, "schedule", "cron"), str(error)))
    for name, wanted in settings.rubrics.items():
        path = _rubric_path(document, monitor, name)
        judge = wanted.judge or (DEFAULT_JUDGE if DEFAULT_JUDGE in judges else None)
        if wanted.judge is not None and wanted.judge not in judges:
            if loaded.sound("judges", wanted.judge):
                faults.append(document.fault((*path, "judge"), _no_judge(wanted.judge, judges)))
            judge = None
        try:
            rubric = library.get(name)
        except UnknownRubric as error:
            if not doubtful.may_be(name):
                faults.append(document.fault(path, str(error)))
            continue
        unpriced = judge and rubric.judged and judges[judge].prices is None and loaded.sound("judges", judge)
        if settings.budget.usd_per_day is not None and unpriced:
            reason = f"judge {judge!r} has no `prices`: without them the cost of a call is not known"
            faults.append(document.fault(("monitors", monitor, "budget", "usd_per_day"), reason))
        yield ResolvedRubric(
            rubric, _ref(rubric, wanted.shadow, judge, settings, loaded), wanted.objective, wanted.shadow
        )


def _ref(
    rubric: Rubric, shadow: bool, judge: str | None, settings: MonitorSettings, loaded: LoadedSettings
) -> RubricRef | None:
    """The rubric as it is judged in a monitor; None while it waits for a judge."""
    conversations = settings.level == "conversation"
    if not rubric.judged:
        return RubricRef(rubric.name, rubric_version(rubric, None, conversations=conversations), None, shadow)
    if judge is None:
        return None
    redaction = before_judge(loaded.settings.privacy.redact, settings.redact)
    version = rubric_version(rubric, loaded.settings.judges[judge], redaction, conversations=conversations)
    return RubricRef(rubric.name, version, judge, shadow)


def _rubric_path(document: Document, monitor: str, name: str) -> tuple[str | int, ...]:
    """Rubrics may be written as a map or as a plain list."""
    base = ("monitors", monitor, "rubrics")
    written = document.data["monitors"][monitor].get("rubrics")
    return (*base, written.index(name) if isinstance(written, list) and name in written else name)


def _no_judge(name: str, judges: Mapping[str, JudgeSettings]) -> str:
    known = f"; the judges are {', '.join(sorted(judges))}" if judges else ": the file has no `judges` section"
    return f"no judge is called {name!r}{known}"
