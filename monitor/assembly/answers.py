"""The final answer in what a span produced."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.assembly.facts import Field, Found
from monitor.assembly.messages import answers_in, calls_in, message_text, withheld_text
from monitor.assembly.tree import Node
from monitor.assembly.values import canonical
from monitor.model.invocation import Capture, Message


def final_text(messages: Sequence[Message]) -> str | None:
    """The text of the last message of a run, None where the run stopped at a tool call or a user's message."""
    if not messages:
        return None
    last = messages[-1]
    return message_text(last) if last.role not in ("user", "system", "tool") else None


def returned_text(messages: Sequence[Message]) -> str | None:
    """A tool's answer with which a run ended, where the framework gives it out as the run's answer."""
    if not messages or messages[-1].role != "tool":
        return None
    answers = answers_in(messages[-1:])
    if len(answers) != 1 or "response" not in answers[0]:
        return None
    response = answers[0]["response"]
    return response if isinstance(response, str) else canonical(response)


def model_text(messages: Sequence[Message], *, looped: bool = False) -> str | None:
    """A model's answer: the first choice's text, None where it asks for tools instead.

    `looped`: its span covers a loop of calls that were made, so that calls beside the text are no request.
    """
    if not messages:
        return None
    if any(message.role == "tool" for message in messages):
        return final_text(messages)  # a loop of calls inside one span
    spoken = [message for message in messages if message.role == "assistant"] or list(messages)
    if not looped and any(part.get("type") == "tool_call" for part in calls_in(spoken)):
        return None
    return next((text for message in spoken if (text := message_text(message)) is not None), None)


def answer_of(node: Node) -> Found | None:
    """The answer that an agent's span records: apart from messages, else the end of its output."""
    answer = node.facts.get(Field.ANSWER)
    if answer is not None and (answer.value or answer.capture):
        return answer
    output = node.facts.get(Field.OUTPUT)
    if output is None:
        return None
    text = final_text(output.value or ())
    if text is not None:
        return Found(text, output.source, output.convention, weak=output.weak)
    reason = (
        output.capture or withheld_text((output.value or ())[-1:]) or (None if output.value else Capture.NOT_CAPTURED)
    )
    return Found(None, output.source, output.convention, capture=reason) if reason is not None else None
