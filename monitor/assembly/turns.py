"""Where one user turn ends and the next begins, by the messages alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from monitor.assembly.facts import Field, value
from monitor.assembly.messages import message_text, withheld_text
from monitor.assembly.neighbourhood import Unit
from monitor.model.invocation import Capture, Message


@dataclass(frozen=True, slots=True)
class Given:
    """What a run was given: history, the user's own messages after it, and what followed them already."""

    history: tuple[Message, ...] = ()
    asked: tuple[Message, ...] = ()
    after: tuple[Message, ...] = ()

    @property
    def text(self) -> str | None:
        """The user's input as text, None where none is recorded."""
        texts = [text for message in self.asked if (text := message_text(message)) is not None]
        return "\n\n".join(texts) if texts else None

    @property
    def capture(self) -> Capture | None:
        """Why the text is not whole, None where it is."""
        return withheld_text(self.asked)


def given(messages: Sequence[Message]) -> Given:
    """Split a message list at its last run of user messages that is neither a tool's answer nor put in by a framework."""
    kept = [message for message in messages if message.role != "system" and not _injected(message)]
    last = next((i for i in range(len(kept) - 1, -1, -1) if kept[i].role == "user"), None)
    if last is None:
        return Given(history=tuple(kept))
    first = last
    while first > 0 and kept[first - 1].role == "user":
        first -= 1
    return Given(tuple(kept[:first]), tuple(kept[first : last + 1]), tuple(kept[last + 1 :]))


def _injected(message: Message) -> bool:
    """A user message that a framework wrote: ADK's replay of other agents, system reminders, compacted history."""
    if message.role != "user":
        return False
    texts = [part for part in message.parts if part.get("type") == "text"]
    if not texts:
        return bool(message.parts) and all(part.get("type") == "compaction" for part in message.parts)
    first = str(texts[0].get("content") or "").lstrip()
    return first.startswith(("For context:", "<system-reminder>"))


def split_turns(models: Sequence[Unit]) -> list[list[Unit]]:
    """Model calls without an agent around them, one list per user turn.

    A new turn begins where a call's input ends with a new user message and its history holds the previous turn's answer.
    """
    turns: list[list[Unit]] = []
    answers: set[str] = set()
    for unit in models:
        parts = given(value(unit.node.facts, Field.INPUT) or ())
        said = {
            text.strip() for message in parts.history if message.role == "assistant" and (text := message_text(message))
        }
        if not turns or (parts.asked and not parts.after and answers & said):
            turns.append([])
            answers = set()
        turns[-1].append(unit)
        answers |= {
            text.strip() for message in value(unit.node.facts, Field.OUTPUT) or () if (text := message_text(message))
        }
    return turns


def goes_on(before: Sequence[Message], messages: Sequence[Message]) -> bool:
    """Whether a list begins with another one, told by identity: lists that do are read so that they share their messages (`told`)."""
    return bool(before) and len(messages) >= len(before) and messages[len(before) - 1] is before[-1]
