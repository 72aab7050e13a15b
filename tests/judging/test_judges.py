"""The configured judges as running things: what they share, and what a reload leaves alone."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import CollectorRegistry

from monitor.clock import ManualClock
from monitor.judges import Judges
from monitor.judging.abilities import Abilities
from monitor.judging.client import ReplyFormat
from monitor.settings.load import parse_settings
from monitor.settings.tree import Settings
from monitor.store.sqlite import SqliteStore
from monitor.telemetry import Telemetry

TEXT = """
judges:
  one: {model: m, base_url: "http://here/v1", timeout: %s}
  two: {model: m, base_url: "http://here/v1"}
  far: {model: m, base_url: "http://there/v1"}
"""


def settings(timeout: str) -> Settings:
    return parse_settings(TEXT % timeout, "r.yaml", {}).settings


async def test_what_a_server_can_do_is_known_to_all_and_after_a_reload(tmp_path: Path) -> None:
    """The form that a server and model answer in is learned once, by whichever judge; other servers are not thought to be alike; a reload that makes
    a judge anew keeps what was learned and what was spent, and leaves the other judges as they are.
    """
    store, clock = SqliteStore(tmp_path), ManualClock(1_700_000_000.0)
    judges = Judges(store, clock, Telemetry(CollectorRegistry()), settings("30s"))
    one, two, far = (judges.current[name] for name in ("one", "two", "far"))
    learned = Abilities(ReplyFormat.TEXT, temperature=False)
    one.memory.learn(one.settings, "m", learned)
    one.budget.spend(clock.now(), 1000, None)
    assert two.memory.of(two.settings, "m") == learned
    assert far.memory.of(far.settings, "m").format is ReplyFormat.JSON_SCHEMA
    await judges.apply(settings("40s"))
    anew = judges.current["one"]
    assert anew is not one
    assert anew.memory.of(anew.settings, "m") == learned
    assert anew.budget.use(clock.now()).tokens == 1000
    assert judges.current["two"] is two
    await judges.close()
    store.close()
