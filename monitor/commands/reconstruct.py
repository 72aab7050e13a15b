"""`rubricd reconstruct FILE…`: recorded OTLP to invocations, by the daemon's own code path."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monitor.commands.exits import Exit, wrong_input
from monitor.commands.printing import json_lines, note, say

if TYPE_CHECKING:
    from monitor.model.invocation import Assembled, Invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files and what to print."""
    parser.epilog = "example: rubricd reconstruct --json traces.otlp.jsonl logs.otlp.jsonl"
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        type=Path,
        help="OTLP JSON or protobuf: traces, and logs where given; - is standard input",
    )
    parser.add_argument("--json", action="store_true", help="one invocation a line, all keys present")
    parser.add_argument(
        "--conversations",
        action="store_true",
        help="whole conversations in place of invocations, with their turns in order",
    )
    parser.add_argument("--explain", action="store_true", help="for every field the span and attribute it came from")


def command(arguments: argparse.Namespace) -> int:
    """Print the invocations."""
    from monitor.commands.files import assembled_invocations
    from monitor.model.wire import invocation_json

    found = assembled_invocations(arguments.files, explain=arguments.explain)
    if arguments.conversations:
        if arguments.explain:
            raise wrong_input("--explain is about single invocations: leave --conversations out")
        return _conversations([item.invocation for item in found], arguments.json)
    if arguments.json:
        json_lines(
            invocation_json(item.invocation) | ({"provenance": _provenance(item)} if arguments.explain else {})
            for item in found
        )
    elif not found:
        say("no invocation: the files hold no agent or model spans that can be used")
    else:
        for item in found:
            _print(item, arguments.explain)
    return Exit.DONE


def _conversations(invocations: Sequence[Invocation], as_json: bool) -> int:
    """Print the conversations. Invocations without a conversation id belong to none."""
    from monitor.model.conversation import conversations
    from monitor.model.wire import invocation_json

    found = conversations(invocations)
    alone = sum(one.conversation_id is None for one in invocations)
    if as_json:
        json_lines(invocation_json(one) for one in found)
    for one in () if as_json else found:
        agents = ", ".join(dict.fromkeys(turn.label_agent for turn in one.turns))
        say(f"{one.id}  {agents}  {len(one.turns)} turn{'s' if len(one.turns) != 1 else ''}")
        for turn in one.turns:
            for label, text in _lines(turn):
                say(f"  {label:>9}  {text}")
        say()
    if alone:
        note(
            f"rubricd: {alone} invocation{'s' if alone != 1 else ''} without a conversation id belong to no conversation"
        )
    return Exit.DONE


def _provenance(item: Assembled) -> list[dict[str, str]]:
    return [
        {"field": p.field, "span_id": p.span_id, "source": p.source, "convention": p.convention}
        for p in item.provenance
    ]


def _print(item: Assembled, explain: bool) -> None:
    run = item.invocation
    seconds = (run.ended_at - run.started_at) / 1e9
    say(f"{run.id}  {run.agent_name or run.service or 'unknown agent'}  {run.convention}  {seconds:.2f} s")
    for label, text in _lines(run):
        say(f"  {label:>9}  {text}")
    if run.completeness.missing:
        say(f"  {'missing':>9}  {', '.join(run.completeness.missing)}")
    if explain:
        for origin in item.provenance:
            span = f"span {origin.span_id} " if origin.span_id else ""
            say(f"  {origin.field} <- {span}{origin.source} ({origin.convention})")
    say()


def _lines(run: Invocation) -> Sequence[tuple[str, Any]]:
    lines = [("user", _short(run.user_input))]
    for call in run.tool_calls:
        outcome = f"error: {call.error}" if call.error else _short(call.result)
        agent = f" [{call.agent_name}]" if call.agent_name else ""
        lines.append(("tool" + agent, f"{call.name}({_short(call.arguments)}) -> {outcome}"))
    lines.append(("error", _short(run.error)) if run.error else ("answer", _short(run.final_response)))
    lines.append(("tokens", f"{run.input_tokens} in, {run.output_tokens} out, {run.model_calls} model calls"))
    return lines


def _short(value: Any, limit: int = 160) -> str:
    if value is None:
        return "–"
    text = value if isinstance(value, str) else _json(value)
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)
