"""An invocation as the text that a judge reads: data between marked lines, never instructions. Pure.

Every line of structure carries a random mark that is made for this one call and taken out of the content, so no text of an agent, a
user or a tool can close a section or open one. Text is shown as it is, other values as JSON; nothing is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from monitor.judging.room import fair_share, kept_ends
from monitor.model.invocation import Invocation, Message, ToolCall, ToolDefinition


@dataclass(frozen=True, slots=True)
class TranscriptLimits:
    """Characters shown at most; what is longer is cut in its middle. About four characters are a token."""

    text: int = 40_000
    tool_value: int = 8_000
    tool_values: int = 120_000
    message: int = 8_000
    messages: int = 60_000
    turns: int = 240_000
    turn: int = 1_500
    """All turns of a conversation together, and the room below which a turn is left out rather than cut further."""

    def within(self, room: int) -> TranscriptLimits:
        """The limits of one turn that is to fit into so much room: a quarter each for the request and the answer, a half for what tools say."""
        return replace(
            self,
            text=min(self.text, room // 4),
            tool_value=min(self.tool_value, room // 4),
            tool_values=min(self.tool_values, room // 2),
        )

    @property
    def most_calls(self) -> int:
        """How many tool calls of a turn are shown at most."""
        return max(2, self.tool_values // 400)


@dataclass(frozen=True, slots=True)
class Transcript:
    """The text, and which fields of the invocation were cut."""

    text: str
    truncated: tuple[str, ...] = ()


@dataclass(slots=True)
class _Writer:
    """Collects lines and remembers what was cut."""

    mark: str
    lines: list[str] = field(default_factory=list)
    truncated: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A line of structure."""
        self.lines.append(f"=== {self.mark} {self.clean(text)} ===")

    def clean(self, text: str) -> str:
        """Content without the mark."""
        while self.mark in text:
            text = text.replace(self.mark, "")
        return text

    def content(self, value: Any, path: str, limit: int) -> None:
        """A value, cut where it is longer than the limit."""
        text = self.clean(shown(value))
        cut = cut_middle(text, limit)
        if cut is not text:
            self.truncated.append(path)
        self.lines.append(cut)

    @property
    def size(self) -> int:
        """Characters, line ends included."""
        return sum(len(line) + 1 for line in self.lines)

    def section(self, heading: str, value: Any, path: str, limit: int) -> None:
        """A heading with its content."""
        self.heading(heading)
        self.content(value, path, limit)


def shown(value: Any) -> str:
    """Text as it is, other values as JSON with non-ASCII characters as they are."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def cut_middle(text: str, limit: int) -> str:
    """The text, or its beginning and end with a mark that says how much is left out between them."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    return f"{text[:head]}\n[… {len(text) - limit} characters left out …]\n{text[-tail:]}"


@dataclass(frozen=True, slots=True)
class View:
    """What a rubric wants a judge to see: `about` tool_use leaves the final answer out, `hide` other parts; `context` adds sections,
    `sentences` are the pieces of the final answer, shown one by one.
    """

    about: str = "final_response"
    hide: Collection[str] = ()
    context: Mapping[str, str] = field(default_factory=dict)
    sentences: Sequence[str] = ()

    def shows(self, part: str) -> bool:
        """Whether a part of the record is shown."""
        return part not in self.hide and not (part == "final_response" and self.about == "tool_use")


def transcript(
    invocation: Invocation, mark: str, view: View | str = "final_response", limits: TranscriptLimits | None = None
) -> Transcript:
    """The invocation for a judge. `mark` is random for each call; `view` may be just what the rubric is about."""
    bounds, seen = limits or TranscriptLimits(), View(view) if isinstance(view, str) else view
    writer = _Writer(mark)
    if invocation.turns:
        _conversation(writer, invocation, seen, bounds)
        return Transcript("\n".join(writer.lines), tuple(writer.truncated))
    writer.heading("record begins")
    if invocation.system_instructions and seen.shows("system_instructions"):
        writer.section("instructions of the agent", invocation.system_instructions, "system_instructions", bounds.text)
    if invocation.tool_definitions and seen.shows("tool_definitions"):
        _tools(writer, invocation.tool_definitions, bounds)
    if seen.shows("history"):
        _history(writer, invocation.history, bounds)
    if seen.shows("user_input"):
        writer.section("request of the user", invocation.user_input or "(not recorded)", "user_input", bounds.text)
    if seen.shows("tool_calls"):
        _steps(writer, invocation, bounds, seen.shows("tool_results"))
    for name, text in seen.context.items():
        writer.section(f"context: {name}", text, f"context.{name}", bounds.text)
    if seen.shows("final_response"):
        _answer(writer, invocation, seen.sentences, bounds)
    if invocation.error is not None:
        writer.section("the run ended with an error", invocation.error, "error", bounds.tool_value)
    writer.heading("record ends")
    return Transcript("\n".join(writer.lines), tuple(writer.truncated))


def _conversation(writer: _Writer, invocation: Invocation, seen: View, bounds: TranscriptLimits) -> None:
    """All turns of a conversation; what is too long is cut in turns that are longer than their share, and very many turns in their middle."""
    turns = invocation.turns
    writer.heading("record begins")
    if turns[0].system_instructions and seen.shows("system_instructions"):
        writer.section("instructions of the agent", turns[0].system_instructions, "system_instructions", bounds.text)
    if invocation.tool_definitions and seen.shows("tool_definitions"):
        _tools(writer, invocation.tool_definitions, bounds)
    if seen.shows("history"):
        _history(writer, turns[0].history, bounds)
    if "turns" in invocation.completeness.capture:
        writer.truncated.append("turns")
        writer.heading("earlier turns are left out: they are not kept any more")
    first, last = kept_ends(len(turns), bounds.turns // bounds.turn)
    shown = [*range(first), *range(len(turns) - last, len(turns))]
    pieces = {place: _turn(writer.mark, turns, place, seen, bounds) for place in shown}
    share = fair_share([piece.size for piece in pieces.values()], bounds.turns)
    for place in shown:
        if place == len(turns) - last and len(shown) < len(turns):
            writer.truncated.append("turns")
            writer.heading(f"turns {first + 1} to {place} are left out")
        piece = pieces[place]
        if piece.size > share:
            piece = _turn(writer.mark, turns, place, seen, bounds.within(share))
        writer.lines += piece.lines
        writer.truncated += [f"turns[{place}].{path}" for path in piece.truncated]
    for name, text in seen.context.items():
        writer.section(f"context: {name}", text, f"context.{name}", bounds.text)
    writer.heading("record ends")


def _turn(mark: str, turns: Sequence[Invocation], place: int, seen: View, bounds: TranscriptLimits) -> _Writer:
    """One turn: the request, the tool calls, the answer. Who answers is said where several agents do."""
    turn, writer, is_last = turns[place], _Writer(mark), place == len(turns) - 1
    names = {one.agent_name for one in turns}
    by = f", agent {turn.agent_name}" if len(names) > 1 and turn.agent_name else ""
    writer.heading(f"turn {place + 1} of {len(turns)}{by}")
    before = turns[place - 1].system_instructions if place else turn.system_instructions
    if turn.system_instructions not in (None, before) and seen.shows("system_instructions"):
        limit = min(bounds.message, bounds.text)
        writer.section("instructions, changed", turn.system_instructions, "system_instructions", limit)
    if seen.shows("user_input"):
        writer.section("request of the user", turn.user_input or "(not recorded)", "user_input", bounds.text)
    if seen.shows("tool_calls"):
        _steps(writer, turn, bounds, seen.shows("tool_results"), bounds.most_calls)
    if is_last and seen.shows("final_response"):
        _answer(writer, turn, seen.sentences, bounds)
    elif not is_last and "final_response" not in seen.hide:
        answer = turn.final_response if turn.final_response is not None else "(none)"
        writer.section("answer of the agent", answer, "final_response", bounds.text)
    if turn.error is not None:
        writer.section("the turn ended with an error", turn.error, "error", bounds.tool_value)
    return writer


def _tools(writer: _Writer, definitions: Sequence[ToolDefinition], bounds: TranscriptLimits) -> None:
    writer.heading("tools that the agent was offered")
    for index, tool in enumerate(definitions):
        offered = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        known = {key: value for key, value in offered.items() if value is not None}
        writer.content(known, f"tool_definitions[{index}]", bounds.tool_value)


def _answer(writer: _Writer, invocation: Invocation, sentences: Sequence[str], bounds: TranscriptLimits) -> None:
    """The answer as one text, or piece by piece where a rubric judges its sentences."""
    if not sentences:
        answer = invocation.final_response if invocation.final_response is not None else "(none)"
        writer.section("final answer of the agent", answer, "final_response", bounds.text)
        return
    writer.heading("final answer of the agent, in numbered pieces")
    for index, text in enumerate(sentences, start=1):
        writer.section(f"piece s{index}", text, "final_response", bounds.text // len(sentences))


def _history(writer: _Writer, messages: Sequence[Message], bounds: TranscriptLimits) -> None:
    """Earlier messages; of very many only the latest."""
    left, first = bounds.messages, len(messages)
    while first and left > 0:
        first -= 1
        left -= min(bounds.message, sum(len(part) for part in _parts(messages[first])))
    if first:
        writer.truncated.append("history")
        writer.heading(f"{first} earlier messages are left out")
    for index in range(first, len(messages)):
        writer.heading(f"earlier message {index + 1}, {messages[index].role}")
        writer.content("\n".join(_parts(messages[index])), f"history[{index}]", bounds.message)


def _parts(message: Message) -> Iterator[str]:
    for part in message.parts:
        content = part.get("content")
        yield content if part.get("type") == "text" and isinstance(content, str) else shown(dict(part))


def _steps(
    writer: _Writer, invocation: Invocation, bounds: TranscriptLimits, results: bool, most: int | None = None
) -> None:
    """Tool calls in order with what they returned. Many share the room that there is; of more than `most` the first and the last are shown."""
    calls = invocation.tool_calls
    if not calls:
        missing = "tool_calls" in invocation.completeness.missing
        writer.heading("tool calls: not recorded" if missing else "tool calls: none")
        return
    first, last = kept_ends(len(calls), most or len(calls))
    room = max(200, min(bounds.tool_value, bounds.tool_values // (first + last)))
    for index, call in enumerate(calls):
        if first <= index < len(calls) - last:
            if index == first:
                writer.truncated.append("tool_calls")
                writer.heading(f"tool calls {first + 1} to {len(calls) - last} are left out")
            continue
        by = f" by {call.agent_name}" if call.agent_name else ""
        writer.heading(f"tool call {index + 1}{by}: {call.name}, status {call.status.value}")
        _call(writer, call, f"tool_calls[{index}]", invocation, room, results)


def _call(writer: _Writer, call: ToolCall, path: str, invocation: Invocation, room: int, results: bool) -> None:
    capture = invocation.completeness.capture
    writer.heading("arguments")
    arguments = capture.get(f"{path}.arguments")
    writer.content(
        f"({arguments.value})" if arguments and call.arguments is None else call.arguments, f"{path}.arguments", room
    )
    if not results:
        return
    if call.error is not None:
        writer.section("error", call.error, f"{path}.error", room)
    if call.result_known:
        writer.section("result", call.result, f"{path}.result", room)
    elif call.error is None:
        result = capture.get(f"{path}.result")
        writer.section("result", f"({result.value})" if result else "(not recorded)", f"{path}.result", room)
