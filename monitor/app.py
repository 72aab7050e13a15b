"""Wiring: this module alone builds the parts of the daemon, starts them in order, and stops them in the reverse of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from collectors.catalogue import build_collector
from collectors.collector import Collector, CollectorFailed, History, ReadsHistory
from monitor import garbage
from monitor.backfill import Backfills
from monitor.budgets import Budgets
from monitor.clock import Clock, SteadyClock, SystemClock
from monitor.configuration import Configuration, load_configuration
from monitor.exporters.lease import ExportLease
from monitor.exporters.otlp import EvaluationExporter
from monitor.exporters.prometheus import Exposition, Sources, StoreCollector, new_registry
from monitor.history import Rereading
from monitor.intake.conversations import Conversations
from monitor.intake.faults import FaultKind, JournalUnwritable
from monitor.intake.frames import DamageKind, said_of
from monitor.intake.index import Index
from monitor.intake.journal import Journal
from monitor.intake.later import assemble_later
from monitor.intake.options import settlement_options, settling_rules
from monitor.intake.settler import Settler
from monitor.intake.sink import Intake
from monitor.judges import Judges
from monitor.judging.checks import CheckPlan, JudgeChecks
from monitor.judging.worker import EvaluationWorkers
from monitor.labels.labels import Labels
from monitor.logs import configure_logging
from monitor.model.watched import WatchedMonitor
from monitor.overview import collector_status, judge_status, monitor_status, process_status
from monitor.passrates import PassRates
from monitor.plans import early_drop, kept_attributes, selects_by_tools, store_redaction
from monitor.regression.detection import Detection
from monitor.reloading import Reloader
from monitor.scheduling.scheduler import Scheduler
from monitor.server.context import Phase, Readiness, ServerContext, Status
from monitor.server.listener import ApiServer, ServerFailed
from monitor.store.cursors import StoredCursors
from monitor.store.protocol import Store, StoreTooNew, StoreUnwritable
from monitor.store.sqlite import SqliteStore
from monitor.telemetry import Telemetry
from monitor.upkeep import Kept, Upkeep

LOG = logging.getLogger(__name__)

DRAIN_SECONDS = 20.0
"""How long evaluations under way may take to end at a drain; what is not done by then is released and judged after the restart."""

WORK_THREADS = 16
"""Threads for what waits for the store: runs of monitors, claims, verdicts, upkeep. Intake, settling and the server have their own, so that
none of it can hold them up.
"""

ONLY_PROCESS = "the process that holds the storage folder"
"""Owner of the export lease: the folder's lock admits one process, so the successor of a killed one need not wait for its lease to end."""


class StartFailed(Exception):
    """The daemon could not start; the message names what and what would be right. Nothing was left running."""


class WrongStore(StartFailed):
    """The store was written by a newer rubricd: this one must not be used with it."""


class App:
    """The daemon. `start` once; `stop` drains and may be called twice. `reread` loads the configuration anew, for reloads."""

    def __init__(self, configuration: Configuration, clock: Clock, reread: Callable[[], Configuration]) -> None:
        self.configuration = configuration
        self.clock = clock
        self.steady = SteadyClock(clock)
        self._reread = reread
        self._phase = Phase.STARTING
        self._parts: list[Callable[[], object]] = []  # how to stop what was started, newest last
        self.registry = new_registry()
        self.telemetry = Telemetry(self.registry)
        self.collectors: list[Collector] = []

    # -- start -------------------------------------------------------------------------------------------------------
    async def start(self) -> None:
        """Start everything. Raises StartFailed and leaves nothing running when something cannot start."""
        try:
            await asyncio.to_thread(self._open_storage)
            self._build()
            await self.server.start()
            self._parts.append(self.server.stop)
            indexed = await asyncio.to_thread(self._replay)
            await self._start_working()
        except StoreTooNew as error:
            await self.stop()
            raise WrongStore(str(error)) from error
        except (StoreUnwritable, JournalUnwritable, CollectorFailed, ServerFailed) as error:
            await self.stop()
            raise StartFailed(str(error)) from error
        self._phase = Phase.READY
        endpoints = [endpoint for collector in self.collectors for endpoint in collector.endpoints]
        LOG.info(
            "ready",
            extra={
                "configuration": self.configuration.file,
                "collectors": endpoints,
                "server": self.server.url,
                "storage": str(self.folder),
                "open_spans": indexed,
            },
        )
        for monitor, rubric in self.configuration.waiting():
            LOG.warning("rubric waits for a judge: configure `judges`", extra={"monitor": monitor, "rubric": rubric})

    def _open_storage(self) -> None:
        storage = self.configuration.settings.storage
        self.folder = Path(storage.path).expanduser()
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnwritable(
                f"storage.path {self.folder}: cannot be made by user id {os.getuid()}: {error.strerror}"
            ) from error
        for kind in (*FaultKind, *DamageKind):
            self.telemetry.journal_faults.labels(kind.value)
        self.journal = Journal(
            self.folder / "journal",
            self.steady,
            max_bytes=storage.journal.max_size,
            told=lambda kind: self.telemetry.journal_faults.labels(kind).inc(),
        )
        self._parts.append(partial(asyncio.to_thread, self.journal.close))
        self.store: Store = SqliteStore(self.folder, assemble_later)
        self._parts.append(partial(asyncio.to_thread, self.store.close))
        released = self.store.release_all_claims()  # the journal's lock says that no other process works here
        if released:
            LOG.info(
                "evaluations that an earlier process was judging are pending again", extra={"evaluations": released}
            )
        self._remember(self.configuration)

    def _remember(self, configuration: Configuration) -> None:
        """What the store must know of a configuration before it is in force."""
        now = self.clock.now()
        for version, definition in configuration.definitions():
            self.store.remember_rubric(version, definition, now)

    def _build(self) -> None:
        settings, clock, store = self.configuration.settings, self.clock, self.store
        self.index = Index(settling_rules(settings.assembly), settings.assembly.max_open_spans)
        self.intake = Intake(self.journal, self.index, self.telemetry, self.steady)
        options = settlement_options(
            settings, kept_attributes(settings), store_redaction(settings), by_tools=selects_by_tools(settings)
        )
        self.settler = Settler(self.journal, self.index, store, self.telemetry, options)
        self.conversations = Conversations(store, settings.assembly.conversation_idle, options.conversation_monitors)
        self.exporter = EvaluationExporter(settings.exporters.otlp) if settings.exporters.otlp else None
        self.judges = Judges(store, clock, self.telemetry, settings)
        self.budgets = Budgets(store, clock, self.telemetry, lambda: self.configuration, lambda: self.judges.current)
        self.workers = EvaluationWorkers(
            store,
            self.judges.current,
            clock,
            self.telemetry,
            on_verdict=self.exporter.emit if self.exporter else None,
            budgets=self.budgets,
            redaction=lambda monitor: self.configuration.redaction(monitor),  # noqa: PLW0108 - a reload replaces the configuration
        )
        self.scheduler = Scheduler(store, clock, self.configuration.scheduled(), self.budgets)
        self.labels = Labels(store, clock, self._watched)
        self.passrates = PassRates(store, clock, self._watched, correct=self.labels.correct)
        self.detection = Detection(store, clock, self._watched, self.labels.moved)
        self.lease = ExportLease(store, clock, ONLY_PROCESS)
        sources = Sources(
            store, self.passrates, self._watched, self.lease, clock, self.detection, self.labels.agreement
        )
        self.registry.register(StoreCollector(sources, settings.metrics))
        self.upkeep = Upkeep(
            Kept(
                self.settler,
                store,
                self.judges,
                self.lease,
                self.telemetry,
                clock,
                self.steady,
                lambda: self.configuration.settings,
                lambda: self.collectors,
                self.detection,
                JudgeChecks(store, lambda: self.judges.current, clock, self._check_plans),
                self.conversations,
            )
        )
        self.backfills = Backfills(
            store,
            clock,
            lambda: self.configuration.scheduled(),  # noqa: PLW0108 - a reload replaces the configuration
            lambda: self.judges.current,
            Rereading(self._histories, self.index.unsettled),
        )
        self.reloader = Reloader(self._reread, self.apply, self.telemetry, clock, self.configuration)
        self.server = ApiServer(self._context())

    def _context(self) -> ServerContext:
        return ServerContext(
            settings=self.configuration.settings.server,
            clock=self.clock,
            store=self.store,
            passrates=self.passrates,
            scrape=Exposition(self.registry).page,
            readiness=self.readiness,
            collectors=self._collector_statuses,
            judges=self._judge_statuses,
            monitors=self._monitor_statuses,
            reload=self.reloader.reload,
            trace_link=lambda: self.configuration.settings.links.trace,
            backfills=self.backfills.all,
            begin_backfill=self.backfills.answer,
            cancel_backfill=self.backfills.cancel,
            labels=self.labels,
            regressions=self.detection.alarms,
            acknowledge=self.detection.acknowledge,
            watched=self._watched,
            process=lambda: process_status(self.telemetry, self.configuration.settings.storage.journal.max_size),
        )

    def _histories(self) -> dict[str, History]:
        return {
            one.name: one.history
            for one in self.collectors
            if isinstance(one, ReadsHistory) and one.history is not None
        }

    def _replay(self) -> int:
        self.intake.early_drop = early_drop(self.configuration)
        return self.settler.reading.begin(self.steady.now(), self.intake.early_drop.below)

    async def _start_working(self) -> None:
        for name, parsed in self.configuration.collectors.items():
            self.telemetry.expect_collector(name)
            collector = build_collector(
                name, parsed, self.intake, self.telemetry, clock=self.clock, cursors=StoredCursors(self.store)
            )
            await collector.start()
            self.collectors.append(collector)
            self._parts.append(collector.stop)
        self.settler.listen(self.steady.now())
        self.conversations.listen(self.clock.now())
        await asyncio.to_thread(self.budgets.look)
        self.budgets.start()
        await self.workers.start()
        await self.scheduler.start()
        self.upkeep.start()
        self.backfills.start()
        self.reloader.start()

    # -- in force ----------------------------------------------------------------------------------------------------
    async def apply(self, configuration: Configuration) -> None:
        """Put another configuration in force: everything but listeners, storage and exporters, which wait for a restart."""
        await asyncio.to_thread(self._remember, configuration)
        settings = configuration.settings
        await self.judges.apply(settings)
        self.workers.use_judges(self.judges.current)
        options = settlement_options(
            settings, kept_attributes(settings), store_redaction(settings), by_tools=selects_by_tools(settings)
        )
        await self.upkeep.between_steps(
            lambda: self.settler.configure(settling_rules(settings.assembly), options, self.steady.now())
        )
        self.conversations.configure(settings.assembly.conversation_idle, options)
        self.index.max_open_items = settings.assembly.max_open_spans
        self.intake.early_drop = early_drop(configuration)
        configure_logging(settings.logging.level, settings.logging.format)
        await self.scheduler.reload(configuration.scheduled())
        self.configuration = configuration

    def readiness(self) -> Readiness:
        """Whether telemetry can be taken. Blocks on the store."""
        damage = said_of(self.journal.damages)
        if self._phase is Phase.READY:
            if self.journal.fault is not None:
                return Readiness(Phase.UNWRITABLE, str(self.journal.fault), damage)
            try:
                self.store.check_writable()
            except StoreUnwritable as error:
                return Readiness(Phase.UNWRITABLE, str(error), damage)
        return Readiness(self._phase, damage=damage)

    def _watched(self) -> tuple[WatchedMonitor, ...]:
        """The monitors in force; asked each time, for a reload replaces the configuration."""
        return self.configuration.watched()

    def _check_plans(self) -> tuple[CheckPlan, ...]:
        """How judges are checked by the configuration in force."""
        return self.configuration.check_plans()

    def _collector_statuses(self) -> list[Status]:
        open_traces = self.index.open_traces
        return [
            collector_status(one, self.upkeep.spans_per_second(one.name), open_traces[one.name])
            for one in self.collectors
        ]

    def _judge_statuses(self) -> list[Status]:
        now = self.clock.now()
        problems = self.workers.problems
        return [judge_status(judge, problems.get(name), now) for name, judge in self.judges.current.items()]

    def _monitor_statuses(self) -> list[Status]:
        configuration = self.configuration
        pending = self.upkeep.pending
        return [
            monitor_status(name, configuration, self.scheduler.next_run(name), pending.get(name, 0))
            for name in configuration.settings.monitors
        ]

    # -- stop --------------------------------------------------------------------------------------------------------
    def hurry(self) -> None:
        """Wait for no scraper at the end of a drain."""
        if self._phase is Phase.DRAINING and hasattr(self, "server"):
            self.server.scrapes.hurry()

    async def stop(self, last_scrape: bool = False) -> None:
        """Drain: take nothing more, end or release evaluations, write what is queued, close. Never raises.

        With `last_scrape` the page of metrics stays until whoever scrapes it regularly has read the last figures (`server.final_scrape`).
        """
        if self._phase is Phase.DRAINING:
            return
        was_ready = self._phase is Phase.READY
        self._phase = Phase.DRAINING
        if was_ready:
            for collector in self.collectors:
                await self._quietly(collector.drain)
            await self._quietly(self.reloader.stop)
            await self._quietly(self.backfills.stop)
            await self._quietly(self.scheduler.stop)
            await self._quietly(partial(self.workers.stop, DRAIN_SECONDS))
            await self._quietly(self.upkeep.stop)
            await self._quietly(self.budgets.stop)
            await self._quietly(self.judges.close)
            if self.exporter is not None:
                await self._quietly(partial(asyncio.to_thread, self.exporter.close, 5.0))
            if last_scrape:
                await self._quietly(
                    partial(self.server.scrapes.one_more, self.configuration.settings.server.final_scrape)
                )
            await self._quietly(partial(asyncio.to_thread, self.lease.release))
        for part in reversed(self._parts):
            await self._quietly(part)
        self._parts.clear()
        if was_ready:
            LOG.info("stopped")

    async def _quietly(self, stop: Callable[[], object]) -> None:
        """Stop one part; a fault is logged and does not keep the others from stopping."""
        try:
            result = stop()
            if asyncio.iscoroutine(result) or isinstance(result, asyncio.Future):
                await result
        except Exception as error:
            LOG.error("while stopping: %s", type(error).__name__, exc_info=True)


async def run_daemon(file: Path, environment: Mapping[str, str]) -> None:
    """Run by a configuration file until SIGTERM or SIGINT. Raises ConfigurationError, StartFailed."""
    reread = partial(load_configuration, file, environment)
    configuration = reread()
    configure_logging(configuration.settings.logging.level, configuration.settings.logging.format)
    app = App(configuration, SystemClock(), reread)
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(WORK_THREADS, thread_name_prefix="work"))
    stopping: asyncio.Future[bool] = loop.create_future()  # whether to wait for a last scrape

    def stop(last_scrape: bool) -> None:
        if stopping.done():
            app.hurry()  # asked twice
        else:
            stopping.set_result(last_scrape)

    loop.add_signal_handler(signal.SIGTERM, stop, True)
    loop.add_signal_handler(signal.SIGINT, stop, False)
    await app.start()
    garbage.after_start()
    loop.add_signal_handler(signal.SIGHUP, app.reloader.request)
    last_scrape = await stopping
    LOG.info("draining")
    await app.stop(last_scrape)
