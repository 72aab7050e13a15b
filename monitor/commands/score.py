"""`rubricd score FILE…`: score recorded OTLP, or invocation JSON Lines, offline; a gate for CI."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from monitor.commands.exits import CommandFailed, Exit, not_done, wrong_input
from monitor.commands.printing import json_lines, note, percent, table

if TYPE_CHECKING:
    from monitor.configuration import Configuration
    from monitor.estimation.passrate import Estimate
    from monitor.judging.judge import Judge
    from monitor.model.invocation import Invocation
    from monitor.model.verdict import Verdict
    from monitor.rubrics.rubric import Rubric


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, rubrics, the judge, and the gate."""
    parser.epilog = (
        "example: rubricd score traces.otlp.jsonl --rubric run_succeeded --rubric rubrics/tone.yaml --fail-under 0.9"
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="OTLP JSON or protobuf, or invocation JSON Lines; - is standard input",
    )
    parser.add_argument(
        "--rubric",
        metavar="NAME_OR_FILE",
        nargs="+",
        action="extend",
        required=True,
        help="shipped or configured names, or rubric files",
    )
    parser.add_argument(
        "--level",
        choices=("invocation", "conversation"),
        default="invocation",
        help="what is scored: every invocation, or whole conversations (default: invocation)",
    )
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="configuration with judges and rubrics")
    parser.add_argument("--judge", metavar="NAME", help="a judge of the configuration (default: `default`)")
    parser.add_argument(
        "--fail-under",
        metavar="RATE",
        type=float,
        help="exit 1 when a rubric's pass rate is below, or nothing of it passed or failed, 0 to 1",
    )
    parser.add_argument(
        "--on", choices=("rate", "lower"), default="rate", help="what --fail-under looks at (default: rate)"
    )
    parser.add_argument(
        "--max-errors",
        metavar="SHARE",
        type=float,
        default=0.05,
        help="exit 3 above this share of failed evaluations (default 0.05)",
    )
    parser.add_argument("--junit", metavar="FILE", type=Path, help="also write the verdicts as JUnit XML")
    parser.add_argument("--json", action="store_true", help="one verdict or failed evaluation a line")


def command(arguments: argparse.Namespace) -> int:
    """Score, print, and hold the gate."""
    from monitor.clock import SystemClock
    from monitor.commands.files import read_invocations
    from monitor.offline import Scoring, score

    _check_shares(arguments)
    configuration = configuration_of(arguments.config)
    rubrics = rubrics_of(arguments.rubric, configuration)
    judge = judge_of(arguments.judge, configuration, [rubric.name for rubric in rubrics if rubric.judged])
    if arguments.junit:
        from monitor.commands.junit import make_sure_of

        make_sure_of(arguments.junit)
    invocations = read_invocations(arguments.files)
    if arguments.level == "conversation":
        invocations = _conversations(invocations)
    if not invocations:
        raise CommandFailed(Exit.NO, f"nothing to score: the files hold no {arguments.level}")
    clock = SystemClock()
    progress = _Progress(len(invocations) * len(rubrics))
    verdicts = asyncio.run(score(Scoring(invocations, rubrics, judge), clock, progress.done))
    _show(arguments, verdicts)
    if arguments.junit:
        from monitor.commands.junit import write_junit

        write_junit(arguments.junit, verdicts)
    return _gate(arguments, verdicts)


def _conversations(invocations: Sequence[Invocation]) -> list[Invocation]:
    """The conversations of invocations, grouped as the daemon groups them; says how many belong to none."""
    from monitor.model.conversation import conversations

    alone = sum(one.conversation_id is None for one in invocations)
    if alone:
        note(f"rubricd: {alone} of {len(invocations)} invocations have no conversation id and are not scored")
    return conversations(invocations)


def _check_shares(arguments: argparse.Namespace) -> None:
    for option, value in (("--fail-under", arguments.fail_under), ("--max-errors", arguments.max_errors)):
        if value is not None and not 0 <= value <= 1:
            raise wrong_input(f"{option} {value}: is a share from 0 to 1, such as 0.9")


def configuration_of(file: Path | None) -> Configuration | None:
    """The configuration of a file, where one is named."""
    from monitor.configuration import load_configuration
    from monitor.settings.document import ConfigurationError

    try:
        return load_configuration(file, os.environ, elsewhere=True) if file else None
    except ConfigurationError as error:
        raise wrong_input(str(error)) from error


def rubrics_of(names: Sequence[str], configuration: Configuration | None) -> list[Rubric]:
    """Names of the library, and all rubrics of files; each once."""
    from monitor.commands.rubric import library_of
    from monitor.rubrics.files import read_file
    from monitor.rubrics.library import UnknownRubric
    from monitor.settings.document import ConfigurationError

    library = configuration.library if configuration else library_of(None)
    found: dict[str, Rubric] = {}
    for name in names:
        try:
            if name in library or not Path(name).exists():
                found[name] = library.get(name)
            else:
                of_file = {item.rubric.name: item.rubric for item in read_file(Path(name), library.guides)}
                if not of_file:
                    raise wrong_input(f"--rubric {name}: holds no rubric; `rubricd init` writes one of each kind")
                found.update(of_file)
        except UnknownRubric as error:
            raise wrong_input(f"--rubric {name}: {error}; or name a rubric file") from error
        except ConfigurationError as error:
            raise wrong_input(str(error)) from error
    return list(found.values())


def judge_of(name: str | None, configuration: Configuration | None, judged: Sequence[str]) -> Judge | None:
    """The judge for what needs one, by name; without a configuration nothing is ever sent anywhere. One that is named has to be there."""
    judges = configuration.settings.judges if configuration else {}
    chosen = name or "default"
    if chosen not in judges and (judged or name is not None):
        known = f"the judges are {', '.join(sorted(judges))}" if judges else "name a configuration with `judges` by -c"
        if not judged:
            raise wrong_input(f"--judge {name}: no judge is called so; {known}")
        raise wrong_input(f"{', '.join(judged)}: needs a judge, and none is called {chosen!r}; {known}")
    if not judged:
        return None
    from monitor.clock import SystemClock
    from monitor.judging.clients.openai_client import OpenAIClient
    from monitor.judging.judge import Judge
    from monitor.settings.privacy import before_judge

    assert configuration is not None
    needed = [fault for fault in configuration.missing if fault.key.startswith((f"judges.{chosen}.", "privacy."))]
    if needed:
        raise wrong_input("\n".join(map(str, needed)))
    redaction = before_judge(configuration.settings.privacy.redact)
    clock = SystemClock()
    return Judge(chosen, judges[chosen], OpenAIClient(judges[chosen], clock), clock, redaction=redaction)


class _Progress:
    """How far it is, on a terminal."""

    def __init__(self, total: int) -> None:
        self._total, self._count = total, 0

    def done(self, _: Verdict) -> None:
        self._count += 1
        if sys.stderr.isatty() and (self._count % 20 == 0 or self._count == self._total):
            sys.stderr.write(
                f"\r{self._count} of {self._total} evaluations{'' if self._count < self._total else chr(10)}"
            )


def _show(arguments: argparse.Namespace, verdicts: Sequence[Verdict]) -> None:
    from monitor.model.wire import verdict_json

    if arguments.json:
        json_lines(verdict_json(verdict) for verdict in verdicts)
        return
    rows = []
    for rubric, of_rubric in _by_rubric(verdicts).items():
        found = _estimate(of_rubric)
        counts = _counts(of_rubric)
        interval = f"{percent(found.lower)} to {percent(found.upper)}" if found and found.rate is not None else "–"
        rows.append((rubric, percent(found.rate if found else None), interval, *counts))
    columns = ("rubric", "pass rate", "95 % interval", "pass", "fail", "not applicable", "unjudgeable", "errors")
    table("", columns, rows, right=columns[1:])


def _by_rubric(verdicts: Sequence[Verdict]) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        found.setdefault(verdict.rubric, []).append(verdict)
    return found


def _counts(verdicts: Sequence[Verdict]) -> tuple[int, ...]:
    from monitor.model.verdict import Outcome

    outcomes = [verdict.judgement.outcome for verdict in verdicts]
    return (*(outcomes.count(outcome) for outcome in Outcome), outcomes.count(None))


def _estimate(verdicts: Sequence[Verdict]) -> Estimate | None:
    from monitor.estimation.passrate import estimate, totals

    return estimate(totals((verdict.judgement.outcome, verdict.inclusion_probability) for verdict in verdicts))


def _gate(arguments: argparse.Namespace, verdicts: Sequence[Verdict]) -> int:
    errors = sum(verdict.judgement.outcome is None for verdict in verdicts)
    if errors > arguments.max_errors * len(verdicts):
        kinds = sorted({verdict.judgement.failure.type.value for verdict in verdicts if verdict.judgement.failure})
        raise not_done(
            f"{errors} of {len(verdicts)} evaluations failed ({', '.join(kinds)}), more than --max-errors {arguments.max_errors:g} allows"
        )
    if arguments.fail_under is None:
        return Exit.DONE
    below = []
    for rubric, of_rubric in _by_rubric(verdicts).items():
        found = _estimate(of_rubric)
        value = None if found is None else found.lower if arguments.on == "lower" else found.rate
        if value is None or value < arguments.fail_under:
            below.append(f"{rubric}: {percent(value)}")
    if below:
        note(f"rubricd: below --fail-under {arguments.fail_under:g} ({arguments.on}): {'; '.join(below)}")
        return Exit.NO
    return Exit.DONE
