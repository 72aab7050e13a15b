"""`rubricd rubric import --from adk|foundry|azure FILE`: rubrics and results of other systems."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from monitor.commands.exits import Exit, wrong_input
from monitor.commands.printing import json_lines, note, percent, say, table

if TYPE_CHECKING:
    from monitor.rubrics.importing.azure import AzureResult

HELP = "rubrics of Google ADK or Microsoft Foundry as a rubric file; results of azure-ai-evaluation as verdicts, for comparison"
EXAMPLE = "rubricd rubric import --from foundry evaluator.json -o rubrics/booking.yaml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where from, and where to."""
    parser.add_argument(
        "--from", dest="system", choices=("adk", "foundry", "azure"), required=True, help="whose file it is"
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="JSON (azure: results file, or JSON Lines)")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="write the rubrics there; never overwrites")
    parser.add_argument("--json", action="store_true", help="azure: one verdict or error a line")


def command(arguments: argparse.Namespace) -> int:
    """Read, convert, check, print."""
    from monitor.rubrics.importing.imported import NotImportable

    data = _read(arguments.file)
    try:
        if arguments.system == "azure":
            return _results(data, arguments.json)
        documents, remarks = _rubrics(arguments.system, data)
    except NotImportable as error:
        raise wrong_input(f"{arguments.file}: {error}") from error
    for remark in remarks:
        note(f"rubricd: {remark}")
    if not documents:
        raise wrong_input(f"{arguments.file}: no rubric could be imported")
    write_rubrics(documents, arguments.output)
    return Exit.DONE


def _read(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise wrong_input(f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise wrong_input(f"{file}: neither JSON nor JSON Lines") from error


def _rubrics(system: str, data: Any) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
    from monitor.rubrics.importing.adk import from_adk
    from monitor.rubrics.importing.foundry import from_foundry

    found = from_adk(data) if system == "adk" else from_foundry(data)
    return found.documents, found.remarks


def rubric_text(documents: Sequence[Mapping[str, Any]]) -> str:
    """The documents as a rubric file. Ends the command when one would not be read again."""
    import yaml

    from monitor.rubrics.files import read_text
    from monitor.settings.document import ConfigurationError

    text = "---\n".join(yaml.safe_dump(dict(one), sort_keys=False, allow_unicode=True, width=120) for one in documents)
    try:
        read_text(text, "imported")
    except ConfigurationError as error:
        raise wrong_input(str(error)) from error
    return text


def write_rubrics(documents: Sequence[Mapping[str, Any]], output: Path | None) -> None:
    """Print a rubric file, or write it where nothing is yet."""
    text = rubric_text(documents)
    if output is None:
        say(text.rstrip())
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise wrong_input(f"{output}: is there already; name another file") from error
    except OSError as error:
        raise wrong_input(f"{output}: cannot be written: {error.strerror}") from error
    note(f"rubricd: wrote {len(documents)} rubrics to {output}; review them before use")


def _results(data: Any, as_json: bool) -> int:
    from monitor.rubrics.importing.azure import results, rows_of

    found = [(number, result) for number, row in enumerate(rows_of(data), start=1) for result in results(row)]
    if not found:
        raise wrong_input("no results of azure-ai-evaluation: expected keys such as `relevance_result`")
    if as_json:
        json_lines(_result_json(number, result) for number, result in found)
    else:
        _result_table([result for _, result in found])
    return Exit.DONE


def _result_json(row: int, result: AzureResult) -> dict[str, Any]:
    error = {"type": result.error.value, "message": result.message} if result.error else None
    return {
        "row": row, "rubric": result.evaluator, "verdict": result.outcome and result.outcome.value, "score": result.score,
        "threshold": result.threshold, "explanation": result.reason, "error": error,
    }  # fmt: skip


def _result_table(found: Sequence[AzureResult]) -> None:
    rows = []
    for name in sorted({result.evaluator for result in found}):
        outcomes = [result.outcome for result in found if result.evaluator == name]
        counts = [outcomes.count(outcome) for outcome in _columns()]
        judged = counts[0] + counts[1]
        rows.append((name, percent(counts[0] / judged if judged else None), *counts, outcomes.count(None)))
    columns = ("evaluator", "pass rate", "pass", "fail", "not applicable", "errors")
    table("", columns, rows, right=columns[1:])


def _columns() -> tuple[Any, ...]:
    from monitor.model.verdict import Outcome

    return Outcome.PASS, Outcome.FAIL, Outcome.NOT_APPLICABLE
