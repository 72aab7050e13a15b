"""An invocation as the text that a judge reads: data between marked lines, never instructions. Pure.

Every line of structure carries a random mark that is made for this one call and taken out of the content, so no text of an agent, a
user or a tool can close a section or open one. Text is shown as it is, other values as JSON; nothing is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.model.invocation import Invocation, Message, ToolCall, ToolDefinition


@dataclass(frozen=True, slots=True)
class TranscriptLimits:
    """Characters shown at most; what is longer is cut in its middle. About four characters are a token."""

    text: int = 40_000
    tool_value: int = 8_000
    tool_values: int = 120_000
    message: int = 8_000
    messages: int = 60_000


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


def _steps(writer: _Writer, invocation: Invocation, bounds: TranscriptLimits, results: bool) -> None:
    """Tool calls in order with what they returned. Many share the room that there is."""
    calls = invocation.tool_calls
    if not calls:
        missing = "tool_calls" in invocation.completeness.missing
        writer.heading("tool calls: not recorded" if missing else "tool calls: none")
        return
    room = max(200, min(bounds.tool_value, bounds.tool_values // len(calls)))
    for index, call in enumerate(calls):
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
