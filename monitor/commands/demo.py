"""`rubricd demo`: the main job in a minute. Recorded traffic of two agents goes into a real daemon over real OTLP; one of them gets worse."""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monitor.commands.demo_traffic import Phase, Traffic
from monitor.commands.exits import Exit, not_done, wrong_input
from monitor.commands.printing import say
from monitor.resources import config_folder

if TYPE_CHECKING:
    from monitor.app import App
    from monitor.configuration import Configuration
    from monitor.passrates import PassRate

SETTLE_SECONDS = 30.0
"""How long the last invocations may take to settle and to be judged."""

LONGEST_SECONDS = 86400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How long, and whether a judge takes part."""
    parser.epilog = "example: rubricd demo --keep"
    parser.add_argument(
        "--judge", action="store_true", help="also judge by the judge of the configuration (-c, else RUBRICD_CONFIG)"
    )
    parser.add_argument(
        "-c", "--config", metavar="FILE", type=Path, help="with --judge: the configuration whose judges are used"
    )
    parser.add_argument(
        "--keep", action="store_true", help="go on after the traffic, until Ctrl-C, so that you can look around"
    )
    parser.add_argument(
        "--seconds", metavar="N", type=float, default=40.0, help="how long the traffic lasts (default 40)"
    )


def command(arguments: argparse.Namespace) -> int:
    """Run the demo; exit 3 when the daemon cannot start."""
    from collectors.otlp.sender import NotDelivered
    from monitor.app import StartFailed
    from monitor.settings.document import ConfigurationError

    if not 5 <= arguments.seconds <= LONGEST_SECONDS:  # nan is neither
        raise wrong_input(
            f"--seconds {arguments.seconds:g}: 5 at least, for traffic has to settle and be judged, and a day ({LONGEST_SECONDS}) at most"
        )
    try:
        with tempfile.TemporaryDirectory(prefix="rubricd-demo-") as folder:
            asyncio.run(_demo(arguments, folder))
    except ConfigurationError as error:
        raise wrong_input(str(error)) from error
    except (StartFailed, NotDelivered) as error:
        raise not_done(str(error)) from error
    return Exit.DONE


async def _demo(arguments: argparse.Namespace, folder: str) -> None:
    from monitor.app import App
    from monitor.clock import SystemClock
    from monitor.commands.demo_screen import Screen
    from monitor.logs import configure_logging

    configuration = _configuration(folder, arguments)
    configure_logging(configuration.settings.logging.level, configuration.settings.logging.format)
    app = App(configuration, SystemClock(), lambda: configuration)
    await app.start()
    try:
        endpoints = app.collectors[0].endpoints
        _introduce(configuration, endpoints, app.server.url)
        traffic = Traffic.recorded(config_folder() / "demo", list(endpoints), arguments.seconds)
        with Screen() as screen:
            await _watch(app, traffic, screen)
            await _until_judged(app, traffic, screen)
        await _farewell(app, configuration, arguments.keep)
        if arguments.keep:
            await asyncio.Event().wait()
    except (asyncio.CancelledError, KeyboardInterrupt):
        say("stopped")
    finally:
        await app.stop()


def _configuration(folder: str, arguments: argparse.Namespace) -> Configuration:
    """The demo's own configuration, with the judges of another one where --judge asks for them."""
    from monitor.configuration import configure, load_configuration
    from monitor.settings.load import load_settings

    loaded = load_settings(config_folder() / "demo" / "rubricd.yaml", {**os.environ, "RUBRICD_DEMO_FOLDER": folder})
    if not arguments.judge:
        return configure(loaded)
    file = arguments.config or os.environ.get("RUBRICD_CONFIG")
    if not file:
        raise wrong_input("--judge: name a configuration with a `judges` section by -c FILE or RUBRICD_CONFIG")
    judges = load_configuration(Path(file), os.environ, elsewhere=True).settings.judges
    if "default" not in judges:
        raise wrong_input(f"--judge: {file} has no judge called `default`")
    from dataclasses import replace

    return configure(replace(loaded, settings=loaded.settings.model_copy(update={"judges": judges})))


def _introduce(configuration: Configuration, endpoints: tuple[str, ...], server: str) -> None:
    say("rubricd demo: two agents, recorded on real frameworks, are replayed into a real daemon over OTLP.")
    say(
        "  restaurant-booking (Pydantic AI, OpenTelemetry GenAI conventions) and order-support (OpenAI Agents, OpenInference)"
    )
    say(f"  OTLP at {', '.join(endpoints)}; metrics and API at {server}")
    waiting = [f"{rubric} (monitor {monitor})" for monitor, rubric in configuration.waiting()]
    if waiting:
        say(f"  no judge is configured, so nothing is sent anywhere: {', '.join(waiting)} wait for one")
    say()


async def _watch(app: App, traffic: Traffic, screen: Any) -> None:
    """Show the rates while the traffic runs in a thread of its own."""
    sending = asyncio.create_task(asyncio.to_thread(traffic.send))
    while not sending.done():
        await _show(app, traffic, screen)
        await asyncio.wait([sending], timeout=0.5)
    sending.result()


async def _until_judged(app: App, traffic: Traffic, screen: Any) -> None:
    """Go on showing until all that was sent has settled, been considered and judged."""
    deadline = app.clock.monotonic() + SETTLE_SECONDS
    traffic.phase = Phase.SETTLING
    while app.clock.monotonic() < deadline:
        await _show(app, traffic, screen)
        if await asyncio.to_thread(_all_done, app, traffic.sent):
            break
        await app.clock.sleep(0.5)
    else:
        traffic.phase = Phase.LATE
    screen.show(await asyncio.to_thread(_freshly_read, app), traffic)


def _freshly_read(app: App) -> Sequence[PassRate]:
    """The pass rates with everything: the daemon's own reading may be some seconds old on a busy machine."""
    from monitor.passrates import PassRates

    return PassRates(app.store, app.clock, app.configuration.watched).rates()


def _all_done(app: App, sent: int) -> bool:
    from monitor.model.tallies import TallyName

    tallies = app.store.tallies()
    stored = sum(one.value for one in tallies if one.metric == TallyName.INVOCATIONS)
    waiting = any(app.store.oldest_waiting(name) is not None for name in app.configuration.settings.monitors)
    pending = any(one.count for one in app.store.pending(app.clock.now()))
    return stored >= sent and not waiting and not pending


async def _show(app: App, traffic: Traffic, screen: Any) -> None:
    rates = await asyncio.to_thread(app.passrates.rates)
    screen.show(rates, traffic)


async def _farewell(app: App, configuration: Configuration, keep: bool) -> None:
    """One failing answer in full, and what to look at next."""
    from monitor.model.run import Query

    page = await asyncio.to_thread(app.store.list_verdicts, Query(verdict="fail", rubric="party_size_limit", limit=1))
    say()
    if page.items:
        verdict = page.items[0]
        say(f"one failing invocation: {verdict['agent_name']} {verdict['agent_version']}, rubric {verdict['rubric']}")
        say(f"  {verdict['explanation']}")
        say(f"  trace {verdict['trace_id']}")
    say()
    say("next:")
    if keep:
        say(f"  curl {app.server.url}/metrics | grep rubricd_pass_rate_ratio")
        say(f"  rubricd status --server {app.server.url}")
        if page.items:
            say(f"  rubricd explain {page.items[0]['trace_id']} --server {app.server.url}")
    else:
        say(
            "  rubricd demo --keep          the same, and the daemon stays up to be asked (metrics, API, status, explain)"
        )
    say(
        "  rubricd run                  the daemon on its default configuration: point your agents' OTLP exporter at localhost:4317"
    )
    say("  rubricd init my-monitor      an annotated configuration and a rubric of each kind, to start your own")
