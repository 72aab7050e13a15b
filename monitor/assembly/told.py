"""Message lists that grow from model call to model call: what was told before is read once.

An agent sends its whole history with every model call. What a list has in common with an earlier one of the trace is not read again, and the
messages are the same objects: where two lists have one in common, all before it is common too, so that later steps can tell by identity
what they have seen (`turns.goes_on`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from collectors.span import Attributes
from monitor.assembly.messages import listed_messages
from monitor.assembly.values import from_json
from monitor.model.invocation import Message

_REMEMBERED = 4
"""JSON texts that are looked back at: agents that talk at once have histories of their own."""

_SHORT = 256
"""Shorter texts are parsed in less time than it takes to compare them."""

Places = Sequence[tuple[tuple[str, ...], str]]
"""Where the values of a flattened item go: the path inside of it, and the attribute's key."""


class Told:
    """The message lists of one trace, as far as they were read: JSON texts, and lists that are flattened into attributes."""

    __slots__ = ("_lists", "_steps")

    def __init__(self) -> None:
        self._lists: list[tuple[str, str, tuple[Message, ...]]] = []
        self._steps: dict[tuple[object, ...], tuple[Message | None, tuple[Message, ...]]] = {}

    def messages(self, text: str, role: str) -> tuple[Message, ...] | None:
        """The messages in the JSON text of a list; None where it is no list of messages that each name their role."""
        if len(text) < _SHORT:
            return None
        for place, (head, of_role, known) in enumerate(self._lists):
            if of_role == role and text.startswith(head):
                rest = text[len(head) :].lstrip()
                more = () if rest == "]" else self._rest(rest, role)
                if more is not None:
                    del self._lists[place]
                    return self._keep(text, role, (*known, *more) if more else known)
        found = self._listed(text, role)
        return None if found is None else self._keep(text, role, found)

    def following(
        self,
        before: Message | None,
        places: Places,
        attributes: Attributes,
        read: Callable[[Attributes, Places], tuple[Message, ...]],
    ) -> tuple[Message, ...]:
        """What `read` makes of an item of a flattened list, after the message before it; read once where all values are texts."""
        said = [attributes[key] for _, key in places]
        if not all(isinstance(value, str) for value in said):
            return read(attributes, places)
        step = (id(before), places, *said)
        known = self._steps.get(step)
        if known is None:
            known = self._steps[step] = before, read(attributes, places)
        return known[1]

    def _rest(self, rest: str, role: str) -> tuple[Message, ...] | None:
        """What follows a list that was read; None where the text goes on in another way."""
        return self._listed("[" + rest[1:], role) if rest[:1] == "," else None

    def _listed(self, text: str, role: str) -> tuple[Message, ...] | None:
        decoded = from_json(text)
        if decoded is None or not isinstance(decoded[0], list):
            return None
        return listed_messages(decoded[0], role)

    def _keep(self, text: str, role: str, found: tuple[Message, ...]) -> tuple[Message, ...]:
        """Remember a list without its closing bracket, the newest first."""
        head = text.rstrip()
        if found and head.endswith("]"):
            self._lists.insert(0, (head[:-1].rstrip(), role, found))
            del self._lists[_REMEMBERED:]
        return found
