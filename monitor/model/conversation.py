"""A conversation: the invocations of one service and environment that share a conversation id, in the order in which they began. Pure.

A conversation is given as one invocation whose `turns` are its own. It reads like one long run: asked by its first turn, answered by its last,
with the tool calls, tokens and model calls of all of them. Agent, version, model, end, trace and span are its last turn's (contract section 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import dropwhile

from monitor.model.invocation import Capture, Completeness, Invocation, SettledBy, ToolDefinition

PREFIX = "conversation:"
_WEAKEST = (SettledBy.MAX_AGE, SettledBy.IDLE, SettledBy.END_MARKER, SettledBy.ROOT_ENDED)
_OF_THE_FIRST = frozenset({"user_input", "history"})
_OF_THE_LAST = frozenset({"final_response", "error"})
_ONE_IS_ENOUGH = frozenset(
    {"system_instructions", "tool_definitions", "agent_name", "agent_version", "environment", "model"}
)

_CALL = re.compile(r"tool_calls\[(\d+)\]")

ConversationKey = tuple[str, str, str]
"""Conversation id, service and environment, the empty text where one of the latter is not known."""


def is_conversation(invocation_id: str) -> bool:
    """Whether an invocation's id is that of a conversation; all others begin with a trace id."""
    return invocation_id.startswith(PREFIX)


def conversation_key(invocation: Invocation) -> ConversationKey | None:
    """What invocations of one conversation have in common; None without a conversation id.

    Ids are unique within an application at best (a counter, a user's name): the same id in another service or environment is another conversation.
    Agents of one service may hand a conversation over to each other, so the agent's name is no part of it.
    """
    if invocation.conversation_id is None:
        return None
    return invocation.conversation_id, invocation.service or "", invocation.environment or ""


def conversation_name(key: ConversationKey, *, taken: bool = False) -> str:
    """The id of a conversation among invocations; `taken`: another service or environment has that of the plain conversation id."""
    plain = f"{PREFIX}{key[0]}"
    return f"{plain}@{sha256(chr(0).join(key).encode(errors='replace')).hexdigest()[:8]}" if taken else plain


def turn_order(invocation: Invocation) -> tuple[int, str]:
    """Turns are in the order in which they began."""
    return invocation.started_at, invocation.id


def weakest(settled_by: Iterable[SettledBy]) -> SettledBy:
    """How a conversation settled: as its least complete turn."""
    return min(settled_by, key=_WEAKEST.index)


def conversations(invocations: Iterable[Invocation]) -> list[Invocation]:
    """All conversations of invocations that have a conversation id, whatever their order; by start, then id."""
    groups: dict[ConversationKey, list[Invocation]] = {}
    for invocation in sorted(invocations, key=turn_order):
        key = conversation_key(invocation)
        if key is not None:
            groups.setdefault(key, []).append(invocation)
    names: set[str] = set()
    found = []
    for key, turns in groups.items():
        name = conversation_name(key, taken=conversation_name(key) in names)
        names.add(name)
        found.append(conversation(turns, name))
    return sorted(found, key=turn_order)


def conversation(turns: Sequence[Invocation], name: str, revision: int = 1) -> Invocation:
    """The conversation of turns, one at least, in their order.

    Turns at its beginning whose content was erased are left out, which `capture` says of `turns`: a conversation may go on for longer than content
    is kept. One that was erased behind them stays, and a rubric that needs what was said there cannot judge. Only the first turn keeps its history:
    that of the others repeats the turns before them, and all of them together grow with the square of their number.
    """
    kept = tuple(dropwhile(_is_erased, turns)) or tuple(turns)
    whole = _conversation(kept, name, revision)
    if len(kept) == len(turns):
        return whole
    done = whole.completeness
    return replace(whole, completeness=replace(done, capture={"turns": Capture.REDACTED, **done.capture}))


def _is_erased(turn: Invocation) -> bool:
    """Whether nothing is left of what was said: neither request nor answer, though there was one."""
    capture = turn.completeness.capture
    said = turn.user_input is not None or turn.final_response is not None
    return not said and Capture.REDACTED in (capture.get("user_input"), capture.get("final_response"))


def _conversation(turns: Sequence[Invocation], name: str, revision: int) -> Invocation:
    first, last = turns[0], turns[-1]
    instructions = [turn.system_instructions for turn in turns if turn.system_instructions is not None]
    return replace(
        last,
        id=name,
        parent_id=None,
        started_at=first.started_at,
        revision=revision,
        system_instructions=instructions[-1] if instructions else None,
        user_input=first.user_input,
        history=first.history,
        tool_definitions=_offered(turns),
        tool_calls=tuple(call for turn in turns for call in turn.tool_calls),
        model_calls=sum(turn.model_calls for turn in turns),
        input_tokens=_sum(turn.input_tokens for turn in turns),
        output_tokens=_sum(turn.output_tokens for turn in turns),
        attributes={key: value for turn in turns for key, value in turn.attributes.items()},
        inclusion_probability=min(turn.inclusion_probability for turn in turns),
        completeness=_completeness(turns),
        turns=(first, *(replace(turn, history=()) for turn in turns[1:])),
    )


def _offered(turns: Sequence[Invocation]) -> tuple[ToolDefinition, ...]:
    """Every tool that any turn was offered, as it was defined last."""
    return tuple({tool.name: tool for turn in turns for tool in turn.tool_definitions}.values())


def _sum(counts: Iterable[int | None]) -> int | None:
    """The sum; unknown as soon as one of them is."""
    found = list(counts)
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


def _completeness(turns: Sequence[Invocation]) -> Completeness:
    return Completeness(
        weakest(turn.completeness.settled_by for turn in turns),
        tuple(dict.fromkeys(_missing(turns))),
        dict(_capture(turns)),
        sum(turn.completeness.late_spans for turn in turns),
    )


def _missing(turns: Sequence[Invocation]) -> Iterator[str]:
    """What the conversation as a whole does not have: what any turn lacks, where it is not enough that one has it."""
    for place, turn in enumerate(turns):
        for name in turn.completeness.missing:
            if (name in _OF_THE_FIRST and place > 0) or (name in _OF_THE_LAST and place < len(turns) - 1):
                continue
            if name in _ONE_IS_ENOUGH and not all(name in other.completeness.missing for other in turns):
                continue
            yield name


def _capture(turns: Sequence[Invocation]) -> Iterator[tuple[str, Capture]]:
    """Paths as they are in the conversation: its tool calls are numbered through, what else its turns lack stands under `turns[…]`."""
    calls = 0
    for place, turn in enumerate(turns):
        for path, why in turn.completeness.capture.items():
            yield _moved(path, place, calls, len(turns)), why
        calls += len(turn.tool_calls)


def _moved(path: str, place: int, calls: int, count: int) -> str:
    found = _CALL.match(path)
    if found is not None:
        return f"tool_calls[{int(found[1]) + calls}]{path[found.end() :]}"
    its_own = place == 0 if re.split(r"[.\[]", path, maxsplit=1)[0] in _OF_THE_FIRST else place == count - 1
    return path if its_own else f"turns[{place}].{path}"


def digest(turns: Iterable[tuple[str, int]]) -> str:
    """What a conversation consists of, as a hash: (id, revision) of its turns in order."""
    made = sha256()
    for place, (name, revision) in enumerate(turns):
        made.update(f"{'' if place == 0 else chr(10)}{name} {revision}".encode(errors="replace"))
    return made.hexdigest()


def merged_attributes(attributes: Iterable[Mapping[str, object]]) -> dict[str, object]:
    """The attributes of all turns; of two of a name the later one."""
    return {key: value for one in attributes for key, value in one.items()}
