"""What is known of tool calls: asked for by models, run by tool spans, answered in later messages (reference: conventions, section 8.5)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from monitor.assembly.facts import Field, value
from monitor.assembly.messages import ANSWERS, answers_in, calls_in
from monitor.assembly.neighbourhood import Unit
from monitor.assembly.scopes import Scope
from monitor.assembly.turns import given, goes_on
from monitor.assembly.units import fact_of, unit_messages
from monitor.assembly.values import canonical
from monitor.model.invocation import Message, Part


@dataclass(slots=True, eq=False)
class Call:
    """A tool call while its evidence comes together: the request, the span, the answer."""

    scope: Scope
    order: tuple[int, int, int]
    """Start of the asking model call, place in its answer, tie-break."""
    request: Part | None = None
    source: str = ""
    unit: Unit | None = None
    answer: Part | None = None

    @property
    def id(self) -> str | None:
        """The call id, where one is recorded."""
        if self.request is not None and self.request.get("id"):
            return str(self.request["id"])
        return fact_of(self.unit, Field.CALL_ID).value if self.unit else None

    @property
    def name(self) -> str | None:
        """The tool's name: the span's, else the request's."""
        found = fact_of(self.unit, Field.TOOL_NAME)
        asked = self.request.get("name") if self.request else None
        answered = self.answer.get("name") if self.answer else None
        if found.value and not (found.weak and asked):
            return str(found.value)
        return asked or answered


@dataclass(slots=True)
class Evidence:
    """What has been seen of calls in one invocation.

    `old` ids and `old_meanings` are calls of earlier turns, told in the history; `nameless` calls were asked for without an id.
    """

    calls: list[Call] = field(default_factory=list)
    by_id: dict[str, Call] = field(default_factory=dict)
    old: set[str] = field(default_factory=set)
    old_meanings: dict[str, int] = field(default_factory=dict)
    nameless: dict[str, list[Call]] = field(default_factory=dict)
    by_scope: dict[int, list[Call]] = field(default_factory=dict)

    def add(self, call: Call) -> None:
        """Take a call in, under its id and under what it asks for."""
        self.calls.append(call)
        self.by_scope.setdefault(id(call.scope), []).append(call)
        if call.id:
            self.by_id[call.id] = call
        elif call.request is not None:
            self.nameless.setdefault(_meaning(call.request), []).append(call)


def gather(main: Scope) -> Evidence:
    """All that an invocation tells of its tool calls."""
    evidence = Evidence()
    scopes, carriers = main.all(), main.carriers()
    for scope in scopes:
        _requested(scope, evidence, first=scope is carriers[-1])
    if not any(scope.models for scope in scopes):
        _told(carriers, evidence)
    for scope in scopes:
        _ran(scope, evidence)
    if evidence.calls:
        _answered(scopes, carriers[-1], evidence)
    return evidence


def _requested(scope: Scope, evidence: Evidence, *, first: bool) -> None:
    """Calls that models asked for: in their outputs, and in later inputs where an output was not recorded."""
    known: dict[str, int] = {}
    past = _Past()
    for number, unit in enumerate(scope.models):
        inputs, outputs = unit_messages(unit, Field.INPUT), unit_messages(unit, Field.OUTPUT)
        if number == 0:
            split = given(inputs)
            _note(split.history if first else inputs, known, evidence)
            if first:
                _take(split.after, scope, unit, evidence, known, before=True)
        else:
            _take_missing(past.new_in(inputs), scope, unit, evidence, known, past.seen)
        _take(outputs, scope, unit, evidence, known, before=False)


@dataclass(slots=True)
class _Past:
    """The message list of an agent's model call before, and how often it holds each nameless call, by meaning."""

    messages: Sequence[Message] = ()
    seen: dict[str, int] = field(default_factory=dict)

    def new_in(self, messages: Sequence[Message]) -> Sequence[Message]:
        """What a list has beyond the one before, where it begins with that; else all of it."""
        before, self.messages = self.messages, messages
        if goes_on(before, messages):
            return messages[len(before) :]
        self.seen = {}
        return messages


def _told(carriers: Sequence[Scope], evidence: Evidence) -> None:
    """Calls that only the agent's own record of the run tells of, where no model call is recorded: of the one that ran tools, if any did."""
    worked = carriers[-1] if carriers[-1].tools else None
    for scope in carriers:
        for node in scope.frames:
            messages = value(node.facts, Field.OUTPUT) or ()
            asked = calls_in(given(messages).after or messages)
            for place, part in enumerate(asked):
                _add(part, worked or scope, (node.start, place, 0), "output", evidence)
            if asked:
                return


def _note(messages: Sequence[Message], known: dict[str, int], evidence: Evidence) -> None:
    for part in calls_in(messages):
        if part.get("id"):
            evidence.old.add(str(part["id"]))
        meaning = _meaning(part)
        evidence.old_meanings[meaning] = known[meaning] = known.get(meaning, 0) + 1


def _take(
    messages: Sequence[Message], scope: Scope, unit: Unit, evidence: Evidence, known: dict[str, int], *, before: bool
) -> None:
    start = unit.node.start
    for place, part in enumerate(calls_in(messages)):
        meaning = _meaning(part)
        known[meaning] = known.get(meaning, 0) + 1
        _add(part, scope, (start, -1 if before else 0, place), "input" if before else "output", evidence)


def _take_missing(
    messages: Sequence[Message],
    scope: Scope,
    unit: Unit,
    evidence: Evidence,
    known: dict[str, int],
    seen: dict[str, int],
) -> None:
    """Calls in a later input that no output told of; without ids they are counted by meaning."""
    for place, part in enumerate(calls_in(messages)):
        meaning = _meaning(part)
        seen[meaning] = seen.get(meaning, 0) + 1
        identifier = part.get("id")
        if identifier and (identifier in evidence.by_id or identifier in evidence.old):
            continue
        if seen[meaning] <= known.get(meaning, 0):
            if identifier:
                _name_call(part, scope, evidence)
            continue
        known[meaning] = seen[meaning]
        _add(part, scope, (unit.node.start, -1, place), "input", evidence)


def _name_call(part: Part, scope: Scope, evidence: Evidence) -> None:
    """A call that was asked for without an id gets the one that a later input tells."""
    meaning = _meaning(part)
    for call in evidence.nameless.get(meaning, ()):
        if call.scope is scope:
            evidence.nameless[meaning].remove(call)
            call.request = part
            evidence.by_id[part["id"]] = call
            return


def _add(part: Part, scope: Scope, order: tuple[int, int, int], source: str, evidence: Evidence) -> None:
    identifier = part.get("id")
    if identifier and (identifier in evidence.by_id or identifier in evidence.old):
        known = evidence.by_id.get(identifier)
        if known is not None and known.request is not None and "arguments" not in known.request:
            known.request = part
        return
    evidence.add(Call(scope, order, part, source, answer=_own_answer(part)))


def _own_answer(part: Part) -> Part | None:
    """The answer that a tool run by the provider carries itself."""
    return {**part, "type": "tool_call_response"} if "response" in part else None


def _meaning(part: Part) -> str:
    return canonical([part.get("name"), part.get("arguments")])


def _ran(scope: Scope, evidence: Evidence) -> None:
    """Pair tool spans with requests: by id, by equal arguments, then by name in order; what is left is a call of its own."""
    waiting: list[Unit] = []
    for unit in scope.tools:
        identifier = fact_of(unit, Field.CALL_ID).value
        call = evidence.by_id.get(identifier) if identifier else None
        if call is None or call.unit is not None:
            waiting.append(unit)
        else:
            call.unit = unit
    own = evidence.by_scope.get(id(scope), ())
    open_calls = [call for call in own if call.unit is None and call.request is not None]
    if waiting and open_calls:
        waiting = _pair(waiting, open_calls, _same_meaning)
        waiting = _pair(waiting, open_calls, _same_name)
    if not waiting:
        return
    asked_at = [unit.node.start for unit in scope.models]
    for unit in waiting:
        place = bisect_right(asked_at, unit.node.start)
        start = asked_at[place - 1] if place else unit.node.start
        evidence.add(Call(scope, (start, 1, unit.node.start), source="span", unit=unit))


def _pair(units: list[Unit], calls: list[Call], key: Any) -> list[Unit]:
    """Give each unit the first open call of equal key that was asked for before it started; returns the units left over."""
    offered: dict[Any, list[Call]] = {}
    for call in reversed(calls):
        if call.unit is None:
            offered.setdefault(key(call.request, None), []).append(call)
    left: list[Unit] = []
    for unit in units:
        waiting = offered.get(key(None, unit))
        identifier = fact_of(unit, Field.CALL_ID)
        if waiting and not (
            identifier.value and not identifier.weak and waiting[-1].id and waiting[-1].id != identifier.value
        ):
            waiting.pop().unit = unit
        else:
            left.append(unit)
    return left


def _same_meaning(request: Part | None, unit: Unit | None) -> str:
    if request is not None:
        return _meaning(request)
    return canonical([fact_of(unit, Field.TOOL_NAME).value, fact_of(unit, Field.ARGUMENTS).value])


def _same_name(request: Part | None, unit: Unit | None) -> Any:
    return request.get("name") if request is not None else fact_of(unit, Field.TOOL_NAME).value


def _answered(scopes: Sequence[Scope], earliest: Scope, evidence: Evidence) -> None:
    """Give calls the answers that later messages hold: by id, else by place in the message list."""
    for scope in scopes:
        own = sorted(evidence.by_scope.get(id(scope), ()), key=lambda call: call.order)
        by_meaning: dict[str, list[Call]] = {}
        settled: Sequence[Message] = ()
        for messages, now in _answering(scope, first=scope is earliest):
            if not _any_unknown(messages[len(settled) :] if goes_on(settled, messages) else messages, evidence):
                settled = messages if len(messages) > len(settled) else settled
                continue
            if not by_meaning:
                by_meaning = _by_meaning(own)
            _answer_the_rest(messages, now, own, by_meaning, evidence)


def _any_unknown(messages: Sequence[Message], evidence: Evidence) -> bool:
    """Give calls the answers that name them; whether there is an answer that names no call that is known."""
    unknown = False
    for message in messages:
        for part in message.parts:
            if part.get("type") in ANSWERS and not _answer_by_id(part, evidence):
                unknown = True
    return unknown


def _by_meaning(own: Sequence[Call]) -> dict[str, list[Call]]:
    found: dict[str, list[Call]] = {}
    for call in own:
        if call.request is not None:
            found.setdefault(_meaning(call.request), []).append(call)
    return found


def _answer_the_rest(
    messages: Sequence[Message], now: int, own: Sequence[Call], by_meaning: dict[str, list[Call]], evidence: Evidence
) -> None:
    """Give calls the answers of a list that name none: by their place among the calls told beside them, else from the end."""
    loose: list[Message] = []
    asked = False
    for message in messages:
        unknown = [part for part in answers_in([message]) if not _answer_by_id(part, evidence)]
        calls = calls_in([message])
        asked = asked or bool(calls)
        if unknown or calls:
            loose.append(Message(message.role, tuple(calls + unknown)))
    if asked:
        _answer_by_place(loose, by_meaning, evidence)
    else:
        answers = answers_in(loose)
        made = bisect_left(own, now, key=lambda call: call.order[0])
        _answer_from_the_end(answers, own[max(0, made - len(answers)) : made])


def _answer_from_the_end(answers: Sequence[Part], calls: Sequence[Call]) -> None:
    """Where calls are left out of the list, the last answers belong to the last calls so far."""
    for part, call in zip(reversed(answers), reversed(calls), strict=False):
        if call.answer is None and part.get("name") in (None, call.name):
            call.answer = part


def _answer_by_id(part: Part, evidence: Evidence) -> bool:
    identifier = part.get("id")
    if not identifier or (identifier not in evidence.by_id and identifier not in evidence.old):
        return False
    call = evidence.by_id.get(identifier)
    if call is not None and (call.answer is None or "response" not in call.answer):
        call.answer = part
    return True


def _answer_by_place(messages: Sequence[Message], by_meaning: dict[str, list[Call]], evidence: Evidence) -> None:
    """An answer without a known id goes to the first call before it that has none, of its name where it has one."""
    waiting: list[tuple[Part, int]] = []
    seen: dict[str, int] = {}
    for message in messages:
        for part in message.parts:
            if part.get("type") in ("tool_call", "server_tool_call"):
                meaning = _meaning(part)
                waiting.append((part, seen.get(meaning, 0)))
                seen[meaning] = seen.get(meaning, 0) + 1
                continue
            name = part.get("name")
            at = next((i for i, (asked, _) in enumerate(waiting) if not name or asked.get("name") == name), None)
            if at is None:
                continue
            asked, number = waiting.pop(at)
            calls = by_meaning.get(_meaning(asked), [])
            number -= evidence.old_meanings.get(_meaning(asked), 0)
            if 0 <= number < len(calls) and calls[number].answer is None:
                calls[number].answer = part


def _answering(scope: Scope, *, first: bool) -> Iterator[tuple[Sequence[Message], int]]:
    """Message lists that may hold answers, each with the time until which calls can have been made."""
    for number, unit in enumerate(scope.models):
        inputs = unit_messages(unit, Field.INPUT)
        if number:
            yield inputs, unit.node.start
        elif first:
            yield given(inputs).after, unit.node.start
        yield unit_messages(unit, Field.OUTPUT), unit.node.end + 1
    for node in scope.chain:
        yield value(node.facts, Field.OUTPUT) or (), node.end + 1
    for node in scope.submitted:
        yield value(node.facts, Field.INPUT) or (), node.start
