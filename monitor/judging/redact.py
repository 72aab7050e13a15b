"""Replacing what must not leave: each finding by a pseudonym such as `<EMAIL_1>`, the same one for the same value within an invocation.

So a judge can still see that two places speak of the same person. Names of tools, ids and numbers in JSON stay; keys and texts are searched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from monitor.judging.presidio import Finder, finder
from monitor.judging.recognisers import ORDER, RECOGNISERS, SECRET_KEYS, Recogniser
from monitor.model.conversation import conversation
from monitor.model.invocation import Invocation, Message, ToolCall, ToolDefinition
from monitor.settings.privacy import Redaction

_DIGIT = re.compile(r"\d")
_NEEDED = frozenset(word for recognisers in RECOGNISERS.values() for one in recognisers for word in one.needs)
_PSEUDONYM = re.compile(r"<[A-Z][A-Z_]*_\d+>")


@dataclass(slots=True)
class Redactor:
    """Redacts the texts of one invocation. `kinds` are those of `privacy.redact.kinds`; `finders` find what Presidio knows besides, in what
    those have left.
    """

    kinds: Collection[str]
    finders: Sequence[Finder] = ()
    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def text(self, text: str) -> str:
        """The text with every finding replaced."""
        folded, digits = text.casefold(), _DIGIT.search(text) is not None
        present = {word for word in _NEEDED if word in folded}
        for kind in ORDER:
            if kind in self.kinds and (present or digits):
                for recogniser in RECOGNISERS[kind]:
                    if recogniser.needs_digit and not digits:
                        continue
                    if recogniser.needs and present.isdisjoint(recogniser.needs):
                        continue
                    text = recogniser.pattern.sub(lambda match, by=recogniser: self._replacement(match, by), text)  # type: ignore[misc]
        for find in self.finders:
            text = self._found_by(find, text)
        return text

    def _found_by(self, find: Finder, text: str) -> str:
        """The text with the findings replaced, but for those that touch a pseudonym."""
        if not text.strip():
            return text
        taken = [match.span() for match in _PSEUDONYM.finditer(text)]
        parts, at = list[str](), 0
        for one in find(text):
            if not any(start < one.end and one.start < end for start, end in taken):
                parts += [text[at : one.start], self._pseudonym(one.entity, text[one.start : one.end].casefold())]
                at = one.end
        return "".join([*parts, text[at:]])

    def _replacement(self, match: re.Match[str], recogniser: Recogniser) -> str:
        whole = match[0]
        value = match.groupdict().get("value") or whole
        if not recogniser.check(value):
            return whole
        name = self._pseudonym(recogniser.kind, recogniser.same(value))
        return name if value == whole else whole.replace(value, name)

    def _pseudonym(self, kind: str, same: str) -> str:
        if (kind, same) not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[kind, same] = f"<{kind.upper()}_{self._counts[kind]}>"
        return self._names[kind, same]

    def value(self, value: Any) -> Any:
        """A JSON value with every text in it redacted, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                self.text(key) if isinstance(key, str) else key: self._entry(key, item) for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.value(item) for item in value]
        return value

    def _entry(self, key: Any, item: Any) -> Any:
        secret = "secret" in self.kinds and isinstance(key, str) and SECRET_KEYS.match(key)
        return self._pseudonym("secret", item) if secret and isinstance(item, str) and item else self.value(item)

    def optional(self, text: str | None) -> str | None:
        """The text redacted; None stays None."""
        return None if text is None else self.text(text)


def redacted(invocation: Invocation, redaction: Redaction) -> Invocation:
    """The invocation with all its content redacted; ids, names, times and figures stay. The same object when there is nothing to replace.
    Slow with Presidio: call it from a thread then.
    """
    if not redaction:
        return invocation
    redactor = Redactor(frozenset(redaction.kinds), tuple(finder(one) for one in redaction.presidio))
    if invocation.turns:  # one redactor for all of them: a pseudonym is the same in every turn
        turns = [_redacted(redactor, turn) for turn in invocation.turns]
        return conversation(turns, invocation.id, invocation.revision)
    return _redacted(redactor, invocation)


def _redacted(redactor: Redactor, invocation: Invocation) -> Invocation:
    return replace(
        invocation,
        system_instructions=redactor.optional(invocation.system_instructions),
        history=tuple(
            Message(message.role, tuple(redactor.value(part) for part in message.parts))
            for message in invocation.history
        ),
        user_input=redactor.optional(invocation.user_input),
        tool_definitions=tuple(
            ToolDefinition(tool.name, redactor.optional(tool.description), redactor.value(tool.parameters))
            for tool in invocation.tool_definitions
        ),
        tool_calls=tuple(_call(redactor, call) for call in invocation.tool_calls),
        final_response=redactor.optional(invocation.final_response),
        error=redactor.optional(invocation.error),
        attributes=redactor.value(invocation.attributes),
    )


def _call(redactor: Redactor, call: ToolCall) -> ToolCall:
    return replace(
        call,
        arguments=redactor.value(call.arguments),
        result=redactor.value(call.result),
        error=redactor.optional(call.error),
    )
