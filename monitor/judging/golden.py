"""A golden set: invocations with known answers, frozen, that judges are asked about on a schedule."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from monitor.model.invocation import Invocation
from monitor.model.wire import InvalidInvocation, invocation_from_json

_LABELS = ("pass", "fail")
_KEYS = frozenset({"id", "rubric", "label", "invocation"})


class GoldenFault(ValueError):
    """A line of a golden set that cannot be used; the message names the line and what would be right."""


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One case: its key within the set, the rubric it is judged by, the answer that is right, and the invocation."""

    key: str
    rubric: str
    label: str
    invocation: Invocation


def read_golden(text: str) -> list[GoldenCase]:
    """The cases of a file of JSON Lines, one `{"rubric": …, "label": "pass" or "fail", "invocation": {…}}` each, with an `id` where wanted.

    Raises GoldenFault for the first line that is wrong.
    """
    cases = list(_cases(text))
    keys = [(case.rubric, case.key) for case in cases]
    repeated = next((key for place, key in enumerate(keys) if key in keys[:place]), None)
    if repeated is not None:
        raise GoldenFault(f"id {repeated[1]!r} is given twice for rubric {repeated[0]}; each case needs its own")
    if not cases:
        raise GoldenFault("it holds no case")
    return cases


def _cases(text: str) -> Iterator[GoldenCase]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield _case(number, line)


def _case(number: int, line: str) -> GoldenCase:
    try:
        given: Any = json.loads(line)
    except ValueError:
        raise GoldenFault(f"line {number}: is no JSON object") from None
    if not isinstance(given, dict) or not isinstance(given.get("rubric"), str):
        raise GoldenFault(f"line {number}: should be an object with rubric, label and invocation")
    unknown = sorted(given.keys() - _KEYS)
    if unknown:
        raise GoldenFault(f"line {number}: {unknown[0]!r} is no key here; the keys are {', '.join(sorted(_KEYS))}")
    if given.get("label") not in _LABELS:
        raise GoldenFault(f"line {number}: label should be pass or fail")
    if not isinstance(given.get("invocation"), dict):
        raise GoldenFault(f"line {number}: invocation should be an object as `rubricd reconstruct --json` prints it")
    try:
        invocation = invocation_from_json(given["invocation"])
    except InvalidInvocation as error:
        raise GoldenFault(f"line {number}: invocation: {error}") from None
    return GoldenCase(str(given.get("id", invocation.id)), given["rubric"], given["label"], invocation)
