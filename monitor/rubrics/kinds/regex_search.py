"""Search of a pattern in a text in time linear in the text, whatever the pattern: agents write the text, and may write it against us.

Thompson's simulation of a non-deterministic automaton, with the sets of states kept (Cox, "Regular Expression Matching Can Be
Simple And Fast", 2007). Python's `re` backtracks and holds the interpreter lock meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from monitor.rubrics.kinds.regex_syntax import (
    Anchor,
    CharSet,
    Choice,
    Node,
    PatternError,
    Repeat,
    Sequence,
    is_word,
    parse,
)

MAX_PROGRAM = 5000
_MAX_CACHED_STEPS = 20_000


@dataclass(frozen=True, slots=True)
class _Jump:
    """Go on at all of these places."""

    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """Go on at the next place if the anchor holds here."""

    anchor: Anchor


Instruction = CharSet | _Jump | _Place | None
"""None is the end: a match."""

_NO_FLAGS = (False, False, False, False, False)


class LinearPattern:
    """A compiled pattern. Raises PatternError for what `regex_syntax` refuses and for patterns that are too large."""

    def __init__(self, pattern: str) -> None:
        self._program: list[Instruction] = []
        self._emit(parse(pattern))
        self._program.append(None)
        self._anchored = any(isinstance(instruction, _Place) for instruction in self._program)
        self._steps: dict[tuple[frozenset[int], str, tuple[bool, ...]], tuple[frozenset[int], bool]] = {}

    def found_in(self, text: str) -> bool:
        """Whether the pattern matches anywhere in the text."""
        states: frozenset[int] = frozenset((0,))
        for index in range(len(text) + 1):
            char = text[index : index + 1]
            flags = self._flags(text, index) if self._anchored else _NO_FLAGS
            key = (states, char, flags)
            step = self._steps.get(key)
            if step is None:
                step = self._step(states, char, flags)
                if len(self._steps) >= _MAX_CACHED_STEPS:
                    self._steps.clear()
                self._steps[key] = step
            states, matched = step
            if matched:
                return True
        return False

    @staticmethod
    def _flags(text: str, index: int) -> tuple[bool, ...]:
        """At the start; at the end; before a final line break; after a line break; between a word character and none."""
        size = len(text)
        before = index > 0 and is_word(text[index - 1])
        after = index < size and is_word(text[index])
        final = index == size - 1 and text[index] == "\n"
        return index == 0, index == size, final, index > 0 and text[index - 1] == "\n", before != after

    def _step(self, states: frozenset[int], char: str, flags: tuple[bool, ...]) -> tuple[frozenset[int], bool]:
        reached: set[int] = {0}
        seen: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state in seen:
                continue
            seen.add(state)
            instruction = self._program[state]
            if instruction is None:
                return frozenset(reached), True
            if isinstance(instruction, _Jump):
                waiting.extend(instruction.targets)
            elif isinstance(instruction, _Place):
                if _holds(instruction.anchor, char, flags):
                    waiting.append(state + 1)
            elif char and instruction.matches(char):
                reached.add(state + 1)
        return frozenset(reached), False

    def _emit(self, node: Node) -> None:
        if len(self._program) > MAX_PROGRAM:
            raise PatternError("the pattern is too large: its counted repeats unroll to more than 5000 steps")
        if isinstance(node, CharSet):
            self._program.append(node)
        elif isinstance(node, Anchor):
            self._program.append(_Place(node))
        elif isinstance(node, Sequence):
            for part in node.parts:
                self._emit(part)
        elif isinstance(node, Choice):
            self._emit_choice(node)
        else:
            self._emit_repeat(node)

    def _emit_choice(self, node: Choice) -> None:
        fork = len(self._program)
        self._program.append(None)
        starts, ends = [], []
        for branch in node.branches:
            starts.append(len(self._program))
            self._emit(branch)
            ends.append(len(self._program))
            self._program.append(None)
        self._program[fork] = _Jump(tuple(starts))
        for end in ends:
            self._program[end] = _Jump((len(self._program),))

    def _emit_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self._emit(node.body)
        if node.most is None:
            fork = len(self._program)
            self._program.append(None)
            self._emit(node.body)
            self._program.append(_Jump((fork,)))
            self._program[fork] = _Jump((fork + 1, len(self._program)))
            return
        forks = []
        for _ in range(node.most - node.least):
            forks.append(len(self._program))
            self._program.append(None)
            self._emit(node.body)
        for fork in forks:
            self._program[fork] = _Jump((fork + 1, len(self._program)))


def _holds(anchor: Anchor, char: str, flags: tuple[bool, ...]) -> bool:
    start, end, before_final_break, after_break, edge = flags
    match anchor:
        case Anchor.START:
            return start
        case Anchor.END:
            return end
        case Anchor.LINE_START:
            return start or after_break
        case Anchor.LINE_END:
            return end or char == "\n"
        case Anchor.FINAL_LINE_END:
            return end or before_final_break
        case Anchor.WORD_EDGE:
            return edge
    return not edge


@lru_cache(maxsize=256)
def compiled(pattern: str) -> LinearPattern:
    """The compiled pattern, kept for the next call. Raises PatternError."""
    return LinearPattern(pattern)
