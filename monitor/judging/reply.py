"""Reading a judge's reply, tolerant of form and strict of meaning. Pure.

Forms, in this order: the whole reply is one JSON object (then nothing else is read); JSON objects that stand on lines of their own,
fenced or not, of which the last one counts; labelled text (`Verdict: yes`). What a judge quotes from the judged text is no verdict:
an object inside a line or a block quote, or one whose characters are found in what was judged, is not believed, and two objects
that disagree are no answer at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from monitor.judging.labelled import labelled_items
from monitor.model.verdict import ErrorType
from monitor.rubrics.kinds.kind import JudgedKind, ReplyFault, Sample

MAX_REPLY = 200_000
"""Characters; a longer reply is no answer to a question of this kind."""

_MAX_BROKEN_OBJECTS = 200
_VERDICT_KEYS = frozenset({"verdict", "score"})
_VERDICT_WORDS = (*_VERDICT_KEYS, "grade")
_THINKING = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_LINE_BEFORE = re.compile(r"[ \t]*(?:```[ \t]*\w*[ \t]*)?")
_LINE_AFTER = re.compile(r"[ \t]*(?:```[ \t]*)?")
_SQUASHED = re.compile(r"[\s\\]+")
_REFUSAL = re.compile(
    r"\W*(?:i\W?m (?:very |so )?sorry|sorry\b|(?:unfortunately,? )?i (?:can\W?t|can ?not|won\W?t|will not|am (?:not able|unable))\b)",
    re.IGNORECASE,
)
_LONGEST_REFUSAL = 1500


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked: the kind with its rubric, and the text that the judge was shown of the invocation."""

    kind: JudgedKind
    spec: Any
    judged_text: str = ""

    def read(self, reply: Mapping[str, Any]) -> Sample | ReplyFault:
        """What one JSON object means."""
        return self.kind.read(self.spec, reply)

    def quoted(self, text: str) -> bool:
        """Whether the text, but for blanks, escapes and case, is found in what was judged."""
        judged = self.judged_text.casefold()
        if not any(word in judged for word in _VERDICT_WORDS):
            return False
        return _SQUASHED.sub("", text.casefold()) in _SQUASHED.sub("", judged)


@dataclass(frozen=True, slots=True)
class _Found:
    """A JSON object in the reply: its text, and whether it stands on lines of its own."""

    data: Mapping[str, Any]
    text: str
    alone: bool
    whole: bool


class _GivenTwice(ValueError):
    """A key is given twice with different values: which one counts?"""


def read_reply(text: str | None, question: Question) -> Sample | ReplyFault:
    """The answers of a reply, or why it has none. Never raises."""
    reply = _THINKING.sub("", (text or "").lstrip("\ufeff"), count=1).strip()
    if not reply:
        return ReplyFault(ErrorType.EMPTY_REPLY, "the reply is empty")
    if len(reply) > MAX_REPLY:
        return ReplyFault(ErrorType.UNPARSEABLE, f"the reply is longer than {MAX_REPLY} characters")
    try:
        found = list(_objects(reply))
    except _GivenTwice:
        return ReplyFault(ErrorType.UNPARSEABLE, "a key is given twice in one object, with different values")
    if found and found[0].whole:
        return _believed(found, question)
    shaped = [item for item in found if _is_verdict(item.data, question) and not question.quoted(item.text)]
    if shaped:
        believed = _believed(shaped, question)
        if not isinstance(believed, ReplyFault) and _labels_say_otherwise(reply, found, question, believed):
            return ReplyFault(ErrorType.UNPARSEABLE, "the reply has two verdicts that disagree")
        return believed
    return _labelled(reply, question)


def _believed(found: Sequence[_Found], question: Question) -> Sample | ReplyFault:
    """The last object that stands alone, unless another one that can be read says otherwise."""
    alone = [item for item in found if item.alone and not question.quoted(item.text)]
    if not alone:
        return ReplyFault(ErrorType.UNPARSEABLE, "the only verdict is a quotation")
    last = question.read(alone[-1].data)
    rest = [item for item in found if item is not alone[-1]]
    others = [sample for item in rest if not isinstance(sample := question.read(item.data), ReplyFault)]
    if not isinstance(last, ReplyFault) and any(_values(other) != _values(last) for other in others):
        return ReplyFault(ErrorType.UNPARSEABLE, "the reply has two verdicts that disagree")
    return last


def _labels_say_otherwise(reply: str, found: Sequence[_Found], question: Question, believed: Sample) -> bool:
    """Whether labelled text beside the objects has another verdict."""
    for item in found:
        reply = reply.replace(item.text, "")
    items = labelled_items(reply, question.kind.criteria(question.spec), question.quoted)
    if isinstance(items, ReplyFault) or not items:
        return False
    said = question.read(question.kind.labelled(items))
    return not isinstance(said, ReplyFault) and _values(said) != _values(believed)


def _values(sample: Sample) -> dict[str, tuple[type, Any]]:
    return {id_: (type(answer.value), answer.value) for id_, answer in sample.items()}


def _is_verdict(data: Mapping[str, Any], question: Question) -> bool:
    """Whether an object looks like a verdict: it has the key of this rubric's replies, or one of the usual keys."""
    keys = _VERDICT_KEYS | question.kind.reply_schema(question.spec)["properties"].keys()
    return bool((keys - {"evidence", "reasoning"}) & data.keys())


def _objects(text: str) -> Iterator[_Found]:
    decoder = json.JSONDecoder(object_pairs_hook=_unique, strict=False)
    at, broken = text.find("{"), 0
    while at >= 0 and broken < _MAX_BROKEN_OBJECTS:
        try:
            data, end = decoder.raw_decode(text, at)
        except _GivenTwice:
            raise
        except (ValueError, RecursionError):
            broken += 1
            at = text.find("{", at + 1)
            continue
        yield _Found(data, text[at:end], _alone(text, at, end), at == 0 and end == len(text))
        at = text.find("{", end)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise _GivenTwice(key)
        found[key] = value
    return found


def _alone(text: str, start: int, end: int) -> bool:
    """Whether nothing but a fence stands on the lines of text[start:end]."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    stop = text.find("\n", end)
    after = text[end : stop if stop >= 0 else len(text)]
    return bool(_LINE_BEFORE.fullmatch(before) and _LINE_AFTER.fullmatch(after))


def _labelled(reply: str, question: Question) -> Sample | ReplyFault:
    items = labelled_items(reply, question.kind.criteria(question.spec), question.quoted)
    if isinstance(items, ReplyFault):
        return items
    if items:
        return question.read(question.kind.labelled(items))
    if len(reply) <= _LONGEST_REFUSAL and _REFUSAL.match(reply):
        return ReplyFault(ErrorType.REFUSED, "the judge declined in words")
    return ReplyFault(ErrorType.UNPARSEABLE, "the reply has no JSON object and no labelled text")
