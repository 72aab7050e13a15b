"""An invocation as a conversation: what was said and done, in order, and what the telemetry lacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from monitor.model.invocation import Invocation, Message, Part, ToolCall
from monitor.server.pages.shown_text import Mark, Shown, as_text, shown

GAPS = {
    "not_captured": "not in the telemetry",
    "redacted": "redacted or erased",
    "truncated": "truncated by the sender",
    "referenced": "stored elsewhere, only a reference was sent",
}


@dataclass(frozen=True, slots=True)
class Block:
    """A value of the invocation. `path` names it (`tool_calls[0].result`); `gap` says why it is not whole or not there."""

    path: str
    label: str
    text: str | None
    code: bool = False
    gap: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One step of the conversation: kind system, user, assistant, tool or error; or turn, where another turn of it begins, which is that invocation."""

    kind: str
    title: str
    blocks: tuple[Block, ...]
    status: str | None = None
    agent: str | None = None
    seconds: float | None = None
    number: int | None = None
    earlier: bool = False
    invocation_id: str | None = None


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A block with its text as HTML."""

    block: Block
    shown: Shown | None


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn with its blocks as HTML."""

    turn: Turn
    blocks: tuple[ShownBlock, ...] = field(default_factory=tuple)


def turns(invocation: Invocation) -> list[Turn]:
    """What was said and done, from the instructions to the answer or the error; of a conversation turn after turn."""
    return list(_conversation(invocation.turns) if invocation.turns else _turns(invocation, _gaps(invocation)))


def _conversation(invocations: Sequence[Invocation]) -> Iterator[Turn]:
    """All turns; instructions where they change, what came before only of the first. Paths begin with `turns[…]`."""
    told: str | None = None
    several = len({one.agent_name for one in invocations}) > 1
    for place, one in enumerate(invocations):
        title = f"Turn {place + 1} of {len(invocations)}"
        yield Turn("turn", title, (), agent=one.agent_name if several else None, invocation_id=one.id)
        shown = replace(one, history=one.history if place == 0 else ())
        if one.system_instructions == told:
            shown = replace(shown, system_instructions=None)
        told = one.system_instructions if one.system_instructions is not None else told
        for step in _turns(shown, _gaps(one)):
            blocks = (replace(block, path=f"turns[{place}].{block.path}") for block in step.blocks)
            yield replace(step, blocks=tuple(blocks))


def texts(conversation: Sequence[Turn]) -> dict[str, str]:
    """Every text by its path: where evidence is looked for, and what a link to a whole text shows."""
    return {block.path: block.text for turn in conversation for block in turn.blocks if block.text is not None}


def as_html(conversation: Sequence[Turn], marks: Mapping[str, Sequence[Mark]]) -> list[ShownTurn]:
    """The conversation with evidence marked."""

    def one(block: Block) -> ShownBlock:
        return ShownBlock(block, None if block.text is None else shown(block.text, marks.get(block.path, ())))

    return [ShownTurn(turn, tuple(one(block) for block in turn.blocks)) for turn in conversation]


def _gaps(invocation: Invocation) -> Mapping[str, str]:
    done = invocation.completeness
    missing = dict.fromkeys(done.missing, GAPS["not_captured"])
    return missing | {path: GAPS[reason.value] for path, reason in done.capture.items()}


def _turns(invocation: Invocation, gaps: Mapping[str, str]) -> Iterator[Turn]:
    if invocation.system_instructions is not None:
        yield Turn("system", "Instructions", (_block("system_instructions", "", invocation.system_instructions, gaps),))
    for place, message in enumerate(invocation.history):
        yield _message(place, message, gaps)
    yield Turn("user", "User", (_block("user_input", "", invocation.user_input, gaps),))
    for place, call in enumerate(invocation.tool_calls):
        yield _call(place, call, gaps)
    if invocation.error is not None:
        yield Turn("error", "The run ended with an error", (_block("error", "", invocation.error, gaps),))
    if invocation.final_response is not None or invocation.error is None:
        name = invocation.agent_name or "Agent"
        yield Turn("assistant", name, (_block("final_response", "", invocation.final_response, gaps),))


def _block(path: str, label: str, value: Any, gaps: Mapping[str, str]) -> Block:
    gap = gaps.get(path)
    if value is None:
        return Block(path, label, None, gap=gap or GAPS["not_captured"])
    return Block(path, label, as_text(value), not isinstance(value, str), gap)


_SPEAKERS = {"system": "Instructions", "user": "User", "assistant": "Agent", "tool": "Tool"}


def _message(place: int, message: Message, gaps: Mapping[str, str]) -> Turn:
    kind = message.role if message.role in _SPEAKERS else "assistant"
    blocks = [
        _block(f"history[{place}].parts[{number}]", *_part(part), gaps) for number, part in enumerate(message.parts)
    ]
    return Turn(kind, _SPEAKERS.get(message.role, message.role), tuple(blocks), earlier=True)


def _part(part: Part) -> tuple[str, Any]:
    """Label and value of a message's part. What is no text, call or result is shown as it came."""
    match part:
        case {"type": "text", "content": str(content)}:
            return "", content
        case {"type": "tool_call", "name": str(name)}:
            return f"calls {name}", part.get("arguments")
        case {"type": "tool_call_response"}:
            return "result", part.get("response", part.get("result"))
    return str(part.get("type") or "part").replace("_", " "), {
        key: value for key, value in part.items() if key != "type"
    }


def _call(place: int, call: ToolCall, gaps: Mapping[str, str]) -> Turn:
    path = f"tool_calls[{place}]"
    blocks = [_block(f"{path}.arguments", "arguments", call.arguments, gaps)]
    if call.error is not None:
        blocks.append(_block(f"{path}.error", "error", call.error, gaps))
    if call.result is not None or call.error is None:
        if call.result is None and call.result_known:
            blocks.append(Block(f"{path}.result", "result", "null", True))
        else:
            blocks.append(_block(f"{path}.result", "result", call.result, gaps))
    seconds = (call.ended_at - call.started_at) / 1e9 if call.started_at and call.ended_at else None
    return Turn("tool", call.name, tuple(blocks), call.status.value, call.agent_name, seconds, place)
