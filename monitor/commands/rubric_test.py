"""`rubricd rubric test FILE --min-agreement 0.9`: how well a rubric and its judge agree with labelled examples."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monitor.commands.exits import Exit, not_done, wrong_input
from monitor.commands.printing import json_lines, note, percent, table

if TYPE_CHECKING:
    from monitor.estimation.agreement import Agreement
    from monitor.model.invocation import Invocation
    from monitor.model.verdict import Verdict

HELP = "judge labelled examples and compare: agreement, kappa and AC1, confusion by criterion"
EXAMPLE = "rubricd rubric test labelled.jsonl --rubric booking.yaml -c rubricd.yaml --min-agreement 0.9"
LABELS = ("pass", "fail", "not_applicable")


@dataclass(frozen=True, slots=True)
class Example:
    """An invocation with what people say of it by one rubric; `criteria` are labels or scores by id."""

    rubric: str
    invocation: Invocation
    label: str
    criteria: Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Examples, rubrics, judge, and the gate."""
    parser.add_argument(
        "file", metavar="FILE", type=Path,
        help="JSON Lines: {invocation: {…}, label: pass|fail|not_applicable|unsure, rubric: NAME, criteria: {ID: LABEL_OR_SCORE}}",
    )  # fmt: skip
    parser.add_argument(
        "--rubric",
        metavar="NAME_OR_FILE",
        nargs="+",
        action="extend",
        default=[],
        help="rubrics; names in the examples else",
    )
    parser.add_argument("-c", "--config", metavar="FILE", type=Path, help="configuration with judges and rubrics")
    parser.add_argument("--judge", metavar="NAME", help="a judge of the configuration (default: `default`)")
    parser.add_argument(
        "--min-agreement", metavar="SHARE", type=float, help="exit 1 when a rubric's agreement is below, 0 to 1"
    )
    parser.add_argument(
        "--max-errors", metavar="SHARE", type=float, default=0.05, help="exit 3 above this share of failed evaluations"
    )
    parser.add_argument("--json", action="store_true", help="one rubric or criterion a line")


def command(arguments: argparse.Namespace) -> int:
    """Judge the examples, compare, hold the gate."""
    from monitor.clock import SystemClock
    from monitor.commands.score import configuration_of, judge_of, rubrics_of
    from monitor.offline import Scoring, score

    if arguments.min_agreement is not None and not 0 <= arguments.min_agreement <= 1:
        raise wrong_input(f"--min-agreement {arguments.min_agreement}: is a share from 0 to 1, such as 0.9")
    lines = list(_lines(arguments.file))
    configuration = configuration_of(arguments.config)
    named = arguments.rubric or sorted({line["rubric"] for _, line in lines if isinstance(line.get("rubric"), str)})
    rubrics = {rubric.name: rubric for rubric in rubrics_of(named, configuration)}
    examples = [_example(arguments.file, number, line, list(rubrics)) for number, line in lines]
    if not examples:
        raise wrong_input(f"{arguments.file}: no examples")
    judge = judge_of(arguments.judge, configuration, [one.name for one in rubrics.values() if one.judged])
    verdicts: list[tuple[Example, Verdict]] = []

    async def judged() -> None:
        for name, rubric in rubrics.items():
            mine = [example for example in examples if example.rubric == name]
            scoring = Scoring([example.invocation for example in mine], [rubric], judge)
            verdicts.extend(zip(mine, await score(scoring, SystemClock(), lambda _: None, close=False), strict=True))
        if judge is not None:
            await judge.close()

    asyncio.run(judged())
    return _outcome(arguments, verdicts)


def _lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise wrong_input(f"{file}: cannot be read: {error.strerror}") from error
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                data = json.loads(line)
            except ValueError as error:
                raise wrong_input(f"{file}:{number}: no JSON") from error
            if not isinstance(data, dict):
                raise wrong_input(f"{file}:{number}: a JSON object is expected")
            yield number, data


def _example(file: Path, number: int, line: Mapping[str, Any], rubrics: Sequence[str]) -> Example:
    from monitor.model.wire import InvalidInvocation, invocation_from_json

    name = line.get("rubric", rubrics[0] if len(rubrics) == 1 else None)
    label, criteria = line.get("label"), line.get("criteria") or {}
    if name not in rubrics:
        raise wrong_input(
            f"{file}:{number}: rubric: one of {', '.join(rubrics) or 'no rubrics; name them with --rubric'}"
        )
    if label not in (*LABELS, "unsure") or not isinstance(criteria, Mapping):
        raise wrong_input(f"{file}:{number}: label: one of {', '.join(LABELS)}, unsure; criteria: a map")
    try:
        given = _filled(number, line.get("invocation") or {})
        return Example(name, invocation_from_json(given), label, criteria)
    except InvalidInvocation as error:
        raise wrong_input(f"{file}:{number}: invocation: {error}") from error


def _filled(number: int, given: Mapping[str, Any], place: int = 0) -> Mapping[str, Any]:
    """What an example says of an invocation, with ids and times where it leaves them out; of a conversation so with each of its turns."""
    turns = given.get("turns")
    if isinstance(turns, list) and all(isinstance(turn, Mapping) for turn in turns) and turns:
        filled = [_filled(number, turn, place) for place, turn in enumerate(turns)]
        return {"id": f"conversation:example-{number}", **given, "turns": filled}
    moment = f"2026-01-01T{place // 60 % 24:02d}:{place % 60:02d}:00Z"
    plain = {"id": f"example-{number}-{place}", "trace_id": f"{number:032x}", "started_at": moment, "ended_at": moment}
    return {**plain, **given}


def _outcome(arguments: argparse.Namespace, found: Sequence[tuple[Example, Verdict]]) -> int:
    errors = sum(verdict.judgement.outcome is None for _, verdict in found)
    rows = [row for name in sorted({example.rubric for example, _ in found}) for row in _rows(name, found)]
    if arguments.json:
        json_lines(rows)
    else:
        _table(rows)
    if errors > arguments.max_errors * len(found):
        raise not_done(
            f"{errors} of {len(found)} evaluations failed, more than --max-errors {arguments.max_errors:g} allows"
        )
    below = [
        row["rubric"] for row in rows if row["criterion"] is None and _below(row["agreement"], arguments.min_agreement)
    ]
    if below:
        note(f"rubricd: below --min-agreement {arguments.min_agreement:g}: {', '.join(below)}")
        return Exit.NO
    return Exit.DONE


def _below(agreement: float | None, least: float | None) -> bool:
    return least is not None and (agreement is None or agreement < least)


def _rows(rubric: str, found: Sequence[tuple[Example, Verdict]]) -> Iterator[dict[str, Any]]:
    mine = [(example, verdict) for example, verdict in found if example.rubric == rubric]
    whole = [
        (example.label, verdict.judgement.outcome and verdict.judgement.outcome.value) for example, verdict in mine
    ]
    yield _row(rubric, None, whole, LABELS)
    for id_ in sorted({id_ for example, _ in mine for id_ in example.criteria}):
        pairs = [
            (_word(example.criteria[id_]), _said(verdict, id_)) for example, verdict in mine if id_ in example.criteria
        ]
        words = (*LABELS, *sorted({word for pair in pairs for word in pair if word and word not in LABELS}))
        yield _row(rubric, id_, pairs, words)


def _word(label: Any) -> str:
    """A label as it is compared: words as they are, scores as numbers."""
    if isinstance(label, bool):
        return "pass" if label else "fail"
    return (
        f"{label:g}" if isinstance(label, (int, float)) else {"yes": "pass", "no": "fail"}.get(str(label), str(label))
    )


def _said(verdict: Verdict, id_: str) -> str | None:
    """What the judge said of a criterion: a score where there is a scale, else pass or fail."""
    criterion = next((one for one in verdict.judgement.criteria if one.id == id_), None)
    if criterion is None:
        return None
    if not criterion.applicable or criterion.score is None:
        return "not_applicable"
    if criterion.weight is None and criterion.score in (0.0, 1.0) and verdict.judgement.score_range == (0.0, 1.0):
        return "pass" if criterion.score else "fail"
    return f"{criterion.score:g}"


def _row(
    rubric: str, criterion: str | None, pairs: Sequence[tuple[str, str | None]], words: Sequence[str]
) -> dict[str, Any]:
    """Compared are examples that people were sure of and that were judged; the rest is counted."""
    from monitor.estimation.agreement import agreement

    compared = [(label, said) for label, said in pairs if label in words and said in words]
    cells = [[sum(pair == (label, said) for pair in compared) for said in words] for label in words]
    found: Agreement = agreement(cells)
    confusion = {
        label: {said: count for said, count in zip(words, row, strict=True) if count}
        for label, row in zip(words, cells, strict=True)
    }
    return {
        "rubric": rubric, "criterion": criterion, "examples": len(pairs), "compared": len(compared), "agreement": found.agreement,
        "kappa": found.kappa, "ac1": found.ac1, "confusion": {label: row for label, row in confusion.items() if row},
    }  # fmt: skip


def _table(rows: Sequence[Mapping[str, Any]]) -> None:
    def number(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    shown = [
        (
            row["rubric"], row["criterion"] or "", f"{row['compared']} of {row['examples']}", percent(row["agreement"]), number(row["kappa"]),
            number(row["ac1"]), "; ".join(f"{label}→{said}: {n}" for label, saids in row["confusion"].items() for said, n in saids.items() if said != label),
        )
        for row in rows
    ]  # fmt: skip
    columns = ("rubric", "criterion", "compared", "agreement", "kappa", "AC1", "people → judge, where they differ")
    table("", columns, shown, right=columns[2:6])
