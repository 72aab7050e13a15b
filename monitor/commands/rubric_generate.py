"""`rubricd rubric generate`: a first rubric from what is known of an agent, to be reviewed."""

from __future__ import annotations

import argparse
import asyncio
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monitor.commands.client import Server, add_server_arguments
from monitor.commands.exits import Exit, not_done, wrong_input
from monitor.commands.printing import json_lines, note

if TYPE_CHECKING:
    from monitor.judging.drafting import Draft, Source
    from monitor.model.invocation import Invocation

_MOST_LISTED = 1000

HELP = "draft a rubric with the configured judge, from an agent's prompt, a description, reference files, and recorded runs on top"
EXAMPLE = "rubricd rubric generate --name booking --prompt prompt.txt --traces traces.otlp.jsonl -c rubricd.yaml -o booking.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The material, the judge, and where to."""
    parser.add_argument("--name", required=True, help="the rubric's name")
    parser.add_argument("--kind", choices=("weighted", "properties"), default="weighted", help="default: weighted")
    parser.add_argument(
        "--prompt", metavar="FILE", type=Path, action="append", default=[], help="the agent's system prompt"
    )
    parser.add_argument(
        "--agent", metavar="FILE", type=Path, action="append", default=[], help="a description of the agent"
    )
    parser.add_argument(
        "--reference", metavar="FILE", type=Path, action="append", default=[], help="policies, manuals, examples"
    )
    parser.add_argument(
        "--traces",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="recorded OTLP or invocation JSON Lines",
    )
    parser.add_argument("--stored-agent", metavar="NAME", help="runs of this agent that a running daemon has stored")
    parser.add_argument(
        "--since", metavar="TIME", default="7d", help="of those, from then on: RFC 3339 or a duration (default: 7d)"
    )
    parser.add_argument("--most", metavar="N", type=int, default=50, help="of those, so many at most (default: 50)")
    add_server_arguments(parser)
    parser.add_argument("--based-on", metavar="NAME_OR_FILE", help="a rubric of which this is to be a new version")
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, required=True, help="configuration with the judge")
    parser.add_argument("--judge", metavar="NAME", help="a judge of the configuration (default: `default`)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write the rubric there; never overwrites")
    parser.add_argument("--json", action="store_true", help="rubric, warnings and token use as one JSON object")


def command(arguments: argparse.Namespace) -> int:
    """Draft, warn, report the tokens, print."""
    from monitor.commands.rubric_import import rubric_text, write_rubrics
    from monitor.judging.drafting import NoBase

    try:
        drafted = asyncio.run(_drafted(arguments, list(_sources(arguments))))
    except NoBase as error:
        raise wrong_input(f"{error} (--prompt, --agent, --reference)") from error
    if drafted.document is None:
        failure = drafted.failure
        raise not_done(
            f"the judge gave no usable draft: {failure.type.value}: {failure.message}" if failure else "no draft"
        )
    _report(drafted)
    if arguments.json:
        rubric_text([drafted.document])
        json_lines([_json(drafted, drafted.document)])
    else:
        write_rubrics([drafted.document], arguments.output)
    return Exit.DONE


def _report(drafted: Draft) -> None:
    for warned in drafted.warnings:
        note(f"rubricd: warning {warned.code} ({warned.source.value} {warned.index + 1}): {warned.text}")
    used = drafted.usage
    cost = "cost unknown: no prices" if used.cost_usd is None else f"{used.cost_usd:.4f} USD"
    note(f"rubricd: {used.requests} calls, {used.input_tokens} input and {used.output_tokens} output tokens, {cost}")


def _json(drafted: Draft, document: Mapping[str, Any]) -> dict[str, Any]:
    used = drafted.usage
    tokens = {"requests": used.requests, "input_tokens": used.input_tokens, "output_tokens": used.output_tokens}
    warnings = [warned.as_json() for warned in drafted.warnings]
    return {"rubric": dict(document), "warnings": warnings, "usage": {**tokens, "cost_usd": used.cost_usd}}


async def _drafted(arguments: argparse.Namespace, sources: list[Source]) -> Draft:
    from monitor.commands.score import configuration_of, judge_of
    from monitor.judging.drafting import draft

    configuration = configuration_of(arguments.config)
    judge = judge_of(arguments.judge, configuration, ["generate"])
    assert judge is not None
    try:
        return await draft(judge, arguments.name, arguments.kind, sources, _earlier(arguments.based_on, arguments))
    finally:
        await judge.close()


def _earlier(name: str | None, arguments: argparse.Namespace) -> str | None:
    import yaml

    from monitor.commands.score import configuration_of, rubrics_of

    if name is None:
        return None
    found = rubrics_of([name], configuration_of(arguments.config))
    documents = [one.spec.model_dump(mode="json", exclude_defaults=True) for one in found]
    return str(yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True))


def _sources(arguments: argparse.Namespace) -> Iterator[Source]:
    from monitor.commands.files import read_invocations
    from monitor.commands.score import configuration_of
    from monitor.judging.drafting import Source, SourceKind
    from monitor.judging.redact import redacted
    from monitor.judging.transcript import transcript
    from monitor.settings.privacy import USUAL, before_judge

    for kind, files in (
        (SourceKind.PROMPT, arguments.prompt), (SourceKind.AGENT, arguments.agent), (SourceKind.DATASET, arguments.reference),
    ):  # fmt: skip
        for file in files:
            try:
                yield Source(kind, file.read_text(encoding="utf-8", errors="replace"))
            except OSError as error:
                raise wrong_input(f"{file}: cannot be read: {error.strerror}") from error
    runs = [*read_invocations(arguments.traces), *(_stored(arguments) if arguments.stored_agent else ())]
    configuration = configuration_of(arguments.config) if runs else None
    redaction = USUAL.joined(before_judge(configuration.settings.privacy.redact)) if configuration else USUAL
    for invocation in runs:
        yield Source(
            SourceKind.TRACES, transcript(redacted(invocation, redaction), secrets.token_hex(8), "trajectory").text
        )


def _stored(arguments: argparse.Namespace) -> list[Invocation]:
    """Runs that a daemon has stored, as far as it shows us their content: each question once, spread over the time."""
    from monitor.model.wire import InvalidInvocation, invocation_from_json

    if arguments.most < 1:
        raise wrong_input(f"--most {arguments.most}: at least 1")
    server = Server(arguments.server, arguments.token_file)
    listed = server.items(
        "/api/v1/invocations", agent=arguments.stored_agent, since=arguments.since, limit=_MOST_LISTED
    )
    whole = [item for item in listed if item.get("user_input") and item.get("final_response")]
    each = list({item["user_input"]: item for item in whole}.values())
    count = min(arguments.most, len(each))
    try:
        found = [invocation_from_json(each[place * len(each) // count]) for place in range(count)]
    except InvalidInvocation as error:
        raise not_done(f"{arguments.server} answers with invocations that this version cannot read: {error}") from error
    note(
        f"rubricd: {count} of {len(listed)} stored runs of {arguments.stored_agent!r} since {arguments.since} are shown to the judge; "
        f"{len(listed) - len(whole)} have no question or no answer, or their content was not kept"
    )
    return found
