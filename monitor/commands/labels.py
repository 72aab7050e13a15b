"""`rubricd labels sample | import | report`: people's labels of a running daemon's verdicts, and what they say of the judge."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from monitor.commands.client import Server, add_server_arguments
from monitor.commands.exits import CommandFailed, Exit, wrong_input
from monitor.commands.printing import json_lines, note, percent, say

COLUMNS = ("draw_id", "invocation_id", "rubric", "user_input", "final_response", "label", "labeler", "comment")
SENT = ("draw_id", "invocation_id", "rubric", "label", "labeler", "comment")
LABELS = ("pass", "fail", "not_applicable", "unsure")
BATCH = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, with what, and the server."""
    parser.epilog = (
        "example: rubricd labels sample --monitor default --rubric booking --size 100 > to-label.csv\n"
        "         rubricd labels import labelled.csv --labeler ada\n"
        "         rubricd labels report"
    )
    parser.add_argument("action", choices=("sample", "import", "report"), help="draw, take in, or tell")
    parser.add_argument("file", metavar="FILE", nargs="?", type=Path, help="for import: CSV or JSON Lines")
    parser.add_argument("--monitor", metavar="NAME", help="the monitor (sample: needed)")
    parser.add_argument("--rubric", metavar="NAME", help="the rubric (sample: needed)")
    parser.add_argument(
        "--size", metavar="N", type=int, default=100, help="sample: how many (default: 100, at most 1000)"
    )
    parser.add_argument(
        "--since", metavar="T", default="7d", help="sample: ended since, a time or a duration (default: 7d)"
    )
    parser.add_argument("--labeler", metavar="NAME", help="import: who labelled, where the file does not say")
    parser.add_argument(
        "--json", action="store_true", help="JSON Lines: one invocation, refused label or rubric a line"
    )
    add_server_arguments(parser)


def command(arguments: argparse.Namespace) -> int:
    """Do it; report ends with 1 where nothing was labelled, import with 1 where labels were refused."""
    server = Server(arguments.server, arguments.token_file)
    if arguments.action == "sample":
        return _sample(server, arguments)
    if arguments.action == "import":
        return _import(server, arguments)
    return _report(server, arguments)


# -- sample
def _sample(server: Server, arguments: argparse.Namespace) -> int:
    if not arguments.monitor or not arguments.rubric:
        raise wrong_input("labels sample: write --monitor NAME and --rubric NAME; `rubricd status` lists both")
    answer = server.request(
        "POST", "/api/v1/labels/draws", monitor=arguments.monitor, rubric=arguments.rubric, size=arguments.size,
        since=arguments.since,
    )  # fmt: skip
    items = server.items_of(answer)
    if not items:
        raise CommandFailed(Exit.NO, "nothing of that monitor and rubric has passed or failed in that time")
    if arguments.json:
        json_lines(items)
    else:
        sys.stdout.write(_as_csv(items))
    note(f"{len(items)} invocations drawn; fill in label ({', '.join(LABELS)}), then `rubricd labels import FILE`")
    return Exit.DONE


def _as_csv(items: Iterable[Mapping[str, Any]]) -> str:
    """CSV as spreadsheets read it; a text that one would run as a formula gets a quote in front."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for item in items:
        writer.writerow({column: _harmless(item.get(column)) for column in COLUMNS})
    return out.getvalue()


def _harmless(value: Any) -> str:
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


# -- import
def _import(server: Server, arguments: argparse.Namespace) -> int:
    if arguments.file is None:
        raise wrong_input("labels import: write the FILE that was filled in")
    labels = list(_read(arguments.file, arguments.labeler))
    if not labels:
        raise wrong_input(f"{arguments.file}: no row has a label; write one of {', '.join(LABELS)}")
    taken, refused = 0, []
    for begin in range(0, len(labels), BATCH):
        batch = labels[begin : begin + BATCH]
        answer = server.request("POST", "/api/v1/labels", {"items": [label for _, label in batch]})
        try:
            taken += answer["taken"]
            refused += [{"line": batch[one["item"]][0], "reason": one["reason"]} for one in answer["refused"]]
        except (TypeError, KeyError, IndexError) as error:
            raise server.stranger() from error
    if arguments.json:
        json_lines(refused)
    for one in refused:
        note(f"{arguments.file}:{one['line']}: {one['reason']}")
    if not arguments.json:
        say(f"{taken} labels taken" + (f", {len(refused)} refused" if refused else ""))
    return Exit.NO if refused else Exit.DONE


def _read(file: Path, labeler: str | None) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, label) of each row that has one; JSON Lines where the file begins with a brace, else CSV."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise wrong_input(f"{file}: cannot be read: {reason}") from error
    rows = _json_rows(file, text) if text.lstrip().startswith("{") else _csv_rows(file, text)
    for line, row in rows:
        label = str(row.get("label") or "").strip().lower()
        if not label:
            continue
        if label not in LABELS:
            raise wrong_input(f"{file}:{line}: label: should be one of {', '.join(LABELS)}")
        found = {
            key: str(row.get(key) or "").removeprefix("'") if key != "comment" else str(row.get(key) or "")
            for key in SENT
        }
        yield line, {**found, "label": label, "labeler": found["labeler"] or labeler or ""}


def _json_rows(file: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, content in enumerate(text.splitlines(), 1):
        if content.strip():
            try:
                row = json.loads(content)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise wrong_input(f"{file}:{line}: is no JSON object")
            yield line, row


def _csv_rows(file: Path, text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    dialect = "excel" if text.partition("\n")[0].count(",") >= text.partition("\n")[0].count(";") else "semicolons"
    reader = csv.DictReader(io.StringIO(text), delimiter="," if dialect == "excel" else ";")
    missing = [column for column in ("invocation_id", "rubric", "label") if column not in (reader.fieldnames or ())]
    if missing:
        raise wrong_input(f"{file}:1: has no column {missing[0]}; the columns are {', '.join(COLUMNS)}")
    begins = reader.line_num + 1
    for row in reader:
        yield begins, row
        begins = reader.line_num + 1  # a row with line breaks in a text takes several lines, and is known by its first


# -- report
def _report(server: Server, arguments: argparse.Namespace) -> int:
    found = server.items("/api/v1/labels/report", monitor=arguments.monitor, rubric=arguments.rubric)
    if arguments.json:
        json_lines(found)
        return Exit.DONE if found else Exit.NO
    if not found:
        raise CommandFailed(Exit.NO, "nothing has been labelled yet; `rubricd labels sample` draws what to label")
    for one in found:
        _print(one)
    return Exit.DONE


def _print(one: Mapping[str, Any]) -> None:
    say(f"{one['monitor']} / {one['rubric']}: {one['labels']} labelled ({one['drawn']} drawn, {one['unsure']} unsure)")
    agreement = one["agreement"]
    kappa, ac1 = (_two(agreement[key]) for key in ("kappa", "ac1"))
    say(f"  agreement {percent(agreement['agreement'])}, kappa {kappa}, AC1 {ac1}")
    for name in ("sensitivity", "specificity"):
        say(f"  {name} {_with_bounds(one[name])}" + (f", of {one[name]['n']:.0f}" if one[name] else ""))
    say(f"  pass rate as judged {_with_bounds(one['observed'])}")
    if one["powered"]:
        say(f"  pass rate as people would judge (prediction-powered) {_rate(one['powered'])}")
    if one["corrected"]:
        say(f"  pass rate corrected for the judge's errors (Rogan and Gladen) {_rate(one['corrected'])}")
    elif one["refused"]:
        say(f"  not corrected: {one['refused']}")
    if one["disagreements"]:
        say(f"  the judge differs on {len(one['disagreements'])}: `--json` lists them")


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _with_bounds(rate: Mapping[str, Any] | None) -> str:
    return _interval(rate["value"], rate["interval"]) if rate else "–"


def _rate(found: Mapping[str, Any]) -> str:
    return _interval(found["rate"], found["interval"])


def _interval(rate: float, interval: list[float]) -> str:
    return f"{percent(rate)} ({percent(interval[0])} to {percent(interval[1])})"
