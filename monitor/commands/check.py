"""`rubricd check -c FILE`: is the configuration right, what can a day cost at most, where does content go, how long does a drop take to see."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monitor.commands.client import Server
from monitor.commands.exits import Exit, wrong_input
from monitor.commands.printing import json_lines, note, say

if TYPE_CHECKING:
    from monitor.configuration import Configuration, ResolvedRubric
    from monitor.settings.tree import JudgeSettings, MonitorSettings

DROP_FROM, DROP_TO = 0.95, 0.90
UNKNOWN_PER_HOUR = 60.0
"""What an hour is taken to bring where neither a cap nor a daemon's figures say."""

CHARACTERS_PER_TOKEN = 4
CALLS_A_SAMPLE = 6
"""Calls that one sample may take at most: formats learned by asking, one repair, one longer answer."""

ANSWER_TOKENS = 2000
"""What an answer is taken to be at most where `max_tokens` does not bound it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and a daemon to compare with."""
    parser.epilog = "example: rubricd check -c rubricd.yaml"
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, required=True, help="the configuration")
    parser.add_argument(
        "--against", metavar="URL", help="a running daemon: which rubric versions would a rollout start anew"
    )
    parser.add_argument("--token-file", metavar="FILE", type=Path, help="file with a bearer token for --against")
    parser.add_argument(
        "--elsewhere",
        action="store_true",
        help="the daemon will run on another machine: keys, certificates, extras and a data folder that are missing here are warnings, not faults",
    )
    parser.add_argument("--json", action="store_true", help="one monitor a line as JSON")


def command(arguments: argparse.Namespace) -> int:
    """Print what was found; any fault is exit 2, each on a line of its own."""
    from monitor.configuration import load_configuration
    from monitor.settings.document import ConfigurationError

    try:
        configuration = load_configuration(
            arguments.config, os.environ, elsewhere=arguments.elsewhere, before_start=True
        )
    except ConfigurationError as error:
        count = len(error.faults)
        raise wrong_input(f"{count} fault{'s' if count != 1 else ''}:\n{error}") from error
    for fault in (*configuration.missing, *configuration.remarks):
        note(f"warning: {fault}")
    traffic = _traffic(Server(arguments.against, arguments.token_file, "--against")) if arguments.against else {}
    found = [_monitor(name, configuration, traffic.get(name)) for name in configuration.settings.monitors]
    if arguments.json:
        json_lines(found)
    else:
        say(f"{arguments.config}: right")
        for one in found:
            _print(one)
    if arguments.against:
        _compare(configuration, Server(arguments.against, arguments.token_file, "--against"), arguments.json)
    return Exit.DONE


def _traffic(server: Server) -> dict[str, float]:
    """Judged invocations per hour of the last week, by monitor, as the daemon counted them."""
    found: dict[str, float] = {}
    for monitor in server.items("/api/v1/monitors"):
        judged: dict[str, float] = {}
        for rate in monitor["pass_rates"]:
            if rate["window"] == "7d":
                judged[rate["rubric"]] = judged.get(rate["rubric"], 0.0) + rate["judged"]
        if judged:
            found[monitor["name"]] = max(judged.values()) / (7 * 24)
    return found


def _monitor(name: str, configuration: Configuration, judged_per_hour: float | None) -> dict[str, Any]:
    from monitor.estimation.power import samples_to_see_drop
    from monitor.overview import schedule_text
    from monitor.sampling import sampling_rule

    settings = configuration.settings.monitors[name]
    needs_judge = configuration.needs_judge(name)
    rule = sampling_rule(settings, needs_judge=needs_judge)
    resolved = configuration.resolved[name]
    cost = list(_costs(settings, resolved, configuration, None if rule.always else rule.max_per_hour))
    per_hour = judged_per_hour if judged_per_hour is not None else rule.max_per_hour
    drops = _drops(name, configuration, per_hour)
    samples = max((one["judged"] for one in drops if one["judged"]), default=samples_to_see_drop(DROP_FROM, DROP_TO))
    return {
        "monitor": name,
        "level": settings.level,
        "schedule": schedule_text(settings),
        "rate": rule.rate,
        "max_per_hour": rule.max_per_hour,
        "rubrics": [one.rubric.name for one in resolved if one.ref is not None],
        "waiting_for_judge": [one.rubric.name for one in resolved if one.ref is None],
        "judges": cost,
        "redacted": list(_redacted(configuration, name)),
        "drops": drops,
        "samples_for_drop": samples,
        "judged_per_hour": per_hour,
        "judged_per_hour_from": "last week" if judged_per_hour is not None else "the cap" if per_hour else None,
        "hours_for_drop": round(samples / per_hour, 1) if per_hour else None,
    }


def _redacted(configuration: Configuration, name: str) -> Iterator[str]:
    """What is replaced before a judge sees it."""
    redaction = configuration.redaction(name)
    yield from redaction.kinds
    for section in redaction.presidio:
        yield from section.entities


def _drops(name: str, configuration: Configuration, per_hour: float | None) -> list[dict[str, Any]]:
    """How long a drop of 5 points below each objective takes to raise an alarm, at the promised rate of false ones."""
    from monitor.regression.delay import verdicts_to_alarm
    from monitor.regression.rule import kinds_of_test, promised_verdicts

    monitor = next(one for one in configuration.watched() if one.name == name)
    tested = [rubric for rubric in monitor.rubrics if "objective" in kinds_of_test(monitor, rubric)]
    verdicts_per_second = (per_hour or UNKNOWN_PER_HOUR) / 3600 * max(1, len(tested))
    promised = float(round(promised_verdicts(monitor, verdicts_per_second)))
    found = []
    for rubric in tested:
        assert rubric.objective is not None
        dropped = max(rubric.objective / 2, rubric.objective - 0.05)
        judged = verdicts_to_alarm(rubric.objective, dropped, promised)
        hours = round(judged / per_hour, 1) if judged and per_hour else None
        found.append(
            {
                "rubric": rubric.rubric,
                "from": rubric.objective,
                "to": round(dropped, 4),
                "judged": judged,
                "hours": hours,
            }
        )
    return found


def _costs(
    settings: MonitorSettings,
    resolved: tuple[ResolvedRubric, ...],
    configuration: Configuration,
    per_hour: float | None,
) -> Iterator[dict[str, Any]]:
    """The most that a day can cost, by judge: every invocation or conversation under the cap, every sample asked, prompts as long as they can be;
    checks of the judge by asking twice included, golden cases not.
    """
    from monitor.overview import judge_host

    by_judge: dict[str, list[int]] = {}
    for one in resolved:
        if one.ref is not None and one.ref.judge is not None:
            by_judge.setdefault(one.ref.judge, []).append(getattr(one.rubric.spec, "num_samples", 1))
    for name, samples in by_judge.items():
        judge = configuration.settings.judges[name]
        calls = (
            None
            if per_hour is None
            else math.ceil(int(per_hour * 24) * sum(samples) * (1 + settings.trust.judge_twice))
        )
        # What a cap left over is carried for an hour; each call may be repaired, asked in another form, and tried again.
        most = None if calls is None else math.ceil(calls * 25 / 24) * CALLS_A_SAMPLE * judge.max_attempts
        yield {
            "judge": name,
            "model": judge.model,
            "host": judge_host(judge),
            "calls_per_day": calls,
            "calls_per_day_at_most": most,
            **_bounds(judge, most, settings.level),
        }


def _bounds(judge: JudgeSettings, calls: int | None, level: str) -> dict[str, Any]:
    """Tokens and USD of that many calls at most, or of the judge's own daily limits where those are lower."""
    from monitor.judging.transcript import TranscriptLimits

    limits = TranscriptLimits()
    characters = 2 * limits.text + limits.tool_values + limits.messages
    if (
        level == "conversation"
    ):  # the turns share the room that there is for them; beside them stand instructions and what came before
        characters = limits.text + limits.turns + limits.messages
    given, made = characters // CHARACTERS_PER_TOKEN, judge.max_tokens or ANSWER_TOKENS
    tokens = None if calls is None else calls * (given + made)
    if judge.limits.tokens_per_day is not None:
        tokens = min(tokens or judge.limits.tokens_per_day, judge.limits.tokens_per_day)
    usd = None
    if judge.prices is not None and calls is not None:
        usd = calls * (given * judge.prices.input_per_million + made * judge.prices.output_per_million) / 1e6
    if judge.limits.usd_per_day is not None:
        usd = min(usd if usd is not None else judge.limits.usd_per_day, judge.limits.usd_per_day)
    return {"tokens_per_day": tokens, "usd_per_day": None if usd is None else round(usd, 2)}


def _print(one: dict[str, Any]) -> None:
    cap = "no cap" if one["max_per_hour"] is None else f"at most {one['max_per_hour']:g} {one['level']}s an hour"
    say(f"monitor {one['monitor']}: {one['schedule']}, rate {one['rate']:g}, {cap}")
    if one["rubrics"]:
        say(f"  rubrics: {', '.join(one['rubrics'])}")
    if one["waiting_for_judge"]:
        say(f"  wait for a judge (configure `judges`): {', '.join(one['waiting_for_judge'])}")
    for judge in one["judges"]:
        calls = "no bound on calls"
        if judge["calls_per_day"] is not None:
            calls = f"{judge['calls_per_day']:,} calls if each is answered at once, at most {judge['calls_per_day_at_most']:,}"
        tokens = "tokens not bounded"
        if judge["tokens_per_day"] is not None:
            tokens = f"at most {judge['tokens_per_day']:,} tokens"
        usd = "price unknown" if judge["usd_per_day"] is None else f"{judge['usd_per_day']:,.2f} USD"
        say(f"  a day, {judge['judge']} ({judge['model']}): {calls}, {tokens}, {usd}; content goes to {judge['host']}")
    if one["judges"]:
        say(f"  replaced before that: {', '.join(one['redacted']) or 'nothing'}")
    else:
        say("  no judge is called: no cost, and no content leaves")
    for drop in one["drops"]:
        say(
            f"  {drop['rubric']}: a drop from {drop['from']:.0%} to {drop['to']:.0%} raises an alarm {_after(drop, one)}"
        )
    if not one["drops"]:
        drop = {"judged": one["samples_for_drop"], "hours": one["hours_for_drop"]}
        say(f"  no objective, no alarm; a drop from {DROP_FROM:.0%} to {DROP_TO:.0%} shows {_after(drop, one)}")


def _after(drop: dict[str, Any], one: dict[str, Any]) -> str:
    """After how many judged invocations, and how long that is."""
    if drop["judged"] is None:
        return f"after more than 20,000 judged {one['level']}s"
    text = f"after about {drop['judged']} judged {one['level']}s"
    if drop["hours"] is None:
        return f"{text}; `--against URL` says how long that is at last week's traffic"
    return f"{text}: {drop['hours']:g} h at {one['judged_per_hour']:.3g} an hour ({one['judged_per_hour_from']})"


def _compare(configuration: Configuration, server: Server, as_json: bool) -> None:
    """Which rubric versions the daemon does not run yet: those start new series."""
    running = {
        (monitor["name"], rubric["name"]): rubric["version"]
        for monitor in server.items("/api/v1/monitors")
        for rubric in monitor["rubrics"]
    }
    changes = []
    for name in configuration.settings.monitors:
        for ref in configuration.refs(name):
            before = running.get((name, ref.rubric))
            if before != ref.version:
                changes.append({"monitor": name, "rubric": ref.rubric, "running": before, "new": ref.version})
    if as_json:
        json_lines(changes)
        return
    for change in changes:
        was = (
            f"version {change['running']} -> {change['new']}" if change["running"] else f"new, version {change['new']}"
        )
        say(f"starts anew: {change['monitor']} / {change['rubric']}: {was}")
    if not changes:
        say("no rubric version starts anew")
