"""Reload of the configuration: by signal, by API, or because the content of a file changed; all or nothing.

Kubernetes swaps a mounted ConfigMap by turning a link to another folder, and modification times may not change: what counts is the
content, so a change is told by a hash of it, looked at every few seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import yaml

from monitor.clock import Clock
from monitor.configuration import Configuration
from monitor.rubrics.kinds.code import CodeSpec
from monitor.rubrics.programs import current_content
from monitor.settings.document import ConfigurationError, Fault
from monitor.settings.tree import Settings
from monitor.telemetry import Telemetry

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
_RESTART: Mapping[str, Callable[[Settings], object]] = {
    "collectors": lambda settings: settings.collectors,
    "storage.path": lambda settings: settings.storage.path,
    "storage.journal.max_size": lambda settings: settings.storage.journal.max_size,
    "server": lambda settings: settings.server,
    "exporters": lambda settings: settings.exporters,
    "metrics": lambda settings: settings.metrics,
}
"""What is read at the start only."""


class Reloader:
    """Reads the configuration anew and puts it in force. `request` may be called from a signal handler."""

    def __init__(
        self,
        reread: Callable[[], Configuration],
        apply: Callable[[Configuration], Awaitable[None]],
        telemetry: Telemetry,
        clock: Clock,
        configuration: Configuration,
    ) -> None:
        self._reread, self._apply, self._telemetry, self._clock = reread, apply, telemetry, clock
        self._configuration = configuration
        self._seen = _content(configuration)
        self._lock = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        telemetry.reload_successful.set(1)
        telemetry.reload_timestamp.set(clock.now())

    def start(self) -> None:
        """Begin to look for changes."""
        self._task = asyncio.create_task(self._watch(), name="reload")

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def request(self) -> None:
        """Reload soon (SIGHUP)."""
        self._wanted.set()

    async def reload(self) -> None:
        """Reload now. Raises ConfigurationError, and leaves the old configuration in force, when the new one is wrong."""
        async with self._lock:
            # The hash is taken before the files are read: what changes in between is seen as a change at the next look.
            self._seen = await asyncio.to_thread(_content, self._configuration)
            try:
                found = await asyncio.to_thread(self._reread)
                self._refuse_nothing(found)
                self._warn(self._configuration.settings, found.settings)
                await self._apply(found)
            except ConfigurationError as error:
                self._telemetry.reload_successful.set(0)
                LOG.error("the configuration was not reloaded, the old one stays in force: %s", error)
                raise
            except Exception:
                self._telemetry.reload_successful.set(0)
                self._seen = ""  # right, but it could not be put in force: tried again at the next look
                raise
            self._configuration = found
            self._telemetry.reload_successful.set(1)
            self._telemetry.reload_timestamp.set(self._clock.now())
            LOG.info("the configuration was reloaded", extra={"configuration": found.file})

    def _refuse_nothing(self, found: Configuration) -> None:
        """A file that is being written anew is empty for a moment: a reload does not take the last monitor away."""
        if self._configuration.settings.monitors and not found.settings.monitors:
            reason = "there is no monitor any more; a reload does not take the last one away, a restart does"
            raise ConfigurationError([Fault(found.file, 0, "monitors", reason)])

    @staticmethod
    def _warn(before: Settings, after: Settings) -> None:
        for name, part in _RESTART.items():
            if part(before) != part(after):
                LOG.warning("a change of `%s` takes effect at the next restart", name)

    async def _watch(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._wanted.wait(), LOOK_SECONDS)
                self._wanted.clear()
                wanted = True
            except TimeoutError:
                seen = await asyncio.to_thread(_content, self._configuration)
                wanted, self._seen = seen != self._seen, seen
            if wanted:
                try:
                    await self.reload()
                except ConfigurationError:
                    continue  # said already; the next change is tried again
                except Exception as error:
                    LOG.error("the configuration was not reloaded: %s", type(error).__name__, exc_info=True)


def _content(configuration: Configuration) -> str:
    """A hash of the configuration file, of all rubric files that it names, and of the programs of `code` rubrics in use."""
    digest = hashlib.sha256()
    main = Path(configuration.file)
    files = [main]
    for pattern in _patterns(main):
        path = Path(pattern).expanduser()
        root, relative = (
            (Path(path.anchor), path.relative_to(path.anchor)) if path.is_absolute() else (main.parent, path)
        )
        files += sorted(root.glob(str(relative)))
    for file in files:
        try:
            digest.update(str(file).encode() + b"\0" + file.read_bytes() + b"\0")
        except OSError as error:
            digest.update(f"{file}: {error.errno}".encode())
    for rubrics in configuration.resolved.values():
        for one in rubrics:
            if isinstance(one.rubric.spec, CodeSpec):
                digest.update(current_content(one.rubric.spec).encode())
    return digest.hexdigest()


def _patterns(file: Path) -> list[str]:
    """The rubric files that the configuration names as it stands now, also while it is wrong: correcting one of them is a change."""
    try:
        named = yaml.safe_load(file.read_text(encoding="utf-8"))["rubric_files"]
    except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
        return []
    return [pattern for pattern in named if isinstance(pattern, str)] if isinstance(named, list) else []
