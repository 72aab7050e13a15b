"""The labelled text form of a reply: blocks of `ID:`, `Property:`, `Evidence:`, `Reasoning:`, `Verdict:` (or `Score:`) lines. Pure.

Labels count at the start of a line only, in any case, bold, bulleted, with or without a blank; a label quoted inside a line does not. A
block is read by itself: a verdict never moves to another criterion. A block without its verdict answers nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from monitor.model.verdict import ErrorType
from monitor.rubrics.kinds.answers import bare
from monitor.rubrics.kinds.kind import ReplyFault

_LABELS = {
    "id": "id",
    "property": "text",
    "dimension": "text",
    "criterion": "text",
    "evidence": "evidence",
    "rationale": "reasoning",
    "reasoning": "reasoning",
    "reason": "reasoning",
    "explanation": "reasoning",
    "verdict": "verdict",
    "score": "score",
    "grade": "score",
}
_LINE = re.compile(
    r"[ \t]*(?:[-*•][ \t]+|\d{1,3}[.)][ \t]+)?[*_#`]{0,3}[ \t]*(?P<label>"
    + "|".join(_LABELS)
    + r")[*_`]{0,3}[ \t]*[:：][*_`]{0,3}(?P<value>.*)",
    re.IGNORECASE,
)
_ENDS = frozenset({"verdict", "score"})
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-"})

Block = dict[str, str]


def labelled_items(
    text: str, criteria: Mapping[str, str], quoted: Callable[[str], bool]
) -> Mapping[str, Mapping[str, Any]] | ReplyFault:
    """The parts of the reply by criterion id; empty when the text has no labels.

    `quoted` tells whether a verdict line is found in the judged text. A criterion answered twice, with different answers, is a fault.
    """
    found: dict[str, Block] = {}
    for block in _blocks(text):
        if not _ENDS & block.keys():
            continue
        if _said_twice in block:
            return ReplyFault(ErrorType.UNPARSEABLE, "a block has two verdicts that disagree")
        id_ = _criterion(block, criteria)
        if id_ is None:
            continue
        if quoted(block["line"]):
            return ReplyFault(ErrorType.UNPARSEABLE, "the only verdict is a quotation")
        earlier = found.setdefault(id_, block)
        if any(bare(earlier.get(end, "")) != bare(block.get(end, "")) for end in _ENDS):
            return ReplyFault(ErrorType.UNPARSEABLE, f"{id_}: two verdicts that disagree")
    return {id_: _item(block) for id_, block in found.items()}


_said_twice = "said twice"


def _item(block: Block) -> dict[str, Any]:
    return {key: block[key] for key in ("evidence", "reasoning", "verdict", "score") if key in block}


def _blocks(text: str) -> Iterator[Block]:
    block: Block = {}
    last = ""
    for line in text.splitlines():
        match = _LINE.match(line)
        if match is None:
            if last and last not in _ENDS and last != "id" and line.strip():
                block[last] = f"{block[last]}\n{line.strip()}".strip()
            continue
        last, value = _LABELS[match["label"].lower()], match["value"].strip()
        if _begins(last, block):
            yield block
            block = {}
        if last in _ENDS:
            if last in block and bare(block[last]) != bare(value):
                block[_said_twice] = value
            block["line"] = line
        block[last] = value if last in _ENDS or last not in block or last == "id" else f"{block[last]}\n{value}"
    yield block


def _begins(label: str, block: Block) -> bool:
    """Whether the label begins a new block: an id or a criterion's text after a verdict, or one given again."""
    if label == "id":
        return bool(_ENDS & block.keys()) or ("id" in block and len(block) > 1)
    return label == "text" and (bool(_ENDS & block.keys()) or "text" in block)


def _criterion(block: Block, criteria: Mapping[str, str]) -> str | None:
    id_ = block.get("id", "").strip(" \t*_`\"'[]().,")
    if id_ in criteria:
        return id_
    if "text" in block:
        text = normalised(block["text"])
        return next(
            (known for known, its_text in criteria.items() if text in (normalised(its_text), normalised(known))), None
        )
    return next(iter(criteria)) if len(criteria) == 1 and not id_ else None


def normalised(text: str) -> str:
    """A criterion's text as judges echo it: NFKC, plain quotes and dashes, single blanks, no marks at the ends, lower case."""
    plain = unicodedata.normalize("NFKC", text).translate(_QUOTES)
    return " ".join(plain.split()).strip(" *_`#>-•\"'").lower()
